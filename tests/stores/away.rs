//! A drive whose store is away: it opens, works, and is uploaded later. And the result if another computer has written meanwhile.

use crate::bench::{Bench, kill, wait_until};
use crate::person::Person;
use crate::s3::with_drive;
use holdall_servers::faults::{self, Fault};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

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
fn a_drive_says_recovering_while_its_store_is_silent() {
    let bench = Bench::new();
    let (_server, proxy, _url, a) = with_drive(&bench);
    let at = a.machine.mountpoint();
    a.open();
    write_synced(&at.join("note"), "not uploaded yet");
    proxy.plan(faults::from(0, Fault::Silence));
    let begun = Instant::now();
    kill(a.machine.pid());
    // The next daemon looks for the store for some seconds, and the store does not answer.
    let recovering = a.machine.status_when("recovering", |status| status["state"] == "Recovering");
    assert!(recovering["reason"].as_str().unwrap().contains("open before a restart"), "{recovering}");
    assert!(a.reads(&["status"]).contains("Recovering"));
    // Then it continues without the store.
    let away = a.machine.status_when("taken up", |status| !status["mountpoint"].is_null());
    assert!(away["unpushed_bytes"].as_u64().unwrap() > 0, "{away}");
    assert_eq!(fs::read_to_string(at.join("note")).unwrap(), "not uploaded yet");
    // Not after several full time-outs, since programs are waiting.
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    state_is(&a, "Offline");
    proxy.plan(faults::none());
    state_is(&a, "Ready");
    a.ok(&["drive", "close", "d", "--wait"]);
    a.machine.assert_checked();

    proxy.plan(faults::from(0, Fault::Silence));
    let begun = Instant::now();
    let opened = a.open();
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let why = opened["away_because"].as_str().unwrap_or_default();
    assert!(why.contains("has not answered"), "{opened}");
    assert_eq!(fs::read_to_string(at.join("note")).unwrap(), "not uploaded yet");
    proxy.plan(faults::none());
    a.ok(&["drive", "sync", "d"]);
    a.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn a_drive_opens_locally_if_its_store_refuses_requests() {
    let bench = Bench::new();
    let (server, proxy, _url, a) = with_drive(&bench);
    let at = a.machine.mountpoint();
    a.open();
    write_synced(&at.join("first"), "saved");
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &server.url("d"), "--credentials-file", &bench.text("ini")]);

    for (reason, fault, reads_too) in [
        ("refused the credentials", Fault::UNKNOWN, true),
        ("refused access", Fault::DENIED, true),
        ("full", Fault::FULL, false),
    ] {
        proxy.plan(Box::new(move |asked| (reads_too || asked.changes()).then(|| fault.clone())));
        let opened = a.open();
        assert!(
            opened["away_because"].as_str().is_some_and(|why| why.contains(reason)),
            "{reason}: {opened}"
        );
        assert_eq!(fs::read_to_string(at.join("first")).unwrap(), "saved");
        write_synced(&at.join("second"), reason);
        a.machine.status_when(reason, |status| status["state"] == "Needs attention");
        // The service dies, and the next one reopens what programs still use.
        kill(a.machine.pid());
        a.machine.status_when("taken up", |status| !status["mountpoint"].is_null());
        assert_eq!(fs::read_to_string(at.join("second")).unwrap(), reason);
        // The changes that a closed drive left wait for its store, too.
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
fn an_unknown_drive_in_a_full_store_opens_read_only() {
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
    assert!(why.contains("read-only") && why.contains("full"), "{opened}");
    assert_eq!(fs::read_to_string(b.machine.mountpoint().join("note")).unwrap(), "from a");
    b.ok(&["drive", "close", "d"]);
}

#[test]
fn pending_uploads_of_a_held_drive_only_query_its_holder() {
    let bench = Bench::new();
    let (server, proxy, _url, a) = with_drive(&bench);
    a.open();
    a.ok(&["drive", "pause", "d"]);
    write_synced(&a.machine.mountpoint().join("note"), "waits");
    a.ok(&["drive", "close", "d"]);
    a.ok(&["daemon", "stop"]);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &server.url("d"), "--credentials-file", &bench.text("ini")]);
    b.machine.open(&["--take-over", "--yes"]);

    proxy.plan(faults::none());
    a.ok(&["drive", "resume", "d"]);
    let held = a.machine.status_when("held", |status| !status["holder"].is_null());
    assert!(held["unpushed_bytes"].as_u64().unwrap() > 0, "{held}");
    let asked = proxy.log();
    assert!(asked.iter().any(|entry| entry.asked.target.contains("/head/")));
    let tried = asked.iter().filter(|entry| entry.asked.target.contains("/probe")).count();
    assert_eq!(tried, 0, "the store is not tried over and over");
    b.ok(&["drive", "close", "d", "--wait"]);
    // Then the local changes become a fork of the other computer's version, and are uploaded.
    a.open();
    let fork = a.ok(&["drive", "forks", "d"])[0]["name"].as_str().unwrap().to_owned();
    wait_until("it is uploaded", || {
        let status = a.ok(&["drive", "status", &fork]);
        status["unpushed_bytes"] == 0 && status["state"] == "Closed"
    })
    .unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
}
