//! One rule at a time.

use crate::rig::{Rig, path};
use holdall_core::folder::outbox::{Keep, Unsettled};
use holdall_core::sim::remote::{RemoteHabits, Request};
use holdall_core::watched::Problem;
use holdall_core::watched::leads_out;
use std::time::Duration;

const GOOD: RemoteHabits = RemoteHabits::GOOD;

#[tokio::test(start_paused = true)]
async fn one_way_uploads_and_never_changes_the_directory() {
    let rig = Rig::new(1, GOOD, false);
    rig.tree.writes(&path("d/a"), b"a");
    rig.tree.writes(&path("b"), b"b");
    rig.remote.other_writes(&path("theirs"), "t".as_bytes());
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    assert_eq!(rig.there().keys().cloned().collect::<Vec<_>>(), ["b", "d/a", "theirs"]);
    assert_eq!(rig.tree.file(&path("theirs")), None);
    // What others do at the remote stays there, and nothing of it comes here.
    rig.remote.other_writes(&path("b"), "changed there".as_bytes());
    rig.settle(&watched).await.unwrap();
    assert_eq!((rig.tree.file(&path("b")).unwrap(), watched.status().changed_there), (b"b".to_vec(), 1));
    // Both have changed: both are kept at the remote.
    rig.tree.writes(&path("b"), b"changed here");
    rig.settle(&watched).await.unwrap();
    let there = rig.there();
    assert_eq!(there["b"], b"changed here");
    assert!(
        there.iter().any(|(name, bytes)| name.starts_with("b (conflict, ") && bytes == b"changed there"),
        "{there:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rename_sends_no_bytes() {
    let rig = Rig::new(2, GOOD, true);
    rig.tree.writes(&path("old"), &[7; 5000]);
    rig.tree.writes(&path("other"), b"other");
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    let writes = rig.remote.requests(Request::Write);
    rig.tree.renames(&path("old"), &path("d/new"));
    rig.settle(&watched).await.unwrap();
    assert_eq!(rig.remote.requests(Request::Write), writes);
    assert_eq!(rig.there().keys().cloned().collect::<Vec<_>>(), ["d/new", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_not_sent() {
    let rig = Rig::new(3, GOOD, true);
    rig.tree.writes(&path("a"), b"half");
    rig.tree.set_busy(&path("a"), true);
    let watched = rig.open().await;
    let settled = rig.settle(&watched).await.unwrap_err();
    assert!(settled.contains("still writes"), "{settled}");
    assert_eq!(rig.there().len(), 0);
    assert_eq!(watched.status().queue.in_use, 1);
    rig.tree.set_busy(&path("a"), false);
    rig.settle(&watched).await.unwrap();
    assert_eq!(rig.there()["a"], b"half");
    // The remote's version does not replace a file that a program writes to.
    rig.tree.set_busy(&path("a"), true);
    rig.remote.other_writes(&path("a"), "new".as_bytes());
    assert!(rig.settle(&watched).await.is_err());
    assert_eq!(rig.tree.file(&path("a")).unwrap(), b"half");
}

#[tokio::test(start_paused = true)]
async fn equal_files_that_came_about_apart_are_one() {
    let rig = Rig::new(4, GOOD, true);
    rig.tree.writes(&path("a"), b"same");
    rig.remote.other_writes(&path("a"), "same".as_bytes());
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    assert_eq!((rig.there().len(), rig.tree.files().len(), watched.status().conflicts), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn two_edits_are_two_files_until_a_person_decides() {
    for keep in [Keep::Mine, Keep::Theirs, Keep::Both] {
        let rig = Rig::new(5, GOOD, true);
        rig.tree.writes(&path("a.txt"), b"base");
        let watched = rig.open().await;
        rig.settle(&watched).await.unwrap();
        rig.tree.writes(&path("a.txt"), b"ours");
        rig.remote.other_writes(&path("a.txt"), "theirs".as_bytes());
        rig.settle(&watched).await.unwrap();
        let conflicts = watched.conflicts().await;
        let kept_as = conflicts[&path("a.txt")].kept_as.clone();
        assert_eq!(
            (rig.there()["a.txt"].clone(), rig.there()[kept_as.as_str()].clone()),
            (b"theirs".to_vec(), b"ours".to_vec())
        );
        watched.keep("a.txt", keep).await.unwrap();
        rig.settle(&watched).await.unwrap();
        let expected: &[&[u8]] = match keep {
            Keep::Mine => &[b"ours"],
            Keep::Theirs => &[b"theirs"],
            Keep::Both => &[b"ours", b"theirs"],
        };
        let mut left: Vec<_> = rig.there().into_values().collect();
        left.sort();
        assert_eq!(left, expected, "{keep:?}");
        assert_eq!((rig.tree.files(), watched.status().conflicts), (rig.there(), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_without_its_marker_deletes_nothing() {
    let rig = Rig::new(6, GOOD, true);
    rig.tree.writes(&path("a"), b"a");
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    rig.tree.removes(&path("a"));
    rig.tree.set_away(true);
    assert!(rig.settle(&watched).await.is_err());
    assert!(matches!(watched.status().problem, Some(Problem::NoRoot(_))));
    assert_eq!(rig.there().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_loses_nothing_and_says_so() {
    let rig = Rig::new(7, GOOD, true);
    rig.remote.other_writes(&path("a"), "a".as_bytes());
    rig.tree.set_full(true);
    let watched = rig.open().await;
    let error = rig.settle(&watched).await.unwrap_err();
    assert!(error.contains("full"), "{error}");
    assert_eq!(watched.status().problem, Some(Problem::NoSpace));
    assert_eq!(rig.there().len(), 1);
    rig.tree.set_full(false);
    rig.settle(&watched).await.unwrap();
    assert_eq!(rig.tree.file(&path("a")).unwrap(), b"a");
}

#[test]
fn links_that_leave_the_directory_are_recognized() {
    for (at, target, expected) in [
        ("d/link", "../../etc/passwd", true),
        ("link", "/etc/passwd", true),
        ("d/e/link", "x/../../../../y", true),
        ("d/link", "../other", false),
        ("link", "d/../other", false),
    ] {
        assert_eq!(leads_out(&path(at), target), expected, "{at} to {target}");
    }
}

#[tokio::test(start_paused = true)]
async fn paused_uploads_wait() {
    let rig = Rig::new(9, GOOD, true);
    rig.tree.writes(&path("a"), b"a");
    rig.tree.pass(Duration::from_secs(3));
    let watched = rig.open().await;
    watched.set_paused(Some("by you".into()));
    assert_eq!(watched.settle().await, Err(Unsettled::Paused("by you".into())));
    assert_eq!(rig.there().len(), 0);
    watched.set_paused(None);
    rig.settle(&watched).await.unwrap();
    assert_eq!(rig.there().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn excluded_names_are_left_alone_on_both_sides() {
    let rig = Rig::new(10, GOOD, true);
    rig.tree.writes(&path("x.tmp"), b"here");
    rig.remote.other_writes(&path("y.tmp"), "there".as_bytes());
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    assert_eq!((rig.there().len(), rig.tree.files().len()), (1, 1));
}
