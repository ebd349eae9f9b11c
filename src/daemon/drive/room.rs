//! How much of the local disk a drive's cache may take, and deleting the cache of a closed drive.
//!
//! A closed drive's cache counts towards the limit for all drives; the open drives share the rest. The cache of a closed drive may be
//! deleted at any moment: what the store lacks is in the journal.

use super::Drive;
use super::engine::{CACHE_SHARE, free_without};
use super::lock::lock_if_there;
use crate::api::{self, Action, Evicted, Failure};
use crate::daemon::failure;
use crate::daemon::limits::{changed_cache, share};
use holdall_core::disk::real::Directory;
use holdall_core::units::BLOCK_BYTES;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// No cache can work with less.
pub(in crate::daemon) const LEAST_BYTES: u64 = 64 * BLOCK_BYTES;

impl Drive {
    /// Bytes that the cache may take: the limit that a person has set, but not more than the disk has; otherwise half of the disk; and
    /// never more than this drive's share of the limit for all drives.
    pub(super) fn cache_limit(&self) -> io::Result<u64> {
        let free = free_without(&self.registry.cache_directory(self.uuid()))?;
        let limits = self.stores.limits();
        let said = self.own_cache().or(limits.cache_bytes());
        let limit = said.map_or(free / CACHE_SHARE, |said| said.min(free));
        let shared = limits.cache_total_bytes().map(|total| share(total, limits.others_caches(self.uuid())));
        Ok(limit.min(shared.unwrap_or(u64::MAX)).max(LEAST_BYTES))
    }

    /// Whether what must stay in the cache fits this drive's share of a limit for all drives.
    pub fn fits_total(&self, total: u64) -> Result<(), Failure> {
        self.fits_cache(share(total, self.stores.limits().others_caches(self.uuid())))
    }

    /// Bytes of the cache of a closed drive; `None` if it is open. The caller may hold its own lock: no waiting writer may come in between.
    pub(in crate::daemon) fn cache_while_closed(&self) -> Option<u64> {
        self.live.read_recursive().is_none().then(|| self.closed_cache_bytes())
    }

    /// Bytes that the cache of a closed drive takes of the disk.
    fn closed_cache_bytes(&self) -> u64 {
        let directory = self.registry.cache_directory(self.uuid());
        if !directory.exists() {
            return 0;
        }
        Directory::create(&directory).and_then(|cache| cache.allocated_bytes()).unwrap_or(0)
    }

    /// The limit that a person has set for this drive.
    pub fn own_cache(&self) -> Option<u64> {
        self.config.lock().cache_bytes
    }

    /// Checks whether the drive can have this limit of its own, and returns what to save. 0 removes the limit.
    pub fn check_own_cache(&self, bytes: Option<u64>) -> Result<Option<u64>, Failure> {
        let next = changed_cache(self.own_cache(), bytes)?;
        next.map_or(Ok(()), |bytes| self.fits_cache(bytes))?;
        Ok(next)
    }

    /// Sets the drive's own limit, or removes it with 0.
    pub fn set_own_cache(&self, bytes: Option<u64>) -> Result<(), Failure> {
        let next = self.check_own_cache(bytes)?;
        self.remember(|config| config.cache_bytes = next)
    }

    /// Stops prefetching what the last openings read first, until the next opening.
    pub fn stop_prefetch(&self) -> api::Nothing {
        if let Some(volume) = &*self.live.read() {
            volume.stop_trace();
        }
        api::Nothing {}
    }

    /// Deletes the cache of a closed drive.
    pub(super) async fn evict_closed(self: &Arc<Self>) -> Result<Evicted, Failure> {
        let open = self.open.lock().await;
        if self.is_left_to_upload() {
            let action = Action::Sync { drive: Some(self.name.clone()) };
            return Err(failure::state(
                "The drive is closed, and has changes that are still to be uploaded.",
                action,
            ));
        }
        if open.is_some() || self.config.lock().open.is_some() {
            return Err(failure::not_mounted(&self.name));
        }
        let directory = self.registry.cache_directory(self.uuid());
        let _lock = lock_if_there(&directory)?;
        let before = self.closed_cache_bytes();
        empty(&directory).map_err(|error| failure::local(&error))?;
        self.figures.without_cache();
        let stayed_bytes = self.closed_cache_bytes();
        Ok(Evicted { bytes_freed: before.saturating_sub(stayed_bytes), stayed_bytes })
    }
}

/// Deletes everything in a cache's directory but its lock, which is held.
fn empty(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == "lock" {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_emptied_but_for_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["lock", "cache", "trace"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("more")).unwrap();
        empty(dir.path()).unwrap();
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
        empty(&dir.path().join("none")).unwrap();
    }
}
