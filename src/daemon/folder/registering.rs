//! Who registers a folder's files with the kernel for passthrough: this process as root, otherwise a process of the helper's.
//!
//! That process is started when the first file passes through. Without it files are served, and the status says why.

use holdall_fuse::folder::registrar::{Elsewhere, Exchange};
use holdall_fuse::folder::{InProcess, Registrar};
use holdall_helper::{Deputy, Passing, PassingError, PrivilegedError, Refused};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the process may take to start. A program waits that opens a file.
const START_DEADLINE: Duration = Duration::from_secs(5);

/// Why the process that registers files could not be started. `None`: it was, or was not needed yet.
// Held to read or set it.
#[derive(Clone, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// What it is, for people.
    pub fn now(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn set(&self, why: Option<String>) {
        *self.0.lock() = why;
    }
}

/// What it takes to find who registers a folder's files.
pub(super) struct Registering {
    pub deputy: Deputy,
    /// Where they are on this computer.
    pub directory: PathBuf,
    /// Where it is said if they cannot be registered.
    pub trouble: Trouble,
}

impl Registering {
    /// Who registers files for the mount at `mountpoint`. Asks the system bus: call it where blocking is allowed.
    pub fn find(self, mountpoint: &Path) -> Option<Arc<dyn Registrar>> {
        if let Some(own) = InProcess::new() {
            return Some(Arc::new(own));
        }
        let Self { deputy, directory, trouble } = self;
        // Not through sudo: that might ask for a password, and nobody expects it when a program opens a file.
        if !deputy.has_helper() {
            return None;
        }
        let mountpoint = mountpoint.to_owned();
        let start = move |device: BorrowedFd<'_>| {
            let directory = std::fs::File::open(&directory)?;
            let begun = deputy.pass_through(&mountpoint, device, directory.as_fd(), START_DEADLINE);
            trouble.set(begun.as_ref().err().map(PrivilegedError::to_string));
            begun.map(Helpers).map_err(io::Error::other)
        };
        match Elsewhere::new(start) {
            Ok(elsewhere) => Some(Arc::new(elsewhere)),
            Err(error) => {
                tracing::warn!(%error, "no thread could be started that has files registered for passthrough");
                None
            }
        }
    }
}

/// A process of the helper's.
struct Helpers(Passing);

impl Exchange for Helpers {
    fn register(&mut self, file: BorrowedFd<'_>) -> io::Result<u32> {
        self.0.register(file).map_err(of_passing)
    }

    fn unregister(&mut self, id: u32) -> io::Result<()> {
        self.0.unregister(id).map_err(of_passing)
    }

    fn is_over(&self) -> bool {
        self.0.is_lost()
    }
}

/// A refusal is of the kind that the kernel's own would be; a process that is gone is a broken pipe.
fn of_passing(error: PassingError) -> io::Error {
    let kind = match &error {
        PassingError::Lost(_) => ErrorKind::BrokenPipe,
        PassingError::Refused(Refused::System { errno: Some(errno), .. }) => {
            io::Error::from_raw_os_error(*errno).kind()
        }
        PassingError::Refused(_) => ErrorKind::PermissionDenied,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_is_no_refusal() {
        let system = |errno| Refused::System {
            call: "ioctl".into(),
            path: "/at".into(),
            errno: Some(errno),
            said: "no".into(),
        };
        for (error, kind) in [
            (PassingError::Lost("it has ended".into()), ErrorKind::BrokenPipe),
            (PassingError::Refused(Refused::NoDescriptor), ErrorKind::PermissionDenied),
            (PassingError::Refused(system(libc::EPERM)), ErrorKind::PermissionDenied),
            (PassingError::Refused(system(libc::EMFILE)), io::Error::from_raw_os_error(libc::EMFILE).kind()),
        ] {
            let said = error.to_string();
            let told = of_passing(error);
            assert_eq!((told.kind(), told.to_string()), (kind, said));
        }
    }
}
