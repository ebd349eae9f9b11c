//! The cache stays below its limit under all reads and writes, and never evicts what it must keep.

use crate::bench::{Bench, GEOMETRY, LIMITS, device, run};
use holdall_core::cache::Cache;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::real::Directory;
use holdall_core::disk::{Disk, DiskFile};
use holdall_core::map::PageCache;
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::store::meter::Meter;
use holdall_core::units::{BlockRange, ChunkIndex};
use holdall_core::volume::{self, Access, Environment, Pinned, TakeOver, Volume, VolumeDevice, VolumeLimits};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;

/// Blocks of the drive (32 MiB).
const BLOCKS: u64 = 8192;
/// The size of the cache: a quarter of the drive.
const CACHE_BYTES: u64 = BLOCKS * 4096 / 4;
/// Blocks of one request.
const REQUEST: u64 = 32;

/// A drive whose cache is a sparse file on a real disk.
struct World {
    bench: Bench,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let geometry =
            holdall_core::format::root::Geometry { size_blocks: BLOCKS, page_blocks: 1024, ..GEOMETRY };
        let journal = holdall_core::journal::Limits { file_bytes: 4 << 20, files: 16, reserve_files: 2 };
        let limits = VolumeLimits { journal, cache_bytes: CACHE_BYTES, batch_bytes: 4 << 20, ..LIMITS };
        Self { bench: Bench::of(geometry, limits), dir: tempfile::tempdir_in("/var/tmp").unwrap() }
    }

    async fn open(&self) -> Arc<Volume> {
        self.open_with(Arc::new(Directory::create(&self.dir.path().join("cache")).unwrap())).await
    }

    async fn open_with(&self, cache: Arc<dyn Disk>) -> Arc<Volume> {
        self.open_to(Access::Write { over: TakeOver::Nobody, mounted: false }, cache).await
    }

    async fn open_to(&self, access: Access, cache: Arc<dyn Disk>) -> Arc<Volume> {
        let directory = |name| Arc::new(Directory::create(&self.dir.path().join(name)).unwrap());
        let environment = Environment {
            state: directory("state"),
            journal: directory("journal"),
            cache,
            store: Arc::new(self.bench.store.clone()),
            meter: Meter::default(),
            sealer: self.bench.sealer.clone(),
            pages: PageCache::none(),
        };
        volume::open(environment, self.bench.drive, device(0), access, self.bench.limits).await.unwrap()
    }
}

/// A directory on its own disk. Other files take the space that `total` lacks.
struct Shared {
    directory: Directory,
    total: AtomicU64,
}

impl Disk for Shared {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.directory.open(name, create)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn sync_names(&self) -> holdall_core::disk::Sync {
        self.directory.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let used = self.directory.open("blocks", false)?.allocated()?;
        Ok(self.total.load(Relaxed).saturating_sub(used))
    }
}

fn content(block: u64, version: u64) -> Vec<u8> {
    (0..512_u64).flat_map(|word| (block * 1000 + word + version * 7).to_le_bytes()).collect()
}

async fn write(volume: &Arc<Volume>, start: u64, version: u64) {
    let data: Vec<u8> = (start..start + REQUEST).flat_map(|block| content(block, version)).collect();
    let written = VolumeDevice(volume.clone()).write(start * 4096, &data, Durability::Ordered).wait().await;
    written.unwrap();
}

async fn check(volume: &Arc<Volume>, start: u64, version: u64) {
    let range = start * 4096..(start + REQUEST) * 4096;
    let lease = VolumeDevice(volume.clone()).read(range).wait().await.unwrap();
    let expected: Vec<u8> = (start..start + REQUEST).flat_map(|block| content(block, version)).collect();
    let mut found = vec![0; expected.len()];
    lease.copy_to(&mut found).unwrap();
    assert!(found == expected, "the blocks from {start}");
}

fn below_limit(volume: &Volume) {
    let status = volume.status();
    assert!(status.cached_bytes <= status.cache_limit_bytes, "{} cached", status.cached_bytes);
}

