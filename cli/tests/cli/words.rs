//! The words that people read.

use crate::fake::Reply;
use crate::place::Place;
use crate::samples::*;
use serde_json::json;

fn said(arguments: &str, what: &str, reply: Reply) -> String {
    let no_folders = ("GET /v1/folders", Reply::document(json!([])));
    let (place, _fake) = Place::with_daemon(&[(what, reply), no_folders]);
    let ran = place.run(arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out
}

#[test]
fn status_is_a_table_with_pending_changes() {
    let mut closed = unsent();
    closed["name"] = json!("photos");
    closed["state"] = json!("Closed");
    closed["mountpoint"] = json!(null);
    let expected = "\
DRIVE   STATE     UPLOADS                     SIZE    MOUNTED AT
work    ✓ Ready   All changes uploaded        10 GiB  /home/ann/Holdall/work
photos  ○ Closed  12.3 MiB waiting to upload  10 GiB
";
    assert_eq!(said("status", "GET /v1/drives", Reply::document(json!([drive(), closed]))), expected);
}

#[test]
fn says_how_to_create_a_first_drive() {
    let text = said("status", "GET /v1/drives", Reply::document(json!([])));
    assert!(text.starts_with("No drives yet.") && text.contains("holdall drive create NAME"), "{text}");
}

#[test]
fn closing_says_whether_all_changes_are_uploaded() {
    let what = "POST /v1/drives/work/close";
    assert_eq!(
        said("drive close work", what, Reply::result(drive())),
        "work is closed. All changes uploaded\n"
    );
    let text = said("drive close work", what, Reply::result(unsent()));
    assert_eq!(text, "work is closed. 12.3 MiB waiting to upload; this continues in the background\n");
}

#[test]
fn opening_says_where_the_drive_is() {
    let what = "POST /v1/drives/work/open";
    let text = said("drive open work", what, Reply::result(opened()));
    assert_eq!(text, "work is open at /home/ann/Holdall/work (/dev/nbd0)\n");
}

#[test]
fn the_daemon_status_shows_version_and_process() {
    let (place, _fake) = Place::with_daemon(&[]);
    let ran = place.run("daemon status");
    assert_eq!(ran.out, "The background service 0.1.0 is running as process 7, for 1 min\n");
}

#[test]
fn help_has_examples_everywhere() {
    let place = Place::new();
    for command in
        ["", "drive", "drive create", "drive open", "drive remove", "drive snapshot", "doctor", "events"]
    {
        let ran = place.run(&format!("{command} --help"));
        assert_eq!(ran.code, Some(0));
        assert!(ran.out.contains("Example"), "{command}");
    }
    assert_eq!(place.run("--version").out, format!("holdall {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn says_that_something_was_already_done() {
    let (mut open, mut closed) = (opened(), drive());
    (open["already"], closed["already"]) = (json!(true), json!(true));
    let text = said("open work", "POST /v1/drives/work/open", Reply::result(open));
    assert_eq!(text, "work is open already at /home/ann/Holdall/work (/dev/nbd0)\n");
    let text = said("close work", "POST /v1/drives/work/close", Reply::result(closed));
    assert_eq!(text, "work is closed already. All changes uploaded\n");
}

#[test]
fn help_is_a_command_at_every_level() {
    let place = Place::new();
    for (command, says) in [
        ("help", "holdall open work"),
        ("help open", "--read-only"),
        ("help drive", "holdall drive create work"),
        ("help drive create", "--size"),
        ("drive help create", "[default: 1T]"),
        ("drive snapshot help", "Take a snapshot of the drive as it is now"),
        ("store help test", "holdall store test"),
        ("daemon help", "openapi"),
    ] {
        let ran = place.run(command);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
        assert!(ran.out.contains(says), "{command}: {}", ran.out);
    }
}

#[test]
fn an_unknown_command_suggests_the_one_that_was_meant() {
    let place = Place::new();
    for (typed, meant) in
        [("sync work", "drive sync"), ("opne work", "open"), ("login s3://b", "store login")]
    {
        let ran = place.run(typed);
        assert_eq!(ran.code, Some(2), "{typed}");
        assert!(ran.err.contains(&format!("'{meant}'")), "{typed}: {}", ran.err);
    }
}

#[test]
fn repeats_sizes_and_stores_as_they_were_typed() {
    let create = "drive create work --store file:/x//Work --size 1.5TB --no-encryption";
    let text = said(create, "POST /v1/drives", Reply::result(created()));
    assert!(text.starts_with("work is created: 1.5TB in file:/x//Work\n"), "{text}");
    let mut made = created();
    made["size_bytes"] = json!(1u64 << 40);
    let text = said("drive create work --store /x --no-encryption", "POST /v1/drives", Reply::result(made));
    assert!(text.starts_with("work is created: 1 TiB in /x\n"), "what was not typed is told: {text}");
    let text = said("drive resize work 2000000M", "POST /v1/drives/work/resize", Reply::result(drive()));
    assert_eq!(text, "work has 2000000M now\n");
    let tested = json!({"store": "s3://b/", "store_mode": "swap", "usable": true, "findings": [], "reasons": [],
        "has_drive": false, "others": [], "instead": null});
    let text = said("store test s3://b//", "POST /v1/stores/test", Reply::result(tested));
    assert!(text.starts_with("s3://b//\n"), "{text}");
}

#[test]
fn names_of_objects_are_long_only_with_verbose() {
    let name = format!("seg/4f/{}-{:016x}-{:016x}-4f0e1d2c{}", "0b".repeat(16), 3, 161, "aa".repeat(12));
    let mut damaged = checked();
    (damaged["ok"], damaged["errors"]) = (json!(false), json!([format!("{name} is missing")]));
    let mut failed = failure("corrupt");
    failed["message"] = json!(format!("{name} is missing from the store."));
    let mut synced = synced();
    synced["root"] = json!(name.replace("seg", "root"));
    let checking = ("POST /v1/drives/work/check", Reply::result(damaged));
    let opening = ("POST /v1/drives/work/open", Reply::failure(409, failed));
    let syncing = ("POST /v1/drives/work/sync", Reply::result(synced));
    let (place, _fake) = Place::with_daemon(&[checking, opening, syncing]);
    for command in ["drive check work", "open work", "drive sync work"] {
        let said = |command: &str| {
            let ran = place.run(command);
            ran.out + &ran.err
        };
        assert!(!said(command).contains(&name[4..]), "{command}");
        assert!(said(&format!("{command} -v")).contains(&name[4..]), "{command}");
        assert!(said(&format!("{command} --json")).contains(&name[4..]), "programs want it: {command}");
    }
    assert!(place.run("drive check work").out.contains("seg/…4f0e1d2c is missing"));
}

#[test]
fn times_are_local_in_words_and_unchanged_in_json() {
    let mut next = json!({"kind": "segment", "bytes": 1, "tries": 3, "last_error": "It is away."});
    next["next_try_at"] = json!("2026-11-20T23:30:00Z");
    let mut old = snapshot();
    old["taken_at"] = json!("2020-02-28T23:30:00Z");
    let (queue, list) = ("GET /v1/drives/work/queue", "GET /v1/drives/work/snapshots");
    let (place, _fake) =
        Place::with_daemon(&[(queue, Reply::document(json!([next]))), (list, Reply::document(json!([old])))]);
    let said = |command: &str| {
        let output = place.command(command).env("TZ", "EAST-9").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("drive queue work").contains("2026-11-21 08:30:00"));
    assert!(said("drive queue work --json").contains("2026-11-20T23:30:00Z"));
    assert!(said("drive snapshot list work").contains("2020-02-29 08:30"));
    assert!(said("drive snapshot list work --json").contains("2020-02-28T23:30:00Z"));
}
