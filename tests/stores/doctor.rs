//! Looking for problems: every store that a drive relies on is tested, and none delays another.

use crate::bench::Bench;
use crate::s3::with_drive;
use holdall_servers::faults::{self, Fault};
use serde_json::{Value, json};

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
