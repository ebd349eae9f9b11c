//! The embedded store: a directory. It has true compare-and-swap between processes, and its puts survive a crash.
//!
//! Names never lead out of the directory (`beneath`), and links in it are not followed. Where other computers may reach the directory over
//! a network file system, locks and renames decide nothing (`kinds`): what is exclusive in such a store is a claim, which mkdir makes.
//!
//! A put writes a temporary file, syncs it, renames it and syncs the directory. So a reader sees the old object or the new one, whole, and
//! an acknowledged put is on the disk. "Absent" is decided by the file system itself (rename without replacing). "Matches" reads, compares
//! and renames under an flock that every process takes.
//!
//! A directory that is gone (an unplugged disk) is unreachable, never empty, and nothing is created in its place. Its owner's mark
//! ([`Grammar::mark`]) tells the store from the bare mount point that an unmounted disk leaves behind. A directory that hangs, as on a
//! network file system whose server is gone, is unreachable too.

pub(super) mod beneath;
mod claim;
pub mod kinds;
mod list;
pub(super) mod patience;
mod put;

pub use patience::Limits;

use crate::names::{Grammar, Names};
use crate::pace::{Direction, Pacer};
use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, When, probe};
use async_trait::async_trait;
use beneath::Spot;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use patience::{Patience, Pulse};
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const TEMPORARY: &str = ".tmp";
/// A temporary file of this age was left behind by a killed process.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A directory of objects.
#[derive(Clone)]
pub struct FileStore {
    root: PathBuf,
    names: Names,
    patience: Patience,
    pacer: Pacer,
    directories: Arc<Mutex<Directories>>,
}

/// This process's knowledge of the store's directories.
#[derive(Default)]
struct Directories {
    /// Directories whose names are durable.
    known: BTreeSet<String>,
    /// Directories whose last sync failed: a name seen in them may be gone after a power cut.
    unsynced: BTreeSet<String>,
}

impl FileStore {
    /// The store in the directory `root`, which need not exist yet. Its owner writes `names`.
    pub fn new(root: PathBuf, names: &'static dyn Grammar) -> Self {
        Self::with_limits(root, names, Limits::default())
    }

    /// The same, with its own time-outs.
    pub fn with_limits(root: PathBuf, names: &'static dyn Grammar, limits: Limits) -> Self {
        let patience = Patience::new(&root, limits);
        let names = Names::new(names);
        Self { root, names, patience, pacer: Pacer::new(), directories: Arc::default() }
    }

    /// The same, with its transfers paced by `pacer`: the directory may be at the other end of a network.
    pub fn paced(self, pacer: &Pacer) -> Self {
        Self { pacer: pacer.clone(), ..self }
    }

    /// Makes the directory, for a store that is about to be created. Its parent must exist: if it does not, the address is wrong or a disk
    /// is not mounted.
    pub async fn prepare(&self) -> io::Result<()> {
        let made = self.run(probe::AREA, 0, |store, _, _| Ok(make_new(&store.root))).await;
        made.unwrap_or_else(|error| Err(io::Error::new(ErrorKind::TimedOut, error)))
    }

    /// An error unless the directory exists.
    pub async fn find(&self) -> io::Result<()> {
        let found = self.run(probe::AREA, 0, |store, _, _| Ok(std::fs::read_dir(&store.root).map(drop)));
        found.await.unwrap_or_else(|error| Err(io::Error::new(ErrorKind::TimedOut, error)))
    }

