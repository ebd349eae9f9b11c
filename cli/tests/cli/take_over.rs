//! Taking a drive over from another computer: the command shows its holder, and asks.

use crate::fake::Reply;
use crate::place::{Place, Ran};
use crate::pty::Pty;
use crate::samples::*;
use serde_json::{Value, json};

const OPEN: &str = "POST /v1/drives/work/open";
/// The id of the device that has the drive.
const DESK: &str = "00000000-0000-0000-0000-000000000007";
const TAKE_OVER: &str = "drive open work --take-over";

fn held() -> Value {
    let mut held = failure("held");
    held["holder"] =
        json!({"device": DESK, "name": "desk", "epoch": 7, "last_commit_at": "2026-11-20T11:00:00Z"});
    held
}

/// A daemon whose drive another computer holds, and which then takes the drive.
fn daemon() -> [(&'static str, Reply); 2] {
    let mut opened = opened();
    opened["took_over"] = held()["holder"].clone();
    [(OPEN, Reply::lines(&[json!({"error": held()})])), (OPEN, Reply::result(opened))]
}

#[test]
fn takes_over_after_showing_the_holder_and_asking() {
    let (place, fake) = Place::with_daemon(&daemon());
    let mut pty = Pty::open();
    let child = pty.spawn(place.command(TAKE_OVER));
    pty.wait_for("desk has work open (epoch 7); its last upload was ");
    pty.wait_for("become a fork");
    pty.wait_for("Take over work? [y/N] ");
    pty.type_line("y");
    let (code, seen) = pty.finish(child);
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("It was taken over from desk"), "{seen}");
    let asked = fake.asked();
    assert!(asked[0].body.get("take_over").is_none(), "first it is only looked at");
    assert_eq!(
        (&asked[1].body["take_over"], &asked[1].body["take_over_from"]),
        (&json!(true), &json!({"device": DESK, "epoch": 7}))
    );
}

#[test]
fn asks_again_if_the_holder_changed_meanwhile() {
    let [first, last] = daemon();
    let mut other = held();
    (other["holder"]["name"], other["holder"]["epoch"]) = (json!("attic"), json!(8));
    let (place, fake) = Place::with_daemon(&[first, (OPEN, Reply::lines(&[json!({"error": other})])), last]);
    let mut pty = Pty::open();
    let child = pty.spawn(place.command(TAKE_OVER));
    pty.wait_for("desk has work open (epoch 7)");
    pty.wait_for("Take over work? [y/N] ");
    pty.type_line("y");
    pty.wait_for("attic has work open (epoch 8)");
    pty.wait_for("Take over work? [y/N] ");
    pty.type_line("y");
    assert_eq!(pty.finish(child).0, Some(0));
    let from: Vec<_> = fake.asked().iter().map(|asked| asked.body["take_over_from"].clone()).collect();
    assert_eq!(from, [Value::Null, json!({"device": DESK, "epoch": 7}), json!({"device": DESK, "epoch": 8})]);
}

#[test]
fn takes_over_only_after_yes() {
    let (place, fake) = Place::with_daemon(&daemon());
    let mut pty = Pty::open();
    let child = pty.spawn(place.command(TAKE_OVER));
    pty.wait_for("Take over work? [y/N] ");
    pty.type_line("");
    assert_eq!(pty.finish(child).0, Some(1));
    assert_eq!(fake.asked().len(), 1);
}

#[test]
fn names_the_holder_and_takes_nothing_without_a_terminal() {
    let (place, fake) = Place::with_daemon(&daemon());
    let ran = Ran::from(place.command(&format!("{TAKE_OVER} --json")).output().unwrap());
    assert_eq!(ran.code, Some(4));
    let error = ran.json_error();
    assert_eq!((&error["code"], &error["holder"]), (&json!("held"), &held()["holder"]));
    assert!(error["action"].as_str().unwrap().contains("--yes"), "{error}");
    assert_eq!(fake.asked().len(), 1);
}

#[test]
fn opens_a_free_drive_without_a_question() {
    let (place, fake) = Place::with_daemon(&[(OPEN, Reply::result(opened()))]);
    assert_eq!(place.run(TAKE_OVER).code, Some(0));
    assert_eq!(fake.asked().len(), 1);
    for wrong in ["drive open work --yes", "drive open work --take-over --read-only"] {
        assert_eq!(place.run(wrong).code, Some(2), "{wrong}");
    }
}

#[test]
fn discarding_a_fork_requires_yes() {
    let what = "DELETE /v1/drives/work/forks/1";
    let (place, fake) = Place::with_daemon(&[(what, Reply::result(json!({})))]);
    assert_eq!(place.run("drive forks work discard 1").code, Some(2));
    assert_eq!(fake.asked(), []);
    let mut pty = Pty::open();
    let child = pty.spawn(place.command("drive forks work discard 1"));
    pty.wait_for("[y/N] ");
    pty.type_line("yes");
    assert_eq!(pty.finish(child).0, Some(0));
    assert_eq!(fake.asked()[0].what, what);
}
