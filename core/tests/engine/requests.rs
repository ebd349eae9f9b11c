//! How many requests the store gets: each costs a round trip, and money with most providers.

use crate::bench::layer::{Layer, Layered, Narrow, away, far};
use crate::bench::{Bench, GEOMETRY, LIMITS, ROUND_TRIP, close, device, get, put, run, write};
use async_trait::async_trait;
use futures_util::StreamExt;
use holdall_core::device::{BlockDevice, Durability, Piece, Zeroing};
use holdall_core::disk::real::Directory;
use holdall_core::format::root::Geometry;
use holdall_core::map::PageCache;
use holdall_core::store::meter::{ByKind, Meter};
use holdall_core::store::{Store, StoreError};
use holdall_core::units::{BlockRange, ChunkIndex};
use holdall_core::volume::{self, Access, Environment, Pinned, TakeOver, Volume, VolumeDevice, VolumeLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

fn asked(volume: &Volume) -> ByKind {
    volume.status().requests
}

fn since(volume: &Volume, before: ByKind) -> ByKind {
    asked(volume) - before
}

#[test]
fn an_idle_drive_asks_for_nothing() {
    const HOURS: u64 = 12;
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        let before = asked(&volume);
        tokio::time::sleep(Duration::from_secs(HOURS * 3600)).await;
        let ByKind { get, put, head, list, delete } = since(&volume, before);
        assert_eq!((put, head, list, delete), (0, 0, 0, 0));
        assert!(get <= HOURS * 12, "one look at HEAD in five minutes at most: {get}");
    });
}

#[test]
fn a_small_commit_is_a_segment_a_root_and_a_swap() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        for round in 1..5 {
            let before = asked(&volume);
            for block in 0..4 {
                put(&volume, block, round).await;
            }
            volume.pusher().unwrap().sync().await.unwrap();
            assert_eq!(since(&volume, before), ByKind { put: 3, ..ByKind::default() }, "round {round}");
        }
        let before = asked(&volume);
        volume.pusher().unwrap().sync().await.unwrap();
        assert_eq!(since(&volume, before), ByKind::default(), "nothing new is nothing to say");
    });
}

#[test]
fn only_collections_list_objects() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        let device = VolumeDevice(volume.clone());
        for round in 0..30 {
            for block in 0..20 {
                put(&volume, block * 7, round).await;
            }
            device.zero(0..40_960, Zeroing::Trim, Durability::Forced).wait().await.unwrap();
            volume.pusher().unwrap().sync().await.unwrap();
        }
        assert!(!volume.map().pages().is_empty(), "the map was written at least once");
        volume.pusher().unwrap().snapshot("kept").await.unwrap();
        volume.pusher().unwrap().drop_snapshot("kept").await.unwrap();
        volume.settle().await.unwrap();
        assert!(volume.evict(&(0..16).map(ChunkIndex).collect::<Vec<_>>()).await.unwrap() > 0);
        assert_eq!(get(&volume, 70).await, 29);
        let requests = asked(&volume);
        assert!(requests.get > 0 && requests.put > 60, "{requests:?}");
        assert_eq!((requests.list, requests.delete), (0, 0));
        volume.pusher().unwrap().collect().await.unwrap();
        let collected = since(&volume, requests);
        assert!(collected.list > 0 && collected.delete > 0, "{collected:?}");
        close(volume).await;
        let volume = bench.open(1).await.unwrap();
        assert_eq!(get(&volume, 70).await, 29);
        assert_eq!(asked(&volume).list, 0);
    });
}

/// A drive of 1 TiB with data all over it, mostly in map pages and partly in a tail. Its caches are sparse files on the real
/// disk.
struct Large {
    bench: Bench,
    dir: TempDir,
}

impl Large {
    fn new() -> Self {
        const TIB_BLOCKS: u64 = 1 << 28;
        let limits = VolumeLimits { tail_segments: 32, ..LIMITS };
        let geometry = Geometry { segment_bytes: GEOMETRY.segment_bytes, ..Geometry::standard(TIB_BLOCKS) };
        let large = Self { bench: Bench::of(geometry, limits), dir: tempfile::tempdir().unwrap() };
        run(async {
            let volume = large.open(0, Arc::new(large.bench.store.clone())).await;
            for round in 0..60 {
                for place in 0..8 {
                    let block = (round * 8 + place) * (TIB_BLOCKS / 500);
                    write(&volume, block, 7, Durability::Ordered).await;
                }
                volume.pusher().unwrap().sync().await.unwrap();
            }
            let (pages, tail) = (volume.map().pages().len(), volume.map().tail().len());
            assert!(pages > 200 && tail > 10, "{pages} pages, a tail of {tail}");
            close(volume).await;
        });
        large
    }

