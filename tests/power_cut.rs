//! A power cut between a confirmed fsync and the push, on the real kernel: the whole product in User Mode Linux, with
//! the kernel's nbd, and a disk image that keeps what the guest had handed to it. Tests named `guest_` are ignored where
//! they are listed: the others start a guest kernel and run them there.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DISK: &str = "/tmp/disk";
const MOUNTPOINT: &str = "/tmp/drive";
/// Files that are written, each with an fsync; the power is cut somewhere in the middle.
const FILES: u32 = 40;

fn guest(disk: &Path, pidfile: &Path, test: &str) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uml/run.sh");
    let mut command = Command::new(script);
    command.args(["-k", "nbd", "-t", "240", "-d"]).arg(disk).arg("-p").arg(pidfile).arg("--");
    command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", "--nocapture", test]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("sh runs the script")
}

#[test]
fn what_was_fsynced_is_there_after_a_power_cut_though_nothing_was_pushed() {
    let dir = tempfile::Builder::new().prefix("holdall").tempdir_in("/var/tmp").unwrap();
    let (disk, pidfile) = (dir.path().join("disk"), dir.path().join("pid"));
    File::create(&disk).unwrap().set_len(3 << 30).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk).status();
    assert!(made.expect("mkfs.ext4, of the Debian package e2fsprogs").success());

    let mut writing = guest(&disk, &pidfile, "guest_write");
    let mut last = None;
    for line in BufReader::new(writing.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.strip_prefix("synced ") {
            last = Some(number.parse::<u32>().unwrap());
            if last == Some(FILES / 2) {
                let group: i32 = std::fs::read_to_string(&pidfile).unwrap().trim().parse().unwrap();
                let group = rustix::process::Pid::from_raw(group).unwrap();
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            }
        }
    }
    assert_eq!(writing.wait().unwrap().code(), Some(125), "the guest ended by the cut, after {last:?}");
    let last = last.expect("some files were written before the cut");

    std::fs::write(dir.path().join("last"), last.to_string()).unwrap();
    let checked = guest(&disk, &pidfile, "guest_check").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{text}");
    let found =
        text.lines().find_map(|line| line.strip_prefix("found ")).expect("the guest says what it found");
    assert!(found.parse::<u32>().unwrap() >= last, "{found} files, where {last} were fsynced\n{text}");
}

fn holdall(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_holdall"))
        .args(arguments)
        .arg("--json")
        .env("HOLDALL_STATE_DIR", format!("{DISK}/state"))
        .env("HOLDALL_CACHE_DIR", format!("{DISK}/cache"))
        .env("HOLDALL_RUNTIME_DIR", "/run/holdall")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}\n{}", log());
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn log() -> String {
    std::fs::read_to_string(format!("{DISK}/state/daemon.log")).unwrap_or_default()
}

fn mount_disk() {
    assert!(std::env::var_os("HOLDALL_UML").is_some(), "this runs in a guest kernel; see guest");
    std::fs::create_dir_all(DISK).unwrap();
    assert!(Command::new("mount").args(["/dev/ubda", DISK]).status().unwrap().success());
}

fn content(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(500 + number as usize * 100)
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_write() {
    mount_disk();
    let store = format!("file://{DISK}/store");
    holdall(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    let opened = holdall(&["drive", "open", "d", "--at", MOUNTPOINT]);
    assert_eq!(opened["attach"], "nbd");
    holdall(&["drive", "sync", "d"]);
    holdall(&["drive", "pause", "d"]);
    for number in 1..=FILES {
        let mut file = File::create(format!("{MOUNTPOINT}/{number}")).unwrap();
        file.write_all(&content(number)).unwrap();
        file.sync_all().unwrap();
        File::open(MOUNTPOINT).unwrap().sync_all().unwrap();
        println!("synced {number}");
    }
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_check() {
    mount_disk();
    // The daemon takes up what was open by itself.
    let status = loop {
        let status = holdall(&["drive", "status", "d"]);
        if status["state"] != "Connecting" {
            break status;
        }
    };
    assert_eq!(status["state"], "Paused", "{status}\n{}", log());
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "nothing was pushed: {status}");
    let mut found = 0;
    for number in 1..=FILES {
        match std::fs::read(format!("{MOUNTPOINT}/{number}")) {
            Ok(data) if data == content(number) => found = number,
            Ok(_) | Err(_) => break,
        }
    }
    println!("found {found}");
    holdall(&["drive", "resume", "d"]);
    holdall(&["drive", "close", "d", "--wait"]);
    let checked = holdall(&["drive", "check", "d"]);
    assert_eq!(checked["ok"], true, "{checked}");
}
