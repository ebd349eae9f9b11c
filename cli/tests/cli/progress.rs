//! Progress: lines of JSON beside the result, nothing in a pipe, a bar on a terminal.

use crate::fake::Reply;
use crate::place::Place;
use crate::pty::Pty;
use crate::samples::*;
use serde_json::{Value, json};

const SYNC: &str = "POST /v1/drives/work/sync";

fn replies() -> [(&'static str, Reply); 1] {
    [(SYNC, Reply::lines(&[progress(1 << 20), progress(3 << 20), json!({"result": synced()})]))]
}

#[test]
fn with_json_progress_is_on_standard_error() {
    let (place, _fake) = Place::with_daemon(&replies());
    let ran = place.run("drive sync work --json");
    assert_eq!(ran.json(), synced());
    let lines: Vec<Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [progress(1 << 20), progress(3 << 20)]);
}

#[test]
fn a_pipe_shows_no_progress() {
    let (place, _fake) = Place::with_daemon(&replies());
    let ran = place.run("drive sync work");
    assert_eq!(ran.err, "");
    assert_eq!(ran.out, "All changes of work are uploaded\n");
}

#[test]
fn a_terminal_shows_a_progress_bar() {
    let (place, _fake) = Place::with_daemon(&replies());
    let pty = Pty::open();
    let child = pty.spawn(place.command("drive sync work"));
    let (code, screen) = pty.finish(child);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("Uploading") && screen.contains("of 4.00 MiB"), "{screen}");
    assert!(screen.contains("All changes of work are uploaded"), "{screen}");
}
