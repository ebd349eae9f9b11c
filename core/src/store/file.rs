//! The embedded store: a directory. It has true compare-and-swap between processes, and its puts survive a crash.
//!
//! Names never lead out of the directory (`beneath`), and links in it are not followed. Where other computers may reach it over a network
//! file system, locks and renames decide nothing there (`kinds`): such a store changes HEADs by claims, which mkdir makes exclusive.
//!
//! A put writes a temporary file, syncs it, gives it its name and syncs the directory: a reader sees the old object
//! or the new one, whole, and an acknowledged put is on the disk. "Absent" is decided by the file system itself
//! (rename without replacing). "Matches" is read, compared and renamed under an flock that every process takes.
//!
//! A directory that is gone (an unplugged disk) is unreachable, never empty: nothing is created in its place, and
//! where a disk was unmounted under us the bare mount point is told from the store by its family.json. One that hangs, as a
//! network file system does whose server is gone, is unreachable too.

mod beneath;
mod claim;
pub mod kinds;
mod patience;

pub use patience::Limits;

use super::pace::{Pacer, Way};
use super::{Etag, Facts, Fetched, Listed, Store, StoreError, When, probe};
use crate::format::family;
use async_trait::async_trait;
use beneath::{Entry, Spot};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use patience::{NoAnswer, Patience, Pulse};
use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LOCK: &str = ".lock";
const TEMPORARY: &str = ".tmp";
/// Why a local file system is no place for a store.
const NOT_EXCLUSIVE: &str =
    "its file system can neither rename without replacing nor make hard links, and a store needs one of them";
/// The same, where flock fails.
const NO_LOCKS: &str = "its file system has no locks, and a store on a local disk needs them";

/// A temporary file of this age was left behind by a process that was killed.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A directory of objects.
#[derive(Clone)]
pub struct FileStore {
    root: PathBuf,
    patience: Patience,
    pacer: Pacer,
    directories: Arc<Mutex<Directories>>,
}

/// What this process knows of the store's directories.
#[derive(Default)]
struct Directories {
    /// Their names are durable.
    known: BTreeSet<String>,
    /// A sync of them failed: a name that is seen in them may be gone after a power cut.
    unsynced: BTreeSet<String>,
}

impl FileStore {
    /// The store in the directory `root`, which need not be there yet.
    pub fn new(root: PathBuf) -> Self {
        Self::with_limits(root, Limits::default())
    }

    /// The same, with time-outs of its own.
    pub fn with_limits(root: PathBuf, limits: Limits) -> Self {
        let patience = Patience::new(&root, limits);
        Self { root, patience, pacer: Pacer::new(), directories: Arc::default() }
    }

    /// The same, whose objects go and come as `pacer` lets them: the directory may be at the other end of a network.
    pub fn paced(self, pacer: &Pacer) -> Self {
        Self { pacer: pacer.clone(), ..self }
    }

    /// Waits until so many bytes may have gone that way.
    async fn pass(&self, way: Way, bytes: usize) {
        let (mut gate, mut left) = (self.pacer.gate(way), bytes);
        while left > 0 {
            let piece = gate.piece(left);
            gate.turn(piece).await;
            left -= piece;
        }
    }

    /// Makes the directory, for a store that is about to be created. What it lies in has to be there: where that is not, the
    /// address is wrong or a disk is not mounted.
    pub async fn prepare(&self) -> io::Result<()> {
        let made = self.run(probe::AREA, 0, |store, _, _| Ok(make_new(&store.root))).await;
        made.unwrap_or_else(|error| Err(io::Error::new(ErrorKind::TimedOut, error)))
    }

    /// An error unless the directory is there.
    pub async fn find(&self) -> io::Result<()> {
        let found = self.run(probe::AREA, 0, |store, _, _| Ok(std::fs::read_dir(&store.root).map(drop)));
        found.await.unwrap_or_else(|error| Err(io::Error::new(ErrorKind::TimedOut, error)))
    }

