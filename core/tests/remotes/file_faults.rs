//! The remote of a directory among crashes, other programs, and limits.

use crate::file::{DEVICE, options, remote};
use crate::{path, put};
use holdall_core::store::StoreError;
use holdall_core::store::remote::file::FileRemote;
use holdall_core::store::remote::{Condition, PageToken, Remote, RemoteError, RemotePath};
use rustix::fs::FlockOperation;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

#[tokio::test]
async fn sweeps_its_own_leftovers_and_nobody_elses() {
    let (dir, remote) = remote().await;
    let root = dir.path().join("root");
    std::fs::create_dir(root.join("d")).unwrap();
    let own = |number: u32| format!(".holdall-upload-{}-{number}", DEVICE.simple());
    let theirs = ".holdall-upload-00000000000000000000000000000008-1".to_owned();
    for directory in ["", "d/"] {
        for name in [own(1), own(2), theirs.clone()] {
            std::fs::write(root.join(format!("{directory}{name}")), "left").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", root.join(format!("{directory}{}", own(3)))).unwrap();
    }
    // One is under way, in a process of this device.
    let under_way = std::fs::File::open(root.join(format!("d/{}", own(2)))).unwrap();
    rustix::fs::flock(&under_way, FlockOperation::LockExclusive).unwrap();
    let names = |directory: &str| {
        let entries = std::fs::read_dir(root.join(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let again = FileRemote::open(&root, options(None)).await.unwrap();
    assert_eq!(names(""), [theirs.clone(), "d".into()], "an opening sweeps the root");
    assert_eq!(names("d").len(), 4, "and looks no further");
    assert!(again.list(&path("d"), None).await.unwrap().entries.is_empty());
    assert_eq!(names("d"), [own(2), theirs.clone()]);
    drop(under_way);
    remote.abandon(&path("d/a"), b"").await.unwrap();
    assert_eq!(names("d"), [theirs.clone()]);
    // What another device has under way is no reason to remove a directory.
    let kept = remote.remove_directory(&path("d")).await;
    assert_eq!(kept, Err(RemoteError::NotEmpty(path("d"))));
}

/// Another program saves a file again and again, by a new file and a rename, and expects to find what it saved last, until it is told that
/// the file was changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_save_of_another_program_is_lost_in_a_race() {
    let (dir, remote) = remote().await;
    let root = dir.path().join("root");
    std::fs::write(root.join("a"), "0").unwrap();
    let ends = AtomicBool::new(false);
    let (mut won, mut lost, mut saves) = (Vec::new(), 0, 0_u32);
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| {
            let mut number = 0_u32;
            while !ends.load(Relaxed) {
                number += 1;
                std::fs::write(root.join("new"), format!("theirs {number}")).unwrap();
                std::fs::rename(root.join("new"), root.join("a")).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
            number
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for number in 0..300 {
                    let version = remote.stat(&path("a")).await.unwrap().version;
                    let body = format!("ours {number}");
                    match put(&remote, "a", body.as_bytes(), Condition::Matches(version.clone())).await {
                        Ok(entry) => won.push((version, entry.version)),
                        Err(RemoteError::Changed(_)) => lost += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        });
        ends.store(true, Relaxed);
        saves = saving.join().unwrap();
    });
    assert!(lost > 0 && saves > 10, "there was a race: {} won, {lost} lost, {saves} saves", won.len());
    // The last to save is there, whoever it was, and nothing is left beside it.
    let last = std::fs::read_to_string(root.join("a")).unwrap();
    let version = remote.stat(&path("a")).await.unwrap().version;
    let is_ours = won.last().is_some_and(|(_, after)| *after == version);
    assert!(
        is_ours && last.starts_with("ours") || last == format!("theirs {saves}"),
        "{last} after {saves} saves"
    );
    let names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
}

#[tokio::test]
async fn a_listing_that_is_not_continued_begins_again() {
    let (dir, remote) = remote().await;
    let root = dir.path().join("root");
    for number in 0..2500 {
        std::fs::write(root.join(format!("{number}")), "").unwrap();
    }
    let list = async |token: Option<&PageToken>| remote.list(&RemotePath::root(), token).await;
    let first = list(None).await.unwrap().next.unwrap();
    let second = list(Some(&first)).await.unwrap().next.unwrap();
    let again = list(Some(&first)).await;
    assert!(matches!(again, Err(RemoteError::Store(StoreError::Unreachable { .. }))), "a token is good once");
    assert!(list(Some(&second)).await.unwrap().next.is_none());
    // Of very many listings, the oldest ends.
    let oldest = list(None).await.unwrap().next.unwrap();
    for _ in 0..64 {
        list(None).await.unwrap();
    }
    assert!(list(Some(&oldest)).await.is_err());
    let strange = PageToken("x".into());
    assert!(list(Some(&strange)).await.is_err());
}

#[tokio::test]
async fn a_directory_that_is_removed_during_its_listing_is_not_found() {
    let (dir, remote) = remote().await;
    let inner = dir.path().join("root/d");
    std::fs::create_dir(&inner).unwrap();
    for number in 0..1500 {
        std::fs::write(inner.join(format!("{number}")), "").unwrap();
    }
    let token = remote.list(&path("d"), None).await.unwrap().next.unwrap();
    std::fs::remove_dir_all(&inner).unwrap();
    let rest = remote.list(&path("d"), Some(&token)).await;
    assert!(matches!(rest, Err(RemoteError::NotFound(_))), "never the end of a complete listing: {rest:?}");
}
