//! A /dev/fuse that ordinary users may open, as a distribution's udev sets it up.

use crate::bench::Bench;
use rustix::fs::{FileType, Mode};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Gives the thread, and what it starts, a /dev/fuse that everybody may open.
pub fn open_fuse(bench: &Bench) {
    // SAFETY: this gives the thread its own namespace and working directory, and touches no memory.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let (node, device) = (bench.path("fuse"), rustix::fs::makedev(10, 229));
    rustix::fs::mknodat(rustix::fs::CWD, &node, FileType::CharacterDevice, Mode::empty(), device).unwrap();
    fs::set_permissions(&node, Permissions::from_mode(0o666)).unwrap();
    mount_bind(&node, "/dev/fuse").unwrap();
}
