//! A remote: the ordinary files of a bucket, a WebDAV collection or a directory, which other programs use too. A store is Holdall's alone;
//! a remote is not.
//!
//! Nothing here retries, caches or decides between versions: the folder does. A method that fails leaves open whether it took effect,
//! unless its error says so.
//!
//! * Reads name the version that they want, and fail with [`RemoteError::Changed`] instead of mixing two versions.
//! * Writes are atomic for readers: they see the old file or the new one, whole. Where a server cannot do that, [`Facts`] says so.
//! * What a remote says is checked before it is used: a name that cannot be a file's name is counted and never shown.

use super::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

#[cfg(all(feature = "s3", feature = "dav"))]
pub mod connect;
#[cfg(feature = "dav")]
pub mod dav;
pub mod file;
pub mod opening;
mod path;
#[cfg(feature = "s3")]
pub mod s3;

pub use path::{Name, NameError, RemotePath};

/// Names that begin so are Holdall's uploads under way. They are never shown, and only the device that made them removes them.
pub const UPLOAD_PREFIX: &str = ".holdall-upload-";

/// Nanoseconds since 1970, negative before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i128);

/// One version of a file, as the remote tells versions apart. Two equal versions have equal bytes, as far as the remote can tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The remote's own name for it; empty where it has none. Opaque, and not a checksum.
    pub tag: String,
    /// Length in bytes.
    pub len: u64,
    /// When it was written, by the remote's clock, where the remote says so.
    pub written: Option<Time>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file.
    File,
    /// A directory: a collection, or a prefix that others have.
    Directory,
    /// A symbolic link. Its target is in [`Meta`].
    Link,
}

/// What a file has beside its bytes. `None` and absent names: the remote does not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The time of the last change, as a program set it.
    pub mtime: Option<Time>,
    /// Extended attributes, `user.` included.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// The target of a symbolic link.
    pub link: Option<String>,
}

/// A file or directory of the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in its directory.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
    /// Its version. Of a directory, the tag may change with anything below it, or never.
    pub version: Version,
    /// `None` where a listing does not show it, and [`Remote::stat`] has to be asked.
    pub meta: Option<Meta>,
    /// Whether the account may change it, as far as the remote says.
    pub is_writable: bool,
}

/// One page of a directory's entries.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The entries, in no particular order. An entry may come twice, on different pages.
    pub entries: Vec<Entry>,
    /// Where the next page begins. `None` at the end, which only a complete listing has.
    pub next: Option<PageToken>,
    /// Names that cannot be shown, bounded to a few, and how many there are.
    pub unusable: Unusable,
}

/// Names of a remote that no file system can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unusable {
    /// How many.
    pub count: u64,
    /// The first few, for people.
    pub examples: Vec<String>,
}

impl Unusable {
    /// Examples that are kept.
    const EXAMPLES_MAX: usize = 10;

    /// Counts one more.
    pub fn add(&mut self, name: &str) {
        self.count += 1;
        if self.examples.len() < Self::EXAMPLES_MAX {
            self.examples.push(name.to_owned());
        }
    }
}

/// A place in a listing, in the remote's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken(pub String);

/// The condition under which a change takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In every case.
    Always,
    /// If nothing has the name.
    Absent,
    /// If the file still is this version.
    Matches(Version),
}

/// The bytes of an upload. They do not change while it runs.
pub trait ReadAt: Send + Sync {
    /// Fills `buf` from `offset`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Follows an upload.
#[async_trait]
pub trait Progress: Send + Sync {
    /// The remote has accepted a part. `resume` is what [`Put::resume`] has to be for the upload to continue from here, also after a
    /// restart. The upload waits until it is durable.
    async fn can_resume(&self, resume: &[u8]) -> io::Result<()>;

    /// That many bytes more have been sent.
    fn sent(&self, bytes: u64);
}

/// An upload of a whole file, or of a symbolic link.
pub struct Put<'a> {
    /// Where to. Its directory is there.
    pub path: &'a RemotePath,
    /// Its bytes. Threads of their own read them. A link has none.
    pub content: Arc<dyn ReadAt>,
    /// How many.
    pub len: u64,
    /// What the file has beside its bytes, or the link's target. What others have set and this does not name is kept, where the remote can.
    pub meta: &'a Meta,
    /// When it takes effect.
    pub when: Condition,
    /// The version that is replaced, and the ranges of it that are the same at the same place: a remote that can copies them.
    pub unchanged: Option<(&'a Version, &'a [Range<u64>])>,
    /// Where an earlier try was cut off.
    pub resume: Option<&'a [u8]>,
    /// Follows it.
    pub progress: &'a dyn Progress,
}

/// How [`Remote::relocate`] leaves the old place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocation {
    /// The file stays there too.
    Copy,
    /// It is gone from there.
    Move,
}

