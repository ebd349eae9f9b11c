//! Why an operation was not done, as reported by the process that tried.

use super::holders::{Holder, list};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Why an operation was not done. Travels from the process that tried to the one that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// The device or the mount is not, or no longer, what it was taken for.
    #[error("{} does not belong to this drive", what.display())]
    NotOurs {
        /// Its path.
        what: PathBuf,
    },
    /// The device, the directory or the file does not belong to the user who asks the helper.
    #[error("{} is not yours: the helper works only on your own drives, and only in your own directories", what.display())]
    NotYours {
        /// Its path.
        what: PathBuf,
    },
    /// The directory is on a file system on which no drive may be mounted.
    #[error("{} is on a special file system (type {kind:#x}), where drives cannot be mounted", what.display())]
    Unfit {
        /// The directory.
        what: PathBuf,
        /// The file system's magic number.
        kind: u32,
    },
    /// The user already has as many block devices as one user may have.
    #[error("you already have {devices} block devices, the most that one user may have")]
    TooMany {
        /// How many.
        devices: usize,
    },
    /// A program is not installed.
    #[error("{tool} is not installed; it is in the package {package}")]
    ToolMissing {
        /// The program.
        tool: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A program failed.
    #[error("{tool} failed ({status}): {said}")]
    ToolFailed {
        /// The program.
        tool: String,
        /// How it ended.
        status: String,
        /// What it printed.
        said: String,
    },
    /// The kernel has no nbd, or one that is too old to name its devices (before Linux 5.14).
    #[error("this kernel has no usable nbd: {said}")]
    NoNbd {
        /// What it lacks.
        said: String,
    },
    /// The device already holds something.
    #[error("{} contains {found}, which is not overwritten with a file system", device.display())]
    NotBlank {
        /// The device.
        device: PathBuf,
        /// What it holds.
        found: String,
    },
    /// The file system has damage that a person has to decide on.
    #[error("e2fsck could not repair the file system by itself: {said}")]
    Damaged {
        /// What it printed.
        said: String,
    },
    /// Something is in use.
    #[error("{} is in use{}", what.display(), list(holders))]
    Busy {
        /// Its path.
        what: PathBuf,
        /// By whom, as far as could be seen.
        holders: Vec<Holder>,
    },
    /// Somebody else has frozen the file system.
    #[error("the file system at {} is already frozen", mountpoint.display())]
    AlreadyFrozen {
        /// Where.
        mountpoint: PathBuf,
    },
    /// The time of the freeze was over, or somebody else ended it.
    #[error("the freeze of {} had already ended", mountpoint.display())]
    NotFrozen {
        /// Where.
        mountpoint: PathBuf,
    },
    /// The operation came with the wrong descriptors.
    #[error("the operation lacks a descriptor, or has one of the wrong kind")]
    NoDescriptor,
    /// A system call failed.
    #[error("{call} on {}: {said}", path.display())]
    System {
        /// Which call.
        call: String,
        /// The path it was made on.
        path: PathBuf,
        /// The error's number, where it has one.
        errno: Option<i32>,
        /// Its text, and what else the kernel said.
        said: String,
    },
}

impl Refused {
    /// For `map_err` after a system call.
    pub fn system<E: Into<io::Error>>(call: &str, path: &Path) -> impl FnOnce(E) -> Refused {
        let (call, path) = (call.to_owned(), path.to_owned());
        move |error| {
            let error = error.into();
            Refused::System { call, path, errno: error.raw_os_error(), said: error.to_string() }
        }
    }
}
