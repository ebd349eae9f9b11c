//! How often chunks were read lately, counted by readers without a lock.

use crate::units::ChunkIndex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The most reads that are counted.
pub(super) const READS_MAX: u8 = 3;

/// How often chunks were read. One byte for each chunk: two bits for the count, six for the second of the last counted
/// read. Reads within one second count once, because a chunk that is read once from end to end takes several.
#[derive(Debug)]
pub struct Heat {
    pages: Box<[OnceLock<Box<[AtomicU8]>>]>,
}

/// Chunks in a page of counters (4 GiB of drive).
const PAGE: usize = 1 << 16;

impl Heat {
    /// No reads yet, for a drive of at most `chunks` chunks.
    pub fn new(chunks: u64) -> Self {
        Self { pages: (0..chunks.div_ceil(PAGE as u64)).map(|_| OnceLock::new()).collect() }
    }

    /// A chunk was read in the given second, by any clock that never goes back.
    pub fn is_read(&self, chunk: ChunkIndex, second: u64) {
        let counter = self.counter(chunk);
        let (now, second) = (counter.load(Relaxed), (second % 64) as u8);
        if now >> 2 != second {
            // Two readers at once may lose a count.
            counter.store(second << 2 | (now % 4 + 1).min(READS_MAX), Relaxed);
        }
    }

    pub(super) fn reads(&self, chunk: ChunkIndex) -> u8 {
        self.counter(chunk).load(Relaxed) % 4
    }

    pub(super) fn lower(&self, chunk: ChunkIndex) {
        let counter = self.counter(chunk);
        let now = counter.load(Relaxed);
        counter.store(now & !3 | (now % 4).saturating_sub(1), Relaxed);
    }

    pub(super) fn forget(&self, chunk: ChunkIndex) {
        let counter = self.counter(chunk);
        counter.store(counter.load(Relaxed) & !3, Relaxed);
    }

    fn counter(&self, chunk: ChunkIndex) -> &AtomicU8 {
        let page = self.pages[chunk.0 as usize / PAGE]
            .get_or_init(|| std::iter::repeat_with(AtomicU8::default).take(PAGE).collect());
        &page[chunk.0 as usize % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_within_a_second_count_once() {
        let heat = Heat::new(10);
        (0..100).for_each(|_| heat.is_read(ChunkIndex(3), 7));
        assert_eq!(heat.reads(ChunkIndex(3)), 1);
        (8..20).for_each(|second| heat.is_read(ChunkIndex(3), second));
        assert_eq!(heat.reads(ChunkIndex(3)), READS_MAX);
        (0..9).for_each(|_| heat.lower(ChunkIndex(3)));
        assert_eq!(heat.reads(ChunkIndex(3)), 0);
    }
}
