//! Small files that lie together and are read one after another, as by a copy of a folder, a build or a search. Pure.
//!
//! Each is too short for a stream, and fetched alone it costs a round trip. A reader that has just read a few whole small
//! files near each other on the drive will probably read those between and around them too, in any order: file systems put
//! the files of one folder side by side, and list them in another order. Reads of heads alone do not count
//! ([`super::Scans`]).

use super::source::FilePlace;
use crate::units::BlockRange;
use std::collections::VecDeque;

/// Larger files (256 KiB) are left to streams.
const SMALL_MAX: u64 = 64;
/// How many files are remembered.
const RECENT_MAX: usize = 16;
/// Files within this distance (8 MiB) lie together.
const NEAR: u64 = 2048;
/// This many together are a pattern.
const TOGETHER: usize = 4;
/// Wanted around the last one (1 MiB), and as much again after it if the files go upwards.
const AROUND: u64 = 256;

/// The small files of one drive that were missed recently.
#[derive(Debug, Default)]
pub struct SmallFiles {
    /// Where on the drive each begins.
    recent: VecDeque<u64>,
}

impl SmallFiles {
    /// A reader waits for `blocks` of the drive, the first of which is `place`. If they are a small file among others,
    /// returns the blocks around them that will be read too. The range may reach beyond the end of the drive.
    pub fn missed(&mut self, place: FilePlace, blocks: BlockRange) -> Option<BlockRange> {
        let is_whole = place.at == 0 && blocks.count() >= place.end;
        if !is_whole || place.end > SMALL_MAX {
            return None;
        }
        let at = blocks.start;
        let near = self.recent.iter().filter(|other| other.abs_diff(at) <= NEAR);
        let (others, below) = (near.clone().count(), near.filter(|other| **other < at).count());
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(at);
        if others + 1 < TOGETHER {
            return None;
        }
        let start = at / AROUND * AROUND;
        let is_upwards = below == others;
        Some(BlockRange::new(start, if is_upwards { 2 * AROUND } else { AROUND }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::FileNumber;
    use super::*;
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    /// Copies files of `len` blocks that begin at `starts`. Returns the round trips, and the blocks that were fetched.
    fn copy(starts: impl IntoIterator<Item = u64>, len: u64) -> (usize, usize) {
        let (mut neighbours, mut local, mut trips) = (SmallFiles::default(), BTreeSet::new(), 0);
        for start in starts {
            let blocks = BlockRange::new(start, len);
            if blocks.iter().all(|block| local.contains(&block)) {
                continue;
            }
            trips += 1;
            local.extend(blocks.iter());
            let place = FilePlace { file: FileNumber(start as u32), at: 0, end: len };
            local.extend(neighbours.missed(place, blocks).into_iter().flat_map(|around| around.iter()));
        }
        (trips, local.len())
    }

    #[test]
    fn small_files_in_a_folder_cost_few_round_trips() {
        let mut starts: Vec<u64> = (0..2000).map(|number| 50_000 + number * 5).collect();
        let (trips, fetched) = copy(starts.iter().copied(), 5);
        assert!(trips <= 40 && fetched <= 10_800, "{trips} for {fetched}");
        starts.shuffle(&mut StdRng::seed_from_u64(1));
        let (trips, fetched) = copy(starts, 5);
        assert!(trips <= 120 && fetched <= 10_800, "{trips} for {fetched}");
    }

    #[test]
    fn scattered_files_heads_and_large_files_fetch_no_neighbours() {
        let mut rng = StdRng::seed_from_u64(2);
        let (trips, fetched) = copy((0..500).map(|_| rng.random_range(0..100_000_000_u64) * 8), 5);
        assert_eq!((trips, fetched), (500, 2500));
        let mut neighbours = SmallFiles::default();
        for number in 0..100 {
            let place = |end| FilePlace { file: FileNumber(number as u32 + 20), at: 0, end };
            assert_eq!(neighbours.missed(place(40), BlockRange::new(number * 40, 4)), None);
            assert_eq!(neighbours.missed(place(100), BlockRange::new(number * 100, 100)), None);
        }
    }
}
