//! Writing back what programs have written to a mounted drive and not synced. The kernel alone would keep it in memory for half a minute:
//! until then a power cut loses it, it is not being uploaded, and no figure of the engine includes it.
//!
//! **How to detect unwritten data.** Not by asking the file system, which may wait for us:
//!
//! - New data, such as a copy: ext4 counts the blocks that have no place on the drive yet, and sysfs shows how many.
//! - Data changed in place: the file's time changes with it, and ext4 commits that to its own journal, which is on the drive, within five
//!   seconds. So the engine has a record that it did not have when the last sync began.
//!
//! A sync that writes something is followed by one more sync, which finds nothing and leaves no record: so changes made during the first
//! one are not missed. From then on a drive at rest is only checked, not synced, and its store gets no requests.

use super::Drive;
use super::opened::SYNC_DEADLINE;
use crate::attach::filesystem::Mounted;
use holdall_core::units::Lsn;
use holdall_core::volume::Volume;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often to check: a check reads two numbers, one of them from sysfs. The engine checks for pending uploads as often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause after a sync: as long as ext4 waits between its own commits. A program that writes all the time costs one sync and one process
/// per pause.
const REST: Duration = Duration::from_secs(5);
/// The longest pause, after several failed syncs in a row: a full journal takes nothing until the store is back.
const LONGEST_REST: Duration = Duration::from_secs(3600);
/// How long to wait for a sync under way before the drive is unmounted or handed over.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The write-back task, while a drive is mounted for writing.
#[derive(Default)]
pub(super) struct Writeback {
    // Held to copy it, or to begin and end it.
    now: Mutex<Option<Now>>,
    /// Held by a sync until its process is done. Shared, since the process may outlive its caller.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Now {
    mounted: Mounted,
    looking: JoinHandle<()>,
}

impl Drop for Now {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl Drive {
    /// Starts it for the drive, which was just mounted or taken over.
    pub(super) fn begin_writeback(self: &Arc<Self>, volume: &Arc<Volume>, writable: bool) {
        let Some(place) = self.place.read().clone().filter(|_| writable) else { return };
        let looking = look(Arc::downgrade(self), Arc::downgrade(volume), place.mounted.clone());
        let now = Now { mounted: place.mounted, looking: tokio::spawn(looking) };
        *self.writeback.now.lock() = Some(now);
    }

    /// Stops it, so that no process of ours uses the drive.
    pub(super) async fn end_writeback(&self) {
        if self.writeback.now.lock().take().is_some() {
            // A sync that hangs is left alone: the unmount that follows waits for the same.
            let _ = tokio::time::timeout(END_PATIENCE, self.writeback.turn.lock()).await;
        }
    }

    /// Writes everything back from the page cache to the journal, if the drive is mounted for writing. Logs a failure.
    pub(super) async fn write_back(&self, deadline: Duration) -> bool {
        let Ok(turn) = tokio::time::timeout(deadline, self.writeback.turn.clone().lock_owned()).await else {
            return false;
        };
        let Some(mounted) = self.writeback.now.lock().as_ref().map(|now| now.mounted.clone()) else {
            return true;
        };
        let syncing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            mounted.sync(deadline)
        });
        match syncing.await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(drive = self.name, %error, "data that programs have written is still in memory");
                false
            }
            Err(_) => false,
        }
    }

    /// Bytes that programs have written and that only the kernel's memory has, as far as that is known.
    pub(in crate::daemon) fn in_memory_bytes(&self) -> u64 {
        self.place.read().as_ref().map_or(0, |place| place.mounted.unallocated_bytes())
    }
}

async fn look(drive: Weak<Drive>, volume: Weak<Volume>, mounted: Mounted) {
    let mut pace = Pace::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let (Some(drive), Some(volume)) = (drive.upgrade(), volume.upgrade()) else { return };
        let (begun, appended) = (Instant::now(), volume.journal().appended());
        if pace.is_due(begun, appended, mounted.unallocated_bytes()) {
            let is_done = drive.write_back(SYNC_DEADLINE).await;
            pace.ended(begun, Instant::now(), is_done.then_some(appended));
            tracing::debug!(drive = drive.name, is_done, took = ?begun.elapsed(), "written back");
        }
    }
}

/// When to sync. Pure.
#[derive(Default)]
struct Pace {
    /// The engine's last record when the last sync began; `None` if unknown.
    synced: Option<Lsn>,
    /// The earliest time of the next sync.
    rest_until: Option<Instant>,
    failures: u32,
}

impl Pace {
    fn is_due(&self, now: Instant, appended: Lsn, unallocated_bytes: u64) -> bool {
        let something_waits = unallocated_bytes > 0 || self.synced != Some(appended);
        something_waits && self.rest_until.is_none_or(|until| now >= until)
    }

    /// `appended` is the engine's last record when the sync began, if the sync succeeded.
    fn ended(&mut self, begun: Instant, now: Instant, appended: Option<Lsn>) {
        match appended {
            Some(_) => (self.synced, self.failures) = (appended, 0),
            None => self.failures += 1,
        }
        // A slow disk is left to others for half of the time.
        let rest = now.duration_since(begun).max(REST).saturating_mul(1 << self.failures.min(16));
        self.rest_until = Some(now + rest.min(LONGEST_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_drive_at_rest_syncs_until_a_sync_finds_nothing() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert!(pace.is_due(start, Lsn(7), 0), "a former service may have left something");
        pace.ended(start, start + SECOND, Some(Lsn(7)));
        // The sync itself has written, and so may have others meanwhile.
        assert!(pace.is_due(start + REST * 2, Lsn(9), 0));
        pace.ended(start + REST * 2, start + REST * 2, Some(Lsn(9)));
        for hours in 1..100 {
            assert!(!pace.is_due(start + hours * 3600 * SECOND, Lsn(9), 0));
        }
    }

    #[test]
    fn new_and_changed_data_are_due_except_during_a_rest() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.ended(start, start, Some(Lsn(9)));
        let later = start + REST;
        assert!(pace.is_due(later, Lsn(9), 4096) && pace.is_due(later, Lsn(10), 0));
        assert!(!pace.is_due(later - SECOND, Lsn(10), 4096));
        // A long sync is followed by a rest of the same length.
        pace.ended(later, later + REST * 4, Some(Lsn(10)));
        assert!(!pace.is_due(later + REST * 7, Lsn(11), 0) && pace.is_due(later + REST * 8, Lsn(11), 0));
    }

    #[test]
    fn a_failed_sync_is_tried_again_less_and_less_often() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let mut rest = Duration::ZERO;
        for _ in 0..40 {
            assert!(pace.is_due(now + rest, Lsn(1), 0));
            now += rest;
            pace.ended(now, now, None);
            let longer = pace.rest_until.unwrap() - now;
            assert!(longer > rest || longer == LONGEST_REST);
            rest = longer;
        }
        pace.ended(now, now, Some(Lsn(1)));
        assert_eq!(pace.rest_until, Some(now + REST));
    }
}
