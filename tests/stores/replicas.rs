//! Replicas: a store dies, and the drive continues in another.

use crate::bench::{Bench, Running, noise, wait_until};
use crate::person::Person;
use crate::s3::with_drive;
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{S3Server, SECRET_KEY, credentials};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a file, and returns once it is safe on this computer.
pub fn save(person: &Person, name: &str, bytes: &[u8]) {
    let mut file = File::create(person.machine.mountpoint().join(name)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

pub fn read(person: &Person, name: &str) -> Vec<u8> {
    std::fs::read(person.machine.mountpoint().join(name)).unwrap()
}

fn mount(arguments: &[&str], at: &Path) {
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success());
}

fn up_to_date(person: &Person) {
    person
        .machine
        .status_when("the replica has everything", |status| status["replicas"][0]["state"] == "up_to_date");
}

#[test]
fn a_replica_replaces_a_store_that_dies_during_an_upload() {
    let bench = Bench::new();
    let (server, proxy, _url, mut a) = with_drive(&bench);
    let webdav = DavServer::apache(SignIn::None);
    let replica = webdav.url("/backup/");
    a.open();
    save(&a, "uploaded", &vec![7; 3 << 20]);
    a.ok(&["drive", "sync", "d"]);
    let added = a.ok(&["drive", "replica", "add", "d", &replica]);
    assert_eq!(added["state"], "up_to_date", "{added}");
    save(&a, "uploaded later", b"and copied");
    a.ok(&["drive", "sync", "d"]);
    up_to_date(&a);

    // The store dies between a segment and the HEAD that would have named it.
    proxy.plan(faults::first(u64::MAX, Fault::CutAfterBody, |asked| asked.target.contains("/root/")));
    save(&a, "only here", &vec![9; 5 << 20]);
    let syncing = a.machine.begin(&["drive", "sync", "d"]);
    a.machine.status_when("offline", |status| status["state"] == "Offline");
    proxy.cut_all();
    drop(server);
    drop(syncing);
    a.ok(&["drive", "close", "d"]);

    let other = ["drive", "replica", "promote", "d", "https://nowhere.invalid/", "--yes"];
    a.refused(&other, 3, "not_found");
    let promoted = a.ok(&["drive", "replica", "promote", "d", &replica, "--yes"]);
    assert_eq!(promoted["lost_versions"], false, "{promoted}");
    assert_eq!(promoted["former_store_told"], false, "{promoted}");
    a.open();
    assert_eq!(read(&a, "uploaded"), vec![7; 3 << 20]);
    assert_eq!(read(&a, "uploaded later"), b"and copied");
    assert_eq!(read(&a, "only here"), vec![9; 5 << 20]);
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);

    // From the replica alone.
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &replica]);
    b.open();
    assert_eq!(read(&b, "only here"), vec![9; 5 << 20]);
    b.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY]);
}

#[test]
fn promoting_a_lagging_replica_needs_consent_to_the_loss() {
    let bench = Bench::new();
    let (_server, proxy, _url, a) = with_drive(&bench);
    let replica = format!("file://{}", bench.text("replica"));
    a.open();
    save(&a, "first", b"1");
    a.ok(&["drive", "replica", "add", "d", &replica]);
    let elsewhere = bench.path("elsewhere");
    std::fs::rename(bench.path("replica"), &elsewhere).unwrap();
    save(&a, "second", b"2");
    a.ok(&["drive", "sync", "d"]);
    a.machine.status_when("the replica is away", |status| status["replicas"][0]["state"] == "trouble");
    a.ok(&["drive", "close", "d", "--wait"]);
    std::fs::rename(&elsewhere, bench.path("replica")).unwrap();

    let promote = ["drive", "replica", "promote", "d", &replica, "--yes"];
    let failure = a.refused(&promote, 1, "state");
    assert!(failure["action"].as_str().unwrap().contains("up to date"), "{failure}");
    // It catches up once the drive is open.
    a.open();
    up_to_date(&a);
    assert!(a.reads(&["drive", "status", "d"]).contains("has everything that is uploaded"));
    std::fs::rename(bench.path("replica"), &elsewhere).unwrap();
    save(&a, "third", b"3");
    a.ok(&["drive", "sync", "d"]);
    a.ok(&["drive", "close", "d", "--wait"]);
    std::fs::rename(&elsewhere, bench.path("replica")).unwrap();

    // The store is lost for good.
    proxy.plan(faults::from(0, Fault::CutBeforeBody));
    let failure = a.refused(&promote, 1, "state");
    assert!(failure["action"].as_str().unwrap().contains("--accept-loss"), "{failure}");
    let promoted = a.ok(&[&promote[..], &["--accept-loss"]].concat());
    assert_eq!(promoted["lost_versions"], true, "{promoted}");
    a.open();
    assert_eq!((read(&a, "first"), read(&a, "second")), (b"1".to_vec(), b"2".to_vec()));
    assert!(!a.machine.mountpoint().join("third").exists());
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    // The lost changes are set aside, not deleted.
    let kept = std::fs::read_dir(a.machine.state.join("drives/d")).unwrap();
    let kept =
        kept.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("set-aside-"));
    assert_eq!(kept.count(), 1);
    a.refused(&["drive", "remove", "d", "--yes"], 8, "unsent");
    a.ok(&["drive", "remove", "d", "--yes", "--discard-unsent"]);
    assert!(!a.machine.state.join("drives/d").exists());
}

