//! Each command sends exactly one request, and with --json prints its result unchanged.

use crate::fake::{Asked, Reply};
use crate::place::Place;
use crate::samples::*;
use serde_json::{Value, json};

struct Case {
    arguments: &'static str,
    asks: &'static str,
    body: Value,
    result: Value,
}

fn case(arguments: &'static str, asks: &'static str, body: Value, result: Value) -> Case {
    Case { arguments, asks, body, result }
}

fn no_secret() -> Value {
    json!({})
}

fn cases() -> Vec<Case> {
    vec![
        case(
            "drive create work --store file:///s --size 10G --no-encryption",
            "POST /v1/drives",
            json!({"name": "work", "store": "file:///s", "size_bytes": 10u64 << 30, "encrypt": false,
                "secrets": no_secret(), "weakest": "claim"}),
            created(),
        ),
        case(
            "drive create work --store file:///s --size 1.5TB --passphrase-file secret",
            "POST /v1/drives",
            json!({"name": "work", "store": "file:///s", "size_bytes": 1_500_000_000_000u64, "encrypt": true,
                "secrets": {"passphrase": "hunter2"}, "weakest": "claim"}),
            created_with_key(),
        ),
        // The daemon chooses the size.
        case(
            "drive create work --store file:///s --no-encryption",
            "POST /v1/drives",
            json!({"name": "work", "store": "file:///s", "encrypt": false, "secrets": no_secret(),
                "weakest": "claim"}),
            created(),
        ),
        case(
            "open work --read-only",
            "POST /v1/drives/work/open",
            json!({"at": null, "attach": "auto", "read_only": true, "snapshot": null}),
            opened(),
        ),
        case("close work --wait", "POST /v1/drives/work/close", json!({"wait": true}), drive()),
        case("ls", "GET /v1/drives", Value::Null, json!([drive()])),
        case("ls work", "GET /v1/drives/work", Value::Null, drive()),
        case(
            "drive add work --store file:///s",
            "POST /v1/drives/add",
            json!({"name": "work", "store": "file:///s", "secrets": no_secret()}),
            created(),
        ),
        case(
            "drive add work --store file:///s --recovery-key-file secret",
            "POST /v1/drives/add",
            json!({"name": "work", "store": "file:///s", "secrets": {"recovery_key": "hunter2"}}),
            created(),
        ),
        case(
            "drive open work",
            "POST /v1/drives/work/open",
            json!({"at": null, "attach": "auto", "read_only": false, "snapshot": null}),
            opened(),
        ),
        case(
            "drive open work --at /mnt/w --attach loop --read-only --snapshot monday",
            "POST /v1/drives/work/open",
            json!({"at": "/mnt/w", "attach": "loop", "read_only": true, "snapshot": "monday"}),
            opened(),
        ),
        case(
            "drive open work --take-over --yes",
            "POST /v1/drives/work/open",
            json!({"at": null, "attach": "auto", "read_only": false, "snapshot": null, "take_over": true}),
            opened(),
        ),
        // No terminal shows the progress, so the command waits only if asked to.
        case(
            "pin /mnt/w/letters",
            "POST /v1/pins",
            json!({"paths": ["/mnt/w/letters"], "dry_run": false, "wait": false}),
            json!([pin()]),
        ),
        case(
            "pin /mnt/w/letters /mnt/w/plan --wait",
            "POST /v1/pins",
            json!({"paths": ["/mnt/w/letters", "/mnt/w/plan"], "dry_run": false, "wait": true}),
            json!([pin()]),
        ),
        case(
            "pin --drive work --dry-run",
            "POST /v1/pins",
            json!({"drive": "work", "dry_run": true, "wait": false}),
            json!([pin()]),
        ),
        case(
            "pin /mnt/w/letters --status",
            "POST /v1/pins",
            json!({"paths": ["/mnt/w/letters"], "dry_run": false, "look": true, "wait": false}),
            json!([pin()]),
        ),
        case("unpin --drive work", "POST /v1/pins/remove", json!({"drive": "work"}), json!([pin()])),
        case("pins", "GET /v1/pins", Value::Null, json!([pin()])),
        case("pins work", "GET /v1/drives/work/pins", Value::Null, json!([pin()])),
        case(
            "evict /mnt/w/letters",
            "POST /v1/evict",
            json!({"paths": ["/mnt/w/letters"]}),
            json!({"bytes_freed": 4096, "stayed_bytes": 0}),
        ),
        case(
            "wait /mnt/w/film --ready 80% --timeout 60s",
            "POST /v1/wait",
            json!({"path": "/mnt/w/film", "percent": 80, "timeout_ms": 60_000}),
            json!({"drive": "work", "bytes": 100, "ready_bytes": 81}),
        ),
        case("drive forks work", "GET /v1/drives/work/forks", Value::Null, json!([fork()])),
        case(
            "drive forks work open 1 --at /mnt/w --attach loop",
            "POST /v1/drives/work/forks/1/open",
            json!({"at": "/mnt/w", "attach": "loop", "read_only": false, "snapshot": null}),
            opened(),
        ),
        case(
            "drive forks work keep 1 --as mine",
            "POST /v1/drives/work/forks/1/keep",
            json!({"name": "mine"}),
            created(),
        ),
        case("drive forks work discard 1 --yes", "DELETE /v1/drives/work/forks/1", Value::Null, json!({})),
        case("drive close work", "POST /v1/drives/work/close", json!({"wait": false}), drive()),
        case("drive close work --wait", "POST /v1/drives/work/close", json!({"wait": true}), drive()),
        case("drive sync work", "POST /v1/drives/work/sync", json!({}), synced()),
        case("drive pause work", "POST /v1/drives/work/pause", json!({}), drive()),
        case("drive resume work", "POST /v1/drives/work/resume", json!({}), drive()),
        case("drive list", "GET /v1/drives", Value::Null, json!([drive()])),
        case("drive status", "GET /v1/drives", Value::Null, json!([drive()])),
        case("drive status work", "GET /v1/drives/work", Value::Null, drive()),
        case("drive map work", "GET /v1/drives/work/map", Value::Null, map()),
        case("drive check work", "POST /v1/drives/work/check", json!({}), checked()),
        case("drive gc work", "POST /v1/drives/work/gc", json!({}), collected()),
        case("drive stop-prefetch work", "POST /v1/drives/work/prefetch/stop", json!({}), json!({})),
        case("drive gc work --stop", "POST /v1/drives/work/gc/stop", json!({}), json!({})),
        case(
            "drive resize work 20G",
            "POST /v1/drives/work/resize",
            json!({"size_bytes": 20u64 << 30}),
            drive(),
        ),
        case("drive snapshot list work", "GET /v1/drives/work/snapshots", Value::Null, json!([snapshot()])),
        case(
            "drive snapshot create work monday",
            "POST /v1/drives/work/snapshots",
            json!({"label": "monday"}),
            snapshot(),
        ),
        case(
            "drive snapshot delete work monday",
            "DELETE /v1/drives/work/snapshots/monday",
            Value::Null,
            json!({}),
        ),
        case(
            "drive rollback work monday --yes",
            "POST /v1/drives/work/rollback",
            json!({"label": "monday"}),
            synced(),
        ),
        case(
            "drive clone work copy",
            "POST /v1/drives/work/clone",
            json!({"name": "copy", "snapshot": null}),
            created(),
        ),
        case(
            "drive clone work copy --snapshot monday",
            "POST /v1/drives/work/clone",
            json!({"name": "copy", "snapshot": "monday"}),
            created(),
        ),
        case(
            "drive passphrase work --new-passphrase-file secret",
            "POST /v1/drives/work/passphrase",
            json!({"new_passphrase": "hunter2"}),
            json!({}),
        ),
        case(
            "drive recovery-key work --yes",
            "POST /v1/drives/work/recovery-key",
            json!({}),
            json!({"recovery_key": "ABCD-EFGH-IJKL"}),
        ),
        case(
            "drive remove work --yes",
            "POST /v1/drives/work/remove",
            json!({"delete_data": false, "discard_unsent": false}),
            json!({}),
        ),
        case(
            "drive remove work -y --delete-data --discard-unsent",
            "POST /v1/drives/work/remove",
            json!({"delete_data": true, "discard_unsent": true}),
            json!({}),
        ),
        case("doctor", "POST /v1/doctor", json!({}), diagnosis()),
        case("doctor --repair", "POST /v1/doctor/repair", json!({}), diagnosis()),
    ]
}

