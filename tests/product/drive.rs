//! The product as a person uses it: the command line, the daemon that it starts, a real ext4 on a real block device, and the
//! embedded store. Runs as root, with FUSE and loop devices.

use crate::bench::{Bench, Tmpfs, failure, kill, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

fn write_files(at: &Path, count: usize) {
    for i in 0..count {
        let directory = at.join(format!("dir{}", i % 7));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("file{i}")), vec![i as u8; 1000 * (i % 50)]).unwrap();
    }
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => bytes_below(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    bytes.sum()
}

fn check_files(at: &Path, count: usize) {
    for i in 0..count {
        let found = std::fs::read(at.join(format!("dir{}/file{i}", i % 7))).unwrap();
        assert_eq!(found, vec![i as u8; 1000 * (i % 50)], "file {i}");
    }
}

/// Every computer of the tests is searched for secrets at its end. This is what happens if it contains one.
#[test]
fn detects_a_computer_that_reveals_a_secret() {
    let bench = Bench::new();
    let secret = "tattletale wombat";
    std::fs::write(bench.path("secret"), secret).unwrap();
    let file = bench.text("secret");
    let given = ["drive", "add", "d", "--store", &bench.store(), "--passphrase-file", &file];
    let discreet = bench.machine("discreet");
    discreet.fails(&given);
    assert_eq!(discreet.secrets(), [secret]);
    drop(discreet);
    let caught = |machine: crate::bench::Machine| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(machine))).is_err()
    };
    let loud = bench.machine("loud");
    loud.fails(&given);
    loud.fails(&["drive", "status", secret]);
    assert!(caught(loud), "a failure names it");
    let careless = bench.machine("careless");
    careless.fails(&given);
    std::fs::create_dir_all(&careless.state).unwrap();
    std::fs::write(careless.state.join("notes"), data_encoding::HEXLOWER.encode(secret.as_bytes())).unwrap();
    assert!(caught(careless), "a file has it");
}

#[test]
fn an_encrypted_drive_moves_to_another_computer() {
    let bench = Bench::new();
    let (a, b) = (bench.machine("a"), bench.machine("b"));
    let (store, passphrase, key) = (bench.store(), bench.text("passphrase"), bench.text("recovery"));
    let create =
        ["drive", "create", "d", "--store", &store, "--size", "1TiB", "--passphrase-file", &passphrase];
    let made = a.ok(&[&create[..], &["--recovery-key-out", &key]].concat());
    assert_eq!(made["store_mode"], "claim");
    a.open(&[]);
    write_files(&a.mountpoint(), 300);
    let synced = a.ok(&["drive", "sync", "d"]);
    assert_eq!(synced["epoch"], 1);

    // The other computer may look at it, but not take it.
    let add = ["drive", "add", "d", "--store", &store];
    std::fs::write(bench.path("wrong"), "battery staple").unwrap();
    let wrong = bench.text("wrong");
    assert_eq!(b.fails(&[&add[..], &["--passphrase-file", &wrong]].concat()), (6, "passphrase_wrong".into()));
    b.ok(&[&add[..], &["--recovery-key-file", &key]].concat());
    assert_eq!(b.fails(&["drive", "open", "d"]), (4, "held".into()));
    let holder = &b.status()["holder"];
    assert_eq!((&holder["name"], &holder["epoch"]), (&a.status()["holder"]["name"], &1.into()), "{holder}");
    b.open(&["--read-only"]);
    check_files(&b.mountpoint(), 300);
    assert!(std::fs::write(b.mountpoint().join("x"), "x").is_err());
    b.close();

    a.close();
    b.open(&[]);
    assert_eq!(b.status()["holder"]["epoch"], 2);
    check_files(&b.mountpoint(), 300);
    std::fs::write(b.mountpoint().join("from b"), "b").unwrap();
    b.close();
    a.open(&[]);
    assert_eq!(std::fs::read(a.mountpoint().join("from b")).unwrap(), b"b");
    check_files(&a.mountpoint(), 300);
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!((status["state"].as_str(), status["size_bytes"].as_u64()), (Some("Ready"), Some(1 << 40)));
    a.close();
    let checked = a.ok(&["drive", "check", "d"]);
    assert_eq!(checked["ok"], true);
    // The stored data is encrypted: no file's contents are visible.
    let seen = Command::new("grep").args(["-rqa", "from b"]).arg(bench.path("store")).status().unwrap();
    assert!(!seen.success());
}

