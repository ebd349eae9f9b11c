//! Stores and disks that go away, fill up or rot under an open drive. Its status says why and what is pending, nothing hangs
//! without need, nothing is lost, and once the cause is gone the drive continues on its own.

use crate::bench::{Bench, Machine, Tmpfs, failure, kill, noise, wait_until};
use crate::writer::{Writer, verify};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn reason(status: &serde_json::Value) -> String {
    status["reason"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the drive is in a state whose reason contains these words.
fn status_says(machine: &Machine, state: &str, words: &str) {
    machine.status_when(format!("{state}: {words}"), |status| {
        status["state"] == state && reason(status).contains(words)
    });
}

fn write_synced(path: &Path, content: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
}

/// Checks that everything is in the store, on another computer.
fn assert_elsewhere(bench: &Bench, check: impl Fn(&Path)) {
    let other = bench.machine("elsewhere");
    other.ok(&["drive", "add", "d", "--store", &bench.store()]);
    other.open(&[]);
    check(&other.mountpoint());
    other.close();
    other.assert_checked();
}

/// As with a log on a full disk, or on the failed disk of the journal.
#[test]
fn an_unwritable_log_stops_nothing_else() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.ok(&["daemon", "stop"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = machine.program(env!("CARGO_BIN_EXE_holdalld"));
    let mut daemon = command.env("HOLDALL_LOG", "trace").stderr(full).spawn().unwrap();
    wait_until("it listens", || UnixStream::connect(machine.runtime.join("daemon.sock")).is_ok()).unwrap();
    assert_eq!(machine.status()["daemon_pid"], daemon.id());
    machine.open(&[]);
    let content = noise(1, 300_000);
    write_synced(&machine.mountpoint().join("file"), &content);
    machine.ok(&["drive", "sync", "d"]);
    machine.close();
    machine.ok(&["daemon", "stop"]);
    assert!(daemon.wait().unwrap().success());
    assert_elsewhere(&bench, |mountpoint| assert_eq!(fs::read(mountpoint.join("file")).unwrap(), content));
}

#[test]
fn an_absent_store_that_returns_costs_nothing() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    let path = machine.mountpoint().join("records");
    let writer = Writer::start(&path);
    writer.progress(5);
    fs::rename(bench.path("store"), bench.path("away")).unwrap();
    let syncing = machine.begin(&["drive", "sync", "d"]);
    status_says(&machine, "Offline", "is not there");
    // Work continues, and is durable here.
    writer.progress(50);
    assert!(machine.status()["unpushed_bytes"].as_u64().unwrap() > 0);
    assert!(!bench.path("store").exists(), "nothing was made in its place");
    // An empty directory, like a mount point without its disk, is no store either.
    fs::create_dir(bench.path("store")).unwrap();
    writer.progress(5);
    assert_eq!(fs::read_dir(bench.path("store")).unwrap().count(), 0);
    fs::remove_dir(bench.path("store")).unwrap();

    fs::rename(bench.path("away"), bench.path("store")).unwrap();
    syncing.ok();
    machine.status_when("well again", |status| status["state"] != "Offline" && status["reason"].is_null());
    writer.progress(5);
    let written = writer.stop();
    machine.close();
    assert_elsewhere(&bench, |at| verify(&at.join("records"), written));
}

#[test]
fn warns_of_a_filling_journal_before_writes_wait() {
    let bench = Bench::new();
    // A disk this small has the smallest journal.
    let tmpfs = Tmpfs::new(bench.path("local"), 2048);
    let mut machine = bench.machine("a");
    (machine.state, machine.cache) = (bench.path("local/state"), bench.path("local/cache"));
    machine.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "512M", "--no-encryption"]);
    machine.open(&[]);
    machine.ok(&["drive", "pause", "d"]);
    let limit = machine.status()["journal_limit_bytes"].as_u64().unwrap();
    let told = || -> usize {
        let rows = machine.ok(&["activity"]);
        let rows = rows.as_array().unwrap();
        let is_it =
            |row: &&serde_json::Value| row["message"].as_str().unwrap().contains("is still to be uploaded");
        rows.iter().filter(|row| row["kind"] == "attention").filter(is_it).count()
    };
    write_synced(&machine.mountpoint().join("a"), &noise(1, (limit / 4) as usize));
    assert_eq!(told(), 0);
    write_synced(&machine.mountpoint().join("b"), &noise(2, (limit / 2) as usize));
    wait_until("it is told", || told() == 1).unwrap();
    status_says(&machine, "Paused", "% full");
    machine.ok(&["drive", "resume", "d"]);
    machine.ok(&["drive", "sync", "d"]);
    machine.status_when("room again", |status| status["reason"].is_null());
    machine.close();
    drop(machine);
    drop(tmpfs);
}

