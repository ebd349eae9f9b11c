//! Pinned data arrives and stays: under a hostile scan, a smaller limit, another opening, and a store that goes away.

use crate::bench::layer::{Layer, Layered};
use crate::bench::{Bench, GEOMETRY, LIMITS, close, device, run};
use async_trait::async_trait;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::real::Directory;
use holdall_core::format::id::{ObjectId, ObjectKind};
use holdall_core::format::root::Geometry;
use holdall_core::map::PageCache;
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::meter::Meter;
use holdall_core::store::{Fetched, Store, StoreError};
use holdall_core::units::{BlockRange, ChunkIndex};
use holdall_core::volume::{self, Access, Environment, Pinned, TakeOver, Volume, VolumeDevice, VolumeLimits};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Blocks of the drive (32 MiB). The first half has data.
const BLOCKS: u64 = 8192;
const DATA: u64 = BLOCKS / 2;
const CACHE_BYTES: u64 = BLOCKS * 4096 / 4;
const REQUEST: u64 = 32;

/// A drive whose data is in the store, and two devices with caches on a real disk.
struct World {
    bench: Bench,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let geometry = Geometry { size_blocks: BLOCKS, page_blocks: 1024, ..GEOMETRY };
        let journal = holdall_core::journal::Limits { file_bytes: 4 << 20, files: 16, reserve_files: 2 };
        let limits = VolumeLimits { journal, cache_bytes: CACHE_BYTES, batch_bytes: 4 << 20, ..LIMITS };
        let world = Self {
            bench: Bench::of(geometry, limits),
            dir: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
        };
        run(async {
            let volume = world.open("seeder", Pinned::default()).await;
            for start in (0..DATA).step_by(REQUEST as usize) {
                write(&volume, start, REQUEST).await;
                if start % 512 == 0 {
                    volume.pusher().unwrap().sync().await.unwrap();
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            }
            close(volume).await;
        });
        world
    }

    /// Opens the drive on the second device, whose cache is empty at first.
    async fn open_here(&self, pinned: Pinned) -> Arc<Volume> {
        self.open("here", pinned).await
    }

    async fn open(&self, name: &str, pinned: Pinned) -> Arc<Volume> {
        self.open_on(Arc::new(self.bench.store.clone()), name, pinned).await
    }

    async fn open_on(&self, store: Arc<dyn Store>, name: &str, pinned: Pinned) -> Arc<Volume> {
        let directory = |part| Arc::new(Directory::create(&self.dir.path().join(name).join(part)).unwrap());
        let environment = Environment {
            state: directory("state"),
            journal: directory("journal"),
            cache: directory("cache"),
            store,
            meter: Meter::default(),
            sealer: self.bench.sealer.clone(),
            pages: PageCache::none(),
        };
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        let device = device(usize::from(name == "here"));
        let limits = self.bench.limits;
        volume::open_pinned(environment, self.bench.drive, device, access, limits, pinned).await.unwrap()
    }

    fn set_away(&self, away: bool) {
        let fail = if away { 1000 } else { 0 };
        self.bench.store.set_faults(StoreFaults { refused: fail, ..StoreFaults::default() });
    }
}

fn content(block: u64) -> Vec<u8> {
    (0..512_u64).flat_map(|word| (block * 1000 + word).to_le_bytes()).collect()
}

async fn write(volume: &Arc<Volume>, start: u64, blocks: u64) {
    let data: Vec<u8> = (start..start + blocks).flat_map(content).collect();
    VolumeDevice(volume.clone()).write(start * 4096, &data, Durability::Ordered).wait().await.unwrap();
}

async fn check(volume: &Arc<Volume>, start: u64, blocks: u64) {
    let lease =
        VolumeDevice(volume.clone()).read(start * 4096..(start + blocks) * 4096).wait().await.unwrap();
    let mut found = vec![0; (blocks * 4096) as usize];
    lease.copy_to(&mut found).unwrap();
    for (at, bytes) in found.chunks(4096).enumerate() {
        let block = start + at as u64;
        let expected = if block < DATA { content(block) } else { vec![0; 4096] };
        assert!(bytes == expected, "block {block}");
    }
}