    async fn open(&self, index: usize, store: Arc<dyn Store>) -> Arc<Volume> {
        let path = self.dir.path().join(index.to_string());
        let disk = Arc::new(Directory::create(&path).unwrap());
        let cache = Arc::new(Directory::create(&path.join("cache")).unwrap());
        let journal = Arc::new(Directory::create(&path.join("journal")).unwrap());
        let meter = Meter::default();
        let environment = Environment {
            state: disk,
            journal,
            cache,
            store: meter.on(store),
            meter,
            sealer: self.bench.sealer.clone(),
            pages: PageCache::none(),
        };
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        volume::open(environment, self.bench.drive, device(index), access, self.bench.limits).await.unwrap()
    }

    /// Opens the drive in a distant store. Returns the round trips, the requests and the volume.
    async fn open_from_afar(&self, index: usize) -> (f64, ByKind, Arc<Volume>) {
        let begun = Instant::now();
        let volume = self.open(index, far(Arc::new(self.bench.store.clone()), ROUND_TRIP)).await;
        (begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64(), asked(&volume), volume)
    }
}

#[test]
fn a_large_drive_opens_in_three_round_trips_or_four_after_another_device() {
    let large = Large::new();
    run(async {
        let openings =
            [(0, 1, "where it was written"), (1, 2, "on another device"), (1, 1, "there once more")];
        for (index, put, what) in openings {
            let (trips, requests, volume) = large.open_from_afar(index).await;
            // HEAD; its root; then the swap, in parallel with the directories of the tail. After another device, a root that keeps
            // that device's version is put before the swap.
            assert!(trips < 2.01 + put as f64, "{what}: {trips} round trips, {requests:?}");
            let tail = volume.map().tail().len() as u64;
            assert_eq!(requests, ByKind { get: 2 + tail, put, ..ByKind::default() }, "{what}");
            close(volume).await;
        }
    });
}

#[test]
fn opening_after_anothers_changes_costs_only_those_changes() {
    let large = Large::new();
    run(async {
        let volume = large.open(1, Arc::new(large.bench.store.clone())).await;
        put(&volume, 5000, 9).await;
        close(volume).await;
        let (trips, requests, volume) = large.open_from_afar(0).await;
        // As above, and the version known before in parallel; then the map pages that differ, all in one round trip.
        assert!(trips < 4.01, "{trips} round trips, {requests:?}");
        let tail = volume.map().tail().len() as u64;
        assert_eq!((requests.put, requests.list, requests.head), (2, 0, 0));
        assert!(requests.get <= 3 + 2 * tail + 1, "{requests:?} with a tail of {tail}, and one page");
        until_surveyed(&volume).await;
        let (before, begun) = (asked(&volume), Instant::now());
        assert_eq!(get(&volume, 5000).await, 9);
        assert_eq!(
            since(&volume, before),
            ByKind { get: 1, ..ByKind::default() },
            "the tail knows the frame"
        );
        assert!(begun.elapsed() < ROUND_TRIP * 101 / 100);
        close(volume).await;
    });
}

/// Waits until the survey knows that there is no file system whose metadata would be pulled first.
async fn until_surveyed(volume: &Volume) {
    while !volume.status().has_metadata {
        tokio::time::sleep(ROUND_TRIP).await;
    }
}

/// Blocks of data that a drive of [`filled`] begins with (32 MiB).
const FILLED: u64 = 8192;

/// A drive with data that does not compress, on devices without local data.
fn filled() -> Large {
    let journal = holdall_core::journal::Limits { file_bytes: 16 << 20, files: 8, reserve_files: 2 };
    let limits =
        VolumeLimits { journal, cache_bytes: 1 << 30, batch_bytes: 16 << 20, tail_segments: 32, ..LIMITS };
    let bench = Bench::of(Geometry::standard(4 * FILLED), limits);
    let large = Large { bench, dir: tempfile::tempdir().unwrap() };
    run(async {
        let volume = large.open(0, Arc::new(large.bench.store.clone())).await;
        let device = VolumeDevice(volume.clone());
        for start in (0..FILLED).step_by(64) {
            let words = std::iter::repeat_with(|| holdall_core::entropy::u128().to_le_bytes());
            let data: Vec<u8> = words.flatten().take(64 * 4096).collect();
            device.write(start * 4096, &data, Durability::Ordered).wait().await.unwrap();
            if start % 2048 == 0 {
                volume.pusher().unwrap().sync().await.unwrap();
            }
        }
        close(volume).await;
    });
    Large { bench: large.bench.elsewhere(), dir: tempfile::tempdir().unwrap() }
}

