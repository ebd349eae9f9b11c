//! Two computers are paired by a code, and unpaired.

use crate::bench::{Bench, Machine, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A computer that listens at a port that the system chose: other tests may have the usual one.
fn listening(bench: &Bench, name: &str) -> (Machine, String) {
    let machine = bench.machine(name);
    machine.ok(&["device", "name", name]);
    let devices = machine.ok(&["device", "listen", "on", "--port", "0"]);
    let port = devices["this"]["port"].as_u64().unwrap();
    (machine, format!("127.0.0.1:{port}"))
}

/// A computer that shows a code: the command, and the code.
fn showing(machine: &Machine) -> (Child, String) {
    let mut child = machine.command(&["device", "pair", "--yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let shown: Value = serde_json::from_str(&line).unwrap();
    (child, shown["code"].as_str().unwrap().to_owned())
}

fn names(machine: &Machine) -> Vec<String> {
    let devices = machine.ok(&["device", "list"]);
    let paired = devices["paired"].as_array().unwrap();
    paired.iter().map(|device| device["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_computers_pair_by_a_code_and_unpair() {
    let bench = Bench::new();
    let ((desk, at), lap) = (listening(&bench, "desk"), bench.machine("lap"));
    lap.ok(&["device", "name", "lap"]);
    assert_eq!(lap.ok(&["device", "list"])["this"]["listen"], false);
    let (mut shows, code) = showing(&desk);
    // A wrong code leaves tries, and the right one still works.
    let wrong = if code == "000 000 000" { "111111111" } else { "000000000" };
    let (exit, said) = lap.fails(&["device", "pair", wrong, "--at", &at, "--yes"]);
    assert_eq!((exit, &said[..]), (1, "failed"));
    assert!(names(&lap).is_empty() && names(&desk).is_empty());
    lap.command(&["device", "pair", &code, "--at", &at, "--yes"]).output().unwrap();
    assert!(shows.wait().unwrap().success());
    assert_eq!((names(&desk), names(&lap)), (vec!["lap".to_owned()], vec!["desk".to_owned()]));
    // From now on the second one listens, too.
    assert_eq!(lap.ok(&["device", "list"])["this"]["listen"], true);

    // The next daemon still knows the device, and reaches it.
    lap.ok(&["daemon", "stop"]);
    let reaches = |ok: bool| {
        let seen = lap.command(&["doctor"]).output().unwrap();
        let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
        let findings = seen["findings"].as_array().unwrap();
        findings.iter().any(|finding| finding["subject"] == "device desk" && finding["ok"] == ok)
    };
    wait_until("the laptop reaches the desk", || reaches(true)).unwrap();
    desk.ok(&["device", "unpair", "lap"]);
    assert!(names(&desk).is_empty());
    // The key gets in no more.
    assert!(reaches(false));
    let (exit, _) = desk.fails(&["device", "unpair", "lap"]);
    assert_eq!(exit, 3);
}
