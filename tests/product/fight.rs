//! Two computers that fight for one drive: each writes, is stopped in its tracks, loses the drive to the other, and wakes up
//! without knowing. There are never two winners. Whatever was uploaded before is in the winner's history, and whatever was
//! not is in a fork: byte for byte, and in neither of the two is anything of the other.

use crate::bench::{Bench, Machine};
use crate::writer::{Writer, verify};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

fn write_synced(path: &Path, content: &str) {
    let mut file = File::create(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.sync_all().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn assert_has(at: &Path, names: &[String]) {
    for name in names {
        let content = fs::read_to_string(at.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&content, name);
    }
}

/// A daemon that stands still, with all that it serves, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(machine: &Machine) -> Self {
        let pid = Pid::from_raw(machine.pid()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn forks(machine: &Machine) -> Vec<Value> {
    machine.ok(&["drive", "forks", "d"]).as_array().unwrap().clone()
}

/// One computer has the drive open and loses it to the other; `shared` is what the drive holds for good.
fn lose(loser: &Machine, winner: &Machine, round: usize, shared: &mut Vec<String>) {
    let at = loser.mountpoint();
    let name = |what: &str| format!("{what}-{round}");
    write_synced(&at.join(name("uploaded")), &name("uploaded"));
    loser.ok(&["drive", "sync", "d"]);
    shared.push(name("uploaded"));
    let before = shared.clone();
    // It stops in the middle of its work; the time that passes then is the winner's.
    loser.ok(&["drive", "pause", "d"]);
    write_synced(&at.join(name("late")), &name("late"));
    let writer = Writer::start(&at.join(name("records")));
    writer.progress(5);
    let stopped = Stopped::new(loser);

    assert_eq!(winner.fails(&["drive", "open", "d"]), (4, "held".to_owned()));
    let refused = winner.fails(&["drive", "open", "d", "--take-over"]);
    assert_eq!(refused, (4, "held".to_owned()), "nobody was there to say yes");
    let opened = winner.open(&["--take-over", "--yes"]);
    assert!(opened["took_over"]["last_commit_at"].is_string(), "{opened}");
    assert_has(&winner.mountpoint(), shared);
    for absent in ["late", "records"] {
        assert!(!winner.mountpoint().join(name(absent)).exists(), "{absent} was never uploaded");
    }
    write_synced(&winner.mountpoint().join(name("won")), &name("won"));
    winner.ok(&["drive", "sync", "d"]);
    shared.push(name("won"));
    // Nothing that the loser still needs is garbage.
    winner.ok(&["drive", "gc", "d"]);

    drop(stopped);
    writer.progress(5);
    loser.ok(&["drive", "resume", "d"]);
    let synced = loser.fails(&["drive", "sync", "d"]);
    assert_eq!(synced, (1, "conflict".to_owned()), "two have won");
    let status = loser.status_when("a fork", |status| status["state"] == "Conflict");
    assert_eq!(status["forks"][0]["in_place"], true, "{status}");
    assert!(status["reason"].as_str().unwrap().contains("holdall drive forks d"), "{status}");
    // What was mounted goes on: nothing that uses it notices.
    write_synced(&at.join(name("after")), &name("after"));
    let written = writer.stop();
    assert_eq!(loser.fails(&["drive", "close", "d", "--wait"]), (1, "conflict".to_owned()));
    assert_eq!(loser.fails(&["drive", "open", "d"]), (4, "held".to_owned()), "it is the winner's now");

    let fork = forks(loser).pop().unwrap();
    assert_eq!((&fork["in_place"], &fork["bytes"]), (&false.into(), &0.into()), "{fork}");
    let number = forks(loser).len().to_string();
    let look = loser.dir.join("fork");
    let open = |of: &[&str]| {
        let at = look.display().to_string();
        loser.ok(&[&["drive"], of, &["--attach", "loop", "--at", &at]].concat());
        assert_has(&look, &before);
        assert_has(&look, &[name("late"), name("after")]);
        verify(&look.join(name("records")), written);
        assert!(!look.join(name("won")).exists(), "nothing is merged");
    };
    open(&["forks", "d", "open", fork["name"].as_str().unwrap()]);
    let kept = name("mine");
    let keep = ["drive", "forks", "d", "keep", &number, "--as", &kept];
    assert_eq!(loser.fails(&keep), (1, "state".to_owned()), "it is mounted");
    loser.ok(&["drive", "close", fork["name"].as_str().unwrap(), "--wait"]);
    if round.is_multiple_of(2) {
        loser.ok(&keep);
        open(&["open", &kept]);
        loser.ok(&["drive", "close", &kept, "--wait"]);
        assert_eq!(loser.ok(&["drive", "check", &kept])["ok"], true);
    } else {
        loser.ok(&["drive", "forks", "d", "discard", &number, "--yes"]);
    }
    assert_eq!(forks(loser), [Value::Null; 0]);

    // The winner has noticed none of this.
    let status = winner.status();
    assert_eq!(
        (&status["state"], status["forks"].as_array().unwrap().len()),
        (&"Ready".into(), 0),
        "{status}"
    );
    assert_has(&winner.mountpoint(), shared);
}

/// A fight of so many rounds about a drive in `store`.
fn fight(bench: &Bench, store: &str, rounds: usize) {
    let (a, b) = (bench.machine("a"), bench.machine("b"));
    a.ok(&["drive", "create", "d", "--store", store, "--size", "256M", "--no-encryption"]);
    b.ok(&["drive", "add", "d", "--store", store]);
    a.open(&[]);
    let mut shared = Vec::new();
    for round in 0..rounds {
        let (loser, winner) = if round.is_multiple_of(2) { (&a, &b) } else { (&b, &a) };
        lose(loser, winner, round, &mut shared);
    }
    let last = if rounds.is_multiple_of(2) { &a } else { &b };
    last.close();
    last.assert_checked();
    // A computer that has seen none of it finds all that was ever uploaded to the drive.
    let other = bench.machine("other");
    other.ok(&["drive", "add", "d", "--store", store]);
    other.open(&[]);
    assert_has(&other.mountpoint(), &shared);
    other.close();
}

#[test]
fn of_two_computers_one_wins_and_the_other_has_a_fork() {
    let bench = Bench::new();
    fight(&bench, &bench.store(), 2);
}

#[test]
fn what_a_computer_had_left_when_it_was_taken_over_is_a_fork_when_it_comes_back() {
    let bench = Bench::new();
    let (a, b) = (bench.with_drive(), bench.machine("b"));
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    write_synced(&a.mountpoint().join("mine"), "mine");
    a.ok(&["drive", "close", "d"]);
    a.ok(&["daemon", "stop"]);
    b.open(&["--take-over", "--yes"]);
    write_synced(&b.mountpoint().join("theirs"), "theirs");
    b.close();

    let opened = a.open(&[]);
    assert_has(&a.mountpoint(), &["theirs".to_owned()]);
    assert!(!a.mountpoint().join("mine").exists(), "the drive is what the other computer made of it");
    assert_eq!(opened["forks"].as_array().unwrap().len(), 1, "{opened}");
    let look = a.dir.join("fork").display().to_string();
    a.ok(&["drive", "forks", "d", "open", "1", "--attach", "loop", "--at", &look]);
    assert_has(Path::new(&look), &["mine".to_owned()]);
    let fork = forks(&a).pop().unwrap();
    assert_eq!(fork["mountpoint"], look);
    a.ok(&["drive", "resume", fork["name"].as_str().unwrap()]);
    a.ok(&["drive", "close", fork["name"].as_str().unwrap(), "--wait"]);
    assert_eq!(a.fails(&["drive", "forks", "d", "open", "2"]), (3, "not_found".to_owned()));
    a.ok(&["drive", "resume", "d"]);
    a.close();
}
