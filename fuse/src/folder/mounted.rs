//! Mounts a folder, and unmounts it without ever waiting for what may not come.

use super::adapter::Adapter;
use super::negotiate::{Agreed, REQUEST_BYTES_MAX};
use super::registrar::Registrar;
use super::shared::{Counters, Shared};
use super::{invalidate, session};
use crate::handover::{self, Handover, Parameters};
use crate::mount::{self, MountError, Shape};
use crate::onefile::{Ended, connected};
use fuser::Session;
use holdall_core::folder::Folder;
use holdall_core::folder::api::Stale;
use holdall_kernel::FOLDER_FS_TYPE;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::sync::{mpsc, watch};

/// How long an unmount may take: the kernel first writes back what programs have changed in mapped files.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(20);

/// How long the kernel may take to report that a connection ended with its mount.
const ENDED_PATIENCE: Duration = Duration::from_secs(2);

/// How long a mount may be in use before that is said, and how often it is tried.
const BUSY_PATIENCE: Duration = Duration::from_millis(500);
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// How to mount a folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is mounted, for people: the folder's URL, without credentials.
    pub source: String,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// Other users may use it, as far as permission bits let them. Only for root.
    pub allow_other: bool,
}

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounting {
    /// Not while a program uses it: [`MountError::Busy`].
    Politely,
    /// It disappears at once. Programs that have files open keep them, and are served until they close them.
    Lazily,
    /// It disappears, and programs that have files open get errors. What they have not saved is lost; what was written to the folder is not.
    Forcibly,
}

/// A mounted folder. Dropping it does not unmount.
pub struct Mounted {
    mountpoint: PathBuf,
    connection: u32,
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
}

/// Mounts `folder` at `at`, and answers there on `runtime`, until it is unmounted. `stale` is what the folder's opening has returned beside
/// the folder. Without a `registrar` all files are served. This takes a few milliseconds: call it where blocking is allowed.
pub fn mount(
    folder: Arc<Folder>,
    stale: mpsc::UnboundedReceiver<Stale>,
    at: &Path,
    options: &Options,
    registrar: Option<Arc<dyn Registrar>>,
    runtime: runtime::Handle,
) -> Result<Mounted, MountError> {
    let shape = Shape {
        fs_type: FOLDER_FS_TYPE,
        source: &without_separators(&options.source),
        max_read: None,
        read_only: options.read_only,
        allow_other: options.allow_other,
    };
    let mount::Mounted { fd, mountpoint } = mount::mount_as(at, &shape)?;
    let shared = Shared::new(folder, registrar);
    let served = session::begin(fd, &shared, &runtime)
        .map_err(|error| MountError::system("setting the connection up", error))
        .and_then(|session| serve(session, &mountpoint, shared, stale, runtime));
    served.inspect_err(|_| {
        // Nobody uses the mount yet; report the first error.
        let _ = mount::detach(&mountpoint);
    })
}

/// Continues to serve a mount whose last process stopped, or was killed; that one must no longer serve. `folder` was opened as one that has
/// outlived its daemon. Programs that wait for an answer get it from us.
pub fn resume(
    handover: Handover,
    folder: Arc<Folder>,
    stale: mpsc::UnboundedReceiver<Stale>,
    registrar: Option<Arc<dyn Registrar>>,
    runtime: runtime::Handle,
) -> Result<Mounted, MountError> {
    let Handover { fd, parameters, .. } = handover;
    let invalid = |what: &str| MountError::system("resume", io::Error::other(what.to_owned()));
    let agreed = parameters.folder.ok_or_else(|| invalid("the connection is a disk's"))?;
    if !connected(&fd) {
        return Err(MountError::system("resume", Errno::NODEV));
    }
    if !agreed.resends() {
        return Err(invalid("this kernel cannot repeat the requests that the last daemon had taken"));
    }
    let shared = Shared::new(folder, registrar);
    let session = session::resume(fd, &agreed, &shared, &runtime)
        .map_err(|error| MountError::system("resume", error))?;
    serve(session, &parameters.mountpoint, shared, stale, runtime)
}

