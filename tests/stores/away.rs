//! A drive whose store is away: it opens, works, and is uploaded later; and what becomes of it where another computer
//! has written meanwhile.

use crate::bench::{Bench, kill, wait_until};
use crate::person::Person;
use crate::s3::with_drive;
use holdall_servers::faults::{self, Fault, Plan};
use std::fs;
use std::io::Write;
use std::path::Path;

fn write_synced(path: &Path, content: &str) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.sync_all().unwrap();
}

fn state_is(person: &Person, state: &str) {
    wait_until(format!("the drive is {state}"), || person.ok(&["drive", "status", "d"])["state"] == state)
        .unwrap();
}

#[test]
fn a_drive_opens_without_its_store_and_what_is_written_then_is_never_lost() {
    let bench = Bench::new();
    let (server, proxy, _url, a) = with_drive(&bench);
    let at = a.machine.mountpoint();
    assert!(a.open()["away_because"].is_null());
    fs::create_dir_all(at.join("trip/photos")).unwrap();
    write_synced(&at.join("trip/plan"), "north");
    a.ok(&["drive", "close", "d", "--wait"]);

    // In the tunnel.
    proxy.plan(faults::from(0, Fault::CutBeforeBody));
    let opened = a.open();
    assert!(opened["away_because"].as_str().unwrap().contains("cannot be reached"), "{opened}");
    assert_eq!(fs::read_to_string(at.join("trip/plan")).unwrap(), "north");
    write_synced(&at.join("trip/notes"), "by train");
    state_is(&a, "Offline");
    // The computer is switched off and on there.
    a.ok(&["daemon", "stop"]);
    wait_until("the drive is taken up", || !a.ok(&["drive", "status", "d"])["mountpoint"].is_null()).unwrap();
    assert_eq!(fs::read_to_string(at.join("trip/notes")).unwrap(), "by train");
    let waiting = a.ok(&["drive", "status", "d"]);
    assert!(waiting["unpushed_bytes"].as_u64().unwrap() > 0 && waiting["state"] == "Offline", "{waiting}");
    // And closed there, and opened again.
    a.ok(&["drive", "close", "d"]);
    a.open();
    assert_eq!(fs::read_to_string(at.join("trip/notes")).unwrap(), "by train");

    // Out of it.
    proxy.plan(faults::none());
    a.ok(&["drive", "sync", "d"]);
    state_is(&a, "Ready");
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "forks", "d"]), serde_json::json!([]), "nobody else has written");

    let b = Person::new(&bench, "b", &[]);
    let url = server.url("d");
    b.ok(&["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")]);
    b.open();
    let there = b.machine.mountpoint();
    assert_eq!(fs::read_to_string(there.join("trip/notes")).unwrap(), "by train");
    write_synced(&there.join("trip/postcard"), "from b");
    b.ok(&["drive", "close", "d", "--wait"]);

    // The first one does not know of that, and has gone into the next tunnel.
    proxy.plan(faults::from(0, Fault::CutBeforeBody));
    a.open();
    assert!(!at.join("trip/postcard").exists());
    write_synced(&at.join("trip/sketch"), "from a");
    proxy.plan(faults::none());
    state_is(&a, "Conflict");
    a.refused(&["drive", "sync", "d"], 1, "conflict");
    let forks = a.ok(&["drive", "forks", "d"]);
    assert_eq!(forks.as_array().unwrap().len(), 1, "{forks}");
    assert_eq!(forks[0]["records"], 0, "it is uploaded: {forks}");
    assert_eq!(fs::read_to_string(at.join("trip/sketch")).unwrap(), "from a");
    a.refused(&["drive", "close", "d", "--wait"], 1, "conflict");
    let fork = forks[0]["name"].as_str().unwrap_or_default().to_owned();
    assert!(!fork.is_empty(), "{forks}");
    // Both are there, whole.
    a.open();
    assert_eq!(fs::read_to_string(at.join("trip/postcard")).unwrap(), "from b");
    assert!(!at.join("trip/sketch").exists());
    a.ok(&["drive", "close", "d", "--wait"]);

    // And anywhere else, the fork by its name.
    let names: Vec<_> = a.ok(&["drive", "list"]).as_array().unwrap().clone();
    let other = names.iter().find(|drive| drive["name"] == fork).unwrap_or_else(|| panic!("{names:?}"));
    let unknown = ["drive", "add", "mine", "--store", &url, "--drive", "nothing"];
    let message = b.refused(&unknown, 3, "not_found").to_string();
    assert!(message.contains(&fork), "{message}");
    b.ok(&["drive", "add", "mine", "--store", &url, "--drive", &fork]);
    let mine = b.ok(&["drive", "status", "mine"]);
    assert_eq!(mine["uuid"], other["uuid"]);
}

