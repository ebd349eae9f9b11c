//! What is to be read, and what was found. A block is here at most once, however often it is written.

use super::Kind;
use crate::runs::{Run, RunMap};
use crate::units::{BlockRange, coalesce};

/// A set is a map to nothing.
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
    /// Blocks whose content is to be learnt.
    to_read: RunMap<Mark>,
    /// Metadata that was found since it was last told.
    found: RunMap<Kind>,
    /// Whether something of what is just being learnt from is not believed.
    doubts: bool,
    /// Whether something was left out because a limit was reached.
    pub is_full: bool,
}

impl Agenda {
    /// The content of these blocks is to be learnt.
    pub fn read(&mut self, range: BlockRange) {
        self.to_read.join(range, Mark);
    }

    /// Forgets what was to be read.
    pub fn clear(&mut self) {
        self.to_read = RunMap::new();
        self.found = RunMap::new();
    }

    /// What is to be read, in order; where blocks lie less than `gap` apart, as one range.
    pub fn wanted(&self, gap: u64) -> Vec<BlockRange> {
        coalesce(self.to_read.iter().map(|(range, _)| range).collect(), gap)
    }

    /// Takes off what is to be read of `ranges`.
    pub fn take(&mut self, ranges: &[BlockRange]) -> Vec<BlockRange> {
        let inside =
            |range: &BlockRange| self.to_read.overlapping(*range).map(|(part, _)| part).collect::<Vec<_>>();
        let taken: Vec<_> = ranges.iter().flat_map(inside).collect();
        taken.iter().for_each(|range| self.to_read.remove(*range));
        taken
    }

    /// Tells of metadata.
    pub fn found(&mut self, range: BlockRange, kind: Kind) {
        self.found.join(range, kind);
    }

    /// What was found since this was last asked, in order.
    pub fn take_found(&mut self) -> Vec<(BlockRange, Kind)> {
        std::mem::take(&mut self.found).iter().map(|(range, kind)| (range, *kind)).collect()
    }

    /// Something is not believed.
    pub fn doubt(&mut self) {
        self.doubts = true;
    }

    /// Whether something was not believed since this was last asked.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_close_together_are_one_and_others_are_not() {
        let ranges = [(40, 41), (0, 1), (1, 2), (17, 18), (34, 35), (34, 36)];
        let ranges = ranges.map(|(start, end)| BlockRange { start, end }).to_vec();
        let pairs = |gap| coalesce(ranges.clone(), gap).iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
        assert_eq!(pairs(16), [(0, 18), (34, 41)]);
        assert_eq!(pairs(17), [(0, 41)]);
        assert_eq!(pairs(0), [(0, 2), (17, 18), (34, 36), (40, 41)]);
        assert_eq!(pairs(u64::MAX), [(0, 41)]);
    }
}
