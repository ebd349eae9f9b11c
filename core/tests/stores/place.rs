//! A store that was started for a test, and machines that use it.

use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::real::Directory;
use holdall_core::drive;
use holdall_core::family;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::Device;
use holdall_core::seal::Sealer;
use holdall_core::store::Store;
use holdall_core::store::connect::with_heads;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::Pacer;
use holdall_core::store::probe::Mode;
use holdall_core::store::url::StoreUrl;
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::faults::FaultProxy;
use holdall_servers::odd_directory::OddDirectory;
use holdall_servers::s3::{self, S3Server};
use holdall_servers::unconditional::Unconditional;
use holdall_servers::{odd_dav, odd_s3};
use holdall_store::connect::raw;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

pub const BLOCK: u64 = 4096;
/// Longer than any delayed commit takes. A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Small segments and pages, so that a commit of little data has many objects.
const GEOMETRY: Geometry =
    Geometry { size_blocks: 256, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 96 << 10, files: 8, reserve_files: 2 },
    cache_bytes: 1 << 20,
    batch_bytes: 128 << 10,
    tail_segments: 12,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};

/// A store.
pub struct Place {
    /// How the store keeps devices apart.
    pub mode: Mode,
    /// The address of its server; none for a directory.
    pub server: Option<SocketAddr>,
    credentials: Credentials,
    /// Its address as a client uses it, through this server.
    url: Box<dyn Fn(Option<SocketAddr>) -> String>,
    dir: TempDir,
    /// The server itself, as long as it is needed.
    _keeps: Box<dyn Any>,
}

/// Real time and several threads, as in the product.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(future)
}

/// A directory.
pub fn file() -> Place {
    directory_by(Mode::Claim)
}

/// A directory as older drives use it: they swap under a lock.
pub fn file_by_locks() -> Place {
    directory_by(Mode::Swap)
}

/// A directory whose HEADs change in this way.
pub fn directory_by(mode: Mode) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let url = format!("file://{}", store.display());
    Place {
        mode,
        server: None,
        credentials: Credentials::None,
        url: Box::new(move |_| url.clone()),
        dir,
        _keeps: Box::new(()),
    }
}

/// A directory that each computer mounts for itself, as the first computer sees it.
pub fn shared(directory: &OddDirectory) -> Place {
    let url = format!("file://{}", directory.path(0).display());
    Place {
        mode: Mode::Claim,
        server: None,
        credentials: Credentials::None,
        url: Box::new(move |_| url.clone()),
        dir: tempfile::tempdir().unwrap(),
        _keeps: Box::new(()),
    }
}

/// S3 with compare-and-swap.
pub fn s3() -> Place {
    let server = S3Server::start();
    let address = server.address();
    s3_at(Mode::Swap, address, Box::new(server))
}

/// S3 that accepts conditions and ignores them.
pub fn s3_without_swap() -> Place {
    let server = S3Server::start();
    let heedless = Unconditional::start(server.address());
    let address = heedless.address();
    s3_at(Mode::None, address, Box::new((heedless, server)))
}

fn s3_at(mode: Mode, server: SocketAddr, keeps: Box<dyn Any>) -> Place {
    Place {
        mode,
        server: Some(server),
        credentials: serde_json::from_str(&s3::credentials()).unwrap(),
        url: Box::new(|server| s3::url("http", server.unwrap(), "some/where")),
        dir: tempfile::tempdir().unwrap(),
        _keeps: keeps,
    }
}

/// S3 with unusual habits, used by claims.
pub fn odd_s3(habits: odd_s3::Habits) -> Place {
    let fake = odd_s3::start(habits);
    s3_at(Mode::Claim, fake.address(), Box::new(fake))
}

/// WebDAV with unusual habits.
pub fn odd_dav(habits: odd_dav::Habits) -> Place {
    let fake = odd_dav::start(habits);
    Place {
        mode: Mode::Claim,
        server: Some(fake.address()),
        credentials: Credentials::None,
        url: Box::new(|server| format!("http://{}/s/", server.unwrap())),
        dir: tempfile::tempdir().unwrap(),
        _keeps: Box::new(fake),
    }
}

/// WebDAV by Apache.
pub fn apache() -> Place {
    dav_at(DavServer::apache(SignIn::None))
}

/// WebDAV by nginx.
pub fn nginx() -> Place {
    dav_at(DavServer::nginx(SignIn::None))
}

fn dav_at(server: DavServer) -> Place {
    Place {
        mode: Mode::Claim,
        server: Some(server.address()),
        credentials: Credentials::None,
        url: Box::new(|server| format!("http://{}/drives/", server.unwrap())),
        dir: tempfile::tempdir().unwrap(),
        _keeps: Box::new(server),
    }
}

impl Place {
    /// The plain store, through `server`. `meter` counts.
    pub fn connect_counted(&self, server: Option<SocketAddr>, meter: &Meter) -> Arc<dyn Store> {
        let url = StoreUrl::parse(&(self.url)(server)).unwrap();
        raw(&url, &self.credentials, &DriveNames, &Pacer::new(), meter).unwrap()
    }

    /// The plain store, through `server`.
    pub fn connect_by(&self, server: Option<SocketAddr>) -> Arc<dyn Store> {
        self.connect_counted(server, &Meter::default())
    }

