//! The remote of a directory: its ordinary files, on a local disk or a network file system.
//!
//! The rules, each argued in the file that keeps it:
//!
//! * The root is known by more than its path (`root`). Where it is not there, nothing is found, listed or written.
//! * Names are resolved beneath the root's descriptor, and no link is followed (`crate::file::beneath`). Links are entries of their
//!   own, and devices, pipes and sockets are counted and not shown (`entry`).
//! * A listing keeps the guarantee of readdir over its pages (`pages`).
//! * A file is replaced by a complete and durable one (`write`, `temporary`), under its condition (`naming`), in turns (`turn`). A name that
//!   was a hard link is one of its own afterwards.
//! * Another file system that is mounted below the root belongs to the tree. While it is not mounted, its mount point is an empty directory,
//!   and nothing here tells the two apart.
//! * A directory that hangs keeps a few threads, and callers get errors (`crate::file::patience`).

mod entry;
mod explain;
mod facts;
mod meta;
mod naming;
mod pages;
mod relocate;
mod root;
mod temporary;
mod turn;
mod write;

pub use root::RootId;

use super::{
    Condition, Entry, Facts, Meta, Name, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError,
    RemotePath, UPLOAD_PREFIX, Version,
};
use crate::StoreError;
use crate::file::Limits;
use crate::file::beneath::{self, Spot};
use crate::file::patience::{Patience, Pulse};
use crate::pace::{Direction, Pacer};
use async_trait::async_trait;
use bytes::Bytes;
use pages::Listings;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turn::Turn;
use uuid::Uuid;

/// How files are opened that others may have replaced by a link or a pipe.
const NONBLOCKING: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// How a directory is opened as a remote.
#[derive(Clone, Debug)]
pub struct Options {
    /// This device. Its uploads under way carry its name.
    pub device: Uuid,
    /// The identity of the root at an earlier opening. Without it, whatever is at the path is the root.
    pub root: Option<RootId>,
    /// Change nothing, not even to find out what the file system does.
    pub read_only: bool,
    /// How long a call may take.
    pub limits: Limits,
    /// Paces transfers: the directory may be at the other end of a network.
    pub pacer: Pacer,
}

/// The ordinary files of a directory. Clones are the same.
#[derive(Clone)]
pub struct FileRemote {
    tree: Arc<Tree>,
    id: RootId,
    patience: Patience,
    pacer: Pacer,
}

/// What the calls share, each on a thread of its own.
struct Tree {
    path: PathBuf,
    /// The root's identity, as last seen: what may change at a mount is taken over. Locked for a comparison.
    id: Mutex<RootId>,
    kind: u64,
    /// How the names of this device's files under way begin.
    uploads: String,
    facts: Facts,
    has_inode_numbers: bool,
    has_xattrs: bool,
    /// The file system can exchange two files in one step.
    exchanges: bool,
    listings: Listings,
}

impl FileRemote {
    /// Opens the directory `path`. [`StoreError::NoPlace`] if it is not there, or is not the one that `options` names.
    pub async fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let Options { device, root, read_only, limits, pacer } = options;
        let patience = Patience::new(path, limits);
        let owned = path.to_owned();
        let opened = patience.run(0, move |_| Tree::open(owned, device, root.as_ref(), read_only)).await;
        let tree = opened.unwrap_or_else(|none| Err(none.explain(path)))?;
        let id = tree.id.lock().clone();
        Ok(Self { tree: Arc::new(tree), id, patience, pacer })
    }

    /// The root's identity, for the next opening.
    pub fn root_id(&self) -> &RootId {
        &self.id
    }

    /// Runs `work`, which moves at most `bytes` bytes between two signs of life.
    async fn run<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce(&Tree, &Pulse) -> Result<T, RemoteError> + Send + 'static,
    ) -> Result<T, RemoteError> {
        let tree = self.tree.clone();
        let done = self.patience.run(bytes, move |pulse| work(&tree, pulse)).await;
        done.unwrap_or_else(|none| Err(none.explain(&self.tree.path).into()))
    }
}

