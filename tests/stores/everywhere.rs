//! The abilities of a drive in every kind of store: a directory, S3 with and without compare-and-swap, WebDAV by Apache and by
//! nginx.

use crate::bench::{Bench, noise, wait_until};
use crate::person::Person;
use crate::place::Place;
use crate::replicas::{read, save};
use crate::s3::ask;
use serde_json::json;

/// One test for each operation, in a module for each store.
macro_rules! everywhere {
    ($($store:ident),*) => {
        $(mod $store {
            use super::*;

            fn run(test: fn(&Bench, &Place)) {
                let bench = Bench::new();
                test(&bench, &Place::$store(&bench));
            }

            #[test]
            fn unsent_changes_become_a_fork_after_a_take_over() {
                run(comes_back_to_a_fork);
            }

            #[test]
            fn a_drive_moves_to_its_replica_and_back() {
                run(goes_to_its_replica_and_back);
            }

            #[test]
            fn a_drive_open_elsewhere_can_be_opened_read_only() {
                run(is_looked_at);
            }

            #[test]
            fn a_store_test_shows_the_winners_of_each_race() {
                run(tells_who_won);
            }

            #[test]
            fn a_drive_opens_offline_and_keeps_what_is_written_then() {
                run(opens_without_its_store);
            }
        })*
    };
}

everywhere!(directory, s3, weak_s3, apache, nginx);

/// Checks the results of the races, which are run only as often as the verdict needs.
fn tells_who_won(bench: &Bench, place: &Place) {
    let a = Person::new(bench, "a", &[]);
    // A directory is created with the first drive in it.
    a.ok(&place.create("64M"));
    let tested = a.ok(&place.store("test"));
    assert_eq!(tested["store_mode"], place.mode, "{tested}");
    let text = a.reads(&place.store("test"));
    let findings = tested["findings"].as_array().unwrap();
    let races: Vec<(&str, bool, Vec<u32>)> = (findings.iter())
        .filter_map(|finding| {
            let winners = finding["detail"].as_str().unwrap().split_once("; winners: ")?.1;
            let winners = winners.split(' ').map(|winners| winners.parse().unwrap()).collect();
            Some((finding["subject"].as_str().unwrap(), finding["ok"] == true, winners))
        })
        .collect();
    let race = |subject: &str| {
        let found = races.iter().find(|race| race.0.contains(subject));
        found.unwrap_or_else(|| panic!("no race for {subject}: {text}"))
    };
    for (subject, _, winners) in &races {
        assert!(text.contains(subject), "{text}");
        assert!(winners.len() >= 5 && winners.iter().all(|winners| *winners <= 12), "{races:?}");
    }
    // The verdict rests on the races: one winner in each, or several.
    let fair = |subject: &str| race(subject).1 && race(subject).2.iter().all(|winners| *winners <= 1);
    let (name, version) = ("a new name", "a version");
    match place.mode {
        "swap" => assert!(fair(name) && fair(version), "{races:?}"),
        "claim" => assert!(fair("a claim"), "{races:?}"),
        _ => assert!(!fair(name) && race(name).2.iter().any(|winners| *winners > 1), "{races:?}"),
    }
}

/// A person who has created the drive, and another one who has added it.
fn two(bench: &Bench, place: &Place) -> (Person, Person) {
    let [a, b] = ["a", "b"].map(|name| Person::new(bench, name, &[]));
    assert_eq!(a.ok(&place.create("64M"))["store_mode"], place.mode);
    b.ok(&place.drive(&["add"]));
    (a, b)
}

fn has(person: &Person, name: &str) -> bool {
    person.machine.mountpoint().join(name).exists()
}

fn state_is(person: &Person, state: &str) {
    person.machine.status_when(format!("the drive is {state}"), |status| status["state"] == state);
}

/// The names of the forks.
fn forks(person: &Person) -> Vec<String> {
    let forks = person.ok(&["drive", "forks", "d"]);
    forks.as_array().unwrap().iter().map(|fork| fork["name"].as_str().unwrap().to_owned()).collect()
}

