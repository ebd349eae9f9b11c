//! Commands start the daemon if it does not run.

use crate::fake::{Fake, Reply};
use crate::place::{Place, Ran};
use crate::samples::*;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn lists_places() -> [(&'static str, Reply); 2] {
    [("GET /v1/drives", Reply::document(json!([drive()]))), ("GET /v1/folders", Reply::document(json!([])))]
}

/// A place where starting `holdalld` makes the fake daemon reachable.
fn with_startable_daemon() -> (Place, Fake) {
    let place = Place::new();
    place.install("claims-the-socket");
    let fake = Fake::listen(&place.path("run/prepared.sock"), &lists_places());
    (place, fake)
}

#[test]
fn a_command_starts_the_daemon_in_its_own_session() {
    let (place, _fake) = with_startable_daemon();
    let ran = place.run("status --json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.json(), json!([drive()]));
    let session = std::fs::read_dir(place.path("state")).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let pid = path.file_name()?.to_str()?.strip_prefix("session.")?.to_owned();
        Some((pid, std::fs::read_to_string(path).unwrap()))
    });
    let (pid, session) = session.unwrap();
    assert_eq!(pid, session.trim(), "the daemon leads its session");
    let log = place.path("state/daemon.log").metadata().unwrap();
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_running_daemon_is_not_started_again() {
    let (place, _fake) = with_startable_daemon();
    for _ in 0..2 {
        assert_eq!(place.run("status").code, Some(0));
    }
    let starts = std::fs::read_to_string(place.path("state/starts")).unwrap();
    assert_eq!(starts.lines().count(), 1);
}

#[test]
fn a_socket_without_listener_counts_as_no_daemon() {
    let (place, _fake) = with_startable_daemon();
    drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists());
    assert_eq!(place.run("status").code, Some(0));
}

#[test]
fn concurrent_commands_that_start_the_daemon_all_succeed() {
    let (place, _fake) = with_startable_daemon();
    let children: Vec<_> = (0..4).map(|_| place.command("status --json").spawn().unwrap()).collect();
    for child in children {
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    }
}

#[test]
fn quotes_a_daemon_that_fails_to_start() {
    let place = Place::new();
    place.install("fails");
    place.file("state/daemon.log", "an old story\n");
    let ran = place.run("status");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("it exited with 3"), "{}", ran.err);
    assert!(ran.err.contains("\n    listening on nothing\n    the registry is damaged\n"), "{}", ran.err);
    assert!(!ran.err.contains("an old story"), "{}", ran.err);
    assert_eq!(place.run("status --json").json_error()["code"], "no_daemon");
}

#[test]
fn says_what_to_install_if_the_daemon_is_missing() {
    let place = Place::new();
    let ran = Ran::from(place.command("status").env("PATH", "/nonexistent").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("holdalld beside holdall, or in PATH"), "{}", ran.err);
}

#[test]
fn refuses_a_socket_directory_that_others_can_write_to() {
    let (place, fake) = Place::with_daemon(&lists_places());
    std::fs::set_permissions(place.path("run"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = place.run("status");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("only you can change"), "{}", ran.err);
    assert_eq!(fake.asked(), []);
}

#[test]
fn the_foreground_command_becomes_the_daemon() {
    let place = Place::new();
    place.install("says-what-it-is");
    let child = place.command("daemon").spawn().unwrap();
    let pid = child.id();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out), (Some(4), format!("I am {pid} with 0 arguments\n")));
}

/// A fake daemon that claims to be this process.
fn stopped_by(pid: u32) -> (Place, Fake) {
    let daemon = json!({"version": "0.1.0", "pid": pid, "uptime_ms": 1});
    let stops = Reply::result(json!({})).and_dies();
    Place::with_daemon(&[("GET /v1/daemon", Reply::document(daemon)), ("POST /v1/daemon/stop", stops)])
}

#[test]
fn stopping_waits_for_the_process_to_end() {
    // It ends when its input ends, so also if this test fails.
    let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let (place, fake) = stopped_by(process.id());
    let mut child = place.command("daemon stop").spawn().unwrap();
    fake.died();
    // It must still wait after longer than whole other commands take.
    for _ in 0..20 {
        assert_eq!(place.run("--version").code, Some(0));
    }
    assert_eq!(child.try_wait().unwrap(), None);
    drop(process.stdin.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    process.wait().unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "The background service has stopped\n"), "{ran:?}");
}

#[test]
fn stop_and_status_do_not_start_the_daemon() {
    let place = Place::new();
    place.install("claims-the-socket");
    for (arguments, code) in [("daemon stop", 0), ("daemon status", 1)] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(code));
        assert!(format!("{}{}", ran.out, ran.err).contains("is not running"), "{ran:?}");
    }
    assert!(!place.path("state/starts").exists());
}

#[test]
fn the_daemon_inherits_no_open_files_of_a_script() {
    let (place, _fake) = with_startable_daemon();
    let command = place.command("status");
    let mut script = Command::new("sh");
    script.args(["-c", "exec 7>lock; exec \"$0\" status"]).arg(command.get_program());
    script.env_clear().current_dir(place.path(""));
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(script.output().unwrap().status.code(), Some(0));
    let open = std::fs::read_to_string(place.path("state/descriptors")).unwrap();
    assert!(open.lines().any(|number| number == "2") && !open.lines().any(|number| number == "7"), "{open}");
}
