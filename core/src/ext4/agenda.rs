//! The blocks to read, and the metadata found. A block is here at most once, however often it is written.

use super::Kind;
use crate::runs::{Run, RunMap};
use crate::units::{BlockRange, coalesce};

/// The value of a map that is used as a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark;

impl Run for Mark {
    fn skip(&self, _blocks: u64) -> Self {
        Mark
    }
}

/// The walk's next steps.
#[derive(Default)]
pub struct Agenda {
    /// Blocks whose content is to be read.
    to_read: RunMap<Mark>,
    /// Metadata found since the last call of `take_found`.
    found: RunMap<Kind>,
    /// Whether the block that is being read is not trusted.
    doubts: bool,
    /// Whether a limit was reached and something was left out.
    pub is_full: bool,
}

impl Agenda {
    /// Notes that the content of these blocks is to be read.
    pub fn read(&mut self, range: BlockRange) {
        self.to_read.join(range, Mark);
    }

    /// Forgets all blocks to read and all metadata found.
    pub fn clear(&mut self) {
        self.to_read = RunMap::new();
        self.found = RunMap::new();
    }

    /// The blocks to read, in order. Blocks less than `gap` apart are one range.
    pub fn wanted(&self, gap: u64) -> Vec<BlockRange> {
        coalesce(self.to_read.iter().map(|(range, _)| range).collect(), gap)
    }

    /// Takes out the blocks to read that are in `ranges`.
    pub fn take(&mut self, ranges: &[BlockRange]) -> Vec<BlockRange> {
        let inside =
            |range: &BlockRange| self.to_read.overlapping(*range).map(|(part, _)| part).collect::<Vec<_>>();
        let taken: Vec<_> = ranges.iter().flat_map(inside).collect();
        taken.iter().for_each(|range| self.to_read.remove(*range));
        taken
    }

    /// Notes metadata that was found.
    pub fn found(&mut self, range: BlockRange, kind: Kind) {
        self.found.join(range, kind);
    }

    /// The metadata found since the last call, in order.
    pub fn take_found(&mut self) -> Vec<(BlockRange, Kind)> {
        std::mem::take(&mut self.found).iter().map(|(range, kind)| (range, *kind)).collect()
    }

    /// Notes that something is not trusted.
    pub fn doubt(&mut self) {
        self.doubts = true;
    }

    /// Whether something was not trusted since the last call.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_close_together_become_one() {
        let ranges = [(40, 41), (0, 1), (1, 2), (17, 18), (34, 35), (34, 36)];
        let ranges = ranges.map(|(start, end)| BlockRange { start, end }).to_vec();
        let pairs = |gap| coalesce(ranges.clone(), gap).iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        assert_eq!(pairs(16), [(0, 18), (34, 41)]);
        assert_eq!(pairs(17), [(0, 41)]);
        assert_eq!(pairs(0), [(0, 2), (17, 18), (34, 36), (40, 41)]);
        assert_eq!(pairs(u64::MAX), [(0, 41)]);
    }
}
