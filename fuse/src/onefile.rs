//! The one-file disk: a FUSE file system whose only file, `disk`, is a [`BlockDevice`].
//!
//! Why we have our own session loop and no FUSE library: an upgrade must replace the daemon under a mounted drive, and so must recovery
//! from a crash. The connection is then past its INIT, while a library waits for one. And the requests that the dead daemon had taken but
//! not answered must be sent again (`FUSE_NOTIFY_RESEND`), in the right order with the first reader. A dozen operations on one file are
//! less to maintain than a fork of a library.
//!
//! **One descriptor, never cloned.** A library clones /dev/fuse for each thread (`FUSE_DEV_IOC_CLONE`), and the kernel then keeps the
//! requests taken through a clone with that clone. When a killed process's clones are closed, `fuse_dev_release` ends those requests with
//! ECONNABORTED, which ext4 sees as an I/O error. With one descriptor, which a keeper holds too, nothing is released, and everything
//! unanswered is sent again. We could measure no cost: clones share the queue for which threads contend too.
//!
//! **Killed while the kernel copies.** A request is lost with EIO if copying it to or from our memory fails, and pinning a page that is not
//! resident fails in a process that is being killed. So the buffers that /dev/fuse reads into and is written from are touched before they
//! are used.
//!
//! **Waiting.** A reader thread waits for /dev/fuse, and at most for a read of the local disk while another reader is there (`local`). An
//! answer that needs the disk's sync or the network is awaited on the runtime and replied from there. The client bounds the requests in
//! flight: the loop device has 128 tags. Buffers exist only while bytes are copied, one for each thread.
//!
//! **Exactly one reply.** A `Ticket` is consumed by its reply. It is left unanswered only on purpose: at a handover (the next daemon gets
//! the request again), or when the runtime is gone.

use crate::handover::{Handover, Parameters};
use crate::mount::{self, MountError};
use holdall_core::device::BlockDevice;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

mod buffer;
mod init;
mod local;
mod pipe;
mod readers;
mod serve;
mod session;
mod ticket;

use readers::Readers;
use session::Session;

/// The file's name in the mounted directory.
pub use holdall_kernel::DISK_FILE_NAME as FILE_NAME;

/// How long the kernel may take to report that a connection ended with its mount.
const ENDED_PATIENCE: Duration = Duration::from_secs(1);

/// How to mount and serve a disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of threads that take requests. A request that is answered at once occupies its thread while its bytes are copied.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        // With two, one request can come in while another one is copied out. Beyond four, threads only take turns at the lock of the one
        // queue.
        let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4));
        Options { threads }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The file system was unmounted, by us or by anyone else (a forced `umount -f` looks the same).
    Unmounted,
    /// The connection was aborted through fusectl.
    Aborted,
    /// /dev/fuse could not be read.
    Failed(Errno),
}