async fn fill(volume: &Arc<Volume>, version: u64) {
    for start in (0..BLOCKS).step_by(REQUEST as usize) {
        write(volume, start, version).await;
        below_limit(volume);
        if start % 512 == 0 {
            volume.pusher().unwrap().sync().await.unwrap();
            // Let the keeper run.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
    volume.pusher().unwrap().sync().await.unwrap();
}

#[test]
fn evictions_leave_what_a_reader_waits_for() {
    let disk = SimDisk::new(1, DiskFaults::default());
    let cache = Cache::open(&disk.directory("cache"), device(0).id, 64, &[]).unwrap();
    let (chunk, awaited) = (BlockRange::new(0, 16), BlockRange::new(3, 2));
    cache.set_size(64).unwrap();
    cache.fill(chunk, &vec![1; chunk.byte_len() as usize]).unwrap();
    run(async {
        let reader = cache.wait_for(awaited);
        cache.evict(&[ChunkIndex(0)], |_| false).await.unwrap();
        assert_eq!(cache.absent(chunk), [BlockRange::new(0, 3), BlockRange::new(5, 11)]);
        drop(reader);
        cache.evict(&[ChunkIndex(0)], |_| false).await.unwrap();
        assert_eq!(cache.absent(chunk), [chunk]);
    });
}

#[test]
fn a_pinned_drive_larger_than_its_cache_stays_writable() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        volume.set_pinned(Pinned::whole()).unwrap();
        // Through a journal that holds half of the drive.
        for version in 1..=4 {
            fill(&volume, version).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let status = volume.status();
        assert!(4 * status.journal_bytes < 3 * status.journal_limit_bytes, "{status:?}");
        below_limit(&volume);
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 4).await;
        }
        crate::bench::close(volume).await;
        let volume = world.open().await;
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 4).await;
        }
        while volume.status().unapplied_bytes > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // Pins that do not fit are reported, and arrive once there is space.
        volume.set_pinned(Pinned::whole()).unwrap();
        while volume.pins_status().trouble.is_none() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(volume.pins_status().without_room_bytes > BLOCKS * 4096 / 2, "{:?}", volume.pins_status());
        volume.set_cache_limit(2 * BLOCKS * 4096);
        while volume.pins_status().missing_bytes > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(volume.pins_status().without_room_bytes, 0);
        crate::bench::close(volume).await;
    });
}

#[test]
fn a_cache_below_its_limit_reads_every_block_back() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        for round in 0..2 {
            for start in (0..BLOCKS).step_by(REQUEST as usize) {
                check(&volume, (start * (1 + 2 * round)) % BLOCKS, 1).await;
                below_limit(&volume);
            }
        }
        assert!(volume.status().cached_bytes > CACHE_BYTES / 2, "and uses what it may");
        crate::bench::close(volume).await;
        let volume = world.open().await;
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 1).await;
            below_limit(&volume);
        }
        crate::bench::close(volume).await;
    });
}

/// Reads everything, and checks that the last reads are cached.
async fn check_all_is_cached(volume: &Arc<Volume>, version: u64) {
    for start in (0..BLOCKS).step_by(REQUEST as usize) {
        check(volume, start, version).await;
        below_limit(volume);
        assert!(
            volume.puller().missing(BlockRange::new(start, REQUEST)).is_empty(),
            "block {start} is not kept"
        );
    }
}

#[test]
fn frees_cached_blocks_that_another_device_overwrote() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        check_all_is_cached(&volume, 1).await;
        crate::bench::close(volume).await;
        let other = world.bench.open(1).await.unwrap();
        fill(&other, 2).await;
        crate::bench::close(other).await;
        // Its cache is full of data that no version contains any longer.
        let volume = world.open().await;
        assert!(volume.status().cached_bytes > CACHE_BYTES / 2);
        check_all_is_cached(&volume, 2).await;
        crate::bench::close(volume).await;
        let volume = world.open().await;
        volume.evict_all().await.unwrap();
        // Only the file system's own list of the file's extents is left.
        assert!(volume.status().cached_bytes < 64 << 10, "{}", volume.status().cached_bytes);
        crate::bench::close(volume).await;
    });
}