#[test]
fn a_mounted_drive_survives_an_upgrade_and_a_killed_daemon() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    write_files(&a.mountpoint(), 100);
    let mut kept = std::fs::File::create(a.mountpoint().join("kept")).unwrap();
    kept.write_all(b"before").unwrap();
    kept.sync_all().unwrap();

    // An upgrade: one daemon ends, another starts. Programs that use the drive only wait.
    let old = a.pid();
    a.ok(&["daemon", "stop"]);
    assert_ne!(a.pid(), old);
    kept.write_all(b" between").unwrap();
    kept.sync_all().unwrap();
    check_files(&a.mountpoint(), 100);

    // A killed daemon: the keeper has the connection.
    kill(a.pid());
    assert_eq!(a.taken_up()["state"], "Paused");
    kept.write_all(b" after").unwrap();
    kept.sync_all().unwrap();
    drop(kept);
    check_files(&a.mountpoint(), 100);
    assert_eq!(std::fs::read(a.mountpoint().join("kept")).unwrap(), b"before between after");
    a.ok(&["drive", "resume", "d"]);
    a.close();
    let checked = a.ok(&["drive", "check", "d"]);
    assert_eq!(checked["ok"], true);
}

#[test]
fn snapshots_are_kept_restored_and_cloned() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let note = a.mountpoint().join("note");
    std::fs::write(&note, "one").unwrap();
    a.ok(&["drive", "snapshot", "create", "d", "first"]);
    assert_eq!(a.fails(&["drive", "snapshot", "create", "d", "first"]).1, "exists");
    let reserved = a.fails(&["drive", "snapshot", "create", "d", "before take-over 3"]);
    assert_eq!(reserved, (2, "usage".into()));
    std::fs::write(&note, "two").unwrap();
    assert_eq!(a.fails(&["drive", "rollback", "d", "first", "--yes"]), (1, "state".into()));
    a.close();
    a.open(&["--snapshot", "first"]);
    assert_eq!(std::fs::read(&note).unwrap(), b"one");
    a.close();
    a.ok(&["drive", "clone", "d", "e", "--snapshot", "first"]);
    a.ok(&["drive", "rollback", "d", "first", "--yes"]);
    a.open(&[]);
    assert_eq!(std::fs::read(&note).unwrap(), b"one");
    a.close();
    let labels = a.ok(&["drive", "snapshot", "list", "d"]);
    let labels: Vec<_> =
        labels.as_array().unwrap().iter().map(|s| s["label"].as_str().unwrap().to_owned()).collect();
    assert_eq!(labels.len(), 2, "what was current before the rollback is kept: {labels:?}");
    for label in labels {
        a.ok(&["drive", "snapshot", "delete", "d", &label]);
    }
    assert!(a.ok(&["drive", "gc", "d"])["deleted"].as_u64().unwrap() > 0);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    assert_eq!(a.ok(&["drive", "check", "e"])["ok"], true);
    // Another computer knows it too, and removes it again. The second removal finishes what the first left, as after a power cut.
    let b = bench.machine("b");
    b.ok(&["drive", "add", "e", "--store", &bench.store()]);
    a.ok(&["drive", "remove", "e", "--delete-data", "--yes"]);
    assert_eq!(a.fails(&["drive", "status", "e"]), (3, "not_found".into()));
    assert_eq!(b.fails(&["drive", "open", "e"]), (3, "gone".into()));
    b.ok(&["drive", "remove", "e", "--delete-data", "--yes"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

#[test]
fn a_new_drive_is_empty_on_its_map() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.ok(&["drive", "pause", "d"]);
    a.open(&[]);
    let map = a.ok(&["drive", "map", "d"]);
    let cells = map["cells"].as_array().unwrap();
    let count = |what: &str| cells.iter().filter(|cell| *cell == what).count();
    // Only the tables of the file system are pending.
    assert!(count("dirty") > 0 && count("dirty") * 4 < cells.len(), "{map}");
    assert!(count("empty") * 2 > cells.len(), "{map}");
    a.ok(&["drive", "resume", "d"]);
    a.close();
}

/// Its changes are not a fork: there is no other version, and nowhere to upload them.
#[test]
fn says_that_another_computer_removed_the_drive() {
    let bench = Bench::new();
    let (a, b) = (bench.with_drive(), bench.machine("b"));
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    std::fs::write(a.mountpoint().join("letter"), "dear").unwrap();
    std::fs::File::open(a.mountpoint()).unwrap().sync_all().unwrap();
    b.open(&["--take-over", "--yes"]);
    b.close();
    b.ok(&["drive", "remove", "d", "--delete-data", "--yes"]);
    a.ok(&["drive", "resume", "d"]);
    let told = a.status_when("removed", |status| status["state"] == "Needs attention");
    assert!(told["reason"].as_str().unwrap().ends_with(" has removed the drive."), "{told}");
    assert_eq!(told["advice"]["consequence"], "Changes that were not uploaded are kept on this computer.");
    assert_eq!((&told["forks"], told["needs_login"].as_bool()), (&serde_json::json!([]), Some(false)));
    assert_eq!(std::fs::read(a.mountpoint().join("letter")).unwrap(), b"dear");
}

#[test]
fn a_drive_resized_while_closed_opens_with_its_new_size() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    write_files(&a.mountpoint(), 20);
    a.close();
    assert_eq!(a.ok(&["drive", "resize", "d", "1G"])["size_bytes"], 1u64 << 30);
    // On another computer, which must learn the size from the store: the upload needs no command.
    wait_until("uploaded", || a.ok(&["drive", "status", "d"])["unpushed_bytes"] == 0).unwrap();
    let b = bench.machine("b");
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    b.open(&[]);
    let room = rustix::fs::statvfs(b.mountpoint()).unwrap();
    assert!(room.f_blocks * room.f_frsize > 900 << 20, "{} blocks", room.f_blocks);
    check_files(&b.mountpoint(), 20);
    b.close();
}

