//! Stores: logging in, and testing what they can do.

use crate::fake::Reply;
use crate::place::{Place, Ran};
use crate::pty::Pty;
use crate::samples::*;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

const LOGIN: &str = "POST /v1/stores/login";

fn login() -> Value {
    json!({"store": "s3://b", "user": "AKIAIO…", "kept": "file", "drives": ["work"]})
}

fn tested(mode: &str, usable: bool) -> Value {
    let findings = json!([{"subject": "listings", "ok": true, "detail": "always current"}]);
    json!({"store": "s3://b", "store_mode": mode, "usable": usable, "findings": findings, "reasons": [],
        "has_drive": false, "others": [], "instead": null})
}

#[test]
fn reads_credentials_from_a_file_or_stdin_and_hides_them() {
    let (place, fake) = Place::with_daemon(&[(LOGIN, Reply::result(login()))]);
    place.file("keys", "[default]\naws_access_key_id = AKIAIOSFODNN7\naws_secret_access_key = hunter2\n");
    let ran = place.run("store login s3://b --credentials-file keys --no-check");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Logged in to s3://b as AKIAIO…"), "{}", ran.out);
    let mut command = place.command("store login https://h/dav --credentials-file - --no-keyring");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"ann:hunter2\n").unwrap();
    let piped = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(piped.code, Some(0), "{piped:?}");
    for ran in [&ran, &piped] {
        assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
    }
    let asked = fake.asked();
    let keys = json!({"kind": "s3", "access_key": "AKIAIOSFODNN7", "secret_key": "hunter2"});
    let password = json!({"kind": "password", "user": "ann", "password": "hunter2"});
    let body = |store, credentials, unchecked, no_keyring| json!({"store": store, "credentials": credentials, "unchecked": unchecked, "no_keyring": no_keyring});
    assert_eq!(asked[0].body, body("s3://b", keys, true, false));
    assert_eq!(asked[1].body, body("https://h/dav", password, false, true));
}

#[test]
fn invalid_credentials_are_wrong_usage_and_are_not_repeated() {
    let (place, fake) = Place::with_daemon(&[]);
    place.file("nonsense", "hunter2\n");
    place.file("empty", "\n");
    for arguments in [
        "store login s3://b --credentials-file nonsense",
        "store login s3://b --credentials-file empty",
        "store login s3://b --credentials-file nowhere",
        "store login https://h --credentials-file nonsense",
        "store login s3://b",
        "drive create work --store s3://b --size 10G --passphrase-file - --credentials-file -",
        "drive add work --store s3://b --passphrase-file - --credentials-file -",
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments}: {ran:?}");
        assert!(!ran.err.contains("hunter2") && !ran.err.is_empty(), "{arguments}: {}", ran.err);
    }
    assert_eq!(fake.asked(), []);
}

#[test]
fn asks_for_credentials_and_hides_typed_secrets() {
    for (store, asked_for, secret, expected) in [
        (
            "s3://b",
            "Access key: ",
            "Secret key: ",
            json!({"kind": "s3", "access_key": "ann", "secret_key": "hunter2"}),
        ),
        (
            "https://h",
            "User: ",
            "Password: ",
            json!({"kind": "password", "user": "ann", "password": "hunter2"}),
        ),
    ] {
        let (place, fake) = Place::with_daemon(&[(LOGIN, Reply::result(login()))]);
        let mut pty = Pty::open();
        let child = pty.spawn(place.command(&format!("store login {store}")));
        pty.wait_for(asked_for);
        pty.type_line("ann");
        pty.wait_for(secret);
        assert!(!pty.echoes());
        pty.type_line("hunter2");
        let (code, screen) = pty.finish(child);
        assert_eq!(code, Some(0), "{screen}");
        assert!(!screen.contains("hunter2"), "{screen}");
        assert_eq!(fake.asked()[0].body["credentials"], expected);
    }
}

