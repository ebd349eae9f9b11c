//! How a [`BlockDevice`] becomes a block device of the kernel and a mounted file system, and back.
//!
//! ```text
//! attach      record -> nbd device, or: one-file disk -> keeper -> loop device        -> Attached
//! mount       superblock -> mkfs | e2fsck | nothing -> record -> mount point -> mount -> Mounted
//! unmount, detach: the same backwards; the record goes last
//! ```
//!
//! **A crash at any arrow** leaves a prefix of that line. All of it can be found from the drive's identity alone, with nothing remembered:
//! the nbd device by its identifier, the one-file disk by its place in the runtime directory, the loop device by its file, the mount by its
//! device number. So the next daemon either continues with it ([`reattach`]: programs on the mount never notice) or takes it down
//! ([`take_down()`]), and the doctor shows what is left.
//!
//! **Everything here blocks**: it runs on `spawn_blocking`, never on a runtime's own thread. Only one daemon uses a runtime directory; the
//! daemon makes sure of that.

use crate::api::AttachMode;
use holdall_core::device::BlockDevice;
use holdall_helper::{Deputy, Outcome, Privileged, PrivilegedError, Refused, Target, Tuned};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use uuid::Uuid;

pub mod doctor;
mod failure;
pub mod filesystem;
pub(crate) mod folder_kept;
pub mod keeper;
pub(crate) mod mountpoint;
mod nbd;
mod onefile;
mod process;
mod record;
mod take_down;

pub use failure::AttachError;
pub use mountpoint::Unfit;
pub use process::{Warning, keep_memory_private, prepare_process};
pub use record::Record;
pub(crate) use take_down::release_mountpoint;
pub use take_down::{TakenDown, take_down};

/// How long the kernel may take to create, change or remove a block device. Meanwhile it reads the device (partition tables, udev), which
/// may have to come from the store.
const DEVICE_DEADLINE: Duration = Duration::from_secs(60);

/// How long loading a module may take; if the module cannot be loaded, the answer comes at once.
const MODULE_DEADLINE: Duration = Duration::from_secs(10);

/// The identity of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name, which becomes the file system's label.
    pub name: String,
}

/// The directories of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    runtime: PathBuf,
    state: PathBuf,
}

impl Dirs {
    /// `runtime` is gone after a reboot (/run/user/UID/holdall), `state` is not. Both are created if they are missing, for this user alone.
    pub fn new(runtime: &Path, state: &Path) -> io::Result<Self> {
        let make = |path: &Path| {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            // The path as the kernel has it: mounts below it are found by this path.
            std::fs::canonicalize(path)
        };
        let dirs = Dirs { runtime: make(runtime)?, state: make(state)? };
        make(&dirs.disks())?;
        make(&dirs.records())?;
        Ok(dirs)
    }

    /// The socket of the keeper.
    pub fn keeper_socket(&self) -> PathBuf {
        self.runtime.join("keeper.sock")
    }

    /// The directory of the one-file disks' mount points.
    fn disks(&self) -> PathBuf {
        self.runtime.join("disks")
    }

    /// Where it is noted which folders the keeper may keep.
    fn folders(&self) -> PathBuf {
        self.runtime.join("folders")
    }

    /// The mount point of a drive's one-file disk.
    fn disk(&self, uuid: Uuid) -> PathBuf {
        self.disks().join(uuid.to_string())
    }

    /// Where it is noted what is attached.
    pub fn records(&self) -> PathBuf {
        self.state.join("attached")
    }
}

/// A finished step, for code that shows or watches the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The record of the coming attachment is written.
    Recorded,
    /// The one-file disk is mounted.
    DiskMounted,
    /// The keeper has a copy of its connection.
    Kept,
    /// The kernel has a block device.
    DeviceMade,
    /// The file system was created.
    Formatted,
    /// The file system is mounted.
    Mounted,
    /// The file system is unmounted.
    Unmounted,
    /// The kernel's block device is gone.
    DeviceGone,
}

