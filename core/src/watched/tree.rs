//! The local side: what the engine asks of a directory. The real one is in `local`; tests have one that loses power.

use super::row::{Digest, Print};
use crate::store::remote::{Kind, Meta, ReadAt, RemotePath, Unusable};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A local file, link or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// What it is.
    pub kind: Kind,
    /// How it looks.
    pub print: Print,
    /// Its permission bits.
    pub mode: u32,
    /// The target of a link.
    pub link: Option<String>,
}

/// Which names are left out.
pub trait Ignores: Send + Sync {
    /// Whether the patterns leave this path out.
    fn is_ignored(&self, path: &RemotePath, is_directory: bool) -> bool;
}

/// What a walk through the directory found.
#[derive(Clone)]
pub struct Scan {
    /// Everything that can be synchronized, by path.
    pub entries: BTreeMap<RemotePath, Here>,
    /// What could not be looked at: nothing is known of it, nor of what is below.
    pub unseen: BTreeSet<RemotePath>,
    /// Names and kinds of files that cannot be synchronized.
    pub left_out: Unusable,
    /// The patterns that were in force.
    pub ignores: Arc<dyn Ignores>,
}

/// The bytes of a file that rests, as parts, and what tells that they are still these.
#[derive(Clone)]
pub struct Stable {
    /// Reads them; fails as soon as the file is no longer the same.
    pub content: Arc<dyn ReadAt>,
    /// How the file looked before and after it was read.
    pub print: Print,
    /// BLAKE3 of all of it.
    pub digest: Digest,
    /// BLAKE3 of each part.
    pub parts: Arc<Vec<[u8; 32]>>,
}

/// Why the directory did not do as asked. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The root is not there, or is not the directory that was watched.
    #[error("{0}")]
    NoRoot(String),
    /// The file is not as it was planned for, or something has the name.
    #[error("the file was changed meanwhile")]
    Changed,
    /// A program has it open for writing.
    #[error("a program still writes to it")]
    InUse,
    /// A directory that was to be removed has something in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No space is left here.
    #[error("the local disk is full")]
    NoSpace,
    /// The local disk refuses or fails.
    #[error("{0}")]
    Failed(String),
}

/// What a downloaded file is made of.
pub struct Incoming<'a> {
    /// Where it goes.
    pub path: &'a RemotePath,
    /// A file, or a link.
    pub kind: Kind,
    /// What it has beside its bytes.
    pub meta: &'a Meta,
    /// What it replaces; `None`: nothing has the name.
    pub over: Option<Print>,
}

/// A download under way. Dropped before it is finished, it leaves nothing.
#[async_trait]
pub trait Download: Send {
    /// Appends bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), TreeError>;

    /// Makes it durable, and gives it its name: readers see the old file or the new one. Returns how it looks.
    async fn finish(self: Box<Self>) -> Result<Here, TreeError>;
}

/// A local directory. Paths that leave it, by links or otherwise, are refused by each method.
#[async_trait]
pub trait Tree: Send + Sync + 'static {
    /// The time, Unix time in ms.
    fn now_ms(&self) -> u64;

    /// Looks at everything. Never follows links.
    async fn scan(&self) -> Result<Scan, TreeError>;

    /// Reads a file that looks as `print` says. `InUse` while a program can still write to it.
    async fn read(&self, path: &RemotePath, print: Print) -> Result<Stable, TreeError>;

    /// Begins a download.
    async fn download(&self, incoming: Incoming<'_>) -> Result<Box<dyn Download>, TreeError>;

    /// Makes a directory.
    async fn make_directory(&self, path: &RemotePath) -> Result<(), TreeError>;

    /// Removes a file or link that looks as `print` says.
    async fn remove(&self, path: &RemotePath, print: Print) -> Result<(), TreeError>;

    /// Removes a directory that has nothing in it.
    async fn remove_directory(&self, path: &RemotePath) -> Result<(), TreeError>;

    /// Renames a file or directory to a name that nothing has, durably.
    async fn rename(&self, from: &RemotePath, to: &RemotePath) -> Result<(), TreeError>;
}
