//! One drive that is known here, and what can be asked of it.

use super::failure::{self, failure};
use super::open::OpenDrive;
use super::registry::{Config, Registry};
use super::status::Shown;
use super::work::Work;
use crate::api::{self, Code, Failure, Unit};
use crate::attach::Site;
use crate::attach::doctor::KnownDrive;
use holdall_core::drive::{self, check};
use holdall_core::family::{self, Unlocked};
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::Pusher;
use holdall_core::store::Store;
use holdall_core::units::{BLOCK_BYTES, CHUNK_BLOCKS};
use holdall_core::volume::Volume;
use holdall_nbd::server::Server;
use parking_lot::{Mutex, RwLock};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use zeroize::Zeroizing;

/// How often a progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How long requests in flight may take when serving ends.
const GRACE: Duration = Duration::from_secs(10);

/// A drive.
pub struct Drive {
    pub(super) name: String,
    pub(super) registry: Arc<Registry>,
    pub(super) site: Site,
    pub(super) tree: Option<sled::Tree>,
    // Held for reading and changing a few fields.
    pub(super) config: Mutex<Config>,
    /// Held while it is opened, closed, or changed as a whole.
    pub(super) open: tokio::sync::Mutex<Option<OpenDrive>>,
    /// The engine of the open drive, for those who only look.
    pub(super) live: RwLock<Option<Arc<Volume>>>,
    pub(super) shown: Mutex<Shown>,
}