/// The environment of an attachment.
#[derive(Clone)]
pub struct Site {
    /// The daemon's directories.
    pub dirs: Dirs,
    /// Performs what needs root's rights or may hang.
    pub deputy: Deputy,
    /// The runtime on which answers that take time are awaited. It outlives all drives.
    pub runtime: Handle,
    /// Called at each step.
    pub on_step: Arc<dyn Fn(Step) + Send + Sync>,
    /// How the keeper watches this process; `None` if the process must not be started again.
    pub watch: Option<keeper::Watch>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("dirs", &self.dirs).field("deputy", &self.deputy).finish_non_exhaustive()
    }
}

impl Site {
    /// A site that reports its steps to nobody.
    pub fn new(dirs: Dirs, deputy: Deputy, runtime: Handle) -> Self {
        Site { dirs, deputy, runtime, on_step: Arc::new(|_| ()), watch: None }
    }

    fn done(&self, step: Step) {
        (self.on_step)(step);
    }

    /// Performs an operation without a result.
    fn perform(&self, operation: &Privileged, deadline: Duration) -> Result<(), PrivilegedError> {
        self.deputy.perform(operation, &[], deadline).map(drop)
    }
}

/// A drive that is a block device. To the kernel, dropping it is a crash: the device stays for [`reattach`].
pub struct Attached {
    identity: Identity,
    site: Site,
    served: Served,
    target: Target,
    tuned: Tuned,
}

/// How the kernel accesses it.
enum Served {
    Nbd(nbd::Connections),
    Loop(onefile::Disk),
}

/// Makes a block device of `device`. The remains of a former daemon's attachment must have been reattached or taken down.
pub fn attach(
    device: Arc<dyn BlockDevice>,
    identity: &Identity,
    mode: AttachMode,
    site: &Site,
) -> Result<Attached, AttachError> {
    if take_down::is_anything_left(identity.uuid, site)? {
        return Err(AttachError::LeftOver { name: identity.name.clone() });
    }
    Record::new(identity.uuid, &identity.name)
        .save(&site.dirs.records())
        .map_err(|error| AttachError::io("write to", &site.dirs.records(), error))?;
    site.done(Step::Recorded);
    let served = match mode {
        AttachMode::Nbd => nbd::attach(device, identity.uuid, site),
        AttachMode::Loop => onefile::attach(device, identity.uuid, site),
        AttachMode::Auto if !nbd::is_available(site) => onefile::attach(device, identity.uuid, site),
        AttachMode::Auto => match nbd::attach(device.clone(), identity.uuid, site) {
            // A kernel whose nbd devices cannot be found again after a restart.
            Err(AttachError::Privileged(PrivilegedError::Refused(Refused::NoNbd { .. }))) => {
                onefile::attach(device, identity.uuid, site)
            }
            attached => attached,
        },
    };
    match served {
        Ok((served, target)) => {
            // A drive works without a keeper; but if this process died, nobody would start another one.
            if let Err(error) = watched(site) {
                tracing::warn!(%error, "no keeper watches this service");
            }
            Ok(Attached::new(identity, site, served, target))
        }
        Err(error) => {
            // The first error is the one to report; the doctor finds what could not be removed.
            if let Err(left) = take_down(identity.uuid, site) {
                tracing::warn!(%left, "not all of a failed attachment could be removed");
            }
            Err(error)
        }
    }
}

/// Continues with what a former daemon left of the drive, whether it handed the drive over or died, so that programs on the mount notice a
/// pause and nothing else. `None`: nothing was left to continue with, and the rest was taken down; attach again.
pub fn reattach(
    device: Arc<dyn BlockDevice>,
    identity: &Identity,
    site: &Site,
) -> Result<Option<Attached>, AttachError> {
    let served = match nbd::reattach(device.clone(), identity.uuid, site)? {
        Some(served) => Some(served),
        None => onefile::reattach(device, identity.uuid, site)?,
    };
    let Some((served, target)) = served else {
        take_down(identity.uuid, site)?;
        return Ok(None);
    };
    let attached = Attached::new(identity, site, served, target);
    // The process that froze it may have been killed with the daemon.
    if let Some(mounted) = filesystem::find(&attached)? {
        mounted.thaw()?;
    }
    Ok(Some(attached))
}