/// Why a disk could not be mounted, resumed or handed over.
#[derive(Debug, thiserror::Error)]
pub enum OneFileError {
    /// Mounting or unmounting failed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The kernel's FUSE is too old for us.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.23 (Linux 3.15) is the least that is needed")]
    TooOld {
        /// Its protocol's major version.
        major: u32,
        /// Its protocol's minor version.
        minor: u32,
    },
    /// The first exchange on a new connection failed.
    #[error("the FUSE connection could not be set up: {0}")]
    Setup(String),
    /// A daemon died with unanswered requests, and the kernel cannot repeat them.
    #[error(
        "the daemon before this one died, and this kernel (before Linux 6.9) cannot repeat the requests that it had \
         taken; abort the connection of {mountpoint} and attach again"
    )]
    CannotResend {
        /// Where the disk is mounted.
        mountpoint: PathBuf,
    },
    /// The connection has ended.
    #[error("the connection has ended ({0:?})")]
    Over(Ended),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    System {
        /// What we tried.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

/// A mounted one-file disk, served until it is unmounted, handed over or dropped. For the kernel, dropping it is a crash: without a keeper
/// of its descriptor the connection ends, and programs that use the disk get I/O errors.
pub struct OneFileDisk {
    session: Arc<Session>,
    readers: Readers,
    parameters: Parameters,
}

impl OneFileDisk {
    /// Mounts `device` as `dir`/disk and serves it. Answers that take time are awaited on `runtime`, which needs its time driver. This
    /// takes a few milliseconds: call it where blocking is allowed.
    pub fn mount(
        dir: &Path,
        device: Arc<dyn BlockDevice>,
        options: &Options,
        runtime: Handle,
    ) -> Result<Self, OneFileError> {
        let mounted = mount::mount(dir, pipe::MOST_BYTES as u32)?;
        let parameters = match init::answer(mounted.fd.as_fd(), &mounted) {
            Ok(parameters) => parameters,
            Err(error) => {
                // Nobody uses the mount yet; report the first error.
                drop(mounted.fd);
                let _ = mount::unmount(&mounted.mountpoint);
                return Err(error);
            }
        };
        Self::serve(mounted.fd, parameters, device, options, runtime)
    }

    /// Continues to serve where another process stopped, or was killed. That process must no longer serve: the kernel gives each request to
    /// one reader, and a late write of the old process must not land after ours.
    pub fn resume(
        handover: Handover,
        device: Arc<dyn BlockDevice>,
        options: &Options,
        runtime: Handle,
    ) -> Result<Self, OneFileError> {
        let Handover { fd, parameters, clean } = handover;
        if parameters.folder.is_some() {
            return Err(OneFileError::Setup("the connection is a folder's".into()));
        }
        if !connected(&fd) {
            return Err(OneFileError::Over(Ended::Unmounted));
        }
        if parameters.resend {
            // Do this before the first reader starts, so that all readers take the repeated requests. A clean handover may need it too, for
            // requests that were abandoned after its patience.
            rustix::io::write(&fd, &crate::wire::reply::resend()).map_err(|errno| OneFileError::System {
                what: "asking the kernel to send again",
                error: errno.into(),
            })?;
        } else if !clean {
            return Err(OneFileError::CannotResend { mountpoint: parameters.mountpoint });
        }
        Self::serve(fd, parameters, device, options, runtime)
    }

    fn serve(
        fd: OwnedFd,
        parameters: Parameters,
        device: Arc<dyn BlockDevice>,
        options: &Options,
        runtime: Handle,
    ) -> Result<Self, OneFileError> {
        let session = Arc::new(Session::new(fd, &parameters, device, runtime));
        let readers = Readers::start(&session, options.threads.max(1))
            .map_err(|error| OneFileError::System { what: "starting a thread", error })?;
        Ok(OneFileDisk { session, readers, parameters })
    }

    /// The file over which to put a loop device.
    pub fn file(&self) -> PathBuf {
        self.parameters.mountpoint.join(FILE_NAME)
    }

    /// The connection's descriptor, for a keeper.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.session.fd()
    }

    /// The handover that a keeper needs so that the disk survives a sudden death of this process: give it away right after `mount`.
    pub fn copy_for_keeper(&self) -> std::io::Result<Handover> {
        let fd = self.session.fd().try_clone_to_owned()?;
        Ok(Handover { fd, parameters: self.parameters.clone(), clean: false })
    }

    /// Waits until the kernel ends the connection.
    pub async fn ended(&self) -> Ended {
        self.session.ended().await
    }

    /// Stops serving and gives the connection away. Requests that were taken are finished, for as long as `patience`. Requests that are
    /// unanswered then (they wait for the network) are dropped, and the process that resumes gets them again. On a kernel that cannot repeat
    /// requests (before Linux 6.9) the wait lasts until they end.
    ///
    /// Nothing fails meanwhile: the kernel queues requests to a connection that nobody reads.
    pub async fn into_handover(self, patience: Duration) -> Result<Handover, OneFileError> {
        let OneFileDisk { session, readers, parameters } = self;
        let stopped = tokio::task::spawn_blocking(move || readers.stop()).await;
        stopped.map_err(|panicked| OneFileError::System {
            what: "stopping the threads",
            error: std::io::Error::other(panicked),
        })?;
        if let Some(ended) = session.has_ended() {
            return Err(OneFileError::Over(ended));
        }
        let patience = parameters.resend.then_some(patience);
        let clean = session.finish(patience).await;
        let session = Arc::into_inner(session).expect("the threads, which shared it, have gone");
        let fd = session
            .into_fd()
            .map_err(|error| OneFileError::System { what: "duplicating the descriptor", error })?;
        Ok(Handover { fd, parameters, clean })
    }

    /// Unmounts and stops. Detach the loop device first: while anything holds the file this is [`MountError::Busy`], and the disk is still
    /// served. A disk that is no longer mounted anywhere (a logout lazily unmounts everything in its runtime directory) only stops.
    pub async fn unmount(&mut self) -> Result<(), OneFileError> {
        if self.session.has_ended().is_none() {
            let mountpoint = self.parameters.mountpoint.clone();
            let unmount = move || match mount::connection_at(&mountpoint) {
                Some(_) => mount::unmount(&mountpoint),
                None => Ok(()),
            };
            let unmounted = tokio::task::spawn_blocking(unmount).await;
            unmounted.map_err(|panicked| MountError::system("umount", std::io::Error::other(panicked)))??;
        }
        // A private copy of the mount in a container keeps the connection, until its last descriptor is closed.
        let _ = tokio::time::timeout(ENDED_PATIENCE, self.session.ended()).await;
        Ok(())
    }
}

/// Whether the kernel still has a mount for the descriptor: without one, fuse_dev_poll reports an error. (A write to it would be accepted
/// and ignored.)
pub(crate) fn connected(fd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let polled = rustix::event::poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && !fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}
