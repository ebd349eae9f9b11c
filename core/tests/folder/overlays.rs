//! Long files that are written to although not all of their bytes are here.

use crate::rig::{READS, Rig, WRITES, path};
use bytes::Bytes;
use holdall_core::folder::api::{Changes, FolderError};
use holdall_core::folder::outbox::{QueueState, Unsettled};
use holdall_core::sim::remote::Request;

const LEN: usize = 3 << 20;

/// A remote with a long file, none of which is here.
fn rig() -> (Rig, Vec<u8>) {
    let mut rig = Rig::good();
    rig.whole_up_to = 1 << 20;
    let bytes: Vec<u8> = (0..LEN).map(|at| (at / 1000 % 251) as u8).collect();
    rig.remote.other_writes(&path("long"), bytes.clone());
    (rig, bytes)
}

#[tokio::test(start_paused = true)]
async fn opening_a_long_file_to_write_downloads_nothing() {
    let (rig, mut bytes) = rig();
    let open = rig.open().await;
    let handle = open.open("long", WRITES).await.unwrap();
    open.folder.write(handle, 8192, Bytes::from(vec![1; 4096])).await.unwrap();
    open.folder.sync_file(handle).await.unwrap();
    assert_eq!(rig.remote.requests(Request::Read), 0, "whole blocks need nothing of the old file");
    open.folder.write(handle, 100_000, Bytes::from(vec![2; 10])).await.unwrap();
    let ino = open.ino("long").await.unwrap();
    for len in [LEN - 5000, LEN] {
        let changes = Changes { len: Some(len as u64), ..Changes::default() };
        open.folder.set_attributes(ino, changes).await.unwrap();
    }
    bytes[8192..12288].fill(1);
    bytes[100_000..100_010].fill(2);
    bytes[LEN - 5000..].fill(0);
    assert!(open.read_handle(handle).await.unwrap() == bytes);
    open.folder.release(handle);
    open.settle().await;
    assert!(rig.file_there("long").unwrap() == bytes);
    assert!(open.read("long").await.unwrap() == bytes);
    assert_eq!(open.folder.status().dirty_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_file_whose_version_is_gone_is_kept_on_both_sides() {
    let (rig, _) = rig();
    let open = rig.open().await;
    open.folder.outbox().set_paused(Some("test".into()));
    let handle = open.open("long", WRITES).await.unwrap();
    open.folder.write(handle, 8192, Bytes::from(vec![1; 4096])).await.unwrap();
    open.folder.sync_file(handle).await.unwrap();
    open.folder.release(handle);
    rig.remote.other_writes(&path("long"), b"theirs".to_vec());
    open.folder.outbox().set_paused(None);
    assert!(matches!(open.folder.outbox().settle().await, Err(Unsettled::Failed { count: 1, .. })));
    assert_eq!(rig.file_there("long").unwrap(), b"theirs");
    let queue = open.folder.outbox().queue(1);
    let QueueState::Failed { reason, .. } = &queue.items[0].state else { panic!("{queue:?}") };
    assert!(reason.contains("no longer has the version"), "{reason}");
    let handle = open.open("long", READS).await.unwrap();
    let lease = open.folder.read(handle, 8192, 4096).await.unwrap();
    let mut ours = vec![0; 4096];
    lease.copy_to(&mut ours).unwrap();
    assert_eq!(ours, vec![1; 4096]);
    assert_eq!(open.folder.read(handle, 0, 4096).await.err(), Some(FolderError::Stale));
}