/// What a remote was found to do, before anything of a user's was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Conditions of writes hold, also in a race. Otherwise each write looks before and after, and a small window is left.
    pub has_conditions: bool,
    /// Names that differ only in case are one name.
    pub folds_case: bool,
    /// Names that differ only in Unicode's normal form are one name.
    pub folds_forms: bool,
    /// A directory can be moved with all that is in it, by one request.
    pub moves_trees: bool,
    /// Permission bits and extended attributes are kept.
    pub keeps_meta: bool,
    /// The time of a file's last change is kept as set.
    pub keeps_mtime: bool,
    /// One request for the root shows whether anything below it has changed.
    pub root_tag_tells: bool,
    /// A file that replaces another one does so in one step. Else, for a moment, a listing may show neither of them.
    pub replaces_at_once: bool,
    /// The largest file, where it is known.
    pub len_max: Option<u64>,
    /// Nothing can be written, and why.
    pub read_only: Option<String>,
}

/// How much a remote holds and may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Used.
    pub used: u64,
    /// Still free.
    pub free: u64,
}

/// Why a remote did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Nothing has that name.
    #[error("{0} is not there")]
    NotFound(RemotePath),
    /// The file is another version than asked for, or something has the name that was to be new. The change took no effect.
    #[error("{0} was changed by another program")]
    Changed(RemotePath),
    /// A directory that was to be removed has something in it.
    #[error("{0} is not empty")]
    NotEmpty(RemotePath),
    /// Somebody has locked it.
    #[error("{path} is locked{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    Locked {
        /// The file.
        path: RemotePath,
        /// Who, where the server says so.
        by: Option<String>,
    },
    /// The account may not do this to this file, though it may do other things.
    #[error("{path} may not be changed: {reason}")]
    Forbidden {
        /// The file.
        path: RemotePath,
        /// The server's reason.
        reason: String,
    },
    /// The file is longer than the remote takes.
    #[error("{0} is too large for the server")]
    TooLarge(RemotePath),
    /// The remote does not take this name.
    #[error("the server does not take the name {path}: {reason}")]
    BadName {
        /// The name.
        path: RemotePath,
        /// The server's reason.
        reason: String,
    },
    /// It has to be restored from an archive before it can be read.
    #[error("{0} is archived, and has to be restored at the provider first")]
    Archived(RemotePath),
    /// The remote cannot do this at all.
    #[error("the server cannot {0}")]
    Unsupported(&'static str),
    /// The local bytes of an upload, or what it needs to resume, cannot be read or written.
    #[error("the local disk failed: {0}")]
    Local(String),
    /// It says nothing about the file: there is no answer, no access, or no space.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RemoteError {
    /// Whether the same request may succeed later, without anything being done about this file.
    pub fn is_transient(&self) -> bool {
        match self {
            RemoteError::Store(error) => error.is_transient(),
            RemoteError::Locked { .. } => true,
            RemoteError::NotFound(_)
            | RemoteError::Changed(_)
            | RemoteError::NotEmpty(_)
            | RemoteError::Forbidden { .. }
            | RemoteError::TooLarge(_)
            | RemoteError::BadName { .. }
            | RemoteError::Archived(_)
            | RemoteError::Unsupported(_)
            | RemoteError::Local(_) => false,
        }
    }
}

/// Ordinary files at a remote place.
#[async_trait]
pub trait Remote: Send + Sync + 'static {
    /// One page of the entries of a directory. `NotFound` if there is no such directory; a directory that is there and empty has an empty
    /// page. An answer that is not a listing is an error, never an empty page. A listing of which a page has failed begins again from the
    /// first page: the remote may have forgotten its place.
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError>;

    /// The entry of a path, with its [`Meta`]. The root's entry has [`Name::of_root`].
    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError>;

    /// Bytes of one version of a file: exactly `range`, which lies within its length.
    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError>;

    /// Uploads a file or a link. Returns its entry, of which a file's length is the one that was sent: a server that answers well and
    /// stored something else is an error. A directory of that name is [`RemoteError::Changed`], under every condition.
    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError>;

    /// Changes what a file or directory has beside its bytes. `version` is the one whose bytes stay; of a directory and the root, it is not
    /// compared. A `mode` or `mtime` of `None` stays as it is. Of the attributes, exactly `meta.xattrs` are left, and others' kinds beside
    /// `user.`. Returns the new entry, whose version may be another one.
    async fn set_meta(&self, path: &RemotePath, version: &Version, meta: &Meta)
    -> Result<Entry, RemoteError>;

    /// Copies or moves a file or link, or moves, where [`Facts::moves_trees`], a directory, at the server. `version` is the one that is
    /// meant at `from`; of a directory, it is not compared. `when` is about `to`. Returns the entry at `to`.
    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError>;

    /// Removes a file or link. A directory of that name is [`RemoteError::Changed`].
    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError>;

    /// Makes a directory, whose parent is there. One that is there already is no error; a file of that name is [`RemoteError::Changed`].
    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError>;

    /// Removes a directory that has nothing in it; never a tree.
    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError>;

    /// Removes what an upload that is not continued has left at the server.
    async fn abandon(&self, path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError>;

    /// What the remote was found to do.
    fn facts(&self) -> &Facts;

    /// How much space there is, where the remote says so.
    async fn quota(&self) -> Result<Option<Quota>, RemoteError>;
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.tag, self.len)
    }
}
