//! Contents that leave: the bytes of files that have lost their last name, and that nobody has open.
//!
//! The record that takes the name survives a power cut only after the log's next sync. If the bytes went before it, a cut could leave a log
//! that names a content which is gone. So the bytes wait here until a sync covers the record; one sync serves all that wait. What waits when
//! the daemon is killed belongs to no name, and recovery removes it.

use super::ledger::LedgerError;
use super::node::Ino;
use super::shared::Shared;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// The contents that wait. Each has a file on the local disk, which bounds them.
#[derive(Default)]
pub(super) struct Leaving {
    // Held to add or take one.
    waiting: Mutex<BTreeSet<Ino>>,
    wanted: Arc<Notify>,
}

impl Shared {
    /// A file has no name any longer. Its bytes go with the last program that has it open. Must not wait.
    pub fn lost_name(&self, ino: Ino) {
        if !self.opens.unlink(ino) {
            self.content_leaves(ino);
        }
    }

    /// Nobody will read the content of a file again, which has no name: it goes when the log knows that durably. Must not wait.
    pub fn content_leaves(&self, ino: Ino) {
        if self.contents.has(ino) {
            self.leaving.waiting.lock().insert(ino);
            self.leaving.wanted.notify_one();
        }
    }

    /// Removes the contents that wait.
    pub async fn let_contents_leave(&self) -> Result<(), LedgerError> {
        let waiting = self.leaving.waiting.lock().clone();
        if waiting.is_empty() {
            return Ok(());
        }
        self.ledger.sync().await?;
        for ino in waiting {
            // Nobody opens it meanwhile.
            let _turn = self.turns.of(ino).await;
            self.leaving.waiting.lock().remove(&ino);
            // With a name again, the content is what that name stands for. A program that has opened it takes it along.
            if matches!(self.place_here(ino), Ok(None)) && !self.opens.unlink(ino) {
                self.forget_content(ino);
            }
        }
        Ok(())
    }
}

/// Removes contents while the folder is open.
pub(super) async fn keep(shared: Weak<Shared>) {
    let Some(wanted) = shared.upgrade().map(|shared| shared.leaving.wanted.clone()) else { return };
    loop {
        wanted.notified().await;
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.let_contents_leave().await {
            tracing::warn!(%error, "the bytes of removed files stay on the local disk for now");
        }
    }
}
