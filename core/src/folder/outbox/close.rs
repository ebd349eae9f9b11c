//! The end of a folder's day: what programs have written is recorded, so that the log has a durable word of all bytes that are here, and a
//! start of the computer afterwards finds nothing that it has to set aside.

use super::works::Works;
use crate::folder::api::FolderError;
use crate::folder::node::Ino;
use futures_util::stream::{self, StreamExt};
use std::sync::Arc;

/// Files that are made durable at once, so that the disk can order them.
const AT_ONCE: usize = 16;

impl Works {
    /// Records all that was written and is not recorded yet. Nothing is under way. Returns the first failure, after all were tried.
    pub(super) async fn record_all(self: &Arc<Self>) -> Result<(), FolderError> {
        let written = self.shared.contents.all()?.into_iter().filter(|ino| self.is_unrecorded(*ino));
        let recorded = stream::iter(written.collect::<Vec<_>>()).map(|ino| self.record(ino));
        let failed = |recorded: Result<(), FolderError>| async { recorded.err() };
        let failures: Vec<_> = recorded.buffer_unordered(AT_ONCE).filter_map(failed).collect().await;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn record(self: &Arc<Self>, ino: Ino) -> Result<(), FolderError> {
        // Bytes that nobody has changed become part of the cache again.
        self.clone().look_at(ino).await;
        match self.is_unrecorded(ino) {
            true => self.note_written(ino, false).await,
            false => Ok(()),
        }
    }

    /// Whether a content may have bytes that the log does not know.
    fn is_unrecorded(&self, ino: Ino) -> bool {
        let node = self.shared.node(ino).filter(|node| node.local.is_some());
        node.is_some_and(|node| node.may_be_written || node.content.is_none())
    }
}