/// A drive `d` with a note, open in the first of two directories and with a replica in the second.
fn with_replica(bench: &Bench) -> (String, String, Person) {
    let [first, second] = ["first", "second"].map(|name| format!("file://{}", bench.text(name)));
    let a = Person::new(bench, "a", &[]);
    a.ok(&["drive", "create", "d", "--store", &first, "--size", "64M", "--no-encryption"]);
    a.open();
    save(&a, "note", b"1");
    a.ok(&["drive", "replica", "add", "d", &second]);
    (first, second, a)
}

#[test]
fn promoting_the_replica_of_an_emptied_store_needs_consent() {
    let bench = Bench::new();
    let (_first, second, a) = with_replica(&bench);
    up_to_date(&a);
    a.ok(&["drive", "close", "d", "--wait"]);
    std::fs::remove_dir_all(bench.path("first")).unwrap();
    std::fs::create_dir(bench.path("first")).unwrap();
    let promote = ["drive", "replica", "promote", "d", &second, "--yes"];
    let failure = a.refused(&promote, 3, "not_found");
    assert!(failure["action"].as_str().unwrap().contains("--accept-loss"), "{failure}");
    a.ok(&[&promote[..], &["--accept-loss"]].concat());
    a.open();
    assert_eq!(read(&a, "note"), b"1");
    a.ok(&["drive", "close", "d", "--wait"]);
}

/// A drive `d` with a note of `a`, moved from the first of two stores to the second while the first was away. `b` knows only the
/// first.
fn moved_while_its_store_was_away(bench: &Bench) -> (String, String, Person, Person) {
    let (first, second, a) = with_replica(bench);
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &first]);
    std::fs::rename(bench.path("first"), bench.path("elsewhere")).unwrap();
    let promoted = a.ok(&["drive", "replica", "promote", "d", &second, "--yes"]);
    assert_eq!(promoted["former_store_told"], false, "{promoted}");
    (first, second, a, b)
}

#[test]
fn keeps_a_moved_drive_until_its_former_store_is_informed() {
    let bench = Bench::new();
    let (first, second, a, b) = moved_while_its_store_was_away(&bench);
    let failure = a.refused(&["drive", "remove", "d", "--yes"], 8, "unsent");
    assert!(failure["message"].as_str().unwrap().contains(&first), "{failure}");
    std::fs::rename(bench.path("elsewhere"), bench.path("first")).unwrap();
    a.ok(&["drive", "remove", "d", "--yes"]);
    let failure = b.refused(&["drive", "add", "e", "--store", &first], 3, "gone");
    assert!(failure["action"].as_str().unwrap().contains(&second), "{failure}");
}