async fn read(volume: &Arc<Volume>, start: u64, blocks: u64) {
    let lease =
        VolumeDevice(volume.clone()).read(start * 4096..(start + blocks) * 4096).wait().await.unwrap();
    assert_eq!(lease.pieces().iter().map(Piece::len).sum::<u64>(), blocks * 4096);
}

#[test]
fn sequential_reads_take_few_round_trips() {
    let large = filled();
    run(async {
        let (_, _, volume) = large.open_from_afar(0).await;
        until_surveyed(&volume).await;
        let (before, begun) = (asked(&volume), Instant::now());
        for start in (0..FILLED).step_by(32) {
            read(&volume, start, 32).await;
        }
        let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
        let requests = since(&volume, before).get;
        assert!(trips < 12.0, "{trips} round trips for {} reads", FILLED / 32);
        assert!(requests < 80, "{requests} requests for 32 MiB");
        close(volume).await;
    });
}

/// A file in the middle of a drive, read from beginning to end as the kernel does it for `cat`: 128 KiB at a time, with the next
/// read in flight.
#[test]
fn reads_a_file_near_link_speed_and_fetches_little_more() {
    let large = filled();
    for blocks in [5000, 6000, 7000] {
        let device = Large { bench: large.bench.elsewhere(), dir: tempfile::tempdir().unwrap() };
        run(async {
            let link = Narrow::new(Arc::new(large.bench.store.clone()));
            let volume = device.open(0, link.clone()).await;
            let (begun, before) = (Instant::now(), link.sent_bytes());
            let reads = (0..blocks).step_by(32).map(|start| read(&volume, start, 32));
            futures_util::stream::iter(reads).buffered(2).collect::<()>().await;
            let took = begun.elapsed();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let (bytes, sent) = (blocks * 4096, link.sent_bytes() - before);
            let carried = Duration::from_millis(bytes / Narrow::BYTES_PER_MS);
            let share = carried.as_secs_f64() / took.as_secs_f64();
            eprintln!("{blocks} blocks: {share:.3} of the link, {:.2} fetched", sent as f64 / bytes as f64);
            assert!(share > 0.8, "{share} of the link");
            assert!(sent < bytes * 3 / 2, "{sent} bytes for {bytes}");
            close(volume).await;
        });
    }
}

#[test]
fn an_isolated_read_fetches_one_frame() {
    const READS: u64 = 100;
    let large = filled();
    run(async {
        let (_, _, volume) = large.open_from_afar(0).await;
        until_surveyed(&volume).await;
        let (before, begun) = (volume.status(), Instant::now());
        // At unequal distances.
        for number in 0..READS {
            read(&volume, number * number * 1013 % FILLED, 1).await;
        }
        let after = volume.status();
        let frame_bytes = Geometry::standard(FILLED).frame_blocks * 4096;
        assert!(after.received_bytes.total() - before.received_bytes.total() <= READS * (frame_bytes + 100));
        assert!(after.requests.get - before.requests.get <= READS);
        assert!(begun.elapsed() <= ROUND_TRIP * (READS as u32 + 1), "and waits one round trip for it");
        close(volume).await;
    });
}

#[test]
fn concurrent_misses_in_one_frame_cost_one_request() {
    let large = filled();
    run(async {
        let (_, _, volume) = large.open_from_afar(0).await;
        until_surveyed(&volume).await;
        let frame_blocks = Geometry::standard(FILLED).frame_blocks;
        for round in 0..20 {
            let first = (round * round * 1013 % FILLED) / frame_blocks * frame_blocks;
            let (before, begun) = (asked(&volume), Instant::now());
            // Backwards and apart, so that they do not look like one sequential read.
            let blocks = (0..frame_blocks).rev().step_by(5);
            futures_util::future::join_all(blocks.map(|block| read(&volume, first + block, 1))).await;
            assert!(since(&volume, before).get <= 1, "round {round}");
            assert!(begun.elapsed() <= ROUND_TRIP, "round {round}");
        }
        close(volume).await;
    });
}

/// A store that is away at times.
struct Sometimes {
    store: Arc<dyn Store>,
    is_away: AtomicBool,
}

impl Sometimes {
    fn new(store: Arc<dyn Store>) -> Arc<Layered<Self>> {
        Arc::new(Layered(Self { store, is_away: AtomicBool::new(false) }))
    }
}

