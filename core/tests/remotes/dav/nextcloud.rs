//! Uploads in chunks.

use super::tree::Tree;
use crate::{Notes, path, put, resume};
use holdall_core::store::StoreError;
use holdall_core::store::remote::{Condition, Remote, RemoteError};
use holdall_servers::fake::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const LEN: usize = (25 << 20) + 7;

fn body(seed: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at >> 9) as u8 ^ seed).collect()
}

fn count(tree: &Tree, since: usize, verb: &str) -> usize {
    tree.requests(since).iter().filter(|request| request.starts_with(verb)).count()
}

/// Lets `most` chunks through, and then refuses all.
fn refuse_after(tree: &Tree, most: usize) {
    let chunks = AtomicUsize::new(0);
    tree.answer(move |asked| {
        let is_chunk = asked.method == "PUT" && asked.path.contains("/uploads/");
        (is_chunk && chunks.fetch_add(1, Relaxed) >= most).then(|| Reply::status(503))
    });
}

#[tokio::test]
async fn large_files_go_in_chunks_and_small_ones_do_not() {
    let tree = Tree::with_chunks();
    let remote = tree.open().await;
    let since = tree.fake.asked().len();
    let first = put(&remote, "large", &body(1), Condition::Absent).await.unwrap().version;
    assert_eq!((count(&tree, since, "PUT"), count(&tree, since, "MOVE")), (3, 1));
    let asked = tree.fake.asked();
    let chunks = asked.iter().filter(|asked| asked.path.contains("/uploads/") && asked.method == "PUT");
    for asked in chunks {
        let target = format!("{}large", tree.url());
        assert_eq!(asked.destination.as_ref(), Some(&target));
        assert_eq!(asked.header("oc-total-length"), Some(&*LEN.to_string()));
    }
    let second = put(&remote, "large", &body(2), Condition::Matches(first.clone())).await.unwrap().version;
    for when in [Condition::Absent, Condition::Matches(first)] {
        assert_eq!(put(&remote, "large", &body(3), when).await, Err(RemoteError::Changed(path("large"))));
    }
    assert!(tree.file("large").unwrap() == body(2));
    assert_eq!(remote.stat(&path("large")).await.unwrap().version, second);
    let since = tree.fake.asked().len();
    put(&remote, "small", &[7; 1 << 20], Condition::Absent).await.unwrap();
    assert_eq!((count(&tree, since, "PUT"), count(&tree, since, "MOVE")), (1, 0));
    assert!(tree.left().is_empty());
}

#[tokio::test]
async fn a_server_without_chunks_gets_whole_files() {
    let tree = Tree::start();
    let remote = tree.open().await;
    let since = tree.fake.asked().len();
    put(&remote, "large", &body(1), Condition::Absent).await.unwrap();
    assert_eq!((count(&tree, since, "PUT"), count(&tree, since, "MKCOL")), (1, 0));
}

#[tokio::test]
async fn an_upload_continues_where_it_was_cut_off() {
    let tree = Tree::with_chunks();
    let (notes, bytes) = (Notes::default(), body(1));
    refuse_after(&tree, 2);
    let cut = resume(&tree.open().await, "a", &bytes, Condition::Absent, None, &notes).await;
    assert!(matches!(cut, Err(RemoteError::Store(StoreError::Busy { .. }))), "{cut:?}");
    assert_eq!(tree.file("a"), None, "an upload that is not complete is no file");
    tree.be_good();
    let last = notes.0.lock().last().cloned().unwrap();
    // After a restart.
    let remote = tree.open().await;
    let since = tree.fake.asked().len();
    resume(&remote, "a", &bytes, Condition::Absent, Some(&last), &notes).await.unwrap();
    assert_eq!(count(&tree, since, "PUT"), 1, "only the rest is sent: {:?}", tree.requests(since));
    assert!(tree.file("a").unwrap() == bytes);

    for strange in [&last[..], b"chunks-9 x", b"chunks-1 ../../files/ada 10485760 26214407", b"\xff"] {
        let since = tree.fake.asked().len();
        resume(&remote, "b", &bytes, Condition::Always, Some(strange), &notes).await.unwrap();
        assert_eq!(count(&tree, since, "PUT"), 3, "what the server has forgotten begins again");
    }
    assert!(tree.left().is_empty());
}

#[tokio::test]
async fn an_abandoned_upload_leaves_nothing() {
    let tree = Tree::with_chunks();
    let (remote, notes) = (tree.open().await, Notes::default());
    refuse_after(&tree, 1);
    assert!(resume(&remote, "a", &body(1), Condition::Absent, None, &notes).await.is_err());
    tree.be_good();
    assert!(!tree.left().is_empty());
    let last = notes.0.lock().last().cloned().unwrap();
    remote.abandon(&path("a"), &last).await.unwrap();
    assert!(tree.left().is_empty(), "{:?}", tree.left());
    remote.abandon(&path("a"), &last).await.unwrap();
    let since = tree.fake.asked().len();
    remote.abandon(&path("a"), b"chunks-1 web-file-upload-1 10485760 26214407").await.unwrap();
    assert_eq!(count(&tree, since, "DELETE"), 0, "another program's upload is left alone");
}

#[tokio::test]
async fn a_proxy_that_does_not_wait_for_the_file_does_not_fail_it() {
    for acts in [true, false] {
        let tree = Tree::with_chunks();
        let remote = tree.open().await;
        let begun = Arc::new(AtomicBool::new(false));
        tree.answer({
            let (tree, begun) = (tree.clone(), begun.clone());
            move |asked| {
                (asked.method == "MOVE").then(|| {
                    begun.store(true, Relaxed);
                    if acts {
                        tree.carry_out(asked);
                    }
                    Reply::status(504)
                })
            }
        });
        let done = put(&remote, "a", &body(1), Condition::Absent).await;
        assert_eq!(done.is_ok(), acts, "{done:?}");
        assert!(begun.load(Relaxed));
    }
}
