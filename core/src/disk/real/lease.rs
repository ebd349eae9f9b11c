//! Leases of Linux (`fcntl_leases` in fcntl(2)): whether anybody may write to a file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;

/// Takes a lease until the file, which is open for reading only, is closed. `false`: somebody may write to it.
///
/// # Errors
///
/// `Unsupported`: this file system has none, or not for this process.
pub(crate) fn take(file: &File) -> io::Result<bool> {
    // A program that opens the file to write is announced by a signal. The default one would end this process; this one is ignored unless
    // somebody asks for it.
    fcntl(file, F_SETSIG, libc::SIGURG)?;
    match fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// See fcntl(2). The libc crate does not name it for all targets.
const F_SETSIG: i32 = 10;

fn fcntl(file: &File, command: i32, argument: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open, and both commands take an integer.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOLCK | libc::EACCES | libc::EOPNOTSUPP | libc::ENOSYS) => {
            Err(io::Error::new(ErrorKind::Unsupported, format!("no leases on this file system: {error}")))
        }
        _ => Err(error),
    }
}

/// Whether a lease that was taken still holds: nobody has asked to write since.
pub(crate) fn holds(file: &File) -> bool {
    // SAFETY: the descriptor is open, and the command takes no argument.
    let lease = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) };
    lease == libc::F_RDLCK
}
