//! `holdall events`.

use crate::fake::{Fake, Reply};
use crate::place::Place;
use crate::samples::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

fn event(value: &Value) -> String {
    format!("event: message\ndata: {value}\n\n")
}

fn notice(message: &str) -> Value {
    json!({"event": "notice", "name": "work", "message": message})
}

fn drive_event() -> Value {
    let mut value = unsent();
    value["event"] = json!("drive");
    value
}

#[test]
fn events_are_lines_and_continue_with_the_next_daemon() {
    let place = Place::new();
    let frames = [": hello\n\n".to_owned(), event(&drive_event()), event(&notice("first"))];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let first = Fake::listen(&place.socket(), &[("GET /v1/events", Reply::events(&frames).and_dies())]);
    let mut child = place.command("events --json").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next(), drive_event());
    assert_eq!(next(), notice("first"));

    first.died();
    std::fs::remove_file(place.socket()).unwrap();
    let reply = Reply::events(&[&event(&notice("second"))]).and_stays();
    let second = Fake::listen(&place.socket(), &[("GET /v1/events", reply)]);
    assert_eq!(next(), notice("second"));
    child.kill().unwrap();
    child.wait().unwrap();
    second.left();
}

#[test]
fn people_read_sentences() {
    let frames =
        [event(&drive_event()), event(&json!({"event": "removed", "name": "old"})), event(&notice("Moved"))];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let (place, _fake) = Place::with_daemon(&[("GET /v1/events", Reply::events(&frames).and_stays())]);
    let mut child = place.command("events").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(3).map(Result::unwrap).collect();
    child.kill().unwrap();
    assert_eq!(lines, ["work: ✓ Ready, 12.3 MiB waiting to upload", "old: removed", "work: Moved"]);
    child.wait().unwrap();
}

#[test]
fn events_end_quietly_when_the_reader_leaves() {
    for frames in [1, 100_000] {
        let frames = event(&notice("again")).repeat(frames);
        let (place, fake) = Place::with_daemon(&[("GET /v1/events", Reply::events(&[&frames]).and_stays())]);
        let mut child = place.command("events").spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "work: again\n");
        drop(out);
        fake.left();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    }
}
