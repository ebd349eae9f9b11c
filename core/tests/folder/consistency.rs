//! Living with the remote's other users, and with a remote that fails.

use crate::rig::{READS, Rig, path};
use holdall_core::folder::Ino;
use holdall_core::folder::api::FolderError;
use holdall_core::folder::outbox::Keep;
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits, Request};
use std::time::Duration;

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_there_is_seen_at_the_next_open() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), b"old".to_vec());
    let open = rig.open().await;
    assert_eq!(open.read("f").await.unwrap(), b"old");
    rig.remote.other_writes(&path("f"), b"newer".to_vec());
    wait(6).await;
    assert_eq!(open.read("f").await.unwrap(), b"newer");
}

#[tokio::test(start_paused = true)]
async fn an_open_file_keeps_its_version_to_the_end() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), vec![1; 10_000]);
    let open = rig.open().await;
    let old = open.ino("f").await.unwrap();
    let handle = open.open("f", READS).await.unwrap();
    assert_eq!(open.read_handle(handle).await.unwrap(), vec![1; 10_000]);
    rig.remote.other_writes(&path("f"), vec![2; 20_000]);
    wait(6).await;
    assert_eq!(open.read("f").await.unwrap(), vec![2; 20_000]);
    assert_ne!(open.ino("f").await.unwrap(), old, "the name has another inode");
    assert_eq!(open.read_handle(handle).await.unwrap(), vec![1; 10_000]);
    open.folder.release(handle);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_is_stale_and_never_mixed() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), vec![1; 3_000_000]);
    let open = rig.open().await;
    let handle = open.open("f", READS).await.unwrap();
    open.folder.read(handle, 0, 4096).await.unwrap();
    rig.remote.other_writes(&path("f"), vec![2; 3_000_000]);
    let read = open.folder.read(handle, 2_900_000, 4096).await.map(|_| ());
    assert_eq!(read, Err(FolderError::Stale));
    open.folder.release(handle);
    wait(6).await;
    assert_eq!(open.read("f").await.unwrap(), vec![2; 3_000_000]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_there_is_seen_here_and_a_failing_listing_deletes_nothing() {
    let rig = Rig::new(7, RemoteHabits { page_entries: 1, ..RemoteHabits::GOOD });
    for name in ["a", "b", "c"] {
        rig.remote.other_writes(&path(name), b"x".to_vec());
    }
    let open = rig.open().await;
    assert_eq!(open.list("").await.unwrap().len(), 3);
    rig.remote.other_removes(&path("a"));
    for faults in [
        RemoteFaults { cut: 1000, ..RemoteFaults::default() },
        RemoteFaults { login_page: 1000, ..RemoteFaults::default() },
        RemoteFaults { denied: 1000, ..RemoteFaults::default() },
    ] {
        rig.remote.set_faults(faults);
        wait(10).await;
        assert_eq!(open.list("").await.unwrap().len(), 3, "{faults:?}");
    }
    assert!(open.folder.status().stale_because.is_some());
    rig.remote.set_faults(RemoteFaults::default());
    wait(10).await;
    assert_eq!(open.list("").await.unwrap().len(), 2);
    assert_eq!(open.folder.status().stale_because, None);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_listed_is_an_error_and_not_empty() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("d/f"), b"x".to_vec());
    rig.remote.set_away(true);
    let open = rig.open().await;
    assert!(matches!(open.list("").await, Err(FolderError::Unavailable(_))));
    assert!(matches!(open.write("new", b"x").await, Err(FolderError::Unavailable(_))));
    rig.remote.set_away(false);
    wait(6).await;
    assert_eq!(open.list("d").await.unwrap().len(), 1);
    // From here on it works without the server.
    rig.remote.set_away(true);
    wait(6).await;
    assert_eq!(open.list("d").await.unwrap().len(), 1);
    open.write("d/new", b"written offline").await.unwrap();
    assert_eq!(open.read("d/new").await.unwrap(), b"written offline");
    assert!(matches!(open.read("d/f").await, Err(FolderError::Unavailable(_))));
    rig.remote.set_away(false);
    wait(200).await;
    open.settle().await;
    assert_eq!(rig.file_there("d/new").unwrap(), b"written offline");
}

