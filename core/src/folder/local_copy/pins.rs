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

impl LocalCopy {
    /// Keeps exactly these spans here from now on. Missing blocks are pulled in the background.
    ///
    /// # Errors
    ///
    /// The cache's files cannot be read: spans that are no longer pinned may stay until the folder is opened again.
    pub fn set_pinned(&self, spans: impl IntoIterator<Item = Arc<Span>>) -> io::Result<()> {
        let mut pinned = self.pinned.lock();
        *pinned = spans.into_iter().filter(|span| !span.is_retired()).collect();
        pinned.sort_by_key(|span| span.extent());
        pinned.dedup_by_key(|span| span.extent());
        let done = self.cache.pin(&runs(&pinned));
        drop(pinned);
        self.pins_changed.notify_one();
        done
    }

    /// Bytes of pinned files, and how many of them are not here.
    pub fn pinned_and_missing_bytes(&self) -> (u64, u64) {
        let pinned = self.pinned.lock();
        let bytes: u64 = pinned.iter().map(|span| span.len()).sum();
        (bytes, bytes - pinned.iter().map(|span| self.local_bytes(span)).sum::<u64>())
    }

    /// Retired spans are no longer pinned: their blocks are another file's soon.
    pub(super) fn unpin_retired(&self) -> io::Result<()> {
        let mut pinned = self.pinned.lock();
        let before = pinned.len();
        pinned.retain(|span| !span.is_retired());
        if pinned.len() == before { Ok(()) } else { self.cache.pin(&runs(&pinned)) }
    }
}

fn runs(pinned: &[Arc<Span>]) -> Vec<BlockRange> {
    pinned.iter().map(|span| span.blocks()).filter(|blocks| !blocks.is_empty()).collect()
}

/// Pulls what is missing of pinned files while the folder is open.
pub(super) async fn keep_here(copy: Weak<LocalCopy>) {
    let mut backoff = Backoff::new();
    loop {
        let Some(opened) = copy.upgrade() else { return };
        let pinned: Vec<_> = opened.pinned.lock().clone();
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
