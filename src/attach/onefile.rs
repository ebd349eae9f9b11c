//! A drive as a loop device over a one-file FUSE disk, with a keeper.

use super::{AttachError, DEVICE_DEADLINE, Record, Served, Site, Step, folder_kept, keeper};
use holdall_core::device::BlockDevice;
use holdall_fuse::handover::Handover;
use holdall_fuse::mount::MountError;
use holdall_fuse::onefile::{OneFileDisk, OneFileError, Options};
use holdall_fuse::{keeper as kept, mount};
use holdall_helper::{DeviceNumber, Outcome, Privileged, PrivilegedError, Proof, Refused, Target, mountinfo};
use holdall_kernel::loopdev;
use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// A served one-file disk.
pub(super) struct Disk {
    /// None once it is unmounted.
    disk: Option<OneFileDisk>,
    /// Its mount point.
    directory: PathBuf,
    /// The device that it serves.
    device: Arc<dyn BlockDevice>,
    /// The number of its file system.
    number: Option<DeviceNumber>,
}

/// How often, and after what pause, the loop device is asked again to use the drive's size.
const RESIZE_TRIES: u32 = 40;
const RESIZE_PAUSE: Duration = Duration::from_millis(50);

/// How long, and how often, unmounting the disk is tried again: the kernel closes its file some time after the loop device no longer names
/// it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// The drive's loop devices. There is at most one, unless a daemon died while it made one, and the next daemon made another first. Does not
/// access the disk's file.
pub(super) fn find(uuid: Uuid, site: &Site) -> Result<Vec<Target>, AttachError> {
    let file = site.dirs.disk(uuid).join(holdall_fuse::onefile::FILE_NAME);
    let devices =
        loopdev::over(&file).map_err(|error| AttachError::io("look into", Path::new("/sys/block"), error))?;
    let target = |device| Target { device, proof: Proof::Backing(file.clone()) };
    Ok(devices.into_iter().map(target).collect())
}

pub(super) fn attach(
    device: Arc<dyn BlockDevice>,
    uuid: Uuid,
    site: &Site,
) -> Result<(Served, Target), AttachError> {
    start_keeper(site)?;
    let directory = site.dirs.disk(uuid);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| AttachError::io("make", &directory, error))?;
    let disk = OneFileDisk::mount(&directory, device.clone(), &Options::default(), site.runtime.clone())?;
    site.done(Step::DiskMounted);
    let number = number_at(&directory);
    let disk = Disk { disk: Some(disk), directory, device, number };
    disk.keep(site)?;
    site.done(Step::Kept);
    let target = disk.make_loop(site)?;
    Ok((Served::Loop(disk), target))
}