impl Tree {
    fn open(
        path: PathBuf,
        device: Uuid,
        expected: Option<&RootId>,
        read_only: bool,
    ) -> Result<Self, StoreError> {
        let (root, id) = root::open(&path, expected)?;
        let kind = id.kind();
        let mut tree = Self {
            path,
            id: Mutex::new(id),
            kind,
            uploads: format!("{UPLOAD_PREFIX}{}-", device.simple()),
            facts: facts::untried(kind),
            has_inode_numbers: facts::has_inode_numbers(kind),
            has_xattrs: false,
            exchanges: false,
            listings: Listings::default(),
        };
        let sweep = |tree: &Self, root: &OwnedFd| {
            for entry in rustix::fs::Dir::read_from(root).into_iter().flatten().flatten() {
                entry.file_name().to_str().into_iter().for_each(|leaf| tree.sweep(root, leaf));
            }
        };
        let again =
            root.try_clone().map_err(|error| StoreError::Unreachable { reason: error.to_string() })?;
        tree.probe(again, read_only)?;
        sweep(&tree, &root);
        Ok(tree)
    }

    /// The root, if it is still the same directory.
    fn root(&self) -> Result<OwnedFd, StoreError> {
        let expected = self.id.lock().clone();
        let (root, id) = root::open(&self.path, Some(&expected))?;
        if id != expected {
            *self.id.lock() = id;
        }
        Ok(root)
    }

    /// Where a path leads: its directory, which has to be there, and its own name.
    fn spot(&self, path: &RemotePath) -> Result<Spot, RemoteError> {
        let root = self.root()?;
        let (parent, name) = self.split(path)?;
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        let directory = beneath::below(root, parent.as_str()).map_err(|error| self.explain(path, error))?;
        Ok(Spot { directory, leaf: name.as_str().to_owned() })
    }

    fn split(&self, path: &RemotePath) -> Result<(RemotePath, Name), RemoteError> {
        let is_root = || RemoteError::Forbidden { path: path.clone(), reason: "it is the root".into() };
        path.split().ok_or_else(is_root)
    }

    /// Where a new name is to be. Names of uploads under way cannot be given to files.
    fn place(&self, path: &RemotePath) -> Result<Spot, RemoteError> {
        self.expect_writable()?;
        if path.is_hidden() {
            let reason = "names that begin so are those of uploads under way".to_owned();
            return Err(RemoteError::BadName { path: path.clone(), reason });
        }
        self.spot(path)
    }

    fn expect_writable(&self) -> Result<(), StoreError> {
        match &self.facts.read_only {
            None => Ok(()),
            Some(reason) => Err(StoreError::Denied { reason: format!("{}: {reason}", self.path.display()) }),
        }
    }

    fn stat_now(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(path, error);
        let Some((_, name)) = path.split() else {
            return self.entry_of(&Name::of_root(), &self.root()?).map_err(explain);
        };
        let spot = self.spot(path)?;
        let entry = self.look(&spot.directory, &name).map_err(explain)?;
        entry.ok_or_else(|| RemoteError::NotFound(path.clone()))
    }

    fn read_now(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        let spot = self.spot(path)?;
        let file = self.open_version(path, &spot, version)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = file.read_exact_at(&mut bytes, range.start);
        // Only now is it clear that no other program has written to the file meanwhile.
        self.expect_open(path, &file, version)?;
        read.map_err(|error| self.explain(path, error))?;
        Ok(bytes.into())
    }

    fn make_directory_now(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(path, error);
        let spot = self.place(path)?;
        let (_, name) = self.split(path)?;
        match spot.make_directory() {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(explain(error)),
            _ => self.settle(path, &spot)?,
        }
        match self.look(&spot.directory, &name).map_err(explain)? {
            Some(entry) if entry.kind == super::Kind::Directory => Ok(entry),
            _ => Err(RemoteError::Changed(path.clone())),
        }
    }