#[tokio::test(start_paused = true)]
async fn many_deletions_are_held_until_a_person_has_decided() {
    for accepts in [true, false] {
        let rig = Rig::good();
        for at in 0..40 {
            rig.remote.other_writes(&path(&format!("d/f{at}")), format!("content {at}"));
        }
        let open = rig.open().await;
        for at in 0..30 {
            assert_eq!(open.read(&format!("d/f{at}")).await.unwrap(), format!("content {at}").into_bytes());
        }
        rig.remote.other_removes(&path("d"));
        rig.remote.other_makes_directory(&path("d"));
        wait(10).await;
        assert_eq!(open.list("d").await.unwrap().len(), 40, "they stay");
        wait(200).await;
        let held = open.folder.held();
        assert_eq!((held.count, held.paths.len()), (40, 20));
        open.folder.close().await.unwrap();
        drop(open);
        let open = rig.open().await;
        assert_eq!(open.folder.held().count, 40, "it is remembered");
        if accepts {
            assert_eq!(open.folder.accept_deletions().await.unwrap(), 40);
            assert_eq!(open.list("d").await.unwrap(), []);
        } else {
            assert_eq!(open.folder.restore_deletions().await.unwrap(), (30, 10));
            open.settle().await;
            assert_eq!(rig.there().len(), 31);
            assert_eq!(rig.file_there("d/f3").unwrap(), b"content 3");
            assert_eq!(open.list("d").await.unwrap().len(), 30);
        }
        assert_eq!(open.folder.held().count, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_emptied_remote_deletes_nothing_by_itself() {
    an_emptied_remote().await;
}

pub async fn an_emptied_remote() {
    let rig = Rig::good();
    for at in 0..30 {
        rig.remote.other_writes(&path(&format!("f{at}")), b"x".to_vec());
    }
    let open = rig.open().await;
    assert_eq!(open.list("").await.unwrap().len(), 30);
    for at in 0..30 {
        rig.remote.other_removes(&path(&format!("f{at}")));
    }
    wait(10).await;
    assert_eq!(open.list("").await.unwrap().len(), 30);
    assert_eq!(open.folder.held().count, 30);
    // The server's administrator has found the backup.
    for at in 0..30 {
        rig.remote.other_writes(&path(&format!("f{at}")), b"x".to_vec());
    }
    wait(10).await;
    assert_eq!(open.list("").await.unwrap().len(), 30);
    assert_eq!(open.folder.held().count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_a_program_has_mapped_is_not_uploaded() {
    a_mapped_file().await;
}

pub async fn a_mapped_file() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.write("f", b"half").await.unwrap();
    let local = format!("files/here-{}", open.ino("f").await.unwrap());
    rig.disk.set_mapped(&local, true);
    wait(30).await;
    assert_eq!(rig.there().len(), 0);
    assert_eq!(open.folder.outbox().queue(1).in_use, 1);
    rig.disk.set_mapped(&local, false);
    wait(100).await;
    assert_eq!(rig.file_there("f").unwrap(), b"half");
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_after_a_save_leaves_the_old_file_or_the_whole_new_one() {
    for seed in 0..20 {
        a_save_that_is_cut_off(seed).await;
    }
}

pub async fn a_save_that_is_cut_off(seed: u64) {
    let rig = Rig::new(seed, RemoteHabits::GOOD);
    let open = rig.open().await;
    open.write_durably("text", b"old").await.unwrap();
    open.write("text.new", &[7; 20_000]).await.unwrap();
    open.rename("text.new", "text").await.unwrap();
    if seed.is_multiple_of(2) {
        open.folder.sync_directory(Ino::ROOT).await.unwrap();
    }
    rig.disk.power_cut();
    drop(open);
    let open = rig.open().await;
    let text = open.read("text").await.unwrap();
    assert!(text == b"old" || text == [7; 20_000], "{} bytes", text.len());
}

#[tokio::test(start_paused = true)]
async fn two_writers_never_both_win_and_both_versions_are_kept_once() {
    for habits in [RemoteHabits::GOOD, RemoteHabits { has_conditions: false, ..RemoteHabits::GOOD }] {
        let rig = Rig::new(3, habits);
        rig.remote.other_writes(&path("report.txt"), b"base".to_vec());
        let open = rig.open().await;
        assert_eq!(open.read("report.txt").await.unwrap(), b"base");
        open.write("report.txt", b"mine").await.unwrap();
        rig.remote.other_writes(&path("report.txt"), b"theirs".to_vec());
        open.settle().await;
        wait(100).await;
        open.settle().await;
        let there = rig.there();
        assert_eq!(there["report.txt"].as_deref(), Some(&b"theirs"[..]));
        assert_eq!(there.len(), 2, "{there:?}");
        let (kept, bytes) = there.iter().find(|(name, _)| *name != "report.txt").unwrap();
        assert!(kept.starts_with("report (conflict, laptop, ") && kept.ends_with(").txt"), "{kept}");
        assert_eq!(bytes.as_deref(), Some(&b"mine"[..]));
        let conflicts = open.folder.outbox().conflicts();
        assert_eq!(conflicts.len(), 1);
        assert_eq!((&*conflicts[0].path, &conflicts[0].kept_as), ("report.txt", kept));
        assert_eq!(open.read("report.txt").await.unwrap(), b"theirs");
        assert_eq!(open.read(kept).await.unwrap(), b"mine");
        open.folder.outbox().keep("report.txt", Keep::Mine).await.unwrap();
        open.settle().await;
        wait(10).await;
        assert_eq!(open.folder.outbox().conflicts(), []);
        assert_eq!(open.read("report.txt").await.unwrap(), b"mine");
        assert_eq!(rig.there().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_edited_here_and_deleted_there_is_uploaded_again() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("d/f"), b"base".to_vec());
    let open = rig.open().await;
    open.write("d/f", b"edited").await.unwrap();
    rig.remote.other_removes(&path("d"));
    open.settle().await;
    assert_eq!(rig.file_there("d/f").unwrap(), b"edited");
    assert_eq!(open.folder.outbox().conflicts(), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_here_and_changed_there_stays() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), b"base".to_vec());
    let open = rig.open().await;
    open.list("").await.unwrap();
    open.unlink("f").await.unwrap();
    rig.remote.other_writes(&path("f"), b"changed".to_vec());
    open.settle().await;
    wait(10).await;
    assert_eq!(open.read("f").await.unwrap(), b"changed");
}

#[tokio::test(start_paused = true)]
async fn a_directory_with_something_new_in_it_is_not_removed() {
    let rig = Rig::good();
    rig.remote.other_makes_directory(&path("d"));
    let open = rig.open().await;
    assert_eq!(open.list("d").await.unwrap(), []);
    open.rmdir("d").await.unwrap();
    rig.remote.other_writes(&path("d/new"), b"x".to_vec());
    open.settle().await;
    wait(10).await;
    assert_eq!(rig.file_there("d/new").unwrap(), b"x");
    assert_eq!(open.read("d/new").await.unwrap(), b"x");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_a_failed_listing_missed_is_looked_for_again() {
    let rig = Rig::new(7, RemoteHabits { root_tag_tells: true, page_entries: 1, ..RemoteHabits::GOOD });
    rig.remote.other_writes(&path("d/f"), b"old".to_vec());
    let open = rig.open().await;
    assert_eq!(open.list("d").await.unwrap().len(), 1);
    wait(70).await;
    rig.remote.other_writes(&path("d/g"), b"new".to_vec());
    // The root's tag is told, and the listings fail.
    rig.remote.set_faults(RemoteFaults { cut: 1000, ..RemoteFaults::default() });
    wait(70).await;
    rig.remote.set_faults(RemoteFaults::default());
    let before = rig.remote.requests(Request::List);
    wait(70).await;
    assert!(rig.remote.requests(Request::List) > before, "nobody has used the folder meanwhile");
    let known = rig.remote.requests(Request::List);
    wait(200).await;
    assert_eq!(rig.remote.requests(Request::List), known, "the tag says that nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_replaced_is_never_missed() {
    let rig = Rig::new(7, RemoteHabits { replaces_at_once: false, ..RemoteHabits::GOOD });
    rig.remote.other_writes(&path("f"), b"old".to_vec());
    let open = rig.open().await;
    for (gap_ms, new) in [(50, b"new".to_vec()), (200, b"newer".to_vec())] {
        wait(6).await;
        assert!(open.read("f").await.is_ok());
        // The server removes the old file, a listing comes, and only then the new one gets the name.
        wait(6).await;
        rig.remote.other_removes(&path("f"));
        for _ in 0..gap_ms {
            assert_eq!(open.list("").await.unwrap().len(), 1, "{gap_ms}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rig.remote.other_writes(&path("f"), new.clone());
        wait(1).await;
        assert_eq!(open.list("").await.unwrap().len(), 1);
        wait(6).await;
        assert_eq!(open.read("f").await.unwrap(), new);
    }
    rig.remote.other_removes(&path("f"));
    wait(6).await;
    open.list("").await.unwrap();
    wait(1).await;
    assert_eq!(open.list("").await.unwrap(), [], "what is gone is gone");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_one_to_the_server_keep_both_files() {
    let rig = Rig::new(7, RemoteHabits { folds_case: true, ..RemoteHabits::GOOD });
    let open = rig.open().await;
    open.write("a", b"small").await.unwrap();
    open.settle().await;
    open.write("A", b"large").await.unwrap();
    open.settle().await;
    wait(10).await;
    open.settle().await;
    let there = rig.there();
    let contents: Vec<_> = there.values().flatten().map(Vec::as_slice).collect();
    assert!(
        contents.len() == 2 && contents.contains(&&b"small"[..]) && contents.contains(&&b"large"[..]),
        "{there:?}"
    );
    assert!(there.keys().any(|name| name.contains("(conflict, ")), "{there:?}");
}