#[test]
fn informs_a_former_store_that_was_away_once_it_returns() {
    let bench = Bench::new();
    let (first, second, a, b) = moved_while_its_store_was_away(&bench);
    // A stop of the daemon does not make it forget.
    a.ok(&["daemon", "stop"]);
    std::fs::rename(bench.path("elsewhere"), bench.path("first")).unwrap();
    a.ok(&["drive", "list"]);
    let config = a.machine.state.join("drives/d/config.json");
    let told = || !std::fs::read_to_string(&config).unwrap().contains("former");
    wait_until("the former store is told", told).unwrap();

    let at = b.machine.mountpoint().display().to_string();
    let failure = b.refused(&["drive", "open", "d", "--attach", "loop", "--at", &at], 3, "gone");
    assert!(failure["message"].as_str().unwrap().contains(&second), "{failure}");
    let failure = b.refused(&["drive", "add", "e", "--store", &first], 3, "gone");
    assert!(failure["action"].as_str().unwrap().contains(&second), "{failure}");
    b.ok(&["drive", "remove", "d", "--yes"]);
    b.ok(&["drive", "add", "d", "--store", &second]);
    b.open();
    assert_eq!(read(&b, "note"), b"1");
    b.ok(&["drive", "close", "d", "--wait"]);
    a.ok(&["drive", "replica", "add", "d", &first]);
}

#[test]
fn a_drive_moved_by_another_computer_is_not_moved_twice() {
    let bench = Bench::new();
    let (first, second, a) = with_replica(&bench);
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&bench, "b", &[]);
    let third = format!("file://{}", bench.text("third"));
    b.ok(&["drive", "add", "d", "--store", &first]);
    b.ok(&["drive", "replica", "add", "d", &third]);
    b.ok(&["drive", "replica", "promote", "d", &third, "--yes"]);
    let failure = a.refused(&["drive", "replica", "promote", "d", &second, "--yes"], 3, "gone");
    assert!(failure["message"].as_str().unwrap().contains(&third), "{failure}");
    b.open();
    assert_eq!(read(&b, "note"), b"1");
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn refuses_to_promote_a_replica_that_the_drive_left() {
    let bench = Bench::new();
    let (first, second, a) = with_replica(&bench);
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&bench, "b", &[]);
    let third = format!("file://{}", bench.text("third"));
    b.ok(&["drive", "add", "d", "--store", &first]);
    b.ok(&["drive", "replica", "add", "d", &second]);
    b.ok(&["drive", "replica", "promote", "d", &second, "--yes"]);
    b.open();
    save(&b, "note", b"2");
    b.ok(&["drive", "replica", "add", "d", &third]);
    b.ok(&["drive", "close", "d", "--wait"]);
    b.ok(&["drive", "replica", "promote", "d", &third, "--yes"]);

    let head = || files_below(&bench.path("second/head"));
    let before = head();
    assert!(!before.is_empty());
    let failure = a.refused(&["drive", "replica", "promote", "d", &second, "--yes"], 3, "gone");
    assert!(failure["message"].as_str().unwrap().contains(&third), "{failure}");
    assert_eq!(head(), before, "it stays as it is");
    b.open();
    assert_eq!(read(&b, "note"), b"2");
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn pending_uploads_continue_without_a_fork_after_a_failed_promotion() {
    let bench = Bench::new();
    let (_first, second, a) = with_replica(&bench);
    up_to_date(&a);
    a.ok(&["drive", "pause", "d"]);
    save(&a, "only here", b"2");
    a.ok(&["drive", "close", "d"]);
    // No HEAD can be put there, since nothing can be renamed into another file system.
    let head = bench.path("second/head");
    std::fs::create_dir_all(&head).unwrap();
    mount(&["-t", "tmpfs", "none"], &head);
    let promote = ["drive", "replica", "promote", "d", &second, "--yes"];
    a.refused(&promote, 5, "offline");
    a.ok(&["drive", "resume", "d"]);
    // The next service begins by uploading pending changes.
    a.ok(&["daemon", "stop"]);
    let at = a.machine.mountpoint().display().to_string();
    let failure = a.refused(&["drive", "open", "d", "--attach", "loop", "--at", &at], 1, "state");
    assert!(failure["action"].as_str().unwrap().contains(&second), "{failure}");
    a.refused(&["drive", "sync", "d"], 1, "state");
    assert_eq!(a.ok(&["drive", "forks", "d"]), serde_json::json!([]));
    assert!(Command::new("umount").arg(&head).status().unwrap().success());
    let promoted = a.ok(&promote);
    assert_eq!(promoted["lost_versions"], false, "{promoted}");
    a.open();
    assert_eq!((read(&a, "note"), read(&a, "only here")), (b"1".to_vec(), b"2".to_vec()));
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "forks", "d"]), serde_json::json!([]));
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