/// Makes a keeper watch this process, if the site wants that.
fn watched(site: &Site) -> Result<(), AttachError> {
    if site.watch.is_some() { onefile::start_keeper(site) } else { Ok(()) }
}

/// Tells the keeper of a former daemon, if there is one, that its successor has come.
pub fn come_to_keeper(site: &Site) {
    if keeper::process(&site.dirs.keeper_socket()).is_some() {
        keeper::be_watched(site);
    }
}

impl Attached {
    fn new(identity: &Identity, site: &Site, served: Served, target: Target) -> Self {
        let tune = Privileged::Tune { target: target.clone() };
        let tuned = match site.deputy.perform(&tune, &[], DEVICE_DEADLINE) {
            Ok(Outcome::Tuned(tuned)) => tuned,
            tuned => {
                // A device works without these limits; the daemon sees that in `tuned`.
                tracing::warn!(?tuned, "the block device's limits were not set");
                Tuned { dirty_limited: false, read_ahead: false }
            }
        };
        Attached { identity: identity.clone(), site: site.clone(), served, target, tuned }
    }

    /// The drive.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// `/dev/nbdN` or `/dev/loopN`.
    pub fn block_device(&self) -> &Path {
        &self.target.device
    }

    /// The block device, with the proof that it is the drive's.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How it is attached; never `Auto`.
    pub fn mode(&self) -> AttachMode {
        match self.served {
            Served::Nbd(_) => AttachMode::Nbd,
            Served::Loop(_) => AttachMode::Loop,
        }
    }

    /// Which limits the kernel has accepted.
    pub fn tuned(&self) -> Tuned {
        self.tuned
    }

    /// The environment it is attached in.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Makes the kernel use the device's present size. A drive grows; it never shrinks under a file system. [`filesystem::Mounted::grow`]
    /// does this and the rest.
    pub fn resize(&mut self) -> Result<(), AttachError> {
        match &mut self.served {
            Served::Nbd(connections) => connections.resize(&self.target, &self.site),
            Served::Loop(disk) => disk.resize(&self.target, &self.site),
        }
    }

    /// Removes the block device; unmount first. After an error the drive is still served as far as it exists, and this can be repeated.
    pub fn detach(&mut self) -> Result<(), AttachError> {
        match &mut self.served {
            Served::Nbd(connections) => connections.detach(&self.target, &self.site)?,
            Served::Loop(disk) => disk.detach(&self.target, &self.site)?,
        }
        take_down::release_noted_mountpoint(&self.site, self.identity.uuid)?;
        Record::remove(&self.site.dirs.records(), self.identity.uuid)
            .map_err(|error| AttachError::io("write to", &self.site.dirs.records(), error))?;
        // For drives without a disk, the keeper has only watched the daemon. A keeper that stays does no harm.
        if let Err(error) = onefile::end_keeper(&self.site) {
            tracing::warn!(%error, "the keeper does not end");
        }
        Ok(())
    }

    /// Stops serving and leaves the kernel's device to the next daemon, which calls [`reattach`]. Requests in flight may finish within
    /// `patience`; all others wait for the next daemon.
    ///
    /// If the keeper cannot be started or reached, this is an error, and the drive is still served.
    pub fn hand_over(&mut self, patience: Duration) -> Result<(), AttachError> {
        match &mut self.served {
            Served::Nbd(connections) => {
                connections.hand_over(patience);
                Ok(())
            }
            Served::Loop(disk) => disk.hand_over(&self.site, patience),
        }
    }

    /// Gives a new keeper a copy again, after its predecessor has died. For nbd there is nothing to keep; the keeper only watches this
    /// process.
    pub fn keep(&self) -> Result<(), AttachError> {
        match &self.served {
            Served::Nbd(_) => watched(&self.site),
            Served::Loop(disk) => disk.keep(&self.site),
        }
    }
}
