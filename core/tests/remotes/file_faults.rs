//! The remote of a directory among crashes, other programs, and limits.

use crate::file::{DEVICE, options, remote};
use crate::{path, put};
use holdall_core::store::StoreError;
use holdall_core::store::pace::{Direction, Pacer};
use holdall_core::store::remote::file::{FileRemote, Options};
use holdall_core::store::remote::{Condition, PageToken, Remote, RemoteError, RemotePath};
use rustix::fs::FlockOperation;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
    assert_eq!(names("d"), [theirs]);
    // What another device has under way is no reason to remove a directory.
    let kept = remote.remove_directory(&path("d")).await;
    assert_eq!(kept, Err(RemoteError::NotEmpty(path("d"))));
}

/// The number of the other program's save that the file consists of, or is based on.
fn base(content: &str) -> u32 {
    content.rsplit_once(' ').and_then(|(_, number)| number.parse().ok()).unwrap()
}

/// Another program saves a file again and again, by a new file and a rename. Each upload is based on one save, and says which: what was
/// saved since then must not be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_save_of_another_program_is_lost_in_a_race() {
    // Many saves a second need a directory in memory.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let remote = FileRemote::open(dir.path(), options(None)).await.unwrap();
    let at = dir.path().join("a");
    std::fs::write(&at, "theirs 0").unwrap();
    let ends = AtomicBool::new(false);
    let (mut won, mut lost) = (0, 0);
    let last = std::thread::scope(|scope| {
        let saving = scope.spawn(|| {
            let new = dir.path().join("new");
            let mut number = 0_u32;
            while !ends.load(Relaxed) {
                number += 1;
                std::fs::write(&new, format!("theirs {number}")).unwrap();
                std::fs::rename(&new, &at).unwrap();
                std::thread::sleep(Duration::from_micros(u64::from(number % 20) * 100));
                // An upload that comes too late may be seen for a moment.
                let is_kept = || base(&std::fs::read_to_string(&at).unwrap()) == number;
                let waits = (0..100).find(|_| {
                    is_kept() || {
                        std::thread::sleep(Duration::from_millis(1));
                        false
                    }
                });
                assert!(
                    waits.is_some(),
                    "save {number} was replaced by a file that is based on an earlier one"
                );
            }
            number
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for _ in 0..2000 {
                    let version = remote.stat(&path("a")).await.unwrap().version;
                    let Ok(read) = remote.read(&path("a"), &version, 0..version.len).await else { continue };
                    let body = format!("ours on {}", base(std::str::from_utf8(&read).unwrap()));
                    match put(&remote, "a", body.as_bytes(), Condition::Matches(version)).await {
                        Ok(_) => won += 1,
                        Err(RemoteError::Changed(_)) => lost += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        });
        ends.store(true, Relaxed);
        saving.join().unwrap()
    });
    assert!(won > 0 && lost > 0, "there was a race: {won} won, {lost} lost, {last} saves");
    assert_eq!(base(&std::fs::read_to_string(&at).unwrap()), last);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"], "nothing is left beside it");
}

#[tokio::test]
async fn a_bandwidth_limit_applies_to_uploads_and_not_to_refused_ones() {
    let (dir, _) = remote().await;
    let pacer = Pacer::new();
    let options = Options { pacer: pacer.clone(), ..options(None) };
    let remote = FileRemote::open(&dir.path().join("root"), options).await.unwrap();
    pacer.set(Direction::Up, Some(1 << 20));
    let begun = Instant::now();
    put(&remote, "a", &[7; 512 << 10], Condition::Absent).await.unwrap();
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(put(&remote, "a", &[7; 4 << 20], Condition::Absent).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(2), "nothing of the limit is spent on it");
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
