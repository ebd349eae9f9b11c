//! Slows down readers that scan a drive ([`crate::pull::Scans`] detects them).

use crate::pull::{FilePlace, Scans};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Reads of scans in flight: other readers hardly notice this many.
const AT_ONCE: usize = 2;

/// The scans of one drive.
pub(crate) struct Scanning {
    // Held to judge one miss.
    scans: Mutex<Scans>,
    /// Whether scans are slowed down.
    is_slowed: AtomicBool,
    turns: Semaphore,
    begun: Instant,
}

impl Scanning {
    pub fn new() -> Self {
        Self {
            scans: Mutex::default(),
            is_slowed: AtomicBool::new(true),
            turns: Semaphore::new(AT_ONCE),
            begun: Instant::now(),
        }
    }

    /// Slows scans down from now on, or treats them like any reader.
    pub fn set_slowed(&self, is_slowed: bool) {
        self.is_slowed.store(is_slowed, Relaxed);
    }

    /// Whether a scan is under way and slowed down.
    pub fn is_slowing(&self) -> bool {
        self.is_slowed.load(Relaxed) && self.scans.lock().is_under_way(self.second())
    }

    /// A reader waits for `blocks` blocks of a file. If it scans, this waits for its turn, and returns that.
    pub async fn turn(&self, place: FilePlace, blocks: u64) -> Option<SemaphorePermit<'_>> {
        let is_scan = self.scans.lock().missed(place, blocks, self.second());
        match is_scan && self.is_slowed.load(Relaxed) {
            true => self.turns.acquire().await.ok(),
            false => None,
        }
    }

    fn second(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }
}
