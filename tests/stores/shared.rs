//! A directory that two computers have mounted, each with its own caches and locks; and one that a sync tool copies.

use crate::bench::Bench;
use crate::person::Person;
use crate::place::make_by_locks;
use crate::replicas::{read, save};
use holdall_servers::odd_directory::{Habits, OddDirectory, Refusal};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const SLOW: Habits = Habits {
    stale_for: Duration::from_secs(1),
    rename_takes: Duration::from_millis(3),
    directory_sync: None,
    flock: None,
    rename_new: None,
    link: None,
    make_directory: None,
};

fn url(directory: &Path, name: &str) -> String {
    format!("file://{}", directory.join(name).display())
}

fn create(store: &str) -> [&str; 8] {
    ["drive", "create", "d", "--store", store, "--size", "64M", "--no-encryption"]
}

fn close(person: &Person) {
    person.ok(&["drive", "close", "d", "--wait"]);
}

fn finding<'a>(tested: &'a Value, subject: &str) -> &'a Value {
    let found = tested["findings"].as_array().unwrap().iter().find(|found| found["subject"] == subject);
    found.unwrap_or_else(|| panic!("nothing about {subject}: {tested}"))
}

#[test]
fn one_of_two_computers_opens_a_shared_directory() {
    const ROUNDS: usize = 8;
    let (bench, directory) = (Bench::new(), OddDirectory::mount(SLOW, 2));
    let persons = ["a", "b"].map(|name| Person::new(&bench, name, &[]));
    let urls = [0, 1].map(|number| url(&directory.path(number), "store"));
    let made = persons[0].ok(&create(&urls[0]));
    assert_eq!(made["store_mode"], "claim");
    persons[1].ok(&["drive", "add", "d", "--store", &urls[1]]);
    for round in 0..ROUNDS {
        let opening = persons.each_ref().map(|person| {
            let at = person.machine.mountpoint().display().to_string();
            person.machine.begin(&["drive", "open", "d", "--attach", "loop", "--at", &at])
        });
        let opened = opening.map(|opening| opening.output().status.code());
        let winner = match opened {
            [Some(0), Some(4)] => 0,
            [Some(4), Some(0)] => 1,
            other => panic!("round {round}: {other:?}"),
        };
        let person = &persons[winner];
        for before in 0..round {
            assert_eq!(read(person, &format!("file{before}")), vec![before as u8; 1000], "round {round}");
        }
        save(person, &format!("file{round}"), &vec![round as u8; 1000]);
        close(person);
    }
    for person in &persons {
        assert_eq!(person.ok(&["drive", "check", "d"])["ok"], true);
    }
}

#[test]
fn a_store_test_names_the_file_system_and_its_protection() {
    let (bench, directory) = (Bench::new(), OddDirectory::mount(SLOW, 1));
    let a = Person::new(&bench, "a", &[]);
    let local = bench.store();
    std::fs::create_dir(bench.path("store")).unwrap();
    for (url, seen) in [(&local, "on this computer"), (&url(&directory.path(0), ""), "other computers may")] {
        let tested = a.ok(&["store", "test", url]);
        assert_eq!((&tested["store_mode"], &tested["usable"]), (&"claim".into(), &true.into()), "{tested}");
        let found = finding(&tested, "file system");
        let detail = found["detail"].as_str().unwrap();
        assert!(found["ok"] == true && detail.contains(seen) && detail.contains("claims"), "{tested}");
    }
}

#[test]
fn a_drive_works_in_a_directory_that_lacks_something() {
    let lacks_all = Habits {
        directory_sync: Some(Refusal::INVALID),
        flock: Some(Refusal::NO_LOCKS),
        rename_new: Some(Refusal::INVALID),
        link: Some(Refusal::NOT_PERMITTED),
        ..SLOW
    };
    let cannot_sync = Habits { directory_sync: Some(Refusal::NOT_SUPPORTED), ..SLOW };
    for habits in [lacks_all, cannot_sync] {
        let (bench, directory) = (Bench::new(), OddDirectory::mount(habits, 1));
        let a = Person::new(&bench, "a", &[]);
        a.ok(&create(&url(&directory.path(0), "store")));
        a.open();
        save(&a, "file", b"some bytes");
        close(&a);
        a.open();
        assert_eq!(read(&a, "file"), b"some bytes");
        close(&a);
        assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    }
}

