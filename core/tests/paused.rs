//! Pushing that is switched off while a batch is on its way, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "other tests use the rest")]
mod bench;

use async_trait::async_trait;
use bench::layer::{Layer, Layered, away};
use bench::{Bench, run};
use bytes::Bytes;
use futures_util::FutureExt;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::push::PushError;
use holdall_core::sim::store::SimStore;
use holdall_core::store::{Etag, Store, StoreError, When};
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Access, Over, Volume, VolumeDevice};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A put takes so long, however many there are.
const PUT: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Blocks of a batch that takes several segments.
const BLOCKS: u64 = 24;

/// A store that takes its time.
struct Slow {
    store: SimStore,
    /// Puts that have begun.
    begun: AtomicU32,
    is_away: AtomicBool,
}

#[async_trait]
impl Layer for Slow {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.begun.fetch_add(1, Relaxed);
        tokio::time::sleep(PUT).await;
        if self.is_away.load(Relaxed) {
            return Err(away());
        }
        self.store.put(name, body, when).await
    }
}

struct Pushing {
    store: Arc<Layered<Slow>>,
    volume: Arc<Volume>,
}

impl Pushing {
    /// Something to push.
    async fn begin(bench: &Bench) -> Self {
        let store = Arc::new(Layered(Slow {
            store: bench.store.clone(),
            begun: AtomicU32::new(0),
            is_away: AtomicBool::new(false),
        }));
        let write = Access::Write { over: Over::Nobody, mounted: false };
        let volume = bench.open_on(store.clone(), 0, write).await.unwrap();
        for block in 0..BLOCKS {
            let device = VolumeDevice(volume.clone());
            device.write(block * BLOCK_BYTES, &noise(block), Durability::Forced).wait().await.unwrap();
        }
        Self { store, volume }
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
        self.volume.pusher().unwrap().set_paused(paused);
    }

    async fn sync(&self) -> Result<(), PushError> {
        self.volume.pusher().unwrap().sync().await.map(drop)
    }

    /// Nothing goes to the store, for a day.
    async fn assert_silent(&self, bench: &Bench) {
        let now = (self.begun(), bench.store.names());
        tokio::time::sleep(DAY).await;
        assert_eq!((self.begun(), bench.store.names()), now);
        let state = self.volume.pusher().unwrap().state();
        assert!(state.borrow().outgoing.is_empty() && state.borrow().trouble.is_none());
    }
}

/// What does not get smaller.
fn noise(block: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK_BYTES as usize];
    StdRng::seed_from_u64(block).fill_bytes(&mut data);
    data
}

/// Another computer has all of it from the store.
async fn assert_all_there(bench: &Bench) {
    let elsewhere = bench.elsewhere();
    let volume = elsewhere.take(1).await.unwrap();
    for block in 0..BLOCKS {
        let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        let lease = VolumeDevice(volume.clone()).read(range).wait().await.unwrap();
        let mut data = vec![0; BLOCK_BYTES as usize];
        lease.copy_to(&mut data).unwrap();
        assert_eq!(data, noise(block), "block {block}");
    }
    volume.shut_down().await.unwrap();
}

#[test]
fn what_is_on_its_way_is_cut_off_at_once_and_goes_on_where_it_was() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        pushing.until_it_is_on_its_way().await;
        pushing.set_paused(true);
        pushing.assert_silent(&bench).await;
        assert!(pushing.volume.has_unsent());
        pushing.set_paused(false);
        while pushing.volume.has_unsent() {
            tokio::time::sleep(PUT).await;
        }
        let segments = || -> BTreeSet<String> {
            bench.store.names().into_iter().filter(|name| name.starts_with("seg/")).collect()
        };
        let put = segments();
        pushing.volume.pusher().unwrap().collect().await.unwrap();
        assert!(put.is_subset(&segments()), "what had arrived before was not put once more");
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench).await;
    });
}

#[test]
fn who_waits_for_an_upload_that_is_switched_off_is_told_at_once() {
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
        // So is who asks in the middle of a batch that nobody has waited for.
        pushing.set_paused(false);
        pushing.until_it_is_on_its_way().await;
        pushing.set_paused(true);
        let told = tokio::time::timeout(Duration::from_secs(1), pushing.sync()).await.expect("it is told");
        assert!(matches!(told, Err(PushError::Paused)), "{told:?}");
        pushing.assert_silent(&bench).await;
        pushing.set_paused(false);
        pushing.sync().await.unwrap();
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench).await;
    });
}

#[test]
fn what_is_switched_off_has_no_trouble_with_a_store_that_is_away() {
    let bench = Bench::new();
    run(async {
        let pushing = Pushing::begin(&bench).await;
        pushing.store.is_away.store(true, Relaxed);
        let mut state = pushing.volume.pusher().unwrap().state();
        state.wait_for(|state| state.trouble.is_some()).await.unwrap();
        pushing.set_paused(true);
        pushing.assert_silent(&bench).await;
        // It comes back with what it is about.
        pushing.set_paused(false);
        state.wait_for(|state| state.trouble.is_some()).await.unwrap();
        pushing.store.is_away.store(false, Relaxed);
        pushing.sync().await.unwrap();
        assert!(state.borrow().trouble.is_none());
        pushing.volume.shut_down().await.unwrap();
        assert_all_there(&bench).await;
    });
}
