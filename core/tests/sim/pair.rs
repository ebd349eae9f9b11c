//! Two devices and a drive that both may open, even at the same time, and what each must show.

use crate::model::{self, Branch, Model, Uploads};
use crate::trace;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::drive;
use holdall_core::format::id::ObjectId;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::PageCache;
use holdall_core::push::{Device, PushError, Pusher};
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::Store;
use holdall_core::store::claims::Claims;
use holdall_core::store::meter::Meter;
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uuid::Uuid;

const BLOCKS: u64 = 64;
const GEOMETRY: Geometry =
    Geometry { size_blocks: BLOCKS, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 96 << 10, files: 8, reserve_files: 2 },
    cache_bytes: 512 << 10,
    batch_bytes: 128 << 10,
    tail_segments: 12,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};
pub const STORE_FAULTS: StoreFaults = StoreFaults {
    refused: 10,
    answer_lost: 20,
    zombie: 10,
    denied: 3,
    kept: 20,
    busy: 10,
    conflict: 10,
    failed: 10,
    repeated: 10,
    away: 1,
    garbled: 3,
    time: Duration::from_millis(40),
};
pub const HOURS: Duration = Duration::from_secs(6 * 3600);

/// How HEADs are swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapping {
    /// By the store.
    Store,
    /// By claims.
    Claims,
}

/// The state that both devices share. Each lock is held only for a moment, never across a wait.
pub struct World {
    pub seed: u64,
    rng: Mutex<StdRng>,
    pub model: Mutex<Model>,
    pub store: SimStore,
    swapping: Swapping,
    sealer: Arc<Sealer>,
    drive: Uuid,
    disks: Mutex<[SimDisk; 2]>,
    /// Whether devices collect garbage.
    pub collects: AtomicBool,
    /// How often the store has been replaced by another state.
    turns: AtomicU64,
    /// The value of `turns` when each device last opened the drive. A device believes that its uploads are in the store until it
    /// opens the drive again.
    opened_at: [AtomicU64; 2],
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn device(index: usize) -> Device {
    Device { id: Uuid::from_u128(index as u128 + 1), name: format!("device {index}") }
}

fn pusher(volume: &Volume) -> &Pusher {
    volume.pusher().expect("the drive is open for writing")
}

fn fork_of(volume: &Volume) -> Option<Uuid> {
    pusher(volume).state().borrow().fork.as_ref().map(|fork| fork.drive)
}

impl Swapping {
    /// A process's connection to the store.
    fn on(self, store: &SimStore) -> Arc<dyn Store> {
        match self {
            Swapping::Store => Arc::new(store.clone()),
            Swapping::Claims => Arc::new(Claims::new(Arc::new(store.clone()))),
        }
    }
}

/// A store in an earlier state.
pub struct Saved {
    store: SimStore,
    uploads: Uploads,
}

/// A device's files in an earlier state, and what it had done by then.
pub struct Files {
    disk: SimDisk,
    branch: Branch,
}

impl Saved {
    /// Merges two copies of one store that have diverged. The result has all objects of both; if both changed an object, the one
    /// of `self` stays.
    pub fn merge(self, other: Saved) -> Self {
        self.store.add(&other.store);
        Saved { store: self.store, uploads: self.uploads.merge(other.uploads) }
    }
}

impl World {
    /// A drive in `store` that nobody has opened yet.
    pub fn new(seed: u64, mut rng: StdRng, store: SimStore, swapping: Swapping) -> Self {
        let sealer = Arc::new(Sealer::new(Cipher::None, &DataKey([7; 32].into())));
        let family = Uuid::from_u128(9);
        let drive =
            run(drive::create(&*swapping.on(&store), &sealer, family, "d", GEOMETRY, &device(0))).unwrap();
        store.set_faults(STORE_FAULTS);
        let faults = DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(rng.random_range(0..10)) };
        let disks = Mutex::new([2, 3].map(|salt| SimDisk::new(seed ^ salt, faults)));
        let (rng, model) = (Mutex::new(rng), Mutex::new(Model::new(BLOCKS)));
        let (collects, turns) = (AtomicBool::new(true), AtomicU64::new(0));
        let opened_at = Default::default();
        Self { seed, rng, model, store, swapping, sealer, drive, disks, collects, turns, opened_at }
    }

    /// Leaves this many claims of the drive in the store, which failed or belong to openings long ago.
    pub fn leave_claims(&self, count: u64) {
        for turn in 1..=count {
            self.store.leave(&format!("claim/{}/{turn:016x}", self.drive.simple()), "somebody's".into());
        }
    }

    pub fn disk(&self, index: usize) -> SimDisk {
        self.disks.lock()[index].clone()
    }

