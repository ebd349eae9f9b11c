//! An open folder: what front ends call. Each method is one operation of a file system, or one thing that people ask for.

use super::api::*;
use super::contents::Contents;
use super::entries::{Cookie, Entries};
use super::inodes::Inodes;
use super::ledger::{Ledger, LedgerError};
use super::links;
use super::local_copy::{Environment, LocalCopy};
use super::node::{Ino, Place};
use super::opens::{Opens, Survivor};
use super::outbox::Outbox;
use super::overlay::Overlays;
use super::pins::Pins;
use super::recover::Recovered;
use super::refresh::Refresher;
use super::shared::{Gone, Paths, Shared};
use super::spans::Span;
use crate::device::ReadLease;
use crate::disk::Disk;
use crate::store::remote::{Kind, Name, Quota, Remote, RemotePath};
use bytes::Bytes;
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// What a folder needs.
pub struct FolderEnvironment {
    /// The folder's directory on the local disk.
    pub disk: Arc<dyn Disk>,
    /// The directory `files` in it. It must be on the same file system.
    pub files: Arc<dyn Disk>,
    /// A database for what can be listed again.
    pub database: sled::Db,
    /// Which folder it is.
    pub folder: Uuid,
    /// Where its files are.
    pub remote: Arc<dyn Remote>,
    /// How much of the local disk what can be downloaded again may take, in bytes.
    pub cache_bytes: u64,
    /// Files up to this length, in bytes, are brought here as a whole before a program may write to them. Of longer ones only what is
    /// written is here.
    pub whole_up_to: u64,
    /// This device, for names that no other device makes.
    pub device: Uuid,
    /// The name of this device, for names of conflicts.
    pub device_name: String,
    /// Why nothing may be written, if so.
    pub read_only: Option<String>,
    /// The mount outlived the last daemon: what programs had open then is open.
    pub has_outlived: bool,
}

/// Why a folder could not be opened. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The local disk, or what is on it.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The local disk failed.
    #[error("the folder's files on this computer cannot be used: {0}")]
    Local(String),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::Local(error.to_string())
    }
}

/// Deletions that were seen at the remote, are too many to be believed, and wait for a person's word. Until then the files stay here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many files.
    pub count: u64,
    /// The paths of the first.
    pub paths: Vec<String>,
    /// When they were seen, Unix time in ms.
    pub at_ms: u64,
}

/// A folder in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderStatus {
    /// Files and directories that are known.
    pub known_files: u64,
    /// Bytes of the remote's versions that are here.
    pub cached_bytes: u64,
    /// Bytes on the local disk that the remote does not have.
    pub dirty_bytes: u64,
    /// Conflicts that wait for a person.
    pub conflicts: u64,
    /// Held deletions.
    pub held_deletions: u64,
    /// Why what is shown may be out of date: the remote cannot be reached, or a listing failed. For people.
    pub stale_because: Option<String>,
    /// Open files that are read and written without the daemon, and open files that it serves.
    pub passed_through: u64,
    /// See above.
    pub served: u64,
}

/// An open folder.
pub struct Folder {
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) refresher: Arc<Refresher>,
    pub(super) pins: Arc<Pins>,
    recovered: Recovered,
    // Held to look at it or replace it.
    quota: Mutex<Option<(Instant, Option<Quota>)>>,
    /// Lists again where a version was found to be gone, and keeps pinned files here.
    // Held to add tasks or to take them out.
    tasks: Mutex<JoinSet<()>>,
}

/// How long what the remote said of its space is believed.
const QUOTA_FRESH: Duration = Duration::from_secs(60);
/// How long `df` waits for the remote.
const QUOTA_PATIENCE: Duration = Duration::from_millis(100);
/// The size of a folder whose remote has no limit that it tells, in bytes: 1 PiB.
const NO_LIMIT: u64 = 1 << 50;

