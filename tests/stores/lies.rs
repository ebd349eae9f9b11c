//! Stores that make false claims about a drive: nothing is written because of them, least of all unencrypted.

use crate::bench::{Bench, Machine, failure};
use holdall_core::format::family::{Family, Mode};
use holdall_core::seal::Cipher;
use holdall_servers::odd_s3::{self, Habits};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn encrypted(bench: &Bench) -> Machine {
    let a = bench.machine("a");
    let (store, passphrase) = (bench.store(), bench.text("passphrase"));
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--passphrase-file", &passphrase]);
    a
}

#[track_caller]
fn refused(machine: &Machine, arguments: &[&str], exit: i32, code: &str) -> Value {
    let output = machine.run(arguments);
    let failure = failure(&output);
    assert_eq!(
        (output.status.code(), failure["code"].as_str()),
        (Some(exit), Some(code)),
        "{arguments:?}: {failure}"
    );
    failure
}

fn names(store: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut directories = vec![store.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => drop(names.insert(entry.path().display().to_string())),
            }
        }
    }
    names
}

/// All files below a directory that contain what a hostile server sends.
fn hostile_files(below: &Path) -> Vec<String> {
    let is_hostile = |name: &String| fs::read(name).is_ok_and(|content| content == odd_s3::HOSTILE);
    names(below).into_iter().filter(is_hostile).collect()
}

/// Writes a family.json with these claims.
fn say(store: &Path, family: &Family) {
    fs::write(store.join("family.json"), family.encode()).unwrap();
}

#[test]
fn refuses_a_store_that_changes_its_claims_about_a_drive() {
    let bench = Bench::new();
    let a = encrypted(&bench);
    let store = bench.path("store");
    let true_one = Family::decode(&fs::read(store.join("family.json")).unwrap()).unwrap();
    let before = names(&store);
    let open = ["drive", "open", "d", "--read-only", "--at", &bench.text("mnt")];
    let said = |id, cipher, mode| Family::new(id, cipher, mode);
    let Family { family, cipher, .. } = true_one.clone();
    let another = "00000000-0000-4000-8000-000000000001".parse().unwrap();
    for (lie, words) in [
        (said(family, Cipher::None, Mode::Claim), "not encrypted"),
        (said(family, cipher, Mode::Swap), "instead of claims"),
        (said(another, cipher, Mode::Claim), "another drive"),
    ] {
        say(&store, &lie);
        for command in [
            &open[..],
            &["drive", "sync", "d"],
            &["drive", "check", "d"],
            &["drive", "snapshot", "list", "d"],
        ] {
            let output = a.run(command);
            let failure = failure(&output);
            let message = failure["message"].as_str().unwrap_or_default();
            assert!(!output.status.success() && message.contains(words), "{command:?}: {failure}");
            assert!(failure["consequence"].as_str().unwrap().contains("Nothing was written"), "{failure}");
        }
        assert_eq!(names(&store), before);
    }
    say(&store, &true_one);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    a.ok(&["daemon", "stop"]);
}

#[test]
fn a_given_passphrase_refuses_a_store_that_claims_no_encryption() {
    let bench = Bench::new();
    let a = encrypted(&bench);
    let store = bench.path("store");
    let Family { family, mode, .. } = Family::decode(&fs::read(store.join("family.json")).unwrap()).unwrap();
    say(&store, &Family::new(family, Cipher::None, mode));
    let b = bench.machine("b");
    let (address, passphrase) = (bench.store(), bench.text("passphrase"));
    let add = ["drive", "add", "d", "--store", &address];
    let failure = refused(&b, &[&add[..], &["--passphrase-file", &passphrase]].concat(), 1, "state");
    assert!(failure["message"].as_str().unwrap().contains("not encrypted"), "{failure}");
    assert!(b.ok(&["drive", "list"]).as_array().is_none_or(Vec::is_empty));
    for machine in [a, b] {
        machine.ok(&["daemon", "stop"]);
    }
}

#[test]
fn a_store_that_lists_names_outside_itself_writes_nothing_through_a_replica() {
    let bench = Bench::new();
    let has =
        &["p/keys/../../../intruder", "p/keys/..", "p/seg/../../intruder", "p/root/00/../../../intruder"];
    let server = odd_s3::start(Habits { has, ..Habits::default() });
    let a = bench.machine("a");
    let store = odd_s3::address(&server);
    fs::write(bench.path("login"), "key:secret\n").unwrap();
    let (login, words) = (bench.text("login"), bench.text("passphrase"));
    a.ok(&["store", "login", &store, "--no-keyring", "--credentials-file", &login]);
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--passphrase-file", &words]);
    a.open(&[]);
    fs::write(a.mountpoint().join("letter"), "mine").unwrap();
    a.ok(&["drive", "sync", "d"]);
    fs::create_dir_all(bench.path("deep/deeper/replica")).unwrap();
    let replica = format!("file://{}", bench.text("deep/deeper/replica"));
    a.ok(&["drive", "replica", "add", "d", &replica]);
    a.status_when("the replica has everything", |status| status["replicas"][0]["state"] == "up_to_date");
    a.close();
    assert_eq!(hostile_files(&bench.path("deep")), [""; 0]);
    assert_eq!(hostile_files(&bench.path("")), [""; 0]);
    assert!(!bench.path("intruder").exists() && !bench.path("deep/intruder").exists());
    a.ok(&["daemon", "stop"]);
}

#[test]
fn adding_an_unencrypted_drive_says_so() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let b = bench.machine("b");
    let added = b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    assert_eq!(added["encrypted"], false, "{added}");
    for machine in [a, b] {
        machine.ok(&["daemon", "stop"]);
    }
}
