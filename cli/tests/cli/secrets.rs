//! Passphrases and recovery keys.

use crate::fake::Reply;
use crate::place::{Place, Ran};
use crate::pty::Pty;
use crate::samples::*;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const CREATE: &str = "drive create work --store file:///s --size 10G";
const ADD: &str = "drive add work --store file:///s";

fn makes_drives() -> [(&'static str, Reply); 1] {
    [("POST /v1/drives", Reply::result(created_with_key()))]
}

#[test]
fn a_missing_passphrase_without_terminal_is_wrong_usage() {
    let (place, fake) = Place::with_daemon(&makes_drives());
    for arguments in [CREATE, "drive passphrase work"] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains("passphrase-file FILE"), "{}", ran.err);
    }
    assert_eq!(fake.asked(), []);
}

#[test]
fn standard_input_may_hold_the_passphrase() {
    let (place, fake) = Place::with_daemon(&makes_drives());
    let mut command = place.command(&format!("{CREATE} --passphrase-file -"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fake.asked()[0].body["secrets"], json!({"passphrase": "correct horse"}));
    assert!(!ran.out.contains("correct horse") && !ran.err.contains("correct horse"));
}

#[test]
fn a_missing_passphrase_file_is_wrong_usage() {
    let (place, fake) = Place::with_daemon(&makes_drives());
    let ran = place.run(&format!("{CREATE} --passphrase-file nowhere"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("nowhere"), "{}", ran.err);
    assert_eq!(fake.asked(), []);
}

#[test]
fn a_new_recovery_key_needs_yes_and_is_shown() {
    let reply = Reply::result(json!({"recovery_key": "ABCD-EFGH-IJKL"}));
    let (place, fake) = Place::with_daemon(&[("POST /v1/drives/work/recovery-key", reply)]);
    let ran = place.run("drive recovery-key work --recovery-key-out key");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--yes") && fake.asked().is_empty(), "{ran:?}");
    assert!(!place.path("key").exists(), "nothing is left of it");
    let shown = place.run("drive recovery-key work --yes").out;
    assert!(shown.contains("ABCD-EFGH-IJKL") && shown.contains("Write it down"), "{shown}");
    let ran = place.run("drive recovery-key work --yes --recovery-key-out key");
    assert!(!ran.out.contains("ABCD-EFGH-IJKL") && ran.code == Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(place.path("key")).unwrap(), "ABCD-EFGH-IJKL\n");
}

#[test]
fn a_recovery_key_is_shown_once_or_written_privately() {
    let (place, _fake) = Place::with_daemon(&makes_drives());
    place.file("secret", "hunter2\n");
    let create = format!("{CREATE} --passphrase-file secret");
    let shown = place.run(&create).out;
    assert!(shown.contains("ABCD-EFGH-IJKL") && shown.contains("Write it down"), "{shown}");

    let ran = place.run(&format!("{create} --recovery-key-out key"));
    assert_eq!(ran.code, Some(0));
    assert!(!ran.out.contains("ABCD"), "{}", ran.out);
    let key = place.path("key");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "ABCD-EFGH-IJKL\n");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn refuses_to_overwrite_a_file_with_a_recovery_key() {
    let (place, fake) = Place::with_daemon(&makes_drives());
    place.file("secret", "hunter2\n");
    place.file("key", "another drive's\n");
    let ran = place.run(&format!("{CREATE} --passphrase-file secret --recovery-key-out key"));
    assert_eq!(ran.code, Some(1));
    assert_eq!(std::fs::read_to_string(place.path("key")).unwrap(), "another drive's\n");
    assert_eq!(fake.asked(), []);
}

#[test]
fn a_failed_creation_leaves_no_key_file() {
    let (place, _fake) = Place::with_daemon(&[("POST /v1/drives", Reply::failure(409, failure("exists")))]);
    place.file("secret", "hunter2\n");
    let ran = place.run(&format!("{CREATE} --passphrase-file secret --recovery-key-out key"));
    assert_eq!(ran.code, Some(1));
    assert!(!place.path("key").exists());
}

#[test]
fn adding_an_encrypted_drive_needs_its_passphrase() {
    let replies = [("POST /v1/drives/add", Reply::failure(403, failure("passphrase_needed")))];
    let (place, _fake) = Place::with_daemon(&replies);
    let ran = place.run(ADD);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--passphrase-file"), "{}", ran.err);
    place.file("secret", "wrong\n");
    assert_eq!(place.run(&format!("{ADD} --passphrase-file secret")).code, Some(6));
}

#[test]
fn asks_for_a_missing_passphrase_without_echo() {
    let replies = [
        ("POST /v1/drives/add", Reply::failure(403, failure("passphrase_needed"))),
        ("POST /v1/drives/add", Reply::result(created())),
    ];
    let (place, fake) = Place::with_daemon(&replies);
    let mut pty = Pty::open();
    let child = pty.spawn(place.command(ADD));
    pty.wait_for("Passphrase for work: ");
    assert!(!pty.echoes());
    pty.type_line("hunter2");
    let (code, screen) = pty.finish(child);
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("hunter2"), "{screen}");
    assert_eq!(fake.asked()[1].body["secrets"], json!({"passphrase": "hunter2"}));
}

#[test]
fn asks_for_a_new_passphrase_until_both_entries_match() {
    let (place, fake) = Place::with_daemon(&makes_drives());
    let mut pty = Pty::open();
    let child = pty.spawn(place.command(CREATE));
    for (prompt, typed) in [
        ("New passphrase for work: ", "hunter2"),
        ("Repeat it: ", "hunter3"),
        ("New passphrase for work: ", "hunter4"),
        ("Repeat it: ", "hunter4"),
    ] {
        pty.wait_for(prompt);
        pty.type_line(typed);
    }
    let (code, screen) = pty.finish(child);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("ABCD-EFGH-IJKL") && !screen.contains("hunter"), "{screen}");
    assert_eq!(fake.asked()[0].body["secrets"], json!({"passphrase": "hunter4"}));
}

#[test]
fn removing_asks_with_the_facts() {
    let replies = [
        ("GET /v1/drives/work", Reply::document(unsent())),
        ("POST /v1/drives/work/remove", Reply::result(json!({}))),
    ];
    for (answer, code, requests) in [("y", 0, 2), ("", 1, 1), ("no", 1, 1)] {
        let (place, fake) = Place::with_daemon(&replies);
        let mut pty = Pty::open();
        let child = pty.spawn(place.command("drive remove work --discard-unsent"));
        pty.wait_for("Only on this computer, and deleted if you continue: 12.3 MiB of work.");
        pty.wait_for("Remove work from this computer? Its data in file:///mnt/nas/work stays. [y/N] ");
        pty.type_line(answer);
        assert_eq!(pty.finish(child).0, Some(code));
        assert_eq!(fake.asked().len(), requests);
    }
}

#[test]
fn deleting_data_requires_the_drives_name() {
    let replies = [
        ("GET /v1/drives/work", Reply::document(drive())),
        ("POST /v1/drives/work/remove", Reply::result(json!({}))),
    ];
    for (answer, code) in [("work", 0), ("y", 1)] {
        let (place, _fake) = Place::with_daemon(&replies);
        let mut pty = Pty::open();
        let child = pty.spawn(place.command("drive remove work --delete-data"));
        pty.wait_for("Type the drive's name to delete it: ");
        pty.type_line(answer);
        assert_eq!(pty.finish(child).0, Some(code));
    }
}