impl Folder {
    /// Opens a folder, after whatever happened. Does not wait for the remote. The receiver tells what the kernel should forget.
    pub async fn open(
        environment: FolderEnvironment,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Stale>), OpenError> {
        let FolderEnvironment {
            disk,
            files,
            database,
            folder,
            remote,
            cache_bytes,
            whole_up_to,
            device,
            device_name,
            read_only,
            has_outlived,
        } = environment;
        let ledger = Ledger::open(disk.clone(), folder).await?;
        let was_cut = ledger.was_cut();
        if !has_outlived || was_cut {
            ledger.forget_requests()?;
        }
        let unusable = |error: super::entries::EntriesError| OpenError::Local(error.to_string());
        let entries = Arc::new(Entries::open(&database, folder).map_err(unusable)?);
        let (gone, mut gone_spans) = mpsc::unbounded_channel();
        let paths = Arc::new(Paths { ledger: ledger.clone(), inodes: OnceLock::new() });
        let owner = Arc::new(Gone { paths: paths.clone(), gone });
        let environment = Environment {
            disk: disk.clone(),
            files: files.clone(),
            folder,
            remote: remote.clone(),
            owner,
            cache_bytes,
        };
        let copy = LocalCopy::open(environment).await?;
        let overlays = Overlays::new(files.clone());
        let contents = Contents::new(files);
        let known = entries.highest().map_err(unusable)?.unwrap_or(Ino::ROOT);
        let here = contents.all()?.into_iter().max().unwrap_or(Ino::ROOT);
        let at_least = known.max(here).max(copy.highest_ino()).max(ledger.highest_ino());
        let inodes = Arc::new(Inodes::open(disk.clone(), at_least)?);
        // Nobody asks before: nothing runs yet.
        let _ = paths.inodes.set(inodes.clone());
        let (stale, stale_names) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            device: device_number(device, folder),
            read_only: read_only.or_else(|| remote.facts().read_only.clone()),
            remote,
            ledger,
            contents,
            overlays,
            whole_up_to,
            copy,
            entries,
            inodes,
            paths,
            opens: Opens::open(&*disk, has_outlived && !was_cut)?,
            turns: Default::default(),
            leaving: Default::default(),
            stale,
            opened: super::names::now(),
            device_name,
        });
        let recovered = shared.recover(was_cut).await?;
        shared.ledger.recovered().await?;
        let pins = Arc::new(Pins::load(disk.clone())?);
        let refresher = Refresher::start(shared.clone(), disk.clone(), pins.clone())?;
        let outbox = Outbox::start(shared.clone(), disk)?;
        let look_at = recovered.look_at.iter().filter(|ino| !shared.opens.is_open_to_write(**ino));
        look_at.for_each(|ino| outbox.released(*ino));
        let minded = Arc::downgrade(&refresher);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(ino) = gone_spans.recv().await {
                let Some(refresher) = minded.upgrade() else { return };
                refresher.version_is_gone(ino).await;
            }
        });
        tasks.spawn(super::leaving::keep(Arc::downgrade(&shared)));
        let quota = Mutex::default();
        let folder =
            Arc::new(Self { shared, outbox, refresher, pins, recovered, quota, tasks: Mutex::new(tasks) });
        let keeps = super::pins::keep(Arc::downgrade(&folder), folder.pins.clone());
        folder.tasks.lock().spawn(keeps);
        folder.tasks.lock().spawn(super::inodes::tend(Arc::downgrade(&folder.shared.inodes)));
        Ok((folder, stale_names))
    }

    /// Makes everything durable here and records it, and ends all that runs: the computer may be switched off afterwards. What was not
    /// uploaded is uploaded after the next opening.
    ///
    /// # Errors
    ///
    /// The first thing that could not be made durable. The rest was, and all that runs has ended.
    pub async fn close(&self) -> Result<(), FolderError> {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        self.outbox.stop().await;
        self.refresher.stop().await;
        self.shared.inodes.close().await;
        let recorded = self.outbox.record_all().await;
        let left = self.shared.let_contents_leave().await;
        if !self.pins.save_again().await {
            tracing::warn!("what is always kept on this device is remembered under its name of before");
        }
        let closed = self.shared.ledger.close().await;
        // A removed file whose name comes back would be taken for bytes that somebody misses.
        let named = self.shared.contents.sync_names().await;
        let copied = self.shared.copy.close().await;
        recorded?;
        left.and(closed)?;
        Ok(named.and(copied)?)
    }

    /// What was found at opening, after a crash.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Uploads and conflicts.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// The folder in numbers.
    pub fn status(&self) -> FolderStatus {
        let shared = &self.shared;
        let (passed_through, served) = shared.opens.counts();
        FolderStatus {
            known_files: shared.entries.files(),
            cached_bytes: shared.copy.taken_bytes(),
            dirty_bytes: shared.contents.taken_bytes(),
            conflicts: self.outbox.conflicts().len() as u64,
            held_deletions: self.refresher.held().count,
            stale_because: self.refresher.trouble(),
            passed_through,
            served,
        }
    }

    /// Local files that a crash has left of changes that nothing is known of. They are kept for people, and exist nowhere else.
    pub fn set_aside(&self) -> Result<u64, FolderError> {
        Ok(self.shared.contents.count_aside()?)
    }

    /// Files and directories that are not, or may not be, at the remote as they are here: by the log, whatever anybody was shown.
    pub fn unsent(&self) -> u64 {
        let unsent = |tree: &super::tree::Tree| {
            tree.nodes().filter(|(_, node)| node.differs() || node.may_be_written).count() as u64
        };
        self.shared.ledger.read(unsent)
    }

    /// How much of the local disk what can be downloaded again may take, in bytes.
    pub fn cache_limit(&self) -> u64 {
        self.shared.copy.limit()
    }

    /// Sets it. What exceeds it is evicted at once, except for what must stay.
    pub fn set_cache_limit(&self, bytes: u64) {
        self.shared.copy.set_limit(bytes);
    }

    /// Whether missing parts of pinned files are pulled.
    pub fn set_background_pulls(&self, on: bool) {
        self.shared.copy.puller().set_background(on);
    }

    /// Why downloads wait or fail, for people; `None` while all is well.
    pub fn download_trouble(&self) -> Option<String> {
        self.shared.copy.puller().health().borrow().trouble.clone()
    }

    /// The number of a path below the root, without `/` at its ends.
    pub async fn resolve(&self, path: &str) -> Result<Ino, FolderError> {
        let bad = |error: crate::store::remote::NameError| FolderError::BadName(error.to_string());
        let path = RemotePath::parse(path).map_err(bad)?;
        let mut at = Ino::ROOT;
        for name in path.names() {
            at = self.existing(&Place::new(at, Name::new(name).map_err(bad)?)).await?.0;
        }
        Ok(at)
    }

    /// The open files that outlived the last daemon.
    pub fn survivors(&self) -> Vec<Survivor> {
        self.shared.opens.survivors()
    }

    /// The kernel's number of the local file that it was given for an inode: another daemon that takes the mount over has to use it.
    pub fn is_registered(&self, ino: Ino, number: u32) {
        self.shared.opens.is_registered(ino, number);
    }

    // ---- names

    /// What a name stands for.
    pub async fn look_up(&self, parent: Ino, name: &Name) -> Result<Attributes, FolderError> {
        self.look_up_at(&Place::new(parent, name.clone())).await
    }

    /// What `stat` shows.
    pub async fn attributes(&self, ino: Ino) -> Result<Attributes, FolderError> {
        self.shared.attributes_of(ino)
    }

    /// Changes attributes. Returns the new ones.
    pub async fn set_attributes(&self, ino: Ino, changes: Changes) -> Result<Attributes, FolderError> {
        self.change_attributes(ino, changes).await
    }

    /// At most `most` entries of a directory behind `after`, without `.` and `..`; none at the end.
    pub async fn read_directory(
        &self,
        directory: Ino,
        after: Cookie,
        most: usize,
    ) -> Result<Vec<DirectoryEntry>, FolderError> {
        self.read_directory_after(directory, after, most).await
    }

    /// The directory that holds this one, for `..`.
    pub fn parent(&self, directory: Ino) -> Ino {
        self.shared.place_here(directory).ok().flatten().map_or(Ino::ROOT, |place| place.parent)
    }

    /// Makes a directory.
    pub async fn make_directory(
        &self,
        place: Place,
        mode: u32,
        asked: Asked,
    ) -> Result<Attributes, FolderError> {
        self.make_directory_at(place, mode, asked).await
    }

    /// Makes a symbolic link.
    pub async fn make_link(
        &self,
        place: Place,
        target: &str,
        asked: Asked,
    ) -> Result<Attributes, FolderError> {
        self.make_link_at(place, target, asked).await
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, ino: Ino) -> Result<String, FolderError> {
        if self.shared.kind_of(ino)? != Kind::Link {
            return Err(FolderError::Invalid("it is no symbolic link"));
        }
        let target = self.meta_of(ino).await?.link;
        let target = target.ok_or_else(|| {
            FolderError::Unavailable("the server does not tell where the link leads".into())
        })?;
        // Whoever may write to the remote chooses where its links lead.
        let is_ours = self.shared.node(ino).is_some_and(|node| node.meta.is_some());
        match is_ours || !links::leads_out(&self.shared.path_here(ino), &target) {
            true => Ok(target),
            false => Err(FolderError::Forbidden(format!("the link leads out of the folder, to {target}"))),
        }
    }

    /// Renames a file or directory.
    pub async fn rename(
        &self,
        from: Place,
        to: Place,
        how: Renaming,
        asked: Asked,
    ) -> Result<(), FolderError> {
        self.rename_to(from, to, how, asked).await
    }

    /// Removes a file or link.
    pub async fn unlink(&self, place: Place, asked: Asked) -> Result<(), FolderError> {
        self.unlink_at(place, asked).await
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, place: Place, asked: Asked) -> Result<(), FolderError> {
        self.remove_directory_at(place, asked).await
    }

    /// Makes names durable that were changed before.
    pub async fn sync_directory(&self, directory: Ino) -> Result<(), FolderError> {
        self.shared.kind_of(directory)?;
        Ok(self.shared.ledger.sync().await?)
    }

    /// An extended attribute.
    pub async fn xattr(&self, ino: Ino, name: &str) -> Result<Vec<u8>, FolderError> {
        let meta = self.meta_of(ino).await?;
        meta.xattrs.get(name).cloned().ok_or(FolderError::NoAttribute)
    }

    /// The names of the extended attributes.
    pub async fn xattrs(&self, ino: Ino) -> Result<Vec<String>, FolderError> {
        Ok(self.meta_of(ino).await?.xattrs.into_keys().collect())
    }

    /// Sets an extended attribute: `exists` says whether it must be there before (`true`) or must not (`false`).
    pub async fn set_xattr(
        &self,
        ino: Ino,
        name: &str,
        value: &[u8],
        exists: Option<bool>,
        asked: Asked,
    ) -> Result<(), FolderError> {
        if value.len() > XATTR_BYTES_MAX {
            return Err(FolderError::AttributeTooLong);
        }
        self.change_meta(ino, asked, |meta| {
            match (exists, meta.xattrs.contains_key(name)) {
                (Some(true), false) => return Err(FolderError::NoAttribute),
                (Some(false), true) => return Err(FolderError::Exists),
                _ => {}
            }
            meta.xattrs.insert(name.to_owned(), value.to_vec());
            let bytes = |(name, value): (&String, &Vec<u8>)| name.len() + value.len();
            match meta.xattrs.iter().map(bytes).sum::<usize>() > XATTRS_BYTES_MAX {
                true => Err(FolderError::NoSpace),
                false => Ok(()),
            }
        })
        .await
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(&self, ino: Ino, name: &str, asked: Asked) -> Result<(), FolderError> {
        self.change_meta(ino, asked, |meta| match meta.xattrs.remove(name) {
            Some(_) => Ok(()),
            None => Err(FolderError::NoAttribute),
        })
        .await
    }

    /// Space and files.
    pub async fn statistics(&self) -> Statistics {
        let files = self.shared.entries.files();
        match self.quota().await {
            Some(Quota { used, free }) => Statistics { total: used.saturating_add(free), free, files },
            None => Statistics { total: NO_LIMIT, free: NO_LIMIT, files },
        }
    }

    // ---- bytes

    /// Makes a file and opens it for writing. A file of that name that is there already is opened, unless `is_new` says that it must not be.
    pub async fn create(
        &self,
        place: Place,
        mode: u32,
        access: Access,
        is_new: bool,
        asked: Asked,
    ) -> Result<(Attributes, Opened), FolderError> {
        self.create_at(place, mode, access, is_new, asked).await
    }

    /// Opens a file.
    pub async fn open_file(&self, ino: Ino, access: Access, asked: Asked) -> Result<Opened, FolderError> {
        self.open_at(ino, access, asked).await
    }

    /// The kernel did not take the local file of an open that was to pass through: it is served instead. Fails if the file is open by
    /// passthrough elsewhere. Then the adapter answers the open with an error; the handle is released already.
    pub fn serve_instead(&self, handle: Handle) -> Result<OpenMode, FolderError> {
        self.serve_handle_instead(handle)
    }

    /// Bytes of an open file, cut at its end.
    pub async fn read(&self, handle: Handle, offset: u64, len: u32) -> Result<ReadLease, FolderError> {
        self.read_at(handle, offset, len).await
    }

    /// Writes to an open file.
    pub async fn write(&self, handle: Handle, offset: u64, data: Bytes) -> Result<(), FolderError> {
        self.write_at(handle, offset, &data).await
    }

    /// A program has closed one of its descriptors. Errors of earlier writes are told here.
    pub async fn flush(&self, handle: Handle) -> Result<(), FolderError> {
        // A content's trouble is told by the write itself and by the sync.
        self.shared.opens.get(handle).map(|_| ()).ok_or(FolderError::BadHandle)
    }

    /// Makes durable here what was written.
    pub async fn sync_file(&self, handle: Handle) -> Result<(), FolderError> {
        self.sync_handle(handle).await
    }

    /// Nobody has this opening any longer.
    pub fn release(&self, handle: Handle) {
        self.release_handle(handle);
    }

    /// Changes how bytes are stored.
    pub async fn allocate(
        &self,
        handle: Handle,
        how: Allocate,
        offset: u64,
        len: u64,
    ) -> Result<(), FolderError> {
        self.allocate_at(handle, how, offset, len).await
    }

    /// Where the next data or hole begins. `None`: there is no data behind `offset`.
    pub async fn seek(&self, handle: Handle, offset: u64, what: Seek) -> Result<Option<u64>, FolderError> {
        self.seek_from(handle, offset, what).await
    }

    // ---- deletions at the remote that are held

    /// Them.
    pub fn held(&self) -> Held {
        self.refresher.held()
    }

    /// They are right: the files go here, too.
    pub async fn accept_deletions(&self) -> Result<u64, FolderError> {
        self.refresher.accept().await
    }

    /// They are wrong: what is here whole is uploaded again. Returns how many files that were, and how many could not be restored since
    /// not all of their bytes are here.
    pub async fn restore_deletions(&self) -> Result<(u64, u64), FolderError> {
        self.refresher.restore().await
    }

    /// How much space the remote has, where it says so. While it does not answer, what it said last.
    async fn quota(&self) -> Option<Quota> {
        let last = *self.quota.lock();
        if let Some((at, quota)) = last
            && at.elapsed() < QUOTA_FRESH
        {
            return quota;
        }
        let said = match timeout(QUOTA_PATIENCE, self.shared.remote.quota()).await {
            Ok(Ok(quota)) => quota,
            _ => last.and_then(|(_, quota)| quota),
        };
        *self.quota.lock() = Some((Instant::now(), said));
        said
    }
}

/// The longest value of an extended attribute that Linux allows, in bytes.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// What all extended attributes of a file may take together, in bytes.
const XATTRS_BYTES_MAX: usize = 64 << 10;

/// Stands for a device in names that no other device makes.
fn device_number(device: Uuid, folder: Uuid) -> u32 {
    let key = blake3::derive_key("holdall v1 folder device", folder.as_bytes());
    let hash = blake3::keyed_hash(&key, device.as_bytes());
    u32::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has more than four bytes"))
}

/// Tells the folder that a version is gone.
impl super::source::Owner for Gone {
    fn path_of(&self, ino: Ino) -> Option<RemotePath> {
        self.paths.path_of(ino)
    }

    fn is_gone(&self, span: &Span) {
        // Nobody listens while the folder closes.
        let _ = self.gone.send(span.ino());
    }
}