fn reply(asks: &str, result: Value) -> Reply {
    if asks.starts_with("POST") { Reply::result(result) } else { Reply::document(result) }
}

#[test]
fn each_command_sends_one_request_and_json_prints_its_result() {
    for Case { arguments, asks, body, result } in cases() {
        let (place, fake) = Place::with_daemon(&[(asks, reply(asks, result.clone()))]);
        place.file("secret", "hunter2\n");
        let ran = place.run(&format!("{arguments} --json"));
        assert_eq!(ran.code, Some(0), "{arguments}: {ran:?}");
        assert_eq!(fake.asked(), [Asked { what: asks.to_owned(), body }], "{arguments}");
        assert_eq!(ran.json(), result, "{arguments}");
        assert_eq!(ran.err, "", "{arguments}");
    }
}

#[test]
fn each_command_prints_words_and_no_colour_in_a_pipe() {
    for Case { arguments, asks, result, .. } in cases() {
        let (place, _fake) = Place::with_daemon(&[(asks, reply(asks, result))]);
        place.file("secret", "hunter2\n");
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments}: {ran:?}");
        assert!(ran.out.ends_with('\n') && !ran.out.contains(['{', '\x1b']), "{arguments}: {}", ran.out);
        assert_eq!(ran.err, "", "{arguments}");
    }
}

