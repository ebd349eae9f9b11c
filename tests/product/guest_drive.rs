//! Drives on a kernel with nbd, and growing, which needs full root rights: in User Mode Linux.

use crate::bench::{Bench, Machine, assert_ext4_clean, kill, run};
use crate::guest::{assert_guest, in_guest};
use crate::writer::{Writer, verify};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Half of it is for files: stores, and journals in files of 64 MiB.
const MEMORY: &[&str] = &["-m", "2G"];

#[test]
fn an_nbd_mount_survives_daemons_killed_under_load() {
    in_guest(&[MEMORY, &["-k", "nbd"]].concat(), "guest_drive::guest_killed_daemons");
}

#[test]
fn a_mounted_drive_grows_under_load() {
    in_guest(&[MEMORY, &["-k", "nbd", "-k", "fuse", "-k", "loop"]].concat(), "guest_drive::guest_resize");
}

/// Copies the closed drive `d` to a file.
pub fn copy_drive(machine: &Machine, to: &Path) {
    let socket = machine.dir.join("copy.sock").display().to_string();
    let mut serving = machine
        .command(&["drive", "serve", "d", "--socket", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    run("nbdcopy", &[&format!("nbd+unix:///?socket={socket}"), &to.display().to_string()]);
    serving.kill().unwrap();
    serving.wait().unwrap();
}

/// Opens it with `mode`. Nbd is the first choice.
fn open(machine: &Machine, mode: &str) {
    let at = machine.mountpoint().display().to_string();
    let choice: &[&str] = if mode == "nbd" { &[] } else { &["--attach", mode] };
    let opened = machine.ok(&[&["drive", "open", "d", "--at", &at], choice].concat());
    assert_eq!(opened["attach"], mode);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_killed_daemons() {
    assert_guest();
    let bench = Bench::new();
    let machine = bench.with_drive();
    open(&machine, "nbd");
    let path = machine.mountpoint().join("records");
    let writer = Writer::start(&path);
    let mut killed = Vec::new();
    for round in 0..3 {
        writer.progress(5);
        killed.push(machine.pid());
        if round == 1 {
            // In the middle of an upload, too.
            machine.begin(&["drive", "sync", "d"]).abandon();
        }
        kill(*killed.last().unwrap());
        let status = machine.taken_up();
        assert!(matches!(status["state"].as_str(), Some("Ready" | "Syncing")), "{status}");
        assert_eq!(status["attach"], "nbd");
        assert!(!killed.contains(&(status["daemon_pid"].as_i64().unwrap() as i32)));
        writer.progress(5);
    }
    let written = writer.stop();
    machine.close();
    let image = bench.path("image");
    copy_drive(&machine, &image);
    assert_ext4_clean(&image);
    open(&machine, "nbd");
    verify(&path, written);
    machine.close();
    machine.assert_checked();
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_resize() {
    assert_guest();
    for mode in ["nbd", "loop"] {
        let bench = Bench::new();
        let machine = bench.machine("a");
        let create = ["drive", "create", "d", "--store", &bench.store(), "--size", "64M", "--no-encryption"];
        machine.ok(&create);
        open(&machine, mode);
        let total = || {
            let stat = rustix::fs::statvfs(machine.mountpoint()).unwrap();
            stat.f_blocks * stat.f_frsize
        };
        let before = total();
        let path = machine.mountpoint().join("records");
        let writer = Writer::start(&path);
        writer.progress(3);
        machine.ok(&["drive", "resize", "d", "256M"]);
        assert!(total() > 3 * before, "{mode}: {before} and then {}", total());
        writer.progress(3);
        assert_eq!(machine.fails(&["drive", "resize", "d", "64M"]), (2, "usage".into()), "it only grows");
        let written = writer.stop();
        machine.close();
        assert_eq!(machine.status()["size_bytes"], 256 << 20);

        // Opened from the store alone, it has the same size.
        let other = bench.machine("b");
        other.ok(&["drive", "add", "d", "--store", &bench.store()]);
        open(&other, mode);
        verify(&other.mountpoint().join("records"), written);
        other.close();
        assert_eq!(other.status()["size_bytes"], 256 << 20);
        other.assert_checked();
    }
}
