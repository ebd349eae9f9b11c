//! An open drive under several threads, on the real local disk and the real embedded store.
//!
//! Each writer owns every n-th block, so that all writers share chunks and frames, and it is known exactly what a block may show.
//! Its owner sees its last write. Everyone else sees something between what was answered before the read began and what was begun
//! when the read ended. Meanwhile the drive is pushed, snapshots come and go, garbage is collected, and blocks are evicted.
//!
//! `HOLDALL_OPERATIONS=n` sets the operations of each writer, `HOLDALL_SEED=n` chooses them.

use holdall_core::device::{BlockDevice, Durability, Zeroing};
use holdall_core::disk::real::Directory;
use holdall_core::drive;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::PageCache;
use holdall_core::push::Device;
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::{Store, When};
use holdall_core::units::{BLOCK_BYTES, ChunkIndex};
use holdall_core::volume::{self, Access, Environment, TakeOver, Volume, VolumeDevice, VolumeLimits};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;
use uuid::Uuid;

const BLOCKS: u64 = 512;
const WRITERS: u64 = 5;
const GEOMETRY: Geometry =
    Geometry { size_blocks: BLOCKS, frame_blocks: 4, page_blocks: 64, segment_bytes: 256 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 1 << 20, files: 8, reserve_files: 2 },
    cache_bytes: 1 << 30,
    batch_bytes: 1 << 20,
    tail_segments: 8,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};

/// The state of a block: how many operations of its owner have begun, and how many were answered.
#[derive(Default)]
struct Known {
    begun: AtomicU64,
    answered: AtomicU64,
}

/// The content after the `count`-th operation on a block: a stamp that fills the block, or zeros.
fn stamp(block: u64, count: u64) -> u64 {
    if count == 0 || count.is_multiple_of(7) { 0 } else { block << 40 | count }
}

/// The part of a block that every operation writes. The shortest write leaves the rest unchanged.
const STAMPED: usize = 4000;

struct World {
    volume: Arc<Volume>,
    device: VolumeDevice,
    known: Vec<Known>,
    seed: u64,
}

impl World {
    async fn read(&self, block: u64, count: u64) -> Vec<u64> {
        let range = block * BLOCK_BYTES..(block + count) * BLOCK_BYTES;
        let lease = self.device.read(range.clone()).wait().await.unwrap();
        let mut data = vec![0; (range.end - range.start) as usize];
        lease.copy_to(&mut data).unwrap();
        let blocks = data.chunks(BLOCK_BYTES as usize).enumerate();
        blocks
            .map(|(at, data)| {
                let first = u64::from_le_bytes(*data.first_chunk().unwrap());
                let whole = data[..STAMPED].chunks(8).all(|word| word == first.to_le_bytes());
                assert!(whole, "seed {}: block {} is torn", self.seed, block + at as u64);
                first
            })
            .collect()
    }

    /// Reads some blocks, and checks that each shows what it may show.
    async fn look(&self, block: u64, count: u64) {
        let of = |count: fn(&Known) -> &AtomicU64| -> Vec<u64> {
            self.known[block as usize..][..4.min((BLOCKS - block) as usize)]
                .iter()
                .map(|known| count(known).load(SeqCst))
                .collect()
        };
        let answered = of(|known| &known.answered);
        let found = self.read(block, count).await;
        let begun = of(|known| &known.begun);
        for (at, found) in found.into_iter().enumerate() {
            let (block, legal) = (block + at as u64, answered[at]..=begun[at]);
            assert!(
                legal.clone().any(|count| stamp(block, count) == found),
                "seed {}: block {block} shows {found:x}, which is none of its operations {legal:?}",
                self.seed
            );
        }
    }

    /// The next operation of a block's owner.
    async fn operate(&self, block: u64, random: &mut StdRng) {
        let known = &self.known[block as usize];
        let count = known.begun.fetch_add(1, SeqCst) + 1;
        let stamp = stamp(block, count);
        let durability = if random.random_ratio(1, 20) { Durability::Forced } else { Durability::Ordered };
        let offset = block * BLOCK_BYTES;
        if stamp == 0 {
            let how = if random.random() { Zeroing::Trim } else { Zeroing::MayPunch };
            self.device.zero(offset..offset + BLOCK_BYTES, how, durability).wait().await.unwrap();
        } else {
            let data = stamp.to_le_bytes().repeat(BLOCK_BYTES as usize / 8);
            // A partial write: the block is read, patched and written back.
            let len = if random.random_ratio(1, 4) { STAMPED } else { data.len() };
            self.device.write(offset, &data[..len], durability).wait().await.unwrap();
        }
        known.answered.store(count, SeqCst);
    }

