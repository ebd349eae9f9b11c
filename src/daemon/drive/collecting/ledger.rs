//! How much garbage a drive has in its store, estimated without asking the store (`garbage.json`).
//!
//! Data put since the last collection is reached by the map, or is garbage. So the garbage is what was put, less the growth of what the map
//! reaches. Data that a snapshot keeps counts as garbage until the next collection finds that it is not. Data in pages that a later write
//! has replaced counts only after the next checkpoint.

use crate::daemon::registry;
use holdall_core::push::{Collected, Stored};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

const NAME: &str = "garbage.json";

/// The figures of earlier openings and of this one.
pub struct Ledger {
    saved: Saved,
    /// Bytes that this opening has counted as put.
    counted_put: u64,
    counted_collections: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// When the last collection ended, Unix time in ms; before the first collection, when this file was created.
    collected_ms: u64,
    /// Bytes of objects put since then.
    put_bytes: u64,
    /// Bytes that the map's pages reached when they were last written.
    pages_reached_bytes: Option<u64>,
    /// Bytes that the map reached then; `None` if that was not known.
    base_reached_bytes: Option<u64>,
    /// Bytes that the store held then besides those.
    other_bytes: u64,
}

/// The result of a count.
pub struct Counted {
    /// A collection has ended.
    pub collected: Option<Collected>,
    /// Whether the change is worth saving for the next opening.
    pub is_worth_saving: bool,
}

impl Ledger {
    /// Loads what is remembered in the drive's directory. If the file cannot be read, nothing is known.
    pub fn load(directory: &Path, now_ms: u64) -> Self {
        let saved =
            std::fs::read(directory.join(NAME)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { saved: saved.unwrap_or_else(|| Saved::new(now_ms)), counted_put: 0, counted_collections: 0 }
    }

    /// Remembers it.
    pub fn save(&self, directory: &Path) {
        let bytes = serde_json::to_vec(&self.saved).expect("a structure of plain fields becomes JSON");
        if let Err(error) = registry::replace(&directory.join(NAME), &bytes) {
            tracing::debug!(%error, "the amount of garbage could not be saved");
        }
    }

    /// Counts the push task's news.
    pub fn count(&mut self, stored: &Stored, now_ms: u64) -> Counted {
        let before = self.saved;
        let put = stored.put_bytes.saturating_sub(self.counted_put);
        self.counted_put = stored.put_bytes;
        self.saved.put_bytes = self.saved.put_bytes.saturating_add(put);
        self.saved.pages_reached_bytes = stored.pages_reached_bytes.or(self.saved.pages_reached_bytes);
        let collected = stored.collected.filter(|(number, _)| *number != self.counted_collections);
        if let Some((number, collected)) = collected {
            self.counted_collections = number;
            let base_reached_bytes = self.reached_bytes(stored);
            let stored_bytes = collected.live_bytes.saturating_add(collected.garbage_bytes);
            let other_bytes = stored_bytes.saturating_sub(base_reached_bytes.unwrap_or(0));
            self.saved =
                Saved { collected_ms: now_ms, put_bytes: 0, base_reached_bytes, other_bytes, ..self.saved };
        } else if self.saved.base_reached_bytes.is_none()
            && let Some(reached) = self.reached_bytes(stored)
        {
            // From here on garbage can be known. Data put before is reached, or is found after a week.
            (self.saved.base_reached_bytes, self.saved.put_bytes) = (Some(reached), 0);
        }
        let is_another = Saved { put_bytes: 0, ..before } != Saved { put_bytes: 0, ..self.saved };
        Counted {
            collected: collected.map(|(_, collected)| collected),
            is_worth_saving: is_another || put > 0,
        }
    }

    /// Bytes that became garbage since the last collection; `None` if unknown.
    pub fn garbage_bytes(&self, stored: &Stored) -> Option<u64> {
        let (reached, base) = (self.reached_bytes(stored)?, self.saved.base_reached_bytes?);
        Some(base.saturating_add(self.saved.put_bytes).saturating_sub(reached))
    }

    /// Bytes that may be garbage as well: pages no longer reach data that was overwritten since, and nobody has counted that data.
    pub fn maybe_garbage_bytes(&self, stored: &Stored) -> u64 {
        stored.tail_covers_bytes.min(self.saved.pages_reached_bytes.unwrap_or(0))
    }

    /// Bytes that the store holds for the drive.
    pub fn store_bytes(&self, stored: &Stored) -> u64 {
        let reached = self.reached_bytes(stored).unwrap_or(0);
        let garbage = self.garbage_bytes(stored).unwrap_or(0);
        reached.saturating_add(garbage).saturating_add(self.saved.other_bytes)
    }

    /// Bytes that were put since the last collection.
    pub fn put_bytes(&self) -> u64 {
        self.saved.put_bytes
    }

    /// How long ago the last collection was. A clock that was set back counts as zero.
    pub fn since_collection(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.saved.collected_ms))
    }

    fn reached_bytes(&self, stored: &Stored) -> Option<u64> {
        Some(self.saved.pages_reached_bytes?.saturating_add(stored.tail_reached_bytes?))
    }
}

