//! What people read.

use crate::fake::Reply;
use crate::place::Place;
use crate::samples::*;
use serde_json::json;

fn said(arguments: &str, what: &str, reply: Reply) -> String {
    let (place, _fake) = Place::with_daemon(&[(what, reply)]);
    let ran = place.run(arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out
}

#[test]
fn status_is_a_table_that_says_what_waits() {
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
fn without_drives_it_says_how_to_make_one() {
    let text = said("status", "GET /v1/drives", Reply::document(json!([])));
    assert!(text.starts_with("No drives yet.") && text.contains("holdall drive create NAME"), "{text}");
}

#[test]
fn closing_says_whether_the_lid_may_be_closed() {
    let what = "POST /v1/drives/work/close";
    assert_eq!(
        said("drive close work", what, Reply::result(drive())),
        "work is closed. All changes uploaded\n"
    );
    let text = said("drive close work", what, Reply::result(unsent()));
    assert_eq!(text, "work is closed. 12.3 MiB waiting to upload; that goes on in the background\n");
}

#[test]
fn opening_says_where() {
    let what = "POST /v1/drives/work/open";
    let text = said("drive open work", what, Reply::result(opened()));
    assert_eq!(text, "work is open at /home/ann/Holdall/work (/dev/nbd0)\n");
}

#[test]
fn the_daemon_says_what_it_is() {
    let (place, _fake) = Place::with_daemon(&[]);
    let ran = place.run("daemon status");
    assert_eq!(ran.out, "The background service 0.1.0 runs as process 7, for 1 min\n");
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