fn comes_back_to_a_fork(bench: &Bench, place: &Place) {
    let (a, b) = two(bench, place);
    let look = bench.path("a/fork");
    let open = |of: &[&str]| {
        a.ok(&[&["drive"], of, &["--attach", "loop", "--at", &look.display().to_string()]].concat());
        assert_eq!(std::fs::read(look.join("kept")).unwrap(), b"mine");
        assert!(!look.join("theirs").exists(), "nothing is merged");
    };
    // The same again, for a fork that is discarded.
    for (mine, theirs) in [("kept", "theirs"), ("discarded", "theirs too")] {
        a.open();
        a.ok(&["drive", "pause", "d"]);
        save(&a, mine, b"mine");
        a.ok(&["drive", "close", "d"]);
        a.ok(&["daemon", "stop"]);
        // A take-over works only against the holder that was named.
        let from_another = json!({"take_over": true, "take_over_from": {"device": "00000000-0000-0000-0000-000000000000", "epoch": 2}});
        let refused = ask(&b, "/v1/drives/d/open", &from_another);
        assert!(refused.contains(r#""code":"held""#) && refused.contains(r#""holder""#), "{refused}");
        b.machine.open(&["--take-over", "--yes"]);
        save(&b, theirs, b"theirs");
        b.ok(&["drive", "close", "d", "--wait"]);

        let opened = a.open();
        assert_eq!(read(&a, theirs), b"theirs", "the drive is what the other computer made of it");
        assert!(!has(&a, mine));
        assert_eq!(opened["forks"].as_array().unwrap().len(), 1, "{opened}");
        if mine == "kept" {
            a.refused(&["drive", "forks", "d", "open", "2"], 3, "not_found");
            open(&["forks", "d", "open", "1"]);
            assert_eq!(a.ok(&["drive", "forks", "d"])[0]["mountpoint"], look.display().to_string());
            let fork = forks(&a).pop().unwrap();
            a.ok(&["drive", "resume", &fork]);
            a.ok(&["drive", "close", &fork, "--wait"]);
            a.ok(&["drive", "forks", "d", "keep", "1", "--as", "mine"]);
            open(&["open", "mine"]);
            a.ok(&["drive", "close", "mine", "--wait"]);
            assert_eq!(a.ok(&["drive", "check", "mine"])["ok"], true);
        } else {
            a.ok(&["drive", "forks", "d", "discard", "1", "--yes"]);
        }
        assert!(forks(&a).is_empty());
        a.ok(&["drive", "resume", "d"]);
        a.ok(&["drive", "close", "d", "--wait"]);
    }
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

fn goes_to_its_replica_and_back(bench: &Bench, place: &Place) {
    let (a, b) = two(bench, place);
    a.open();
    save(&a, "note", b"1");
    let second = place.beside("second");
    let added = a.ok(&place.with_login(vec!["drive", "replica", "add", "d", &second]));
    // In the form that is used everywhere.
    let second = added["store"].as_str().unwrap();
    a.refused(&["drive", "replica", "add", "d", second], 1, "exists");
    a.refused(&["drive", "replica", "promote", "d", second, "--yes"], 1, "state");
    a.ok(&["drive", "close", "d", "--wait"]);
    let promoted = a.ok(&["drive", "replica", "promote", "d", second, "--yes"]);
    assert_eq!(
        (promoted["former_store_told"].as_bool(), promoted["lost_versions"].as_bool()),
        (Some(true), Some(false))
    );
    assert_eq!(a.ok(&["drive", "status", "d"])["store"], second);
    // No computer writes to the former store any longer.
    let at = b.machine.mountpoint().display().to_string();
    let failure = b.refused(&["drive", "open", "d", "--attach", "loop", "--at", &at], 3, "gone");
    assert!(failure["message"].as_str().unwrap().contains(second), "{failure}");
    // The former store can become a replica, although it was the primary.
    a.ok(&["drive", "replica", "add", "d", &place.url]);
    let back = a.ok(&["drive", "replica", "promote", "d", &place.url, "--yes"]);
    assert_eq!(back["lost_versions"], false, "{back}");
    a.open();
    assert_eq!(read(&a, "note"), b"1");
    save(&a, "note", b"2");
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    b.open();
    assert_eq!(read(&b, "note"), b"2");
    b.ok(&["drive", "close", "d", "--wait"]);
}

fn is_looked_at(bench: &Bench, place: &Place) {
    let (a, b) = two(bench, place);
    a.open();
    save(&a, "note", b"uploaded");
    save(&a, "film", &noise(3, 4 << 20));
    a.ok(&["drive", "sync", "d"]);
    b.machine.open(&["--read-only"]);
    assert_eq!(read(&b, "note"), b"uploaded");
    // Data that is not here needs the store, and its absence is reported.
    b.machine.status_when("names are here", |status| status["lacks_metadata"] == false);
    place.goes_away();
    assert!(std::fs::read(b.machine.mountpoint().join("film")).is_err());
    let status = b.machine.status_when("it is told", |status| {
        status["reason"].as_str().is_some_and(|reason| reason.contains("cannot be read now"))
    });
    assert_eq!(status["state"], "Read-only", "{status}");
    place.comes_back();
    wait_until("it is read", || std::fs::read(b.machine.mountpoint().join("film")).is_ok()).unwrap();
    b.machine.status_when("that is over", |status| {
        !status["reason"].as_str().is_some_and(|reason| reason.contains("cannot be read now"))
    });
    let status = b.ok(&["drive", "status", "d"]);
    assert_eq!(status["state"], "Read-only", "{status}");
    assert!(std::fs::write(b.machine.mountpoint().join("note"), "x").is_err());
    // The other computer continues, and the open version stays unchanged.
    save(&a, "note", b"replaced");
    a.ok(&["drive", "sync", "d"]);
    a.ok(&["drive", "gc", "d"]);
    assert_eq!(read(&b, "note"), b"uploaded");
    b.ok(&["drive", "close", "d"]);
    b.machine.open(&["--read-only"]);
    assert_eq!(read(&b, "note"), b"replaced");
    b.ok(&["drive", "close", "d"]);
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

fn opens_without_its_store(bench: &Bench, place: &Place) {
    let (a, b) = two(bench, place);
    assert!(a.open()["away_because"].is_null());
    std::fs::create_dir_all(a.machine.mountpoint().join("trip/photos")).unwrap();
    save(&a, "trip/plan", b"north");
    a.ok(&["drive", "close", "d", "--wait"]);

    // In a tunnel.
    place.goes_away();
    let opened = a.open();
    assert!(opened["away_because"].as_str().unwrap().contains("cannot be reached"), "{opened}");
    assert_eq!(read(&a, "trip/plan"), b"north");
    save(&a, "trip/notes", b"by train");
    state_is(&a, "Offline");
    // The computer is switched off and on in the tunnel.
    a.ok(&["daemon", "stop"]);
    a.machine.status_when("taken up", |status| !status["mountpoint"].is_null());
    assert_eq!(read(&a, "trip/notes"), b"by train");
    let waiting = a.ok(&["drive", "status", "d"]);
    assert!(waiting["unpushed_bytes"].as_u64().unwrap() > 0 && waiting["state"] == "Offline", "{waiting}");
    // The drive is also closed and opened there.
    a.ok(&["drive", "close", "d"]);
    a.open();
    assert_eq!(read(&a, "trip/notes"), b"by train");

    // Out of the tunnel.
    place.comes_back();
    a.ok(&["drive", "sync", "d"]);
    state_is(&a, "Ready");
    a.ok(&["drive", "close", "d", "--wait"]);
    assert!(forks(&a).is_empty(), "nobody else has written");
    b.open();
    assert_eq!(read(&b, "trip/notes"), b"by train");
    save(&b, "trip/postcard", b"from b");
    b.ok(&["drive", "close", "d", "--wait"]);

    // The first computer does not know of that, and is in the next tunnel.
    place.goes_away();
    a.open();
    assert!(!has(&a, "trip/postcard"));
    save(&a, "trip/sketch", b"from a");
    place.comes_back();
    state_is(&a, "Conflict");
    a.refused(&["drive", "sync", "d"], 1, "conflict");
    let fork = forks(&a);
    assert_eq!(fork.len(), 1, "{fork:?}");
    let uploaded = a.ok(&["drive", "forks", "d"]);
    assert_eq!(uploaded[0]["records"], 0, "it is uploaded: {uploaded}");
    assert_eq!(read(&a, "trip/sketch"), b"from a");
    a.refused(&["drive", "close", "d", "--wait"], 1, "conflict");
    // Both versions are there, complete.
    a.open();
    assert_eq!(read(&a, "trip/postcard"), b"from b");
    assert!(!has(&a, "trip/sketch"));
    a.ok(&["drive", "close", "d", "--wait"]);

    // The fork can be opened by its name everywhere else, too.
    let names = a.ok(&["drive", "list"]);
    let other = names.as_array().unwrap().iter().find(|drive| drive["name"] == fork[0]);
    let other = other.unwrap_or_else(|| panic!("{names}"));
    let unknown = ["drive", "add", "mine", "--store", &place.url, "--drive", "nothing"];
    let message = b.refused(&unknown, 3, "not_found").to_string();
    assert!(message.contains(&fork[0]), "{message}");
    b.ok(&["drive", "add", "mine", "--store", &place.url, "--drive", &fork[0]]);
    let mine = b.ok(&["drive", "status", "mine"]);
    assert_eq!(mine["uuid"], other["uuid"]);
}