#[test]
fn a_read_only_drive_respects_its_limit_keeping_local_writes() {
    let world = World::new();
    run(async {
        let other = world.bench.open(1).await.unwrap();
        fill(&other, 1).await;
        crate::bench::close(other).await;
        let heads = holdall_core::drive::heads(&world.bench.store, &world.bench.sealer).await.unwrap();
        let access = Access::Look { root: (heads[0].root, heads[0].root_hash) };
        let cache = Arc::new(Directory::create(&world.dir.path().join("cache")).unwrap());
        let volume = world.open_to(access, cache).await;
        check_all_is_cached(&volume, 1).await;
        // A file system writes like this when it replays its own journal.
        write(&volume, 64, 2).await;
        for start in (128..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 1).await;
            below_limit(&volume);
        }
        volume.evict_all().await.unwrap();
        check(&volume, 64, 2).await;
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn the_cache_shrinks_on_a_full_disk_and_grows_back() {
    let world = World::new();
    let directory = Directory::create(&world.dir.path().join("cache")).unwrap();
    let disk = Arc::new(Shared { directory, total: AtomicU64::new(1 << 40) });
    run(async {
        let volume = world.open_with(disk.clone()).await;
        fill(&volume, 1).await;
        assert!(volume.status().cached_bytes > CACHE_BYTES / 2);
        let left = CACHE_BYTES / 4;
        disk.total.store(left, Relaxed);
        // Free space is checked every few seconds.
        tokio::time::sleep(Duration::from_secs(10)).await;
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            let cached = volume.status().cached_bytes;
            assert!(cached <= left * 9 / 10, "{cached} of {left}: a tenth stays free");
            check(&volume, start, 1).await;
        }
        disk.total.store(1 << 40, Relaxed);
        tokio::time::sleep(Duration::from_secs(10)).await;
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 1).await;
        }
        assert!(volume.status().cached_bytes > CACHE_BYTES / 2);
        crate::bench::close(volume).await;
    });
}

#[test]
fn reports_data_extents_wherever_the_data_is_stored() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        let extents = async |volume: &Arc<Volume>| {
            let asked = VolumeDevice(volume.clone()).allocation(0..BLOCKS * 4096, 64);
            let told = asked.wait().await.unwrap();
            told.into_iter().map(|part| (part.len / 4096, part.zero)).collect::<Vec<_>>()
        };
        let expected = [(64, true), (REQUEST, false), (BLOCKS - 64 - REQUEST, true)];
        volume.pusher().unwrap().set_paused(true);
        write(&volume, 64, 1).await;
        assert!(volume.journal().holds_any(BlockRange::new(64, REQUEST)));
        assert_eq!(extents(&volume).await, expected, "in the journal");
        while volume.journal().holds_any(BlockRange::new(64, REQUEST)) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(volume.status().unpushed_bytes > 0);
        assert_eq!(extents(&volume).await, expected, "in the cache alone");
        volume.pusher().unwrap().set_paused(false);
        volume.pusher().unwrap().sync().await.unwrap();
        assert_eq!(extents(&volume).await, expected, "in the store");
        volume.evict_all().await.unwrap();
        assert_eq!(extents(&volume).await, expected, "in the store alone");
        crate::bench::close(volume).await;
    });
}

#[test]
fn uploaded_blocks_can_be_evicted_at_once() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        write(&volume, 0, 1).await;
        let chunks: Vec<_> = (0..REQUEST.div_ceil(16)).map(ChunkIndex).collect();
        assert_eq!(volume.evict(&chunks).await.unwrap(), 0, "it is nowhere else");
        volume.pusher().unwrap().sync().await.unwrap();
        assert!(volume.evict(&chunks).await.unwrap() >= REQUEST * 4096);
        assert!(!volume.puller().missing(BlockRange::new(0, REQUEST)).is_empty());
        check(&volume, 0, 1).await;
        write(&volume, 64, 2).await;
        volume.pusher().unwrap().sync().await.unwrap();
        assert!(volume.evict_all().await.unwrap() >= REQUEST * 4096, "also by a command for all");
        assert!(!volume.puller().missing(BlockRange::new(64, REQUEST)).is_empty());
        check(&volume, 64, 2).await;
        crate::bench::close(volume).await;
    });
}

