//! Mounts and unmounts a drive's ext4.
//!
//! A mount that hangs is killed at its deadline, and must not appear later when the device answers after all. mount(2) would let it: a
//! process inside it dies only when the call returns. So the file system is first opened without a mount point (fsopen, Linux 5.2), which
//! may wait, and then moved to its mount point, which does not wait. A process that is killed while it waits never gets there, and the
//! kernel drops what it had opened.

use super::mountinfo::{self, Mount};
use super::{DeviceNumber, Refused, Target, elsewhere, holders, ids};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};
use rustix::process::fchdir;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a mount may be in use before we report that, and how often we try: a process between fork and exec holds its parent's files for
/// a moment, and a file manager looks at what it shows.
const BUSY_PATIENCE: Duration = Duration::from_millis(500);
const BUSY_INTERVAL: Duration = Duration::from_millis(10);

/// Mounts the target's ext4 on the open directory `at`. There, files of the drive's owner belong to `caller`.
pub(super) fn mount(
    target: &Target,
    at: BorrowedFd<'_>,
    read_only: bool,
    caller: Option<u32>,
) -> Result<(), Refused> {
    let mounted = opened(target, read_only)?;
    ids::give_to(&mounted, caller, at)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mounted.as_fd(), "", at, "", flags).map_err(Refused::system("move_mount", &target.device))
}

/// The target's ext4, not mounted anywhere yet. It may be busy for a moment: programs that probe new devices (mdadm, lvm and multipath,
/// called by udev) hold them exclusively.
fn opened(target: &Target, read_only: bool) -> Result<OwnedFd, Refused> {
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        target.verify()?;
        let device = &target.device;
        let context =
            fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).map_err(Refused::system("fsopen", device))?;
        match mount_in(&context, device, read_only) {
            Err((_, Errno::BUSY)) if Instant::now() < deadline => std::thread::sleep(BUSY_INTERVAL),
            Err((call, errno)) => {
                let (path, said) = (device.clone(), said(&context, errno));
                return Err(Refused::System {
                    call: call.to_owned(),
                    path,
                    errno: Some(errno.raw_os_error()),
                    said,
                });
            }
            Ok(mounted) => return Ok(mounted),
        }
    }
}

fn mount_in(context: &OwnedFd, device: &Path, read_only: bool) -> Result<OwnedFd, (&'static str, Errno)> {
    fsconfig_set_string(context.as_fd(), "source", device).map_err(|errno| ("fsconfig", errno))?;
    // If metadata cannot be read or makes no sense, write nothing more that relies on it.
    fsconfig_set_string(context.as_fd(), "errors", "remount-ro").map_err(|errno| ("fsconfig", errno))?;
    // Deleted files should take no space in the drive's cache or its store.
    let flag = if read_only { "ro" } else { "discard" };
    fsconfig_set_flag(context.as_fd(), flag).map_err(|errno| ("fsconfig", errno))?;
    fsconfig_create(context.as_fd()).map_err(|errno| ("mount", errno))?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes(read_only))
        .map_err(|errno| ("fsmount", errno))
}

/// nosuid and nodev: a store must not yield root. noatime: otherwise browsing a drive would dirty its inode tables, and push them.
fn attributes(read_only: bool) -> MountAttrFlags {
    let always = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    if read_only { always | MountAttrFlags::MOUNT_ATTR_RDONLY } else { always }
}

/// What the kernel logged about the attempt; each read returns one message.
fn said(context: &OwnedFd, errno: Errno) -> String {
    let mut said = errno.to_string();
    let mut message = [0; 1024];
    while let Ok(length @ 1..) = rustix::io::read(context, &mut message) {
        said.push_str("; ");
        // The kernel puts "e " before an error's text.
        said.push_str(String::from_utf8_lossy(&message[..length]).trim_start_matches("e ").trim_end());
    }
    said
}

/// Unmounts what must be `number` at `mountpoint`, here and in other mount namespaces. If it is in use in one of those, the unmount is
/// refused before anything is unmounted here.
pub(super) fn unmount(number: DeviceNumber, mountpoint: &Path, lazy: bool) -> Result<(), Refused> {
    let mounts = mountinfo::read()?;
    let Some(mount) = mountinfo::at(&mounts, mountpoint) else { return Ok(()) };
    if mount.number != number {
        return Err(Refused::NotOurs { what: mountpoint.to_owned() });
    }
    let how = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    unmount_elsewhere(number, how, Hidden::MayGoWithOurs)?;
    unmount_one(mount, how).map_err(|errno| refused(errno, mount, &mounts))?;
    // A namespace may have been made between the two.
    unmount_elsewhere(number, how, Hidden::Stays)
}

/// How to treat a copy that another mount covers, as systemd's ProtectHome= covers /home: nobody can reach it to unmount it.
#[derive(Clone, Copy, PartialEq)]
enum Hidden {
    /// It may follow our own unmount, as those of services do.
    MayGoWithOurs,
    /// Our mount is gone, and it is still there.
    Stays,
}

fn unmount_elsewhere(number: DeviceNumber, how: UnmountFlags, hidden: Hidden) -> Result<(), Refused> {
    elsewhere::find(number).iter().try_for_each(|elsewhere| {
        // The last one first: it may lie on top of another one.
        elsewhere.mounts.iter().rev().try_for_each(|mount| {
            match elsewhere.enter(|| unmount_one(mount, how)) {
                Err(Errno::NOENT | Errno::ACCESS) if hidden == Hidden::MayGoWithOurs => Ok(()),
                unmounted => unmounted.map_err(|errno| refused(errno, mount, &elsewhere.all)),
            }
        })
    })
}

/// It is no error if nothing is mounted there: another unmount may have unmounted it too.
///
/// The directories above a mount point may belong to its user, who can meanwhile replace them with a link to somebody else's. So the parent
/// directory is opened by a path without links and held, and the mount is checked from there. The mount itself cannot be held: it would be
/// in use.
fn unmount_one(mount: &Mount, how: UnmountFlags) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (mount.point.parent(), mount.point.file_name()) else {
        return Err(Errno::INVAL);
    };
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parent = openat2(CWD, parent, place | OFlags::DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let there = openat(&parent, name, place, Mode::empty())?;
    // Read what the kernel has in memory: do not ask the drive.
    let look = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(&there, "", look, StatxFlags::MNT_ID)?;
    drop(there);
    let number = DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
    // Compare the device number too: the id of a mount that is gone is reused.
    if found.stx_mnt_id != mount.id || number != mount.number {
        return Ok(());
    }
    // umount(2) takes no directory to start from, so change to it: this process, or the thread in the other namespace, has its own working
    // directory.
    fchdir(&parent)?;
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        match rustix::mount::unmount(name, UnmountFlags::NOFOLLOW | how) {
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(BUSY_INTERVAL),
            Ok(()) | Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
}

fn refused(errno: Errno, mount: &Mount, mounts: &[Mount]) -> Refused {
    match errno {
        Errno::BUSY => Refused::Busy { what: mount.point.clone(), holders: holders::of(mount, mounts) },
        errno => Refused::system("umount", &mount.point)(errno),
    }
}
