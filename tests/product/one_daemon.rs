//! One daemon for each state directory, one name for each drive, and no state that exists only in memory.

use crate::bench::{Bench, Machine, Tmpfs, failure};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command line with another runtime directory, as cron or another shell does.
fn from_elsewhere(machine: &Machine, runtime: &Path, arguments: &[&str]) -> Output {
    machine.command(arguments).env("HOLDALL_RUNTIME_DIR", runtime).output().unwrap()
}

/// Runs the daemon in the foreground, to its end.
fn daemon_in(machine: &Machine, runtime: &Path) -> (Option<i32>, String) {
    let mut command = machine.program(env!("CARGO_BIN_EXE_holdalld"));
    let output = command.env("HOLDALL_RUNTIME_DIR", runtime).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn one_state_directory_has_one_daemon() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut file = std::fs::File::create(a.mountpoint().join("kept")).unwrap();
    let (pid, elsewhere) = (a.pid(), bench.path("elsewhere"));
    let seen = from_elsewhere(&a, &elsewhere, &["drive", "status", "d"]);
    let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
    assert_eq!((seen["daemon_pid"].as_i64(), seen["state"].as_str()), (Some(i64::from(pid)), Some("Ready")));

    // Started by hand, it yields to the first one, and names it.
    let (code, said) = daemon_in(&a, &elsewhere);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("process {pid}")), "{said}");

    // After a logout, the runtime directory no longer has a socket.
    std::fs::remove_file(a.runtime.join("daemon.sock")).unwrap();
    assert_eq!(a.pid(), pid);
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    drop(file);
    a.close();
}

#[test]
fn a_drive_continues_under_another_runtime_directory() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut file = std::fs::File::create(a.mountpoint().join("kept")).unwrap();
    file.write_all(b"before").unwrap();
    a.ok(&["daemon", "stop"]);
    // The next daemon is started from an environment with another runtime directory.
    let elsewhere = bench.path("elsewhere");
    let seen = from_elsewhere(&a, &elsewhere, &["drive", "status", "d"]);
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    a.taken_up();
    file.write_all(b" after").unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(std::fs::read(a.mountpoint().join("kept")).unwrap(), b"before after");
    a.close();
}

#[test]
fn refuses_a_runtime_directory_of_another_user() {
    const ANOTHER_USER: u32 = 12345;
    let bench = Bench::new();
    let a = bench.machine("a");
    let (public, victim) = (bench.path("public"), bench.path("victim"));
    for directory in [&public, &victim] {
        std::fs::create_dir(directory).unwrap();
    }
    std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::fs::write(victim.join("daemon.lock"), "a letter").unwrap();
    let refused = |runtime: &Path| {
        let (code, said) = daemon_in(&a, runtime);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("not a directory that only you can change"), "{said}");
        let told = failure(&from_elsewhere(&a, runtime, &["drive", "list"]));
        assert_eq!(told["code"], "privileges", "{told}");
        assert!(told["action"].as_str().unwrap().contains("HOLDALL_RUNTIME_DIR"), "{told}");
    };
    // A link to files of the starting user: the lock file in there would be truncated.
    symlink(&victim, public.join("link")).unwrap();
    refused(&public.join("link"));
    assert_eq!(std::fs::read(victim.join("daemon.lock")).unwrap(), b"a letter");
    // A directory of another user, however private.
    let squatted = public.join("squatted");
    std::fs::create_dir(&squatted).unwrap();
    chown(&squatted, Some(ANOTHER_USER), None).unwrap();
    refused(&squatted);
    assert_eq!(std::fs::read_dir(&squatted).unwrap().count(), 0);
    // A directory in a place where another user could exchange it.
    let inner = squatted.join("inner");
    std::fs::create_dir(&inner).unwrap();
    refused(&inner);
    // A lock file that is a link, in a directory that has become private.
    let runtime = bench.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    symlink(victim.join("daemon.lock"), runtime.join("daemon.lock")).unwrap();
    assert_eq!(daemon_in(&a, &runtime).0, Some(1));
    assert_eq!(std::fs::read(victim.join("daemon.lock")).unwrap(), b"a letter");
}

#[test]
fn a_drive_has_only_one_local_name() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let store = bench.store();
    let add = ["drive", "add", "e", "--store", &store];
    let told = failure(&a.run(&add));
    assert_eq!(told["code"], "exists");
    assert!(told["message"].as_str().unwrap().contains("“d”"), "{told}");
    assert_eq!(a.ok(&["drive", "list"]).as_array().unwrap().len(), 1);

    // As an earlier version could leave it: two names for one drive.
    a.open(&[]);
    std::fs::write(a.mountpoint().join("kept"), "kept").unwrap();
    a.close();
    a.ok(&["daemon", "stop"]);
    let copied =
        Command::new("cp").arg("-a").args([a.state.join("drives/d"), a.state.join("drives/e")]).status();
    assert!(copied.unwrap().success());
    a.open(&[]);
    for more in [&[][..], &["--discard-unsent"]] {
        let refused = a.fails(&[&["drive", "remove", "e", "--yes"], more].concat());
        assert_eq!(refused.1, "state", "it is open under another name");
    }
    assert_eq!(std::fs::read(a.mountpoint().join("kept")).unwrap(), b"kept");
    std::fs::write(a.mountpoint().join("more"), "more").unwrap();
    a.close();
    a.ok(&["drive", "remove", "e", "--yes", "--discard-unsent"]);
    a.open(&[]);
    assert_eq!(std::fs::read(a.mountpoint().join("more")).unwrap(), b"more");
    assert_eq!(a.ok(&["drive", "forks", "d"]).as_array().unwrap().len(), 0);
    a.close();
}

/// Fills a file system to the last page.
fn fill(directory: &Path) -> impl Fn() {
    let filler = directory.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    move || std::fs::remove_file(&filler).unwrap()
}

#[test]
fn settings_that_a_full_disk_refuses_do_not_take_effect() {
    let bench = Bench::new();
    let mut a = bench.machine("a");
    let disk = bench.path("disk");
    let _tmpfs = Tmpfs::new(disk.clone(), 600);
    a.state = disk.join("state");
    a.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "256M", "--no-encryption"]);
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    std::fs::write(a.mountpoint().join("f"), vec![7; 100_000]).unwrap();
    let empty = fill(&disk);
    a.fails(&["drive", "resume", "d"]);
    assert_eq!(a.status()["state"], "Paused", "it is what is saved");
    assert_eq!(a.fails(&["limits", "--up", "1M"]).0, 1);
    empty();
    a.ok(&["drive", "resume", "d"]);
    a.ok(&["drive", "sync", "d"]);
    a.close();
    // A drive is not opened either if this cannot be saved.
    let empty = fill(&disk);
    let at = a.mountpoint().display().to_string();
    let output = a.run(&["drive", "open", "d", "--attach", "loop", "--at", &at]);
    assert!(!output.status.success());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&at), "{mounts}");
    empty();
    a.open(&[]);
    a.close();
}

#[test]
fn stopping_the_service_says_which_drives_stay_mounted() {
    let bench = Bench::new();
    let a = bench.with_drive();
    assert_eq!(a.ok(&["daemon", "stop"])["left"], serde_json::json!([]));
    a.open(&[]);
    let at = a.mountpoint().display().to_string();
    let left = a.ok(&["daemon", "stop"]);
    assert_eq!(left["left"], serde_json::json!([{"name": "d", "mountpoint": at}]));
    a.taken_up();
    let output = a.plain_command(&["daemon", "stop"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("Still mounted: d at {at}")) && said.contains("losetup"), "{said}");
    a.taken_up();
    a.close();
}
