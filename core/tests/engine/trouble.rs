//! An open drive whose local disk or store fails: acknowledged data stays readable, and nothing stale is served.

use crate::bench::{Bench, FAMILY, GEOMETRY, close, device, get, put, run, try_get};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::drive;
use holdall_core::map::{Objects, PageCache};
use holdall_core::sim::disk::DiskFaults;
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use holdall_core::store::{Etag, Fetched, Listed, Store, StoreError, When};
use holdall_core::volume::{Access, OpenError, TakeOver};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const ALL_SYNCS_FAIL: DiskFaults = DiskFaults { sync_fails: 1000, sync_time: Duration::ZERO };
const STORE_AWAY: StoreFaults = StoreFaults {
    refused: 1000,
    answer_lost: 0,
    zombie: 0,
    busy: 0,
    denied: 0,
    kept: 0,
    conflict: 0,
    failed: 0,
    repeated: 0,
    away: 0,
    garbled: 0,
    time: Duration::ZERO,
};
/// More blocks than one journal file holds.
const BLOCKS: u64 = 30;
/// Longer than every periodic task of an open drive.
const A_WHILE: Duration = Duration::from_secs(15);

/// A read whose caller has left is not tried again, so nothing else would notice for a while that the store is back.
#[test]
fn a_successful_upload_clears_the_pull_trouble() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        for block in 0..64 {
            put(&volume, block, 1).await;
        }
        close(volume).await;
        let volume = bench.open(1).await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        volume.evict_all().await.unwrap();
        bench.store.set_faults(STORE_AWAY);
        assert!(tokio::time::timeout(A_WHILE, get(&volume, 40)).await.is_err());
        assert!(volume.status().pull_trouble.is_some());
        put(&volume, 1, 2).await;
        bench.store.set_faults(StoreFaults::default());
        volume.pusher().unwrap().push_now();
        volume.pusher().unwrap().sync().await.unwrap();
        assert_eq!(volume.status().pull_trouble, None);
        assert_eq!(get(&volume, 40).await, 1);
        close(volume).await;
    });
}

#[test]
fn a_failed_cache_sync_restores_nothing_that_others_overwrote() {
    let bench = Bench::new();
    run(async {
        for (index, byte) in [(0, 1), (1, 2)] {
            let volume = bench.open(index).await.unwrap();
            put(&volume, 1, byte).await;
            close(volume).await;
        }
    });
    run(async {
        let volume = bench.open(0).await.unwrap();
        assert_eq!(get(&volume, 1).await, 2);
        // The record that wrote 1 is still in the journal, and must not be replayed.
        let cache = &bench.devices[0].cache;
        cache.set_faults(ALL_SYNCS_FAIL);
        put(&volume, 9, 9).await;
        tokio::time::sleep(A_WHILE).await;
        cache.set_faults(DiskFaults::default());
        tokio::time::sleep(A_WHILE).await;
        assert_eq!((get(&volume, 1).await, get(&volume, 9).await), (2, 9));
    });
}

#[test]
fn trusts_no_unsynced_cache_before_or_after_a_power_cut() {
    for seed in 0..8 {
        let mut bench = Bench::new();
        bench.devices[0].cache = holdall_core::sim::disk::SimDisk::new(seed, DiskFaults::default());
        run(async {
            let volume = bench.open(0).await.unwrap();
            for block in 0..BLOCKS {
                put(&volume, block, 1).await;
            }
            volume.pusher().unwrap().sync().await.unwrap();
            tokio::time::sleep(A_WHILE).await;
            assert!(volume.applied_durable() >= volume.journal().durable(), "the cache is durable");
            bench.devices[0].cache.set_faults(ALL_SYNCS_FAIL);
            for block in 0..BLOCKS {
                put(&volume, block, 2).await;
            }
            volume.pusher().unwrap().sync().await.unwrap();
            tokio::time::sleep(A_WHILE).await;
            assert!(volume.status().local_trouble.is_some(), "a person is told");
            for block in 0..BLOCKS {
                assert_eq!(get(&volume, block).await, 2, "seed {seed}: block {block} while it is open");
            }
        });
        bench.devices[0].cache.set_faults(DiskFaults::default());
        bench.devices[0].power_cut();
        run(async {
            let volume = bench.open(0).await.unwrap();
            for block in 0..BLOCKS {
                assert_eq!(get(&volume, block).await, 2, "seed {seed}: block {block} after the cut");
            }
        });
    }
}

