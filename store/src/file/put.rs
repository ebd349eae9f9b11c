//! Puts: write a temporary file, rename it, and sync its directory.

use super::beneath::{self, Spot};
use super::{FileStore, TEMPORARY, etag, kinds, parent_of};
use crate::{Etag, StoreError, When};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};

const LOCK: &str = ".lock";
/// Why a store cannot be on a local file system that cannot name a file exclusively.
const NOT_EXCLUSIVE: &str =
    "its file system can neither rename without replacing nor make hard links, and a store needs one of them";
/// The same, for one where flock fails.
const NO_LOCKS: &str = "its file system has no locks, and a store on a local disk needs them";

impl FileStore {
    pub(super) fn put_now(&self, name: &str, body: &[u8], when: &When) -> Result<Etag, StoreError> {
        let explain = |error| self.explain(name, &error);
        if name != self.names.mark() {
            self.expect_here(name)?;
        }
        let parent = parent_of(name).to_owned();
        self.make_directory(&parent).map_err(explain)?;
        let target = self.spot(name).map_err(explain)?;
        let temporary = self.write_temporary(body).map_err(explain)?;
        let named = match when {
            When::Always => temporary.rename(&target).map_err(explain),
            When::Absent => self.name_new(&temporary, &target).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => StoreError::Precondition { name: name.to_owned() },
                _ => explain(error),
            }),
            When::Matches(expected) => self.swap(name, &temporary, &target, expected),
        };
        if named.is_err() {
            // The temporary file may be gone with the whole store; then there is nothing to tidy up.
            let _ = temporary.remove();
        }
        // Sync also if the name was taken: an earlier try of this very put may have taken it.
        let synced = beneath::sync(&target.directory);
        if synced.is_err() {
            self.directories.lock().unsynced.insert(parent);
        }
        let synced = synced.map_err(|error| not_refused(explain(error)));
        match named {
            Ok(()) | Err(StoreError::Precondition { .. }) => synced.and(named).map(|()| etag(body)),
            Err(error) => Err(error),
        }
    }

    /// Gives the written file its name, if nothing has the name. Where the file system cannot decide that, this looks first, and two puts
    /// may then both succeed in turn. That does no harm: claims decide there, and no two writers draw the same name for different bytes.
    fn name_new(&self, temporary: &Spot, target: &Spot) -> io::Result<()> {
        match temporary.rename_new(target) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            named => return named,
        }
        if kinds::is_local(self.magic()?) {
            return Err(io::Error::new(ErrorKind::Unsupported, NOT_EXCLUSIVE));
        }
        match target.len() {
            Err(error) if error.kind() == ErrorKind::NotFound => temporary.rename(target),
            Err(error) => Err(error),
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    fn swap(&self, name: &str, temporary: &Spot, target: &Spot, expected: &Etag) -> Result<(), StoreError> {
        let explain = |error| self.explain(name, &error);
        // Opened again for each swap: an flock belongs to the open file, so threads of one process exclude each other too. The lock file is
        // never removed, or two processes could lock two files of the same name.
        let lock = self.spot(LOCK).and_then(|spot| spot.open_lock()).map_err(explain)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| match errno {
            Errno::NOLCK | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL => {
                explain(io::Error::new(ErrorKind::Unsupported, NO_LOCKS))
            }
            errno => explain(errno.into()),
        })?;
        let mut current = Vec::new();
        target.open().and_then(|mut file| file.read_to_end(&mut current)).map_err(explain)?;
        if etag(&current) != *expected {
            return Err(StoreError::Precondition { name: name.to_owned() });
        }
        temporary.rename(target).map_err(explain)
    }

    fn write_temporary(&self, body: &[u8]) -> io::Result<Spot> {
        self.make_directory(TEMPORARY)?;
        let spot = self.spot(&format!("{TEMPORARY}/{:032x}", crate::entropy::u128()))?;
        let mut file = spot.create()?;
        let written = file.write_all(body).and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = spot.remove();
        }
        written.map(|()| spot)
    }
}

/// The error of a sync after the object got its name. Whatever it says, the put was not refused: the object is there, and may go at a power cut.
fn not_refused(error: StoreError) -> StoreError {
    match error {
        StoreError::Denied { reason } => StoreError::Unreachable { reason },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_sync_does_not_count_as_a_refused_put() {
        let denied = StoreError::Denied { reason: "/store: Permission denied".into() };
        assert!(denied.was_refused());
        let told = not_refused(denied);
        assert!(!told.was_refused() && told.to_string().contains("Permission denied"), "{told}");
        let full = StoreError::Full { reason: "/store: No space left".into() };
        assert_eq!(not_refused(full.clone()), full);
    }
}