/// Continues with the connection that the keeper has. If it has none, or the kernel cannot repeat the requests that the former daemon had
/// taken, there is nothing to continue with.
pub(super) fn reattach(
    device: Arc<dyn BlockDevice>,
    uuid: Uuid,
    site: &Site,
) -> Result<Option<(Served, Target)>, AttachError> {
    let directory = site.dirs.disk(uuid);
    if mount::connection_at(&directory).is_none() {
        return Ok(None);
    }
    let Some(mut handover) = take(site, &directory) else { return Ok(None) };
    // The keeper's copy says whether everything was answered. From now on that may no longer be true.
    let clean = std::mem::replace(&mut handover.clean, false);
    put(site, &handover)?;
    handover.clean = clean;
    let options = Options::default();
    let disk = match OneFileDisk::resume(handover, device.clone(), &options, site.runtime.clone()) {
        Ok(disk) => {
            let number = number_at(&directory);
            Disk { disk: Some(disk), directory, device, number }
        }
        Err(OneFileError::Over(_) | OneFileError::CannotResend { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let target = match choose(find(uuid, site)?, site)? {
        Some(target) => target,
        // The former daemon died before it had made a loop device.
        None => disk.make_loop(site)?,
    };
    Ok(Some((Served::Loop(disk), target)))
}

/// The loop device to continue with, which is the mounted one; others are detached.
fn choose(mut targets: Vec<Target>, site: &Site) -> Result<Option<Target>, AttachError> {
    if targets.len() < 2 {
        return Ok(targets.pop());
    }
    let mounts = mountinfo::read()?;
    let is_mounted = |target: &Target| {
        target.number().is_ok_and(|number| mounts.iter().any(|mount| mount.number == number))
    };
    let chosen = targets.swap_remove(targets.iter().position(is_mounted).unwrap_or(0));
    for target in targets {
        site.perform(&Privileged::LoopDetach { target }, DEVICE_DEADLINE)?;
    }
    Ok(Some(chosen))
}

/// Held to start or to end the keeper. A drive that is being opened creates its directory before it asks for the keeper. So the close of
/// the last other drive sees the directory, or has already ended the keeper; and two simultaneous openings start one keeper.
static KEEPER_CHANGES: Mutex<()> = Mutex::new(());

/// Starts a keeper, unless there is one.
pub(super) fn start_keeper(site: &Site) -> Result<(), AttachError> {
    let _changing = KEEPER_CHANGES.lock();
    keeper::ensure(site)
}

fn put(site: &Site, handover: &Handover) -> Result<(), AttachError> {
    kept::put(&site.dirs.keeper_socket(), handover).map_err(|error| AttachError::Keeper { error })
}

fn take(site: &Site, directory: &Path) -> Option<Handover> {
    match kept::take(&site.dirs.keeper_socket(), directory) {
        Ok(handover) => handover,
        Err(error) => {
            tracing::info!(%error, "no keeper has the drive's connection");
            None
        }
    }
}

/// The number of the one-file disk that is mounted there.
fn number_at(directory: &Path) -> Option<DeviceNumber> {
    // FUSE has no device of its own.
    mount::connection_at(directory).map(|minor| DeviceNumber { major: 0, minor })
}

impl Disk {
    /// The loop device, with its present proof: after somebody has unmounted the disk, its file no longer has a path.
    fn proven(&self, target: &Target) -> Target {
        match self.number.filter(|number| number_at(&self.directory) != Some(*number)) {
            Some(number) => Target { proof: Proof::Unmounted(number), ..target.clone() },
            None => target.clone(),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(holdall_fuse::onefile::FILE_NAME)
    }

    /// Gives the keeper a copy of the connection.
    pub(super) fn keep(&self, site: &Site) -> Result<(), AttachError> {
        let _changing = KEEPER_CHANGES.lock();
        keeper::ensure(site)?;
        let Some(disk) = &self.disk else { return Ok(()) };
        put(site, &disk.copy_for_keeper().map_err(|error| AttachError::Keeper { error })?)
    }

    fn make_loop(&self, site: &Site) -> Result<Target, AttachError> {
        let backing = self.file();
        let read_only = self.device.geometry().read_only;
        let file = site.deputy.open_disk(&backing, read_only, DEVICE_DEADLINE)?;
        let operation = Privileged::LoopAttach { backing: backing.clone(), read_only };
        let made = site.deputy.perform(&operation, &[file.as_fd()], DEVICE_DEADLINE)?;
        let Outcome::Device(device) = made else { return Err(AttachError::Confused) };
        site.done(Step::DeviceMade);
        Ok(Target { device, proof: Proof::Backing(backing) })
    }

    /// Makes the loop device use the drive's present size. If a write to the disk's file ends at the same time, the kernel silently drops
    /// the new size: so the size is checked, and requested again.
    pub(super) fn resize(&mut self, target: &Target, site: &Site) -> Result<(), AttachError> {
        let wanted = self.device.geometry().size_bytes;
        for _ in 0..RESIZE_TRIES {
            site.perform(&Privileged::LoopResize { target: target.clone() }, DEVICE_DEADLINE)?;
            let size = loopdev::size_bytes(&target.device)
                .map_err(|error| AttachError::io("look at the size of", &target.device, error))?;
            if size >= wanted {
                return Ok(());
            }
            std::thread::sleep(RESIZE_PAUSE);
        }
        Err(AttachError::NotGrown { device: target.device.clone() })
    }

    pub(super) fn detach(&mut self, target: &Target, site: &Site) -> Result<(), AttachError> {
        let target = self.proven(target);
        match site.perform(&Privileged::LoopDetach { target }, DEVICE_DEADLINE) {
            Ok(()) | Err(PrivilegedError::Refused(Refused::NotOurs { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        site.done(Step::DeviceGone);
        if let Some(disk) = &mut self.disk {
            let deadline = Instant::now() + RELEASE_PATIENCE;
            loop {
                match site.runtime.block_on(disk.unmount()) {
                    Err(OneFileError::Mount(MountError::Busy(_))) if Instant::now() < deadline => {
                        std::thread::sleep(RELEASE_PAUSE);
                    }
                    unmounted => break unmounted?,
                }
            }
        }
        self.disk = None;
        leave(site, &self.directory)
    }

    pub(super) fn hand_over(&mut self, site: &Site, patience: Duration) -> Result<(), AttachError> {
        // While this process still serves: without a keeper, the end of its service would end the mount.
        self.keep(site)?;
        let Some(disk) = self.disk.take() else { return Ok(()) };
        let handover = site.runtime.block_on(disk.into_handover(patience))?;
        put(site, &handover)
    }
}

/// Removes what is left of an unmounted disk: the keeper's copy, the directory, and the keeper after its last disk.
pub(super) fn leave(site: &Site, directory: &Path) -> Result<(), AttachError> {
    let socket = site.dirs.keeper_socket();
    if keeper::process(&socket).is_some() {
        kept::forget(&socket, directory).map_err(|error| AttachError::Keeper { error })?;
    }
    super::mountpoint::remove(directory)?;
    end_keeper(site).map(drop)
}

/// Ends the keeper if no disk has a directory any longer, no folder is kept, and it need not watch the daemon for a drive that is recorded
/// as attached. Returns whether it ended.
pub(super) fn end_keeper(site: &Site) -> Result<bool, AttachError> {
    let _changing = KEEPER_CHANGES.lock();
    let left = std::fs::read_dir(site.dirs.disks()).map(|mut entries| entries.next().is_some());
    let watches =
        || site.watch.is_some() && Record::all(&site.dirs.records()).is_ok_and(|all| !all.is_empty());
    let keeps_folders = || !matches!(folder_kept::is_any_noted(site), Ok(false));
    let idle = matches!(left, Ok(false)) && !keeps_folders() && !watches();
    if idle {
        keeper::stop(&site.dirs.keeper_socket()).map_err(|error| AttachError::Keeper { error })?;
    }
    Ok(idle)
}
