//! Data that a store gives late or never neither blocks other data nor makes a reader wait forever. Data that does not fit the
//! cache is not fetched again and again.

use crate::bench::layer::{Layer, Layered};
use crate::bench::world::{ROUND_TRIP, World, are_local, read, until};
use crate::bench::{Bench, close, run};
use async_trait::async_trait;
use holdall_core::device::{BlockDevice, DeviceError, Durability};
use holdall_core::ext4::Kind;
use holdall_core::format::id::ObjectKind;
use holdall_core::map::{Content, Map, Objects, PageCache};
use holdall_core::pull::Class;
use holdall_core::store::{Fetched, Store, StoreError};
use holdall_core::units::BlockRange;
use holdall_core::volume::{Volume, VolumeDevice};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A store that refuses some bytes of one object, and gives everything else.
struct Stubborn {
    store: Arc<dyn Store>,
    refused: Mutex<Option<(String, Range<u64>)>>,
    /// Reports the bytes as damaged; otherwise reports itself as busy.
    is_damaged: bool,
    tries: AtomicU64,
    is_mended: AtomicBool,
}

impl Stubborn {
    fn new(store: Arc<dyn Store>, is_damaged: bool) -> Arc<Layered<Self>> {
        let (refused, tries, is_mended) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Layered(Self { store, refused, is_damaged, tries, is_mended }))
    }

    /// From now on refuses the bytes that hold a block.
    async fn refuse(&self, volume: &Volume, block: u64) {
        let (_, content) = volume.map().look_up(BlockRange::new(block, 1)).await.unwrap()[0];
        let Content::Frame(frame) = content else { panic!("block {block} is zero") };
        let from = u64::from(frame.offset);
        let bytes = from..from + u64::from(frame.stored_len);
        *self.refused.lock().unwrap() = Some((frame.segment.name(ObjectKind::Segment), bytes));
    }
}

#[async_trait]
impl Layer for Stubborn {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        tokio::time::sleep(ROUND_TRIP).await;
        let refused = self.refused.lock().unwrap().clone();
        let is_meant = |(object, bytes): &(String, Range<u64>)| {
            let asked = range.clone().unwrap_or(0..u64::MAX);
            object == name && asked.start < bytes.end && bytes.start < asked.end
        };
        if refused.as_ref().is_some_and(is_meant) && !self.is_mended.load(Relaxed) {
            self.tries.fetch_add(1, Relaxed);
            return Err(match self.is_damaged {
                true => StoreError::Damaged { name: name.to_owned(), reason: "it is cut short".into() },
                false => StoreError::Busy { reason: "it has its reasons".into(), retry_after: None },
            });
        }
        self.store.get(name, range).await
    }
}

const FILES: usize = 2000;
/// The most blocks in one frame.
const FRAME_BLOCKS: u64 = 4;

