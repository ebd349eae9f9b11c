//! The FUSE mount of a folder, and the directory below it.
//!
//! The directory is treated as a drive's (`attach::mountpoint`): it must be empty, and while the folder is mounted on it, it is closed to
//! everybody. It is recorded before anything is mounted, so that the next daemon finds what a killed one has left: a mount that nobody
//! serves any longer, and a directory without its mode.

use super::config::MountRecord;
use super::keeping::Keeping;
use super::passthrough::{self, Means};
use super::registering::Registering;
use super::{Engine, Passthrough};
use crate::api::words::sentence;
use crate::api::{Action, Code, Failure};
use crate::attach::mountpoint::{self, MountPoint};
use crate::attach::release_mountpoint;
use crate::daemon::failure::{self, failure};
use holdall_core::folder::api::Stale;
use holdall_fuse::folder::{Mounted, Options, Unmounting};
use holdall_fuse::handover::Handover;
use holdall_fuse::mount::{self as fuse, MountError};
use holdall_helper::{Refused, holders};
use holdall_kernel::FOLDER_FS_TYPE;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How long taking down a dead mount may take. The kernel waits for nobody there; fusermount3 is a process of its own.
const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(15);

/// A mounted folder.
pub(super) struct Mount {
    mounted: Arc<Mounted>,
    record: MountRecord,
    keeping: Keeping,
}

/// How a folder is mounted.
pub(super) struct MountOptions {
    /// Its address, for people.
    pub source: String,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// Who registers files for passthrough. `None`: every file is served.
    pub registering: Option<Registering>,
    /// Who keeps the connection.
    pub keeping: Keeping,
}

/// A directory to mount on.
pub(super) struct Prepared {
    point: MountPoint,
    /// What has to be remembered before it is used.
    pub record: MountRecord,
}

/// Finds the directory at `at`. Nothing is created yet but its parents. `before` is what is remembered of an earlier mount.
pub(super) async fn prepare(at: &Path, before: Option<MountRecord>) -> Result<Prepared, Failure> {
    let at = at.to_owned();
    let work = move || {
        let point = MountPoint::resolve(&at)?;
        let before = before.filter(|before| before.path == point.path);
        let made = point.missing || before.as_ref().is_some_and(|before| before.made);
        let record =
            MountRecord { path: point.path.clone(), made, mode: before.and_then(|before| before.mode) };
        Ok(Prepared { point, record })
    };
    let prepared = tokio::task::spawn_blocking(work).await.map_err(lost)?;
    prepared.map_err(|error: crate::attach::AttachError| of_place(error.failure()))
}

impl Prepared {
    /// Creates the directory if it is missing, and opens it. The record then has its mode, and has to be remembered again.
    pub async fn open(mut self) -> Result<(Self, OwnedFd), Failure> {
        let work = move || {
            let directory = self.point.open()?;
            self.record.mode = mountpoint::mode_of(&directory);
            Ok((self, directory))
        };
        let opened = tokio::task::spawn_blocking(work).await.map_err(lost)?;
        opened.map_err(|error: crate::attach::AttachError| of_place(error.failure()))
    }
}

/// Mounts a folder's engine.
pub(super) async fn mount(
    (engine, stale): (Arc<Engine>, mpsc::UnboundedReceiver<Stale>),
    (prepared, directory): (Prepared, OwnedFd),
    how: MountOptions,
) -> Result<(Mount, Passthrough), Failure> {
    let is_off = how.registering.is_none();
    let options = Options {
        source: how.source,
        read_only: how.read_only,
        // Whom the permission bits let in is the kernel's decision; other users' root may use it like any disk.
        allow_other: rustix::process::geteuid().is_root(),
    };
    let (Prepared { point, record }, keeping) = (prepared, how.keeping);
    let runtime = Handle::current();
    let work = move || {
        let registrar = how.registering.and_then(|registering| registering.find(&point.path));
        let has_registrar = registrar.is_some();
        let mounted = holdall_fuse::folder::mount(engine, stale, &point.path, &options, registrar, runtime)?;
        let mounted = Arc::new(mounted);
        keeping.keep(&mounted);
        mountpoint::close(&directory, &point.path);
        Ok((Mount { mounted, record, keeping }, has_registrar))
    };
    let mounted = tokio::task::spawn_blocking(work).await.map_err(lost)?;
    let (mount, has_registrar) = mounted.map_err(|error: MountError| of_mount(&error))?;
    let means = Means { is_off, has_registrar, kernel_can: mount.mounted.agreed().passes_through() };
    Ok((mount, passthrough::decide(means)))
}

