//! Why a drive could not be attached, mounted or closed, for the calling code and for people.

use super::Unfit;
use crate::api::words::sentence;
use crate::api::{Action, Actions, Code, Failure};
use holdall_fuse::mount::MountError;
use holdall_fuse::onefile::OneFileError;
use holdall_helper::{PrivilegedError, Refused};
use holdall_nbd::server::ServeError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a drive could not be attached, mounted or closed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// An operation with root's rights failed.
    #[error(transparent)]
    Privileged(#[from] PrivilegedError),
    /// A former daemon's device or mount is still there.
    #[error("an earlier background service left parts of the drive {name:?} behind")]
    LeftOver {
        /// The drive.
        name: String,
    },
    /// The kernel did not take new connections for a device.
    #[error("the kernel accepts no new connection for {}: the old one is still alive", device.display())]
    NotTaken {
        /// The device.
        device: PathBuf,
    },
    /// The device cannot be served.
    #[error(transparent)]
    Serve(ServeError),
    /// The one-file disk failed.
    #[error(transparent)]
    OneFile(#[from] OneFileError),
    /// The keeper could not be started or asked.
    #[error("the keeper of the drive's connection: {error}")]
    Keeper {
        /// Why.
        error: io::Error,
    },
    /// The directory cannot be mounted on.
    #[error("{} cannot be used as a mount point: {why}", path.display())]
    MountPoint {
        /// Which.
        path: PathBuf,
        /// Why.
        why: Unfit,
    },
    /// The loop device has its old size.
    #[error("{} did not take the drive's new size", device.display())]
    NotGrown {
        /// The device.
        device: PathBuf,
    },
    /// A version without a file system can only be opened as a block device.
    #[error("there is no file system on this version of the drive")]
    NoFileSystem,
    /// The content of the device is not ours to mount or to overwrite.
    #[error("the drive holds something that is not an ext4 file system")]
    Foreign,
    /// An operation gave an answer of the wrong kind.
    #[error("an operation got an unexpected answer")]
    Confused,
    /// A file or directory could not be used.
    #[error("could not {doing} {}: {error}", path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl From<Refused> for AttachError {
    fn from(refused: Refused) -> Self {
        AttachError::Privileged(refused.into())
    }
}

impl AttachError {
    pub(super) fn io(doing: &'static str, path: &Path, error: io::Error) -> Self {
        AttachError::Io { doing, path: path.to_owned(), error }
    }

    /// The failure for people: cause, consequence, action.
    pub fn failure(&self) -> Failure {
        let (code, consequence, actions): (_, _, Actions) = match self {
            AttachError::Privileged(error) => return error.failure(),
            AttachError::OneFile(error) => one_file(error),
            AttachError::LeftOver { .. } => {
                (Code::State, "Your files are safe; the drive was not opened.", repair())
            }
            AttachError::NotTaken { .. } => (
                Code::State,
                "Your files are safe; programs that use the drive wait.",
                "If another holdalld is running, stop it. Then try again.".into(),
            ),
            AttachError::Serve(_) | AttachError::Keeper { .. } | AttachError::Confused => {
                (Code::Failed, "Your files are safe; the drive is unchanged.", try_again())
            }
            AttachError::NotGrown { .. } => (
                Code::Failed,
                "Your files are safe; the new space cannot be used yet.",
                "Close and open the drive: then the file system uses the new size.".into(),
            ),
            AttachError::MountPoint { .. } => (
                Code::Usage,
                "Nothing was changed there.",
                "Choose an empty directory of your own, or one that does not exist yet.".into(),
            ),
            AttachError::NoFileSystem => (
                Code::NotFound,
                "Nothing was changed.",
                "Choose a later version, or open the drive for writing.".into(),
            ),
            AttachError::Foreign => (
                Code::State,
                "The data on it is unchanged.",
                [Action::Serve { drive: None }, Action::tell("Or remove the drive, and create it again.")]
                    .into(),
            ),
            AttachError::Io { .. } => (
                Code::Failed,
                "Your files are safe; the drive is unchanged.",
                "Fix the cause, then try again.".into(),
            ),
        };
        Failure::new(code, sentence(&self.to_string()), consequence, actions)
    }
}

fn one_file(error: &OneFileError) -> (Code, &'static str, Actions) {
    const SAFE: &str = "Your files are safe; the drive is unchanged.";
    match error {
        OneFileError::Mount(MountError::Busy(_)) => {
            (Code::State, SAFE, "Close what uses the drive's block device, then try again.".into())
        }
        OneFileError::Mount(MountError::AlreadyMounted(_)) => (Code::State, SAFE, repair()),
        OneFileError::Mount(MountError::NoFusermount) => {
            (Code::Failed, SAFE, Action::run_as_root(&["apt-get", "install", "fuse3"]).into())
        }
        OneFileError::Mount(MountError::Fusermount(said)) if said.contains("/dev/fuse") => (
            Code::Privileges,
            SAFE,
            [
                Action::tell("Allow all users to open it, as udev usually does."),
                Action::run_as_root(&["chmod", "666", "/dev/fuse"]),
            ]
            .into(),
        ),
        OneFileError::Mount(MountError::Fusermount(_)) => (Code::Privileges, SAFE, Action::Doctor.into()),
        OneFileError::Mount(MountError::NotUtf8(_) | MountError::System { .. }) => {
            (Code::Failed, SAFE, Action::Doctor.into())
        }
        OneFileError::TooOld { .. } => (
            Code::Failed,
            SAFE,
            [Action::tell("Attach with nbd."), Action::run_as_root(&["modprobe", "nbd"])].into(),
        ),
        OneFileError::CannotResend { .. } | OneFileError::Over(_) => {
            (Code::State, "Data that programs had synced is safe; other recent writes may be lost.", repair())
        }
        OneFileError::Setup(_) | OneFileError::System { .. } => (Code::Failed, SAFE, try_again()),
    }
}

fn repair() -> Actions {
    [Action::Repair, Action::tell("Then open the drive again.")].into()
}

fn try_again() -> Actions {
    [Action::tell("Try again."), Action::Doctor].into()
}