    fn remove_directory_now(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let explain = |error| self.explain(path, error);
        let spot = self.place(path)?;
        self.sweep_directory(path)?;
        rustix::fs::unlinkat(&spot.directory, &*spot.leaf, rustix::fs::AtFlags::REMOVEDIR)
            .map_err(|errno| explain(errno.into()))?;
        self.settle(path, &spot)
    }

    /// Removes what this device has left behind in a directory.
    fn sweep_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let directory =
            beneath::below(self.root()?, path.as_str()).map_err(|error| self.explain(path, error))?;
        let names =
            rustix::fs::Dir::read_from(&directory).map_err(|errno| self.explain(path, errno.into()))?;
        for entry in names {
            let entry = entry.map_err(|errno| self.explain(path, errno.into()))?;
            entry.file_name().to_str().into_iter().for_each(|leaf| self.sweep(&directory, leaf));
        }
        Ok(())
    }

    fn remove_now(&self, path: &RemotePath, when: &Condition) -> Result<(), RemoteError> {
        let spot = self.place(path)?;
        let turn = Turn::take(&spot.directory).map_err(|error| self.explain(path, error))?;
        self.unname(path, &spot, when)?;
        drop(turn);
        self.settle(path, &spot)
    }

    fn quota_now(&self) -> Result<Option<Quota>, RemoteError> {
        let root = self.root()?;
        let stat =
            rustix::fs::fstatvfs(&root).map_err(|errno| self.explain(&RemotePath::root(), errno.into()))?;
        let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        Ok(Some(Quota { used, free: stat.f_bavail * stat.f_frsize }))
    }
}

#[async_trait]
impl Remote for FileRemote {
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError> {
        let (path, token) = (directory.clone(), page.cloned());
        let listed = self.run(0, move |tree, pulse| tree.list_now(&path, token.as_ref(), pulse)).await?;
        if page.is_none() && listed.next.is_some() {
            tokio::spawn(pages::close_idle(Arc::downgrade(&self.tree)));
        }
        Ok(listed)
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let path = path.clone();
        self.run(0, move |tree, _| tree.stat_now(&path)).await
    }

    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        let (path, version, len) = (path.clone(), version.clone(), range.end - range.start);
        let bytes = self.run(len, move |tree, _| tree.read_now(&path, &version, range)).await?;
        self.pacer.pass(Direction::Down, bytes.len()).await;
        Ok(bytes)
    }

    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        self.write_now(put).await
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        let (path, version, meta) = (path.clone(), version.clone(), meta.clone());
        self.run(0, move |tree, _| {
            tree.expect_writable()?;
            tree.set_meta_now(&path, &version, &meta)
        })
        .await
    }

    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        let (from, version, to) = (from.clone(), version.clone(), to.clone());
        let bytes = if how == Relocation::Copy { version.len } else { 0 };
        let work = move |tree: &Tree, pulse: &_| tree.relocate_now(&from, &version, &to, &when, how, pulse);
        self.run(bytes, work).await
    }

    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        let path = path.clone();
        self.run(0, move |tree, _| tree.remove_now(&path, &when)).await
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let path = path.clone();
        self.run(0, move |tree, _| tree.make_directory_now(&path)).await
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let path = path.clone();
        self.run(0, move |tree, _| tree.remove_directory_now(&path)).await
    }

    async fn abandon(&self, path: &RemotePath, _resume: &[u8]) -> Result<(), RemoteError> {
        let Some((parent, _)) = path.split() else { return Ok(()) };
        self.run(0, move |tree, _| match tree.sweep_directory(&parent) {
            // Nothing is left in a directory that is gone.
            Err(RemoteError::NotFound(_)) => Ok(()),
            swept => swept,
        })
        .await
    }

    fn facts(&self) -> &Facts {
        &self.tree.facts
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        self.run(0, |tree, _| tree.quota_now()).await
    }
}
