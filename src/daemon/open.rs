//! Opening and closing a drive: the engine, the block device, the mount; and the same backwards.
//!
//! Opening and closing run to their end even when whoever asked has gone: half of either is worse than all of it.

use super::drive::{Drive, pusher, with_progress};
use super::failure::{self, failure};
use super::registry::OpenAs;
use super::status::Phase;
use super::work::Work;
use crate::api::{self, Code, Failure};
use crate::attach::filesystem::{self, MountOptions, Mounted};
use crate::attach::{self, Attached, Identity};
use crate::privileged::{FreezeEnded, Frozen};
use holdall_core::device::BlockDevice;
use holdall_core::disk::Disk;
use holdall_core::disk::real::Directory;
use holdall_core::drive as core_drive;
use holdall_core::map::PageCache;
use holdall_core::push::{Pusher, ReferenceKind};
use holdall_core::store::Store;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{self, Access, Environment, Volume, VolumeDevice, VolumeLimits};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How long a write-back of the file system may take: it only goes to the local journal.
const SYNC_DEADLINE: Duration = Duration::from_secs(300);
/// How long writers may be held for a snapshot.
const FREEZE_HOLD: Duration = Duration::from_secs(30);
/// How long requests in flight may take at a hand-over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(10);
/// How often a drive that could not be taken up again is tried.
const RESUME_EVERY: Duration = Duration::from_secs(5);
/// The journal: a tenth of the free disk, at most this.
const JOURNAL_BYTES_MAX: u64 = 32 << 30;
/// The cache: half of the free disk.
const CACHE_SHARE: u64 = 2;

/// A drive that is open.
pub struct OpenDrive {
    volume: Arc<Volume>,
    attachment: Option<Attachment>,
    /// For a version that is only looked at: the hold on it in the store.
    reference: Option<(Arc<dyn Store>, String)>,
    writable: bool,
    /// Nobody else opens this device's files of the drive while it lives.
    _lock: File,
}

struct Attachment {
    attached: Attached,
    mounted: Mounted,
}

/// Where an open drive is to be found.
pub struct Places {
    pub block_device: Option<String>,
    pub mountpoint: Option<String>,
    pub attach: Option<api::AttachMode>,
}

impl Places {
    /// Bytes that files on it take. Asked of the mounted file system by a process of its own, since it may hang.
    pub async fn used_bytes(&self) -> u64 {
        let Some(mountpoint) = self.mountpoint.clone() else { return 0 };
        let asked = tokio::task::spawn_blocking(move || rustix::fs::statvfs(Path::new(&mountpoint)));
        match tokio::time::timeout(Duration::from_millis(100), asked).await {
            Ok(Ok(Ok(stat))) => (stat.f_blocks - stat.f_bfree) * stat.f_frsize,
            _ => 0,
        }
    }
}

impl OpenDrive {
    /// Its engine.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Its block device.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(VolumeDevice(self.volume.clone()))
    }

    /// Who pushes it. It is open for writing.
    pub fn pusher(&self) -> &Pusher {
        pusher(&self.volume)
    }

    /// Whether it is open for writing.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Refuses what needs it to be open for writing.
    pub fn check_writable(&self, name: &str) -> Result<(), Failure> {
        match self.writable {
            true => Ok(()),
            false => {
                let action = format!("Run holdall drive close {name}, then open it without --read-only.");
                Err(failure::state("The drive is open only to look at.", action))
            }
        }
    }

    /// Where it is to be found.
    pub fn places(&self) -> Places {
        let at = self.attachment.as_ref();
        Places {
            block_device: at.map(|at| at.attached.block_device().display().to_string()),
            mountpoint: at.map(|at| at.mounted.mountpoint().display().to_string()),
            attach: at.map(|at| at.attached.mode()),
        }
    }

    /// Writes everything back from the page cache to the journal.
    pub async fn sync_file_system(&self) -> Result<(), Failure> {
        let Some(at) = &self.attachment else { return Ok(()) };
        tokio::task::block_in_place(|| at.mounted.sync(SYNC_DEADLINE)).map_err(|error| error.failure())
    }

    /// Has writers wait, with everything written back.
    pub async fn freeze(&self) -> Result<Option<Frozen>, Failure> {
        let Some(at) = &self.attachment else { return Ok(None) };
        tokio::task::block_in_place(|| at.mounted.freeze(FREEZE_HOLD))
            .map(Some)
            .map_err(|error| error.failure())
    }

    /// Grows it while it is mounted: the engine, the block device, the file system.
    pub async fn grow(&mut self, size_blocks: u64) -> Result<(), Failure> {
        grow(&self.volume, size_blocks).await?;
        let Some(at) = &mut self.attachment else { return Ok(()) };
        let Attachment { attached, mounted } = at;
        tokio::task::block_in_place(|| mounted.grow(attached)).map_err(|error| error.failure())
    }
}

