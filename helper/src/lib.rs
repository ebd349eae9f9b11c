//! What needs root's rights, as one enum, and who does it.
//!
//! The daemon runs as its user. Each [`Privileged`] operation is done by a process of its own (see [`deputy`]): by the same
//! program started again where the daemon is root's; by the helper on the system bus where that is installed ([`helper`]);
//! else by the same program through sudo. There are two reasons to have a process for root too. These system calls may wait for I/O that the daemon itself serves, so it must be able to
//! go on; and what hangs can be killed at a deadline, which a thread cannot.
//!
//! **Nothing is believed.** An operation names its block device as a [`Target`], with what the kernel must say of that
//! device (the nbd identifier, the loop device's file) for it to be the drive's: a number that was given to somebody else
//! meanwhile is refused. Paths that a user controls are not resolved with root's rights: the file under a loop device and
//! the mount point arrive as open descriptors. Who has sudo is root anyway; who has the helper is not, and has done only
//! to what is his (`admit.rs`).

// They panic where nobody can be told, such as a log on a disk that is full.
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
        /// By what it is known again.
        identifier: String,
        /// Its size.
        size_bytes: u64,
        /// The protocol's transmission flags.
        server_flags: u16,
    },
    /// Gives an nbd device the sockets that come along, and its size.
    NbdReconfigure {
        /// Which.
        target: Target,
        /// Its size from now on.
        size_bytes: u64,
        /// The protocol's transmission flags.
        server_flags: u16,
    },
    /// Takes an nbd device away.
    NbdDetach {
        /// Which.
        target: Target,
        /// Even if it is mounted: what waits for it then fails.
        force: bool,
    },
    /// Puts a loop device over the open file that comes along; answers with its path.
    LoopAttach {
        /// Where that file is, for errors.
        backing: PathBuf,
        /// Whether the device refuses writes.
        read_only: bool,
    },
    /// Has a loop device take its file's size.
    LoopResize {
        /// Which.
        target: Target,
    },
    /// Takes the file from a loop device.
    LoopDetach {
        /// Which.
        target: Target,
    },
    /// Limits the device's dirty pages and sets its read-ahead; answers with what could be set.
    Tune {
        /// Which.
        target: Target,
    },
    /// Looks what is on a device; answers with it.
    Probe {
        /// Which.
        target: Target,
    },
    /// Makes an ext4, if the beginning of the device is all zeros.
    MakeFileSystem {
        /// On which device.
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
        /// On which device.
        target: Target,
    },
    /// Mounts on the open directory that comes along.
    Mount {
        /// Which device.
        target: Target,
        /// Whether writes are refused. The device is written to even so: a journal is replayed.
        read_only: bool,
    },
    /// Unmounts; nothing being mounted there is no error.
    Unmount {
        /// What must be mounted there.
        number: DeviceNumber,
        /// Where.
        mountpoint: PathBuf,
        /// Even if it is in use: it disappears from there, and ends when its last user lets go.
        lazy: bool,
    },
    /// Writes everything back, then stops all writes until told to go on, or the time is over, or nobody is left who
    /// could say so.
    Freeze {
        /// Which device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
        /// For how long at most.
        hold_ms: u64,
    },
    /// Lets writes go on after a freeze whose process died; that there is none is no error.
    Thaw {
        /// Which device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
    },
    /// Makes every later access to the file system fail, without writing anything back.
    ShutDown {
        /// Which device.
        target: Target,
        /// Where it is mounted.
        mountpoint: PathBuf,
    },
    /// Grows a file system that is not mounted to its device's size, where [`Privileged::Grow`] will not be allowed to.
    GrowUnmounted {
        /// On which device.
        target: Target,
    },
    /// Grows the mounted file system to its device's size.
    Grow {
        /// Which device.
        target: Target,
    },
}

/// An operation that anyone may do, but that may wait for the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Writes everything of a file system back.
    Sync {
        /// Which device must be mounted there.
        target: Target,
        /// Where.
        mountpoint: PathBuf,
    },
    /// How full it is; answers with that.
    Usage {
        /// Which device must be mounted there.
        target: Target,
        /// Where.
        mountpoint: PathBuf,
    },
    /// Opens the file of a one-file disk; the descriptor comes with the answer. The daemon that serves it must not do that
    /// itself: killed meanwhile, it would wait in the kernel for an answer of its own, and could not end.
    OpenDisk {
        /// The file.
        file: PathBuf,
        /// Whether only for reading.
        read_only: bool,
    },
}

/// What an operation gave.
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
    /// Bytes that a user may still take.
    pub available_bytes: u64,
    /// Files, folders and links that it can hold.
    #[serde(default)]
    pub total_inodes: u64,
    /// So many of them are left.
    #[serde(default)]
    pub free_inodes: u64,
}

impl Privileged {
    /// What it does, as it is said in "could not ...".
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
        }
    }
}

impl Look {
    /// What it does, as it is said in "could not ...".
    pub fn describe(&self) -> &'static str {
        match self {
            Look::Sync { .. } => "write the file system back",
            Look::Usage { .. } => "see how full the file system is",
            Look::OpenDisk { .. } => "open the drive's disk",
        }
    }
}