impl Drive {
    /// A drive that is closed.
    pub fn new(
        name: &str,
        config: Config,
        registry: Arc<Registry>,
        site: Site,
        tree: Option<sled::Tree>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            registry,
            site,
            tree,
            config: Mutex::new(config),
            open: tokio::sync::Mutex::new(None),
            live: RwLock::new(None),
            shown: Mutex::new(Shown::closed()),
        })
    }

    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        self.config.lock().drive
    }

    /// Where its data lives.
    pub fn store_url(&self) -> String {
        self.config.lock().store.clone()
    }

    /// For the doctor, who leaves alone what is served.
    pub fn for_doctor(&self) -> KnownDrive {
        KnownDrive { uuid: self.uuid(), name: self.name.clone(), served: self.live.read().is_some() }
    }

    /// Changes what is remembered.
    pub(super) fn remember(&self, change: impl FnOnce(&mut Config)) -> Result<(), Failure> {
        let mut config = self.config.lock();
        change(&mut config);
        self.registry.save(&self.name, &config).map_err(|error| failure::local(&error))
    }

    /// The store, and the keys.
    pub(super) async fn unlock(&self) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        let store =
            holdall_core::store::url::connect(&self.store_url()).map_err(|error| failure::url(&error))?;
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let family = family::describe(&*store).await.map_err(|error| failure::family(&error))?;
        Ok((store, Unlocked::with_key(family, key)))
    }

    /// Objects of its family.
    pub async fn objects(&self) -> Result<(Arc<Objects>, Unlocked), Failure> {
        let (store, unlocked) = self.unlock().await?;
        Ok((Arc::new(Objects::new(store, unlocked.sealer.clone(), PageCache::none())), unlocked))
    }

    /// Runs `work` with the engine for writing: the open drive's, or one that is opened for this alone.
    async fn with_volume<T>(
        self: &Arc<Self>,
        work: impl AsyncFnOnce(&Arc<Volume>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut open = self.open.lock().await;
        if let Some(open) = &*open {
            open.check_writable(&self.name)?;
            return work(open.volume()).await;
        }
        let opened = self.open_engine().await?;
        let result = work(opened.volume()).await;
        *open = Some(opened);
        self.finish(&mut open).await;
        result
    }

    /// Writes everything to the journal, pushes it, and waits for the commit.
    pub async fn sync(self: &Arc<Self>, work: Work) -> Result<api::Synced, Failure> {
        let open = self.open.lock().await;
        if let Some(open) = &*open {
            open.check_writable(&self.name)?;
            open.sync_file_system().await?;
            let committed = with_progress(open.pusher(), &work, open.pusher().sync()).await;
            return committed.map(synced).map_err(|error| failure::push(&error));
        }
        drop(open);
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            with_progress(pusher, &work, pusher.sync())
                .await
                .map(synced)
                .map_err(|error| failure::push(&error))
        })
        .await
    }

    /// Pushes what an open drive holds, so that what is in the store is what a person sees.
    pub async fn push_if_open(self: &Arc<Self>) -> Result<(), Failure> {
        match &*self.open.lock().await {
            Some(open) if open.is_writable() => {
                open.sync_file_system().await?;
                open.pusher().sync().await.map(drop).map_err(|error| failure::push(&error))
            }
            _ => Ok(()),
        }
    }

    /// Switches uploading and background downloading off or on, for good.
    pub fn set_paused(&self, paused: bool) -> Result<(), Failure> {
        self.remember(|config| config.paused = paused)?;
        if let Some(volume) = &*self.live.read() {
            if let Some(pusher) = volume.pusher() {
                pusher.set_paused(paused);
            }
            volume.puller().set_background(!paused);
        }
        Ok(())
    }

    /// Where its chunks are.
    pub fn map(&self) -> Result<api::ChunkMap, Failure> {
        const CELLS_MAX: u64 = 4096;
        let live = self.live.read();
        let volume = live.as_ref().ok_or_else(|| {
            failure::state("The drive is closed.", format!("Run holdall drive open {}.", self.name))
        })?;
        let chunks = volume.size_blocks().div_ceil(CHUNK_BLOCKS);
        let per_cell = chunks.div_ceil(CELLS_MAX).max(1);
        let uploading = volume.pusher().is_some_and(|pusher| pusher.state().borrow().pushing);
        let cell = |cell: u64| {
            let first = cell * per_cell * CHUNK_BLOCKS;
            let blocks = holdall_core::units::BlockRange::new(first, per_cell * CHUNK_BLOCKS);
            let blocks = blocks.intersect(&volume.all_blocks());
            if uploading && volume.journal().is_sealing(blocks) {
                api::Cell::Uploading
            } else if volume.pusher().is_some() && volume.journal().is_dirty(blocks) {
                api::Cell::Dirty
            } else if volume.cache().valid().any(blocks) || volume.journal().holds_any(blocks) {
                api::Cell::Cached
            } else {
                api::Cell::Absent
            }
        };
        let cells = (0..chunks.div_ceil(per_cell)).map(cell).collect();
        Ok(api::ChunkMap { cell_bytes: per_cell * CHUNK_BLOCKS * BLOCK_BYTES, cells })
    }

    /// Reads and checks every object of the drive.
    pub async fn check(self: &Arc<Self>, work: Work) -> Result<api::Checked, Failure> {
        let (objects, _) = self.objects().await?;
        let progress = move |done, total| work.progress("Checking objects", done, total, Unit::Items);
        let checked = check::check(&objects, self.uuid(), &progress).await;
        let checked = checked.map_err(|error| failure::drive(&error))?;
        let ok = checked.errors.is_empty();
        Ok(api::Checked { ok, objects: checked.objects, errors: checked.errors })
    }

    /// Collects garbage.
    pub async fn collect(self: &Arc<Self>) -> Result<api::Collected, Failure> {
        self.with_volume(async |volume| {
            let collected = pusher(volume).collect().await.map_err(|error| failure::push(&error))?;
            Ok(api::Collected {
                deleted: collected.deleted,
                bytes_freed: collected.bytes_freed,
                live_bytes: collected.live_bytes,
                garbage_bytes: collected.garbage_bytes,
            })
        })
        .await
    }

    /// Grows the drive, mounted or not.
    pub async fn resize(self: &Arc<Self>, size_bytes: u64) -> Result<(), Failure> {
        let size = super::drives::check_size(size_bytes)?;
        let mut open = self.open.lock().await;
        if let Some(open) = &mut *open {
            open.check_writable(&self.name)?;
            return open.grow(size).await;
        }
        drop(open);
        self.with_volume(async |volume| super::open::grow(volume, size).await).await
    }

    /// The versions that are kept.
    pub async fn snapshots(&self) -> Result<Vec<api::Snapshot>, Failure> {
        let (objects, _) = self.objects().await?;
        let (_, _, root) =
            drive::current(&objects, self.uuid()).await.map_err(|error| failure::drive(&error))?;
        Ok(root.snapshots.iter().map(super::status::snapshot).collect())
    }

    /// Keeps the version of this moment under a label.
    pub async fn snapshot(self: &Arc<Self>, label: &str, work: Work) -> Result<api::Snapshot, Failure> {
        if label.is_empty() || label.len() > 200 || label.contains('/') {
            return Err(failure::usage("A label has 1 to 200 characters, and no slash."));
        }
        let open = self.open.lock().await;
        if let Some(open) = &*open {
            open.check_writable(&self.name)?;
            let frozen = open.freeze().await?;
            // What is written from here on is not part of it: a cut at this moment is what is wanted.
            let volume = open.volume();
            let flushed = volume.journal().flush().await;
            super::open::thaw(frozen).await?;
            flushed.map_err(|error| failure::journal(&error))?;
            let taken = with_progress(open.pusher(), &work, open.pusher().snapshot(label)).await;
            return taken.map(|taken| super::status::snapshot(&taken)).map_err(|error| failure::push(&error));
        }
        drop(open);
        self.with_volume(async |volume| {
            let taken = pusher(volume).snapshot(label).await.map_err(|error| failure::push(&error))?;
            Ok(super::status::snapshot(&taken))
        })
        .await
    }

    /// Stops keeping a version.
    pub async fn drop_snapshot(self: &Arc<Self>, label: &str) -> Result<(), Failure> {
        if !self.snapshots().await?.iter().any(|snapshot| snapshot.label == label) {
            return Err(failure::drive(&drive::DriveError::NoSnapshot(label.to_owned())));
        }
        self.with_volume(async |volume| {
            pusher(volume).drop_snapshot(label).await.map_err(|error| failure::push(&error))
        })
        .await
    }

    /// Makes a version that was kept the current one.
    pub async fn rollback(self: &Arc<Self>, label: &str) -> Result<api::Synced, Failure> {
        let open = self.open.lock().await;
        if open.is_some() {
            let action = format!("Run holdall drive close {} --wait first.", self.name);
            return Err(failure::state("The drive is open.", action));
        }
        self.check_nothing_unsent().await?;
        let (objects, _) = self.objects().await?;
        let device = self.registry.device();
        drive::rollback(&objects, self.uuid(), label, device)
            .await
            .map_err(|error| failure::drive(&error))?;
        let (head, _, root) =
            drive::current(&objects, self.uuid()).await.map_err(|error| failure::drive(&error))?;
        drop(open);
        Ok(super::status::version(&head, &root))
    }

    /// Changes what unlocks the family.
    pub async fn change_passphrase(&self, passphrase: String) -> Result<(), Failure> {
        if passphrase.is_empty() {
            return Err(failure::usage("The new passphrase is empty."));
        }
        let (store, unlocked) = self.unlock().await?;
        let changed = family::change_passphrase(&*store, &unlocked, Zeroizing::new(passphrase)).await;
        changed.map_err(|error| failure::family(&error))
    }

    /// Forgets the drive here.
    pub async fn remove(self: &Arc<Self>, request: &api::Remove) -> Result<(), Failure> {
        let open = self.open.lock().await;
        if open.is_some() {
            let action = format!("Run holdall drive close {} --wait first.", self.name);
            return Err(failure::state("The drive is open.", action));
        }
        if !request.discard_unsent {
            self.check_nothing_unsent().await?;
        }
        if request.delete_data {
            let (objects, _) = self.objects().await?;
            let removed = drive::remove(&objects, self.uuid(), self.registry.device()).await;
            removed.map_err(|error| failure::drive(&error))?;
        }
        self.registry.forget(&self.name, self.uuid()).map_err(|error| failure::local(&error))
    }

    /// Serves the drive by NBD until whoever asked goes away.
    pub async fn serve(self: &Arc<Self>, request: api::Serve, work: Work) -> Result<api::Served, Failure> {
        let mut open = self.open.lock().await;
        if open.is_some() {
            let action = format!("Run holdall drive close {} --wait first.", self.name);
            return Err(failure::state("The drive is open.", action));
        }
        let listener = Listener::bind(&request)?;
        let opened = self.open_engine().await?;
        let server = Server::new(tokio::runtime::Handle::current());
        let uri = listener.serve(&server, opened.device())?;
        *open = Some(opened);
        let serving = Serving { drive: self.clone(), server: Some(server), open: Some(open) };
        work.result(api::Served { uri }).await;
        std::future::pending::<()>().await;
        drop(serving);
        unreachable!("nobody ends this but whoever asked, by going away")
    }
}

