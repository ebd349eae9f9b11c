//! The kernel's nbd and loop devices.

use super::held::Held;
use super::target::unmounted_file;
use super::{Proof, Refused, Target, elsewhere, mountinfo, tools};
use holdall_kernel::loopdev::{self, LoopError};
use holdall_kernel::nbd::{Attachment, DeviceIndex, KernelError, Nbd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long others (udev's blkid) may keep a loop device open that is being detached.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn load_nbd() -> Result<(), Refused> {
    tools::run_well("modprobe", "kmod", &[], Path::new("nbd"))
}

/// Makes an nbd device, and checks that it can be found again.
pub(super) fn nbd_attach(
    sockets: &[OwnedFd],
    identifier: &str,
    size_bytes: u64,
    server_flags: u16,
) -> Result<PathBuf, Refused> {
    let mut nbd = Nbd::open().map_err(refused)?;
    let sockets = borrow(sockets)?;
    let attachment = Attachment { sockets: &sockets, size_bytes, server_flags, identifier };
    let index = nbd.connect(&attachment, None).map_err(refused)?;
    let target = Target { device: index.path(), proof: Proof::Identifier(identifier.to_owned()) };
    if target.verify().is_err() {
        // Report the first error.
        let _ = nbd.disconnect(index);
        return Err(Refused::NoNbd { said: "it does not name its devices (Linux 5.14 does)".into() });
    }
    Ok(target.device)
}

pub(super) fn nbd_reconfigure(
    sockets: &[OwnedFd],
    target: &Target,
    size_bytes: u64,
    server_flags: u16,
) -> Result<(), Refused> {
    let (index, identifier) = nbd_device(target)?;
    let sockets = borrow(sockets)?;
    let attachment = Attachment { sockets: &sockets, size_bytes, server_flags, identifier };
    Nbd::open().and_then(|mut nbd| nbd.reconfigure(index, &attachment)).map_err(refused)
}

pub(super) fn nbd_detach(target: &Target, force: bool) -> Result<(), Refused> {
    let (index, _) = nbd_device(target)?;
    // Hold the device until it is told to disconnect: its number cannot become another's, and without force nobody can mount it in between.
    // The exclusive open also sees mounts in other namespaces.
    let _held = if force { Held::of(target)? } else { open_exclusive(target)?.into() };
    target.verify()?;
    Nbd::open().and_then(|mut nbd| nbd.disconnect(index)).map_err(refused)
}

fn open_exclusive(target: &Target) -> Result<OwnedFd, Refused> {
    let device = &target.device;
    match rustix::fs::open(device, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::BUSY) => Err(Refused::Busy { what: device.clone(), holders: mounts_of(target) }),
        opened => opened.map_err(Refused::system("open", device)),
    }
}

fn nbd_device(target: &Target) -> Result<(DeviceIndex, &str), Refused> {
    target.verify()?;
    match (&target.proof, target.nbd_index()) {
        (Proof::Identifier(identifier), Some(index)) => Ok((DeviceIndex(index), identifier)),
        _ => Err(Refused::NotOurs { what: target.device.clone() }),
    }
}

pub(super) fn loop_attach(
    file: Option<&OwnedFd>,
    backing: &Path,
    read_only: bool,
) -> Result<PathBuf, Refused> {
    let file = file.ok_or(Refused::NoDescriptor)?;
    loopdev::attach(file.as_fd(), read_only).map_err(|error| loop_refused(error, backing))
}

pub(super) fn loop_resize(target: &Target) -> Result<(), Refused> {
    target.verify()?;
    let Proof::Backing(file) = &target.proof else {
        return Err(Refused::NotOurs { what: target.device.clone() });
    };
    loopdev::resize(&target.device, file).map(drop).map_err(|error| loop_refused(error, &target.device))
}

pub(super) fn loop_detach(target: &Target) -> Result<(), Refused> {
    target.verify()?;
    let file = match &target.proof {
        Proof::Backing(file) => file.clone(),
        Proof::Unmounted(_) => unmounted_file(),
        Proof::Identifier(_) => return Err(Refused::NotOurs { what: target.device.clone() }),
    };
    loopdev::detach_from(&target.device, &file, RELEASE_PATIENCE).map_err(|error| match error {
        LoopError::Mounted { device, .. } => Refused::Busy { what: device, holders: mounts_of(target) },
        LoopError::StillOpen(device) => Refused::Busy { what: device, holders: mounts_of(target) },
        other => loop_refused(other, &target.device),
    })
}

/// The places where the target is mounted, as far as this process sees: each place once, in however many containers it is.
fn mounts_of(target: &Target) -> Vec<super::Holder> {
    let (Ok(mut mounts), Ok(number)) = (mountinfo::read(), target.number()) else { return Vec::new() };
    mounts.extend(elsewhere::find(number).into_iter().flat_map(|elsewhere| elsewhere.mounts));
    let mounts = mounts.into_iter().filter(|mount| mount.number == number);
    let places: BTreeSet<_> = mounts.map(|mount| mount.point).collect();
    places.into_iter().map(|path| super::Holder::Mount { path }).collect()
}

fn borrow(sockets: &[OwnedFd]) -> Result<Vec<BorrowedFd<'_>>, Refused> {
    if sockets.is_empty() {
        return Err(Refused::NoDescriptor);
    }
    Ok(sockets.iter().map(AsFd::as_fd).collect())
}

fn refused(error: KernelError) -> Refused {
    match error {
        KernelError::NoNbd => Refused::NoNbd { said: "it is not loaded (modprobe nbd)".into() },
        KernelError::Refused { doing, source } => Refused::system(doing, Path::new("nbd"))(source),
        KernelError::Sysfs(error) => Refused::system("nbd", Path::new("/sys/block"))(error),
        error @ (KernelError::Netlink(_) | KernelError::NotReady(_) | KernelError::BadAttachment) => {
            Refused::system("netlink", Path::new("nbd"))(std::io::Error::other(error.to_string()))
        }
    }
}

fn loop_refused(error: LoopError, path: &Path) -> Refused {
    match error {
        LoopError::System { call, path, error } => Refused::system(call, &path)(error),
        error @ (LoopError::Contended
        | LoopError::NotDirect(_)
        | LoopError::NoSize(_)
        | LoopError::Mounted { .. }
        | LoopError::StillOpen(_)) => {
            Refused::system("losetup", path)(std::io::Error::other(error.to_string()))
        }
    }
}
