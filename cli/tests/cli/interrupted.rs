//! Ctrl-C cancels a request by closing its connection, and says what remains.

use crate::fake::Reply;
use crate::place::{Place, Ran};
use crate::samples::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_request_is_cancelled_by_closing_its_connection() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let what = "POST /v1/drives/work/sync";
        let (place, fake) = Place::with_daemon(&[(what, Reply::lines(&[progress(1 << 20)]).and_stays())]);
        let mut child = place.command("drive sync work --json").spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), progress(1 << 20));
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(fake.left(), what);
        let mut told = String::new();
        err.read_to_string(&mut told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["code"], "interrupted");
        assert_eq!(told["message"], "Interrupted at: Uploading, 1 MiB of 4 MiB.");
        assert!(told["consequence"].as_str().unwrap().contains("Uploaded changes stay"), "{told}");
    }
}

#[test]
fn deletes_the_recovery_key_file_of_a_cancelled_drive() {
    let replies = [("POST /v1/drives", Reply::lines(&[progress(1)]).and_stays())];
    let (place, fake) = Place::with_daemon(&replies);
    place.file("secret", "hunter2\n");
    let create = "drive create work --store file:///s --size 1G --passphrase-file secret --recovery-key-out key --json";
    let mut child = place.command(create).spawn().unwrap();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert!(place.path("key").exists());
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    fake.left();
    assert!(!place.path("key").exists());
}

#[test]
fn serving_lasts_until_an_interrupt_and_then_succeeds() {
    let what = "POST /v1/drives/work/serve";
    let uri = "nbd+unix:///work?socket=/run/w.sock";
    let (place, fake) = Place::with_daemon(&[(what, Reply::result(json!({"uri": uri})).and_stays())]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = place.command("drive serve work --socket w.sock").spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, format!("work is served at {uri}\n"));
        // It says so on standard error before it waits.
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(fake.left(), what);
    }
    assert_eq!(fake.asked()[0].body["socket"], place.path("w.sock").to_str().unwrap());
}

#[test]
fn serving_that_the_daemon_ends_is_a_failure() {
    let what = "POST /v1/drives/work/serve";
    let served = json!({"result": {"uri": "nbd://127.0.0.1:10809"}});
    let told = Reply::lines(&[served.clone(), json!({"error": failure("held")})]);
    for (reply, code, words) in
        [(told, 4, "The cause."), (Reply::lines(&[served]), 1, "has stopped serving work")]
    {
        let (place, _fake) = Place::with_daemon(&[(what, reply)]);
        let ran = Ran::from(place.command("drive serve work --tcp 127.0.0.1:10809").output().unwrap());
        assert_eq!(ran.code, Some(code));
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}

#[test]
fn an_interrupted_prompt_restores_the_echo() {
    let (place, _fake) = Place::with_daemon(&[]);
    let mut pty = crate::pty::Pty::open();
    let mut child = pty.spawn(place.command("drive create work --store file:///s --size 1G"));
    pty.wait_for("New passphrase for work: ");
    assert!(!pty.echoes());
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(pty.echoes());
    pty.wait_for("Interrupted.\r\nNothing was done.");
}