#[test]
fn repeating_a_promotion_reports_no_loss() {
    let bench = Bench::new();
    let (_first, second, a) = with_replica(&bench);
    up_to_date(&a);
    a.ok(&["drive", "close", "d", "--wait"]);
    let config = a.machine.state.join("drives/d/config.json");
    let before = std::fs::read(&config).unwrap();
    let promote = ["drive", "replica", "promote", "d", &second, "--yes"];
    a.ok(&promote);
    a.open();
    save(&a, "note", b"2");
    a.ok(&["drive", "close", "d", "--wait"]);
    // The disk has lost the record of the promotion.
    a.ok(&["daemon", "stop"]);
    std::fs::write(&config, before).unwrap();
    let promoted = a.ok(&promote);
    assert_eq!(promoted["lost_versions"], false, "{promoted}");
    a.ok(&["drive", "remove", "d", "--yes"]);
    a.ok(&["drive", "add", "d", "--store", &second]);
    a.open();
    assert_eq!(read(&a, "note"), b"2");
    a.ok(&["drive", "close", "d", "--wait"]);
}

fn is_being_copied(person: &Person) {
    person.machine.status_when("it is being copied", |status| {
        status["replicas"][0]["behind_bytes"].as_u64().is_some_and(|behind| behind > 0)
    });
}

/// A person with a drive `d` in a directory, and with a login to a bucket for a replica.
fn beside_a_bucket(bench: &Bench) -> (S3Server, String, Person) {
    let server = S3Server::start();
    let replica = server.url("copy");
    std::fs::write(bench.path("keys"), credentials()).unwrap();
    let a = Person::new(bench, "a", &[]);
    let store = format!("file://{}", bench.text("store"));
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    a.ok(&["store", "login", &replica, "--credentials-file", &bench.text("keys")]);
    (server, replica, a)
}