#[test]
fn the_next_daemon_reopens_a_drive_once_its_store_returns() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    let path = machine.mountpoint().join("records");
    let writer = Writer::start(&path);
    writer.progress(5);
    fs::rename(bench.path("store"), bench.path("away")).unwrap();
    kill(machine.pid());
    status_says(&machine, "Offline", "is not there");
    fs::rename(bench.path("away"), bench.path("store")).unwrap();
    machine.status_when("taken up", |status| matches!(status["state"].as_str(), Some("Ready" | "Syncing")));
    writer.progress(5);
    let written = writer.stop();
    machine.close();
    assert_elsewhere(&bench, |at| verify(&at.join("records"), written));
}

#[test]
fn the_next_daemon_uploads_what_a_closed_drive_left() {
    for is_killed in [false, true] {
        let bench = Bench::new();
        let machine = bench.with_drive();
        machine.open(&[]);
        machine.ok(&["drive", "sync", "d"]);
        fs::rename(bench.path("store"), bench.path("away")).unwrap();
        let content = noise(3, 3 << 20);
        fs::write(machine.mountpoint().join("late"), &content).unwrap();
        machine.ok(&["drive", "close", "d"]);
        if is_killed {
            kill(machine.pid());
        } else {
            machine.ok(&["daemon", "stop"]);
        }
        // Its first status.
        let status = machine.status();
        assert!(status["unpushed_bytes"].as_u64().unwrap() > 1 << 20, "{status}");
        assert_eq!(
            (&status["mountpoint"], &status["size_bytes"]),
            (&serde_json::Value::Null, &(256_u64 << 20).into())
        );
        fs::rename(bench.path("away"), bench.path("store")).unwrap();
        machine
            .status_when("uploaded", |status| status["unpushed_bytes"] == 0 && status["state"] == "Closed");
        assert_elsewhere(&bench, |at| assert!(fs::read(at.join("late")).unwrap() == content));
        // Nothing is left for the next daemon.
        machine.ok(&["daemon", "stop"]);
        let status = machine.status();
        assert_eq!((&status["unpushed_bytes"], &status["state"]), (&0.into(), &"Closed".into()), "{status}");
    }
}

#[test]
fn says_that_pending_bytes_are_unknown_until_they_are_counted() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    machine.ok(&["drive", "pause", "d"]);
    write_synced(&machine.mountpoint().join("late"), &noise(3, 3 << 20));
    machine.ok(&["drive", "close", "d"]);
    machine.ok(&["daemon", "stop"]);
    // This file is only for display: deleting it loses nothing but the figures.
    fs::remove_file(machine.state.join("drives/d/figures.json")).unwrap();
    let counted = machine.status_when("counted", |status| {
        let (bytes, is_known) = (status["unpushed_bytes"].as_u64().unwrap(), &status["unpushed_is_known"]);
        match is_known.as_bool().unwrap() {
            true => assert!(bytes > 1 << 20, "a figure that nobody has counted: {status}"),
            false => assert_eq!(bytes, 1, "{status}"),
        }
        *is_known == true
    });
    assert_eq!(counted["paused"], true);
    machine.ok(&["drive", "resume", "d"]);
    machine.status_when("uploaded", |status| {
        status["unpushed_bytes"] == 0 && status["unpushed_is_known"] == true
    });
}