#[test]
fn a_scan_of_the_drive_evicts_little_hot_data() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        volume.evict_all().await.unwrap();
        // A quarter of the cache, read every other second.
        let hot: Vec<u64> = (0..CACHE_BYTES / 4096 / 4).step_by(REQUEST as usize).collect();
        for _ in 0..3 {
            for start in &hot {
                check(&volume, *start, 1).await;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let (mut asked, mut local) = (0, 0);
        let scan = (hot.len() as u64 * REQUEST..BLOCKS).step_by(REQUEST as usize);
        for (turn, start) in (0..3).flat_map(|_| scan.clone()).enumerate() {
            check(&volume, start, 1).await;
            below_limit(&volume);
            let again = hot[turn % hot.len()];
            asked += 1;
            local += u64::from(volume.puller().missing(BlockRange::new(again, REQUEST)).is_empty());
            check(&volume, again, 1).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(local * 100 >= asked * 95, "{local} of {asked}");
        crate::bench::close(volume).await;
    });
}

#[test]
fn keeps_pending_uploads_and_reads_blocks_that_do_not_fit() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        volume.pusher().unwrap().set_paused(true);
        // More than fits into the cache: the rest stays in the journal.
        for start in (0..BLOCKS / 2).step_by(REQUEST as usize) {
            write(&volume, start, 2).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        below_limit(&volume);
        assert_eq!(volume.status().local_trouble, None, "the journal has room for it");
        assert!(volume.status().unpushed_bytes > CACHE_BYTES);
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, if start < BLOCKS / 2 { 2 } else { 1 }).await;
            below_limit(&volume);
        }
        volume.pusher().unwrap().set_paused(false);
        volume.pusher().unwrap().sync().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(volume.status().local_trouble, None);
        below_limit(&volume);
        crate::bench::close(volume).await;
    });
}

#[test]
fn a_drive_closed_with_many_pending_uploads_respects_its_limit() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        volume.pusher().unwrap().set_paused(true);
        for start in (0..BLOCKS / 2).step_by(REQUEST as usize) {
            write(&volume, start, 2).await;
        }
        let limit = volume.status().cache_limit_bytes;
        let cached = |volume: &Volume| volume.cache().file().allocated().unwrap();
        volume.shut_down().await.unwrap();
        assert!(cached(&volume) <= limit, "{} cached", cached(&volume));
        drop(volume);

        let volume = world.open().await;
        volume.pusher().unwrap().set_paused(true);
        below_limit(&volume);
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, if start < BLOCKS / 2 { 2 } else { 1 }).await;
            below_limit(&volume);
        }
        volume.pusher().unwrap().set_paused(false);
        volume.pusher().unwrap().sync().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        below_limit(&volume);
        crate::bench::close(volume).await;
    });
}

#[test]
fn a_smaller_limit_works_at_once_and_spares_kept_blocks() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        fill(&volume, 1).await;
        let kept = BlockRange::new(1000, 256);
        volume.cache().residents().keep(kept);
        volume.puller().demand(kept).await.unwrap();
        volume.set_cache_limit(CACHE_BYTES / 4);
        tokio::time::sleep(Duration::from_secs(1)).await;
        below_limit(&volume);
        for start in (0..BLOCKS).step_by(REQUEST as usize) {
            check(&volume, start, 1).await;
            below_limit(&volume);
        }
        assert_eq!(volume.cache().absent(kept), []);
        // Now it may be evicted.
        volume.cache().residents().let_go(kept, volume.cache().valid());
        volume.set_cache_limit(1 << 20);
        tokio::time::sleep(Duration::from_secs(1)).await;
        below_limit(&volume);
        assert_ne!(volume.cache().absent(kept), []);
        crate::bench::close(volume).await;
    });
}

