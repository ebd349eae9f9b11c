//! Three devices and a store, simulated in virtual time, for tests of one situation at a time.

use holdall_core::device::{BlockDevice, DeviceError, Durability};
use holdall_core::disk::Disk;
use holdall_core::drive;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::PageCache;
use holdall_core::push::Device;
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::Store;
use holdall_core::store::meter::Meter;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{self, Access, Environment, OpenError, Over, Volume, VolumeDevice, VolumeLimits};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

pub mod layer;
pub mod world;

pub const FAMILY: Uuid = Uuid::from_u128(9);
pub const GEOMETRY: Geometry =
    Geometry { size_blocks: 256, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 };
pub const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 96 << 10, files: 8, reserve_files: 2 },
    cache_bytes: 1 << 20,
    batch_bytes: 128 << 10,
    tail_segments: 12,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};

/// Runs in virtual time: hours pass at once, and nothing depends on the speed of this machine.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

pub fn device(index: usize) -> Device {
    Device { id: Uuid::from_u128(index as u128 + 1), name: format!("device {index}") }
}

/// One drive, which three devices may open.
pub struct Bench {
    pub store: SimStore,
    pub sealer: Arc<Sealer>,
    pub drive: Uuid,
    pub limits: VolumeLimits,
    pub devices: [Disks; 3],
}

/// The local disks of a device. Each can fail on its own.
pub struct Disks {
    pub state: SimDisk,
    pub journal: SimDisk,
    pub cache: SimDisk,
}

impl Disks {
    fn new(seed: u64) -> Self {
        let disk = |salt| SimDisk::new(seed ^ salt, DiskFaults::default());
        Self { state: disk(1), journal: disk(2), cache: disk(3) }
    }

    /// Kills the process: the page cache survives.
    pub fn kill(&self) {
        [&self.state, &self.journal, &self.cache].into_iter().for_each(SimDisk::kill);
    }

    pub fn power_cut(&self) {
        [&self.state, &self.journal, &self.cache].into_iter().for_each(SimDisk::power_cut);
    }

    /// The same files on another computer's disks.
    pub fn copy(&self) -> Self {
        Self { state: self.state.copy(81), journal: self.journal.copy(82), cache: self.cache.copy(83) }
    }

    /// Loses the cache, as if a person had deleted it.
    pub fn lose_cache(&mut self) {
        self.cache = SimDisk::new(77, DiskFaults::default());
    }

    /// The journal's files in order, each with its first LSN.
    pub fn journal_files(&self) -> Vec<(u64, String)> {
        let journal = self.journal.directory("journal");
        let mut files = Vec::new();
        for name in journal.list().unwrap() {
            let mut header = [0; 64];
            journal.open(&name, false).unwrap().read_at(&mut header, 0).unwrap();
            if header[..7] == *b"HLDJRNL" {
                files.push((u64::from_le_bytes(header[40..48].try_into().unwrap()), name));
            }
        }
        files.sort();
        files
    }

    pub fn flip_journal_bit(&self, name: &str, byte: u64) {
        self.journal.directory("journal").flip_bit(name, byte * 8);
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::of(GEOMETRY, LIMITS)
    }

    pub fn of(geometry: Geometry, limits: VolumeLimits) -> Self {
        run(Self::make(geometry, limits))
    }

    /// The same, for a test that runs in virtual time already.
    pub async fn make(geometry: Geometry, limits: VolumeLimits) -> Self {
        holdall_core::entropy::seed_this_thread(1);
        let sealer = Arc::new(Sealer::new(Cipher::None, &DataKey([7; 32].into())));
        let store = SimStore::new(1, StoreFaults::default());
        let drive = drive::create(&store, &sealer, FAMILY, "d", geometry, &device(0)).await.unwrap();
        Self { store, sealer, drive, limits, devices: [16, 32, 80].map(Disks::new) }
    }

    /// The same drive, store and computers, to try another way out of the same situation.
    pub fn again(&self) -> Self {
        let Self { store, sealer, drive, limits, devices } = self;
        let devices = devices.each_ref().map(Disks::copy);
        Self { store: store.copy(), sealer: sealer.clone(), drive: *drive, limits: *limits, devices }
    }

    /// The same drive, for computers that never had it.
    pub fn elsewhere(&self) -> Self {
        let Self { store, sealer, drive, limits, .. } = self;
        let devices = [48, 64, 96].map(Disks::new);
        Self { store: store.clone(), sealer: sealer.clone(), drive: *drive, limits: *limits, devices }
    }

    pub async fn open(&self, index: usize) -> Result<Arc<Volume>, OpenError> {
        self.open_with(index, Access::Write { over: Over::Nobody, mounted: false }).await
    }

    /// Opens the drive and fences any other holder.
    pub async fn take(&self, index: usize) -> Result<Arc<Volume>, OpenError> {
        self.open_with(index, Access::Write { over: Over::Anybody, mounted: false }).await
    }

    pub async fn open_with(&self, index: usize, access: Access) -> Result<Arc<Volume>, OpenError> {
        self.open_on(Arc::new(self.store.clone()), index, access).await
    }

    /// Opens the drive in another store.
    pub async fn open_on(
        &self,
        store: Arc<dyn Store>,
        index: usize,
        access: Access,
    ) -> Result<Arc<Volume>, OpenError> {
        let environment = self.environment(store, index);
        volume::open(environment, self.drive, device(index), access, self.limits).await
    }

    /// Where the drive lives on a device, with that store.
    pub fn environment(&self, store: Arc<dyn Store>, index: usize) -> Environment {
        let disks = &self.devices[index];
        let meter = Meter::default();
        Environment {
            state: Arc::new(disks.state.directory("state")),
            journal: Arc::new(disks.journal.directory("journal")),
            cache: Arc::new(disks.cache.directory("cache")),
            store: meter.on(store),
            meter,
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        }
    }
}

/// From here to a distant store and back.
pub const ROUND_TRIP: Duration = Duration::from_secs(1);

pub async fn write(volume: &Arc<Volume>, block: u64, byte: u8, durability: Durability) {
    let data = [byte; BLOCK_BYTES as usize];
    VolumeDevice(volume.clone()).write(block * BLOCK_BYTES, &data, durability).wait().await.unwrap();
}

/// Writes a block, and waits until it is durable here.
pub async fn put(volume: &Arc<Volume>, block: u64, byte: u8) {
    write(volume, block, byte, Durability::Forced).await;
}

/// The byte that fills the whole block.
pub async fn get(volume: &Arc<Volume>, block: u64) -> u8 {
    try_get(volume, block).await.unwrap()
}

pub async fn try_get(volume: &Arc<Volume>, block: u64) -> Result<u8, DeviceError> {
    let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
    let lease = VolumeDevice(volume.clone()).read(range).wait().await?;
    let mut data = vec![0; BLOCK_BYTES as usize];
    lease.copy_to(&mut data)?;
    assert!(data.iter().all(|byte| *byte == data[0]), "block {block} is torn");
    Ok(data[0])
}

pub async fn close(volume: Arc<Volume>) {
    volume.stop_serving();
    volume.release().await.unwrap();
    volume.shut_down().await.unwrap();
}
