//! Why something cannot be read from a file system.

use crate::device::DeviceError;
use crate::ext4::{Doubt, Ext4Error};

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// The superblock.
    #[error(transparent)]
    Ext4(#[from] Ext4Error),
    /// A structure does not check. The value says which.
    #[error("the drive's file system is damaged: {0} does not check")]
    Damaged(&'static str),
    /// The reader does not know it.
    #[error("the drive's ext4 has {0}, which can be read only where the drive is mounted")]
    Unsupported(&'static str),
    /// There is no such file.
    #[error("there is no such file or directory")]
    NotFound,
    /// It is no directory.
    #[error("it is not a directory")]
    NotADirectory,
    /// It is no symbolic link.
    #[error("it is not a symbolic link")]
    NotALink,
    /// The bytes cannot be read.
    #[error(transparent)]
    Read(#[from] DeviceError),
}

impl From<Doubt> for FsError {
    fn from(Doubt: Doubt) -> Self {
        FsError::Damaged("a file's tree of blocks")
    }
}