#[test]
fn lists_logins_and_logs_out() {
    let replies = [
        ("GET /v1/stores", Reply::document(json!([login()]))),
        ("POST /v1/stores/logout", Reply::result(login())),
    ];
    let (place, fake) = Place::with_daemon(&replies);
    let list = place.run("store list").out;
    assert!(list.contains("s3://b") && list.contains("AKIAIO…") && list.contains("work"), "{list}");
    let left = place.run("store logout s3://b").out;
    assert!(left.contains("cannot upload or download until you log in again: work"), "{left}");
    assert_eq!(fake.asked()[1].body, json!({"store": "s3://b"}));
}

#[test]
fn a_store_test_explains_the_mode_and_fails_if_unusable() {
    for (mode, usable, code, says) in [
        ("swap", true, 0, "both versions are kept"),
        ("claim", true, 0, "half a minute"),
        ("none", true, 0, "one computer at a time"),
        ("none", false, 1, "This store cannot hold a drive"),
    ] {
        let (place, _fake) =
            Place::with_daemon(&[("POST /v1/stores/test", Reply::result(tested(mode, usable)))]);
        let ran = place.run("store test s3://b");
        assert_eq!(ran.code, Some(code));
        assert!(ran.out.contains(says) && ran.out.contains("listings: always current"), "{}", ran.out);
        assert_eq!(place.run("store test s3://b --json").json(), tested(mode, usable));
    }
}

#[test]
fn moving_to_a_weak_store_needs_a_second_yes() {
    let promote = ("POST /v1/drives/work/replicas/promote", Reply::failure(409, failure("weak_store")));
    let promoted = json!({"store": "s3://b", "root": "root/00/1", "committed_at": "2026-11-20T11:58:00Z",
        "former_store_told": true, "lost_versions": false});
    for (answer, code, weakest) in [("y", 0, &["claim", "none"][..]), ("", 1, &["claim"])] {
        let replies = [promote.clone(), (promote.0, Reply::result(promoted.clone()))];
        let (place, fake) = Place::with_daemon(&replies);
        let mut pty = Pty::open();
        let child = pty.spawn(place.command("drive replica promote work s3://b"));
        pty.wait_for("Continue? [y/N] ");
        pty.type_line("y");
        pty.wait_for("one computer at a time");
        pty.wait_for("Promote it anyway? [y/N] ");
        pty.type_line(answer);
        assert_eq!(pty.finish(child).0, Some(code));
        let asked: Vec<_> = fake.asked().iter().map(|asked| asked.body["weakest"].clone()).collect();
        assert_eq!(asked, weakest);
    }
}

#[test]
fn creating_a_drive_on_a_weak_store_needs_yes() {
    let create = "drive create work --store s3://b --size 10G --no-encryption";
    let weak = Reply::failure(409, failure("weak_store"));
    let (place, _fake) = Place::with_daemon(&[("POST /v1/drives", weak.clone())]);
    assert_eq!(place.run(create).code, Some(1));
    let (place, fake) = Place::with_daemon(&[("POST /v1/drives", Reply::result(created()))]);
    assert_eq!(place.run(&format!("{create} --yes")).code, Some(0));
    assert_eq!(fake.asked()[0].body["weakest"], "none");
    for (answer, code, requests) in [("y", 0, 2), ("", 1, 1)] {
        let replies = [("POST /v1/drives", weak.clone()), ("POST /v1/drives", Reply::result(created()))];
        let (place, fake) = Place::with_daemon(&replies);
        let mut pty = Pty::open();
        let child = pty.spawn(place.command(create));
        pty.wait_for("one computer at a time");
        pty.wait_for("Create work anyway? [y/N] ");
        pty.type_line(answer);
        assert_eq!(pty.finish(child).0, Some(code));
        assert_eq!(fake.asked().len(), requests);
        assert_eq!(fake.asked()[0].body["weakest"], "claim");
    }
}