/// Lets writers go on.
pub async fn thaw(frozen: Option<Frozen>) -> Result<(), Failure> {
    let Some(frozen) = frozen else { return Ok(()) };
    match tokio::task::block_in_place(|| frozen.thaw()) {
        Ok(()) => Ok(()),
        Err(FreezeEnded::Expired) => Err(failure(
            Code::Failed,
            "The file system could not be held still for long enough.",
            "Nothing was changed, and no snapshot was taken.",
            "Try again.",
        )),
        Err(FreezeEnded::Failed(error)) => Err(error.failure()),
    }
}

/// Grows the engine.
pub async fn grow(volume: &Volume, size_blocks: u64) -> Result<(), Failure> {
    if size_blocks < volume.size_blocks() {
        return Err(failure::usage("A drive can only grow."));
    }
    volume.grow(size_blocks).await.map_err(|error| {
        failure(
            Code::Failed,
            format!("The drive cannot grow: {error}."),
            "Nothing was changed.",
            "Try again.",
        )
    })
}

impl Drive {
    /// Opens and mounts it.
    pub async fn open(self: Arc<Self>, request: api::Open, _work: Work) -> Result<api::Opened, Failure> {
        let drive = self.clone();
        let opening = tokio::spawn(async move {
            let mut open = drive.open.lock().await;
            drive.open_now(&mut open, &request).await
        });
        opening.await.unwrap_or_else(|error| Err(failure::local(&io::Error::other(error))))
    }

    async fn open_now(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        request: &api::Open,
    ) -> Result<api::Opened, Failure> {
        if open.as_ref().is_some_and(|open| open.attachment.is_some()) {
            let action = format!("Close it first with holdall drive close {}.", self.name);
            return Err(failure::state("The drive is open already.", action));
        }
        // Closed, but still uploading: it starts anew from its journal.
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        self.set_phase(Phase::Connecting);
        let opened = self.open_and_mount(request).await;
        match opened {
            Ok((opened, answer)) => {
                **open = Some(opened);
                self.set_phase(Phase::Open);
                Ok(answer)
            }
            Err(failure) => {
                *self.live.write() = None;
                self.set_phase(Phase::Closed);
                Err(failure)
            }
        }
    }

    async fn open_and_mount(
        self: &Arc<Self>,
        request: &api::Open,
    ) -> Result<(OpenDrive, api::Opened), Failure> {
        let look = request.read_only || request.snapshot.is_some();
        let mut opened = match look {
            true => self.look(request.snapshot.as_deref()).await?,
            false => self.open_engine().await?,
        };
        let at = match &request.at {
            Some(path) => PathBuf::from(path),
            None => default_mountpoint(&self.name)?,
        };
        let attached = self.attach(opened.device(), request.attach, at, look).await;
        match attached {
            Ok(attachment) => opened.attachment = Some(attachment),
            Err(failure) => {
                self.put_down(opened).await;
                return Err(failure);
            }
        }
        let places = opened.places();
        let attach = places.attach.unwrap_or_default();
        let (block_device, mountpoint) =
            (places.block_device.unwrap_or_default(), places.mountpoint.unwrap_or_default());
        if !look {
            let (mountpoint, block_device) = (PathBuf::from(&mountpoint), PathBuf::from(&block_device));
            self.remember(|config| config.open = Some(OpenAs { mountpoint, attach, block_device }))?;
        }
        let epoch = opened.volume.pusher().map_or(0, |pusher| pusher.state().borrow().epoch.0);
        let root = match opened.volume.pusher() {
            Some(pusher) => pusher.state().borrow().root,
            None => holdall_core::format::id::ObjectId::NONE,
        };
        let root = match look {
            false => root.name(holdall_core::format::id::ObjectKind::Root),
            true => String::new(),
        };
        Ok((opened, api::Opened { block_device, mountpoint, attach, epoch, root }))
    }

    async fn attach(
        &self,
        device: Arc<dyn BlockDevice>,
        mode: api::AttachMode,
        at: PathBuf,
        read_only: bool,
    ) -> Result<Attachment, Failure> {
        let (identity, site) = (self.identity(), self.site.clone());
        let work = move || {
            attach::take_down(identity.uuid, &site)?;
            let mut attached = attach::attach(device, &identity, mode, &site)?;
            let options = MountOptions {
                at,
                read_only,
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
            };
            match filesystem::mount(&attached, &options) {
                Ok(mounted) => Ok(Attachment { attached, mounted }),
                Err(error) => {
                    // The first error is the one to tell; what cannot be detached the doctor finds.
                    let _ = attached.detach();
                    Err(error)
                }
            }
        };
        let attached = tokio::task::spawn_blocking(work).await;
        let attached = attached.map_err(|error| failure::local(&io::Error::other(error)))?;
        attached.map_err(|error: attach::AttachError| error.failure())
    }

