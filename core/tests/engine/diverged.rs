//! A store whose version lacks something that a device has seen there, because it was restored from a backup or two copies of it
//! were merged. If the store still has the device's version, that becomes a fork. Otherwise nothing changes, and the device
//! reports it.

use crate::bench::{Bench, close, get, put, run};
use holdall_core::drive;
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::PushError;
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::Store;
use holdall_core::volume::{self, Access, OpenError, Volume};
use std::sync::Arc;
use std::time::Duration;

/// Writes of a device that fill more than one journal file, so that files are freed once the writes are uploaded.
fn much(byte: u8) -> Vec<(u64, u8)> {
    (1..120).map(|block| (block, byte)).collect()
}

/// A drive with one block that device 0 has uploaded.
fn used() -> Bench {
    let bench = Bench::new();
    write_and_close(&bench, 0, &[(0, 9)]);
    bench
}

fn write_and_close(bench: &Bench, device: usize, blocks: &[(u64, u8)]) {
    run(async {
        let volume = bench.open(device).await.unwrap();
        for (block, byte) in blocks {
            put(&volume, *block, *byte).await;
        }
        close(volume).await;
    });
}

async fn shows(volume: &Arc<Volume>, blocks: &[(u64, u8)]) {
    for (block, byte) in blocks {
        assert_eq!(get(volume, *block).await, *byte, "block {block}");
    }
}

fn is_fork(volume: &Volume) -> bool {
    volume.pusher().unwrap().state().borrow().fork.is_some()
}

/// Decides that a device's state is a fork, and opens the fork.
async fn open_fork(bench: &Bench, device: usize) -> Arc<Volume> {
    let state = bench.devices[device].state.directory("state");
    volume::fork(&state, bench.drive, "device 1").await.unwrap();
    let volume = bench.open(device).await.unwrap();
    assert!(is_fork(&volume));
    volume
}

/// The number of drives in the family that open.
async fn drives(bench: &Bench) -> usize {
    drive::heads(&bench.store, &bench.sealer).await.unwrap().len()
}

/// Merges two copies of a store, each used by one device. Where both changed an object, the second copy's stays.
fn merged(bench: &Bench, first: &[(u64, u8)], second: &[(u64, u8)]) {
    let common = bench.store.copy();
    write_and_close(bench, 0, first);
    let copy = bench.store.copy();
    bench.store.restore(&common);
    write_and_close(bench, 1, second);
    bench.store.add(&copy);
}

#[test]
fn tells_versions_with_equal_epochs_apart_after_a_restore() {
    let bench = used();
    let backup = bench.store.copy();
    write_and_close(&bench, 0, &[(1, 1)]);
    bench.store.restore(&backup);
    write_and_close(&bench, 1, &[(1, 2), (2, 2)]);
    run(async {
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::Forked { unsent: 1, .. })), "{:?}", refused.err());
        let fork = open_fork(&bench, 0).await;
        shows(&fork, &[(0, 9), (1, 1), (2, 0)]).await;
        close(fork).await;
        let third = bench.open(2).await.unwrap();
        shows(&third, &[(0, 9), (1, 2), (2, 2)]).await;
    });
}

#[test]
fn never_mixes_a_lost_version_into_another() {
    let bench = used();
    let backup = bench.store.copy();
    write_and_close(&bench, 0, &much(1));
    bench.store.restore(&backup);
    write_and_close(&bench, 1, &[(1, 2), (2, 2)]);
    run(async {
        for _ in 0..2 {
            let refused = bench.open(0).await;
            assert!(
                matches!(refused, Err(OpenError::RolledBack { found, known, unsent: 0 }) if found == known),
                "it says so each time: {:?}",
                refused.err()
            );
        }
        let third = bench.open(2).await.unwrap();
        shows(&third, &[(0, 9), (1, 2), (2, 2)]).await;
    });
}

#[test]
fn keeps_both_versions_when_two_copies_of_a_store_merge() {
    let bench = used();
    merged(&bench, &much(1), &[(1, 2)]);
    run(async {
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::Forked { unsent: 0, .. })), "{:?}", refused.err());
        let fork = open_fork(&bench, 0).await;
        shows(&fork, &[(0, 9), (1, 1), (119, 1)]).await;
        put(&fork, 3, 3).await;
        close(fork).await;
        // A collection deletes nothing that the fork shares with the time before the copies diverged.
        let drive = bench.open(1).await.unwrap();
        shows(&drive, &[(0, 9), (1, 2), (2, 0)]).await;
        drive.pusher().unwrap().collect().await.unwrap();
        close(drive).await;
        assert_eq!(drives(&bench).await, 2);
    });
    let mut alone = bench.elsewhere();
    alone.drive = run(async {
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        heads.into_iter().find(|head| head.drive != bench.drive).unwrap().drive
    });
    run(async {
        let fork = alone.take(1).await.unwrap();
        shows(&fork, &[(0, 9), (1, 1), (119, 1), (3, 3)]).await;
    });
}

