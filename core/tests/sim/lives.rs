//! The whole engine on a simulated disk and store, in virtual time: one seed, one run.
//!
//! Each run is a series of lives of a drive on two devices. A life opens the drive, works on it, and ends by closing, by a power
//! cut, by a kill, or because the other device takes the drive over. After every opening, a plain list of writes checks that:
//! * the drive is in the state that a prefix of the writes left, in their order;
//! * that prefix holds every write whose flush was acknowledged on this device, and every write whose commit was acknowledged on
//!   any device;
//! * the store alone, on an empty machine, is in such a state too, at any time, and so is each snapshot;
//! * a device that was fenced never commits to the drive again. Its fork has everything that the drive lacks. Once the fork is
//!   uploaded, a machine with nothing but the store sees all of it, too. There is at most one fork for each journal;
//! * a device's changes are called a fork only if the other device has committed since.

use crate::model::{self, Model};
use crate::{assert_promises_hold, seeds, trace};
use holdall_core::device::{Answer, BlockDevice, Durability, Zeroing};
use holdall_core::drive;
use holdall_core::format::head::Head;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::PageCache;
use holdall_core::push::{Device, PushError};
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use holdall_core::store::Store;
use holdall_core::store::claims::Claims;
use holdall_core::store::meter::Meter;
use holdall_core::units::{BLOCK_BYTES, BlockRange, ChunkIndex};
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const BLOCKS: u64 = 256;
const GEOMETRY: Geometry =
    Geometry { size_blocks: BLOCKS, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 96 << 10, files: 8, reserve_files: 2 },
    // Half of the drive, so that blocks are evicted and fetched again.
    cache_bytes: 512 << 10,
    batch_bytes: 128 << 10,
    tail_segments: 12,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};
const STORE_FAULTS: StoreFaults = StoreFaults {
    refused: 20,
    answer_lost: 20,
    zombie: 20,
    denied: 5,
    kept: 20,
    busy: 10,
    conflict: 10,
    failed: 10,
    repeated: 10,
    away: 3,
    garbled: 5,
    time: Duration::from_millis(40),
};

/// Longer than anything that must end: a store that is away is asked once a minute, and may be away for many requests in a row.
const HOURS: Duration = Duration::from_secs(6 * 3600);

struct World {
    seed: u64,
    rng: StdRng,
    store: SimStore,
    sealer: Arc<Sealer>,
    drive: Uuid,
    disks: [SimDisk; 2],
    model: Model,
    /// Contents of the drive under each label.
    snapshots: BTreeMap<String, Vec<u64>>,
    /// How many HEADs had been put when each device last opened the drive. A device builds on the HEAD that it took then.
    known: [usize; 2],
    /// The fork that each device has in place of the drive.
    forks: [Option<Uuid>; 2],
    /// How many disks each device has had.
    disks_used: [usize; 2],
}

/// How a life ended.
#[derive(Debug)]
enum End {
    Closed,
    Crashed,
    TakenOver,
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// A process's connection to the store. HEADs can be swapped, by the store or by claims.
fn with_swap(seed: u64, store: &SimStore) -> Arc<dyn Store> {
    match seed % 2 {
        0 => Arc::new(store.clone()),
        _ => Arc::new(Claims::new(Arc::new(store.clone()))),
    }
}

fn device(index: usize) -> Device {
    Device { id: Uuid::from_u128(index as u128 + 1), name: format!("device {index}") }
}

impl World {
    fn new(seed: u64) -> Self {
        holdall_core::entropy::seed_this_thread(seed);
        let cipher = if seed % 4 < 2 { Cipher::None } else { Cipher::XChaCha20Poly1305 };
        let sealer = Arc::new(Sealer::new(cipher, &DataKey([7; 32].into())));
        let mut rng = StdRng::seed_from_u64(seed);
        // Every other seed has a store without compare-and-swap. Half of these grant a name to all who ask for it: that is safe
        // as long as only one device at a time believes that the drive is its own, and a late one is fenced.
        let to_all = [1, 7].contains(&(seed % 8));
        let habits = Habits {
            swaps: seed.is_multiple_of(2),
            creates: !to_all,
            in_two_steps: to_all && rng.random(),
            may_delete: rng.random_ratio(7, 8),
            ..Habits::GOOD
        };
        let store = SimStore::new(seed ^ 1, StoreFaults::default()).with_habits(habits);
        let family = Uuid::from_u128(9);
        let drive = run(drive::create(&*with_swap(seed, &store), &sealer, family, "d", GEOMETRY, &device(0)))
            .unwrap();
        // Some seeds have failing syncs, which may stop a device for good. Then only acknowledged writes count.
        let faults = |rng: &mut StdRng| DiskFaults {
            sync_fails: if rng.random_ratio(1, 5) { 3 } else { 0 },
            sync_time: Duration::from_millis(rng.random_range(0..10)),
        };
        let disks = [2, 3].map(|salt| SimDisk::new(seed ^ salt, faults(&mut rng)));
        Self {
            seed,
            rng,
            store,
            sealer,
            drive,
            disks,
            model: Model::new(BLOCKS),
            snapshots: BTreeMap::new(),
            known: [0; 2],
            forks: [None; 2],
            disks_used: [1; 2],
        }
    }