    /// The plain store.
    pub fn connect(&self) -> Arc<dyn Store> {
        self.connect_by(self.server)
    }

    /// The store as drives use it: HEADs go by claims where they cannot be swapped.
    pub fn for_drives(&self, server: Option<SocketAddr>) -> Arc<dyn Store> {
        with_heads(self.connect_by(server), self.mode)
    }

    /// A proxy in front of its server.
    pub fn proxy(&self) -> FaultProxy {
        FaultProxy::start(self.server.expect("it is a server"))
    }

    /// Creates a family with one drive.
    pub async fn drive(&self) -> Drive<'_> {
        let store = self.for_drives(self.server);
        let (unlocked, _) = family::create(&*store, None, self.mode).await.unwrap();
        let family = Family { place: self, sealer: unlocked.sealer.clone(), id: unlocked.family.family };
        family.drive().await
    }
}

fn device(number: u128) -> Device {
    Device { id: Uuid::from_u128(number + 1), name: format!("device {number}") }
}

/// The family in the store.
#[derive(Clone)]
pub struct Family<'a> {
    place: &'a Place,
    sealer: Arc<Sealer>,
    id: Uuid,
}

impl<'a> Family<'a> {
    /// Its identifier.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Creates another drive.
    pub async fn drive(&self) -> Drive<'a> {
        let store = self.place.for_drives(self.place.server);
        let created = drive::create(&*store, &self.sealer, self.id, "d", GEOMETRY, &device(0)).await;
        Drive { place: self.place, family: self.clone(), drive: created.unwrap() }
    }
}

/// A drive in the store.
pub struct Drive<'a> {
    place: &'a Place,
    pub family: Family<'a>,
    pub drive: Uuid,
}

impl Drive<'_> {
    /// Opens it on machine `number`, which reaches the store through `server`.
    pub async fn open_by(
        &self,
        server: Option<SocketAddr>,
        number: u128,
        access: Access,
    ) -> Result<Arc<Volume>, OpenError> {
        self.open_on(self.place.for_drives(server), number, access).await
    }

    /// Opens it on machine `number`, over this store.
    pub async fn open_on(
        &self,
        store: Arc<dyn Store>,
        number: u128,
        access: Access,
    ) -> Result<Arc<Volume>, OpenError> {
        let at = |what: &str| {
            let path = self.place.dir.path().join(format!("machine-{number}")).join(what);
            Arc::new(Directory::create(&path).unwrap())
        };
        let environment = Environment {
            state: at("state"),
            journal: at("journal"),
            cache: at("cache"),
            store,
            meter: Meter::default(),
            sealer: self.family.sealer.clone(),
            pages: PageCache::none(),
        };
        volume::open(environment, self.drive, device(number), access, LIMITS).await
    }

    /// Opens it to write.
    pub async fn open(&self, number: u128) -> Result<Arc<Volume>, OpenError> {
        self.open_by(self.place.server, number, Access::Write { over: TakeOver::Nobody, mounted: false })
            .await
    }

    /// Takes it from its holder.
    pub async fn take(&self, number: u128) -> Arc<Volume> {
        self.open_by(self.place.server, number, Access::Write { over: TakeOver::Anybody, mounted: false })
            .await
            .unwrap()
    }

    /// Reads the store alone, on an empty machine: one byte for each of the first blocks.
    pub async fn committed(&self, machine: u128, blocks: u64) -> Vec<u8> {
        let (head, _, _) = drive::current(&self.objects(), self.drive).await.unwrap();
        let access = Access::Look { root: (head.root, head.root_hash) };
        let volume = self.open_by(self.place.server, machine, access).await.unwrap();
        let found = read(&volume, blocks).await;
        volume.shut_down().await.unwrap();
        found
    }

    pub fn objects(&self) -> Arc<Objects> {
        let store = self.place.for_drives(self.place.server);
        Arc::new(Objects::new(store, self.family.sealer.clone(), PageCache::none()))
    }
}

/// Fills a block with `byte`, and waits until that is durable here.
pub async fn write(volume: &Arc<Volume>, block: u64, byte: u8) {
    let data = [byte; BLOCK as usize];
    VolumeDevice(volume.clone()).write(block * BLOCK, &data, Durability::Forced).wait().await.unwrap();
}

/// One byte for each of the first blocks, which must fill the whole block.
pub async fn read(volume: &Arc<Volume>, blocks: u64) -> Vec<u8> {
    let lease = VolumeDevice(volume.clone()).read(0..blocks * BLOCK).wait().await.unwrap();
    let mut data = vec![0; (blocks * BLOCK) as usize];
    lease.copy_to(&mut data).unwrap();
    let byte = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]), "a block is torn");
        block[0]
    };
    data.chunks(BLOCK as usize).map(byte).collect()
}

/// Pushes everything.
pub async fn push(volume: &Arc<Volume>) {
    let pushed = tokio::time::timeout(PATIENCE, volume.pusher().unwrap().sync()).await;
    pushed.expect("it is pushed in time").unwrap();
}

pub async fn close(volume: Arc<Volume>) {
    volume.stop_serving();
    volume.release().await.unwrap();
    volume.shut_down().await.unwrap();
}
