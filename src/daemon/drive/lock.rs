//! The lock on this device's files of a drive: one opening at a time, in this process or any other.

use crate::api::{Code, Failure};
use crate::daemon::failure::{self, failure};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// Holds a directory's lock for as long as it lives.
pub(super) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started has a copy of the descriptor until it calls exec, and
        // the lock would last that long.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks a drive's directory.
pub(super) fn lock(directory: &Path) -> Result<DirectoryLock, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(directory.join("lock"));
    let file = file.map_err(|error| failure::local(&error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(DirectoryLock(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(failure(
            Code::State,
            "Another process on this computer has the drive open.",
            "Nothing was changed.",
            "Close it there.",
        )),
        Err(errno) => Err(failure::local(&errno.into())),
    }
}

/// Locks a drive's directory, if it was ever locked: nobody holds a lock that was never made, and on a full disk, creating one must not
/// fail an operation that frees space.
pub(super) fn lock_if_there(directory: &Path) -> Result<Option<DirectoryLock>, Failure> {
    directory.join("lock").exists().then(|| lock(directory)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_despite_copied_descriptors() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path()).unwrap();
        assert!(lock(directory.path()).is_err());
        let _copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(lock(directory.path()).is_ok());
    }
}
