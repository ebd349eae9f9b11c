//! What power cuts and orderly ends leave.

use crate::rig::{READS, Rig, WRITES, path};
use bytes::Bytes;
use holdall_core::sim::disk::DiskFaults;
use holdall_core::sim::remote::RemoteHabits;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_cut_after_an_orderly_close_sets_nothing_aside() {
    for seed in 0..20 {
        let rig = Rig::new(seed, RemoteHabits::GOOD);
        rig.remote.other_writes(&path("opened"), vec![3; 10_000]);
        let open = rig.open().await;
        open.folder.outbox().set_paused(Some("test".into()));
        let opened = open.open("opened", WRITES).await.unwrap();
        open.write("written", b"never synced").await.unwrap();
        let still_open = open.create("still open").await.unwrap();
        open.folder.write(still_open, 0, Bytes::from_static(b"half")).await.unwrap();
        open.write("removed", b"nobody wants it").await.unwrap();
        open.unlink("removed").await.unwrap();
        open.folder.release(opened);
        open.folder.close().await.unwrap();
        rig.disk.power_cut();
        let open = rig.open().await;
        let recovered = open.folder.recovered();
        assert_eq!((&recovered.set_aside[..], &recovered.lost[..]), (&[][..], &[][..]), "seed {seed}");
        open.settle().await;
        assert_eq!(rig.file_there("written").unwrap(), b"never synced", "seed {seed}");
        assert_eq!(rig.file_there("still open").unwrap(), b"half", "seed {seed}");
        assert_eq!(rig.file_there("opened").unwrap(), vec![3; 10_000], "seed {seed}");
        assert_eq!(rig.there().len(), 3, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_leaves_a_removed_file_whole_or_removes_it() {
    let mut found = [0, 0];
    for seed in 0..60 {
        let rig = Rig::new(seed, RemoteHabits::GOOD);
        let open = rig.open().await;
        open.folder.outbox().set_paused(Some("test".into()));
        for name in ["unlinked", "replaced", "last closed"] {
            open.write_durably(name, name.as_bytes()).await.unwrap();
        }
        open.write_durably("new", b"new").await.unwrap();
        rig.disk.set_faults(DiskFaults { sync_time: Duration::from_millis(100), ..DiskFaults::default() });
        let handle = open.open("last closed", READS).await.unwrap();
        open.unlink("last closed").await.unwrap();
        open.folder.release(handle);
        open.unlink("unlinked").await.unwrap();
        open.rename("new", "replaced").await.unwrap();
        tokio::time::sleep(Duration::from_millis(seed % 30 * 3)).await;
        rig.disk.power_cut();
        drop(open);
        rig.disk.set_faults(DiskFaults::default());
        let open = rig.open().await;
        assert_eq!(open.folder.recovered().lost, Vec::<String>::new(), "seed {seed}");
        let here = open.here().await.unwrap();
        for name in ["unlinked", "last closed"] {
            let bytes = here.get(name).map(|bytes| bytes.as_deref().unwrap());
            assert!(bytes.is_none_or(|bytes| bytes == name.as_bytes()), "seed {seed}: {name} is {bytes:?}");
            found[usize::from(bytes.is_some())] += 1;
        }
        let replaced = here["replaced"].as_deref().unwrap();
        assert!([&b"replaced"[..], b"new"].contains(&replaced), "seed {seed}");
    }
    assert!(found.iter().all(|count| *count > 5), "both ends were seen: {found:?}");
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_removed_files_free_their_space_soon() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.folder.outbox().set_paused(Some("test".into()));
    for file in 0..20 {
        open.write(&format!("f{file}"), &[1; 10_000]).await.unwrap();
    }
    for file in 0..20 {
        open.unlink(&format!("f{file}")).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(open.folder.status().dirty_bytes, 0);
}
