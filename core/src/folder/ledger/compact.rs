//! Compaction: the state of every inode is appended once more, and the files before that are freed.
//!
//! Changes go on meanwhile: a few inodes are appended at a time, each with the state that it has at that moment. So every record is true when
//! it is written, and the records from the beginning of the compaction on name every inode of the tree. The files before are freed only when
//! all of them are durable. A crash before that leaves the old files, with some states twice.

use super::record::{FILE_BYTES, StepRecord};
use super::{Ledger, LedgerError};
use crate::folder::node::Ino;
use crate::folder::step::Step;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// A log with less than this is not compacted.
pub(super) const BYTES_MIN: u64 = 8 * FILE_BYTES;

/// The log is compacted again when it is this many times as long as it was after the last time: then it has cost no more than the changes
/// themselves.
const GROWTH: u64 = 3;

/// Inodes whose states are appended while nobody else can change anything: less than a millisecond.
const NODES_AT_ONCE: usize = 100;

/// Compacts when that is due, and keeps files ready for the next records, as long as the ledger is there.
pub(super) async fn keep_tidy(ledger: Weak<Ledger>, wanted: Arc<Notify>) {
    loop {
        wanted.notified().await;
        let Some(ledger) = ledger.upgrade().filter(|ledger| !ledger.is_closed.load(Ordering::SeqCst)) else {
            return;
        };
        if let Err(error) = ledger.tidy().await {
            tracing::warn!(%error, "the log of a folder's changes could not be tidied up; nothing is lost");
        }
    }
}

impl Ledger {
    async fn tidy(&self) -> Result<(), LedgerError> {
        let is_due = {
            let state = self.state.read();
            self.log.space().used_bytes >= state.compact_at_bytes
        };
        if is_due && self.has_space_for_states() {
            self.compact().await?;
        }
        self.log.keep_spare().await?;
        Ok(())
    }

    /// Whether the states fit beside the files that they make free: they are not longer than these. A compaction that ends half way would
    /// only take the last space from changes. (Some file systems report zero when they do not know.)
    fn has_space_for_states(&self) -> bool {
        let used = self.log.space().used_bytes;
        !self.disk.free_bytes().is_ok_and(|free| (1..used).contains(&free))
    }

    /// Writes the current states, and frees what is older.
    pub(super) async fn compact(&self) -> Result<(), LedgerError> {
        let (before, begun_at) = {
            let _no_changes = self.state.write();
            (self.log.appended(), self.log.space().used_bytes)
        };
        let mut next = Ino(0);
        while let Some(after) = self.append_states(next)? {
            if self.is_closed.load(Ordering::SeqCst) {
                return Ok(());
            }
            next = after;
            tokio::task::yield_now().await;
        }
        self.append_record(StepRecord::Compacted { from: before.next() }, &[])?;
        self.log.flush().await?;
        self.log.free(before);
        let state = &mut *self.state.write();
        // What was written meanwhile: the states, and a few changes.
        let written = self.log.bytes_after(before);
        state.compact_at_bytes = BYTES_MIN.max(GROWTH * written);
        state.used_bytes = self.log.space().used_bytes;
        tracing::debug!(begun_at, now = state.used_bytes, "the log of a folder's changes was compacted");
        Ok(())
    }

    /// Appends the states of some inodes from `from` on. Returns where to go on; `None` at the end.
    fn append_states(&self, from: Ino) -> Result<Option<Ino>, LedgerError> {
        let state = self.state.write();
        for (count, (ino, node)) in state.tree.nodes_from(from).enumerate() {
            if count == NODES_AT_ONCE {
                return Ok(Some(ino));
            }
            self.append(&Step::one(ino, Some(node.clone())))?;
        }
        // A number that no state names any longer must not be given to another file.
        if state.highest > Ino(0) && state.tree.node(state.highest).is_none() {
            self.append(&Step::one(state.highest, None))?;
        }
        // The daemon may be killed before it has answered the last ones.
        for (request, made) in state.requests.all() {
            self.append(&Step { request, made, states: Vec::new() })?;
        }
        Ok(None)
    }
}
