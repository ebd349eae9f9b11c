//! Taking down what a daemon left and no daemon continues with.
//!
//! Programs that still use the mount get errors, as with any disk that is pulled out; what was fsynced is in the drive's journal. The order
//! is that of a close, with one step before it: requests that wait for the device are made to fail first, or an unmount would wait too.
//! Every step looks for its object again and succeeds when there is none, so that this can be repeated after an interruption.

use super::{AttachError, DEVICE_DEADLINE, Record, Site, keeper, mountpoint, nbd, onefile};
use holdall_fuse::mount as fuse;
use holdall_helper::mountinfo::{self, Mount};
use holdall_helper::{DeviceNumber, Holder, Privileged, PrivilegedError, Refused, Target};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// An unmount after its device has failed has little to wait for.
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(30);

/// The result of taking down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenDown {
    /// Descriptions of what was taken down, for people.
    pub what: Vec<String>,
    /// The programs that still have files of the drive open. They get errors; when they end, the kernel releases the rest.
    pub holders: Vec<Holder>,
}

/// The remains of a drive's attachment.
#[derive(Clone, Debug, Default)]
pub(super) struct Left {
    pub(super) nbd: Vec<Target>,
    pub(super) loop_devices: Vec<Target>,
    /// The mount point of a one-file disk.
    pub(super) disk: Option<PathBuf>,
    /// The mounts of its file system.
    pub(super) mounts: Vec<Mount>,
    /// The one-file disk's directory, with nothing mounted on it.
    pub(super) directory: Option<PathBuf>,
    /// A mount point of ours with nothing mounted on it.
    pub(super) mountpoint: Option<PathBuf>,
}

impl Left {
    /// Finds it all without touching any of it.
    pub(super) fn of(uuid: Uuid, site: &Site) -> Result<Self, AttachError> {
        let directory = site.dirs.disk(uuid);
        let (nbd, loop_devices) = (nbd::find(uuid)?, onefile::find(uuid, site)?);
        let mounts = mountinfo::read()?;
        let numbers: Vec<DeviceNumber> =
            nbd.iter().chain(&loop_devices).filter_map(|target| target.number().ok()).collect();
        let mounted = fuse::connection_at(&directory).is_some();
        let made = Record::load(&site.dirs.records(), uuid).filter(|record| record.made);
        let stale = made.and_then(|record| record.mountpoint);
        Ok(Left {
            nbd,
            loop_devices,
            disk: mounted.then(|| directory.clone()),
            mountpoint: stale.filter(|path| is_free(&mounts, path) && is_there(path)),
            mounts: mounts.into_iter().filter(|mount| numbers.contains(&mount.number)).collect(),
            directory: (!mounted && is_there(&directory)).then_some(directory),
        })
    }

    /// Whether the kernel still has something of the drive.
    pub(super) fn is_attached(&self) -> bool {
        !self.nbd.is_empty() || !self.loop_devices.is_empty() || self.disk.is_some()
    }

    /// Describes the remains, for people.
    pub(super) fn describe(&self) -> Vec<String> {
        let devices = self.nbd.iter().chain(&self.loop_devices);
        let mut what: Vec<_> = devices.map(|target| target.device.display().to_string()).collect();
        what.extend(self.mounts.iter().map(|mount| format!("the mount at {}", mount.point.display())));
        what.extend(self.disk.iter().map(|path| format!("the one-file disk at {}", path.display())));
        let directories = self.directory.iter().chain(&self.mountpoint);
        what.extend(directories.map(|path| format!("the empty directory {}", path.display())));
        what
    }
}

/// Whether nothing is mounted there, and an access cannot hang.
fn is_free(mounts: &[Mount], path: &Path) -> bool {
    mountinfo::at(mounts, path).is_none() && mountinfo::is_safe_to_look_at(mounts, path)
}

/// Releases the mount point that a drive's record names.
pub(super) fn release_noted_mountpoint(site: &Site, uuid: Uuid) -> Result<(), AttachError> {
    let Some(record) = Record::load(&site.dirs.records(), uuid) else { return Ok(()) };
    let Some(path) = record.mountpoint else { return Ok(()) };
    release_mountpoint(&path, record.made, record.mode)
}

