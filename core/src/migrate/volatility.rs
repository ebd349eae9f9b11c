//! Which parts of a drive are written again and again. A block that is sent and then written has to be sent once more, so what changes least is sent
//! first, and what changes all the time is sent once, when programs wait. Pure.

use crate::units::{BLOCK_BYTES, BlockRange};
use std::collections::HashMap;
use std::time::Duration;

/// Blocks of a group (1 MiB): finer than most files that are written again and again, and 100 GiB are 100,000 groups.
const GROUP_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;
/// Weights fade to 1/e within these times. Together they tell a burst from a habit.
const FADES: [f64; 3] = [1.0, 10.0, 60.0];
/// A group that was written in about this many of the last ten seconds is hot.
const HOT: f64 = 4.0;
/// Groups that are remembered. Those that were written least are forgotten.
const GROUPS_MAX: usize = 1 << 17;

/// How often each group was written lately.
#[derive(Debug, Default)]
pub struct Volatility {
    groups: HashMap<u64, Group>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    at: Duration,
    weights: [f64; 3],
}

impl Group {
    fn faded(&self, now: Duration) -> [f64; 3] {
        let age = now.saturating_sub(self.at).as_secs_f64();
        std::array::from_fn(|index| self.weights[index] * (-age / FADES[index]).exp())
    }
}

impl Volatility {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// These runs were written since the last call. A group counts once for each call, however many of its blocks were written.
    pub fn wrote(&mut self, now: Duration, runs: &[BlockRange]) {
        let mut last = None;
        for run in runs.iter().filter(|run| !run.is_empty()) {
            for group in run.start / GROUP_BLOCKS..=(run.end - 1) / GROUP_BLOCKS {
                if last == Some(group) {
                    continue;
                }
                last = Some(group);
                let weights = self.groups.get(&group).map_or([0.0; 3], |group| group.faded(now));
                self.groups.insert(group, Group { at: now, weights: weights.map(|weight| weight + 1.0) });
            }
        }
        if self.groups.len() > GROUPS_MAX {
            self.groups.retain(|_, group| group.faded(now)[2] > 0.05);
            if self.groups.len() > GROUPS_MAX {
                self.groups.clear();
            }
        }
    }

    /// Whether the group of this block is written all the time.
    pub fn is_hot(&self, now: Duration, block: u64) -> bool {
        self.groups.get(&(block / GROUP_BLOCKS)).is_some_and(|group| group.faded(now)[1] >= HOT)
    }

    /// The runs cut at the borders of groups, those that change least first; and apart from them those that are hot.
    pub fn order(&self, now: Duration, runs: &[BlockRange]) -> (Vec<BlockRange>, Vec<BlockRange>) {
        let mut pieces: Vec<(f64, BlockRange)> = Vec::new();
        let mut hot = Vec::new();
        for piece in runs.iter().flat_map(|run| by_group(*run)) {
            match self.groups.get(&(piece.start / GROUP_BLOCKS)).map(|group| group.faded(now)) {
                Some(weights) if weights[1] >= HOT => hot.push(piece),
                Some(weights) => pieces.push((weights[0] + weights[1] / 10.0 + weights[2] / 60.0, piece)),
                None => pieces.push((0.0, piece)),
            }
        }
        pieces.sort_by(|(a, left), (b, right)| a.total_cmp(b).then(left.cmp(right)));
        (pieces.into_iter().map(|(_, piece)| piece).collect(), hot)
    }
}

fn by_group(run: BlockRange) -> impl Iterator<Item = BlockRange> {
    let mut at = run.start;
    std::iter::from_fn(move || {
        (at < run.end).then(|| {
            let end = ((at / GROUP_BLOCKS + 1) * GROUP_BLOCKS).min(run.end);
            let piece = BlockRange { start: at, end };
            at = end;
            piece
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(index: u64) -> BlockRange {
        BlockRange::new(index * GROUP_BLOCKS, 4)
    }

    #[test]
    fn what_changes_least_comes_first() {
        let mut volatility = Volatility::new();
        for second in 0..3 {
            volatility.wrote(Duration::from_secs(second), &[group(1)]);
        }
        volatility.wrote(Duration::from_secs(1), &[group(2)]);
        let (order, hot) = volatility.order(Duration::from_secs(3), &[group(1), group(2), group(3)]);
        assert_eq!((order, hot), (vec![group(3), group(2), group(1)], vec![]));
    }

    #[test]
    fn a_group_that_never_rests_is_hot_until_it_does() {
        let mut volatility = Volatility::new();
        for second in 0..10 {
            volatility.wrote(Duration::from_secs(second), &[group(7)]);
        }
        assert!(volatility.is_hot(Duration::from_secs(10), group(7).start));
        assert!(!volatility.is_hot(Duration::from_secs(40), group(7).start));
        let (order, hot) = volatility.order(Duration::from_secs(10), &[group(7)]);
        assert_eq!((order, hot), (vec![], vec![group(7)]));
    }

    #[test]
    fn ordering_loses_no_block() {
        let mut volatility = Volatility::new();
        volatility.wrote(Duration::ZERO, &[group(1)]);
        let run = BlockRange { start: 10, end: 5 * GROUP_BLOCKS + 3 };
        let (mut order, hot) = volatility.order(Duration::ZERO, &[run]);
        order.extend(hot);
        assert_eq!(crate::units::coalesce(order, 1), [run]);
    }

    #[test]
    fn memory_stays_bounded() {
        let mut volatility = Volatility::new();
        for step in 0..3 {
            let all = BlockRange { start: 0, end: GROUP_BLOCKS * (GROUPS_MAX as u64 + 1) };
            volatility.wrote(Duration::from_secs(step), &[all]);
            assert!(volatility.groups.len() <= GROUPS_MAX);
        }
    }
}