#[test]
fn reports_pending_uploads_while_a_snapshot_is_open() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    write_synced(&machine.mountpoint().join("letter"), b"north");
    machine.ok(&["drive", "sync", "d"]);
    machine.ok(&["drive", "snapshot", "create", "d", "before"]);
    machine.ok(&["drive", "pause", "d"]);
    let content = noise(6, 2 << 20);
    write_synced(&machine.mountpoint().join("letter"), &content);
    machine.ok(&["drive", "close", "d"]);
    let left = machine.status()["unpushed_bytes"].as_u64().unwrap();
    assert!(left > 1 << 20, "{left}");

    machine.open(&["--snapshot", "before"]);
    assert_eq!(fs::read(machine.mountpoint().join("letter")).unwrap(), b"north");
    let status = machine.status();
    assert_eq!(
        (&status["state"], &status["unpushed_bytes"]),
        (&"Read-only".into(), &left.into()),
        "{status}"
    );
    assert!(status["reason"].as_str().unwrap().contains("only on this computer"), "{status}");
    machine.ok(&["drive", "close", "d"]);
    machine.ok(&["drive", "resume", "d"]);
    machine.status_when("uploaded", |status| status["unpushed_bytes"] == 0 && status["state"] == "Closed");
    assert_elsewhere(&bench, |at| assert!(fs::read(at.join("letter")).unwrap() == content));
}

#[test]
fn a_full_store_delays_only_uploads() {
    let bench = Bench::new();
    let store = Tmpfs::new(bench.path("store"), 16);
    let machine = bench.with_drive();
    machine.open(&[]);
    let content = noise(1, 40 << 20);
    write_synced(&machine.mountpoint().join("large"), &content);
    let syncing = machine.begin(&["drive", "sync", "d"]);
    status_says(&machine, "Needs attention", "full");
    write_synced(&machine.mountpoint().join("small"), b"still works");
    assert!(fs::read(machine.mountpoint().join("large")).unwrap() == content);
    store.resize(256);
    syncing.ok();
    machine.status_when("well again", |status| status["reason"].is_null());
    machine.close();
    machine.assert_checked();
    assert_elsewhere(&bench, |at| {
        assert!(fs::read(at.join("large")).unwrap() == content);
        assert_eq!(fs::read(at.join("small")).unwrap(), b"still works");
    });
    drop(machine);
    drop(store);
}

/// A machine whose state or cache lies on a small disk, with an open drive that does not push.
fn cramped(bench: &Bench, size_mib: u32, cramp: impl Fn(&mut Machine, PathBuf)) -> (Tmpfs, Machine) {
    let small = Tmpfs::new(bench.path("small"), size_mib);
    let mut machine = bench.machine("a");
    cramp(&mut machine, bench.path("small/holdall"));
    machine.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "1G", "--no-encryption"]);
    machine.open(&[]);
    machine.ok(&["drive", "pause", "d"]);
    (small, machine)
}

/// Writes more than fits, checks the reported trouble, and fixes it.
fn overfill(machine: &Machine, mib: usize, words: &str, mend: impl FnOnce()) -> Arc<Vec<u8>> {
    let content = Arc::new(noise(2, mib << 20));
    let (path, written) = (machine.mountpoint().join("large"), content.clone());
    // Not joined if the test fails, since it may wait forever then.
    let writing = std::thread::spawn(move || write_synced(&path, &written));
    status_says(machine, "Needs attention", words);
    mend();
    wait_until("all is written", || writing.is_finished()).unwrap();
    writing.join().unwrap();
    content
}

fn assert_well_again(bench: &Bench, machine: &Machine, content: &[u8]) {
    machine.status_when("well again", |status| status["state"] != "Needs attention");
    assert!(fs::read(machine.mountpoint().join("large")).unwrap() == content);
    machine.ok(&["drive", "resume", "d"]);
    machine.close();
    machine.assert_checked();
    assert_elsewhere(bench, |at| assert!(fs::read(at.join("large")).unwrap() == content));
}

#[test]
fn writes_wait_while_the_journal_disk_is_full() {
    let bench = Bench::new();
    // Two journal files of 64 MiB fit, and no third.
    let (small, machine) = cramped(&bench, 160, |machine, at| machine.state = at);
    let content = overfill(&machine, 180, "No space left", || small.resize(1024));
    assert_well_again(&bench, &machine, &content);
    drop(machine);
    drop(small);
}

#[test]
fn uploads_free_a_full_journal_disk() {
    let bench = Bench::new();
    let (small, machine) = cramped(&bench, 230, |machine, at| machine.state = at);
    let content = overfill(&machine, 250, "No space left", || drop(machine.ok(&["drive", "resume", "d"])));
    assert_well_again(&bench, &machine, &content);
    drop(machine);
    drop(small);
}

