//! The process that looks at the files of a mounted drive: where their blocks are, and when they change.
//!
//! Any system call on a mounted drive may wait for the drive, that is for the daemon. So another process makes them all: the
//! same program started again under [`SUBCOMMAND`], as the same user, one for each drive, for as long as the drive is mounted
//! and somebody wants to know. It is killed before the drive is unmounted, and ends by itself when the daemon does. Nothing of
//! the drive is open in it but while it looks.
//!
//! Both sides talk over the socket that is its standard input, in lines of JSON: an [`Order`] each way in, a [`Told`] each
//! way out. Files are told in pieces, so that neither side holds more than a piece beyond what it wants to remember.

use holdall_helper::Target;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod fiemap;
mod outline;
mod serve;
mod walk;
mod watch;

#[cfg(test)]
mod tests;

pub use serve::main;

/// The hidden subcommand of the daemon's program: it calls [`main`].
pub const SUBCOMMAND: &str = "scan";

/// A run of blocks of the drive: the first one, and how many.
pub type Run = (u64, u64);

/// What the process is told to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The first one: which drive.
    Begin {
        /// Which device must be mounted there.
        target: Target,
        /// Where.
        mountpoint: PathBuf,
    },
    /// Look at a file, or at a directory with all that is below it.
    Scan(Scan),
    /// Nobody wants to know any more what a scan finds: it ends without a word.
    Cancel {
        /// The scan.
        id: u64,
    },
    /// Tell no more of changes of this path.
    Forget {
        /// As it was given to be watched.
        path: String,
    },
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// By what the answers are known.
    pub id: u64,
    /// Relative to the root of the drive, which is ".".
    pub path: String,
    /// Whether to tell from now on that it has changed.
    pub watch: bool,
    /// Whether what the kernel has of the files in memory is not needed: they are to be read anew.
    pub drop_pages: bool,
    /// Whether only to list a directory: one level of it, with names.
    #[serde(default)]
    pub list: bool,
    /// Whether only to tell what is below a directory, by names and facts.
    #[serde(default)]
    pub outline: bool,
}

/// What is seen of a file or a directory without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its path, relative to the root of the drive; what is not UTF-8 in it is U+FFFD.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its number in the file system.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When its content was changed last, as programs say: nanoseconds since 1970.
    pub modified_ns: i64,
    /// When anything of it was changed last, as the kernel says.
    pub changed_ns: i64,
}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe or a device.
    Other,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name; what is not UTF-8 in it is U+FFFD.
    pub name: String,
    /// Of a file its length and its runs; of a directory nothing.
    pub file: Option<(u64, Vec<Run>)>,
}

/// What the process tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A piece of what there is.
    Found {
        /// The scan.
        id: u64,
        /// Of each file its runs, in the file's order. An empty file has none.
        files: Vec<Vec<Run>>,
        /// Of the directories.
        directories: Vec<Run>,
    },
    /// A piece of a directory's list.
    Listed {
        /// The scan.
        id: u64,
        /// Directories first, in order.
        entries: Vec<Named>,
    },
    /// A piece of what is below a directory.
    Outlined {
        /// The scan.
        id: u64,
        /// In no order.
        entries: Vec<Seen>,
    },
    /// That was all.
    Scanned {
        /// The scan.
        id: u64,
        /// What could not be seen.
        blind: Blind,
    },
    /// The path cannot be looked at.
    Refused {
        /// The scan.
        id: u64,
        /// Why.
        why: Unscannable,
    },
    /// Something has changed at or below these paths.
    Changed {
        /// As they were given to be watched.
        paths: Vec<String>,
    },
}

/// What a scan did not see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// Files and directories that may not be read.
    pub unreadable: u64,
    /// One of them.
    pub example: Option<String>,
    /// Whether some of them could not be read for another reason than their rights. What they are is not known then.
    pub failed: bool,
    /// Whether some blocks had no place yet: files were just being written.
    pub unsettled: bool,
    /// Whether some changes will not be told: the kernel watches no more directories for this user.
    pub unwatched: bool,
}

/// Why a path cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unscannable {
    /// It is not there.
    Missing,
    /// It is a symbolic link, or leads through one.
    Link,
    /// Another file system is mounted there.
    Elsewhere,
    /// It is neither a file nor a directory.
    Special,
    /// It cannot be looked at.
    Failed(String),
}
