//! Which blocks do not come, and since when. A store may answer for all objects but one: a reader of that one learns it
//! here, while [`Health`](super::Health) reports no trouble.

use crate::units::BlockRange;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Stalls that are remembered. Beyond that the oldest is forgotten, and readers of its blocks wait a while longer.
const STALLS_MAX: usize = 256;
/// A stall that was not tried for this long is forgotten: twice the longest pause between two tries.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// Blocks that do not come.
#[derive(Clone, Debug)]
pub struct Stall {
    blocks: BlockRange,
    /// Why.
    pub why: String,
    /// When the first try that failed began.
    pub since: Instant,
    /// When the last try had failed.
    pub failed: Instant,
}

/// All stalls.
#[derive(Default)]
pub struct Stalls(
    // Held only to look at one or to change one.
    Mutex<Vec<Stall>>,
);

impl Stalls {
    /// A try that began at `begun` has failed and will be repeated.
    pub fn note(&self, blocks: BlockRange, begun: Instant, why: String) {
        let (mut stalls, failed) = (self.0.lock(), Instant::now());
        stalls.retain(|stall| stall.failed.elapsed() < FORGOTTEN_AFTER);
        let before = stalls.iter().filter(|stall| stall.blocks.overlaps(&blocks));
        let since = before.map(|stall| stall.since).min().map_or(begun, |first| first.min(begun));
        stalls.retain(|stall| stall.blocks.intersect(&blocks) != stall.blocks);
        if stalls.len() == STALLS_MAX {
            stalls.remove(0);
        }
        stalls.push(Stall { blocks, why, since, failed });
    }

    /// The blocks have come, or will not.
    pub fn is_over(&self, blocks: BlockRange) {
        let mut stalls = self.0.lock();
        // Every pull passes here.
        if !stalls.is_empty() {
            stalls.retain(|stall| !stall.blocks.overlaps(&blocks));
        }
    }

    /// The oldest stall of any of the blocks.
    pub fn of(&self, blocks: BlockRange) -> Option<Stall> {
        let stalls = self.0.lock();
        let is_meant =
            |stall: &&Stall| stall.blocks.overlaps(&blocks) && stall.failed.elapsed() < FORGOTTEN_AFTER;
        stalls.iter().filter(is_meant).min_by_key(|stall| stall.since).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stall_counts_from_its_first_failed_try() {
        let (stalls, begun) = (Stalls::default(), Instant::now());
        let run = |start, count| BlockRange::new(start, count);
        stalls.note(run(0, 16), begun, "away".into());
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(60)).await;
            stalls.note(run(0, 16), Instant::now(), "away".into());
        }
        let stall = stalls.of(run(15, 9)).unwrap();
        assert_eq!((stall.since, stall.failed), (begun, begun + Duration::from_secs(180)));
        assert!(stalls.of(run(16, 9)).is_none());
        stalls.is_over(run(4, 1));
        assert!(stalls.of(run(0, 16)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn stalls_are_bounded_and_old_ones_are_forgotten() {
        let stalls = Stalls::default();
        for block in 0..STALLS_MAX as u64 + 9 {
            stalls.note(BlockRange::new(block, 1), Instant::now(), String::new());
        }
        assert_eq!(stalls.0.lock().len(), STALLS_MAX);
        assert!(stalls.of(BlockRange::new(8, 1)).is_none() && stalls.of(BlockRange::new(9, 1)).is_some());
        tokio::time::advance(FORGOTTEN_AFTER).await;
        assert!(stalls.of(BlockRange::new(9, 1)).is_none());
    }
}