enum Listener {
    Unix(UnixListener, String),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    fn bind(request: &api::Serve) -> Result<Self, Failure> {
        let local = |error: std::io::Error| {
            failure(
                Code::Failed,
                format!("Cannot listen: {error}."),
                "Nothing was changed.",
                "Choose another address.",
            )
        };
        match (&request.socket, &request.tcp) {
            (Some(path), None) => Ok(Listener::Unix(UnixListener::bind(path).map_err(local)?, path.clone())),
            (None, Some(address)) => {
                let address: SocketAddr =
                    address.parse().map_err(|_| failure::usage(format!("{address} is not ADDRESS:PORT.")))?;
                if !address.ip().is_loopback() && !request.insecure {
                    return Err(failure::usage(
                        "Whoever reaches that address could read and write the drive. Use a loopback address, or --insecure.",
                    ));
                }
                let listener = TcpListener::bind(address).map_err(local)?;
                let address = listener.local_addr().map_err(local)?;
                Ok(Listener::Tcp(listener, address))
            }
            _ => Err(failure::usage("Give either a socket or a TCP address.")),
        }
    }

    fn serve(
        self,
        server: &Server,
        device: Arc<dyn holdall_core::device::BlockDevice>,
    ) -> Result<String, Failure> {
        let failed = |error: String| failure(Code::Failed, error, "Nothing was changed.", "Try again.");
        server.export("", device).map_err(|error| failed(error.to_string()))?;
        match self {
            Listener::Unix(listener, path) => {
                server.listen_unix(listener).map_err(|error| failed(error.to_string()))?;
                Ok(format!("nbd+unix:///?socket={path}"))
            }
            Listener::Tcp(listener, address) => {
                server.listen_tcp(listener).map_err(|error| failed(error.to_string()))?;
                Ok(format!("nbd://{address}"))
            }
        }
    }
}