#[test]
fn reports_the_space_that_metadata_takes() {
    let world = World::new();
    run(async {
        let volume = world.open().await;
        write(&volume, 0, 1).await;
        write(&volume, 128, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        volume.evict_all().await.unwrap();
        // By then the survey knows that there is no file system, and so no metadata except what is kept below.
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Half of it was never written, and reads as zeros.
        volume.cache().residents().keep(BlockRange::new(0, 2 * REQUEST));
        for start in [0, REQUEST, 128] {
            whole(&volume, start).await;
        }
        volume.cache().residents().keep(BlockRange::new(1024, REQUEST));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let status = volume.status();
        assert_eq!(status.metadata_bytes, REQUEST * 4096);
        assert!(status.cached_bytes >= 2 * REQUEST * 4096, "and what is no metadata");
        crate::bench::close(volume).await;
    });
}

/// Several threads write and read parts of the drive. Every read returns what was written, and the cache never exceeds its limit.
#[test]
fn the_cache_limit_holds_under_concurrent_reads_writes_and_uploads() {
    const WRITERS: u64 = 4;
    const READERS: u64 = 8;
    const ROUNDS: u64 = 120;
    const FULL_WITHIN: Duration = Duration::from_secs(60);
    const REQUESTS: u64 = BLOCKS / REQUEST;
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let volume = world.open().await;
        let is_over = Arc::new(AtomicBool::new(false));
        // At the end the cache may just have freed space for a batch, which is half of it.
        let fullest = Arc::new(AtomicU64::new(0));
        let any = |random: &mut StdRng, of: u64| random.random_range(0..REQUESTS / of) * of * REQUEST;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (volume, fullest) = (volume.clone(), fullest.clone());
            writers.push(tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(writer);
                let begun = std::time::Instant::now();
                let is_full = || fullest.load(Relaxed) > CACHE_BYTES * 3 / 4;
                // A fast disk has everything in the journal before anything is in the cache.
                for version in 1.. {
                    if version > ROUNDS && (is_full() || begun.elapsed() > FULL_WITHIN) {
                        break;
                    }
                    // Each writer has its own blocks.
                    let start = any(&mut random, WRITERS) + writer * REQUEST;
                    write(&volume, start, version).await;
                    below_limit(&volume);
                    if random.random_ratio(1, 2) {
                        check(&volume, start, version).await;
                    }
                }
            }));
        }
        let mut others = Vec::new();
        for reader in 0..READERS {
            let (volume, is_over, fullest) = (volume.clone(), is_over.clone(), fullest.clone());
            others.push(tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(100 + reader);
                while !is_over.load(Relaxed) {
                    whole(&volume, any(&mut random, 1)).await;
                    below_limit(&volume);
                    fullest.fetch_max(volume.status().cached_bytes, Relaxed);
                    // Local reads never wait, so other tasks would not run.
                    tokio::task::yield_now().await;
                }
            }));
        }
        let (pushed, is_pushed) = (volume.clone(), is_over.clone());
        others.push(tokio::spawn(async move {
            while !is_pushed.load(Relaxed) {
                pushed.pusher().unwrap().sync().await.unwrap();
                below_limit(&pushed);
                tokio::task::yield_now().await;
            }
        }));
        let mut ended = futures_util::future::join_all(writers).await;
        is_over.store(true, Relaxed);
        ended.extend(futures_util::future::join_all(others).await);
        ended.into_iter().for_each(|ended| ended.unwrap());
        let fullest = fullest.load(Relaxed);
        assert!(fullest > CACHE_BYTES * 3 / 4, "it uses what it may, and never had more than {fullest}");
        assert_eq!(volume.status().local_trouble, None);
        crate::bench::close(volume).await;
    });
}

/// Reads the blocks of a request, which must all come from one write.
async fn whole(volume: &Arc<Volume>, start: u64) {
    let range = start * 4096..(start + REQUEST) * 4096;
    let lease = VolumeDevice(volume.clone()).read(range).wait().await.unwrap();
    let mut found = vec![0; (REQUEST * 4096) as usize];
    lease.copy_to(&mut found).unwrap();
    for (at, data) in found.chunks(4096).enumerate() {
        let block = start + at as u64;
        let first = u64::from_le_bytes(*data.first_chunk().unwrap());
        let version = first.checked_sub(block * 1000).map(|stamp| stamp / 7);
        let is_written = version.is_some_and(|version| data == content(block, version));
        assert!(is_written || data.iter().all(|byte| *byte == 0), "block {block} is torn");
    }
}
