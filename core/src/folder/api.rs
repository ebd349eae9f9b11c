//! What an open folder says and is asked: the words between the engine and its front ends. The FUSE adapter translates them one to one.

use super::entries::Cookie;
use super::ledger::LedgerError;
use super::local_copy::ReadFailure;
use super::node::Ino;
use crate::store::StoreError;
use crate::store::remote::{Kind, Name, RemoteError, Time};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What `stat` shows of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits.
    pub mode: u32,
    /// The time of the last change of its bytes.
    pub mtime: Time,
    /// The time of the last change of anything.
    pub ctime: Time,
    /// Whether the kernel may believe this for a minute, and not only for a second: nothing else changes it.
    pub is_steady: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where the next entries begin.
    pub cookie: Cookie,
    /// Its name.
    pub name: Name,
    /// What `stat` shows of it.
    pub attributes: Attributes,
}

/// A change of attributes; `None`: stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The length in bytes.
    pub len: Option<u64>,
    /// The permission bits.
    pub mode: Option<u32>,
    /// The time of the last change of the bytes.
    pub mtime: Option<SetTime>,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of day.
    Now,
    /// This one.
    To(Time),
}

/// What a program wants of a file that it opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// It may write.
    pub writes: bool,
    /// The file is emptied first.
    pub truncates: bool,
    /// The adapter can register a local file with the kernel, so that it reads and writes that one by itself.
    pub may_pass_through: bool,
}

/// The kernel's request that an operation answers. The default stands for none: nobody asks again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its number. Each mount counts its own; 0: none.
    pub request: u64,
    /// The kernel has sent it before, to a daemon that was killed. It may have been done then, and is not done twice.
    pub is_repeated: bool,
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// How the kernel gets at the bytes of an open file.
#[derive(Clone, Debug)]
pub enum OpenMode {
    /// By asking us.
    Served {
        /// What the kernel has in its page cache of this file is still right.
        keeps_cache: bool,
    },
    /// By itself, from this local file, which is open for reading only. All opens of the file have the same one at a time: where the adapter
    /// has registered it already, it answers with that registration.
    PassedThrough(Arc<File>),
}

/// The answer to an open.
#[derive(Clone, Debug)]
pub struct Opened {
    /// For later calls. Each is released once.
    pub handle: Handle,
    /// How its bytes are read and written.
    pub how: OpenMode,
}

/// What a rename does where its target is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// Replaces it.
    Replace,
    /// Fails.
    NoReplace,
    /// The two change places.
    Exchange,
}

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next bytes that are no hole.
    Data,
    /// The next hole. The end of the file is one.
    Hole,
}

/// What `fallocate` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Takes the space. The file grows if it is shorter.
    Extend,
    /// Takes the space, and the length stays.
    KeepLen,
    /// Makes the bytes zeros and gives their space back. The length stays.
    Punch,
    /// Makes the bytes zeros. The file grows if it is shorter.
    Zero,
    /// Makes the bytes zeros. The length stays.
    ZeroKeepLen,
}

/// What `statfs` shows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// All.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Files and directories that are known.
    pub files: u64,
}

/// Something that the kernel should forget, since it has changed at the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// What a name stands for.
    Entry {
        /// The directory.
        parent: Ino,
        /// The name.
        name: Name,
    },
    /// Attributes and cached bytes of a file.
    File(Ino),
}

/// Why an operation of a folder failed. One exhaustive table in the adapter gives each its errno.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// Nothing has that name.
    #[error("there is no such file")]
    NotFound,
    /// Something has the name already.
    #[error("the name is taken")]
    Exists,
    /// A directory was meant.
    #[error("it is not a directory")]
    NotDirectory,
    /// A file was meant.
    #[error("it is a directory")]
    IsDirectory,
    /// A directory that was to be removed or replaced has something in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The file is a version that the remote no longer has, and not all of it is here.
    #[error("the file was changed or removed by another program")]
    Stale,
    /// The folder was opened read-only, or the server lets nothing be written.
    #[error("the folder is read-only: {0}")]
    ReadOnly(String),
    /// The account may not do this here.
    #[error("{0}")]
    Forbidden(String),
    /// Somebody has locked it at the server.
    #[error("the file is locked at the server")]
    Locked,
    /// No space is left here.
    #[error("the local disk is full")]
    NoSpace,
    /// No space is left at the server for this account.
    #[error("the quota at the server is used up")]
    OverQuota,
    /// The file is longer than the server takes.
    #[error("the file is too large for the server")]
    TooLarge,
    /// The name is one that no file can have here.
    #[error("the name cannot be used: {0}")]
    BadName(String),
    /// The name is too long.
    #[error("the name is too long")]
    NameTooLong,
    /// A directory cannot be moved into itself, or the like.
    #[error("{0}")]
    Invalid(&'static str),
    /// This cannot be done here at all.
    #[error("{0}")]
    Unsupported(&'static str),
    /// No such attribute.
    #[error("there is no such attribute")]
    NoAttribute,
    /// The attribute's value is longer than can be kept.
    #[error("the attribute is too long")]
    AttributeTooLong,
    /// The handle is not of an open file, or not open for this.
    #[error("the file is not open for this")]
    BadHandle,
    /// It is not here, and the server cannot be reached or says nothing useful. Nothing is lost.
    #[error("{0}")]
    Unavailable(String),
    /// The folder is closed or closing.
    #[error("the folder is closed")]
    Closed,
    /// The local disk failed.
    #[error("the local disk failed: {0}")]
    Local(String),
}

impl From<io::Error> for FolderError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FolderError::NoSpace,
            io::ErrorKind::FileTooLarge => FolderError::TooLarge,
            _ => FolderError::Local(error.to_string()),
        }
    }
}

impl From<LedgerError> for FolderError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::NoSpace => FolderError::NoSpace,
            LedgerError::TooLarge { .. } => FolderError::Unsupported(
                "more files would change at once than Holdall can record: change them in smaller groups",
            ),
            error => FolderError::Local(error.to_string()),
        }
    }
}

impl From<ReadFailure> for FolderError {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Gone => FolderError::Stale,
            ReadFailure::Closed => FolderError::Closed,
            ReadFailure::Unavailable(_) => FolderError::Unavailable(failure.to_string()),
            ReadFailure::Failed(reason) => FolderError::Local(reason),
        }
    }
}

impl From<RemoteError> for FolderError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::NotFound(_) => FolderError::NotFound,
            RemoteError::Changed(_) => FolderError::Stale,
            RemoteError::NotEmpty(_) => FolderError::NotEmpty,
            RemoteError::Locked { .. } => FolderError::Locked,
            RemoteError::Forbidden { .. } => FolderError::Forbidden(error.to_string()),
            RemoteError::TooLarge(_) => FolderError::TooLarge,
            RemoteError::BadName { .. } => FolderError::BadName(error.to_string()),
            RemoteError::Archived(_) => FolderError::Unavailable(error.to_string()),
            RemoteError::Unsupported(what) => FolderError::Unsupported(what),
            RemoteError::Local(reason) => FolderError::Local(reason),
            RemoteError::Store(StoreError::Full { .. }) => FolderError::OverQuota,
            RemoteError::Store(error) => FolderError::Unavailable(error.to_string()),
        }
    }
}