#[test]
fn a_full_disk_under_the_bitmap_keeps_local_blocks() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 1, 1).await;
        close(volume).await;
        let volume = bench.open(1).await.unwrap();
        assert_eq!(get(&volume, 1).await, 1);
        bench.devices[1].cache.set_free(0);
        bench.store.set_faults(STORE_AWAY);
        put(&volume, 5, 5).await;
        tokio::time::sleep(A_WHILE).await;
        let read = tokio::time::timeout(Duration::from_secs(30), try_get(&volume, 1)).await;
        let trouble = volume.status().local_trouble;
        assert!(matches!(read, Ok(Ok(1))), "it was local, and is not any more: {trouble:?}");
        assert_eq!(get(&volume, 5).await, 5);
    });
}

#[test]
fn a_failed_collection_does_not_stop_pushing() {
    let bench = Bench::new();
    run(async {
        let before = bench.store.names();
        drive::create(&bench.store, &bench.sealer, FAMILY, "e", GEOMETRY, &device(0)).await.unwrap();
        let names = bench.store.names();
        let root = names.iter().find(|name| name.starts_with("root/") && !before.contains(name)).unwrap();
        let volume = bench.open(0).await.unwrap();
        // Nobody can tell what the other drive reaches.
        bench.store.lose(root);
        assert!(volume.pusher().unwrap().collect().await.is_err());
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        close(volume).await;
        let volume = bench.open(1).await.unwrap();
        assert_eq!(get(&volume, 1).await, 1);
    });
}

#[test]
fn the_next_removal_finishes_one_that_was_cut_off() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(1).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 2, 2).await;
        volume.shut_down().await.unwrap();
        close(bench.take(0).await.unwrap()).await;
        let objects = Objects::new(Arc::new(bench.store.clone()), bench.sealer.clone(), PageCache::none());
        let remove = async || drive::remove(&objects, bench.drive, &device(0)).await;
        // The tombstone is written, and nothing else of the removal is done.
        let cut_off = bench.store.clone().with_habits(Habits { may_delete: false, ..Habits::GOOD });
        remove().await.unwrap_err();
        let _ = cut_off.with_habits(Habits::GOOD);
        assert!(bench.store.names().iter().any(|name| name.starts_with("seg/")));
        assert!(remove().await.unwrap() > 0);
        assert_eq!(bench.store.names(), [holdall_core::format::head::name(bench.drive)]);
        assert_eq!(remove().await.unwrap(), 0);
        // A device with changes learns how many there are.
        let refused = bench.open(1).await;
        assert!(matches!(refused, Err(OpenError::Removed { unsent: 1 })), "{:?}", refused.err());
        let refused = bench.open(0).await;
        assert!(matches!(refused, Err(OpenError::Removed { unsent: 0 })), "{:?}", refused.err());
    });
}

#[test]
fn retries_a_failed_checkpoint_even_if_nothing_is_written() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        let (pusher, rounds) = (volume.pusher().unwrap(), 2 * bench.limits.tail_segments as u64);
        // Make map pages, so that the next checkpoint reads them.
        for block in 0..rounds {
            put(&volume, block, 1).await;
            pusher.sync().await.unwrap();
        }
        bench.store.set_segments_away(true);
        let trouble = || pusher.state().borrow().trouble.clone();
        for block in 0..rounds {
            if trouble().is_none() {
                put(&volume, block, 2).await;
                pusher.sync().await.unwrap();
            }
        }
        assert!(trouble().is_some_and(|trouble| trouble.contains("cannot be reached")));
        tokio::time::sleep(A_WHILE).await;
        assert!(trouble().is_some());
        bench.store.set_segments_away(false);
        let before = pusher.state().borrow().root;
        // Everything is uploaded, and nothing else happens.
        tokio::time::sleep(40 * A_WHILE).await;
        assert_eq!(trouble(), None);
        assert_ne!(pusher.state().borrow().root, before);
        close(volume).await;
    });
}