    fn identity(&self) -> Identity {
        Identity { uuid: self.uuid(), name: self.name.clone() }
    }

    /// Opens the engine for writing, attached to nothing.
    pub(super) async fn open_engine(self: &Arc<Self>) -> Result<OpenDrive, Failure> {
        let (store, unlocked) = self.unlock().await?;
        let local = |error: io::Error| failure::local(&error);
        let directory = self.registry.directory(&self.name);
        let cache = self.registry.cache_directory(self.uuid());
        let lock = lock(&directory)?;
        let limits = limits(&directory, &cache).map_err(local)?;
        let env = Environment {
            state: Arc::new(Directory::create(&directory).map_err(local)?),
            journal: Arc::new(Directory::create(&directory.join("journal")).map_err(local)?),
            cache: Arc::new(Directory::create(&cache).map_err(local)?),
            store,
            sealer: unlocked.sealer,
            pages: self.tree.clone().map_or_else(PageCache::none, PageCache::sled),
        };
        let access = Access::Write { over_others: false };
        let opened = volume::open(env, self.uuid(), self.registry.device().clone(), access, limits).await;
        let volume = opened.map_err(|error| failure::open(&error, &self.name))?;
        let paused = self.config.lock().paused;
        pusher(&volume).set_paused(paused);
        volume.puller().set_background(!paused);
        *self.live.write() = Some(volume.clone());
        Ok(OpenDrive { volume, attachment: None, reference: None, writable: true, _lock: lock })
    }

    /// Opens one version to look at: it is held in the store while it is open, and what the file system writes to
    /// replay its own journal is thrown away.
    async fn look(self: &Arc<Self>, label: Option<&str>) -> Result<OpenDrive, Failure> {
        let (objects, unlocked) = self.objects().await?;
        let drive_failed = |error: core_drive::DriveError| failure::drive(&error);
        let local = |error: io::Error| failure::local(&error);
        let device = self.registry.device();
        let (head, _, root) = core_drive::current(&objects, self.uuid()).await.map_err(drive_failed)?;
        let version = match label {
            Some(label) => core_drive::snapshot(&root, label).map(|kept| (kept.root, kept.root_hash)),
            None => Ok((head.root, head.root_hash)),
        };
        let version = version.map_err(drive_failed)?;
        let directory = self.registry.directory(&self.name).join("look");
        let lock = lock(&self.registry.directory(&self.name))?;
        let store = objects.store().clone();
        let held = core_drive::hold(&objects, self.uuid(), version.0, ReferenceKind::Reader, device).await;
        let reference = (store.clone(), held.map_err(drive_failed)?);
        remove_directory(&directory).map_err(local)?;
        let journal = Arc::new(Directory::create(&directory.join("journal")).map_err(local)?);
        let free = journal.free_bytes().map_err(local)?;
        let env = Environment {
            state: Arc::new(Directory::create(&directory).map_err(local)?),
            journal,
            cache: Arc::new(Directory::create(&directory.join("cache")).map_err(local)?),
            store,
            sealer: unlocked.sealer,
            pages: self.tree.clone().map_or_else(PageCache::none, PageCache::sled),
        };
        let limits = VolumeLimits::new((free / 10).min(1 << 30), free / CACHE_SHARE);
        let access = Access::Look { root: version };
        let opened = volume::open(env, self.uuid(), device.clone(), access, limits).await;
        let volume = opened.map_err(|error| failure::open(&error, &self.name))?;
        *self.live.write() = Some(volume.clone());
        Ok(OpenDrive { volume, attachment: None, reference: Some(reference), writable: false, _lock: lock })
    }

