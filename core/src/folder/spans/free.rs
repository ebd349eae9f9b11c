//! Free runs of chunks: the lowest that fits is taken, and neighbours are joined again.

use std::collections::BTreeMap;

/// Runs that are tried from the lowest on before the highest one, which is nearly always the long rest of the space.
const TRIES: usize = 1000;

/// The free chunks of a space.
pub(super) struct Free {
    /// Length by first chunk. No run touches the next one.
    runs: BTreeMap<u32, u32>,
}

impl Free {
    /// All of `chunks` are free.
    pub fn new(chunks: u32) -> Self {
        Self { runs: BTreeMap::from([(0, chunks)]) }
    }

    /// Takes a run of this length. Returns its first chunk.
    pub fn take(&mut self, chunks: u32) -> Option<u32> {
        let fits = |(_, len): &(&u32, &u32)| **len >= chunks;
        let low = self.runs.iter().take(TRIES).find(fits);
        let found = low.or_else(|| self.runs.iter().next_back().filter(fits));
        let (first, _) = found.or_else(|| self.runs.iter().find(fits))?;
        let first = *first;
        self.take_at(first, chunks).then_some(first)
    }

    /// Takes a run. Returns whether all of it was free.
    pub fn take_at(&mut self, first: u32, chunks: u32) -> bool {
        let Some(end) = first.checked_add(chunks) else { return false };
        let Some((&start, &len)) = self.runs.range(..=first).next_back() else { return false };
        if end > start + len {
            return false;
        }
        self.runs.remove(&start);
        if start < first {
            self.runs.insert(start, first - start);
        }
        if end < start + len {
            self.runs.insert(end, start + len - end);
        }
        true
    }

    /// A run is free again.
    pub fn give_back(&mut self, first: u32, chunks: u32) {
        let (mut start, mut end) = (first, first + chunks);
        if let Some((&before, &len)) = self.runs.range(..first).next_back() {
            assert!(before + len <= first, "chunks are given back once");
            if before + len == first {
                start = before;
            }
        }
        if let Some(len) = self.runs.remove(&end) {
            end += len;
        }
        self.runs.insert(start, end - start);
    }

    /// The first chunk and the length of each run, in order.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.iter().map(|(first, chunks)| (*first, *chunks))
    }
}
