//! Uploads that are cut off in the middle of a batch, in virtual time: by a pause, or by a collection that frees space for them.

use crate::bench::layer::{Layer, Layered, away};
use crate::bench::{Bench, run};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::push::{PushError, Pusher};
use holdall_core::sim::store::SimStore;
use holdall_core::store::{Etag, Store, StoreError, When};
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Access, TakeOver, Volume, VolumeDevice};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Each put takes this long, however many run at once.
const PUT: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Blocks of a batch that takes several segments.
const BLOCKS: u64 = 24;

/// A slow store.
struct Slow {
    store: SimStore,
    /// The number of puts that have begun.
    begun: AtomicU32,
    is_away: AtomicBool,
    /// Bytes of segments that fit into it.
    room: AtomicU64,
    /// The requests so far: puts of segments, and deletions.
    asked: Mutex<Vec<Asked>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    PutSegment,
    Delete,
}

#[async_trait]
impl Layer for Slow {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.begun.fetch_add(1, Relaxed);
        if name.starts_with("seg/") {
            self.asked.lock().push(Asked::PutSegment);
        }
        tokio::time::sleep(PUT).await;
        if self.is_away.load(Relaxed) {
            return Err(away());
        }
        let held = self.held().await?;
        if name.starts_with("seg/") && held + body.len() as u64 > self.room.load(Relaxed) {
            // Other data takes the rest of the space.
            self.room.store(held, Relaxed);
            return Err(StoreError::Full { reason: "507".into() });
        }
        self.store.put(name, body, when).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.asked.lock().push(Asked::Delete);
        self.store.delete(name).await
    }
}

impl Slow {
    async fn held(&self) -> Result<u64, StoreError> {
        Ok(self.store.list("seg/").await?.iter().map(|listed| listed.len).sum())
    }
}

struct Pushing {
    store: Arc<Layered<Slow>>,
    volume: Arc<Volume>,
}

impl Pushing {
    /// Opens a drive with changes to upload.
    async fn begin(bench: &Bench) -> Self {
        let store = Arc::new(Layered(Slow {
            store: bench.store.clone(),
            begun: AtomicU32::new(0),
            is_away: AtomicBool::new(false),
            room: AtomicU64::new(u64::MAX),
            asked: Mutex::default(),
        }));
        let write = Access::Write { over: TakeOver::Nobody, mounted: false };
        let volume = bench.open_on(store.clone(), 0, write).await.unwrap();
        let pushing = Self { store, volume };
        pushing.write(0).await;
        pushing
    }

    async fn write(&self, version: u64) {
        for block in 0..BLOCKS {
            let (device, data) = (VolumeDevice(self.volume.clone()), noise(block, version));
            device.write(block * BLOCK_BYTES, &data, Durability::Forced).wait().await.unwrap();
        }
    }

    async fn until_all_is_up(&self) {
        while self.volume.has_unsent() {
            tokio::time::sleep(PUT).await;
        }
    }

    fn pusher(&self) -> &Pusher {
        self.volume.pusher().unwrap()
    }

    async fn until_it_is_on_its_way(&self) {
        let before = self.begun();
        while self.begun() < before + 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(PUT / 2).await;
    }

    fn begun(&self) -> u32 {
        self.store.begun.load(Relaxed)
    }

    fn set_paused(&self, paused: bool) {
        self.pusher().set_paused(paused);
    }

    async fn sync(&self) -> Result<(), PushError> {
        self.pusher().sync().await.map(drop)
    }

    /// Nothing goes to the store for a day.
    async fn assert_silent(&self, bench: &Bench) {
        let now = (self.begun(), bench.store.names());
        tokio::time::sleep(DAY).await;
        assert_eq!((self.begun(), bench.store.names()), now);
        let state = self.pusher().state();
        assert!(state.borrow().outgoing.is_empty() && state.borrow().trouble.is_none());
    }
}

/// Data that does not compress.
fn noise(block: u64, version: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK_BYTES as usize];
    StdRng::seed_from_u64(version * BLOCKS + block).fill_bytes(&mut data);
    data
}

/// Another computer reads all of it from the store.
async fn assert_all_there(bench: &Bench, version: u64) {
    let elsewhere = bench.elsewhere();
    let volume = elsewhere.take(1).await.unwrap();
    for block in 0..BLOCKS {
        let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        let lease = VolumeDevice(volume.clone()).read(range).wait().await.unwrap();
        let mut data = vec![0; BLOCK_BYTES as usize];
        lease.copy_to(&mut data).unwrap();
        assert_eq!(data, noise(block, version), "block {block}");
    }
    volume.shut_down().await.unwrap();
}

