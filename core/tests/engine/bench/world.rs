//! A drive with an ext4 file system and files, made by `mke2fs`, and computers that open it from afar.

use super::layer::{Layer, Layered, away, far};
use super::{Bench, LIMITS, close, device, run};
use async_trait::async_trait;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::real::Directory;
use holdall_core::ext4::{InodeNumber, Kind, Limits, Walk};
use holdall_core::format::root::Geometry;
use holdall_core::map::PageCache;
use holdall_core::store::meter::Meter;
use holdall_core::store::{Store, StoreError};
use holdall_core::units::BlockRange;
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// Blocks of the drive (256 MiB).
pub const BLOCKS: u64 = 65_536;
/// From a computer to the store, and back.
pub const ROUND_TRIP: Duration = Duration::from_millis(50);

/// A store that does not answer.
struct Gone(Arc<dyn Store>);

#[async_trait]
impl Layer for Gone {
    fn store(&self) -> &dyn Store {
        &*self.0
    }

    async fn reach(&self) -> Result<(), StoreError> {
        Err(away())
    }
}

/// A store that accepts connections and stops answering once the flag is set: a request fails after a while.
struct Silent(Arc<dyn Store>, Arc<AtomicBool>);

#[async_trait]
impl Layer for Silent {
    fn store(&self) -> &dyn Store {
        &*self.0
    }

    async fn reach(&self) -> Result<(), StoreError> {
        /// How long Holdall's stores wait for an answer.
        const PATIENCE: Duration = Duration::from_secs(20);
        if !self.1.load(Relaxed) {
            return Ok(());
        }
        tokio::time::sleep(PATIENCE).await;
        Err(away())
    }
}

/// A file system in a file, and the drive that has it.
pub struct World {
    pub dir: TempDir,
    pub image: PathBuf,
    pub bench: Bench,
}

/// Where a file is: each run on the drive, with the file's block that it begins with.
pub struct Place(pub Vec<(u64, BlockRange)>);

impl Place {
    /// Where these bytes of the file are.
    pub fn of(&self, bytes: Range<u64>) -> Vec<BlockRange> {
        let wanted = BlockRange::covering(&bytes);
        let parts = self.0.iter().map(|(at, run)| {
            let inside = BlockRange::new(*at, run.count()).intersect(&wanted);
            BlockRange::new(run.start + inside.start.saturating_sub(*at), inside.count())
        });
        parts.filter(|part| !part.is_empty()).collect()
    }
}

impl World {
    /// Makes a drive with the files that `write_files` puts into a directory.
    pub fn of(write_files: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (image, source) = (dir.path().join("image"), dir.path().join("source"));
        std::fs::create_dir(&source).unwrap();
        write_files(&source);
        File::create(&image).unwrap().set_len(BLOCKS * 4096).unwrap();
        let made = Command::new("/sbin/mke2fs")
            .args([
                "-q", "-F", "-t", "ext4", "-b", "4096", "-i", "65536", "-J", "size=16", "-N", "4000", "-E",
            ])
            .arg("packed_meta_blocks=1,root_owner=0:0,assume_storage_prezeroed=1")
            .arg("-d")
            .arg(&source)
            .arg(&image)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let journal = holdall_core::journal::Limits { file_bytes: 16 << 20, files: 16, reserve_files: 2 };
        let limits = VolumeLimits { journal, cache_bytes: 1 << 30, batch_bytes: 32 << 20, ..LIMITS };
        let world = Self { dir, image, bench: Bench::of(Geometry::standard(BLOCKS), limits) };
        world.fill();
        world
    }

    /// Writes the image to the drive.
    fn fill(&self) {
        run(async {
            let volume = self.open(0, self.store()).await;
            let image = File::open(&self.image).unwrap();
            let mut piece = vec![0; 64 * 4096];
            for start in (0..BLOCKS).step_by(64) {
                image.read_exact_at(&mut piece, start * 4096).unwrap();
                if piece.iter().any(|byte| *byte != 0) {
                    let device = VolumeDevice(volume.clone());
                    device.write(start * 4096, &piece, Durability::Ordered).wait().await.unwrap();
                }
            }
            volume.pusher().unwrap().sync().await.unwrap();
            close(volume).await;
        });
    }

    pub async fn open(&self, index: usize, store: Arc<dyn Store>) -> Arc<Volume> {
        self.open_for(index, store, Access::Write { over: TakeOver::Nobody, mounted: false }).await.unwrap()
    }

    pub async fn open_for(
        &self,
        index: usize,
        store: Arc<dyn Store>,
        access: Access,
    ) -> Result<Arc<Volume>, OpenError> {
        let directory =
            |name| Arc::new(Directory::create(&self.dir.path().join(format!("{index} {name}"))).unwrap());
        let meter = Meter::default();
        let environment = Environment {
            state: directory("state"),
            journal: directory("journal"),
            cache: directory("cache"),
            store: meter.on(store),
            meter,
            sealer: self.bench.sealer.clone(),
            pages: PageCache::none(),
        };
        volume::open(environment, self.bench.drive, device(index), access, self.bench.limits).await
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.bench.store.clone())
    }

    pub fn far(&self) -> Arc<dyn Store> {
        far(self.store(), ROUND_TRIP)
    }

    pub fn gone(&self) -> Arc<dyn Store> {
        Arc::new(Layered(Gone(self.store())))
    }

    pub fn silent(&self) -> Arc<dyn Store> {
        self.silent_from(Arc::new(AtomicBool::new(true)))
    }

    pub fn silent_from(&self, is_silent: Arc<AtomicBool>) -> Arc<dyn Store> {
        Arc::new(Layered(Silent(self.store(), is_silent)))
    }

    pub async fn open_from_afar(&self) -> Arc<Volume> {
        self.open(1, self.far()).await
    }

    /// The file system as the image has it.
    pub fn walk(&self) -> Walk {
        let image = File::open(&self.image).unwrap();
        let mut walk = Walk::new(BLOCKS, Limits::default());
        while !walk.wanted().is_empty() {
            walk.feed(&mut |range, bytes| image.read_exact_at(bytes, range.start * 4096).is_ok()).unwrap();
        }
        walk
    }

    pub fn needed(&self) -> Vec<BlockRange> {
        let is_needed = |kind| !matches!(kind, Kind::Backup | Kind::Reserve | Kind::Journal);
        let metadata = self.walk().metadata().into_iter();
        metadata.filter(|(_, kind)| is_needed(*kind)).map(|(range, _)| range).collect()
    }

    /// Where a file is on the drive.
    pub fn place(&self, path: &str) -> Place {
        Place(self.walk().runs_of(self.inode(path)).unwrap())
    }

    pub fn inode(&self, path: &str) -> InodeNumber {
        let stat = Command::new("/sbin/debugfs")
            .args(["-R", &format!("stat {path}")])
            .arg(&self.image)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&stat.stdout).into_owned();
        let number = text.split("Inode: ").nth(1).unwrap().split_whitespace().next().unwrap();
        InodeNumber(number.parse().unwrap())
    }
}

pub async fn until(volume: &Arc<Volume>, done: impl Fn(&Volume) -> bool) -> Duration {
    let begun = Instant::now();
    while !done(volume) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

pub fn are_local(volume: &Volume, ranges: &[BlockRange]) -> bool {
    ranges.iter().all(|range| volume.cache().absent(*range).is_empty())
}

/// Reads blocks, and waits for them.
pub async fn read(volume: &Arc<Volume>, blocks: BlockRange) {
    drop(VolumeDevice(volume.clone()).read(blocks.bytes()).wait().await.unwrap());
}