fn serve(
    session: Session<Adapter>,
    mountpoint: &Path,
    shared: Arc<Shared>,
    stale: mpsc::UnboundedReceiver<Stale>,
    runtime: runtime::Handle,
) -> Result<Mounted, MountError> {
    let connection = mount::connection_of(mountpoint, FOLDER_FS_TYPE)
        .ok_or_else(|| MountError::system("mount", io::Error::from(io::ErrorKind::NotFound)))?;
    let notifier = session.notifier();
    let (tell, ended) = watch::channel(None);
    invalidate::start(notifier, stale, ended.clone(), runtime)
        .map_err(|error| MountError::system("starting a thread", error))?;
    let (at_end, place) = (shared.clone(), mountpoint.to_owned());
    let run = move || {
        let how =
            how_it_ended(session.run(), || mount::connection_of(&place, FOLDER_FS_TYPE) == Some(connection));
        at_end.device.close();
        if let Ended::Failed(errno) = how {
            tracing::error!(%errno, mountpoint = %place.display(), "a folder is no longer served");
            // Others may hold the descriptor, and programs would wait for answers that never come.
            let _ = mount::abort_connection(connection);
        }
        tell.send_replace(Some(how));
    };
    std::thread::Builder::new()
        .name("folder".into())
        .spawn(run)
        .map_err(|error| MountError::system("starting a thread", error))?;
    Ok(Mounted { mountpoint: mountpoint.to_owned(), connection, shared, ended })
}

fn how_it_ended(result: io::Result<()>, is_mounted: impl FnOnce() -> bool) -> Ended {
    match result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
        Ok(()) => Ended::Unmounted,
        // The end of a mount aborts what is under way, too.
        Err(Errno::CONNABORTED) if !is_mounted() => Ended::Unmounted,
        Err(Errno::CONNABORTED) => Ended::Aborted,
        Err(errno) => Ended::Failed(errno),
    }
}

/// A comma would end the option of which the source is the value, and a backslash would change what follows.
fn without_separators(source: &str) -> String {
    source.replace(',', "%2C").replace('\\', "%5C").replace('\0', "")
}

impl Mounted {
    /// Where it is mounted, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What was agreed with the kernel.
    pub fn agreed(&self) -> Agreed {
        *self.shared.agreed.get().expect("a session begins with the exchange")
    }

    /// Requests for bytes that have come from the kernel.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// The open /dev/fuse. `None` after the end.
    pub fn device(&self) -> Option<Arc<OwnedFd>> {
        self.shared.device.get().ok()
    }

    /// The handover that a keeper needs so that the mount survives a sudden death of this process: give it away right after mounting.
    pub fn copy_for_keeper(&self) -> io::Result<Handover> {
        let (fd, agreed) = (self.shared.device.get()?.try_clone()?, self.agreed());
        let parameters = Parameters {
            version: handover::VERSION,
            max_write_bytes: REQUEST_BYTES_MAX,
            resend: agreed.resends(),
            uid: self.shared.owner.uid,
            gid: self.shared.owner.gid,
            mountpoint: self.mountpoint.clone(),
            folder: Some(agreed),
        };
        Ok(Handover { fd, parameters, clean: false })
    }

    /// Waits until the kernel ends the connection.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await.ok().and_then(|how| *how);
        // Without a word from the session's thread, it has panicked.
        how.unwrap_or(Ended::Failed(Errno::IO))
    }

    /// Whether it still is what is mounted there.
    pub fn is_mounted(&self) -> bool {
        mount::connection_of(&self.mountpoint, FOLDER_FS_TYPE) == Some(self.connection)
    }

    /// Unmounts. It is no error if it is not mounted any more. It never takes longer than half a minute.
    pub async fn unmount(&self, how: Unmounting) -> Result<(), MountError> {
        if self.is_mounted() {
            let (mountpoint, connection) = (self.mountpoint.clone(), self.connection);
            let has_ended = self.ended.borrow().is_some();
            let work = tokio::task::spawn_blocking(move || unmount(&mountpoint, connection, how, has_ended));
            match tokio::time::timeout(UNMOUNT_PATIENCE, work).await {
                Ok(done) => {
                    done.map_err(|panicked| MountError::system("umount", io::Error::other(panicked)))??
                }
                Err(_) => return Err(MountError::system("umount", Errno::TIMEDOUT)),
            }
        }
        if how != Unmounting::Lazily {
            // A private copy of the mount in a container keeps the connection, until its last descriptor is closed.
            let _ = tokio::time::timeout(ENDED_PATIENCE, self.ended()).await;
        }
        Ok(())
    }
}

/// A process between fork and exec holds its parent's files for a moment, and a file manager looks at what it shows.
fn politely(mountpoint: &Path) -> Result<(), MountError> {
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        match mount::unmount(mountpoint) {
            Err(MountError::Busy(_)) if Instant::now() < deadline => std::thread::sleep(BUSY_INTERVAL),
            unmounted => return unmounted,
        }
    }
}

fn unmount(mountpoint: &Path, connection: u32, how: Unmounting, has_ended: bool) -> Result<(), MountError> {
    match how {
        // Nobody gets anything from it any more but errors.
        _ if has_ended => mount::detach(mountpoint),
        Unmounting::Politely => politely(mountpoint),
        Unmounting::Lazily => mount::detach(mountpoint),
        Unmounting::Forcibly => {
            mount::abort_connection(connection).or_else(|_| mount::abort(mountpoint))?;
            mount::detach(mountpoint)
        }
    }
}
