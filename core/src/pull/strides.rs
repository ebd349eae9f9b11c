//! Reads at equal distances, as of a column in a table or of every tenth frame of a film. Pure.
//!
//! Four reads in a row at one distance, upwards or downwards, are a pattern, and the next ones are wanted: as many as the
//! pattern has shown, within bounds. Other reads may lie between.

use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX};
use std::collections::VecDeque;

/// How many reads are remembered.
const RECENT_MAX: usize = 32;
/// Reads at one distance that make a pattern.
const PATTERN: i64 = 4;
/// Most reads that are wanted ahead.
const AHEAD_MAX: i64 = 16;
/// Reads farther apart (64 MiB) are no pattern but coincidence.
const DISTANCE_MAX: i64 = 16_384;
/// Larger reads (256 KiB) are runs by themselves.
const READ_MAX: u64 = 64;
const END: i64 = (DRIVE_BYTES_MAX / BLOCK_BYTES) as i64;

/// The recent reads of one drive.
#[derive(Debug, Default)]
pub struct Strides {
    recent: VecDeque<BlockRange>,
}

impl Strides {
    /// Blocks were read. Returns what will be read next if they continue a pattern. That may reach beyond the end of the
    /// drive.
    pub fn read(&mut self, blocks: BlockRange) -> Vec<BlockRange> {
        if blocks.count() > READ_MAX || self.recent.back() == Some(&blocks) {
            return Vec::new();
        }
        let found = self.pattern(blocks);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(blocks);
        let Some((distance, shown)) = found else { return Vec::new() };
        let next = (1..=shown.min(AHEAD_MAX)).map(|turn| blocks.start as i64 + turn * distance);
        let next = next.take_while(|start| (0..END).contains(start));
        next.map(|start| BlockRange::new(start as u64, blocks.count())).collect()
    }

    /// The distance of the pattern that ends with `blocks`, and how many reads have shown it.
    fn pattern(&self, blocks: BlockRange) -> Option<(i64, i64)> {
        let start = blocks.start as i64;
        let is_recent = |at: i64| self.recent.iter().any(|recent| recent.start as i64 == at);
        self.recent.iter().rev().find_map(|before| {
            let distance = start - before.start as i64;
            // Reads that touch belong to a stream.
            if distance.unsigned_abs() <= blocks.count() || distance.abs() > DISTANCE_MAX {
                return None;
            }
            let shown = (1..).take_while(|turn| is_recent(start - turn * distance)).count() as i64 + 1;
            (shown >= PATTERN).then_some((distance, shown))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn starts(wants: &[BlockRange]) -> Vec<u64> {
        wants.iter().map(|want| want.start).collect()
    }

    #[test]
    fn four_reads_at_one_distance_predict_the_next() {
        for (from, distance) in [(1000, 50_i64), (9000, -50)] {
            let mut strides = Strides::default();
            let at = |turn: i64| (from + turn * distance) as u64;
            for turn in 0..3 {
                assert_eq!(strides.read(BlockRange::new(at(turn), 2)), []);
            }
            let wants = strides.read(BlockRange::new(at(3), 2));
            assert_eq!(starts(&wants), (4..8).map(at).collect::<Vec<_>>());
            assert!(wants.iter().all(|want| want.count() == 2));
            // The longer the pattern, the more is wanted.
            let last = (4..30).map(|turn| strides.read(BlockRange::new(at(turn), 2))).last().unwrap();
            assert_eq!(last.len() as i64, AHEAD_MAX);
        }
    }

    #[test]
    fn other_reads_in_between_do_not_hide_a_pattern() {
        let mut strides = Strides::default();
        let mut wanted = Vec::new();
        for turn in 0..10 {
            wanted.extend(strides.read(BlockRange::new(500 + turn * 100, 1)));
            wanted.extend(strides.read(BlockRange::new(70_000 + turn * 33, 1)));
            strides.read(BlockRange::new(turn * turn * 977 % 40_000, 1));
        }
        assert!(wanted.contains(&BlockRange::new(1500, 1)) && wanted.contains(&BlockRange::new(70_330, 1)));
    }

    #[test]
    fn ignores_random_reads_and_predicts_within_the_drive() {
        let (mut strides, mut rng) = (Strides::default(), StdRng::seed_from_u64(3));
        let wanted: usize =
            (0..10_000).map(|_| strides.read(BlockRange::new(rng.random_range(0..1 << 20), 1)).len()).sum();
        assert!(wanted < 20, "{wanted}");
        let down = (0..4).map(|turn| strides.read(BlockRange::new(330 - turn * 100, 1))).last().unwrap();
        assert_eq!(down, [], "there is nothing below zero");
    }
}