#[test]
fn asks_a_busy_store_about_a_swap_only_later() {
    const LONG: Duration = Duration::from_secs(300);
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        bench.store.be_busy(LONG);
        let (begun, releasing) = (tokio::time::Instant::now(), volume.clone());
        let release = tokio::spawn(async move { releasing.release().await });
        tokio::time::sleep(LONG - A_WHILE).await;
        assert_eq!(bench.store.told_to_wait(), 1);
        release.await.unwrap().unwrap();
        assert_eq!(bench.store.told_to_wait(), 1);
        assert!(begun.elapsed() >= LONG);
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn reports_an_emptied_store_and_resumes_once_it_is_back() {
    let bench = Bench::new();
    run(async {
        let family = bytes::Bytes::from_static(b"{}");
        bench.store.put(holdall_core::format::family::NAME, family, When::Absent).await.unwrap();
        let volume = bench.open(0).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        let trouble = || volume.pusher().unwrap().state().borrow().trouble.clone().unwrap_or_default();
        let (whole, head) = (bench.store.copy(), holdall_core::format::head::name(bench.drive));
        let back = async |name: &str| {
            let body = whole.get(name, None).await.unwrap().bytes;
            bench.store.put(name, body, When::Always).await.unwrap();
        };
        put(&volume, 2, 2).await;
        let pusher = volume.clone();
        bench.store.lose(&head);
        let sync = tokio::spawn(async move { pusher.pusher().unwrap().sync().await });
        tokio::time::sleep(A_WHILE).await;
        assert!(trouble().contains(&format!("{head} is not in the store")), "{}", trouble());
        bench.store.names().iter().for_each(|name| bench.store.lose(name));
        tokio::time::sleep(20 * A_WHILE).await;
        assert_eq!(trouble(), "the store holds nothing of this drive any more");
        assert!(!sync.is_finished());
        for name in whole.names() {
            back(&name).await;
        }
        tokio::time::timeout(Duration::from_secs(600), sync).await.unwrap().unwrap().unwrap();
        assert_eq!(trouble(), "");
    });
}

/// A store that keeps half of every second new immutable object, and then breaks the connection.
struct Tears {
    inner: SimStore,
    /// The names put so far. The lock is held only for a look-up.
    put: Mutex<BTreeSet<String>>,
    /// The torn ones among them.
    torn: Mutex<Vec<String>>,
}

#[async_trait]
impl Store for Tears {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.inner.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        let immutable = name.starts_with("seg/") || name.starts_with("root/");
        let is_torn = {
            let mut put = self.put.lock();
            immutable && put.insert(name.to_owned()) && put.len() % 2 == 1
        };
        if is_torn {
            self.torn.lock().push(name.to_owned());
            let half = body.slice(..body.len() / 2);
            self.inner.put(name, half, when).await?;
            return Err(StoreError::Unreachable { reason: "it broke off".into() });
        }
        self.inner.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete(name).await
    }
}

#[test]
fn picks_another_name_where_a_torn_object_has_it() {
    let bench = Bench::new();
    let tears = Arc::new(Tears { inner: bench.store.clone(), put: Mutex::default(), torn: Mutex::default() });
    // Enough for map pages to be put as well.
    let rounds = 2 * bench.limits.tail_segments as u64;
    run(async {
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        let volume = bench.open_on(tears.clone(), 0, access).await.unwrap();
        for block in 0..rounds {
            put(&volume, block, block as u8 + 1).await;
            let synced = tokio::time::timeout(Duration::from_secs(600), volume.pusher().unwrap().sync());
            synced.await.expect("it is not tried for ever").unwrap();
        }
        close(volume).await;
        let torn = tears.torn.lock().clone();
        assert!(["seg/", "root/"].iter().all(|kind| torn.iter().any(|name| name.starts_with(kind))));
        let store = Arc::new(bench.store.clone());
        let objects = Arc::new(Objects::new(store, bench.sealer.clone(), PageCache::none()));
        let checked = drive::check::check(&objects, bench.drive, &|_, _| {}).await.unwrap();
        assert_eq!(checked.errors, [""; 0]);
        let volume = bench.open(1).await.unwrap();
        for block in 0..rounds {
            assert_eq!(get(&volume, block).await, block as u8 + 1);
        }
        // Torn objects are garbage like any other.
        for _ in 0..6 {
            volume.pusher().unwrap().collect().await.unwrap();
            put(&volume, 0, 9).await;
            volume.pusher().unwrap().sync().await.unwrap();
        }
        let names = bench.store.names();
        assert!(torn.iter().all(|name| !names.contains(name)), "{torn:?}");
    });
}