/// Waits until everything pinned is here.
async fn settled(volume: &Volume) {
    let is_here = async {
        loop {
            let status = volume.pins_status();
            if status.is_counted && status.missing_bytes == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), is_here).await.unwrap();
}

async fn scan(volume: &Arc<Volume>) {
    for _ in 0..2 {
        for start in (0..DATA).step_by(REQUEST as usize) {
            check(volume, start, REQUEST).await;
        }
    }
}

/// Every third block of a part of the drive, so that each chunk also holds blocks that are not pinned.
fn pinned_runs() -> Vec<BlockRange> {
    (100..1000).step_by(3).map(|block| BlockRange::new(block, 1)).collect()
}

fn is_here(volume: &Volume, runs: &[BlockRange]) -> bool {
    volume.missing_blocks(runs) == 0
}

#[test]
fn pinned_blocks_survive_a_scan_and_unpinned_ones_do_not() {
    let world = World::new();
    run(async {
        let volume = world.open_here(Pinned::default()).await;
        let runs = pinned_runs();
        let metadata = BlockRange::new(500, 8);
        // By then the survey knows that there is no file system with other metadata.
        tokio::time::sleep(Duration::from_secs(10)).await;
        volume.cache().residents().keep(metadata);
        volume.set_pinned(Pinned::runs(runs.clone())).unwrap();
        settled(&volume).await;
        assert_eq!(volume.pins_status().pinned_bytes, runs.len() as u64 * 4096);
        assert_eq!(
            volume.cache_needed_bytes(),
            (runs.len() as u64 + 8 - volume_overlap(&runs, metadata)) * 4096
        );
        scan(&volume).await;
        let all: Vec<_> = (0..BLOCKS / 16).map(ChunkIndex).collect();
        // All other blocks of these chunks are evicted, both for lack of space and by command.
        volume.set_cache_limit(2 << 20);
        scan(&volume).await;
        let few = volume.status().cached_bytes;
        assert!(few <= 2 << 20 && is_here(&volume, &runs), "{few} bytes");
        assert!(volume.evict(&all).await.unwrap() > 0);
        assert!(is_here(&volume, &runs));
        assert_eq!(volume.status().cached_bytes, volume.cache_needed_bytes());
        volume.set_cache_limit(CACHE_BYTES);
        // All of it can be read while the store is away.
        world.set_away(true);
        for run in &runs {
            check(&volume, run.start, 1).await;
        }
        world.set_away(false);
        volume.puller().demand(metadata).await.unwrap();
        volume.set_pinned(Pinned::runs(runs[250..].to_vec())).unwrap();
        volume.evict(&all).await.unwrap();
        assert!(!is_here(&volume, &runs[..50]) && is_here(&volume, &runs[250..]));
        assert!(is_here(&volume, &[metadata]), "to unpin lets no metadata go");
        volume.set_pinned(Pinned::default()).unwrap();
        // Unpinned blocks also leave on their own once they do not fit.
        volume.set_cache_limit(1 << 20);
        scan(&volume).await;
        assert!(!is_here(&volume, &runs) && is_here(&volume, &[metadata]));
        close(volume).await;
    });
}

fn volume_overlap(runs: &[BlockRange], with: BlockRange) -> u64 {
    runs.iter().map(|run| run.intersect(&with).count()).sum()
}

#[test]
fn pinned_blocks_stay_from_the_start_of_the_next_opening() {
    let world = World::new();
    run(async {
        let runs = pinned_runs();
        let volume = world.open_here(Pinned::runs(runs.clone())).await;
        settled(&volume).await;
        scan(&volume).await;
        close(volume).await;
        let volume = world.open_here(Pinned::runs(runs.clone())).await;
        world.set_away(true);
        volume.set_cache_limit(2 << 20);
        volume.evict_all().await.unwrap();
        assert!(is_here(&volume, &runs) && volume.status().cached_bytes < CACHE_BYTES / 2);
        world.set_away(false);
        close(volume).await;
    });
}