/// Continues with a mount whose daemon was killed. `engine` was opened as one that has outlived it.
pub(super) async fn resume(
    (engine, stale): (Arc<Engine>, mpsc::UnboundedReceiver<Stale>),
    (handover, record): (Handover, MountRecord),
    (registering, keeping): (Option<Registering>, Keeping),
) -> Result<(Mount, Passthrough), Failure> {
    let (is_off, runtime) = (registering.is_none(), Handle::current());
    let work = move || {
        let registrar = registering.and_then(|registering| registering.find(&record.path));
        let has_registrar = registrar.is_some();
        let mounted = holdall_fuse::folder::resume(handover, engine, stale, registrar, runtime)?;
        Ok((Mount { mounted: Arc::new(mounted), record, keeping }, has_registrar))
    };
    let resumed = tokio::task::spawn_blocking(work).await.map_err(lost)?;
    let (mount, has_registrar) = resumed.map_err(|error: MountError| of_mount(&error))?;
    let means = Means { is_off, has_registrar, kernel_can: mount.mounted.agreed().passes_through() };
    Ok((mount, passthrough::decide(means)))
}

impl Mount {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// Whether it still is mounted there: another program may have unmounted it.
    pub fn is_mounted(&self) -> bool {
        self.mounted.is_mounted()
    }

    /// Unmounts, and releases the directory. If programs use it, the failure names them and it stays mounted.
    pub async fn take_off(&self) -> Result<(), Failure> {
        match self.mounted.unmount(Unmounting::Politely).await {
            Ok(()) => {}
            Err(MountError::Busy(_)) => return Err(busy(self.mountpoint()).await),
            Err(error) => return Err(of_mount(&error)),
        }
        self.release().await;
        Ok(())
    }

    /// Unmounts although programs use it: they get errors, as from a disk that is pulled out.
    pub async fn pull_off(&self) -> Result<(), Failure> {
        self.mounted.unmount(Unmounting::Forcibly).await.map_err(|error| of_mount(&error))?;
        self.release().await;
        Ok(())
    }

    /// Gives a new keeper a copy of the connection, after its predecessor has died. Returns whether it is kept.
    pub async fn keep_again(&self) -> bool {
        let (mounted, keeping) = (self.mounted.clone(), self.keeping.clone());
        tokio::task::spawn_blocking(move || keeping.keep(&mounted)).await.unwrap_or(false)
    }

    async fn release(&self) {
        self.keeping.leave(&self.record).await;
        release(self.record.clone()).await;
    }
}

/// Opens a bare mount point again, or removes it if Holdall has created it.
pub(super) async fn release(record: MountRecord) {
    let MountRecord { path, made, mode } = record;
    let work = tokio::task::spawn_blocking(move || release_mountpoint(&path, made, mode));
    match work.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "a mount point is left as it is"),
        Err(error) => tracing::warn!(%error, "a mount point is left as it is"),
    }
}

/// Takes down the mount that a killed daemon has left. Programs that still use it get errors, as they do already.
pub(super) async fn clean_up(record: MountRecord, keeping: &Keeping) -> Result<(), Failure> {
    keeping.leave(&record).await;
    let path = record.path.clone();
    let work = tokio::task::spawn_blocking(move || fuse::clean_up_as(&path, FOLDER_FS_TYPE));
    match tokio::time::timeout(CLEAN_UP_PATIENCE, work).await {
        Ok(cleaned) => cleaned.map_err(lost)?.map_err(|error| of_mount(&error))?,
        Err(_) => {
            return Err(of_mount(&MountError::System {
                call: "umount",
                error: io::ErrorKind::TimedOut.into(),
            }));
        }
    }
    release(record).await;
    Ok(())
}

async fn busy(mountpoint: &Path) -> Failure {
    let what = mountpoint.to_owned();
    let found = tokio::task::spawn_blocking(move || holders::at(&what).unwrap_or_default()).await;
    let refused = Refused::Busy { what: mountpoint.to_owned(), holders: found.unwrap_or_default() };
    failure(
        Code::State,
        sentence(&refused.to_string()),
        "The folder stays open. Your files are safe.",
        "Close the programs that use it, then try again.",
    )
}

/// A failure about the mount point, in which nothing of a drive was meant.
fn of_place(failure: Failure) -> Failure {
    let consequence = "The folder was not opened. Nothing was changed there.".to_owned();
    Failure { consequence, ..failure }
}

fn of_mount(error: &MountError) -> Failure {
    let said = |code, action: crate::api::Actions| {
        failure(
            code,
            sentence(&format!("The folder cannot be mounted or unmounted: {error}")),
            "Your files are safe.",
            action,
        )
    };
    match error {
        MountError::Busy(_) => said(Code::State, "Close the programs that use it, then try again.".into()),
        MountError::AlreadyMounted(_) => said(Code::State, "Choose another mount point, with --at.".into()),
        MountError::NotUtf8(_) => said(Code::Usage, "Choose another mount point, with --at.".into()),
        MountError::NoFusermount => {
            said(Code::Failed, Action::run_as_root(&["apt-get", "install", "fuse3"]).into())
        }
        MountError::Fusermount(_) | MountError::System { .. } => {
            said(Code::Failed, [Action::tell("Fix the cause, then try again."), Action::Doctor].into())
        }
    }
}

fn lost(error: tokio::task::JoinError) -> Failure {
    failure::local(&io::Error::other(error))
}
