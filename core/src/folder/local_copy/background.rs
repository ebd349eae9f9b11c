//! The keeper of a local copy: makes it durable regularly, and gives the blocks of retired spans back.
//!
//! Blocks are given back in this order:
//! 1. The span was retired: no look-up finds it any longer, and readers that hold it see that.
//! 2. No pull is under way that found it before. Such a pull would fill in its bytes.
//! 3. Its bits are invalid in memory and durably. Readers that saw them valid have its file, which stays as it is.
//! 4. Its file is removed, and its row says so.
//!
//! Only then can another span have the blocks. If the power is cut between 3 and 4, the span is there again, and empty. If the
//! row is durable and the removal of the file is not, the file is removed when the folder is opened.

use super::{LocalCopy, pins};
use crate::units::{BlockRange, CHUNK_BLOCKS};
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often the local copy is made durable: what was pulled since is pulled again after a power cut.
const PERSIST_EVERY: Duration = Duration::from_secs(10);
/// The unit in which reads are counted for eviction.
const SECOND: Duration = Duration::from_secs(1);

/// The background tasks.
#[derive(Default)]
pub(super) struct BackgroundTasks {
    // Held to add a task or to take them out.
    tasks: Mutex<JoinSet<()>>,
}

impl BackgroundTasks {
    /// Starts, now that the local copy is there.
    pub fn begin(&self, copy: &Arc<LocalCopy>) {
        self.spawn(keep(Arc::downgrade(copy)));
        self.spawn(pins::keep_here(Arc::downgrade(copy)));
    }

    /// Runs until it is done or the local copy is closed.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        // Forgets those that are done.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Stops all tasks.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

async fn keep(copy: Weak<LocalCopy>) {
    let mut persisted_at = Instant::now();
    loop {
        let Some(opened) = copy.upgrade() else { return };
        let is_crowded = tokio::select! {
            () = opened.backing.crowded() => true,
            () = opened.some_leave.notified() => false,
            () = tokio::time::sleep(SECOND) => false,
        };
        opened.cache.residents().tick();
        if is_crowded || persisted_at.elapsed() >= PERSIST_EVERY {
            let persisting = opened.clone();
            // A task of its own: a sync that is cut off leaves the whole cache suspect.
            let persisted = tokio::spawn(async move { persisting.persist().await }).await;
            if let Ok(Err(error)) = persisted {
                tracing::warn!(%error, "a folder's cache was not made durable");
            }
            persisted_at = Instant::now();
        }
        if let Err(error) = opened.give_back().await {
            tracing::warn!(%error, "blocks of files that were changed or removed are not free yet");
        }
    }
}

impl LocalCopy {
    /// Gives back the blocks of retired spans that nobody uses any longer.
    pub(super) async fn give_back(&self) -> io::Result<()> {
        let leaving = std::mem::take(&mut *self.leaving.lock());
        if leaving.is_empty() {
            return Ok(());
        }
        let mut left = leaving.clone();
        let given = async {
            self.unpin_retired()?;
            // A pull that began before may still make blocks valid. None begins any more.
            left.retain(|span| self.cache.is_pulled(span.extent()));
            let goes = |span: &&Arc<_>| !left.iter().any(|stays| Arc::ptr_eq(stays, span));
            let gone: Vec<_> = leaving.iter().filter(goes).cloned().collect();
            // The files are not punched: a program that has one open, or a reader, keeps its bytes to the end.
            let extents: Vec<BlockRange> = gone.iter().map(|span| span.extent()).collect();
            let cleared = self.cache.invalidate(&extents).await;
            for span in gone {
                let freed = match &cleared {
                    Ok(()) => self.remove(&span),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                if let Err(error) = freed {
                    left.push(span);
                    tracing::debug!(%error, "a file's blocks are not free yet");
                }
            }
            Ok(())
        }
        .await;
        self.leaving.lock().extend(left);
        given
    }

    fn remove(&self, span: &Arc<crate::folder::spans::Span>) -> io::Result<()> {
        debug_assert!(span.extent().start.is_multiple_of(CHUNK_BLOCKS), "spans are whole chunks");
        self.backing.remove(span)?;
        self.rows.free(&mut self.spans.write(), span)
    }
}