#[test]
fn says_why_a_place_cannot_hold_a_store() {
    let habits = Habits { make_directory: Some(Refusal::NOT_SUPPORTED), ..Habits::default() };
    let (bench, directory) = (Bench::new(), OddDirectory::mount(habits, 1));
    let a = Person::new(&bench, "a", &[]);
    let (code, failure) = a.fails(&create(&url(&directory.path(0), "")));
    let message = failure["message"].as_str().unwrap();
    assert_ne!(code, 0);
    assert!(message.contains("not supported") && !message.contains("reached"), "{failure}");
    assert!(failure["action"].as_str().unwrap().contains("another file system"), "{failure}");
    assert!(!a.reads(&["status"]).contains("64"), "no drive is made");
}

#[test]
fn refuses_a_synchronised_folder_or_warns_if_it_is_forced() {
    let bench = Bench::new();
    let a = Person::new(&bench, "a", &[]);
    std::fs::create_dir_all(bench.path("synced/.stfolder")).unwrap();
    let store = url(&bench.path("synced"), "store");
    let failure = a.refused(&create(&store), 1, "weak_store");
    assert!(failure["message"].as_str().unwrap().contains("Syncthing"), "{failure}");
    assert!(!bench.path("synced/store").exists(), "nothing is made there");
    a.ok(&[&create(&store)[..], &["--in-synced-folder"]].concat());
    let tested = a.ok(&["store", "test", &store]);
    let found = finding(&tested, "synchronised folder");
    assert!(found["ok"] == false && found["detail"].as_str().unwrap().contains("Syncthing"), "{tested}");
    a.open();
    assert!(a.reads(&["activity"]).contains("Syncthing"), "each opening says so");
    close(&a);
}

/// The commands that a failure names, without the program.
fn commands(text: &str) -> Vec<Vec<String>> {
    let named = text.split('`').filter(|part| part.starts_with("holdall drive replica"));
    named.map(|command| command.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

#[test]
fn a_drive_relying_on_locks_opens_read_only_when_shared() {
    let (bench, directory) = (Bench::new(), OddDirectory::mount(SLOW, 2));
    make_by_locks(&directory.inner().join("store"));
    let [a, b] = ["a", "b"].map(|name| Person::new(&bench, name, &[]));
    // As before: on the server's own disk.
    let local = url(&directory.inner(), "store");
    b.ok(&["drive", "add", "d", "--store", &local]);
    b.open();
    save(&b, "before", b"by locks");
    close(&b);
    b.ok(&["drive", "remove", "d", "--yes"]);

    a.ok(&["drive", "add", "d", "--store", &url(&directory.path(0), "store")]);
    let opened = a.open();
    let because = opened["read_only_because"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    assert!(because.contains("locks"), "{because}");
    assert_eq!(read(&a, "before"), b"by locks");
    assert!(std::fs::write(a.machine.mountpoint().join("x"), "x").is_err());
    close(&a);
    // Nothing else may write there either.
    a.refused(&["drive", "snapshot", "create", "d", "now"], 1, "weak_store");

    // Follow its advice to the letter.
    let commands = commands(&because);
    assert_eq!(commands.len(), 2, "{because}");
    for command in &commands {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        if words[2] == "promote" {
            words.push("--yes");
        }
        a.ok(&words);
    }
    let opened = a.open();
    assert!(opened["read_only_because"].is_null(), "{opened}");
    assert_eq!(read(&a, "before"), b"by locks");
    save(&a, "after", b"by claims");
    close(&a);
    assert_eq!(a.ok(&["drive", "status", "d"])["store_mode"], "claim");
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);

    b.ok(&["drive", "add", "d", "--store", &url(&directory.path(1), "store-new")]);
    b.open();
    assert_eq!((read(&b, "before"), read(&b, "after")), (b"by locks".to_vec(), b"by claims".to_vec()));
    close(&b);
}
