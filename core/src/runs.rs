//! A map from runs of blocks to values. A later insertion covers earlier ones.

use crate::units::BlockRange;
use std::collections::BTreeMap;

/// A value that stands for a run of blocks.
pub trait Run: Clone {
    /// The value for the run that begins `blocks` later.
    fn skip(&self, blocks: u64) -> Self;
}

/// Runs that do not overlap, in order.
#[derive(Clone, Debug)]
pub struct RunMap<V> {
    runs: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for RunMap<V> {
    fn default() -> Self {
        Self { runs: BTreeMap::new() }
    }
}

impl<V: Run> RunMap<V> {
    /// A map without runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Covers `range` with `value`.
    pub fn insert(&mut self, range: BlockRange, value: V) {
        if range.is_empty() {
            return;
        }
        self.remove(range);
        self.runs.insert(range.start, (range.end, value));
    }

    /// Uncovers `range`.
    pub fn remove(&mut self, range: BlockRange) {
        if range.is_empty() {
            return;
        }
        // At most one run begins before the range and reaches into it.
        if let Some((&start, (end, value))) = self.runs.range_mut(..range.start).next_back()
            && *end > range.start
        {
            let (old_end, tail) = (*end, value.skip(range.end.saturating_sub(start)));
            *end = range.start;
            if old_end > range.end {
                self.runs.insert(range.end, (old_end, tail));
                return;
            }
        }
        while let Some((&start, _)) = self.runs.range(range.start..range.end).next() {
            let (end, value) = self.runs.remove(&start).expect("it was just found");
            if end > range.end {
                self.runs.insert(range.end, (end, value.skip(range.end - start)));
            }
        }
    }

    /// The whole run that holds the block, with the value of its first block.
    pub fn run_at(&self, block: u64) -> Option<(BlockRange, &V)> {
        let (&start, (end, value)) = self.runs.range(..=block).next_back()?;
        (*end > block).then_some((BlockRange { start, end: *end }, value))
    }

    /// The parts of runs inside `range`, in order.
    pub fn overlapping(&self, range: BlockRange) -> impl Iterator<Item = (BlockRange, V)> {
        let before = self.runs.range(..range.start).next_back().filter(|(_, (end, _))| *end > range.start);
        let inside = self.runs.range(range.start..range.end.max(range.start));
        before.into_iter().chain(inside).map(move |(&start, (end, value))| {
            let part = BlockRange { start, end: *end }.intersect(&range);
            (part, value.skip(part.start - start))
        })
    }

    /// The parts of `range`, in order and without gaps; covered ones have their value.
    pub fn pieces(&self, range: BlockRange) -> Vec<(BlockRange, Option<V>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for (part, value) in self.overlapping(range) {
            if part.start > at {
                pieces.push((BlockRange { start: at, end: part.start }, None));
            }
            at = part.end;
            pieces.push((part, Some(value)));
        }
        if at < range.end {
            pieces.push((BlockRange { start: at, end: range.end }, None));
        }
        pieces
    }

    /// All runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (BlockRange, &V)> {
        self.runs.iter().map(|(&start, (end, value))| (BlockRange { start, end: *end }, value))
    }
}

impl<V: Run + PartialEq> RunMap<V> {
    /// Covers `range` with `value`, merged with neighbouring runs that it continues or that continue it.
    pub fn join(&mut self, mut range: BlockRange, mut value: V) {
        if range.is_empty() {
            return;
        }
        self.remove(range);
        if let Some(last) = range.start.checked_sub(1)
            && let Some((before, first)) = self.run_at(last)
            && first.skip(before.count()) == value
        {
            value = first.clone();
            range.start = before.start;
        }
        if let Some((after, first)) = self.run_at(range.end)
            && value.skip(range.count()) == *first
        {
            range.end = after.end;
        }
        self.insert(range, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// A run that knows which block each of its blocks was when it was inserted.
    #[derive(Clone, Debug, PartialEq)]
    struct Tagged(u32, u64);

    impl Run for Tagged {
        fn skip(&self, blocks: u64) -> Self {
            Tagged(self.0, self.1 + blocks)
        }
    }

    #[test]
    fn join_merges_only_runs_that_continue_each_other() {
        let mut map = RunMap::new();
        map.join(BlockRange::new(10, 5), Tagged(1, 100));
        map.join(BlockRange::new(20, 5), Tagged(1, 110));
        map.join(BlockRange::new(15, 5), Tagged(1, 105));
        assert_eq!(map.run_at(17), Some((BlockRange::new(10, 15), &Tagged(1, 100))));
        map.join(BlockRange::new(12, 2), Tagged(2, 0));
        map.join(BlockRange::new(25, 1), Tagged(1, 0));
        let runs: Vec<_> = map.iter().map(|(range, _)| (range.start, range.end)).collect();
        assert_eq!(runs, [(10, 12), (12, 14), (14, 25), (25, 26)]);
        assert_eq!(map.run_at(14).unwrap().1, &Tagged(1, 104));
        assert_eq!(map.run_at(26), None);
        assert_eq!(map.run_at(9), None);
    }

    #[test]
    fn random_operations_agree_with_a_plain_array() {
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut map = RunMap::new();
            let mut model: Vec<Option<u32>> = vec![None; 64];
            for tag in 0..60 {
                let start = rng.random_range(0..60);
                let range = BlockRange { start, end: rng.random_range(start..=64) };
                let value = rng.random_bool(0.8).then_some(tag);
                match value {
                    Some(tag) => map.insert(range, Tagged(tag, range.start)),
                    None => map.remove(range),
                }
                model[range.start as usize..range.end as usize].fill(value);

                let at = rng.random_range(0..64);
                let asked = BlockRange { start: at, end: rng.random_range(at..=64) };
                let mut next = asked.start;
                for (part, found) in map.pieces(asked) {
                    assert_eq!(part.start, next, "seed {seed}: no gaps");
                    next = part.end;
                    for block in part.iter() {
                        assert_eq!(
                            found.as_ref().map(|t| t.0),
                            model[block as usize],
                            "seed {seed} block {block}"
                        );
                    }
                    if let Some(Tagged(_, origin)) = found {
                        assert_eq!(origin, part.start, "seed {seed}: a split run knows where it is");
                    }
                }
                assert_eq!(next, asked.end.max(asked.start), "seed {seed}");
            }
        }
    }
}