fn world() -> World {
    World::of(|source| {
        for number in 0..FILES {
            let directory = source.join(format!("directory {}", number % 40));
            std::fs::create_dir_all(&directory).unwrap();
            let content: Vec<u8> = (0..20_000).map(|at| (at * 7 + number * 13 + at / 256) as u8).collect();
            std::fs::write(directory.join(format!("file {number}")), content).unwrap();
        }
        let large: Vec<u8> =
            (0..16 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(source.join("large"), large).unwrap();
    })
}

async fn read_one(volume: &Arc<Volume>, block: u64) -> Result<(), DeviceError> {
    VolumeDevice(volume.clone()).read(BlockRange::new(block, 1).bytes()).wait().await.map(drop)
}

#[test]
fn a_refused_block_fails_in_time_while_others_are_read() {
    let world = world();
    let large = world.place("/large").0[0].1;
    let (lost, others) = (large.start + 2000, large.start + 3000);
    run(async {
        let store = Stubborn::new(world.store(), false);
        let volume = world.open(1, store.clone()).await;
        until(&volume, |volume| volume.status().has_metadata).await;
        store.refuse(&volume, lost).await;
        let reading = volume.clone();
        let others = tokio::spawn(async move {
            for at in 0..600 {
                read(&reading, BlockRange::new(others + at, 1)).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        for bounds in [60..=63, 0..=3, 0..=3] {
            let begun = Instant::now();
            let outcome = read_one(&volume, lost).await;
            assert!(matches!(outcome, Err(DeviceError::Unavailable(_))), "{outcome:?}");
            let took = begun.elapsed().as_secs();
            assert!(bounds.contains(&took), "{took} s");
        }
        // No reader waits for it any longer, so no request is sent.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let tries = store.tries.load(Relaxed);
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(store.tries.load(Relaxed), tries);
        store.is_mended.store(true, Relaxed);
        read(&volume, BlockRange::new(lost, 1)).await;
        others.abort();
        close(volume).await;
    });
}

#[test]
fn a_reader_retries_a_failed_background_pull_at_once() {
    let world = world();
    let block = world.place("/large").0[0].1.start + 2000;
    run(async {
        let store = Stubborn::new(world.store(), false);
        let volume = world.open(1, store.clone()).await;
        until(&volume, |volume| volume.status().has_metadata).await;
        store.refuse(&volume, block).await;
        volume.puller().want(Class::Pinned, BlockRange::new(block, 1));
        // By now it waits at least half a minute between two tries.
        tokio::time::sleep(Duration::from_secs(600)).await;
        store.is_mended.store(true, Relaxed);
        let begun = Instant::now();
        read(&volume, BlockRange::new(block, 1)).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        close(volume).await;
    });
}

#[test]
fn damaged_metadata_does_not_block_other_metadata() {
    let world = world();
    let needed = world.needed();
    let walk = world.walk();
    let mut tables = walk.metadata().into_iter().filter(|(_, kind)| *kind == Kind::InodeTable);
    let lost = tables.next_back().unwrap().0.end - 1;
    run(async {
        let volume = world.open_from_afar().await;
        let store = Stubborn::new(world.store(), true);
        store.refuse(&volume, lost).await;
        close(volume).await;
        let volume = world.open(2, store.clone()).await;
        let near = BlockRange::new(lost - lost % FRAME_BLOCKS, FRAME_BLOCKS);
        let others: Vec<_> = needed.iter().flat_map(|range| range.without(&near)).collect();
        until(&volume, |volume| are_local(volume, &others)).await;
        assert!(!volume.status().has_metadata, "not all of it");
        let before = store.tries.load(Relaxed);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let tries = store.tries.load(Relaxed) - before;
        assert!((10..200).contains(&tries), "{tries} tries in ten minutes");
        store.is_mended.store(true, Relaxed);
        until(&volume, |volume| volume.status().has_metadata).await;
        close(volume).await;
    });
}

#[test]
fn reports_a_cache_smaller_than_the_metadata_and_stops_refetching() {
    let mut world = world();
    let bytes: u64 = world.needed().iter().map(BlockRange::byte_len).sum();
    world.bench.limits.cache_bytes = bytes * 3 / 4;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().metadata_without_room_bytes > 0).await;
        assert_eq!(volume.status().least_cache_bytes, 2 * bytes);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = volume.status().received_bytes.total();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let received = volume.status().received_bytes.total() - before;
        assert!(received < 2 * bytes, "{received} in an hour in which nobody reads, for {bytes} of metadata");
        close(volume).await;
    });
}

#[test]
fn does_not_refetch_a_file_index_that_exceeds_the_cache() {
    let part = |kind: &[u8; 4], len: usize| {
        let body: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        [&(len as u32 + 8).to_be_bytes(), kind.as_slice(), &body].concat()
    };
    let mut world = World::of(|source| {
        let boxes = (0..5).map(|_| part(b"moov", 15 << 20));
        let film = [part(b"ftyp", 8)].into_iter().chain(boxes).collect::<Vec<_>>().concat();
        std::fs::write(source.join("film.mp4"), film).unwrap();
    });
    world.bench.limits.cache_bytes = 16 << 20;
    let film = world.place("/film.mp4");
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        read(&volume, film.of(0..4096)[0]).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let received = volume.status().received_bytes.total();
        assert!(received < 64 << 20, "{received}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(volume.status().received_bytes.total() - received < 1 << 20);
        close(volume).await;
    });
}

/// A store that gives one answer late.
struct Late {
    store: Arc<dyn Store>,
    is_holding: AtomicBool,
    held: Notify,
    release: Notify,
}

#[async_trait]
impl Layer for Late {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let answer = self.store.get(name, range).await;
        if self.is_holding.swap(false, Relaxed) {
            self.held.notify_one();
            self.release.notified().await;
        }
        answer
    }
}

#[test]
fn a_map_read_late_does_not_replace_a_newer_one() {
    let bench = Bench::new();
    run(async {
        // The root of each opening. Each opening writes another version of the same block.
        let mut roots = Vec::new();
        for version in 0..3 {
            let volume = bench.open(0).await.unwrap();
            roots.push(volume.opened_root().clone());
            let device = VolumeDevice(volume.clone());
            device.write(0, &[version; 4096], Durability::Forced).wait().await.unwrap();
            volume.pusher().unwrap().sync().await.unwrap();
            close(volume).await;
        }
        let (is_holding, held, release) = (AtomicBool::new(true), Notify::new(), Notify::new());
        let late =
            Arc::new(Layered(Late { store: Arc::new(bench.store.clone()), is_holding, held, release }));
        let objects = Arc::new(Objects::new(late.clone(), bench.sealer.clone(), PageCache::none()));
        let map = Arc::new(Map::unread(objects.clone(), &roots[1]));
        let loading = tokio::spawn({
            let map = map.clone();
            async move { map.load().await }
        });
        late.held.notified().await;
        map.rebase(Map::open(objects.clone(), &roots[2]).await.unwrap());
        late.release.notify_one();
        loading.await.unwrap().unwrap();
        let block = BlockRange::new(0, 1);
        let newer = Map::open(objects, &roots[2]).await.unwrap();
        assert_eq!(map.look_up(block).await.unwrap(), newer.look_up(block).await.unwrap());
        assert_eq!(map.tail(), roots[2].tail);
    });
}