    fn environment(&self, disk: &SimDisk, store: &SimStore) -> Environment {
        Environment {
            state: Arc::new(disk.directory("state")),
            journal: Arc::new(disk.directory("journal")),
            cache: Arc::new(disk.directory("cache")),
            store: with_swap(self.seed, store),
            meter: Meter::default(),
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        }
    }

    /// Opens the drive on a device, or the fork in its place, however often the store fails.
    async fn open(&mut self, index: usize) -> Option<Arc<Volume>> {
        for _ in 0..200 {
            let env = self.environment(&self.disks[index], &self.store);
            let access = Access::Write { over: TakeOver::Anybody, mounted: false };
            match volume::open(env, self.drive, device(index), access, LIMITS).await {
                Ok(volume) => {
                    self.forks[index] = fork_of(&volume);
                    if self.forks[index].is_none() {
                        self.known[index] = self.heads().len();
                    }
                    let root = volume.opened_root();
                    let (journal, lineage) = (volume.journal(), &root.lineage);
                    let (end, fork) = (journal.appended(), self.forks[index]);
                    trace(|| {
                        format!(
                            "device {index} opens {fork:?} {}-{}: {lineage:?}, journal {} ends at {end}",
                            root.epoch,
                            root.seq,
                            journal.uuid()
                        )
                    });
                    return Some(volume);
                }
                Err(OpenError::Forked { unsent, by }) => {
                    trace(|| format!("{unsent} records of device {index} become a fork"));
                    assert!(
                        self.other_has_committed(index),
                        "seed {}: {unsent} records of device {index} are called a fork, and nobody else has committed",
                        self.seed
                    );
                    let state = self.disks[index].directory("state");
                    let forked = volume::fork(&state, self.drive, &by).await;
                    assert!(forked.is_ok() || self.disk_fails(index), "seed {}: {forked:?}", self.seed);
                }
                Err(OpenError::Store(error)) if error.is_transient() => {}
                Err(OpenError::Read(error)) if error.is_transient() => {}
                // The other device's delayed request was faster. The next try wins.
                Err(OpenError::Held { .. }) => {}
                // A failing disk: whatever it reports, it has lost nothing that was acknowledged. Start over with it.
                Err(OpenError::Local(_)) | Err(OpenError::Journal(_)) if self.disk_fails(index) => {
                    return None;
                }
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("seed {}: the drive cannot be opened", self.seed)
    }

    /// Opens the drive itself. A fork in its place is uploaded first, and set apart.
    async fn open_drive(&mut self, index: usize) -> Option<Arc<Volume>> {
        let volume = self.open(index).await?;
        if self.forks[index].is_none() {
            return Some(volume);
        }
        self.look_at(index, &volume).await?;
        self.part_with_fork(index, &volume).await?;
        drop(volume);
        Box::pin(self.open_drive(index)).await
    }

    /// Compares the contents of an opened drive or fork with the model.
    async fn look_at(&mut self, index: usize, volume: &Arc<Volume>) -> Option<()> {
        let contents = self.contents(&VolumeDevice(volume.clone())).await?;
        match self.forks[index] {
            Some(fork) => self.model.opened_fork(self.seed, index, fork, &contents),
            None => self.model.opened(self.seed, index, &contents),
        }
        Some(())
    }

    /// Uploads all of a fork. From then on the device has the drive itself, on an empty disk.
    async fn part_with_fork(&mut self, index: usize, volume: &Arc<Volume>) -> Option<()> {
        let count = self.model.len(index);
        let synced = tokio::time::timeout(HOURS, pusher(volume).sync()).await;
        match synced {
            Ok(Ok(_)) => {}
            Ok(Err(PushError::Journal(_))) => return None,
            other => panic!("seed {}: a fork is not uploaded: {other:?}", self.seed),
        }
        self.committed(index, count);
        self.check_fork_alone(index).await;
        let faults = DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(5) };
        self.disks[index] = SimDisk::new(self.rng.random(), faults);
        self.disks_used[index] += 1;
        self.forks[index] = None;
        self.model.forget(index);
        Some(())
    }

    /// On a machine with nothing but the store, a fully uploaded fork equals what its device shows, byte for byte.
    async fn check_fork_alone(&self, index: usize) {
        let store = self.store.copy();
        let fork = self.forks[index].expect("the device has a fork");
        let swap = with_swap(self.seed, &store);
        let heads = drive::heads(&*swap, &self.sealer).await.unwrap();
        let head =
            heads.into_iter().find(|head| head.drive == fork).expect("a fork that is uploaded has a HEAD");
        let volume = self.look(&store, (head.root, head.root_hash)).await;
        let contents = self.contents(&VolumeDevice(volume)).await;
        assert_eq!(
            contents,
            Some(self.model.all(index)),
            "seed {}: fork {fork} of device {index}",
            self.seed
        );
    }

    /// The first `count` writes of a device were acknowledged as committed.
    fn committed(&mut self, index: usize, count: usize) {
        match self.forks[index] {
            Some(fork) => self.model.committed_to_fork(fork, index, count),
            None => self.model.committed(self.seed, index, count),
        }
    }

    /// Every HEAD that the drive has had.
    fn heads(&self) -> Vec<Head> {
        let heads = self.store.heads();
        let heads =
            heads.iter().map(|bytes| Head::decode(&self.sealer, bytes).expect("only HEADs are put so"));
        heads.filter(|head| head.drive == self.drive).collect()
    }

    /// Whether another device has committed since this one last opened the drive: it has put a HEAD with another root than the
    /// one it took the drive with.
    fn other_has_committed(&self, index: usize) -> bool {
        let heads = self.heads();
        let foreign = heads.iter().enumerate().skip(self.known[index]);
        let mut foreign = foreign.filter(|(_, head)| head.device != device(index).id);
        foreign.any(|(at, head)| {
            let same = |before: &&Head| before.device == head.device && before.epoch == head.epoch;
            heads[..at].iter().filter(same).any(|before| before.root != head.root)
        })
    }

    fn disk_fails(&self, index: usize) -> bool {
        self.disks[index].faults().sync_fails > 0
    }

    /// The stamp of every block.
    async fn contents(&self, device: &VolumeDevice) -> Option<Vec<u64>> {
        let mut contents = Vec::new();
        for block in 0..BLOCKS {
            contents.push(read_block(device, block).await?);
        }
        Some(contents)
    }

    /// Checks the store alone, on an empty machine.
    fn check_store(&mut self) {
        let store = self.store.copy();
        let (roots, seed) = (self.snapshots.clone(), self.seed);
        let (contents, forks) = run(async {
            let swap = with_swap(seed, &store);
            let heads = drive::heads(&*swap, &self.sealer).await.unwrap();
            let (mut drives, others): (Vec<_>, Vec<_>) =
                heads.into_iter().partition(|head| head.drive == self.drive);
            let head = drives.remove(0);
            let mut forks = Vec::new();
            for fork in others {
                let volume = self.look(&store, (fork.root, fork.root_hash)).await;
                let contents = self.contents(&VolumeDevice(volume)).await;
                forks.push((fork, contents.expect("the copy of the store does not fail")));
            }
            let root = self.look(&store, (head.root, head.root_hash)).await;
            let opened = root.opened_root().clone();
            for snapshot in opened.snapshots {
                let volume = self.look(&store, (snapshot.root, snapshot.root_hash)).await;
                let contents = self.contents(&VolumeDevice(volume)).await;
                if let Some(expected) = roots.get(&snapshot.label) {
                    assert_eq!(contents.as_ref(), Some(expected), "seed {seed}: snapshot {}", snapshot.label);
                }
            }
            let contents = self.contents(&VolumeDevice(root)).await;
            (contents.expect("the copy of the store does not fail"), forks)
        });
        self.model.check_store(self.seed, &contents);
        for (head, contents) in &forks {
            self.model.check_fork(self.seed, head.drive, contents);
        }
        for index in 0..2 {
            let made = forks.iter().filter(|(head, _)| head.device == device(index).id).count();
            assert!(made <= self.disks_used[index], "seed {seed}: device {index} has made a fork twice");
        }
    }

    async fn look(
        &self,
        store: &SimStore,
        root: (holdall_core::format::id::ObjectId, [u8; 32]),
    ) -> Arc<Volume> {
        let disk = SimDisk::new(0, DiskFaults::default());
        let env = self.environment(&disk, store);
        let opened = volume::open(env, self.drive, device(7), Access::Look { root }, LIMITS).await;
        opened.unwrap_or_else(|error| panic!("seed {}: the store alone does not open: {error}", self.seed))
    }

    /// Opens the drive while the store is away, if possible, and works on it. Then the store comes back.
    async fn life_away(&mut self, index: usize) -> End {
        self.store.set_commits_away(true);
        let env = self.environment(&self.disks[index], &self.store);
        let access = Access::Away { mounted: false };
        let opened = volume::open(env, self.drive, device(index), access, LIMITS).await;
        let volume = match opened {
            Ok(volume) => volume,
            Err(OpenError::NotSeen) => return End::Crashed,
            Err(OpenError::Local(_) | OpenError::Journal(_)) if self.disk_fails(index) => {
                return End::Crashed;
            }
            Err(error) => panic!("seed {}: with the store away: {error}", self.seed),
        };
        assert!(!pusher(&volume).state().borrow().is_taken, "seed {}: it is away", self.seed);
        self.forks[index] = fork_of(&volume);
        let (journal, end, fork) = (volume.journal().uuid(), volume.journal().appended(), self.forks[index]);
        trace(|| format!("device {index} opens {fork:?} away, journal {journal} ends at {end}"));
        let device = VolumeDevice(volume.clone());
        let Some(contents) = self.contents(&device).await else { return End::Crashed };
        match self.forks[index] {
            Some(fork) => self.model.opened_fork(self.seed, index, fork, &contents),
            None => self.model.opened_away(self.seed, index, &contents),
        }
        for _ in 0..self.rng.random_range(0..30) {
            // Writes, zeros, flushes and reads. Anything else needs the store.
            let count = self.rng.random_range(1..6);
            let start = self.rng.random_range(0..BLOCKS - count);
            let goes_on = match self.rng.random_range(0..4) {
                0 => {
                    let count = self.model.len(index);
                    let flushed = self.patience(device.flush()).await;
                    let goes_on = matches!(flushed, Some(Ok(())));
                    if goes_on {
                        self.model.flushed(index, count);
                    }
                    goes_on
                }
                1 => read_block(&device, start).await.is_some_and(|found| {
                    assert_eq!(found, self.model.now(index, start), "seed {}: block {start} away", self.seed);
                    true
                }),
                _ => self.write(index, &device, BlockRange::new(start, count)).await,
            };
            if !goes_on {
                return End::Crashed;
            }
            self.moment().await;
        }
        if self.rng.random_ratio(1, 4) {
            return End::Crashed;
        }
        self.store.set_commits_away(false);
        let count = self.model.len(index);
        match tokio::time::timeout(HOURS, pusher(&volume).sync()).await {
            Ok(Ok(_)) => self.committed(index, count),
            Ok(Err(PushError::Forked(_))) => {
                assert!(
                    self.other_has_taken(index),
                    "seed {}: device {index} becomes a fork, and nobody else has had the drive",
                    self.seed
                );
                self.forks[index] = fork_of(&volume);
                trace(|| format!("device {index} goes on as fork {:?}", fork_of(&volume)));
                let synced = tokio::time::timeout(HOURS, pusher(&volume).sync()).await;
                match synced {
                    Ok(Ok(_)) => {
                        self.committed(index, count);
                        self.check_fork_alone(index).await;
                    }
                    Ok(Err(PushError::Journal(_))) => return End::Crashed,
                    other => panic!("seed {}: the fork is not uploaded: {other:?}", self.seed),
                }
            }
            Ok(Err(PushError::Journal(_))) => return End::Crashed,
            other => panic!("seed {}: the store is back: {other:?}", self.seed),
        }
        if self.forks[index].is_none() {
            self.known[index] = self.heads().len();
        }
        self.steps(index, &volume, &device).await;
        End::Crashed
    }

    /// Whether another device has put a HEAD since this one last opened the drive.
    fn other_has_taken(&self, index: usize) -> bool {
        self.heads().iter().skip(self.known[index]).any(|head| head.device != device(index).id)
    }

    async fn life(&mut self, index: usize) -> End {
        let Some(volume) = self.open(index).await else { return End::Crashed };
        let device = VolumeDevice(volume.clone());
        let Some(()) = self.look_at(index, &volume).await else { return End::Crashed };
        for _ in 0..self.rng.random_range(1..60) {
            if !self.step(index, &volume, &device).await {
                return End::Crashed;
            }
            self.moment().await;
        }
        if self.forks[index].is_some() {
            // A person may use the fork for a while before it is set apart.
            if self.rng.random_ratio(1, 2) {
                let _ = self.part_with_fork(index, &volume).await;
            }
        } else if self.rng.random_ratio(1, 4) {
            return self.take_over(index, volume).await;
        }
        if self.rng.random_ratio(1, 2) {
            // Release pushes everything that is left, so all of it counts as committed.
            volume.stop_serving();
            let count = self.model.len(index);
            let closed = tokio::time::timeout(HOURS, volume.release()).await;
            if matches!(closed, Ok(Ok(()))) {
                self.committed(index, count);
                let _ = volume.settle().await;
                return End::Closed;
            }
        }
        End::Crashed
    }

    /// Lets time pass, so that background work runs between the steps.
    async fn moment(&mut self) {
        if self.rng.random_ratio(1, 3) {
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..60))).await;
        }
    }

    /// One random event. Returns false once the device has stopped for good.
    async fn step(&mut self, index: usize, volume: &Arc<Volume>, device: &VolumeDevice) -> bool {
        let what = self.rng.random_range(0..100);
        trace(|| format!("step {what}"));
        match what {
            0..45 => {
                let count = self.rng.random_range(1..6);
                let start = self.rng.random_range(0..BLOCKS - count);
                self.write(index, device, BlockRange::new(start, count)).await
            }
            45..52 => {
                let count = self.rng.random_range(1..80);
                let start = self.rng.random_range(0..BLOCKS - count);
                let range = BlockRange::new(start, count);
                self.model.zero(index, range);
                let zero = device.zero(range.bytes(), Zeroing::MayPunch, Durability::Ordered);
                self.patience(zero).await.is_some_and(|result| result.is_ok())
            }
            52..56 => self.write_bytes(index, device).await,
            56..66 => {
                let count = self.model.len(index);
                let flushed = self.patience(device.flush()).await;
                let Some(Ok(())) = flushed else { return false };
                self.model.flushed(index, count);
                true
            }
            66..78 => {
                let block = self.rng.random_range(0..BLOCKS);
                let Some(found) = read_block(device, block).await else { return false };
                assert_eq!(
                    found,
                    self.model.now(index, block),
                    "seed {}: block {block} while it runs",
                    self.seed
                );
                true
            }
            78..86 => {
                let chunks: Vec<_> = (0..BLOCKS / 16).filter(|_| self.rng.random()).map(ChunkIndex).collect();
                let _ = volume.evict(&chunks).await;
                true
            }
            86..88 => {
                // Nobody waits for this sync: it does not cover writes made meanwhile.
                let volume = volume.clone();
                tokio::spawn(async move { pusher(&volume).sync().await });
                true
            }
            88..91 => {
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..40_000))).await;
                true
            }
            91..95 => {
                let count = self.model.len(index);
                match tokio::time::timeout(Duration::from_secs(600), pusher(volume).sync()).await {
                    Ok(Ok(_)) => self.committed(index, count),
                    Ok(Err(PushError::Fenced(_) | PushError::Forked(_))) => {
                        panic!("seed {}: nobody else took it", self.seed)
                    }
                    Ok(Err(_)) => return false,
                    Err(_) => {}
                }
                true
            }
            95..97 => {
                let label = format!("{}", self.snapshots.len());
                let (count, contents) = (self.model.len(index), self.model.all(index));
                if let Ok(Ok(_)) =
                    tokio::time::timeout(Duration::from_secs(600), pusher(volume).snapshot(&label)).await
                {
                    self.committed(index, count);
                    // Snapshots of a fork are not the drive's.
                    if self.forks[index].is_none() {
                        self.snapshots.insert(label, contents);
                    }
                }
                true
            }
            97 if self.rng.random_ratio(1, 3) => self.rewrite_while_paused(index, volume, device).await,
            _ => {
                // Sometimes the collection is stopped, at any of its steps.
                let stopped_after = Duration::from_millis(match self.rng.random_ratio(1, 3) {
                    true => self.rng.random_range(0..20_000),
                    false => 3_600_000,
                });
                let stop = async {
                    tokio::time::sleep(stopped_after).await;
                    pusher(volume).stop_collecting();
                    std::future::pending::<()>().await
                };
                let collect = tokio::time::timeout(Duration::from_secs(900), pusher(volume).collect());
                let collected = tokio::select! { biased;
                    collected = collect => collected,
                    () = stop => unreachable!("it waits"),
                };
                !matches!(collected, Ok(Err(PushError::Journal(_))))
            }
        }
    }

    /// Rewrites the same few blocks while nothing is pushed, so that the journal is compacted.
    async fn rewrite_while_paused(
        &mut self,
        index: usize,
        volume: &Arc<Volume>,
        device: &VolumeDevice,
    ) -> bool {
        pusher(volume).set_paused(true);
        let first = self.rng.random_range(0..BLOCKS - 8);
        for _ in 0..self.rng.random_range(40..160) {
            let start = first + self.rng.random_range(0..6);
            let range = BlockRange::new(start, self.rng.random_range(1..3));
            if !self.write(index, device, range).await {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..600))).await;
        }
        pusher(volume).set_paused(false);
        true
    }

    async fn write(&mut self, index: usize, device: &VolumeDevice, range: BlockRange) -> bool {
        let stamp = self.model.write(index, range);
        let data = model::data(stamp, range.count());
        let durability = if self.rng.random_ratio(1, 10) { Durability::Forced } else { Durability::Ordered };
        let written = self.patience(device.write(range.start * BLOCK_BYTES, &data, durability)).await;
        written.is_some_and(|result| result.is_ok())
    }

    /// Writes part of a block, as a client may that knows no block size.
    async fn write_bytes(&mut self, index: usize, device: &VolumeDevice) -> bool {
        let block = self.rng.random_range(0..BLOCKS);
        // The write covers the first 4000 bytes, all that the model looks at. The rest of the block is read and written back.
        let stamp = self.model.write(index, BlockRange::new(block, 1));
        let data = model::data(stamp, 1);
        let write = device.write(block * BLOCK_BYTES, &data[..4000], Durability::Ordered);
        self.patience(write).await.is_some_and(|result| result.is_ok())
    }

    /// Waits as long as a store that is away may take to free the journal.
    async fn patience<T: Send + 'static>(
        &self,
        answer: Answer<T>,
    ) -> Option<Result<T, holdall_core::device::DeviceError>> {
        tokio::time::timeout(HOURS, answer.wait()).await.ok()
    }

    /// The other device takes the drive while this one still runs.
    async fn take_over(&mut self, index: usize, zombie: Arc<Volume>) -> End {
        let other = 1 - index;
        let Some(volume) = self.open_drive(other).await else { return End::TakenOver };
        let device = VolumeDevice(volume.clone());
        let Some(()) = self.look_at(other, &volume).await else { return End::TakenOver };
        // The device that lost the drive may sleep for long, or write again at once.
        if self.rng.random_ratio(1, 2) {
            self.steps(other, &volume, &device).await;
        }
        let stamp = self.model.write(index, BlockRange::new(0, 1));
        let late = VolumeDevice(zombie.clone()).write(0, &model::data(stamp, 1), Durability::Ordered);
        let late = tokio::time::timeout(Duration::from_secs(60), late.wait()).await;
        if matches!(late, Ok(Ok(()))) {
            let (is_cut, faults) = (self.rng.random_ratio(1, 4), self.disks[index].faults());
            if is_cut {
                // So slow that the fork reaches the store first, if anything allows it.
                self.disks[index].set_faults(DiskFaults { sync_time: Duration::from_secs(30), ..faults });
            }
            let synced = tokio::select! { biased;
                () = self.fork_is_there(), if is_cut => None,
                synced = tokio::time::timeout(HOURS, pusher(&zombie).sync()) => Some(synced),
            };
            self.disks[index].set_faults(faults);
            let Some(synced) = synced else { return End::TakenOver };
            let state = pusher(&zombie).state().borrow().clone();
            match synced {
                Ok(Ok(_)) | Ok(Err(PushError::Forked(_))) => {
                    let fork = state.fork.as_ref().map(|fork| fork.drive);
                    assert!(fork.is_some(), "seed {}: the fenced device committed: {synced:?}", self.seed);
                    trace(|| format!("device {index} goes on as fork {fork:?}"));
                    self.forks[index] = fork;
                    if state.committed == zombie.journal().appended() {
                        self.committed(index, self.model.len(index));
                        self.check_fork_alone(index).await;
                    }
                }
                Ok(Err(PushError::Journal(_))) => {}
                other => panic!("seed {}: the fenced device has no fork: {other:?}", self.seed),
            }
        }
        self.steps(other, &volume, &device).await;
        End::TakenOver
    }

    /// Returns as soon as the store has one more HEAD of a fork. If the power fails then, the device must know that it has a
    /// fork.
    async fn fork_is_there(&self) {
        let forks = || self.store.heads().len() - self.heads().len();
        let before = forks();
        // If the store is away, no one watches it this closely.
        for _ in 0..10_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if forks() > before {
                return;
            }
        }
        std::future::pending().await
    }

    async fn steps(&mut self, index: usize, volume: &Arc<Volume>, device: &VolumeDevice) {
        for _ in 0..self.rng.random_range(0..20) {
            if !self.step(index, volume, device).await {
                break;
            }
        }
    }
}