#[async_trait]
impl Layer for Sometimes {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if self.is_away.load(Relaxed) { Err(away()) } else { Ok(()) }
    }
}

/// This many frames, none beside another. One request fetches each.
fn scattered() -> impl Iterator<Item = BlockRange> {
    (0..300).map(|run| BlockRange::new(1000 + run * 20, 4))
}

#[test]
fn pulls_scattered_runs_with_one_request_each() {
    let large = filled();
    run(async {
        let volume = large.open(0, far(Arc::new(large.bench.store.clone()), Duration::from_millis(50))).await;
        until_surveyed(&volume).await;
        let before = asked(&volume);
        volume.set_pinned(Pinned::runs(scattered())).unwrap();
        until_here(&volume).await;
        let requests = since(&volume, before).get;
        assert!((100..=320).contains(&requests), "{requests} requests for 300 runs");
        close(volume).await;
    });
}

/// Data in scattered writes, so that each frame takes a request. A read waits for at most one other request while all frames are
/// pulled in the background.
#[test]
fn a_reader_waits_for_one_background_request_at_most() {
    let large = filled();
    run(async {
        let volume = large.open(0, Arc::new(large.bench.store.clone())).await;
        let frames: Vec<u64> = (0..256).map(|frame| frame * 4).collect();
        // Written in an order that puts no two neighbours side by side in a segment.
        for frame in frames.iter().map(|frame| frame * 37 % 1024) {
            let word = holdall_core::entropy::u128().to_le_bytes();
            let data: Vec<u8> = word.iter().copied().cycle().take(4 * 4096).collect();
            let device = VolumeDevice(volume.clone());
            device.write(frame * 4096, &data, Durability::Ordered).wait().await.unwrap();
            if frame % 16 == 0 {
                volume.pusher().unwrap().sync().await.unwrap();
            }
        }
        close(volume).await;
    });
    let large = Large { bench: large.bench.elsewhere(), dir: tempfile::tempdir().unwrap() };
    run(async {
        let (_, _, volume) = large.open_from_afar(0).await;
        until_surveyed(&volume).await;
        volume.set_pinned(Pinned::runs([BlockRange::new(0, 1024)])).unwrap();
        tokio::time::sleep(ROUND_TRIP / 2).await;
        let last_of_each = [1020, 511, 764];
        let are_missing = last_of_each.map(|block| BlockRange::new(block, 1));
        assert_eq!(volume.missing_blocks(&are_missing), 3, "they came before anybody read them");
        let begun = Instant::now();
        futures_util::future::join_all(last_of_each.map(|block| read(&volume, block, 1))).await;
        assert!(begun.elapsed() <= ROUND_TRIP * 2, "{:?}", begun.elapsed());
        close(volume).await;
    });
}

#[test]
fn readers_that_left_delay_nobody_when_the_store_returns() {
    let large = filled();
    run(async {
        let (link, volume) = open_then_away(&large).await;
        for run in scattered() {
            let reader = VolumeDevice(volume.clone());
            let reading = async move { reader.read(run.bytes()).wait().await.map(|_| ()) };
            assert!(tokio::time::timeout(Duration::from_secs(2), reading).await.is_err(), "it waits");
        }
        let (before, begun) = (asked(&volume), Instant::now());
        link.is_away.store(false, Relaxed);
        read(&volume, FILLED - 4, 4).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(300)).await;
        let requests = since(&volume, before).get;
        assert!(requests < 20, "{requests} requests for one reader");
        close(volume).await;
    });
}

#[test]
fn a_reader_does_not_wait_for_a_pulls_retry() {
    let large = filled();
    run(async {
        let (link, volume) = open_then_away(&large).await;
        volume.set_pinned(Pinned::runs(scattered())).unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        link.is_away.store(false, Relaxed);
        // By now each pull waits at least half a minute before its next try.
        let begun = Instant::now();
        read(&volume, 1000, 4).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        // One answer tells all other pulls that the store is back.
        until_here(&volume).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        close(volume).await;
    });
}

/// A drive that is open and surveyed. Then its store goes away.
async fn open_then_away(large: &Large) -> (Arc<Layered<Sometimes>>, Arc<Volume>) {
    let link = Sometimes::new(Arc::new(large.bench.store.clone()));
    let volume = large.open(0, link.clone()).await;
    until_surveyed(&volume).await;
    link.is_away.store(true, Relaxed);
    (link, volume)
}

async fn until_here(volume: &Arc<Volume>) {
    let runs: Vec<_> = scattered().collect();
    while volume.missing_blocks(&runs) > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
