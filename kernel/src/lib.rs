//! The parts of the kernel that Holdall uses, as plain calls: loop devices ([`loopdev`]), the NBD client, attached by netlink ([`nbd`]), and
//! FUSE passthrough ([`passthrough`]).
//! The root helper is built on this crate, so it depends on nothing else of Holdall.

// print! panics where it cannot write, for example to a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod loopdev;
pub mod nbd;
pub mod passthrough;

/// The type of a one-file disk's mount in `/proc/self/mountinfo`. By it the helper tells such a mount from others.
pub const DISK_FS_TYPE: &str = "fuse.holdall";

/// The type of a folder's mount there.
pub const FOLDER_FS_TYPE: &str = "fuse.holdall-folder";

/// The name of the one file of a one-file disk, over which the loop device lies.
pub const DISK_FILE_NAME: &str = "disk";