fn fork_of(volume: &Volume) -> Option<Uuid> {
    pusher(volume).state().borrow().fork.as_ref().map(|fork| fork.drive)
}

fn pusher(volume: &Volume) -> &holdall_core::push::Pusher {
    volume.pusher().expect("the drive is open for writing")
}

/// The stamp of a block, or none if the device has stopped for good.
async fn read_block(device: &VolumeDevice, block: u64) -> Option<u64> {
    let mut data = vec![0; BLOCK_BYTES as usize];
    let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
    for _ in 0..5 {
        let answer = tokio::time::timeout(HOURS, device.read(range.clone()).wait()).await;
        if let Ok(Ok(lease)) = answer {
            lease.copy_to(&mut data).ok()?;
            return Some(model::stamp(&data));
        }
    }
    None
}

pub fn simulate(seed: u64) {
    let mut world = World::new(seed);
    world.store.set_faults(STORE_FAULTS);
    let lives = world.rng.random_range(2..7);
    let mut index = 0;
    for _ in 0..lives {
        if world.rng.random_ratio(1, 4) {
            index = 1 - index;
        }
        let crash_after =
            if world.rng.random_ratio(2, 3) { world.rng.random_range(1..120) } else { u64::MAX };
        let disk = world.disks[index].clone();
        trace(|| format!("life of device {index}"));
        let end = run(async {
            tokio::select! { biased;
                () = disk.after_syncs(crash_after) => End::Crashed,
                end = async {
                    match world.rng.random_ratio(1, 5) {
                        true => world.life_away(index).await,
                        false => world.life(index).await,
                    }
                } => end,
            }
        });
        world.store.set_commits_away(false);
        trace(|| format!("it ends: {end:?}"));
        match end {
            End::Closed | End::Crashed if world.rng.random_ratio(2, 3) => world.disks[index].power_cut(),
            End::Closed | End::Crashed => world.disks[index].kill(),
            End::TakenOver => {
                world.disks.iter().for_each(SimDisk::power_cut);
                index = 1 - index;
            }
        }
        world.check_store();
    }
}

#[test]
fn every_seed_keeps_every_promise() {
    assert_promises_hold(simulate, seeds(1000));
}

/// Whatever was pulled for a reader was evicted before the reader took it, for ever.
#[test]
fn a_reader_in_a_full_cache_gets_its_blocks() {
    simulate(9_514_860_508);
}
