//! Puts of objects whose names stand for exactly these bytes, on a simulated store.

use bytes::Bytes;
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::immutable::{put, put_over_damage};
use holdall_core::store::{Store, StoreError};

#[tokio::test]
async fn a_name_said_to_be_taken_is_checked() {
    let wrong = StoreFaults { failed: 1000, ..StoreFaults::default() };
    let (mut done, mut not) = (0, 0);
    for seed in 0..50 {
        let store = SimStore::new(seed, wrong);
        match put(&store, "seg/a", Bytes::from_static(b"a")).await {
            Ok(()) => done += store.names().len(),
            Err(StoreError::Busy { .. }) => not += usize::from(store.names().is_empty()),
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(done > 0 && not > 0 && done + not == 50, "{done} {not}");
}

#[tokio::test]
async fn only_other_bytes_under_the_name_are_damage() {
    let store = SimStore::new(1, StoreFaults::default());
    put(&store, "seg/a", Bytes::from_static(b"a")).await.unwrap();
    put(&store, "seg/a", Bytes::from_static(b"a")).await.unwrap();
    let other = put(&store, "seg/a", Bytes::from_static(b"b")).await;
    assert!(matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
}

#[tokio::test]
async fn a_copy_replaces_only_damaged_objects() {
    let store = SimStore::new(1, StoreFaults::default());
    let copy = async |body: &'static [u8]| {
        put_over_damage(&store, "seg/a", Bytes::from_static(body), |body| body.starts_with(b"whole")).await
    };
    put(&store, "seg/a", Bytes::from_static(b"wh")).await.unwrap();
    copy(b"whole").await.unwrap();
    assert_eq!(store.get("seg/a", None).await.unwrap().bytes, "whole");
    copy(b"whole").await.unwrap();
    let other = copy(b"whole too").await;
    assert!(matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
    assert_eq!(store.get("seg/a", None).await.unwrap().bytes, "whole");
}
