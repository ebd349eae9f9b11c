//! The kernel's own parts that Holdall uses, as plain calls: loop devices ([`loopdev`]), and nbd's client, attached by
//! netlink ([`nbd`]). The root helper is built on it, so it depends on nothing of Holdall.

// They panic where nobody can be told, such as a log on a disk that is full.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod loopdev;
pub mod nbd;

/// The type that `/proc/self/mountinfo` gives for the mount of a one-file disk. By it the helper tells such a mount from others.
pub const DISK_FS_TYPE: &str = "fuse.holdall";

/// The name of the one file of a one-file disk, which the loop device lies over.
pub const DISK_FILE_NAME: &str = "disk";
