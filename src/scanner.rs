//! The process that looks at the files of a mounted drive: where their blocks are, and when they change.
//!
//! Any system call on a mounted drive may wait for the drive, and so for the daemon. So another process makes them all: the same program,
//! started again under [`SUBCOMMAND`] as the same user; one for each drive, while the drive is mounted and somebody needs it. It is killed
//! before the drive is unmounted, and ends by itself when the daemon does. It has nothing of the drive open except during a scan.
//!
//! Both sides talk over the socket that is its standard input, in lines of JSON: each line to the process is an [`Order`], each line from
//! it a [`Told`]. Files are reported in pieces, so that neither side holds more than a piece beyond what it wants to remember.

pub use crate::api::FileKind;
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

/// An order to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The first order: which drive.
    Begin {
        /// The device that must be mounted there.
        target: Target,
        /// The mount point.
        mountpoint: PathBuf,
    },
    /// Scan a file, or a directory with everything below it.
    Scan(Scan),
    /// Nobody needs this scan any longer: it ends without a word.
    Cancel {
        /// The scan.
        id: u64,
    },
    /// Stop reporting changes of this path.
    Forget {
        /// The path as it was given to watch.
        path: String,
    },
}

/// A scan that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The number that identifies the answers.
    pub id: u64,
    /// Relative to the root of the drive, which is ".".
    pub path: String,
    /// Whether to report its changes from now on.
    pub watch: bool,
    /// Whether the kernel should drop the files' cached pages: they will be read again.
    pub drop_pages: bool,
    /// Whether only to list a directory: one level, with names.
    #[serde(default)]
    pub list: bool,
    /// Whether only to report the entries below a directory, by name and facts.
    #[serde(default)]
    pub outline: bool,
}

/// The facts on a file or directory that need no opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its path, relative to the root of the drive; bytes that are not UTF-8 become U+FFFD.
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its inode number.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// The last change of its content, as programs set it: nanoseconds since 1970.
    pub modified_ns: i64,
    /// The last change of anything of it, as the kernel recorded it.
    pub changed_ns: i64,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name; bytes that are not UTF-8 become U+FFFD.
    pub name: String,
    /// A file's length and runs; `None` for a directory.
    pub file: Option<(u64, Vec<Run>)>,
}

/// A report of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A piece of what the scan has found.
    Found {
        /// The scan.
        id: u64,
        /// The runs of each file, in the file's order. An empty file has none.
        files: Vec<Vec<Run>>,
        /// The runs of directories.
        directories: Vec<Run>,
    },
    /// A piece of a directory's listing.
    Listed {
        /// The scan.
        id: u64,
        /// Directories first, in order.
        entries: Vec<Named>,
    },
    /// A piece of the entries below a directory.
    Outlined {
        /// The scan.
        id: u64,
        /// In no order.
        entries: Vec<Seen>,
    },
    /// The scan has ended.
    Scanned {
        /// The scan.
        id: u64,
        /// The gaps of the scan.
        blind: Blind,
    },
    /// The path cannot be scanned.
    Refused {
        /// The scan.
        id: u64,
        /// Why.
        why: Unscannable,
    },
    /// Something has changed at or below these paths.
    Changed {
        /// The paths as they were given to watch.
        paths: Vec<String>,
    },
}

/// The gaps of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// Files and directories that may not be read.
    pub unreadable: u64,
    /// One of them.
    pub example: Option<String>,
    /// Whether some of them could not be read for another reason than missing rights. Their kind is then unknown.
    pub failed: bool,
    /// Whether some blocks had no place yet: files were just being written.
    pub unsettled: bool,
    /// Whether some changes will not be reported: the kernel watches no more directories for this user.
    pub unwatched: bool,
}

/// Why a path cannot be scanned.
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
    /// An access to it failed.
    Failed(String),
}
