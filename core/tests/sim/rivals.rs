//! Two devices that write to one drive at the same time, on a store that cannot keep them apart: a condition is not heeded,
//! or checked a moment before what is put is there, and a name is given to all who ask for it. People are told to
//! use such a drive on one device at a time. If two write all the same, both versions are kept:
//! * the store shows, at any time, a drive and forks that open, each in a state that somebody has left;
//! * a device shows what was durable on it, in the drive or in its fork, and nothing that is another's on top;
//! * whatever a device was told is uploaded is in the drive or in a fork, also for a machine that has only the store.

use crate::model::{self, Model};
use crate::{assert_promises_hold, seeds};
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::drive;
use holdall_core::format::id::ObjectId;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::PageCache;
use holdall_core::push::{Device, PushError, Pusher};
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use holdall_core::store::Store;
use holdall_core::store::claims::Claims;
use holdall_core::store::meter::Meter;
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::{self, Access, Environment, OpenError, Over, Volume, VolumeDevice, VolumeLimits};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
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
const STORE_FAULTS: StoreFaults = StoreFaults {
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
const HOURS: Duration = Duration::from_secs(6 * 3600);

/// What both devices share: each holds it only for a moment, never while it waits.
struct World {
    seed: u64,
    rng: Mutex<StdRng>,
    model: Mutex<Model>,
    store: SimStore,
    sealer: Arc<Sealer>,
    drive: Uuid,
    disks: [SimDisk; 2],
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn process(store: &SimStore) -> Arc<dyn Store> {
    Arc::new(Claims::new(Arc::new(store.clone())))
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

impl World {
    fn new(seed: u64) -> Self {
        holdall_core::entropy::seed_this_thread(seed);
        let sealer = Arc::new(Sealer::new(Cipher::None, &DataKey([7; 32].into())));
        let mut rng = StdRng::seed_from_u64(seed);
        let habits = Habits {
            swaps: false,
            creates: false,
            in_two_steps: rng.random(),
            may_delete: rng.random_ratio(3, 4),
            ..Habits::GOOD
        };
        let store = SimStore::new(seed ^ 1, StoreFaults::default()).with_habits(habits);
        let family = Uuid::from_u128(9);
        let drive =
            run(drive::create(&*process(&store), &sealer, family, "d", GEOMETRY, &device(0))).unwrap();
        store.set_faults(STORE_FAULTS);
        let faults = DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(rng.random_range(0..10)) };
        let disks = [2, 3].map(|salt| SimDisk::new(seed ^ salt, faults));
        let (rng, model) = (Mutex::new(rng), Mutex::new(Model::new(BLOCKS)));
        Self { seed, rng, model, store, sealer, drive, disks }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().random_range(0..bound)
    }

    fn environment(&self, disk: &SimDisk, store: &SimStore) -> Environment {
        Environment {
            state: Arc::new(disk.directory("state")),
            journal: Arc::new(disk.directory("journal")),
            cache: Arc::new(disk.directory("cache")),
            store: process(store),
            meter: Meter::default(),
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        }
    }

    /// Opens the drive on a device, or the fork that is there in its place, whoever has it.
    async fn open(&self, index: usize) -> Arc<Volume> {
        for _ in 0..500 {
            let env = self.environment(&self.disks[index], &self.store);
            let access = Access::Write { over: Over::Anybody, mounted: false };
            match volume::open(env, self.drive, device(index), access, LIMITS).await {
                Ok(volume) => {
                    let contents = self.contents(&volume).await;
                    match fork_of(&volume) {
                        Some(fork) => self.model.lock().opened_fork(self.seed, index, fork, &contents),
                        None => self.model.lock().opened(self.seed, index, &contents),
                    }
                    return volume;
                }
                Err(OpenError::Forked { by, .. }) => {
                    let state = self.disks[index].directory("state");
                    volume::fork(&state, self.drive, &by).await.unwrap();
                }
                Err(OpenError::Store(error)) if error.is_transient() => {}
                Err(OpenError::Read(error)) if error.is_transient() => {}
                // The other one was faster.
                Err(OpenError::Held { .. }) => {}
                Err(error) => panic!("seed {}: device {index}: {error}", self.seed),
            }
            tokio::time::sleep(Duration::from_millis(200 + self.below(2000))).await;
        }
        panic!("seed {}: device {index} cannot open the drive", self.seed)
    }

    async fn contents(&self, volume: &Arc<Volume>) -> Vec<u64> {
        let (device, mut contents) = (VolumeDevice(volume.clone()), Vec::new());
        let mut data = vec![0; BLOCK_BYTES as usize];
        for block in 0..BLOCKS {
            let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
            let mut tries = 0;
            loop {
                match tokio::time::timeout(HOURS, device.read(range.clone()).wait()).await.unwrap() {
                    Ok(lease) => break lease.copy_to(&mut data).unwrap(),
                    Err(error) => assert!(tries < 5, "seed {}: block {block}: {error:?}", self.seed),
                }
                tries += 1;
            }
            contents.push(model::stamp(&data));
        }
        contents
    }

    /// A while of a device's work, beside the other one's.
    async fn life(&self, index: usize) {
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
                7 => drop(tokio::time::timeout(HOURS, pusher(&volume).collect()).await.unwrap()),
                _ => self.upload(index, &volume).await,
            }
            tokio::time::sleep(Duration::from_millis(self.below(400))).await;
        }
        if self.below(2) == 0 {
            volume.stop_serving();
            let count = self.model.lock().len(index);
            if let Ok(Ok(())) = tokio::time::timeout(HOURS, volume.release()).await {
                self.model.lock().uploaded(index, count);
                let _ = volume.settle().await;
            }
        }
    }

    /// Has all that the device has in the store, in the drive or in a fork that begins now.
    async fn upload(&self, index: usize, volume: &Volume) {
        let count = self.model.lock().len(index);
        for _ in 0..4 {
            match tokio::time::timeout(HOURS, pusher(volume).sync()).await.unwrap() {
                Ok(_) => {
                    self.model.lock().uploaded(index, count);
                    return;
                }
                // Its fork may be another's by now.
                Err(PushError::Forked(_)) => {}
                Err(error) => panic!("seed {}: device {index} does not upload: {error:?}", self.seed),
            }
        }
        panic!("seed {}: device {index} is fenced again and again", self.seed)
    }

    /// Every version that a machine with nothing but the store sees.
    fn check_store(&self) {
        let store = self.store.copy();
        let versions = run(async {
            let mut versions = Vec::new();
            for head in drive::heads(&*process(&store), &self.sealer).await.unwrap() {
                let volume = self.look(&store, (head.root, head.root_hash)).await;
                versions.push(self.contents(&volume).await);
            }
            versions
        });
        self.model.lock().check_versions(self.seed, &versions);
    }

    async fn look(&self, store: &SimStore, root: (ObjectId, [u8; 32])) -> Arc<Volume> {
        let env = self.environment(&SimDisk::new(0, DiskFaults::default()), store);
        let opened = volume::open(env, self.drive, device(7), Access::Look { root }, LIMITS).await;
        opened.unwrap_or_else(|error| panic!("seed {}: the store alone does not open: {error}", self.seed))
    }
}

pub fn simulate(seed: u64) {
    let world = World::new(seed);
    for _ in 0..1 + world.below(4) {
        let cut = match world.below(2) {
            0 => Duration::from_millis(world.below(60_000)),
            _ => HOURS,
        };
        run(async {
            let both = async { tokio::join!(world.life(0), world.life(1)) };
            let _ = tokio::time::timeout(cut, both).await;
        });
        for disk in &world.disks {
            if world.below(2) == 0 { disk.power_cut() } else { disk.kill() }
        }
        world.check_store();
    }
    // Whatever is still on its way arrives, and each has what it has uploaded.
    world.store.set_faults(StoreFaults::default());
    for index in 0..2 {
        run(async {
            let volume = world.open(index).await;
            world.upload(index, &volume).await;
        });
        world.disks[index].kill();
    }
    world.check_store();
}

#[test]
fn of_two_that_a_store_cannot_keep_apart_both_versions_are_kept() {
    assert_promises_hold(simulate, seeds(300));
}