#[test]
fn refuses_a_merged_copy_that_was_already_collected() {
    let bench = used();
    merged(&bench, &much(1), &[(1, 2)]);
    run(async {
        let drive = bench.open(1).await.unwrap();
        for _ in 0..3 {
            drive.pusher().unwrap().collect().await.unwrap();
        }
        close(drive).await;
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::RolledBack { unsent: 0, .. })), "{:?}", refused.err());
    });
}

#[test]
fn uploads_again_the_journal_records_that_the_store_lost() {
    let bench = used();
    let backup = bench.store.copy();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 2, 2).await;
    });
    bench.devices[0].power_cut();
    bench.store.restore(&backup);
    run(async {
        match bench.open(0).await {
            Ok(volume) => {
                assert!(!is_fork(&volume));
                shows(&volume, &[(0, 9), (1, 1), (2, 2)]).await;
                close(volume).await;
                let other = bench.open(1).await.unwrap();
                shows(&other, &[(0, 9), (1, 1), (2, 2)]).await;
            }
            Err(error) => panic!("only this device wrote, and it has all of it: {error}"),
        }
    });
}

#[test]
fn opens_the_stores_version_after_local_files_are_set_aside() {
    let mut bench = used();
    let backup = bench.store.copy();
    write_and_close(&bench, 0, &[(1, 1)]);
    write_and_close(&bench, 1, &[(2, 2)]);
    write_and_close(&bench, 0, &[(3, 3)]);
    bench.store.restore(&backup);
    run(async {
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::RolledBack { .. })), "{:?}", refused.err());
    });
    let fresh = |salt| SimDisk::new(salt, DiskFaults::default());
    (bench.devices[0].state, bench.devices[0].journal) = (fresh(101), fresh(102));
    run(async {
        let volume = bench.open(0).await.unwrap();
        shows(&volume, &[(0, 9), (1, 0), (2, 0), (3, 0)]).await;
    });
}

#[test]
fn a_restored_store_stops_the_uploads_of_an_open_drive() {
    let bench = used();
    let backup = bench.store.copy();
    write_and_close(&bench, 1, &[(1, 1)]);
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 2, 2).await;
        volume.pusher().unwrap().sync().await.unwrap();
        bench.store.restore(&backup);
        put(&volume, 3, 3).await;
        let stopped = volume.pusher().unwrap().sync().await;
        assert!(matches!(stopped, Err(PushError::Fenced(_))), "{stopped:?}");
        shows(&volume, &[(0, 9), (1, 1), (2, 2), (3, 3)]).await;
    });
    run(async {
        let other = bench.open(2).await.unwrap();
        shows(&other, &[(0, 9), (1, 0), (2, 0), (3, 0)]).await;
    });
}

#[test]
fn never_mixes_offline_writes_into_a_restored_store() {
    let bench = used();
    let backup = bench.store.copy();
    write_and_close(&bench, 1, &[(1, 1)]);
    write_and_close(&bench, 0, &[(2, 2)]);
    run(async {
        let volume = bench.open_on(away(&bench), 0, Access::Away { mounted: false }).await.unwrap();
        put(&volume, 3, 3).await;
    });
    bench.devices[0].power_cut();
    bench.store.restore(&backup);
    write_and_close(&bench, 2, &[(3, 4)]);
    run(async {
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::RolledBack { unsent: 1, .. })), "{:?}", refused.err());
        let store: Arc<dyn Store> = Arc::new(bench.store.clone());
        let objects = Objects::new(store, bench.sealer.clone(), PageCache::none());
        let (_, _, root) = drive::current(&objects, bench.drive).await.unwrap();
        assert_eq!(root.device_name, "device 2", "nothing was changed");
    });
}

