//! What reaches the remote, whatever goes wrong on the way.

use crate::rig::{NOBODY, Opened, Rig, WRITES, path};
use bytes::Bytes;
use holdall_core::folder::api::FolderError;
use holdall_core::folder::entries::Cookie;
use holdall_core::folder::outbox::{Keep, QueueItem, QueueKind, QueueState, Unsettled};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits, Request};
use holdall_core::store::remote::Kind;
use std::time::Duration;

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn items(open: &Opened) -> Vec<QueueItem> {
    open.folder.outbox().queue(100).items
}

fn faults(change: impl FnOnce(&mut RemoteFaults)) -> RemoteFaults {
    let mut faults = RemoteFaults::default();
    change(&mut faults);
    faults
}

/// Why a settle failed: how many files, the first of them, and the reason.
async fn failure(open: &Opened) -> (u64, String, String) {
    match open.folder.outbox().settle().await {
        Err(Unsettled::Failed { count, path, reason }) => (count, path, reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_change_reaches_the_remote_although_answers_are_lost() {
    for habits in [RemoteHabits::GOOD, RemoteHabits::BUCKET] {
        for (lost, late) in [(1000, 0), (0, 1000), (500, 300)] {
            let rig = Rig::new(5, habits);
            for name in ["moved", "removed", "replaced", "full/old"] {
                rig.remote.other_writes(&path(name), name.as_bytes().to_vec());
            }
            rig.remote.other_makes_directory(&path("empty"));
            let open = rig.open().await;
            open.here().await.unwrap();
            rig.remote.set_faults(faults(|faults| (faults.answer_lost, faults.late) = (lost, late)));
            open.mkdir("made").await.unwrap();
            open.write("made/new", b"new").await.unwrap();
            open.rename("moved", "made/moved").await.unwrap();
            open.unlink("removed").await.unwrap();
            open.rmdir("empty").await.unwrap();
            open.write("temporary", b"whole").await.unwrap();
            open.rename("temporary", "replaced").await.unwrap();
            open.rename("full", "other").await.unwrap();
            wait(20).await;
            rig.remote.deliver_late();
            rig.remote.set_faults(RemoteFaults::default());
            let mut expected = vec!["made", "made/moved", "made/new", "other", "other/old", "replaced"];
            for _ in 0..20 {
                wait(30).await;
                rig.remote.deliver_late();
                let _ = open.folder.outbox().settle().await;
            }
            assert_eq!(items(&open), [], "{lost} {late}");
            assert_eq!(open.folder.outbox().conflicts(), [], "nobody else wrote");
            let there = rig.there();
            let names: Vec<_> = there.keys().map(String::as_str).collect();
            expected.sort_unstable();
            assert_eq!(names, expected, "{lost} {late}");
            assert_eq!(there["replaced"].as_deref(), Some(&b"whole"[..]));
            assert_eq!(there["other/old"].as_deref(), Some(&b"full/old"[..]));
            assert_eq!(open.here().await.unwrap(), there);
            open.folder.close().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_keeps_both_once_and_a_person_decides() {
    for keep in [Keep::Mine, Keep::Theirs, Keep::Both] {
        let rig = Rig::good();
        rig.remote.other_writes(&path("d/f.txt"), &b"old"[..]);
        let open = rig.open().await;
        let handle = open.open("d/f.txt", WRITES).await.unwrap();
        open.folder.write(handle, 0, Bytes::from_static(b"ours!")).await.unwrap();
        rig.remote.other_writes(&path("d/f.txt"), &b"theirs"[..]);
        open.folder.release(handle);
        open.settle().await;
        let conflicts = open.folder.outbox().conflicts();
        let [conflict] = &conflicts[..] else { panic!("{conflicts:?}") };
        assert_eq!((&*conflict.path, conflict.our_len, conflict.their_len), ("d/f.txt", 5, 6));
        assert!(conflict.kept_as.starts_with("d/f (conflict, laptop, "), "{conflict:?}");
        assert!(conflict.kept_as.ends_with(").txt"), "{conflict:?}");
        assert_eq!(rig.file_there("d/f.txt").unwrap(), b"theirs");
        assert_eq!(rig.file_there(&conflict.kept_as).unwrap(), b"ours!");
        // It is known after a restart, too.
        open.folder.close().await.unwrap();
        let open = rig.open().await;
        assert_eq!(open.folder.outbox().conflicts(), conflicts);
        open.here().await.unwrap();
        open.folder.outbox().keep(&conflict.kept_as, keep).await.unwrap();
        assert_eq!(open.folder.outbox().conflicts(), []);
        open.settle().await;
        let there = rig.there();
        match keep {
            Keep::Mine => assert_eq!(there["d/f.txt"].as_deref(), Some(&b"ours!"[..])),
            Keep::Theirs | Keep::Both => assert_eq!(there["d/f.txt"].as_deref(), Some(&b"theirs"[..])),
        }
        assert_eq!(there.contains_key(&conflict.kept_as), keep == Keep::Both, "{keep:?}");
        assert_eq!(open.here().await.unwrap(), there);
        let again = open.folder.outbox().keep("d/f.txt", keep).await;
        assert_eq!(again, Err(FolderError::NotFound), "it is settled");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_from_two_programs_are_no_conflict() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.list("").await.unwrap();
    open.write("f", b"same").await.unwrap();
    rig.remote.other_writes(&path("f"), &b"same"[..]);
    open.settle().await;
    assert_eq!(open.folder.outbox().conflicts(), []);
    assert_eq!(rig.there().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_continues_after_a_restart_where_it_was_cut_off() {
    let rig = Rig::new(3, RemoteHabits::BUCKET);
    let bytes: Vec<u8> = (0..2_000_000u32).map(|at| (at / 7) as u8).collect();
    let parts = bytes.len().div_ceil(64 << 10) as u64;
    let open = rig.open().await;
    rig.remote.set_faults(faults(|faults| faults.time = Duration::from_secs(2)));
    open.write("film", &bytes).await.unwrap();
    while rig.remote.requests(Request::Part) < parts / 2 {
        wait(1).await;
    }
    let item = &items(&open)[0];
    assert_eq!((item.kind, &item.state), (QueueKind::Upload, &QueueState::Uploading));
    assert!(item.sent > 0 && item.sent < item.bytes, "{item:?}");
    let begun = tokio::time::Instant::now();
    open.folder.close().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "closing waits for no server");
    assert_eq!(rig.file_there("film"), None);
    rig.remote.set_faults(RemoteFaults::default());
    let open = rig.open().await;
    open.settle().await;
    assert_eq!(rig.file_there("film").unwrap(), bytes);
    let sent = rig.remote.requests(Request::Part);
    assert!(sent <= parts + 2, "{sent} parts were sent of {parts}");
    assert_eq!(rig.remote.unfinished(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_not_continued_leaves_nothing_at_the_server() {
    let rig = Rig::new(3, RemoteHabits::BUCKET);
    let open = rig.open().await;
    rig.remote.set_faults(faults(|faults| faults.time = Duration::from_secs(2)));
    open.write("film", &[1; 2_000_000]).await.unwrap();
    while rig.remote.requests(Request::Part) < 5 {
        wait(1).await;
    }
    open.folder.close().await.unwrap();
    rig.remote.set_faults(RemoteFaults::default());
    let open = rig.open().await;
    open.folder.outbox().set_paused(Some("test".into()));
    open.write("film", &[2; 1_000_000]).await.unwrap();
    open.folder.outbox().set_paused(None);
    open.settle().await;
    assert_eq!(rig.file_there("film").unwrap(), vec![2; 1_000_000]);
    assert_eq!(rig.remote.unfinished(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_in_use_waits_and_is_told() {
    let rig = Rig::good();
    let open = rig.open().await;
    let handle = open.create("log").await.unwrap();
    open.folder.write(handle, 0, Bytes::from_static(b"line")).await.unwrap();
    wait(100).await;
    assert_eq!(rig.file_there("log"), None);
    let (count, name, reason) = failure(&open).await;
    assert_eq!((count, &*name), (1, "log"));
    assert!(reason.contains("in use"), "{reason}");
    assert_eq!(items(&open)[0].state, QueueState::InUse);
    open.folder.release(handle);
    open.settle().await;
    assert_eq!(rig.file_there("log").unwrap(), b"line");
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_while_uploads_are_paused() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.folder.outbox().set_paused(Some("on battery".into()));
    open.write("f", b"hello").await.unwrap();
    wait(100).await;
    assert_eq!(rig.file_there("f"), None);
    assert_eq!(open.folder.outbox().settle().await, Err(Unsettled::Paused("on battery".into())));
    open.folder.outbox().set_paused(None);
    wait(1).await;
    assert_eq!(rig.file_there("f").unwrap(), b"hello");
}

#[tokio::test(start_paused = true)]
async fn a_full_server_still_takes_removals_and_uploads_continue_then() {
    let rig = Rig::new(1, RemoteHabits { capacity: Some(10_000), ..RemoteHabits::GOOD });
    rig.remote.other_writes(&path("old"), vec![1; 9_000]);
    let open = rig.open().await;
    open.list("").await.unwrap();
    open.write("new", &[2; 5_000]).await.unwrap();
    let (count, name, reason) = failure(&open).await;
    assert_eq!((count, &*name), (1, "new"));
    assert!(reason.contains("quota") && reason.contains("safe on this computer"), "{reason}");
    assert_eq!(open.folder.outbox().queue(9).trouble, Some(reason));
    open.unlink("old").await.unwrap();
    wait(10).await;
    assert_eq!(rig.there().into_keys().collect::<Vec<_>>(), ["new"]);
    assert_eq!(open.folder.outbox().queue(9).trouble, None);
}

#[tokio::test(start_paused = true)]
async fn trouble_of_the_server_costs_few_requests_and_no_file() {
    for (cause, word) in [("away", "reached"), ("login page", "reached"), ("denied", "refused")] {
        let rig = Rig::good();
        let open = rig.open().await;
        open.list("").await.unwrap();
        match cause {
            "away" => rig.remote.set_away(true),
            "login page" => rig.remote.set_login_page(true),
            _ => rig.remote.set_faults(faults(|faults| faults.denied = 1000)),
        }
        for file in 0..50 {
            open.write(&format!("f{file}"), b"hello").await.unwrap();
        }
        let before = rig.remote.requests(Request::Write);
        wait(3600).await;
        let tries = rig.remote.requests(Request::Write) - before;
        assert!((10..=200).contains(&tries), "{cause}: {tries}");
        let queue = open.folder.outbox().queue(5);
        assert_eq!((queue.waiting, queue.failed, queue.items.len()), (50, 0, 5), "{cause}");
        assert!(queue.trouble.is_some_and(|trouble| trouble.contains(word)), "{cause}");
        assert_eq!(failure(&open).await.0, 50, "{cause}");
        rig.remote.set_away(false);
        rig.remote.set_login_page(false);
        rig.remote.set_faults(RemoteFaults::default());
        wait(90).await;
        assert_eq!(rig.there().len(), 50, "{cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_the_server_never_takes_holds_up_no_other() {
    let rig = Rig::new(1, RemoteHabits { len_max: Some(1_000), ..RemoteHabits::GOOD });
    rig.remote.other_writes(&path("old"), vec![1; 900]);
    let open = rig.open().await;
    open.list("").await.unwrap();
    // The limit is checked when a program writes; a file that was longer before is as long.
    rig.remote.other_writes(&path("ours"), vec![1; 900]);
    rig.remote.other_locks(&path("locked"), Some("ann"));
    open.write("locked", b"mine").await.unwrap();
    open.write("f", b"hello").await.unwrap();
    wait(10).await;
    assert_eq!(rig.file_there("f").unwrap(), b"hello");
    let item = &items(&open)[0];
    let QueueState::Failed { reason, again_ms: Some(_) } = &item.state else { panic!("{item:?}") };
    assert!(reason.contains("locked by ann") && reason.contains("safe"), "{reason}");
    assert_eq!(failure(&open).await.1, "locked");
    assert_eq!(open.folder.outbox().conflicts(), []);
    rig.remote.other_locks(&path("locked"), None);
    wait(90).await;
    assert_eq!(rig.file_there("locked").unwrap(), b"mine");
    assert_eq!(items(&open), []);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_stays_locked_is_taken_back_and_told() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), &b"hello"[..]);
    let open = rig.open().await;
    open.list("").await.unwrap();
    rig.remote.other_locks(&path("f"), Some("ann"));
    open.unlink("f").await.unwrap();
    assert_eq!(open.list("").await.unwrap(), []);
    wait(3600).await;
    assert_eq!(open.list("").await.unwrap(), [("f".to_owned(), Kind::File)]);
    let queue = open.folder.outbox().queue(9);
    let [QueueItem { path: name, kind: QueueKind::Remove, state: QueueState::Failed { reason, .. }, .. }] =
        &queue.items[..]
    else {
        panic!("{queue:?}")
    };
    assert!(name == "f" && reason.contains("is back"), "{queue:?}");
    assert_eq!(failure(&open).await.1, "f");
    open.settle().await;
    assert_eq!(items(&open), [], "it was told");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_vanished_there_is_made_again_for_what_was_changed_in_it() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("a/b/f"), &b"old"[..]);
    rig.remote.other_writes(&path("a/b/g"), &b"other"[..]);
    let open = rig.open().await;
    open.here().await.unwrap();
    let handle = open.open("a/b/f", WRITES).await.unwrap();
    open.folder.write(handle, 0, Bytes::from_static(b"new")).await.unwrap();
    rig.remote.other_removes(&path("a"));
    open.folder.release(handle);
    open.settle().await;
    assert_eq!(rig.there().into_keys().collect::<Vec<_>>(), ["a", "a/b", "a/b/f"]);
    assert_eq!(rig.file_there("a/b/f").unwrap(), b"new");
    assert_eq!(open.folder.outbox().conflicts(), []);
}

#[tokio::test(start_paused = true)]
async fn a_directory_moves_also_where_the_server_moves_only_files() {
    let rig = Rig::new(1, RemoteHabits::BUCKET);
    for file in ["a/f", "a/deep/g", "a/deep/h", "a/gone"] {
        rig.remote.other_writes(&path(file), file.as_bytes().to_vec());
    }
    rig.remote.other_makes_directory(&path("a/empty"));
    let open = rig.open().await;
    open.here().await.unwrap();
    open.unlink("a/gone").await.unwrap();
    open.write("a/new", b"new").await.unwrap();
    open.rename("a", "b").await.unwrap();
    let names = ["b", "b/deep", "b/deep/g", "b/deep/h", "b/empty", "b/f", "b/new"];
    assert_eq!(open.here().await.unwrap().into_keys().collect::<Vec<_>>(), names);
    open.settle().await;
    assert_eq!(rig.there().into_keys().collect::<Vec<_>>(), names);
    assert_eq!(rig.file_there("b/deep/g").unwrap(), b"a/deep/g");
    assert_eq!(rig.remote.requests(Request::Write), 1, "no bytes were sent again");
    assert_eq!(open.here().await.unwrap(), rig.there());
    open.folder.close().await.unwrap();
    let open = rig.open().await;
    assert_eq!(open.here().await.unwrap(), rig.there());
}

#[tokio::test(start_paused = true)]
async fn times_and_modes_that_the_server_does_not_keep_stay_here() {
    let rig = Rig::new(1, RemoteHabits { keeps_mtime: false, keeps_meta: false, ..RemoteHabits::GOOD });
    let open = rig.open().await;
    open.write("f", b"hello").await.unwrap();
    let ino = open.ino("f").await.unwrap();
    open.folder.set_xattr(ino, "user.tag", b"red", None, NOBODY).await.unwrap();
    let before = open.folder.attributes(ino).await.unwrap();
    open.settle().await;
    wait(1).await;
    let after = open.folder.attributes(ino).await.unwrap();
    assert_eq!((after.mtime, after.mode), (before.mtime, before.mode));
    assert_eq!(open.folder.xattr(ino, "user.tag").await.unwrap(), b"red");
    assert_eq!(rig.remote.requests(Request::SetMeta), 0);
    assert_eq!(rig.remote.requests(Request::Write), 1);
}

#[tokio::test(start_paused = true)]
async fn small_files_go_before_large_ones_that_were_closed_just_before() {
    let rig = Rig::new(1, RemoteHabits { part_bytes: Some(64 << 10), ..RemoteHabits::GOOD });
    let open = rig.open().await;
    rig.remote.set_faults(faults(|faults| faults.time = Duration::from_millis(200)));
    open.folder.outbox().set_paused(Some("test".into()));
    for large in 0..12 {
        open.write(&format!("large{large}"), &vec![large; 3_000_000]).await.unwrap();
    }
    open.write("small", b"hello").await.unwrap();
    wait(5).await;
    open.folder.outbox().set_paused(None);
    wait(1).await;
    assert_eq!(rig.file_there("small").unwrap(), b"hello");
    assert!(rig.there().len() < 4, "{:?}", rig.there().keys());
    open.settle().await;
    assert_eq!(rig.there().len(), 13);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_opened_during_its_upload_is_uploaded_again() {
    let rig = Rig::new(1, RemoteHabits { part_bytes: Some(64 << 10), ..RemoteHabits::GOOD });
    let open = rig.open().await;
    rig.remote.set_faults(faults(|faults| faults.time = Duration::from_secs(2)));
    for bytes in [1_000_000, 20 << 20] {
        open.write("f", &vec![1; bytes]).await.unwrap();
        let before = rig.remote.requests(Request::Part);
        while rig.remote.requests(Request::Part) < before + 3 {
            wait(1).await;
        }
        let handle = open.open("f", WRITES).await.unwrap();
        open.folder.write(handle, 0, Bytes::from_static(b"later")).await.unwrap();
        wait(60).await;
        open.folder.release(handle);
        rig.remote.set_faults(RemoteFaults::default());
        open.settle().await;
        let mut expected = vec![1; bytes];
        expected[..5].copy_from_slice(b"later");
        assert!(rig.file_there("f").unwrap() == expected, "{bytes} bytes");
        assert_eq!(open.folder.outbox().conflicts(), []);
        rig.remote.set_faults(faults(|faults| faults.time = Duration::from_secs(2)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_many_files_moves_in_one_step_where_only_files_move() {
    const FILES: usize = 10_500;
    let rig = Rig::new(23, RemoteHabits { page_entries: 5_000, ..RemoteHabits::BUCKET });
    for number in 0..FILES {
        rig.remote.other_writes(&path(&format!("old/{number}")), &b"x"[..]);
    }
    let open = rig.open().await;
    open.rename("old", "new").await.unwrap();
    let mut waits = 0;
    let differ = || {
        let queue = open.folder.outbox().queue(0);
        queue.waiting + queue.uploading
    };
    while differ() < FILES as u64 / 2 {
        waits += 1;
        assert!(waits < 10_000, "the directory is divided");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The daemon is killed as soon as the log knows.
    rig.disk.kill();
    drop(open);
    let open = rig.open().await;
    let names: Vec<_> = open.list("").await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["new"]);
    let directory = open.ino("new").await.unwrap();
    let listed = open.folder.read_directory(directory, Cookie::START, 2 * FILES).await.unwrap();
    assert_eq!(listed.len(), FILES);
}
