//! The status of an open drive.

use super::Volume;
use crate::push::PushState;
use crate::store::meter::ByKind;
use crate::units::{BLOCK_BYTES, Lsn};
use std::sync::atomic::Ordering;

/// Figures of an open drive.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Size of the drive.
    pub size_bytes: u64,
    /// Bytes of it that are on this device.
    pub cached_bytes: u64,
    /// Bytes of these that are metadata, as of a few seconds ago.
    pub metadata_bytes: u64,
    /// Bytes of records that the cache does not have yet.
    pub unapplied_bytes: u64,
    /// Bytes that the cache may take.
    pub cache_limit_bytes: u64,
    /// Bytes that the store lacks.
    pub dirty_bytes: u64,
    /// Bytes of journal whose upload is pending.
    pub unpushed_bytes: u64,
    /// Bytes of journal in use.
    pub journal_bytes: u64,
    /// Bytes that the journal may take.
    pub journal_limit_bytes: u64,
    /// Bytes to be pulled from the store.
    pub pending_pull_bytes: u64,
    /// Those that are pulled only because they were read at an earlier opening.
    pub pending_trace_bytes: u64,
    /// Whether all metadata of the file system is local: listings need no store.
    pub has_metadata: bool,
    /// Whether there is more metadata than is tracked.
    pub has_more_metadata: bool,
    /// Bytes of metadata for which the cache is too small.
    pub metadata_without_room_bytes: u64,
    /// The smallest cache that holds all metadata, in bytes, as far as that is known.
    pub least_cache_bytes: u64,
    /// Bytes that were fetched for readers and ahead of them since the drive was opened.
    pub fetched_bytes: u64,
    /// Those that were read.
    pub fetched_used_bytes: u64,
    /// Whether a scan is being slowed down.
    pub slows_scan: bool,
    /// The last record that was written.
    pub appended: Lsn,
    /// The last record that is durable here.
    pub durable: Lsn,
    /// The state of pushing; none for a version that is only read.
    pub push: Option<PushState>,
    /// Why pulls fail for now.
    pub pull_trouble: Option<String>,
    /// Damage: data that could not be read although the store answers.
    pub pull_damage: Option<String>,
    /// Why the local disk does not take what it should.
    pub local_trouble: Option<String>,
    /// Requests to the store, by kind.
    pub requests: ByKind,
    /// Bytes that were sent with them.
    pub sent_bytes: ByKind,
    /// Bytes that were received for them.
    pub received_bytes: ByKind,
}

impl Volume {
    /// The current figures.
    pub fn status(&self) -> VolumeStatus {
        let push = self.pusher.as_ref().map(|pusher| pusher.state().borrow().clone());
        let space = self.journal.space();
        let committed = push.as_ref().map_or(Lsn(0), |push| push.committed);
        let unpushed_bytes = push.as_ref().map_or(0, |push| {
            let unsent = self.journal.appended() > committed;
            if unsent { push.waiting_bytes(self.journal.bytes_after(committed)) } else { 0 }
        });
        if let Some(answered) = push.as_ref().and_then(|push| push.answered) {
            self.puller.heard(answered);
        }
        self.puller.look_at_damage();
        let health = self.puller.health().borrow().clone();
        let (without_room, has_more_metadata) = (self.survey.blocks_without_room(), self.survey.is_more());
        let (fetched_bytes, fetched_used_bytes) = self.cache.residents().fetched_and_used_bytes();
        VolumeStatus {
            size_bytes: self.size_blocks() * BLOCK_BYTES,
            // Its size on the local disk: a run of zeros is here too, and takes none.
            cached_bytes: self.cache.file().allocated().unwrap_or(0),
            metadata_bytes: self.room.metadata_bytes(),
            unapplied_bytes: self.journal.unapplied_bytes(),
            cache_limit_bytes: self.room.limit(),
            // A run of zeros is dirty however long it is, and is a single record to send.
            dirty_bytes: (self.journal.dirty_blocks() * BLOCK_BYTES).min(unpushed_bytes),
            unpushed_bytes,
            journal_bytes: space.used_bytes,
            journal_limit_bytes: space.limit_bytes,
            pending_pull_bytes: self.puller.pending_bytes(),
            pending_trace_bytes: self.puller.pending_trace_bytes(),
            has_metadata: self.survey.is_complete() && without_room == 0 && !has_more_metadata,
            has_more_metadata,
            metadata_without_room_bytes: without_room * BLOCK_BYTES,
            least_cache_bytes: self.survey.least_cache_bytes(),
            fetched_bytes,
            fetched_used_bytes,
            slows_scan: self.scanning.is_slowing(),
            appended: self.journal.appended(),
            durable: self.journal.durable(),
            push,
            pull_trouble: health.trouble,
            pull_damage: health.damage.map(|(_, why)| why),
            local_trouble: self.applier.trouble(),
            requests: self.meter.requests(),
            sent_bytes: self.meter.sent_bytes(),
            received_bytes: self.meter.received_bytes(),
        }
    }

    /// Whether any upload is pending.
    pub fn has_unsent(&self) -> bool {
        let committed = self.pusher.as_ref().map(|pusher| pusher.state().borrow().committed);
        committed.is_some_and(|committed| self.journal.appended() > committed)
    }

    /// The last record that is durable in the cache file.
    pub fn applied_durable(&self) -> Lsn {
        Lsn(self.applied_durable.load(Ordering::Acquire))
    }
}