#[test]
fn a_drive_that_the_service_before_had_open_is_said_to_recover_until_it_is_known_where_its_store_is() {
    let bench = Bench::new();
    let (_server, proxy, _url, a) = with_drive(&bench);
    let at = a.machine.mountpoint();
    a.open();
    write_synced(&at.join("note"), "not uploaded yet");
    proxy.plan(faults::from(0, Fault::Silence));
    kill(a.machine.pid());
    // The next one looks for the store, which does not answer, for some seconds.
    let recovering = a.machine.status_when("recovering", |status| status["state"] == "Recovering");
    assert!(recovering["reason"].as_str().unwrap().contains("open when the service ended"), "{recovering}");
    assert!(a.reads(&["status"]).contains("Recovering"));
    // Then it goes on without.
    let away = a.machine.status_when("taken up", |status| !status["mountpoint"].is_null());
    assert!(away["unpushed_bytes"].as_u64().unwrap() > 0, "{away}");
    assert_eq!(fs::read_to_string(at.join("note")).unwrap(), "not uploaded yet");
    state_is(&a, "Offline");
    proxy.plan(faults::none());
    state_is(&a, "Ready");
    a.ok(&["drive", "close", "d", "--wait"]);
    a.machine.assert_checked();
}

#[test]
fn a_drive_whose_store_refuses_this_computer_or_is_full_opens_with_what_is_here() {
    let bench = Bench::new();
    let (server, proxy, _url, a) = with_drive(&bench);
    let at = a.machine.mountpoint();
    a.open();
    write_synced(&at.join("first"), "saved");
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &server.url("d"), "--credentials-file", &bench.text("ini")]);

    let fails: [(&str, fn() -> Plan); 3] = [
        ("refused the credentials", || faults::from(0, Fault::UNKNOWN)),
        ("refused access", || faults::from(0, Fault::DENIED)),
        ("full", || Box::new(|asked| asked.changes().then_some(Fault::FULL))),
    ];
    for (reason, plan) in fails {
        proxy.plan(plan());
        let opened = a.open();
        assert!(
            opened["away_because"].as_str().is_some_and(|why| why.contains(reason)),
            "{reason}: {opened}"
        );
        assert_eq!(fs::read_to_string(at.join("first")).unwrap(), "saved");
        write_synced(&at.join("second"), reason);
        a.machine.status_when(reason, |status| status["state"] == "Needs attention");
        // The service ends without a word, and the next one takes up what programs still use.
        kill(a.machine.pid());
        a.machine.status_when("taken up", |status| !status["mountpoint"].is_null());
        assert_eq!(fs::read_to_string(at.join("second")).unwrap(), reason);
        // What a closed drive has left waits for its store too.
        a.ok(&["drive", "close", "d"]);
        a.open();
        assert_eq!(fs::read_to_string(at.join("second")).unwrap(), reason);
        proxy.plan(faults::none());
        a.ok(&["drive", "sync", "d"]);
        state_is(&a, "Ready");
        a.ok(&["drive", "close", "d", "--wait"]);
        assert_eq!(a.ok(&["drive", "forks", "d"]), serde_json::json!([]), "nobody else has written");

        let there = b.machine.mountpoint();
        b.ok(&["drive", "open", "d", "--read-only", "--attach", "loop", "--at", there.to_str().unwrap()]);
        assert_eq!(fs::read_to_string(there.join("second")).unwrap(), reason);
        b.ok(&["drive", "close", "d"]);
    }
}

#[test]
fn a_drive_that_this_computer_never_had_is_looked_at_where_its_store_is_full() {
    let bench = Bench::new();
    let (_server, proxy, url, a) = with_drive(&bench);
    a.open();
    write_synced(&a.machine.mountpoint().join("note"), "from a");
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")]);
    proxy.plan(Box::new(|asked| asked.changes().then_some(Fault::FULL)));
    let opened = b.open();
    let why = opened["read_only_because"].as_str().unwrap_or_default();
    assert!(why.contains("only to look at") && why.contains("full"), "{opened}");
    assert_eq!(fs::read_to_string(b.machine.mountpoint().join("note")).unwrap(), "from a");
    b.ok(&["drive", "close", "d"]);
}