#[test]
fn refuses_to_discard_data_that_is_only_here() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    write_files(&a.mountpoint(), 20);
    assert_eq!(a.fails(&["drive", "close", "d", "--wait"]), (8, "unsent".into()));
    assert_eq!(a.fails(&["drive", "sync", "d"]), (1, "paused".into()));
    a.ok(&["daemon", "stop"]);
    assert_eq!(a.fails(&["drive", "remove", "d", "--yes"]), (8, "unsent".into()));
    a.open(&[]);
    check_files(&a.mountpoint(), 20);
    a.ok(&["drive", "resume", "d"]);
    a.close();
    a.ok(&["drive", "remove", "d", "--yes"]);
}

/// Everything is in the store: this computer needs neither the store nor the other computer's leave to forget the drive.
#[test]
fn forgets_a_drive_that_is_open_elsewhere_or_away() {
    let bench = Bench::new();
    let (a, b) = (bench.with_drive(), bench.machine("b"));
    a.open(&[]);
    write_files(&a.mountpoint(), 20);
    a.close();
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    b.open(&[]);
    assert_eq!(a.fails(&["drive", "remove", "d", "--delete-data", "--yes"]), (4, "held".into()));
    a.ok(&["drive", "remove", "d", "--yes"]);
    a.ok(&["drive", "add", "d", "--store", &bench.store()]);
    check_files(&b.mountpoint(), 20);
    b.close();
    a.open(&[]);
    a.close();
    std::fs::rename(bench.path("store"), bench.path("away")).unwrap();
    a.ok(&["drive", "remove", "d", "--yes"]);
}

#[test]
fn rolls_back_right_after_a_close() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "snapshot", "create", "d", "before"]);
    write_files(&a.mountpoint(), 20);
    a.ok(&["drive", "pause", "d"]);
    a.ok(&["drive", "close", "d"]);
    assert_eq!(a.fails(&["drive", "rollback", "d", "before", "--yes"]), (8, "unsent".into()));
    a.ok(&["drive", "resume", "d"]);
    wait_until("uploaded", || a.status()["unpushed_bytes"] == 0).unwrap();
    a.ok(&["drive", "rollback", "d", "before", "--yes"]);
}

#[test]
fn nbdinfo_sees_a_served_drive_until_its_command_ends() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let socket = bench.text("socket");
    let mut serving =
        a.command(&["drive", "serve", "d", "--socket", &socket]).stdout(Stdio::piped()).spawn().unwrap();
    // It prints its address before any client can know it.
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let size = Command::new("nbdinfo").args(["--size", &format!("nbd+unix:///?socket={socket}")]).output();
    let size = size.expect("nbdinfo, of the Debian package libnbd-bin");
    assert_eq!(String::from_utf8_lossy(&size.stdout).trim(), (256u64 << 20).to_string(), "{line}");
    serving.kill().unwrap();
    serving.wait().unwrap();
    a.open(&[]);
    a.close();
}