#[test]
fn a_replica_catches_up_once_its_credentials_arrive() {
    let bench = Bench::new();
    let (_server, replica, a) = beside_a_bucket(&bench);
    let added = a.ok(&["drive", "replica", "add", "d", &replica]);
    let told_as = added["store"].as_str().unwrap();
    a.ok(&["store", "logout", &replica]);
    a.open();
    save(&a, "note", b"1");
    a.ok(&["drive", "sync", "d"]);
    a.machine.status_when("the replica refuses", |status| {
        let replica = &status["replicas"][0];
        replica["state"] == "trouble" && replica["reason"].as_str().unwrap().contains("no credentials")
    });
    let is_told = |what: &str, why: &str| {
        let rows = a.ok(&["activity"]);
        let mut told = rows.as_array().unwrap().iter().map(|row| row["message"].as_str().unwrap());
        told.any(|told| told.starts_with(what) && told.contains(why))
    };
    let waits = format!("The replica at {told_as} is not up to date. ");
    wait_until("it is told", || is_told(&waits, "no credentials")).unwrap();
    a.ok(&["store", "login", &replica, "--credentials-file", &bench.text("keys")]);
    up_to_date(&a);
    let back = format!("The replica at {told_as} is back.");
    wait_until("so is that it is back", || is_told(&back, "")).unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn refills_a_replica_whose_bucket_was_emptied() {
    let bench = Bench::new();
    let (server, replica, a) = beside_a_bucket(&bench);
    a.open();
    let before = noise(1, 3 << 20);
    save(&a, "before", &before);
    a.ok(&["drive", "replica", "add", "d", &replica]);
    up_to_date(&a);
    std::fs::remove_dir_all(server.bucket().join("copy")).unwrap();

    save(&a, "after", b"2");
    a.ok(&["drive", "sync", "d"]);
    let is_filled = || server.bucket().join("copy/family.json").exists();
    wait_until("it is being filled", is_filled).unwrap();
    up_to_date(&a);
    a.ok(&["drive", "close", "d", "--wait"]);
    std::fs::rename(bench.path("store"), bench.path("gone")).unwrap();
    a.ok(&["drive", "replica", "promote", "d", &replica, "--yes"]);
    a.open();
    assert_eq!((read(&a, "before"), read(&a, "after")), (before, b"2".to_vec()));
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

/// A closed drive with a photo of 8 MiB, and a command that waits for a copy of it in a bucket, which would take minutes.
fn closed_and_being_copied(bench: &Bench) -> (S3Server, Person, Running) {
    let (server, replica, a) = beside_a_bucket(bench);
    a.open();
    save(&a, "photo", &noise(1, 8 << 20));
    a.ok(&["drive", "close", "d", "--wait"]);
    a.ok(&["limits", "--up", "64K"]);
    let adding = a.machine.begin(&["drive", "replica", "add", "d", &replica]);
    is_being_copied(&a);
    (server, a, adding)
}

#[test]
fn a_closed_drive_can_be_opened_during_a_replica_copy() {
    let bench = Bench::new();
    let (_server, a, adding) = closed_and_being_copied(&bench);
    a.open();
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!(status["replicas"][0]["state"], "behind", "{status}");
    assert_eq!(read(&a, "photo").len(), 8 << 20);
    // The command that added it reports the current state.
    assert_eq!(adding.ok()["state"], "behind");
    a.ok(&["limits", "--up", "off"]);
    up_to_date(&a);
    a.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn a_service_that_ends_during_a_copy_releases_the_drive() {
    let bench = Bench::new();
    let (_server, a, adding) = closed_and_being_copied(&bench);
    a.ok(&["daemon", "stop"]);
    drop(adding);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &format!("file://{}", bench.text("store"))]);
    b.open();
    assert_eq!(read(&b, "photo").len(), 8 << 20);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn one_replica_replaces_the_store_though_another_is_incomplete() {
    let bench = Bench::new();
    let (server, _proxy, _url, mut a) = with_drive(&bench);
    let (webdav, bucket) = (DavServer::apache(SignIn::None), S3Server::start());
    let way = FaultProxy::start(webdav.address());
    let (first, second) = (format!("http://{}/backup/", way.address()), bucket.url("backup"));
    a.ok(&["store", "login", &second, "--credentials-file", &bench.text("ini")]);
    a.open();
    save(&a, "note", &vec![7; 3 << 20]);
    a.ok(&["drive", "sync", "d"]);
    let [first, second] = [first, second].map(|replica| {
        let added = a.ok(&["drive", "replica", "add", "d", &replica]);
        assert_eq!(added["state"], "up_to_date", "{added}");
        // In the form that is used everywhere.
        added["store"].as_str().unwrap().to_owned()
    });
    let of = |status: &serde_json::Value, store: &str| {
        let replicas = status["replicas"].as_array().unwrap();
        replicas.iter().find(|replica| replica["store"] == store).cloned().unwrap_or_default()
    };
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!(status["replicas"].as_array().unwrap().len(), 2, "{status}");

    // One replica goes away in the middle of a copy: it has a segment, but not the root that names it.
    let mut moved = 0;
    way.plan(Box::new(move |asked| {
        let is_gone = moved > 0 && asked.changes();
        moved += u32::from(asked.method == "MOVE");
        is_gone.then_some(Fault::CutBeforeBody)
    }));
    save(&a, "more", &vec![9; 3 << 20]);
    a.ok(&["drive", "sync", "d"]);
    let status = a.machine.status_when("one copy is stuck and one is complete", |status| {
        of(status, &first)["state"] == "trouble" && of(status, &second)["state"] == "up_to_date"
    });
    assert!(of(&status, &first)["reason"].is_string(), "{status}");
    assert!(a.reads(&["drive", "status", "d"]).matches("replica").count() >= 2);
    way.cut_all();
    a.ok(&["drive", "close", "d", "--wait"]);
    drop(server);

    let promoted = a.ok(&["drive", "replica", "promote", "d", &second, "--yes"]);
    assert_eq!(promoted["lost_versions"], false, "{promoted}");
    a.open();
    assert_eq!((read(&a, "note"), read(&a, "more")), (vec![7; 3 << 20], vec![9; 3 << 20]));
    // The other replica continues with the new store. Later it is no longer a replica.
    way.plan(faults::none());
    save(&a, "last", b"3");
    a.ok(&["drive", "sync", "d"]);
    let status = a
        .machine
        .status_when("the other one has caught up", |status| of(status, &first)["state"] == "up_to_date");
    assert_eq!(status["store"], second.as_str(), "{status}");
    a.ok(&["drive", "replica", "remove", "d", &first]);
    assert_eq!(of(&a.ok(&["drive", "status", "d"]), &first), serde_json::Value::Null);
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);

    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &second, "--credentials-file", &bench.text("ini")]);
    b.open();
    assert_eq!((read(&b, "more"), read(&b, "last")), (vec![9; 3 << 20], b"3".to_vec()));
    b.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY]);
}

/// Every file below a directory, with its contents.
fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}