impl Saved {
    fn new(now_ms: u64) -> Self {
        Self {
            collected_ms: now_ms,
            put_bytes: 0,
            pages_reached_bytes: None,
            base_reached_bytes: None,
            other_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(put: u64, pages: Option<u64>, tail: u64) -> Stored {
        Stored {
            put_bytes: put,
            pages_reached_bytes: pages,
            tail_reached_bytes: Some(tail),
            tail_covers_bytes: tail,
            collected: None,
        }
    }

    #[test]
    fn data_that_was_put_but_is_not_reached_is_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::load(dir.path(), 1000);
        ledger.count(&stored(0, Some(0), 0), 1000);
        let now = stored(100, None, 100);
        ledger.count(&now, 2000);
        assert_eq!(ledger.garbage_bytes(&now), Some(0));
        assert_eq!(ledger.maybe_garbage_bytes(&now), 0, "there are no pages yet");
        // A third is replaced, and a checkpoint happens in between.
        let now = stored(130, Some(100), 0);
        ledger.count(&now, 3000);
        assert_eq!((ledger.garbage_bytes(&now), ledger.store_bytes(&now)), (Some(30), 130));
        let later = stored(170, None, 40);
        assert_eq!(ledger.maybe_garbage_bytes(&later), 40, "it may have replaced as much");
        // Half is trimmed.
        let now = stored(131, Some(50), 0);
        ledger.count(&now, 3000);
        assert_eq!(ledger.garbage_bytes(&now), Some(81));
        assert_eq!(ledger.since_collection(3000), Duration::from_secs(2));
    }

    #[test]
    fn the_next_opening_continues_the_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::load(dir.path(), 1000);
        ledger.count(&stored(0, Some(0), 0), 1000);
        assert!(ledger.count(&stored(100, Some(60), 0), 1000).is_worth_saving);
        ledger.save(dir.path());
        let mut ledger = Ledger::load(dir.path(), 9000);
        let now = stored(0, None, 0);
        assert!(!ledger.count(&now, 9000).is_worth_saving);
        assert_eq!(ledger.garbage_bytes(&now), Some(40));
        let now = stored(10, None, 0);
        ledger.count(&now, 9000);
        assert_eq!(ledger.garbage_bytes(&now), Some(50));
        assert_eq!(ledger.since_collection(9000), Duration::from_secs(8));
    }

    #[test]
    fn a_collection_starts_a_new_count_and_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::load(dir.path(), 0);
        ledger.count(&stored(0, Some(0), 0), 0);
        let done = Collected { deleted: 3, bytes_freed: 20, live_bytes: 80, garbage_bytes: 5 };
        // A snapshot keeps 30 of it.
        let now = Stored { collected: Some((1, done)), ..stored(100, Some(50), 0) };
        assert_eq!(ledger.count(&now, 5000).collected, Some(done));
        assert_eq!(ledger.count(&now, 6000).collected, None);
        assert_eq!((ledger.garbage_bytes(&now), ledger.put_bytes()), (Some(0), 0));
        assert_eq!(ledger.store_bytes(&now), 85);
        assert_eq!(ledger.since_collection(6000), Duration::from_secs(1));
    }

    #[test]
    fn a_new_drives_garbage_is_unknown_until_pages_are_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), "not JSON").unwrap();
        let mut ledger = Ledger::load(dir.path(), 0);
        let now = stored(100, None, 100);
        ledger.count(&now, 0);
        assert_eq!((ledger.garbage_bytes(&now), ledger.put_bytes()), (None, 100));
        let now = stored(110, Some(1000), 0);
        ledger.count(&now, 0);
        assert_eq!(ledger.garbage_bytes(&now), Some(0));
    }
}
