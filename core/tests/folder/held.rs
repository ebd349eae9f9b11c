//! Deletions at the remote that are held: what a person's word does, and what happens on the way to it.

use crate::rig::{Opened, Rig, path};
use holdall_core::folder::api::FolderError;
use holdall_core::sim::disk::DiskFaults;
use holdall_core::sim::remote::RemoteHabits;
use std::time::Duration;

/// Files below `d`, some of them a directory deeper.
fn name(file: usize) -> String {
    if file.is_multiple_of(3) { format!("d/deep/f{file}") } else { format!("d/f{file}") }
}

fn content(file: usize) -> Vec<u8> {
    format!("content {file}").repeat(1 + file * 300).into_bytes()
}

const FILES: usize = 30;

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A folder all of whose files were read, and removed at the remote since.
async fn with_held_files(rig: &Rig) -> Opened {
    for file in 0..FILES {
        rig.remote.other_writes(&path(&name(file)), content(file));
    }
    rig.remote.other_writes(&path("other"), b"stays".to_vec());
    let open = rig.open().await;
    for file in 0..FILES {
        assert_eq!(open.read(&name(file)).await.unwrap(), content(file));
    }
    // What was just pulled is durable.
    wait(30).await;
    rig.remote.other_removes(&path("d"));
    wait(10).await;
    open.list("").await.unwrap();
    wait(1).await;
    assert_eq!(open.folder.held().count, FILES as u64);
    open
}

fn check_all_there(rig: &Rig, what: &str) {
    for file in 0..FILES {
        assert!(rig.file_there(&name(file)) == Some(content(file)), "{what}: {}", name(file));
    }
    assert_eq!(rig.there().len(), FILES + 3, "{what}");
}

/// All that runs ends with it, as in a process that is killed.
fn in_a_process(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work);
}

#[test]
fn a_restore_that_is_cut_off_anywhere_is_repeated_and_restores_all() {
    for seed in 0..8 {
        let rig = Rig::new(seed, RemoteHabits::GOOD);
        in_a_process(cut_off(&rig, Duration::from_millis(seed * 200), seed % 4 == 3));
        in_a_process(repeated(&rig, &format!("seed {seed}")));
    }
}

async fn cut_off(rig: &Rig, after: Duration, is_cut: bool) {
    let open = with_held_files(rig).await;
    rig.disk.set_faults(DiskFaults { sync_time: Duration::from_millis(20), ..DiskFaults::default() });
    let _ = tokio::time::timeout(after, open.folder.restore_deletions()).await;
    if is_cut {
        rig.disk.power_cut()
    } else {
        rig.disk.kill()
    }
    rig.disk.set_faults(DiskFaults::default());
}

async fn repeated(rig: &Rig, what: &str) {
    let open = rig.open().await;
    assert_eq!(open.folder.recovered().lost, Vec::<String>::new(), "{what}");
    // What was restored is uploaded meanwhile, and its directories are listed again.
    wait(20).await;
    let _ = open.here().await;
    let (_, lost) = open.folder.restore_deletions().await.unwrap();
    assert_eq!(lost, 0, "{what}");
    wait(1).await;
    open.settle().await;
    check_all_there(rig, what);
    wait(10).await;
    assert_eq!(open.here().await.unwrap(), rig.there(), "{what}");
    assert_eq!(open.folder.held().count, 0, "{what}");
    assert_eq!(open.folder.outbox().conflicts(), []);
    open.folder.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restore_without_space_loses_nothing_and_is_repeated() {
    let rig = Rig::good();
    let open = with_held_files(&rig).await;
    for free in [0, 20_000, 100_000, 400_000] {
        rig.disk.set_free(free);
        let restored = open.folder.restore_deletions().await;
        assert_eq!(restored, Err(FolderError::NoSpace), "{free} bytes are free");
        wait(40).await;
    }
    rig.disk.set_free(u64::MAX);
    let (_, lost) = open.folder.restore_deletions().await.unwrap();
    assert_eq!(lost, 0);
    open.settle().await;
    check_all_there(&rig, "afterwards");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_removed_here_while_it_was_held_is_not_restored() {
    let rig = Rig::good();
    let open = with_held_files(&rig).await;
    open.folder.outbox().set_paused(Some("test".into()));
    open.unlink("d/f1").await.unwrap();
    open.rename("d/f2", "moved").await.unwrap();
    assert_eq!(open.folder.restore_deletions().await.unwrap(), (FILES as u64 - 1, 0));
    open.folder.outbox().set_paused(None);
    open.settle().await;
    let there = rig.there();
    assert_eq!(there.get("d/f1"), None);
    assert_eq!(there["moved"], Some(content(2)));
    assert_eq!(there.len(), FILES + 2);
}

#[tokio::test(start_paused = true)]
async fn only_what_was_shown_is_accepted() {
    let rig = Rig::good();
    for file in 0..100 {
        rig.remote.other_writes(&path(&format!("d/f{file}")), b"x".to_vec());
    }
    let open = rig.open().await;
    assert_eq!(open.list("d").await.unwrap().len(), 100);
    for file in 0..40 {
        rig.remote.other_removes(&path(&format!("d/f{file}")));
    }
    wait(10).await;
    assert_eq!(open.list("d").await.unwrap().len(), 100);
    wait(1).await;
    assert_eq!(open.folder.held().count, 40);
    for file in 40..70 {
        rig.remote.other_removes(&path(&format!("d/f{file}")));
    }
    assert_eq!(open.folder.accept_deletions().await.unwrap(), 40);
    assert_eq!(open.folder.held().count, 30, "nobody was asked about these");
    assert_eq!(open.list("d").await.unwrap().len(), 60);
    assert_eq!(open.folder.accept_deletions().await.unwrap(), 30);
    assert_eq!(open.list("d").await.unwrap().len(), 30);
}

#[tokio::test(start_paused = true)]
async fn held_files_are_not_evicted() {
    for restarts in [false, true] {
        let mut rig = Rig::good();
        rig.cache_bytes = 4 << 20;
        for file in 0..20 {
            rig.remote.other_writes(&path(&format!("large/f{file}")), vec![file; 1 << 20]);
        }
        let mut open = with_held_files(&rig).await;
        if restarts {
            open.folder.close().await.unwrap();
            drop(open);
            open = rig.open().await;
        }
        for file in 0..20 {
            assert_eq!(open.read(&format!("large/f{file}")).await.unwrap(), vec![file; 1 << 20]);
            wait(2).await;
        }
        assert!(open.folder.status().cached_bytes < 6 << 20, "others were evicted");
        assert_eq!(open.folder.restore_deletions().await.unwrap(), (FILES as u64, 0), "{restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_saved_in_a_directory_that_was_emptied_there_deletes_nothing_here() {
    let rig = Rig::good();
    let open = with_held_files(&rig).await;
    open.write("d/new", b"new").await.unwrap();
    open.settle().await;
    wait(20).await;
    let _ = open.here().await;
    wait(20).await;
    assert_eq!(
        open.list("d").await.unwrap().len(),
        22,
        "the directory was made again, and is not believed to be empty"
    );
    let (restored, lost) = open.folder.restore_deletions().await.unwrap();
    assert_eq!((restored, lost), (FILES as u64, 0));
    open.settle().await;
    assert_eq!(rig.there().len(), FILES + 4);
}