    /// Runs `work`, which moves so many bytes at most between two signs of life.
    async fn run<T: Send + 'static>(
        &self,
        name: &str,
        bytes: usize,
        work: impl FnOnce(&Self, &str, &Pulse) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, name) = (self.clone(), name.to_owned());
        let done = self.patience.run(bytes as u64, move |pulse| work(&store, &name, pulse)).await;
        done.unwrap_or_else(|none| {
            let reason = match none {
                NoAnswer::Late => format!("{} does not answer", self.root.display()),
                NoAnswer::Panicked(panicked) => panicked.to_string(),
            };
            Err(StoreError::Unreachable { reason })
        })
    }

    /// Whether only this computer changes the directory; an error where that cannot be told.
    pub async fn is_local(&self) -> Result<bool, StoreError> {
        self.file_system().await.map(kinds::is_local)
    }

    /// The magic number of the file system that it is on.
    pub async fn file_system(&self) -> Result<u64, StoreError> {
        let magic =
            |store: &Self, name: &str, _: &Pulse| store.magic().map_err(|error| store.explain(name, &error));
        self.run(probe::AREA, 0, magic).await
    }

    /// The tool that keeps the directory in sync with other computers, as its own files in it or above it show.
    pub async fn sync_tool(&self) -> Result<Option<&'static str>, StoreError> {
        self.run(probe::AREA, 0, |store, _, _| Ok(store.sync_tool_now())).await
    }

    fn sync_tool_now(&self) -> Option<&'static str> {
        let root = std::path::absolute(&self.root).ok()?;
        let root = std::fs::canonicalize(&root).unwrap_or(root);
        root.ancestors().find_map(|directory| {
            // One that may not be listed shows nothing.
            let mut entries = std::fs::read_dir(directory).ok()?.filter_map(Result::ok);
            entries.find_map(|entry| kinds::sync_tool(entry.file_name().to_str()?))
        })
    }

    fn magic(&self) -> io::Result<u64> {
        // The number has 32 bits; some architectures have it signed.
        Ok(u64::from(rustix::fs::statfs(&self.root)?.f_type as u32))
    }

    fn spot(&self, name: &str) -> io::Result<Spot> {
        beneath::spot(&self.root, name)
    }

    fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        beneath::directory(&self.root, name)
    }

    /// What an I/O error on `name` means: nothing is "not found" while the store itself is not there.
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

    /// An error where nothing can be put.
    fn check_writable(&self, name: &str) -> Result<(), StoreError> {
        if !self.may_have(name) {
            return Err(self.explain(name, &ErrorKind::NotFound.into()));
        }
        rustix::fs::access(&self.root, Access::WRITE_OK).map_err(|errno| self.explain(name, &errno.into()))
    }

    /// Whether the store is there: the family's own object answers for all others.
    fn is_here(&self) -> bool {
        self.root.join(family::NAME).exists()
    }

    /// Whether `name` can be there: before there is a family, its own object, a probe's, and what settles who makes it.
    fn may_have(&self, name: &str) -> bool {
        let comes_first =
            name == family::NAME || name.starts_with(probe::AREA) || name.starts_with(claim::FAMILY);
        self.is_here() || comes_first && self.root.is_dir()
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

    fn put_now(&self, name: &str, body: &[u8], when: &When) -> Result<Etag, StoreError> {
        let explain = |error| self.explain(name, &error);
        if name != family::NAME {
            self.expect_here(name)?;
        }
        let parent = parent_of(name).to_owned();
        self.make_directory(&parent).map_err(explain)?;
        let target = self.spot(name).map_err(explain)?;
        let temporary = self.write_temporary(body).map_err(explain)?;
        let named = match when {
            When::Always => temporary.rename(&target).map_err(explain),
            When::Absent => self.name_new(&temporary, &target).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => StoreError::Precondition { name: name.to_owned() },
                _ => explain(error),
            }),
            When::Matches(expected) => self.swap(name, &temporary, &target, expected),
        };
        if named.is_err() {
            // It may be gone with the whole store; then there is nothing to tidy up.
            let _ = temporary.remove();
        }
        // Also where the name was taken: it may have been by an earlier try of this very put.
        let synced = beneath::sync(&target.directory);
        if synced.is_err() {
            self.directories.lock().unsynced.insert(parent);
        }
        synced.map_err(explain)?;
        named?;
        Ok(etag(body))
    }

    /// Gives a name to what was written, if nothing has it. Where the file system cannot decide that, it is looked at first. Two may
    /// then both have the name in turn: claims decide there, and no two writers draw the same name for different bytes.
    fn name_new(&self, temporary: &Spot, target: &Spot) -> io::Result<()> {
        match temporary.rename_new(target) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            named => return named,
        }
        if kinds::is_local(self.magic()?) {
            return Err(io::Error::new(ErrorKind::Unsupported, NOT_EXCLUSIVE));
        }
        match target.len() {
            Err(error) if error.kind() == ErrorKind::NotFound => temporary.rename(target),
            Err(error) => Err(error),
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Sees to it that what is read of a directory is durable, where a sync of it has failed.
    fn settle(&self, name: &str) -> io::Result<()> {
        let parent = parent_of(name);
        if self.directories.lock().unsynced.contains(parent) {
            beneath::sync(&self.directory(parent)?)?;
            self.directories.lock().unsynced.remove(parent);
        }
        Ok(())
    }

    /// Makes `directory` below the root, which itself must be there. One that is there may have been made a moment
    /// ago by another process, so its name is made durable once by each.
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

    fn swap(&self, name: &str, temporary: &Spot, target: &Spot, expected: &Etag) -> Result<(), StoreError> {
        let explain = |error| self.explain(name, &error);
        // Opened anew for each swap: an flock belongs to the open file, so threads of one process exclude each
        // other too. It is never removed, or two processes could lock two files of the same name.
        let lock = self.spot(LOCK).and_then(|spot| spot.open_lock()).map_err(explain)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| match errno {
            Errno::NOLCK | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL => {
                explain(io::Error::new(ErrorKind::Unsupported, NO_LOCKS))
            }
            errno => explain(errno.into()),
        })?;
        let mut current = Vec::new();
        target.open().and_then(|mut file| file.read_to_end(&mut current)).map_err(explain)?;
        if etag(&current) != *expected {
            return Err(StoreError::Precondition { name: name.to_owned() });
        }
        temporary.rename(target).map_err(explain)
    }

    fn write_temporary(&self, body: &[u8]) -> io::Result<Spot> {
        self.make_directory(TEMPORARY)?;
        let spot = self.spot(&format!("{TEMPORARY}/{:032x}", crate::entropy::u128()))?;
        let mut file = spot.create()?;
        let written = file.write_all(body).and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = spot.remove();
        }
        written.map(|()| spot)
    }

    fn list_now(&self, prefix: &str, pulse: &Pulse) -> Result<Vec<Listed>, StoreError> {
        self.expect_here(prefix)?;
        let directory = parent_of(prefix);
        let mut found = Vec::new();
        let walked = self.refresh_listing(prefix, directory);
        let walked = walked.and_then(|()| self.walk(directory, pulse, &mut found));
        walked.map_err(|error| self.explain(prefix, &error))?;
        found.retain(|listed| listed.name.starts_with(prefix));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Sees to it that a listing that decides shows what other computers have done before.
    fn refresh_listing(&self, prefix: &str, directory: &str) -> io::Result<()> {
        if !claim::decides(prefix) || kinds::is_local(self.magic()?) {
            return Ok(());
        }
        match self.directory(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(directory) => match Self::refresh(&directory) {
                // Who may not write takes no turn, and decides nothing.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    Ok(())
                }
                // A full store can still be read; a turn is taken only behind a fresh listing of the claims.
                Err(_) if !prefix.starts_with("claim/") => Ok(()),
                refreshed => refreshed,
            },
        }
    }

    fn walk(&self, directory: &str, pulse: &Pulse, found: &mut Vec<Listed>) -> io::Result<()> {
        let at = match self.directory(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            at => at?,
        };
        for Entry { name: leaf, is_directory } in beneath::entries(&at, || pulse.beat())? {
            pulse.beat();
            let name = if directory.is_empty() { leaf.clone() } else { format!("{directory}/{leaf}") };
            if is_directory && claim::is_claim(&name) {
                found.push(Self::listed_claim(name));
            } else if is_directory {
                self.walk(&name, pulse, found)?;
            } else {
                // An object that was deleted since is simply not there.
                match beneath::len(&at, &leaf) {
                    Ok(len) => found.push(Listed { name, len }),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn delete_now(&self, name: &str) -> Result<(), StoreError> {
        self.expect_here(name)?;
        let removed = self.spot(name).and_then(|spot| match spot.remove() {
            Err(error) if error.kind() == ErrorKind::IsADirectory && claim::is_claim(name) => {
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
            // How long it may take goes by that.
            None => self.head(name).await?,
        };
        let fetched =
            self.run(name, bytes as usize, move |store, name, _| store.get_now(name, range)).await?;
        self.pass(Way::Down, fetched.bytes.len()).await;
        Ok(fetched)
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if self.pacer.rate(Way::Up).is_some() {
            // The rate is others' too: none of it is spent on what cannot be put.
            self.run(name, 0, |store, name, _| store.check_writable(name)).await?;
            self.pass(Way::Up, body.len()).await;
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

    async fn facts(&self) -> Result<Facts, StoreError> {
        let space = |store: &Self, name: &str, _: &Pulse| {
            let stat =
                rustix::fs::statvfs(&store.root).map_err(|errno| store.explain(name, &errno.into()))?;
            let free_bytes = Some(stat.f_bavail * stat.f_frsize);
            // Also not on a local disk: what is there may be moved to a network file system, where locks may not hold.
            Ok(Facts { free_bytes, never_swaps: true, lists_whole: true, ..Facts::default() })
        };
        self.run(probe::AREA, 0, space).await
    }
}

/// The content's own hash: a version that was there before can come back only with the very same bytes, which for
/// HEAD (it carries a random nonce) is never.
fn etag(bytes: &[u8]) -> Etag {
    Etag(HEXLOWER.encode(&blake3::hash(bytes).as_bytes()[..16]))
}

/// Makes a directory in one that is there.
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