#[test]
fn mounts_a_drive_where_it_was_last_mounted_if_free() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let open = |more: &[&str]| {
        let opened = a.ok(&[&["drive", "open", "d", "--attach", "loop"], more].concat());
        a.close();
        opened["mountpoint"].as_str().unwrap().to_owned()
    };
    let usual = open(&[]);
    assert!(usual.ends_with("/Holdall/d"), "{usual}");
    let asked = bench.text("elsewhere");
    assert_eq!(open(&["--at", &asked]), asked);
    assert_eq!(open(&[]), asked);
    let other = Tmpfs::new(asked.clone().into(), 1);
    assert_eq!(open(&[]), usual);
    drop(other);
    assert_eq!(open(&[]), asked);
    // A place where another drive is usually mounted counts only once.
    a.ok(&["drive", "clone", "d", "e"]);
    let theirs = usual.replace("/Holdall/d", "/Holdall/e");
    assert_eq!(open(&["--at", &theirs]), theirs);
    assert_eq!(open(&[]), asked);
    assert_eq!(open(&["--at", &usual]), usual);
    assert_eq!(open(&[]), usual);
}

#[test]
fn an_unwritable_store_directory_is_reported_and_opens_read_only() {
    let bench = Bench::new();
    let a = bench.machine("a");
    let disk = bench.text("disk");
    let _disk = Tmpfs::new(disk.clone().into(), 256);
    // A file may just be written, so try again.
    let remount = |how: &str| {
        let options = format!("remount,{how}");
        let done = || Command::new("mount").args(["-o", &options, &disk]).status().unwrap().success();
        wait_until("remounted", done).unwrap();
    };
    let store = format!("file://{disk}/store");
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "256M", "--no-encryption"]);
    a.open(&[]);
    let letter = a.mountpoint().join("letter");
    std::fs::write(&letter, b"1").unwrap();
    a.ok(&["drive", "sync", "d"]);
    remount("ro");
    std::fs::write(&letter, b"2").unwrap();
    a.ok(&["drive", "upload-now", "d"]);
    let is_right = |text: &Value| !text.as_str().unwrap().contains("login");
    let status = a.status_when("told", |status| status["state"] == "Needs attention");
    assert!(is_right(&status["reason"]) && status["needs_login"] == false, "{status}");
    remount("rw");
    a.status_when("uploaded", |status| status["unpushed_bytes"] == 0);
    a.close();
    remount("ro");
    a.open(&[]);
    let status = a.status();
    assert!(status["state"] == "Read-only" && is_right(&status["reason"]), "{status}");
    assert_eq!(std::fs::read(&letter).unwrap(), b"2");
    a.close();
    let told = failure(&a.run(&["drive", "clone", "d", "e"]));
    assert!(
        told["action"].as_str().unwrap().contains("Give this user permission to read and write"),
        "{told}"
    );
}

#[test]
fn the_map_of_a_large_drive_shows_true_sums() {
    let bench = Bench::new();
    let a = bench.machine("a");
    a.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "1T", "--no-encryption"]);
    a.open(&[]);
    a.ok(&["drive", "sync", "d"]);
    let map = || a.ok(&["drive", "map", "d"]);
    a.ok(&["drive", "pause", "d"]);
    assert_eq!(map()["bytes"]["dirty"], 0);
    let file = a.mountpoint().join("film");
    std::fs::write(&file, vec![7; 15 << 20]).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let told = map();
    let waiting = told["bytes"]["dirty"].as_u64().unwrap();
    // The file system's own blocks come on top.
    assert!((15 << 20..18 << 20).contains(&waiting), "{waiting}");
    let cells = told["cells"].as_array().unwrap().iter().filter(|cell| *cell == "dirty").count() as u64;
    assert!(cells * told["cell_bytes"].as_u64().unwrap() > 100 << 20, "the cells alone would say much more");
    let status = a.status();
    assert!(waiting <= status["unpushed_bytes"].as_u64().unwrap(), "{status}");
    a.ok(&["drive", "resume", "d"]);
    a.ok(&["drive", "sync", "d"]);
    let after = map();
    assert_eq!(after["bytes"]["dirty"], 0, "{}", after["bytes"]);
    assert!(after["bytes"]["cached"].as_u64().unwrap() >= 15 << 20, "{}", after["bytes"]);
    a.close();
}