#[test]
fn pinning_a_whole_drive_keeps_its_holes_and_new_blocks() {
    let world = World::new();
    run(async {
        let volume = world.open_here(Pinned::default()).await;
        volume.set_cache_limit(64 << 20);
        assert_eq!(volume.cache_needed_with(&Pinned::whole()).await.unwrap(), DATA * 4096);
        volume.set_pinned(Pinned::whole()).unwrap();
        settled(&volume).await;
        assert_eq!(volume.pins_status().pinned_bytes, DATA * 4096);
        let requests = world.bench.store.requests();
        world.set_away(true);
        volume.evict_all().await.unwrap();
        for start in (0..BLOCKS).step_by(64) {
            check(&volume, start, 64).await;
        }
        write(&volume, BLOCKS - 1, 1).await;
        world.set_away(false);
        volume.pusher().unwrap().sync().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        volume.evict_all().await.unwrap();
        assert!(is_here(&volume, &[volume.all_blocks()]), "what is new is pinned as well");
        assert!(world.bench.store.requests() > requests);
        volume.set_pinned(Pinned::default()).unwrap();
        assert!(volume.evict_all().await.unwrap() >= DATA * 4096);
        close(volume).await;
    });
}

#[test]
fn pins_wait_for_a_pause_and_an_absent_store() {
    let world = World::new();
    run(async {
        let volume = world.open_here(Pinned::default()).await;
        let runs = pinned_runs();
        volume.puller().set_background(false);
        volume.set_pinned(Pinned::runs(runs.clone())).unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(!is_here(&volume, &runs[..1]), "a pause holds for pins too");
        world.set_away(true);
        volume.puller().set_background(true);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert!(!is_here(&volume, &runs[..1]));
        world.set_away(false);
        settled(&volume).await;
        assert!(is_here(&volume, &runs));
        close(volume).await;
    });
}

/// A store that withholds some objects, as with archived ones.
struct Withholding {
    store: SimStore,
    withheld: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Layer for Withholding {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        if self.withheld.lock().unwrap().contains(name) {
            return Err(StoreError::Denied { reason: "it is archived (InvalidObjectState)".into() });
        }
        self.store.get(name, range).await
    }
}

#[test]
fn withheld_objects_do_not_block_other_pulls() {
    let world = World::new();
    run(async {
        let names = world.bench.store.names();
        let segments = names
            .into_iter()
            .filter(|name| ObjectId::parse(name).is_some_and(|(kind, _)| kind == ObjectKind::Segment));
        let mut segments: Vec<_> = segments.collect();
        segments.sort_by_key(|name| ObjectId::parse(name).unwrap().1.seq);
        // The first third of the data: more than may be in flight in the background at once.
        let third = DATA / 3;
        let withheld: BTreeSet<_> = segments.drain(..segments.len() / 3).collect();
        let store = Arc::new(Layered(Withholding {
            store: world.bench.store.clone(),
            withheld: Mutex::new(withheld),
        }));
        let volume = world.open_on(store.clone(), "here", Pinned::default()).await;
        volume.set_cache_limit(64 << 20);
        volume.set_pinned(Pinned::whole()).unwrap();
        // The data from here on needs none of the withheld segments.
        let rest = [BlockRange::new(third + 512, DATA - third - 512)];
        let rest_is_here = async {
            while !is_here(&volume, &rest) || volume.pins_status().trouble.is_none() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(600), rest_is_here).await.is_err() {
            let missing: Vec<_> = volume.missing_parts(rest[0]);
            panic!("{missing:?} {:?} {:?}", volume.pins_status(), volume.puller().health().borrow());
        }
        let status = volume.pins_status();
        assert!(!is_here(&volume, &[BlockRange::new(0, third)]));
        assert!(status.trouble.is_some_and(|trouble| trouble.contains("archived")));
        // The trouble ends once the store gives them.
        store.withheld.lock().unwrap().clear();
        settled(&volume).await;
        assert_eq!(volume.pins_status().trouble, None);
        close(volume).await;
    });
}

#[test]
fn held_blocks_stay_until_they_are_released() {
    let world = World::new();
    run(async {
        let volume = world.open_here(Pinned::default()).await;
        let runs = pinned_runs();
        let held = volume.hold(runs.clone());
        volume.puller().pull_all(holdall_core::pull::Class::ReadAhead, &runs).await.unwrap();
        scan(&volume).await;
        volume.evict_all().await.unwrap();
        assert!(is_here(&volume, &runs));
        drop(held);
        volume.evict_all().await.unwrap();
        assert!(!is_here(&volume, &runs));
        close(volume).await;
    });
}
