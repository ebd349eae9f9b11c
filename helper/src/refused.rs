//! Why an operation was not done, as the process says it that tried.

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
        /// What.
        what: PathBuf,
    },
    /// The device, the directory or the file is not the user's who asks the helper for it.
    #[error("{} is not yours: you can have done only to your own drives, and only on your own directories", what.display())]
    NotYours {
        /// What.
        what: PathBuf,
    },
    /// The directory is on a file system on which no drive is mounted.
    #[error("{} is on a file system that is not for files (its kind is {kind:#x}): no drive is mounted there", what.display())]
    Unfit {
        /// The directory.
        what: PathBuf,
        /// The file system's magic number.
        kind: u32,
    },
    /// The user has as many block devices as one may have.
    #[error("you have {devices} block devices already, which is as many as one user may have")]
    TooMany {
        /// How many.
        devices: usize,
    },
    /// A program is not installed.
    #[error("{tool} is not installed; it is in the package {package}")]
    ToolMissing {
        /// Which.
        tool: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A program failed.
    #[error("{tool} failed ({status}): {said}")]
    ToolFailed {
        /// Which.
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
    /// The device holds something already.
    #[error("{} holds {found}: no file system is made over it", device.display())]
    NotBlank {
        /// Which.
        device: PathBuf,
        /// What.
        found: String,
    },
    /// The file system has damage that takes a person's decision.
    #[error("e2fsck could not repair the file system by itself: {said}")]
    Damaged {
        /// What it printed.
        said: String,
    },
    /// Something is in use.
    #[error("{} is in use{}", what.display(), list(holders))]
    Busy {
        /// What.
        what: PathBuf,
        /// By whom, as far as could be seen.
        holders: Vec<Holder>,
    },
    /// Someone else has frozen it.
    #[error("the file system at {} is frozen already", mountpoint.display())]
    AlreadyFrozen {
        /// Where.
        mountpoint: PathBuf,
    },
    /// The time of a freeze was over, or someone else has ended it.
    #[error("the freeze of {} had ended before", mountpoint.display())]
    NotFrozen {
        /// Where.
        mountpoint: PathBuf,
    },
    /// The operation came with the wrong descriptors.
    #[error("the operation lacks a descriptor, or has one of another kind")]
    NoDescriptor,
    /// A system call failed.
    #[error("{call} on {}: {said}", path.display())]
    System {
        /// Which.
        call: String,
        /// On what.
        path: PathBuf,
        /// The error's number, where it has one.
        errno: Option<i32>,
        /// Its text, and what the kernel said besides.
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