#[test]
fn pinned_files_show_on_the_map_of_a_large_drive() {
    let bench = Bench::new();
    let a = bench.machine("a");
    a.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "1T", "--no-encryption"]);
    a.open(&[]);
    let letter = a.mountpoint().join("letter");
    std::fs::write(&letter, [7; 100_000]).unwrap();
    a.ok(&["pin", &letter.display().to_string(), "--wait"]);
    let map = a.ok(&["drive", "map", "d"]);
    assert!(map["cell_bytes"].as_u64() > Some(100_000), "{}", map["cell_bytes"]);
    let pinned = || {
        let map = a.ok(&["drive", "map", "d"]);
        map["cells"].as_array().unwrap().iter().filter(|cell| *cell == "pinned").count()
    };
    a.ok(&["drive", "sync", "d"]);
    assert_eq!(pinned(), 1);
    a.ok(&["unpin", &letter.display().to_string()]);
    assert_eq!(pinned(), 0);
    a.close();
}

#[test]
fn refuses_bad_input_with_a_cause_and_changes_nothing() {
    let bench = Bench::new();
    let a = bench.machine("a");
    let store = bench.store();
    for size in ["0", "3", "1EiB", "many"] {
        let (exit, code) =
            a.fails(&["drive", "create", "d", "--store", &store, "--size", size, "--no-encryption"]);
        assert_eq!((exit, code.as_str()), (2, "usage"), "{size}");
    }
    assert!(!bench.path("store").join("family.json").exists());
    for url in ["ftp://x/y", "file://relative", "nonsense"] {
        assert_eq!(a.fails(&["drive", "add", "d", "--store", url]), (2, "usage".into()), "{url}");
    }
    assert_eq!(a.fails(&["drive", "add", "d", "--store", &store]), (5, "offline".into()));
    // A mistake in an address creates no directories.
    let missing = format!("file://{}", bench.text("nas/driv"));
    let create = ["drive", "create", "d", "--store", &missing, "--size", "64M", "--no-encryption"];
    for (command, which) in [(&create[..], "nas"), (&["store", "test", &missing], "nas/driv")] {
        let told = failure(&a.run(command));
        assert_eq!((&told["code"], bench.path("nas").exists()), (&"not_found".into(), false), "{told}");
        let (directory, action) = (bench.text(which), told["action"].as_str().unwrap());
        assert!(action.ends_with(&format!("`mkdir -p {directory}`.")), "{told}");
    }
    std::fs::create_dir_all(bench.path("store")).unwrap();
    assert_eq!(a.fails(&["drive", "add", "d", "--store", &store]), (3, "not_found".into()));
    std::fs::write(bench.path("store/family.json"), "<html>").unwrap();
    assert_eq!(a.fails(&["drive", "add", "d", "--store", &store]), (7, "corrupt".into()));
    std::fs::write(bench.path("store/family.json"), r#"{"format": 3}"#).unwrap();
    assert_eq!(a.fails(&["drive", "add", "d", "--store", &store]).1, "newer");
    std::fs::remove_file(bench.path("store/family.json")).unwrap();
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    for size in ["0", "3", "32M", "1EiB", "many"] {
        assert_eq!(a.fails(&["drive", "resize", "d", size]), (2, "usage".into()), "{size}");
    }
    let again = ["drive", "create", "e", "--store", &store, "--size", "64M", "--no-encryption"];
    assert_eq!(a.fails(&again).1, "exists");
    assert_eq!(a.fails(&["drive", "open", "none"]), (3, "not_found".into()));
    let b = bench.machine("b");
    b.ok(&["drive", "add", "d", "--store", &store]);
    std::fs::rename(bench.path("store"), bench.path("away")).unwrap();
    // The last user of the drive could open it without the store. This computer has never had it.
    assert_eq!(b.fails(&["drive", "open", "d"]), (5, "offline".into()));
    std::fs::rename(bench.path("away"), bench.path("store")).unwrap();
}

#[test]
fn repeated_opens_and_closes_change_nothing() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let notes = || a.ok(&["activity", "d"]).as_array().unwrap().len();
    let opened = a.ok(&["drive", "open", "d"]);
    assert!(opened.get("already").is_none(), "{opened}");
    let noted = notes();
    let mountpoint = opened["mountpoint"].as_str().unwrap();
    for wishes in [
        vec!["open", "d"],
        vec!["drive", "open", "d", "--at", mountpoint],
        vec!["open", "d", "--at", mountpoint, "--attach", opened["attach"].as_str().unwrap()],
        vec!["open", "d", "--take-over"],
    ] {
        let again = a.ok(&wishes);
        assert_eq!(again["already"], true, "{wishes:?}");
        for what in ["mountpoint", "block_device", "attach", "epoch", "root"] {
            assert_eq!(again[what], opened[what], "{wishes:?}: {what}");
        }
    }
    let elsewhere = bench.text("elsewhere");
    let other_way = if opened["attach"] == "loop" { "nbd" } else { "loop" };
    for (wishes, says) in [
        (vec!["open", "d", "--at", &elsewhere], "is open at"),
        (vec!["open", "d", "--read-only"], "for writing, not read-only"),
        (vec!["open", "d", "--snapshot", "s"], "not at the snapshot"),
        (vec!["open", "d", "--attach", other_way], "is attached by"),
    ] {
        let refused = failure(&a.run(&wishes));
        let said = (refused["message"].as_str().unwrap(), refused["action"].as_str().unwrap());
        assert!(refused["code"] == "state" && said.0.contains(says), "{refused}");
        assert!(said.1.contains("holdall drive close d") && said.1.contains(wishes[2]), "{refused}");
    }
    assert!(!Path::new(&elsewhere).exists(), "nothing is made for what is refused");
    assert_eq!(notes(), noted, "nothing has happened");
    let closed = a.ok(&["close", "d", "--wait"]);
    assert!(closed["state"] == "Closed" && closed.get("already").is_none(), "{closed}");
    let noted = notes();
    for again in [&["close", "d"][..], &["drive", "close", "d", "--wait"]] {
        let closed = a.ok(again);
        assert!(closed["already"] == true && closed["state"] == "Closed", "{closed}");
    }
    assert_eq!(notes(), noted, "nothing has happened");
    // Opening it read-only is something else.
    a.ok(&["open", "d", "--read-only"]);
    assert_eq!(a.ok(&["open", "d", "--read-only"])["already"], true);
    assert!(
        failure(&a.run(&["open", "d"]))["message"].as_str().unwrap().contains("read-only, not for writing")
    );
    a.ok(&["close", "d"]);
}