    /// Puts the store, and what must be in it, back to `before` or to another copy.
    pub fn restore(&self, before: &Saved) {
        self.turns.fetch_add(1, Relaxed);
        self.store.restore(&before.store);
        self.model.lock().set_uploads(before.uploads.clone());
    }

    /// The store as it is now, and what must be in it.
    pub fn save(&self) -> Saved {
        Saved { store: self.store.copy(), uploads: self.model.lock().uploads() }
    }

    /// A copy of a device's files.
    pub fn copy_files(&self, index: usize) -> Files {
        Files { disk: self.disk(index).copy(self.below(u64::MAX)), branch: self.model.lock().branch(index) }
    }

    /// Gives a device earlier files back, as after its system was restored from a backup.
    pub fn go_back(&self, index: usize, files: &Files) {
        self.turns.fetch_add(1, Relaxed);
        self.disks.lock()[index] = files.disk.copy(self.below(u64::MAX));
        self.model.lock().go_back(index, files.branch.clone());
    }

    /// Sets a device's files aside: from now on it has never had the drive.
    pub fn set_aside(&self, index: usize) {
        let faults = DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(5) };
        let salt = self.below(u64::MAX);
        self.disks.lock()[index] = SimDisk::new(salt, faults);
        self.model.lock().forget(index);
    }

    /// Uploads a device's fork. From then on the device has the drive itself.
    pub fn part_with_fork(&self, index: usize) {
        let is_apart = run(async {
            let volume = self.open(index).await;
            let is_fork = fork_of(&volume).is_some();
            if is_fork {
                self.upload(index, &volume).await;
            }
            is_fork
        });
        self.disk(index).kill();
        if is_apart {
            self.set_aside(index);
        }
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.rng.lock().random_range(0..bound)
    }

    fn environment(&self, disk: &SimDisk, store: &SimStore) -> Environment {
        Environment {
            state: Arc::new(disk.directory("state")),
            journal: Arc::new(disk.directory("journal")),
            cache: Arc::new(disk.directory("cache")),
            store: self.swapping.on(store),
            meter: Meter::default(),
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        }
    }

    /// Opens the drive on a device, or the fork in its place, whoever holds it.
    pub async fn open(&self, index: usize) -> Arc<Volume> {
        for _ in 0..500 {
            let env = self.environment(&self.disk(index), &self.store);
            let access = Access::Write { over: TakeOver::Anybody, mounted: false };
            self.opened_at[index].store(self.turns.load(Relaxed), Relaxed);
            match volume::open(env, self.drive, device(index), access, LIMITS).await {
                Ok(volume) => {
                    let contents = match self.contents(&volume).await {
                        Err(_) if self.is_another_store(index) => continue,
                        contents => self.or_fail(contents),
                    };
                    trace(|| {
                        let (root, journal) = (volume.opened_root(), volume.journal());
                        let fork = fork_of(&volume);
                        format!(
                            "device {index} opens {fork:?} {}-{}: {:?}, journal {} ends at {}",
                            root.epoch,
                            root.seq,
                            root.lineage,
                            journal.uuid(),
                            journal.appended()
                        )
                    });
                    match fork_of(&volume) {
                        Some(fork) => self.model.lock().opened_fork(self.seed, index, fork, &contents),
                        None => self.model.lock().opened(self.seed, index, &contents),
                    }
                    return volume;
                }
                Err(OpenError::Forked { by, .. }) => {
                    trace(|| format!("device {index} becomes a fork"));
                    let state = self.disk(index).directory("state");
                    volume::fork(&state, self.drive, &by).await.unwrap();
                }
                Err(
                    error @ (OpenError::RolledBack { .. }
                    | OpenError::CopyWrote
                    | OpenError::NoForkPoint { .. }),
                ) if self.turns.load(Relaxed) > 0 => {
                    trace(|| format!("device {index}: {error}"));
                    self.set_aside(index);
                }
                Err(OpenError::Store(error)) if error.is_transient() => {}
                Err(OpenError::Read(error)) if error.is_transient() => {}
                // The other device was faster.
                Err(OpenError::Held { .. }) => {}
                Err(_) if self.is_another_store(index) => {}
                Err(error) => panic!("seed {}: device {index}: {error}", self.seed),
            }
            tokio::time::sleep(Duration::from_millis(200 + self.below(2000))).await;
        }
        panic!("seed {}: device {index} cannot open the drive", self.seed)
    }

    /// Whether the store was replaced since a device opened the drive: data that it was about to read may be gone.
    fn is_another_store(&self, index: usize) -> bool {
        self.opened_at[index].load(Relaxed) != self.turns.load(Relaxed)
    }

    fn or_fail<T>(&self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed))
    }

    /// The stamps of the blocks.
    async fn contents(&self, volume: &Arc<Volume>) -> Result<Vec<u64>, String> {
        let (device, mut contents) = (VolumeDevice(volume.clone()), Vec::new());
        let mut data = vec![0; BLOCK_BYTES as usize];
        for block in 0..BLOCKS {
            let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
            let mut tries = 0;
            loop {
                match tokio::time::timeout(HOURS, device.read(range.clone()).wait()).await.unwrap() {
                    Ok(lease) => break lease.copy_to(&mut data).unwrap(),
                    Err(error) if tries == 5 => return Err(format!("block {block}: {error:?}")),
                    Err(_) => {}
                }
                tries += 1;
            }
            contents.push(model::stamp(&data));
        }
        Ok(contents)
    }

    /// Some work of a device, beside the other one's.
    pub async fn life(&self, index: usize) {
        tokio::time::sleep(Duration::from_millis(self.below(3000))).await;
        let volume = self.open(index).await;
        let device = VolumeDevice(volume.clone());
        for _ in 0..5 + self.below(40) {
            match self.below(10) {
                0..6 => {
                    let count = 1 + self.below(5);
                    let range = BlockRange::new(self.below(BLOCKS - count), count);
                    let stamp = self.model.lock().write(index, range);
                    let data = model::data(stamp, count);
                    let write = device.write(range.start * BLOCK_BYTES, &data, Durability::Ordered);
                    tokio::time::timeout(HOURS, write.wait()).await.unwrap().unwrap();
                }
                6 => {
                    let count = self.model.lock().len(index);
                    tokio::time::timeout(HOURS, device.flush().wait()).await.unwrap().unwrap();
                    self.model.lock().flushed(index, count);
                }
                7 if self.collects.load(Relaxed) => {
                    drop(tokio::time::timeout(HOURS, pusher(&volume).collect()).await.unwrap());
                }
                _ => self.upload(index, &volume).await,
            }
            tokio::time::sleep(Duration::from_millis(self.below(400))).await;
        }
        if self.below(2) == 0 {
            volume.stop_serving();
            let count = self.model.lock().len(index);
            if let Ok(Ok(())) = tokio::time::timeout(HOURS, volume.release()).await {
                self.uploaded(index, count);
                let _ = volume.settle().await;
            }
        }
    }

    /// Uploads everything that the device has, to the drive or to a fork that begins now.
    pub async fn upload(&self, index: usize, volume: &Volume) {
        let count = self.model.lock().len(index);
        for _ in 0..4 {
            match tokio::time::timeout(HOURS, pusher(volume).sync()).await.unwrap() {
                Ok(_) => {
                    self.uploaded(index, count);
                    return;
                }
                // The version it builds on is gone, and the device reports that.
                Err(PushError::Fenced(_)) if self.turns.load(Relaxed) > 0 => return,
                // Another device may have its fork by now.
                Err(PushError::Forked(_)) => {}
                Err(error) => panic!("seed {}: device {index} does not upload: {error:?}", self.seed),
            }
        }
        panic!("seed {}: device {index} is fenced again and again", self.seed)
    }

    /// The first `count` writes were acknowledged as uploaded. This counts only if the store was not replaced since.
    fn uploaded(&self, index: usize, count: usize) {
        if !self.is_another_store(index) {
            self.model.lock().uploaded(index, count);
        }
    }

    /// Every version that a machine with nothing but the store sees is one that some device has left, and everything uploaded is
    /// in one of them.
    pub fn check_store(&self) {
        let versions = self.versions();
        let model = self.model.lock();
        model.check_states(self.seed, &versions);
        model.check_uploads(self.seed, &versions);
    }

    /// Checks only the versions, as long as not every device has seen the store's new state.
    pub fn check_states(&self) {
        let versions = self.versions();
        self.model.lock().check_states(self.seed, &versions);
    }

    fn versions(&self) -> Vec<Vec<u64>> {
        let store = self.store.copy();
        run(async {
            let mut versions = Vec::new();
            for head in drive::heads(&*self.swapping.on(&store), &self.sealer).await.unwrap() {
                let volume = self.look(&store, (head.root, head.root_hash)).await;
                versions.push(self.or_fail(self.contents(&volume).await));
            }
            versions
        })
    }

    async fn look(&self, store: &SimStore, root: (ObjectId, [u8; 32])) -> Arc<Volume> {
        let env = self.environment(&SimDisk::new(0, DiskFaults::default()), store);
        let opened = volume::open(env, self.drive, device(7), Access::Look { root }, LIMITS).await;
        opened.unwrap_or_else(|error| panic!("seed {}: the store alone does not open: {error}", self.seed))
    }
}