    /// Unmounts it. What is left is pushed: now, or in the background.
    pub async fn close(self: &Arc<Self>, wait: bool, work: Work) -> Result<(), Failure> {
        let drive = self.clone();
        let unmounting = tokio::spawn(async move {
            let mut open = drive.open.lock().await;
            drive.unmount(&mut open).await
        });
        let unmounted = unmounting.await;
        unmounted.unwrap_or_else(|error| Err(failure::local(&io::Error::other(error))))?;
        let mut open = self.open.lock().await;
        let Some(opened) = &*open else { return Ok(()) };
        if !wait {
            drop(open);
            let drive = self.clone();
            tokio::spawn(async move { drive.drain().await });
            return Ok(());
        }
        if let Some(pusher) = opened.volume.pusher() {
            if pusher.is_paused() {
                return Err(failure(
                    Code::Unsent,
                    "Uploading is paused, and changes are only on this computer.",
                    "They are safe here; the drive is unmounted.",
                    format!("Run holdall drive resume {}, then close it again.", self.name),
                ));
            }
            let released = with_progress(pusher, &work, opened.volume.release()).await;
            released.map_err(|error| failure::push(&error))?;
        }
        self.finish(&mut open).await;
        Ok(())
    }

    async fn unmount(self: &Arc<Self>, open: &mut MutexGuard<'_, Option<OpenDrive>>) -> Result<(), Failure> {
        let Some(opened) = &mut **open else {
            if self.config.lock().open.is_some() {
                self.remember(|config| config.open = None)?;
                self.set_phase(Phase::Closed);
                let (uuid, site) = (self.uuid(), self.site.clone());
                let down = tokio::task::spawn_blocking(move || attach::take_down(uuid, &site)).await;
                down.map_err(|error| failure::local(&io::Error::other(error)))?
                    .map_err(|error| error.failure())?;
            }
            return Ok(());
        };
        opened.volume.prepare_to_close();
        if let Some(mut at) = opened.attachment.take() {
            let work = move || {
                let done = at.mounted.unmount().and_then(|()| at.attached.detach());
                (at, done)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let (at, done) = done.map_err(|error| failure::local(&io::Error::other(error)))?;
            if let Err(error) = done {
                opened.attachment = Some(at);
                return Err(error.failure());
            }
        }
        if opened.writable {
            self.remember(|config| config.open = None)?;
        }
        self.set_phase(Phase::Draining);
        Ok(())
    }

    /// Pushes what a closed drive has left, as long as it takes, and puts it down then.
    async fn drain(self: &Arc<Self>) {
        let volume = {
            let open = self.open.lock().await;
            open.as_ref().filter(|open| open.attachment.is_none()).map(|open| open.volume.clone())
        };
        let Some(volume) = volume else { return };
        if let Err(error) = volume.release().await {
            tracing::warn!(drive = self.name, %error, "not all of a closed drive could be uploaded");
            return;
        }
        let mut open = self.open.lock().await;
        // It may have been opened again meanwhile, with another engine.
        if open.as_ref().is_some_and(|open| open.attachment.is_none() && Arc::ptr_eq(&open.volume, &volume)) {
            self.finish(&mut open).await;
        }
    }

    /// Puts a drive down that is attached to nothing, after telling the store if nothing is left to push.
    pub(super) async fn finish(&self, open: &mut MutexGuard<'_, Option<OpenDrive>>) {
        let Some(opened) = open.take() else { return };
        if opened.writable && !opened.volume.has_unsent() {
            let _ = tokio::time::timeout(HAND_OVER_PATIENCE, opened.volume.release()).await;
        }
        self.put_down(opened).await;
        self.set_phase(Phase::Closed);
    }

    async fn put_down(&self, opened: OpenDrive) {
        // The last figures are shown while it is closed.
        let _ = self.status().await;
        if let Err(error) = opened.volume.shut_down().await {
            tracing::warn!(drive = self.name, %error, "the cache could not be made durable; the journal is replayed");
        }
        *self.live.write() = None;
        if let Some((store, reference)) = &opened.reference {
            let _ = store.delete(reference).await;
            let _ = remove_directory(&self.registry.directory(&self.name).join("look"));
        }
    }

    /// Whether changes are only on this computer: what the journal has beyond the store.
    pub(super) async fn check_nothing_unsent(self: &Arc<Self>) -> Result<(), Failure> {
        let directory = Directory::create(&self.registry.directory(&self.name))
            .map_err(|error| failure::local(&error))?;
        let known = volume::Local::load(&directory).map_err(|error| failure::local(&error))?;
        if known.is_none() {
            return Ok(());
        }
        let opened = self.open_engine().await?;
        let unsent = opened.volume.has_unsent();
        let bytes = opened.volume.status().unpushed_bytes;
        if !unsent {
            let _ = opened.volume.release().await;
        }
        self.put_down(opened).await;
        match unsent {
            false => Ok(()),
            true => Err(failure(
                Code::Unsent,
                format!("{} of changes are only on this computer.", crate::sizes::format_bytes(bytes)),
                "Nothing was changed. They would be lost.",
                format!("Run holdall drive sync {} first, or give --discard-unsent.", self.name),
            )),
        }
    }

    /// Takes up what a former daemon had open, however long its store is away.
    pub async fn resume(self: &Arc<Self>) {
        let Some(was) = self.config.lock().open.clone() else { return };
        self.set_phase(Phase::Connecting);
        if self.try_resume(&was).await {
            return;
        }
        let drive = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RESUME_EVERY).await;
                let wanted = drive.config.lock().open.is_some();
                if !wanted || drive.try_resume(&was).await {
                    return;
                }
            }
        });
    }

    async fn try_resume(self: &Arc<Self>, was: &OpenAs) -> bool {
        let mut open = self.open.lock().await;
        if open.is_some() {
            return true;
        }
        match self.resume_now(was).await {
            Ok(opened) => {
                *open = Some(opened);
                self.set_phase(Phase::Open);
                true
            }
            Err(failure) => {
                tracing::warn!(
                    drive = self.name,
                    message = failure.message,
                    "the drive cannot be taken up yet"
                );
                *self.live.write() = None;
                self.set_phase(Phase::Failed(failure));
                false
            }
        }
    }

    async fn resume_now(self: &Arc<Self>, was: &OpenAs) -> Result<OpenDrive, Failure> {
        let mut opened = self.open_engine().await?;
        let (device, identity, site) = (opened.device(), self.identity(), self.site.clone());
        let found = tokio::task::spawn_blocking(move || -> Result<_, attach::AttachError> {
            let Some(attached) = attach::reattach(device, &identity, &site)? else { return Ok(None) };
            match filesystem::find(&attached)? {
                Some(mounted) => Ok(Some(Attachment { attached, mounted })),
                // A device without a mount: it ended while it was opening or closing.
                None => {
                    drop(attached);
                    attach::take_down(identity.uuid, &site)?;
                    Ok(None)
                }
            }
        });
        let found = found.await.map_err(|error| failure::local(&io::Error::other(error)))?;
        opened.attachment = match found.map_err(|error| error.failure())? {
            Some(attachment) => Some(attachment),
            None => Some(self.attach(opened.device(), was.attach, was.mountpoint.clone(), false).await?),
        };
        let places = opened.places();
        let block_device = PathBuf::from(places.block_device.unwrap_or_default());
        self.remember(|config| {
            if let Some(open) = &mut config.open {
                open.block_device = block_device;
            }
        })?;
        Ok(opened)
    }

    /// The daemon ends: the drive waits for the next one, or is closed.
    pub async fn end(self: &Arc<Self>, hand_over: bool) {
        if !hand_over && let Err(failure) = self.close_for_now().await {
            tracing::warn!(
                drive = self.name,
                message = failure.message,
                "it stays mounted for the next daemon"
            );
        }
        let Some(mut opened) = self.open.lock().await.take() else { return };
        if let Some(mut at) = opened.attachment.take() {
            let left = tokio::task::spawn_blocking(move || at.attached.hand_over(HAND_OVER_PATIENCE)).await;
            if let Ok(Err(error)) = left {
                tracing::warn!(drive = self.name, %error, "the drive could not be handed over");
            }
        }
        self.put_down(opened).await;
    }

    /// Unmounts, but remembers that it was open: the next daemon opens it again.
    async fn close_for_now(self: &Arc<Self>) -> Result<(), Failure> {
        let was = self.config.lock().open.clone();
        let mut open = self.open.lock().await;
        if open.is_none() {
            return Ok(());
        }
        self.unmount(&mut open).await?;
        self.finish(&mut open).await;
        self.remember(|config| config.open = was)
    }
}

fn default_mountpoint(name: &str) -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| failure::usage("There is no home directory: say where with --at."))?;
    let parent = home.join("Holdall");
    std::fs::create_dir_all(&parent).map_err(|error| failure::local(&error))?;
    Ok(parent.join(name))
}

fn limits(state: &Path, cache: &Path) -> io::Result<VolumeLimits> {
    let journal = Directory::create(state)?.free_bytes()?;
    let cache = Directory::create(cache)?.free_bytes()?;
    let journal = (journal / 10).min(JOURNAL_BYTES_MAX);
    Ok(VolumeLimits::new(journal, (cache / CACHE_SHARE).max(64 * BLOCK_BYTES)))
}

/// This device's files of the drive, for one opening at a time.
fn lock(directory: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(directory.join("lock"));
    let file = file.map_err(|error| failure::local(&error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(failure(
            Code::State,
            "Another process on this computer has the drive open.",
            "Nothing was changed.",
            "Close it there.",
        )),
        Err(errno) => Err(failure::local(&errno.into())),
    }
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
