//! Compacting the table while it is in use: renames and removals leave dead records, and a folder may be open for months.

use super::Inodes;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the table is looked at. Between two looks, a few million records can become dead at most: some 100 MiB.
const EVERY: Duration = Duration::from_secs(60);

/// Compacts when that is worth it, as long as the table is there.
pub(in crate::folder) async fn tend(inodes: Weak<Inodes>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(inodes) = inodes.upgrade() else { return };
        if !inodes.wants_compaction() {
            continue;
        }
        let compacted = tokio::task::spawn_blocking(move || inodes.compact()).await;
        if let Err(error) = compacted.unwrap_or_else(|stopped| Err(io::Error::other(stopped))) {
            tracing::warn!(%error, "the table of inode numbers could not be compacted; nothing is lost");
        }
    }
}

impl Inodes {
    /// Waits for a compaction that is under way, and lets no other begin: it would take the place of the file that the next opening uses. The
    /// table must be closed before it is opened again in the same process.
    pub async fn close(self: &Arc<Self>) {
        self.is_closed.store(true, Ordering::SeqCst);
        let inodes = self.clone();
        // It is a thread that compacts, and not a task: it goes on when the task ends that waits for it.
        let _ = tokio::task::spawn_blocking(move || drop(inodes.compacting.lock())).await;
    }
}
