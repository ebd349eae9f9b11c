//! All that needs root's rights, as one enum, and who performs it.
//!
//! The daemon runs as its user. Each [`Privileged`] operation is done by a process of its own (see [`deputy`]): if the daemon runs as root,
//! by the same program started again; otherwise by the helper on the system bus, if it is installed ([`helper`]); otherwise by the same
//! program through sudo. Root gets a process too, for two reasons. These system calls may wait for I/O that the daemon itself serves, so the
//! daemon must be able to continue. And a process that hangs can be killed at a deadline, which a thread cannot.
//!
//! **Nothing is believed.** An operation names its block device as a [`Target`], together with what the kernel must say of that device (the
//! nbd identifier, the loop device's file) for it to be the drive's: a number that now belongs to another device is refused. Paths that a
//! user controls are not resolved with root's rights: the file under a loop device and the mount point arrive as open descriptors. A user
//! with sudo is root anyway; a user with the helper is not, and can only have operations done on their own drives (`admit.rs`).

// print! panics where it cannot write, for example to a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod admit;
mod confined;
pub mod deputy;
mod elsewhere;
mod ext4;
mod failure;
mod frozen;
mod held;
pub mod helper;
pub mod holders;
mod identifier;
mod ids;
mod inodes;
mod kernel;
pub mod mountinfo;
mod mounting;
mod passing;
mod perform;
mod procfs;
mod refused;
pub mod service;
mod superblock;
mod target;
mod tools;
mod tuning;
mod wire;

pub(crate) use admit::is_anything_attached;
pub use deputy::Deputy;
pub use deputy::{ended, reap};
pub use failure::PrivilegedError;
pub use frozen::open as open_mounted;
pub use frozen::{FreezeEnded, Frozen};
pub use holders::Holder;
pub use identifier::Identifier;
pub use passing::{Passing, PassingError};
pub use perform::{begin, main};
pub use refused::Refused;
pub use superblock::{Content, LABEL_BYTES_MAX, LOOKED_AT_BYTES, Superblock};
pub use target::{DeviceNumber, Proof, Target};
pub use tools::{TOOLS, find as find_tool};
pub use tuning::{DIRTY_LIMIT_BYTES, Tuned};

/// The hidden subcommand of the daemon's program under which it performs one operation: it calls [`main`].
pub const SUBCOMMAND: &str = "perform";

/// One operation that needs root's rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privileged {
    /// Loads the kernel's nbd module.
    LoadNbd,
    /// Makes an nbd device of the sockets that come along; answers with its path.
    NbdAttach {
        /// The name by which it is recognized later.
        identifier: String,
        /// Its size.
        size_bytes: u64,
        /// The protocol's transmission flags.
        server_flags: u16,
    },
    /// Gives an nbd device the sockets that come along, and its size.
    NbdReconfigure {
        /// The device.
        target: Target,
        /// Its size from now on.
        size_bytes: u64,
        /// The protocol's transmission flags.
        server_flags: u16,
    },
    /// Removes an nbd device.
    NbdDetach {
        /// The device.
        target: Target,
        /// Removes it even if it is mounted: requests that wait for it then fail.
        force: bool,
    },
    /// Puts a loop device over the open file that comes along; answers with its path.
    LoopAttach {
        /// Where that file is, for errors.
        backing: PathBuf,
        /// Whether the device refuses writes.
        read_only: bool,
    },
    /// Makes a loop device take its file's size.
    LoopResize {
        /// The device.
        target: Target,
    },
    /// Takes the file from a loop device.
    LoopDetach {
        /// The device.
        target: Target,
    },
    /// Limits the device's dirty pages and sets its readahead; answers with what could be set.
    Tune {
        /// The device.
        target: Target,
    },
    /// Reads what is on a device; answers with it.
    Probe {
        /// The device.
        target: Target,
    },
    /// Makes an ext4, if the beginning of the device is all zeros.
    MakeFileSystem {
        /// The device.
        target: Target,
        /// The label; ext4 holds 16 bytes of it.
        label: String,
        /// Who owns the root directory.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Repairs what can be repaired without asking (e2fsck -p).
    Check {
        /// The device.
        target: Target,
    },
    /// Mounts on the open directory that comes along.
    Mount {
        /// The device.
        target: Target,
        /// Whether writes are refused. The device is written to all the same: a journal is replayed.
        read_only: bool,
    },
    /// Unmounts. It is no error if nothing is mounted there.
    Unmount {
        /// What must be mounted there.
        number: DeviceNumber,
        /// Where.
        mountpoint: PathBuf,
        /// Unmounts even if it is in use: the mount disappears at once, and ends when its last user closes it.
        lazy: bool,
    },
    /// Writes everything back, then stops all writes until an order to continue, until the time is over, or until nobody is left to give
    /// the order.
    Freeze {
        /// The device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
        /// For how long at most.
        hold_ms: u64,
    },
    /// Lets writes continue after a freeze whose process died. It is no error if nothing is frozen.
    Thaw {
        /// The device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
    },
    /// Makes every later access to the file system fail, without writing anything back.
    ShutDown {
        /// The device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
    },
    /// Grows an unmounted file system to its device's size, where [`Privileged::Grow`] would not be allowed.
    GrowUnmounted {
        /// The device.
        target: Target,
    },
    /// Grows the mounted file system to its device's size.
    Grow {
        /// The device.
        target: Target,
    },
    /// Registers files of a folder with the kernel, which then reads and writes them by itself, for as long as the caller stays. /dev/fuse,
    /// open for the folder's mount, and the directory of the folder's files come along.
    PassThrough {
        /// Where the folder is mounted.
        mountpoint: PathBuf,
    },
}