/// Releases a mount point, unless something else is mounted there by now: a directory that we created is removed; any other, or one that
/// has content by now, gets its former mode back.
pub(crate) fn release_mountpoint(path: &Path, made: bool, mode: Option<u32>) -> Result<(), AttachError> {
    if !is_free(&mountinfo::read()?, path) {
        return Ok(());
    }
    if made {
        mountpoint::remove(path)?;
    }
    mountpoint::reopen(path, mode);
    Ok(())
}

/// Whether the directory exists. Only call this where nothing is mounted.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|facts| facts.is_dir())
}

/// Whether the kernel still has something of the drive from an earlier time. Discards an nbd device that is not mounted; an open file may
/// keep its name for a while, which does no harm.
pub(super) fn is_anything_left(uuid: Uuid, site: &Site) -> Result<bool, AttachError> {
    let left = Left::of(uuid, site)?;
    if !left.mounts.is_empty() || !left.loop_devices.is_empty() || left.disk.is_some() {
        return Ok(true);
    }
    left.nbd.iter().try_for_each(|target| nbd::discard(target, site))?;
    Ok(false)
}

/// Takes down whatever is left of a drive that no process serves.
pub fn take_down(uuid: Uuid, site: &Site) -> Result<TakenDown, AttachError> {
    let left = Left::of(uuid, site)?;
    let directory = site.dirs.disk(uuid);
    let mut taken = TakenDown { what: left.describe(), holders: Vec::new() };

    left.nbd.iter().try_for_each(|target| nbd::discard(target, site))?;
    if left.disk.is_some() {
        fail_waiters(site, &directory)?;
    }
    // The last mount first: it may be on top of another one.
    for mount in left.mounts.iter().rev() {
        unmount(site, mount, &mut taken.holders)?;
    }
    for target in left.loop_devices {
        match site.perform(&Privileged::LoopDetach { target }, DEVICE_DEADLINE) {
            Ok(()) | Err(PrivilegedError::Refused(Refused::NotOurs { .. })) => {}
            // It is marked for removal, and goes with its last user.
            Err(PrivilegedError::Refused(Refused::Busy { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if left.disk.is_some() {
        fuse::clean_up(&directory).map_err(|error| AttachError::OneFile(error.into()))?;
    }
    onefile::leave(site, &directory)?;
    release_noted_mountpoint(site, uuid)?;
    Record::remove(&site.dirs.records(), uuid)
        .map_err(|error| AttachError::io("write to", &site.dirs.records(), error))?;
    onefile::end_keeper(site)?;
    Ok(taken)
}

/// Ends the connection of a one-file disk that nobody serves, so that requests that wait for it fail.
fn fail_waiters(site: &Site, directory: &Path) -> Result<(), AttachError> {
    let socket = site.dirs.keeper_socket();
    if keeper::process(&socket).is_some() {
        // The keeper's copy is the last one, unless a daemon hangs.
        let forgotten = holdall_fuse::keeper::forget(&socket, directory);
        forgotten.map_err(|error| AttachError::Keeper { error })?;
    }
    if site.deputy.is_root() && fuse::connection_at(directory).is_some() {
        fuse::abort(directory).map_err(|error| AttachError::OneFile(error.into()))?;
    }
    Ok(())
}

fn unmount(site: &Site, mount: &Mount, holders: &mut Vec<Holder>) -> Result<(), AttachError> {
    let operation =
        |lazy| Privileged::Unmount { number: mount.number, mountpoint: mount.point.clone(), lazy };
    match site.perform(&operation(false), UNMOUNT_DEADLINE) {
        Err(PrivilegedError::Refused(Refused::Busy { holders: found, .. })) => holders.extend(found),
        unmounted => return Ok(unmounted?),
    }
    Ok(site.perform(&operation(true), UNMOUNT_DEADLINE)?)
}