    /// Runs `work`, which moves at most `bytes` bytes between two signs of life.
    async fn run<T: Send + 'static>(
        &self,
        name: &str,
        bytes: usize,
        work: impl FnOnce(&Self, &str, &Pulse) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, name) = (self.clone(), name.to_owned());
        let done = self.patience.run(bytes as u64, move |pulse| work(&store, &name, pulse)).await;
        done.unwrap_or_else(|none| Err(none.explain(&self.root)))
    }

    /// Whether only this computer changes the directory; an error where this cannot be found out.
    pub async fn is_local(&self) -> Result<bool, StoreError> {
        self.file_system().await.map(kinds::is_local)
    }

    /// The magic number of the file system that holds the directory.
    pub async fn file_system(&self) -> Result<u64, StoreError> {
        let magic =
            |store: &Self, name: &str, _: &Pulse| store.magic().map_err(|error| store.explain(name, &error));
        self.run(probe::AREA, 0, magic).await
    }

    /// The tool that keeps the directory in sync with other computers, recognised by its own files in the directory or above it.
    pub async fn sync_tool(&self) -> Result<Option<&'static str>, StoreError> {
        self.run(probe::AREA, 0, |store, _, _| Ok(store.sync_tool_now())).await
    }

    fn sync_tool_now(&self) -> Option<&'static str> {
        let root = std::path::absolute(&self.root).ok()?;
        let root = std::fs::canonicalize(&root).unwrap_or(root);
        root.ancestors().find_map(|directory| {
            // A directory that may not be listed shows nothing.
            let mut entries = std::fs::read_dir(directory).ok()?.filter_map(Result::ok);
            entries.find_map(|entry| kinds::sync_tool(entry.file_name().to_str()?))
        })
    }

    fn magic(&self) -> io::Result<u64> {
        // The number has 32 bits, signed on some architectures.
        Ok(u64::from(rustix::fs::statfs(&self.root)?.f_type as u32))
    }

    fn spot(&self, name: &str) -> io::Result<Spot> {
        beneath::spot(&self.root, name)
    }

    fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        beneath::directory(&self.root, name)
    }

    /// The meaning of an I/O error on `name`. Nothing is "not found" while the store itself is not there.
    fn explain(&self, name: &str, error: &io::Error) -> StoreError {
        let reason = format!("{}: {error}", self.root.display());
        if beneath::leaves_the_store(error) {
            let reason = format!(
                "{name} in {} is or lies behind a symbolic link or leaves the store, and such names are not used",
                self.root.display()
            );
            return StoreError::Unreachable { reason };
        }
        match error.kind() {
            ErrorKind::NotFound if !self.may_have(name) => {
                StoreError::Unreachable { reason: format!("{} is not there", self.root.display()) }
            }
            ErrorKind::NotFound => StoreError::NotFound { name: name.to_owned() },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::Denied { reason },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full { reason },
            _ if beneath::lacks(error) => StoreError::Unfit { reason },
            _ => StoreError::Unreachable { reason },
        }
    }

    /// An error if nothing can be put.
    fn check_writable(&self, name: &str) -> Result<(), StoreError> {
        if !self.may_have(name) {
            return Err(self.explain(name, &ErrorKind::NotFound.into()));
        }
        rustix::fs::access(&self.root, Access::WRITE_OK).map_err(|errno| self.explain(name, &errno.into()))
    }

    /// Whether the store is there: its mark stands for all other objects.
    fn is_here(&self) -> bool {
        self.root.join(self.names.mark()).exists()
    }

    /// Whether `name` can be there. Without its mark, the store has only what comes before that.
    fn may_have(&self, name: &str) -> bool {
        self.is_here() || self.names.begins(name) && self.root.is_dir()
    }

    fn expect_here(&self, name: &str) -> Result<(), StoreError> {
        match self.may_have(name) {
            true => Ok(()),
            false => Err(StoreError::Unreachable { reason: format!("{} is not there", self.root.display()) }),
        }
    }

    fn get_now(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let explain = |error| self.explain(name, &error);
        self.settle(name).map_err(explain)?;
        let file = self.spot(name).and_then(|spot| spot.open()).map_err(explain)?;
        let len = file.metadata().map_err(explain)?.len();
        let whole = range.is_none();
        let range = range.unwrap_or(0..len);
        if range.end > len {
            let reason = format!("it has {len} bytes, where {} were expected", range.end);
            return Err(StoreError::Damaged { name: name.to_owned(), reason });
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).map_err(explain)?;
        let etag = if whole { etag(&bytes) } else { Etag(String::new()) };
        Ok(Fetched { bytes: bytes.into(), etag })
    }

    /// Makes what is read from a directory durable where an earlier sync of that directory failed.
    fn settle(&self, name: &str) -> io::Result<()> {
        let parent = parent_of(name);
        if self.directories.lock().unsynced.contains(parent) {
            beneath::sync(&self.directory(parent)?)?;
            self.directories.lock().unsynced.remove(parent);
        }
        Ok(())
    }

    /// Makes `directory` below the root, which itself must exist. Another process may have made the directory a moment ago without a sync
    /// yet, so each process syncs its name once.
    fn make_directory(&self, directory: &str) -> io::Result<()> {
        let is_known = || self.directories.lock().known.contains(directory);
        if directory.is_empty() || is_known() && self.directory(directory).is_ok() {
            return Ok(());
        }
        self.make_directory(parent_of(directory))?;
        let spot = self.spot(directory)?;
        match spot.make_directory() {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => beneath::sync(&spot.directory)?,
        }
        if directory == TEMPORARY {
            beneath::remove_old_files(&self.directory(directory)?, TEMPORARY_AGE_MAX)?;
        }
        self.directories.lock().known.insert(directory.to_owned());
        Ok(())
    }

    fn delete_now(&self, name: &str) -> Result<(), StoreError> {
        self.expect_here(name)?;
        let removed = self.spot(name).and_then(|spot| match spot.remove() {
            Err(error) if error.kind() == ErrorKind::IsADirectory && self.names.is_claim(name) => {
                self.remove_claim(name, &spot)
            }
            removed => removed,
        });
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.explain(name, &error)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for FileStore {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let bytes = match &range {
            Some(range) => range.end - range.start,
            // The length decides how long this may take.
            None => self.head(name).await?,
        };
        let fetched =
            self.run(name, bytes as usize, move |store, name, _| store.get_now(name, range)).await?;
        self.pacer.pass(Direction::Down, fetched.bytes.len()).await;
        Ok(fetched)
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if self.pacer.rate(Direction::Up).is_some() {
            // The rate is shared: spend none of it on an object that cannot be put.
            self.run(name, 0, |store, name, _| store.check_writable(name)).await?;
            self.pacer.pass(Direction::Up, body.len()).await;
        }
        self.run(name, body.len(), move |store, name, _| store.put_now(name, &body, &when)).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        let len = |store: &Self, name: &str, _: &Pulse| {
            let len = store.spot(name).and_then(|spot| spot.len());
            len.map_err(|error| store.explain(name, &error))
        };
        self.run(name, 0, len).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.run(prefix, 0, Self::list_now).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.run(name, 0, |store, name, _| store.delete_now(name)).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.run(name, 0, move |store, name, _| store.claim_now(name, nonce)).await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        let top = |store: &Self, name: &str, _: &Pulse| match list::top(&store.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            top => top.map_err(|error| store.explain(name, &error)),
        };
        self.run(probe::AREA, 0, top).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        let space = |store: &Self, name: &str, _: &Pulse| {
            let stat =
                rustix::fs::statvfs(&store.root).map_err(|errno| store.explain(name, &errno.into()))?;
            let free_bytes = Some(stat.f_bavail * stat.f_frsize);
            // Not relied on even on a local disk: its files may be moved to a network file system, where locks may not hold.
            Ok(Facts { free_bytes, never_swaps: true, lists_whole: true, ..Facts::default() })
        };
        self.run(probe::AREA, 0, space).await
    }
}

/// The hash of the content: an old version can come back only with the very same bytes. It never does for objects that carry a random number,
/// as all that are swapped should.
fn etag(bytes: &[u8]) -> Etag {
    Etag(HEXLOWER.encode(&blake3::hash(bytes).as_bytes()[..16]))
}

/// Makes a directory in an existing one.
fn make_new(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// The directory that holds `name`; "" is the root.
fn parent_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}
