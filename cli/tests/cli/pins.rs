//! Pinning on a terminal waits and shows its progress. Ctrl-C ends the wait, but not the pin.

use crate::fake::Reply;
use crate::place::Place;
use crate::pty::Pty;
use crate::samples::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};

const PIN: &str = "POST /v1/pins";

fn files(done: u64) -> Value {
    json!({"progress": {"stage": "Ready for offline", "done": done, "total": 1204, "unit": "items"}})
}

fn ready() -> Value {
    let mut pin = pin();
    (pin["state"], pin["files_ready"], pin["ready_bytes"]) =
        (json!("Always keep"), json!(1204), json!(3 << 20));
    json!([pin])
}

#[test]
fn pin_waits_on_a_terminal_unless_no_wait_is_given() {
    for (arguments, waits) in [("pin /mnt/w/letters", true), ("pin /mnt/w/letters --no-wait", false)] {
        let lines = [files(1000), json!({"result": if waits { ready() } else { json!([pin()]) }})];
        let (place, fake) = Place::with_daemon(&[(PIN, Reply::lines(&lines))]);
        let pty = Pty::open();
        let child = pty.spawn(place.command(arguments));
        let (code, screen) = pty.finish(child);
        assert_eq!(code, Some(0), "{screen}");
        assert_eq!(fake.asked()[0].body["wait"], waits);
        let words = if waits { "Ready for offline: 1,204 of 1,204" } else { "in the background" };
        assert!(screen.contains(words), "{screen}");
    }
}

#[test]
fn an_interrupted_wait_says_that_the_pin_stays() {
    let (place, fake) = Place::with_daemon(&[(PIN, Reply::lines(&[files(1000)]).and_stays())]);
    let mut child = place.command("pin /mnt/w/letters --wait --json").spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut String::new()).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fake.left(), PIN);
    let mut told = String::new();
    err.read_to_string(&mut told).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["message"], "Interrupted at: Ready for offline, 1000 of 1204.");
    assert!(told["consequence"].as_str().unwrap().contains("downloaded in the background"), "{told}");
}