/// A copy of a device's files writes to a restored store. The device has no record of these writes: it had uploaded more since,
/// and its journal holds other records under the same LSNs, or none.
fn a_copy_wrote(by_the_copy: &[(u64, u8)]) {
    let mut bench = used();
    let (backup, copy) = (bench.store.copy(), bench.devices[0].copy());
    write_and_close(&bench, 0, &much(1));
    bench.store.restore(&backup);
    let original = std::mem::replace(&mut bench.devices[0], copy);
    write_and_close(&bench, 0, by_the_copy);
    bench.devices[0] = original;
    run(async {
        for _ in 0..2 {
            let refused = bench.open(0).await.err();
            let is_told = matches!(refused, Some(OpenError::RolledBack { .. } | OpenError::CopyWrote));
            assert!(is_told, "after {}: {refused:?}", by_the_copy.len());
        }
        let third = bench.open(2).await.unwrap();
        shows(&third, by_the_copy).await;
    });
}

#[test]
fn a_device_tells_its_copys_writes_from_its_own() {
    a_copy_wrote(&[(1, 2)]);
    a_copy_wrote(&much(2));
    a_copy_wrote(&[much(2), much(2)].concat());
}

/// The state after a computer's files were restored from a backup.
#[test]
fn opens_with_older_local_files_if_nothing_is_missing() {
    let mut bench = used();
    let copy = bench.devices[0].copy();
    write_and_close(&bench, 0, &[(1, 1)]);
    bench.devices[0] = copy;
    run(async {
        let volume = bench.open(0).await.unwrap();
        assert!(!is_fork(&volume));
        shows(&volume, &[(0, 9), (1, 1)]).await;
        put(&volume, 2, 2).await;
        close(volume).await;
        let other = bench.open(1).await.unwrap();
        shows(&other, &[(0, 9), (1, 1), (2, 2)]).await;
    });
}

#[test]
fn a_fork_goes_on_from_what_a_copy_wrote_to_it() {
    let mut bench = used();
    merged(&bench, &[(1, 1)], &[(1, 2)]);
    run(async {
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::Forked { .. })), "{:?}", refused.err());
        let fork = open_fork(&bench, 0).await;
        put(&fork, 2, 2).await;
        close(fork).await;
    });
    let copy = bench.devices[0].copy();
    let original = std::mem::replace(&mut bench.devices[0], copy);
    write_and_close(&bench, 0, &[(3, 3)]);
    bench.devices[0] = original;
    run(async {
        let fork = bench.open(0).await.unwrap();
        assert!(is_fork(&fork));
        shows(&fork, &[(0, 9), (1, 1), (2, 2), (3, 3)]).await;
        put(&fork, 4, 4).await;
        close(fork).await;
        assert_eq!(drives(&bench).await, 2, "it stays one fork");
        let drive = bench.open(1).await.unwrap();
        shows(&drive, &[(0, 9), (1, 2), (2, 0), (3, 0), (4, 0)]).await;
    });
}

/// A device begins a new journal, and its opening is cut off at some point. It still knows what it knew of the store.
#[test]
fn an_opening_that_was_cut_off_forgets_nothing() {
    let (mut refused, mut opened) = (0, 0);
    for cut_ms in (0..600).step_by(7) {
        let mut bench = used();
        let backup = bench.store.copy();
        write_and_close(&bench, 0, &[(1, 1)]);
        let copy = bench.devices[0].copy();
        write_and_close(&bench, 0, &[(2, 2)]);
        bench.devices[0] = copy;
        bench.store.set_faults(StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() });
        let is_open = run(async {
            let cut = Duration::from_millis(cut_ms);
            tokio::time::timeout(cut, bench.open(0)).await.is_ok_and(|opened| opened.is_ok())
        });
        bench.devices[0].power_cut();
        bench.store.set_faults(StoreFaults::default());
        bench.store.restore(&backup);
        run(async {
            match bench.open(0).await {
                // Its journal still holds what the store has lost.
                Ok(volume) => shows(&volume, &[(0, 9), (1, 1)]).await,
                Err(OpenError::RolledBack { .. } | OpenError::CopyWrote) => {}
                Err(error) => panic!("cut off after {cut_ms} ms: {error}"),
            }
        });
        (refused, opened) = (refused + u32::from(!is_open), opened + u32::from(is_open));
    }
    assert!(refused > 5 && opened > 5, "{refused} {opened}");
}

/// The store, without answers.
fn away(bench: &Bench) -> Arc<dyn Store> {
    let store: SimStore = bench.store.copy();
    store.set_commits_away(true);
    Arc::new(store)
}
