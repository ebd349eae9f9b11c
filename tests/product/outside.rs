//! Interference with an open drive: others unmount it, even lazily, take its disk away below it, or kill its processes.

use crate::bench::{Bench, Machine, Random, kill, run, wait_until};
use crate::writer::{Writer, verify};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user who is not root, and whom file modes restrict.
const USER: u32 = 12345;

fn closed(machine: &Machine) -> Value {
    machine.status_when("closed", |status| status["state"] == "Closed" && status["unpushed_bytes"] == 0)
}

fn told(machine: &Machine) -> bool {
    let rows = machine.ok(&["activity"]);
    let rows = rows.as_array().unwrap().clone();
    rows.iter()
        .any(|row| row["message"].as_str().unwrap().contains("Another program has unmounted the drive"))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Whether an ordinary user can create a file there.
fn user_writes(at: &Path) -> bool {
    let mut touch = Command::new("touch");
    touch.arg(at.join("lost")).uid(USER).gid(USER).stderr(std::process::Stdio::null());
    touch.status().unwrap().success()
}

#[test]
fn closes_and_uploads_a_drive_that_others_unmount() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    std::fs::write(a.mountpoint().join("kept"), vec![7; 1 << 20]).unwrap();
    run("umount", &[a.mountpoint().to_str().unwrap()]);
    let status = closed(&a);
    assert_eq!(status["mountpoint"], Value::Null, "{status}");
    assert!(told(&a));
    // It stays closed, and another computer can open it.
    a.ok(&["daemon", "stop"]);
    assert_eq!(a.status()["state"], "Closed");
    let b = bench.machine("b");
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    b.open(&[]);
    assert_eq!(std::fs::read(b.mountpoint().join("kept")).unwrap(), vec![7; 1 << 20]);
    b.close();
}

#[test]
fn the_directory_below_a_mounted_drive_accepts_no_files() {
    let bench = Bench::new();
    let a = bench.with_drive();
    // An ordinary user must be able to get there.
    for directory in [bench.path(""), a.dir.clone()] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(a.mountpoint()).unwrap();
    std::fs::set_permissions(a.mountpoint(), std::fs::Permissions::from_mode(0o777)).unwrap();
    a.open(&[]);
    std::fs::set_permissions(a.mountpoint(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(user_writes(&a.mountpoint()), "the drive itself");
    // While a program has a file open, the drive cannot be closed, and the bare directory is visible.
    let held = File::create(a.mountpoint().join("held")).unwrap();
    run("umount", &["--lazy", a.mountpoint().to_str().unwrap()]);
    assert!(!user_writes(&a.mountpoint()), "what is written there would be lost");
    assert_eq!(mode(&a.mountpoint()), 0);
    let status = a.status_when("in need of attention", |status| status["state"] == "Needs attention");
    assert!(status["reason"].as_str().unwrap().contains("unmounted"), "{status}");
    drop(held);
    closed(&a);
    assert_eq!(mode(&a.mountpoint()), 0o777, "it is as it was before");
    assert_eq!(std::fs::read_dir(a.mountpoint()).unwrap().count(), 0);
    a.open(&[]);
    assert!(a.mountpoint().join("lost").exists() && a.mountpoint().join("held").exists());
    a.close();
    assert_eq!(mode(&a.mountpoint()), 0o777);
}

#[test]
fn restores_a_directory_that_a_dead_daemon_left_locked() {
    let bench = Bench::new();
    let a = bench.with_drive();
    std::fs::create_dir(a.mountpoint()).unwrap();
    std::fs::set_permissions(a.mountpoint(), std::fs::Permissions::from_mode(0o750)).unwrap();
    chown(a.mountpoint(), Some(0), Some(USER)).unwrap();
    a.open(&[]);
    a.ok(&["daemon", "stop"]);
    // While no daemon runs.
    let device = run("findmnt", &["-no", "SOURCE", a.mountpoint().to_str().unwrap()]);
    assert!(device.starts_with("/dev/loop"), "{device}");
    // The daemon must come first: unmounting needs the device.
    a.taken_up();
    a.close();
    assert_eq!(mode(&a.mountpoint()), 0o750);
}

#[test]
fn a_drive_closes_after_its_disk_was_lazily_unmounted() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let opened = a.open(&[]);
    let mut file = File::create(a.mountpoint().join("kept")).unwrap();
    // As the end of a session does it with the runtime directory.
    let disks = a.runtime.join("disks");
    let disk = std::fs::read_dir(&disks).unwrap().next().unwrap().unwrap().path();
    run("umount", &["--lazy", disk.to_str().unwrap()]);
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    drop(file);
    a.close();
    let device = Path::new(opened["block_device"].as_str().unwrap()).file_name().unwrap().to_owned();
    let backing = Path::new("/sys/block").join(device).join("loop/backing_file");
    let is_free = || std::fs::read_to_string(&backing).map_or(true, |file| file.trim_end() != "/disk");
    wait_until("the loop device is gone", is_free).unwrap();
    assert!(!disk.exists());
    a.open(&[]);
    assert_eq!(std::fs::read(a.mountpoint().join("kept")).unwrap(), b"kept");
    a.close();
}

/// The process that last wrote itself into the lock as the daemon. Runs no command, since that would start a daemon.
fn holder(machine: &Machine) -> Option<i64> {
    let lock: Value = serde_json::from_slice(&std::fs::read(machine.state.join("daemon.lock")).ok()?).ok()?;
    lock["pid"].as_i64()
}

#[test]
fn a_killed_daemon_comes_back_by_itself() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut file = File::create(a.mountpoint().join("kept")).unwrap();
    for round in 0..3 {
        let before = a.pid();
        kill(before);
        // No command is run.
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
        assert_ne!(holder(&a), Some(i64::from(before)), "round {round}");
    }
    let rows = a.ok(&["activity"]);
    assert!(rows.to_string().contains("crashed and has started again"), "{rows}");
    drop(file);
    assert_eq!(std::fs::read(a.mountpoint().join("kept")).unwrap(), b"xxx");
    a.close();
    assert_eq!(a.keeper(), None);
    // After a stop it stays away, and with nothing open nothing restarts it.
    let stopped = a.pid();
    a.open(&[]);
    a.ok(&["daemon", "stop"]);
    assert_eq!(holder(&a), Some(i64::from(stopped)));
    a.taken_up();
    a.close();
}

