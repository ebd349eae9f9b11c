//! How much of the local disk a folder's cache may take: at once when a limit changes, and again while the disk fills.

use super::Folder;
use crate::api::{Action, Code, Failure, FolderCommand};
use crate::daemon::drive::LEAST_CACHE_BYTES;
use crate::daemon::failure::failure;
use crate::daemon::limits::{changed_cache, share};
use crate::sizes::format_bytes;
use holdall_core::disk::Disk;
use holdall_core::disk::real::Directory;
use std::sync::Arc;
use std::time::Duration;

/// The cache: half of the free disk, as for drives.
const CACHE_SHARE: u64 = 2;
/// How often the free space of the local disk is looked at.
const EVERY: Duration = Duration::from_secs(60);

impl Folder {
    /// Bytes that the cache may take of a disk that has `free_bytes` without it.
    pub(super) fn cache_limit(&self, free_bytes: u64) -> u64 {
        let limits = self.common.stores.limits();
        let said = self.own_cache().or(limits.cache_bytes());
        let limit = said.map_or(free_bytes / CACHE_SHARE, |said| said.min(free_bytes));
        let shared = limits.cache_total_bytes().map(|total| share(total, limits.others_caches(self.uuid)));
        limit.min(shared.unwrap_or(u64::MAX)).max(LEAST_CACHE_BYTES)
    }

    /// The limit that a person has set for this folder.
    pub fn own_cache(&self) -> Option<u64> {
        self.config.lock().cache_bytes
    }

    /// Checks whether the folder can have this limit of its own, and returns what to save. 0 removes the limit.
    pub fn check_own_cache(&self, bytes: Option<u64>) -> Result<Option<u64>, Failure> {
        let next = changed_cache(self.own_cache(), bytes)?;
        next.map_or(Ok(()), |bytes| self.fits_cache(bytes))?;
        Ok(next)
    }

    /// Sets the folder's own limit, or removes it with 0.
    pub fn set_own_cache(&self, bytes: Option<u64>) -> Result<(), Failure> {
        let next = self.check_own_cache(bytes)?;
        self.remember(|config| config.cache_bytes = next)
    }

    /// Whether what must stay here fits this folder's share of a limit for all caches.
    pub fn fits_total(&self, total: u64) -> Result<(), Failure> {
        let others = self.common.stores.limits().others_caches(self.uuid);
        self.fits_cache(share(total, others))
    }

    /// Whether pinned files fit `bytes`, with a tenth to work with.
    pub fn fits_cache(&self, bytes: u64) -> Result<(), Failure> {
        let live = self.live.read().clone();
        let (pinned, limit) = match live {
            Some(live) => (live.engine.pinned_and_missing_bytes().0, live.engine.cache_limit()),
            None => (self.figures.last().pinned_bytes, u64::MAX),
        };
        let needed = pinned + pinned / 10;
        // A larger cache is an improvement even if it is still too small.
        if needed <= bytes || bytes >= limit {
            return Ok(());
        }
        let (needed, given) = (format_bytes(needed), format_bytes(bytes));
        Err(failure(
            Code::Usage,
            format!("The folder {} needs a cache of {needed}; {given} is too small.", self.name),
            "Nothing was changed. Pinned files always stay on this computer.",
            [
                Action::tell(format!("Give {needed} or more, or keep less offline.")),
                Action::Pins { drive: Some(self.name.clone()) },
                self.action(FolderCommand::Status),
            ],
        ))
    }

    /// Applies the current limit to the engine. What exceeds it is evicted at once.
    pub fn apply_limits(&self) {
        let Some(live) = self.live.read().clone() else { return };
        match Directory::create(&self.directory()).and_then(|disk| disk.free_bytes()) {
            Ok(free_bytes) => {
                let cached_bytes = live.engine.status().cached_bytes;
                live.engine.set_cache_limit(self.cache_limit(free_bytes.saturating_add(cached_bytes)));
            }
            Err(error) => {
                tracing::warn!(folder = self.name, %error, "the free space of the disk is not known: the cache keeps its limit");
            }
        }
    }

    /// Adapts the limit to the local disk, and to other caches, while the engine runs.
    pub(super) fn follow_disk(self: &Arc<Self>) -> tokio::task::AbortHandle {
        let folder = Arc::downgrade(self);
        let following = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(folder) = folder.upgrade() else { return };
                folder.apply_limits();
            }
        });
        following.abort_handle()
    }

    /// Bytes of the cache of a closed folder; `None` if it is open.
    pub(in crate::daemon) fn closed_cache_bytes(&self) -> Option<u64> {
        match self.live.read_recursive().is_some() {
            true => None,
            false => {
                let files = self.directory().join("files");
                let measured = files.exists().then(|| Directory::create(&files)?.allocated_bytes());
                Some(measured.and_then(Result::ok).unwrap_or(0))
            }
        }
    }
}