#[test]
fn status_shows_drives_and_folders_and_json_has_them_in_one_list() {
    let folder = json!({"name": "music", "state": "Ready"});
    let replies = [
        ("GET /v1/drives", Reply::document(json!([drive()]))),
        ("GET /v1/folders", Reply::document(json!([folder]))),
    ];
    let (place, fake) = Place::with_daemon(&replies);
    let ran = place.run("status --json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.json(), json!([drive(), folder]));
    assert_eq!(fake.asked().len(), 2);
}

#[test]
fn accepts_an_answer_in_lines_for_a_deleted_snapshot() {
    let what = "DELETE /v1/drives/work/snapshots/monday";
    let (place, _fake) = Place::with_daemon(&[(what, Reply::result(json!({})))]);
    assert_eq!(place.run("drive snapshot delete work monday --json").json(), json!({}));
}

#[test]
fn names_are_one_segment_of_the_request_path() {
    let what = "GET /v1/drives/caf%C3%A9%3F";
    let (place, fake) = Place::with_daemon(&[(what, Reply::document(drive()))]);
    assert_eq!(place.run("drive status café?").code, Some(0));
    assert_eq!(fake.asked()[0].what, what);
    for odd in ["a/b", "..", "."] {
        assert_eq!(place.run(&format!("drive status {odd}")).code, Some(2));
    }
}

#[test]
fn the_daemon_is_given_absolute_paths() {
    let what = "POST /v1/drives/work/open";
    let (place, fake) = Place::with_daemon(&[(what, Reply::result(opened()))]);
    assert_eq!(place.run("drive open work --at here").code, Some(0));
    assert_eq!(fake.asked()[0].body["at"], place.path("here").to_str().unwrap());
}

#[test]
fn names_a_snapshot_without_label_after_the_local_time() {
    let what = "POST /v1/drives/work/snapshots";
    // A day apart, so that no clock shows the same date in both zones.
    let labels = ["EAST-12", "WEST+12"].map(|zone| {
        let (place, fake) = Place::with_daemon(&[(what, Reply::result(snapshot()))]);
        let output = place.command("drive snapshot create work").env("TZ", zone).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let label = fake.asked()[0].body["label"].as_str().unwrap().to_owned();
        assert!(label.len() == 17 && label.starts_with("20"), "{label}");
        label
    });
    assert_ne!(labels[0][..10], labels[1][..10], "{labels:?}");
}
