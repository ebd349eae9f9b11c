//! Blocks that were written since they were last taken, for the device that a drive is handed over to. Pure.
//!
//! A taken set is kept until the other device acknowledges it. If the connection breaks before that, the set merges back, and the blocks
//! are taken again. Blocks that were written meanwhile are tracked already: their content is read when they are taken, so each block is
//! sent at least once after its last write.

use crate::planted::{self, Bug};
use crate::runs::{Run, RunMap};
use crate::units::BlockRange;
use std::collections::BTreeMap;

/// How a run was written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Before tracking began. Its content is not known without a look.
    Before,
    /// With data.
    Data,
    /// As zeros, without data.
    Zero,
}

impl Run for Written {
    fn skip(&self, _blocks: u64) -> Self {
        *self
    }
}

/// A set that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its number: 1 for the first, and one more for each later one.
    pub number: u64,
    /// Its runs, in order.
    pub runs: Vec<(BlockRange, Written)>,
}

/// The written runs, and the taken sets that are not acknowledged.
#[derive(Debug, Default)]
pub struct Tracker {
    waiting: RunMap<Written>,
    taken: BTreeMap<u64, Vec<(BlockRange, Written)>>,
    last: u64,
}

impl Tracker {
    /// Tracks from now on. `before` is what the other device lacks already.
    pub fn new(before: impl IntoIterator<Item = BlockRange>) -> Self {
        let mut tracker = Self::default();
        before.into_iter().for_each(|run| tracker.waiting.join(run, Written::Before));
        tracker
    }

    /// A run was written.
    pub fn wrote(&mut self, run: BlockRange, how: Written) {
        self.waiting.join(run, how);
    }

    /// A look found that blocks which were written before tracking read as zeros. It does not count for blocks that were written since.
    pub fn is_zero(&mut self, run: BlockRange) {
        let before: Vec<_> =
            self.waiting.overlapping(run).filter(|(_, how)| *how == Written::Before).collect();
        before.into_iter().for_each(|(part, _)| self.waiting.join(part, Written::Zero));
    }

    /// Takes the first runs with at most `most_blocks` blocks of data and `most_runs` runs: zeros cost nothing to send, however long they
    /// are. `None` if nothing waits.
    pub fn take(&mut self, most_blocks: u64, most_runs: usize) -> Option<Taken> {
        let (mut runs, mut blocks) = (Vec::new(), 0);
        for (run, how) in self.waiting.iter() {
            let left = most_blocks.max(1) - blocks;
            let part = match how {
                Written::Zero => run,
                Written::Before | Written::Data => BlockRange::new(run.start, run.count().min(left)),
            };
            if part.is_empty() || runs.len() == most_runs.max(1) {
                break;
            }
            if *how != Written::Zero {
                blocks += part.count();
            }
            runs.push((part, *how));
        }
        if runs.is_empty() {
            return None;
        }
        runs.iter().for_each(|(run, _)| self.waiting.remove(*run));
        self.last += 1;
        if !planted::has(Bug::RoundForgottenBeforeItsAnswer) {
            self.taken.insert(self.last, runs.clone());
        }
        Some(Taken { number: self.last, runs })
    }

    /// The other device has this set durably. Acknowledging it twice changes nothing.
    pub fn acknowledged(&mut self, number: u64) {
        self.taken.remove(&number);
    }

    /// Sets without an acknowledgement are to be taken again.
    pub fn merge_back(&mut self) {
        for (run, how) in std::mem::take(&mut self.taken).into_values().flatten() {
            for (part, since) in self.waiting.pieces(run) {
                if since.is_none() {
                    self.waiting.join(part, how);
                }
            }
        }
    }

    /// Whether everything was taken.
    pub fn is_all_taken(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether every set that was taken was acknowledged.
    pub fn is_all_acknowledged(&self) -> bool {
        self.taken.is_empty()
    }

    /// Blocks that were not taken yet, apart from zeros.
    pub fn waiting_blocks(&self) -> u64 {
        blocks(self.waiting.iter().map(|(run, how)| (run, *how)))
    }

    /// Blocks in sets that were not acknowledged, apart from zeros.
    pub fn unacknowledged_blocks(&self) -> u64 {
        blocks(self.taken.values().flatten().copied())
    }

    /// The runs that wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (BlockRange, Written)> {
        self.waiting.iter().map(|(run, how)| (run, *how))
    }
}

fn blocks(runs: impl Iterator<Item = (BlockRange, Written)>) -> u64 {
    runs.filter(|(_, how)| *how != Written::Zero).map(|(run, _)| run.count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, end: u64) -> BlockRange {
        BlockRange { start, end }
    }

    #[test]
    fn a_taken_set_stays_until_it_is_acknowledged() {
        let mut tracker = Tracker::new([run(0, 4), run(10, 12)]);
        tracker.wrote(run(3, 6), Written::Data);
        let first = tracker.take(100, 100).unwrap();
        let runs = [(run(0, 3), Written::Before), (run(3, 6), Written::Data), (run(10, 12), Written::Before)];
        assert_eq!((first.number, &first.runs[..]), (1, &runs[..]));
        assert!(tracker.is_all_taken() && !tracker.is_all_acknowledged());
        assert_eq!(tracker.take(100, 100), None);
        // Written again while the set is under way: as zeros, which a set that merges back does not undo.
        tracker.wrote(run(4, 5), Written::Zero);
        tracker.merge_back();
        let second = tracker.take(100, 100).unwrap();
        assert_eq!(second.number, 2);
        let again: u64 = second.runs.iter().map(|(run, _)| run.count()).sum();
        assert_eq!(again, 8);
        assert!(second.runs.contains(&(run(4, 5), Written::Zero)), "{second:?}");
        tracker.acknowledged(2);
        tracker.acknowledged(2);
        tracker.merge_back();
        assert_eq!(tracker.take(100, 100), None);
        assert!(tracker.is_all_acknowledged());
    }

    #[test]
    fn sets_are_bounded_and_zeros_cost_nothing() {
        let mut tracker = Tracker::new([run(0, 10)]);
        tracker.wrote(run(20, 1 << 30), Written::Zero);
        assert_eq!(tracker.waiting_blocks(), 10);
        let runs = tracker.take(6, 100).unwrap().runs;
        assert_eq!(runs, [(run(0, 6), Written::Before)]);
        let runs = tracker.take(6, 100).unwrap().runs;
        assert_eq!(runs, [(run(6, 10), Written::Before), (run(20, 1 << 30), Written::Zero)]);
        assert_eq!(tracker.unacknowledged_blocks(), 10);
        for at in 0..10 {
            tracker.wrote(run(at * 2, at * 2 + 1), Written::Data);
        }
        assert_eq!(tracker.take(100, 3).unwrap().runs.len(), 3);
        assert_eq!(tracker.take(0, 0).unwrap().runs.len(), 1, "a limit of nothing still makes progress");
    }

    #[test]
    fn a_look_never_hides_a_later_write() {
        let mut tracker = Tracker::new([run(0, 10)]);
        tracker.wrote(run(4, 6), Written::Data);
        tracker.is_zero(run(0, 10));
        let runs = tracker.take(100, 100).unwrap().runs;
        assert_eq!(
            runs,
            [(run(0, 4), Written::Zero), (run(4, 6), Written::Data), (run(6, 10), Written::Zero)]
        );
    }
}