/// An operation that any user may do, but that may wait for the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Writes back everything of a file system.
    Sync {
        /// The device that must be mounted there.
        target: Target,
        /// Where.
        mountpoint: PathBuf,
    },
    /// Reads how full the file system is; answers with that.
    Usage {
        /// The device that must be mounted there.
        target: Target,
        /// Where.
        mountpoint: PathBuf,
    },
    /// Opens the file of a one-file disk; the descriptor comes with the answer. The daemon that serves the file must not open it itself: if
    /// it is killed meanwhile, it waits in the kernel for its own answer and cannot end.
    OpenDisk {
        /// The file.
        file: PathBuf,
        /// Whether only for reading.
        read_only: bool,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is done.
    Done,
    /// The block device that was made.
    Device(PathBuf),
    /// What is on the device.
    Content(Content),
    /// What could be set.
    Tuned(Tuned),
    /// How full the file system is.
    Usage(Usage),
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes for files, used and free.
    pub total_bytes: u64,
    /// Bytes that files take.
    pub used_bytes: u64,
    /// Bytes that users may still take.
    pub available_bytes: u64,
    /// Files, directories and links that it can hold.
    #[serde(default)]
    pub total_inodes: u64,
    /// How many of them are free.
    #[serde(default)]
    pub free_inodes: u64,
}

impl Privileged {
    /// What it does, as the end of "could not ...".
    pub fn describe(&self) -> &'static str {
        match self {
            Privileged::LoadNbd => "load the kernel's nbd module",
            Privileged::NbdAttach { .. } => "attach an nbd device",
            Privileged::NbdReconfigure { .. } => "reconnect the nbd device",
            Privileged::NbdDetach { .. } => "detach the nbd device",
            Privileged::LoopAttach { .. } => "attach a loop device",
            Privileged::LoopResize { .. } => "resize the loop device",
            Privileged::LoopDetach { .. } => "detach the loop device",
            Privileged::Tune { .. } => "set the block device's limits",
            Privileged::Probe { .. } => "read the block device",
            Privileged::MakeFileSystem { .. } => "make the file system",
            Privileged::Check { .. } => "check the file system",
            Privileged::Mount { .. } => "mount the drive",
            Privileged::Unmount { .. } => "unmount the drive",
            Privileged::Freeze { .. } => "freeze the file system",
            Privileged::Thaw { .. } => "thaw the file system",
            Privileged::ShutDown { .. } => "shut the file system down",
            Privileged::Grow { .. } | Privileged::GrowUnmounted { .. } => "grow the file system",
            Privileged::PassThrough { .. } => "let the kernel read the folder's files by itself",
        }
    }
}

impl Look {
    /// What it does, as the end of "could not ...".
    pub fn describe(&self) -> &'static str {
        match self {
            Look::Sync { .. } => "write the file system back",
            Look::Usage { .. } => "see how full the file system is",
            Look::OpenDisk { .. } => "open the drive's disk",
        }
    }
}
