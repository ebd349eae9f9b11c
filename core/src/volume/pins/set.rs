//! The pins of a drive as runs of blocks. Pure.

use crate::units::BlockRange;

/// The blocks that are always kept on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    runs: Vec<BlockRange>,
    is_whole: bool,
}

impl Pinned {
    /// These blocks, in any order. They may repeat.
    pub fn runs(runs: impl IntoIterator<Item = BlockRange>) -> Self {
        let mut sorted: Vec<_> = runs.into_iter().filter(|run| !run.is_empty()).collect();
        sorted.sort_unstable();
        let mut runs: Vec<BlockRange> = Vec::with_capacity(sorted.len());
        for run in sorted {
            match runs.last_mut().filter(|last| run.start <= last.end) {
                Some(last) => last.end = last.end.max(run.end),
                None => runs.push(run),
            }
        }
        runs.shrink_to_fit();
        Self { runs, is_whole: false }
    }

    /// The whole drive, also as it grows.
    pub fn whole() -> Self {
        Self { runs: Vec::new(), is_whole: true }
    }

    /// Whether the whole drive is pinned.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether nothing is pinned.
    pub fn is_empty(&self) -> bool {
        !self.is_whole && self.runs.is_empty()
    }

    /// The runs, in order and apart from each other; none for the whole drive.
    pub fn as_runs(&self) -> &[BlockRange] {
        &self.runs
    }

    /// The same as runs below `end`, also for the whole drive.
    pub(in crate::volume) fn below(&self, end: u64) -> Vec<BlockRange> {
        let all = BlockRange { start: 0, end };
        match self.is_whole {
            true => vec![all],
            false => self.runs.iter().map(|run| run.intersect(&all)).filter(|run| !run.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_put_in_order_and_joined() {
        let run = |start, end| BlockRange { start, end };
        let pinned = Pinned::runs([run(9, 12), run(3, 5), run(5, 6), run(4, 5), run(7, 7), run(11, 20)]);
        assert_eq!(pinned.as_runs(), [run(3, 6), run(9, 20)]);
        assert_eq!(pinned.below(10), [run(3, 6), run(9, 10)]);
        assert_eq!(Pinned::whole().below(10), [run(0, 10)]);
        assert!(Pinned::runs([]).is_empty() && !Pinned::whole().is_empty());
    }
}
