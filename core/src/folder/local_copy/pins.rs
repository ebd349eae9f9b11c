//! Pinned files are never evicted. Those that are missing are pulled while the folder is open.

use super::LocalCopy;
use super::read::ReadFailure;
use crate::folder::spans::Span;
use crate::pull::Class;
use crate::retry::Backoff;
use crate::units::BlockRange;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often to check whether all is still here.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Spans that stay on this device.
#[derive(Default)]
pub(super) struct Pinned {
    /// By a person's choice: what is missing of them is pulled.
    chosen: Vec<Arc<Span>>,
    /// While their deletion waits for a person's word: nobody else may have their bytes.
    held: Vec<Arc<Span>>,
}

impl Pinned {
    /// The blocks that are not empty, in their order.
    fn runs(&self) -> Vec<BlockRange> {
        let mut runs: Vec<_> = self.chosen.iter().chain(&self.held).map(|span| span.blocks()).collect();
        runs.retain(|blocks| !blocks.is_empty());
        runs.sort_unstable();
        runs.dedup();
        runs
    }
}

impl LocalCopy {
    /// Keeps exactly these spans here from now on, beside those that are held. Missing blocks are pulled in the background.
    ///
    /// # Errors
    ///
    /// The cache's files cannot be read: spans that are no longer pinned may stay until the folder is opened again.
    pub fn set_pinned(&self, spans: impl IntoIterator<Item = Arc<Span>>) -> io::Result<()> {
        let mut chosen: Vec<_> = spans.into_iter().filter(|span| !span.is_retired()).collect();
        chosen.sort_by_key(|span| span.extent());
        chosen.dedup_by_key(|span| span.extent());
        let mut pinned = self.pinned.lock();
        pinned.chosen = chosen;
        let done = self.cache.pin(&pinned.runs());
        drop(pinned);
        self.pins_changed.notify_one();
        done
    }

    /// Evicts nothing of exactly these spans from now on, nor of those that are pinned.
    ///
    /// # Errors
    ///
    /// See [`set_pinned`](Self::set_pinned).
    pub fn set_held(&self, spans: Vec<Arc<Span>>) -> io::Result<()> {
        let mut pinned = self.pinned.lock();
        if pinned.held.is_empty() && spans.is_empty() {
            return Ok(());
        }
        pinned.held = spans;
        pinned.held.retain(|span| !span.is_retired());
        self.cache.pin(&pinned.runs())
    }

    /// Bytes of pinned files, and how many of them are not here.
    pub fn pinned_and_missing_bytes(&self) -> (u64, u64) {
        let chosen = &self.pinned.lock().chosen;
        let bytes: u64 = chosen.iter().map(|span| span.len()).sum();
        (bytes, bytes - chosen.iter().map(|span| self.local_bytes(span)).sum::<u64>())
    }

    /// Retired spans are no longer pinned: their blocks are another file's soon.
    pub(super) fn unpin_retired(&self) -> io::Result<()> {
        let mut pinned = self.pinned.lock();
        let Pinned { chosen, held } = &mut *pinned;
        let before = chosen.len() + held.len();
        chosen.retain(|span| !span.is_retired());
        held.retain(|span| !span.is_retired());
        if chosen.len() + held.len() == before { Ok(()) } else { self.cache.pin(&pinned.runs()) }
    }
}

/// Pulls what is missing of pinned files while the folder is open.
pub(super) async fn keep_here(copy: Weak<LocalCopy>) {
    let mut backoff = Backoff::new();
    loop {
        let Some(opened) = copy.upgrade() else { return };
        let pinned: Vec<_> = opened.pinned.lock().chosen.clone();
        let mut pulled = Ok(());
        for span in pinned {
            match opened.make_whole(&span, Class::Pinned).await {
                // Another version takes its place, or the folder no longer has it.
                Ok(_) | Err(ReadFailure::Gone) => {}
                // A failure does not keep the rest from being pulled.
                Err(failure) => pulled = Err(failure),
            }
        }
        let pause = match pulled {
            Ok(()) => {
                backoff = Backoff::new();
                LOOK_EVERY
            }
            Err(error) => {
                tracing::debug!(%error, "not all that is pinned could be pulled");
                backoff.next(None)
            }
        };
        let _ = tokio::time::timeout(pause, opened.pins_changed.notified()).await;
    }
}