    async fn write_and_read(self: Arc<Self>, writer: u64, operations: u64) {
        let mut random = StdRng::seed_from_u64(self.seed * 1000 + writer);
        for _ in 0..operations {
            let own = random.random_range(0..BLOCKS / WRITERS) * WRITERS + writer;
            match random.random_range(0..10) {
                0..5 => self.operate(own, &mut random).await,
                5..7 => {
                    let count = self.known[own as usize].answered.load(SeqCst);
                    assert_eq!(
                        self.read(own, 1).await,
                        [stamp(own, count)],
                        "seed {}: block {own}",
                        self.seed
                    );
                }
                7..9 => {
                    let count = random.random_range(1..=4);
                    self.look(random.random_range(0..=BLOCKS - count), count).await;
                }
                _ => {
                    if random.random_ratio(1, 10) {
                        self.device.flush().wait().await.unwrap();
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Work in the background, until the writers are done.
    async fn disturb(self: Arc<Self>, done: Arc<AtomicBool>, which: u64) {
        let mut random = StdRng::seed_from_u64(self.seed * 1000 + 500 + which);
        let pusher = self.volume.pusher().unwrap();
        while !done.load(SeqCst) {
            if which == 0 {
                match random.random_range(0..8) {
                    0..5 => drop(pusher.sync().await.unwrap()),
                    5 => {
                        pusher.snapshot("passing").await.unwrap();
                        pusher.drop_snapshot("passing").await.unwrap();
                    }
                    6 => drop(pusher.collect().await.unwrap()),
                    _ => self.volume.settle().await.unwrap(),
                }
            } else {
                let chunks: Vec<_> =
                    (0..BLOCKS / 16).filter(|_| random.random_ratio(1, 3)).map(ChunkIndex).collect();
                self.volume.evict(&chunks).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    }

    /// Every block shows its owner's last operation.
    async fn check(&self, known: &[u64]) {
        for block in 0..BLOCKS {
            let expected = stamp(block, known[block as usize]);
            assert_eq!(self.read(block, 1).await, [expected], "seed {}: block {block}", self.seed);
        }
    }
}

struct Bench {
    dir: TempDir,
    store: Arc<FileStore>,
    sealer: Arc<Sealer>,
    drive: Uuid,
    seed: u64,
}

impl Bench {
    async fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(FileStore::new(dir.path().join("store"), &DriveNames));
        store.prepare().await.unwrap();
        store.put("family.json", bytes::Bytes::from_static(b"{}"), When::Absent).await.unwrap();
        let sealer = Arc::new(Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([7; 32].into())));
        let made = drive::create(&*store, &sealer, Uuid::nil(), "d", GEOMETRY, &device("a")).await;
        Self { dir, store, sealer, drive: made.unwrap(), seed }
    }

    async fn open(&self, name: &str) -> World {
        let at = |what: &str| -> Arc<Directory> {
            Arc::new(Directory::create(&Path::new(self.dir.path()).join(name).join(what)).unwrap())
        };
        let environment = Environment {
            state: at("state"),
            journal: at("journal"),
            cache: at("cache"),
            store: self.store.clone(),
            meter: Meter::default(),
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        };
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        let volume = volume::open(environment, self.drive, device(name), access, LIMITS).await.unwrap();
        let known = (0..BLOCKS).map(|_| Known::default()).collect();
        World { device: VolumeDevice(volume.clone()), volume, known, seed: self.seed }
    }
}

fn device(name: &str) -> Device {
    Device { id: Uuid::from_u128(name.len() as u128), name: name.to_owned() }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_share_chunks_see_only_allowed_states() {
    let operations = number("HOLDALL_OPERATIONS", 1500);
    let bench = Bench::new(number("HOLDALL_SEED", 1)).await;
    let world = Arc::new(bench.open("a").await);
    let done = Arc::new(AtomicBool::new(false));
    let disturbers: Vec<_> =
        (0..2).map(|which| tokio::spawn(world.clone().disturb(done.clone(), which))).collect();
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(world.clone().write_and_read(writer, operations))).collect();
    let mut failed = None;
    for task in writers {
        failed = failed.or(task.await.err());
    }
    done.store(true, SeqCst);
    for task in disturbers {
        failed = failed.or(task.await.err());
    }
    if let Some(failed) = failed {
        std::panic::resume_unwind(failed.into_panic());
    }
    let known: Vec<_> = world.known.iter().map(|known| known.answered.load(SeqCst)).collect();
    assert!(known.iter().sum::<u64>() > operations, "the writers wrote");
    world.check(&known).await;
    world.volume.stop_serving();
    world.volume.release().await.unwrap();
    world.volume.shut_down().await.unwrap();
    drop(world);
    // Here from local data, and elsewhere from the store alone.
    for name in ["a", "bb"] {
        let world = bench.open(name).await;
        world.check(&known).await;
        world.volume.release().await.unwrap();
        world.volume.shut_down().await.unwrap();
    }
    let objects =
        holdall_core::map::Objects::new(bench.store.clone(), bench.sealer.clone(), PageCache::none());
    let checked = drive::check::check(&Arc::new(objects), bench.drive, &|_, _| {}).await.unwrap();
    assert_eq!(checked.errors, [""; 0]);
}