#[test]
fn a_full_cache_disk_leaves_data_in_the_journal() {
    let bench = Bench::new();
    let (small, machine) = cramped(&bench, 48, |machine, at| machine.cache = at);
    let content = noise(2, 100 << 20);
    write_synced(&machine.mountpoint().join("large"), &content);
    // Data that does not fit is read from the journal, and the limit holds: half of the disk.
    let status = machine.status_when("applied as far as there is room", |status| {
        status["cached_bytes"].as_u64() > status["cache_limit_bytes"].as_u64().map(|limit| limit / 2)
    });
    assert!(status["cached_bytes"].as_u64() <= status["cache_limit_bytes"].as_u64(), "{status}");
    assert_eq!(status["state"], "Paused", "{status}");
    assert!(fs::read(machine.mountpoint().join("large")).unwrap() == content);
    // Other files fill the disk completely.
    let junk = bench.path("small/junk");
    assert!(fs::write(&junk, vec![1; 64 << 20]).is_err());
    let late = noise(5, 20 << 20);
    write_synced(&machine.mountpoint().join("late"), &late);
    assert!(fs::read(machine.mountpoint().join("late")).unwrap() == late);
    // It is uploaded from the journal, too.
    machine.ok(&["drive", "resume", "d"]);
    machine.ok(&["drive", "sync", "d"]);
    small.resize(512);
    assert_well_again(&bench, &machine, &content);
    drop(machine);
    drop(small);
}

/// Files that are not on this computer can be read however full its disk is: only keeping them takes space.
#[test]
fn files_can_be_read_while_the_cache_disk_is_full() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    let content = noise(3, 100 << 20);
    write_synced(&machine.mountpoint().join("large"), &content);
    machine.close();

    let small = Tmpfs::new(bench.path("small"), 48);
    let mut other = bench.machine("b");
    other.cache = bench.path("small/holdall");
    other.ok(&["drive", "add", "d", "--store", &bench.store()]);
    other.open(&[]);
    assert!(fs::read(other.mountpoint().join("large")).unwrap() == content);
    write_synced(&other.mountpoint().join("small"), b"works");
    other.close();
    drop(other);
    drop(small);
}

#[test]
fn deleting_the_cache_of_an_open_drive_costs_only_time() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    let content = noise(4, 20 << 20);
    write_synced(&machine.mountpoint().join("pushed"), &content);
    machine.ok(&["drive", "sync", "d"]);
    let writer = Writer::start(&machine.mountpoint().join("records"));
    writer.progress(5);
    // First the cached map pages, then everything.
    for victim in ["pages", ""] {
        remove_contents(&machine.cache.join(victim));
        writer.progress(20);
        machine.ok(&["drive", "sync", "d"]);
        kill(machine.pid());
        machine.taken_up();
        writer.progress(5);
        assert!(fs::read(machine.mountpoint().join("pushed")).unwrap() == content);
    }
    let written = writer.stop();
    machine.close();
    machine.open(&[]);
    verify(&machine.mountpoint().join("records"), written);
    assert!(fs::read(machine.mountpoint().join("pushed")).unwrap() == content);
    machine.close();
    machine.assert_checked();
}

fn remove_contents(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[test]
fn only_one_opening_of_a_drive_at_a_time() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    write_synced(&machine.mountpoint().join("mine"), b"mine");
    let at = bench.text("b.mnt");
    let open = ["drive", "open", "d", "--attach", "loop", "--at", &at];
    assert_eq!(machine.fails(&open), (1, "state".into()));
    let serve = ["drive", "serve", "d", "--socket", &bench.text("socket")];
    assert_eq!(machine.fails(&serve), (1, "state".into()));
    // From an environment with another runtime directory, the same daemon answers.
    let elsewhere =
        machine.command(&open).env("HOLDALL_RUNTIME_DIR", bench.path("elsewhere")).output().unwrap();
    assert_eq!(failure(&elsewhere)["code"], "state");
    // Another computer.
    let other = bench.machine("b");
    other.ok(&["drive", "add", "d", "--store", &bench.store()]);
    assert_eq!(other.fails(&open), (4, "held".into()));
    assert_eq!(other.fails(&["drive", "sync", "d"]), (4, "held".into()));
    assert_eq!(other.fails(&["drive", "resize", "d", "1G"]), (4, "held".into()));
    // None of that did any harm.
    write_synced(&machine.mountpoint().join("mine"), b"still mine");
    machine.close();
    other.open(&[]);
    assert_eq!(fs::read(other.mountpoint().join("mine")).unwrap(), b"still mine");
    other.close();
}
