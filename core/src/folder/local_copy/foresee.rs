//! What programs will read next of a file, by its format.

use super::LocalCopy;
use crate::folder::source::Versions;
use crate::folder::spans::Span;
use crate::formats::HEAD_BYTES;
use crate::pull::prefetch::{self, Layout, LocalBlocks};
use crate::pull::{FileNumber, Puller};
use crate::units::BlockRange;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Spans that are remembered as foreseen.
const REMEMBERED: usize = 256;

/// The spans whose formats were examined lately.
#[derive(Default)]
pub(super) struct Foreseen {
    // Held to look one up and to add it.
    recent: Mutex<VecDeque<Weak<Span>>>,
}

impl Foreseen {
    /// Whether the span was not seen lately. From now on it was.
    fn is_new(&self, span: &Arc<Span>) -> bool {
        let mut recent = self.recent.lock();
        if recent.iter().any(|seen| std::ptr::eq(seen.as_ptr(), Arc::as_ptr(span))) {
            return false;
        }
        if recent.len() >= REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(Arc::downgrade(span));
        true
    }
}

impl LocalCopy {
    /// A reader waits for bytes at `at` of a file: its format may show what comes next. If the read is not near the file's beginning, the
    /// format is examined only if the beginning is here.
    pub(super) fn foresee(self: &Arc<Self>, span: &Arc<Span>, at: u64) {
        let layout = Layout { len: span.len(), runs: vec![(0, span.blocks())] };
        if at >= HEAD_BYTES && !prefetch::is_begun(&**self, &layout) || !self.foreseen.is_new(span) {
            return;
        }
        let (copy, number): (_, FileNumber) = (Arc::downgrade(self), span.number());
        self.background.spawn(async move {
            if let Err(error) = prefetch::foresee(copy, number, layout).await {
                tracing::debug!(%error, "what a program will read next of a file is not here yet");
            }
        });
    }
}

impl LocalBlocks for LocalCopy {
    type Source = Versions;

    fn read_local(&self, blocks: BlockRange, bytes: &mut [u8]) -> bool {
        // Blocks that are valid now stay in place until the bytes are copied.
        let _hold = self.cache.hold();
        self.cache.valid().all(blocks) && self.cache.file().read_at(bytes, blocks.bytes().start).is_ok()
    }

    fn puller(&self) -> &Arc<Puller<Versions>> {
        &self.puller
    }

    fn limit_bytes(&self) -> u64 {
        self.room.limit()
    }
}