/// Ends serving when whoever asked has gone: the server first, then the engine.
struct Serving<'a> {
    drive: Arc<Drive>,
    server: Option<Server>,
    open: Option<tokio::sync::MutexGuard<'a, Option<OpenDrive>>>,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        // The lock cannot move into a task; the drive is taken out of it, and put back to be finished.
        let opened = self.open.take().and_then(|mut open| open.take());
        let (drive, server) = (self.drive.clone(), self.server.take());
        tokio::spawn(async move {
            let mut open = drive.open.lock().await;
            if let Some(server) = server {
                let _ = tokio::task::spawn_blocking(move || server.shutdown(GRACE)).await;
            }
            *open = opened;
            drive.finish(&mut open).await;
        });
    }
}

/// Waits for `work`, telling how far the batch that is on its way is.
pub(super) async fn with_progress<T>(pusher: &Pusher, work: &Work, doing: impl Future<Output = T>) -> T {
    let state = pusher.state();
    let tell = async {
        loop {
            let (done, total) = state.borrow().batch;
            if total > 0 {
                work.progress("Uploading", done, total, Unit::Bytes);
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    };
    tokio::select! { biased;
        done = doing => done,
        () = tell => unreachable!("progress is told for ever"),
    }
}

/// Who pushes an engine that was opened for writing.
pub(super) fn pusher(volume: &Volume) -> &Pusher {
    volume.pusher().expect("it was opened for writing")
}

pub(super) fn synced(committed: holdall_core::push::Committed) -> api::Synced {
    let holdall_core::push::Committed { root, root_hash, epoch, lsn } = committed;
    api::Synced { root, root_hash, epoch, lsn }
}