#[test]
fn pausing_stops_uploads_at_once_and_resuming_repeats_none() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        pushing.until_it_is_on_its_way().await;
        pushing.set_paused(true);
        pushing.assert_silent(&bench).await;
        assert!(pushing.volume.has_unsent());
        pushing.set_paused(false);
        pushing.until_all_is_up().await;
        let segments = || -> BTreeSet<String> {
            bench.store.names().into_iter().filter(|name| name.starts_with("seg/")).collect()
        };
        let put = segments();
        pushing.pusher().collect().await.unwrap();
        assert!(put.is_subset(&segments()), "what had arrived before was not put once more");
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench, 0).await;
    });
}

#[test]
fn waiting_for_a_paused_upload_fails_at_once() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        let told = {
            let syncing = pushing.sync();
            let pausing = async {
                pushing.until_it_is_on_its_way().await;
                pushing.set_paused(true);
                tokio::time::sleep(PUT / 60).await;
            };
            tokio::pin!(syncing);
            tokio::select! { biased;
                told = &mut syncing => told,
                () = pausing => syncing.now_or_never().expect("it is told"),
            }
        };
        assert!(matches!(told, Err(PushError::Paused)), "{told:?}");
        pushing.assert_silent(&bench).await;
        // A sync in the middle of a batch that nobody waits for fails at once, too.
        pushing.set_paused(false);
        pushing.until_it_is_on_its_way().await;
        pushing.set_paused(true);
        let told = tokio::time::timeout(Duration::from_secs(1), pushing.sync()).await.expect("it is told");
        assert!(matches!(told, Err(PushError::Paused)), "{told:?}");
        pushing.assert_silent(&bench).await;
        pushing.set_paused(false);
        pushing.sync().await.unwrap();
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench, 0).await;
    });
}

#[test]
fn a_paused_upload_reports_no_trouble_with_an_absent_store() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        pushing.store.is_away.store(true, Relaxed);
        let mut state = pushing.pusher().state();
        state.wait_for(|state| state.trouble.is_some()).await.unwrap();
        pushing.set_paused(true);
        pushing.assert_silent(&bench).await;
        // The trouble is back, because its cause is.
        pushing.set_paused(false);
        state.wait_for(|state| state.trouble.is_some()).await.unwrap();
        pushing.store.is_away.store(false, Relaxed);
        pushing.sync().await.unwrap();
        assert!(state.borrow().trouble.is_none());
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench, 0).await;
    });
}

#[test]
fn a_collection_frees_space_for_pending_uploads() {
    for is_waited_for in [false, true] {
        let bench = Bench::new();
        run(async {
            let pushing = Pushing::begin(&bench).await;
            pushing.sync().await.unwrap();
            pushing.write(1).await;
            pushing.sync().await.unwrap();
            // No version needs the first data any longer, and half of the next batch fits beside it.
            let room = pushing.store.held().await.unwrap() + BLOCKS * BLOCK_BYTES / 2;
            pushing.store.room.store(room, Relaxed);
            pushing.write(2).await;
            let pushed = async {
                match is_waited_for {
                    true => pushing.sync().await.unwrap(),
                    false => pushing.until_all_is_up().await,
                }
            };
            let collected = async {
                pushing.pusher().until_full().await;
                tokio::time::sleep(DAY).await;
                assert!(pushing.volume.has_unsent(), "there is no room");
                pushing.store.asked.lock().clear();
                let collected = pushing.pusher().collect().await.unwrap();
                let asked = pushing.store.asked.lock().first().copied();
                assert_eq!(asked, Some(Asked::Delete), "the last room is for the collection's own root");
                collected
            };
            let both = async { tokio::join!(collected, pushed) };
            let (collected, ()) = tokio::time::timeout(2 * DAY, both).await.expect("it gets on");
            assert!(collected.bytes_freed >= BLOCKS * BLOCK_BYTES, "{collected:?}");
            assert!(!pushing.pusher().state().borrow().is_full);
            pushing.volume.shut_down().await.unwrap();
            assert_all_there(&bench, 2).await;
        });
    }
}

#[test]
fn an_abandoned_collection_never_starts() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        pushing.sync().await.unwrap();
        pushing.write(1).await;
        pushing.store.is_away.store(true, Relaxed);
        let pushed = async {
            tokio::time::sleep(DAY).await;
            pushing.store.is_away.store(false, Relaxed);
            pushing.until_all_is_up().await;
        };
        let collected = async {
            let mut state = pushing.pusher().state();
            state.wait_for(|state| state.trouble.is_some()).await.unwrap();
            tokio::time::timeout(DAY / 2, pushing.pusher().collect()).await
        };
        let (collected, ()) = tokio::join!(collected, pushed);
        collected.expect_err("it waits for its turn, and is given up");
        let names = bench.store.names();
        tokio::time::sleep(DAY).await;
        assert_eq!(bench.store.names(), names);
        assert!(pushing.pusher().collect().await.unwrap().deleted > 0);
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench, 1).await;
    });
}