#[test]
fn a_drive_without_a_size_has_a_tebibyte_and_costs_nothing() {
    let bench = Bench::new();
    let a = bench.machine("a");
    let made = a.ok(&["drive", "create", "work", "--store", &bench.store(), "--no-encryption"]);
    assert_eq!(made["size_bytes"], 1u64 << 40);
    a.ok(&["open", "work"]);
    assert_eq!(a.ok(&["ls", "work"])["size_bytes"], 1u64 << 40);
    a.ok(&["close", "work", "--wait"]);
    let stored = bytes_below(&bench.path("store"));
    assert!(stored < 32 << 20, "an empty one takes {stored} bytes of its store");
    let mistyped = failure(&a.run(&["open", "wrok"]));
    assert!(mistyped["code"] == "not_found", "{mistyped}");
    assert!(mistyped["action"].as_str().unwrap().starts_with("Did you mean \"work\"?"), "{mistyped}");
}

#[test]
fn a_label_that_was_typed_wrong_is_recognised() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "snapshot", "create", "d", "before-2026"]);
    a.close();
    for command in [
        &["drive", "snapshot", "delete", "d", "befroe-2026"][..],
        &["drive", "rollback", "d", "before2026", "--yes"],
        &["drive", "clone", "d", "e", "--snapshot", "before-2025"],
    ] {
        let output = a.run(command);
        let mistyped = failure(&output);
        assert_eq!((output.status.code(), &mistyped["code"]), (Some(3), &"not_found".into()), "{mistyped}");
        let action = mistyped["action"].as_str().unwrap();
        assert!(action.starts_with("Did you mean \"before-2026\"?"), "{command:?}: {mistyped}");
    }
}

