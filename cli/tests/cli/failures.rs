//! Errors: three lines or one object on standard error, and a meaningful exit code.

use crate::fake::Reply;
use crate::place::Place;
use crate::samples::*;
use serde_json::json;

const SYNC: &str = "POST /v1/drives/work/sync";

#[test]
fn each_failure_code_has_its_exit_code() {
    let codes = [
        ("failed", 1),
        ("usage", 2),
        ("not_found", 3),
        ("gone", 3),
        ("exists", 1),
        ("held", 4),
        ("offline", 5),
        ("credentials", 6),
        ("passphrase_needed", 6),
        ("passphrase_wrong", 6),
        ("corrupt", 7),
        ("newer", 1),
        ("unsent", 8),
        ("conflict", 1),
        ("paused", 1),
        ("state", 1),
        ("privileges", 1),
        ("full", 1),
        ("interrupted", 130),
    ];
    for (code, exit_code) in codes {
        let line = Reply::lines(&[progress(1), json!({"error": failure(code)})]);
        for reply in
            [line, Reply::failure(409, failure(code)), Reply::failure(409, json!({"error": failure(code)}))]
        {
            let (place, _fake) = Place::with_daemon(&[(SYNC, reply)]);
            let ran = place.run("drive sync work");
            assert_eq!((ran.code, ran.out.as_str()), (Some(exit_code), ""), "{code}");
            assert_eq!(ran.err, "The cause.\nWhat it means.\nWhat to do.\n");
        }
    }
}

#[test]
fn with_json_an_error_is_one_object_on_standard_error() {
    let (place, _fake) =
        Place::with_daemon(&[("GET /v1/drives/work", Reply::failure(404, failure("not_found")))]);
    let ran = place.run("drive status work --json");
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""));
    assert_eq!(ran.json_error(), failure("not_found"));
}

#[test]
fn a_check_that_finds_errors_prints_them_and_exits_with_7() {
    let found = json!({"ok": false, "objects": 12, "errors": ["seg/ab is missing"]});
    let (place, _fake) = Place::with_daemon(&[("POST /v1/drives/work/check", Reply::result(found.clone()))]);
    let ran = place.run("drive check work");
    assert_eq!((ran.code, ran.err.as_str()), (Some(7), ""));
    assert!(ran.out.contains("seg/ab is missing"));
    let ran = place.run("drive check work --json");
    assert_eq!((ran.code, ran.json()), (Some(7), found));
}

#[test]
fn a_doctor_who_finds_something_exits_with_1() {
    let found = json!({"ok": false, "summary": "1 problem was found: nbd.", "findings": [
        {"subject": "nbd", "ok": false, "detail": "no module", "action": "Run `modprobe nbd`.", "repaired": false},
        {"subject": "fuse", "ok": true, "detail": "The kernel has fuse.", "action": null, "repaired": false},
    ]});
    let (place, _fake) = Place::with_daemon(&[("POST /v1/doctor", Reply::result(found))]);
    let ran = place.run("doctor");
    assert_eq!(ran.code, Some(1));
    let told =
        "1 problem was found: nbd.\n! nbd: no module\n  Run `modprobe nbd`.\n✓ fuse: The kernel has fuse.\n";
    assert_eq!(ran.out, told);
}

#[test]
fn wrong_usage_exits_with_2_and_asks_nothing() {
    let (place, fake) = Place::with_daemon(&[]);
    for arguments in [
        "",
        "drive",
        "drive nonsense",
        "drive create work --size 1G",
        "opn work",
        "drive create work --store file:///s --size 0 --no-encryption",
        "drive create work --store file:///s --size lots --no-encryption",
        "drive create work --store file:///s --size 1G --no-encryption --passphrase-file f",
        "drive open work --attach floppy",
        "drive serve work",
        "drive serve work --socket s --tcp 127.0.0.1:1",
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
    assert_eq!(fake.asked(), []);
    let error = place.run("drive resize work lots --json").json_error();
    assert_eq!(error["code"], "usage");
    assert!(error["message"].as_str().unwrap().contains("is not a size"), "{error}");
    let error = place.run("drive serve work --json").json_error();
    let message = "The following required arguments were not provided: <--socket <PATH>|--tcp <ADDR>>.";
    assert_eq!(error["message"], message);
}

#[test]
fn discarding_data_requires_yes() {
    let (place, fake) = Place::with_daemon(&[]);
    for arguments in ["drive remove work", "drive rollback work monday"] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains("--yes"), "{}", ran.err);
    }
    assert_eq!(fake.asked(), []);
}

#[test]
fn reports_a_daemon_that_dies_or_answers_nonsense() {
    let cut_off = Reply::lines(&[progress(1)]);
    let (place, _fake) = Place::with_daemon(&[(SYNC, cut_off)]);
    let ran = place.run("drive sync work --json");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("\"no_daemon\""), "{}", ran.err);

    for nonsense in [Reply::lines(&[json!({"surprise": 1})]), Reply::failure(500, json!("oh"))] {
        let (place, _fake) = Place::with_daemon(&[(SYNC, nonsense)]);
        let ran = place.run("drive sync work");
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains("holdall daemon stop"), "{}", ran.err);
    }
}

#[test]
fn a_nonsensical_environment_is_wrong_usage() {
    let place = Place::new();
    let output = place.command("status").env("HOLDALL_RUNTIME_DIR", "run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let long = place.path(&"x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let output = place.command("status").env("HOLDALL_RUNTIME_DIR", long).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
