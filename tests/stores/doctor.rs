//! Looking for problems: every store that a drive relies on is tested, and none delays another.

use crate::bench::{Bench, wait_until};
use crate::person::Person;
use crate::s3::with_drive;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::faults::{self, Fault};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The finding with this subject.
fn finding<'a>(diagnosis: &'a Value, subject: &str) -> &'a Value {
    let all = diagnosis["findings"].as_array().unwrap();
    all.iter().find(|one| one["subject"] == subject).unwrap_or_else(|| panic!("no {subject}: {diagnosis}"))
}

#[test]
fn the_doctor_tells_a_dead_store_from_a_refused_login() {
    let bench = Bench::new();
    let (_server, proxy, _, a) = with_drive(&bench);
    let url = a.ok(&["drive", "status", "d"])["store"].as_str().unwrap().to_owned();
    let beside = bench.store();
    a.ok(&["drive", "create", "e", "--store", &beside, "--size", "64M", "--no-encryption"]);
    let (store, login, other) =
        (format!("store {url}"), format!("login at {url}"), format!("store {beside}"));
    // Other problems of this computer do not matter here.
    let look = || -> Value { serde_json::from_slice(&a.machine.run(&["doctor"]).stdout).unwrap() };

    let well = look();
    let found = finding(&well, &store);
    assert!(
        found["ok"] == true && found["detail"].as_str().unwrap().contains("accepts the credentials"),
        "{found}"
    );

    proxy.plan(Box::new(|_| Some(Fault::UNKNOWN)));
    let refused = look();
    let found = finding(&refused, &login);
    let log_in = json!({"do": "log_in", "store": url});
    assert!(found["ok"] == false && found["actions"].as_array().unwrap().contains(&log_in), "{found}");
    assert_eq!(finding(&refused, &other)["ok"], true);

    // It accepts requests, and never answers.
    proxy.plan(faults::from(0, Fault::Silence));
    let dead = look();
    let found = finding(&dead, &store);
    let detail = found["detail"].as_str().unwrap();
    assert!(
        found["ok"] == false
            && detail.contains("no answer within 10 s")
            && detail.contains("Drives there: d."),
        "{found}"
    );
    assert_eq!(finding(&dead, &other)["ok"], true);
    assert!(dead["summary"].as_str().unwrap().contains(&store), "{dead}");
    let firsts = dead["findings"].as_array().unwrap().iter().take_while(|one| one["ok"] == false);
    assert!(firsts.into_iter().any(|one| one["subject"] == store), "problems come first: {dead}");
    proxy.plan(faults::none());
    assert_eq!(finding(&look(), &store)["ok"], true);
}

#[test]
fn the_doctor_tries_a_login_that_no_drive_uses() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::Basic);
    let a = Person::new(&bench, "a", &[]);
    let url = server.url("/soon/");
    let log_in = |password: &str| {
        std::fs::write(bench.path("login"), format!("{USER}:{password}\n")).unwrap();
        a.ok(&[
            "store",
            "login",
            &url,
            "--no-check",
            "--no-keyring",
            "--credentials-file",
            &bench.text("login"),
        ]);
        let diagnosis: Value = serde_json::from_slice(&a.machine.run(&["doctor"]).stdout).unwrap();
        diagnosis
    };
    let well = log_in(PASSWORD);
    let found = finding(&well, &format!("store {url}"));
    let detail = found["detail"].as_str().unwrap();
    assert!(
        found["ok"] == true && detail.ends_with("accepts the credentials of writer. No drive uses it."),
        "{found}"
    );
    let bad = log_in("not the password");
    let found = finding(&bad, &format!("login at {url}"));
    assert!(
        found["ok"] == false && found["detail"].as_str().unwrap().ends_with("No drive uses it."),
        "{found}"
    );
}

#[test]
fn looking_for_problems_can_be_interrupted() {
    let bench = Bench::new();
    let (_server, proxy, _, a) = with_drive(&bench);
    a.ok(&["drive", "status", "d"]);
    proxy.plan(faults::from(0, Fault::Silence));
    let (begun, before) = (Instant::now(), proxy.log().len());
    let mut command = a.machine.command(&["doctor"]);
    let looking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the store is asked", || proxy.log().len() > before).unwrap();
    kill_process(Pid::from_child(&looking), Signal::INT).unwrap();
    let output = looking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let told: Value =
        serde_json::from_str(String::from_utf8_lossy(&output.stderr).lines().last().unwrap()).unwrap();
    assert_eq!((&told["code"], &told["consequence"]), (&"interrupted".into(), &"Nothing was done.".into()));
    // The daemon no longer waits for the store either, which it would do for ten seconds.
    wait_until("the request has ended", || proxy.log()[before..].iter().all(|one| one.ended.is_some()))
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}