#[test]
fn tells_an_unfinished_drive_from_an_empty_store() {
    let bench = Bench::new();
    let (store, a) = (bench.store(), bench.with_drive());
    a.ok(&["drive", "remove", "d", "--yes"]);
    // As if its creation was cut off before the drive itself existed.
    for directory in ["store/head", "store/root"] {
        std::fs::remove_dir_all(bench.path(directory)).unwrap();
    }
    let add = ["drive", "add", "d", "--store", &store];
    assert_eq!(a.fails(&add), (7, "corrupt".into()));
    let empty = format!("file://{}", bench.text("empty"));
    std::fs::create_dir(bench.path("empty")).unwrap();
    assert_eq!(a.fails(&["drive", "add", "d", "--store", &empty]), (3, "not_found".into()));
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    a.open(&[]);
    a.close();
}

/// The command in a text that begins with these words, split as a shell does it.
fn command_in(text: &str, begins: &str) -> Vec<String> {
    let command = text.split('`').find(|part| part.starts_with(begins)).unwrap_or_else(|| panic!("{text}"));
    let script = format!("printf '%s\\n' {command}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn failures_suggest_commands_with_the_right_names() {
    let bench = Bench::new();
    let a = bench.machine("a");
    let store = format!("file://{}", bench.text("it's a URL"));
    let create = |name: &'static str| {
        ["drive", "create", name, "--store", &store, "--size", "64M", "--no-encryption"].map(str::to_owned)
    };
    let run = |words: &[String]| a.run(&words.iter().map(|word| &**word).collect::<Vec<_>>());
    assert!(run(&create("myURL")).status.success());
    let told = failure(&run(&create("NAME2")));
    let words = command_in(told["action"].as_str().unwrap(), "holdall drive add");
    assert_eq!(words[..5], ["holdall", "drive", "add", "NAME2", "--store"]);
    assert!(words.len() == 6 && words[5].contains("it's"), "{words:?}");
    assert_eq!(told["actions"][0]["do"], "add");
    let told = failure(&a.run(&["drive", "snapshot", "delete", "myURL", "none"]));
    let words = command_in(told["action"].as_str().unwrap(), "holdall drive snapshot");
    assert_eq!(words, ["holdall", "drive", "snapshot", "list", "myURL"]);
    assert_eq!(told["actions"][0]["drive"], "myURL");
    // The failure names the store if the store is what must be fixed.
    std::fs::rename(bench.path("it's a URL/family.json"), bench.path("away")).unwrap();
    let told = failure(&a.run(&["drive", "check", "myURL"]));
    let steps = told["on_screen"].as_array().unwrap();
    assert!(told["action"].as_str().unwrap().contains("it's"), "{told}");
    assert!(steps.iter().all(|step| !step["text"].as_str().unwrap().contains("holdall ")), "{told}");
}

#[test]
fn refuses_a_store_among_other_files_and_offers_a_subdirectory() {
    let bench = Bench::new();
    let a = bench.machine("a");
    std::fs::create_dir(bench.path("disk")).unwrap();
    for name in ["lost+found", ".Trash-1000"] {
        std::fs::create_dir(bench.path("disk").join(name)).unwrap();
    }
    std::fs::write(bench.path("disk/letter.txt"), "dear").unwrap();
    let disk = bench.text("disk");
    let create = |name: &'static str, store: &str, more: &[&str]| {
        let size = ["--size", "64M", "--no-encryption"];
        a.run(&[&["drive", "create", name, "--store", store][..], &size, more].concat())
    };
    let told = failure(&create("d", &disk, &[]));
    assert_eq!(told["code"], "exists", "{told}");
    assert!(told["message"].as_str().unwrap().contains("letter.txt"), "{told}");
    let words = command_in(told["action"].as_str().unwrap(), "holdall drive create");
    let instead = format!("{disk}/holdall");
    assert_eq!(words, ["holdall", "drive", "create", "d", "--store", &instead]);
    let left: Vec<_> = std::fs::read_dir(bench.path("disk")).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing was put there: {left:?}");
    // The offered directory works, and so does insisting on the first one.
    assert!(create("d", &instead, &[]).status.success());
    assert!(create("e", &disk, &["--beside-other-files"]).status.success());
    let tested = a.ok(&["store", "test", &disk]);
    assert_eq!((&tested["has_drive"], &tested["instead"]), (&true.into(), &serde_json::Value::Null));
}
