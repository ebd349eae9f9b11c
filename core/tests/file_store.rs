//! The file store's promises, as the engine relies on them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bytes::Bytes;
use holdall_core::store::file::FileStore;
use holdall_core::store::{Store, StoreError, When};
use std::sync::Arc;
use tempfile::TempDir;

async fn store() -> (TempDir, Arc<FileStore>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(dir.path().join("store")));
    store.prepare().unwrap();
    store.put("family.json", Bytes::from_static(b"{}"), When::Absent).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn a_put_is_read_back_whole_and_in_ranges() {
    let (_dir, store) = store().await;
    let etag = store.put("seg/aa/x", Bytes::from_static(b"0123456789"), When::Always).await.unwrap();
    let whole = store.get("seg/aa/x", None).await.unwrap();
    assert_eq!((&whole.bytes[..], whole.etag), (&b"0123456789"[..], etag));
    assert_eq!(&store.get("seg/aa/x", Some(2..5)).await.unwrap().bytes[..], b"234");
    assert!(matches!(store.get("seg/aa/x", Some(5..11)).await, Err(StoreError::Damaged { .. })));
    assert_eq!(store.head("seg/aa/x").await, Ok(10));
    assert!(matches!(store.get("seg/aa/y", None).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn conditions_hold() {
    let (_dir, store) = store().await;
    let put = |body: &'static str, when| store.put("head/1", Bytes::from(body), when);
    let first = put("1", When::Absent).await.unwrap();
    assert!(matches!(put("2", When::Absent).await, Err(StoreError::Precondition { .. })));
    let second = put("2", When::Matches(first.clone())).await.unwrap();
    assert!(matches!(put("3", When::Matches(first)).await, Err(StoreError::Precondition { .. })));
    assert_eq!(&store.get("head/1", None).await.unwrap().bytes[..], b"2");
    put("3", When::Matches(second)).await.unwrap();
}

#[tokio::test]
async fn a_list_sees_objects_and_nothing_of_the_stores_own() {
    let (_dir, store) = store().await;
    for name in ["seg/aa/x", "seg/bb/y", "root/aa/z"] {
        store.put(name, Bytes::from(name), When::Absent).await.unwrap();
    }
    let names =
        |listed: Vec<holdall_core::store::Listed>| listed.into_iter().map(|l| l.name).collect::<Vec<_>>();
    assert_eq!(names(store.list("seg/").await.unwrap()), ["seg/aa/x", "seg/bb/y"]);
    assert_eq!(names(store.list("").await.unwrap()), ["family.json", "root/aa/z", "seg/aa/x", "seg/bb/y"]);
    store.delete("seg/aa/x").await.unwrap();
    store.delete("seg/aa/x").await.unwrap();
    assert_eq!(names(store.list("seg/aa/").await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_directory_that_vanished_is_unreachable_and_is_not_made_again() {
    let (dir, store) = store().await;
    store.put("seg/aa/x", Bytes::from_static(b"x"), When::Always).await.unwrap();
    let (here, away) = (dir.path().join("store"), dir.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let unreachable = |error: Option<StoreError>| matches!(error, Some(StoreError::Unreachable { .. }));
    assert!(unreachable(store.get("seg/aa/x", None).await.err()));
    assert!(unreachable(store.put("seg/aa/y", Bytes::new(), When::Always).await.err()));
    assert!(unreachable(store.list("seg/").await.err()));
    assert!(unreachable(store.delete("seg/aa/x").await.err()));
    assert!(!here.exists());
    // The bare mount point of a disk that was unmounted is not the store either.
    std::fs::create_dir(&here).unwrap();
    assert!(unreachable(store.get("seg/aa/x", None).await.err()));
    assert!(unreachable(store.put("seg/aa/y", Bytes::new(), When::Always).await.err()));
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assert!(store.get("seg/aa/x", None).await.is_ok());
}