#[test]
fn a_killed_keeper_is_replaced_and_keeps_the_drive_again() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut file = File::create(a.mountpoint().join("kept")).unwrap();
    let first = a.keeper().unwrap();
    kill(first);
    wait_until("another keeper", || a.keeper().is_some_and(|pid| pid != first)).unwrap();
    // It has the first keeper's state. Without it the drive would be lost together with the daemon.
    wait_until("it is asked to keep", || {
        let kept = holdall_fuse::keeper::take(&a.runtime.join("keeper.sock"), &disk_of(&a));
        kept.is_ok_and(|kept| kept.is_some())
    })
    .unwrap();
    kill(a.pid());
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    drop(file);
    a.taken_up();
    a.close();
}

fn disk_of(machine: &Machine) -> std::path::PathBuf {
    std::fs::read_dir(machine.runtime.join("disks")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn requests_fail_if_no_daemon_comes_back() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let file = File::create(a.mountpoint().join("lost")).unwrap();
    let pid = a.pid();
    // Every new daemon finds a state directory that others could write to, and ends.
    let open = |mode| std::fs::set_permissions(&a.state, std::fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    kill(pid);
    let failed = std::thread::spawn(move || {
        let mut file = file;
        file.write_all(b"x").and_then(|()| file.sync_all())
    });
    wait_until("an error instead of a wait", || failed.is_finished()).unwrap();
    assert!(failed.join().unwrap().is_err());
    open(0o700);
    // Data saved before is there.
    a.taken_up();
    a.close();
    a.open(&[]);
    a.close();
}

#[test]
fn replaces_a_hanging_daemon_and_reports_it() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut file = File::create(a.mountpoint().join("kept")).unwrap();
    let hung = rustix::process::Pid::from_raw(a.pid()).unwrap();
    rustix::process::kill_process(hung, rustix::process::Signal::STOP).unwrap();
    // After a minute it counts as hanging. A program only waits.
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    assert_ne!(holder(&a), Some(i64::from(hung.as_raw_nonzero().get())));
    let rows = a.ok(&["activity"]);
    assert!(rows.to_string().contains("hung and was started again"), "{rows}");
    drop(file);
    a.close();
}

/// `HOLDALL_ROUNDS=n` sets the number of events, and `HOLDALL_SEED` chooses them.
#[test]
fn random_kills_starts_and_unmounts_lose_nothing() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |said| said.parse().unwrap());
    let (seed, rounds) = (number("HOLDALL_SEED", 41), number("HOLDALL_ROUNDS", 12));
    eprintln!("HOLDALL_SEED={seed}");
    let mut random = Random(seed);
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let records = a.mountpoint().join("records");
    let writer = Writer::start(&records);
    writer.progress(5);
    for round in 0..rounds {
        match random.below(5) {
            0 => kill(a.pid()),
            1 => kill(a.keeper().unwrap()),
            2 => drop(a.killed(a.pid())),
            3 => {
                let mut second = a.program(env!("CARGO_BIN_EXE_holdalld"));
                second
                    .env("HOLDALL_RUNTIME_DIR", bench.path("elsewhere"))
                    .stderr(std::process::Stdio::null());
                assert!(second.status().unwrap().success());
            }
            _ => drop(a.ok(&["daemon", "stop"])),
        }
        a.taken_up();
        // The replaced process must keep the drive again before the next one is killed.
        wait_until("a keeper has the drive", || {
            let socket = a.runtime.join("keeper.sock");
            holdall_fuse::keeper::take(&socket, &disk_of(&a)).is_ok_and(|kept| kept.is_some())
        })
        .unwrap_or_else(|()| panic!("round {round}"));
        writer.progress(3);
    }
    let written = writer.stop();
    run("umount", &[a.mountpoint().to_str().unwrap()]);
    closed(&a);
    let b = bench.machine("b");
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    b.open(&[]);
    verify(&b.mountpoint().join("records"), written);
    b.close();
    b.assert_checked();
}
