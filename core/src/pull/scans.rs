//! Thumbnailers and indexers: a program that looks into one file after another must not pull the whole drive. Pure.
//!
//! Their misses give them away: of the recently missed files, most were only looked into, each from its beginning, and
//! little of each was read, at any places. Then nothing is pulled ahead of the reads that fit, and few of these reads are
//! under way at once. A reader that reads files to their ends, as a copy does, or returns to some of them, does not look
//! like that.

use super::source::{FileNumber, FilePlace};
use std::collections::VecDeque;

/// How many files are remembered.
const RECENT_MAX: usize = 48;
/// How many of them must be mere looks to make a scan.
const LOOKS_MIN: usize = 24;
/// The looks must be at least this part of all: three of four.
const LOOKS_OF: (usize, usize) = (3, 4);
/// A look first misses within this many blocks (512 KiB) of a file: the very beginning may be here already, if it was
/// foreseen. And it misses no more blocks than this, including what the kernel reads ahead of a read of 64 KiB, and a look
/// at the file's end.
const LOOK_BLOCKS: u64 = 128;
/// And no more than this part of the file.
const LOOK_OF: (u64, u64) = (3, 4);
/// A scan is over after this many seconds without a miss.
const IDLE_SECONDS: u64 = 20;

/// The recent misses of one drive.
#[derive(Debug, Default)]
pub struct Scans {
    recent: VecDeque<Missed>,
    /// The second of the last miss, by any clock that never goes back.
    last: u64,
}

/// The misses in one file.
#[derive(Clone, Copy, Debug)]
struct Missed {
    file: FileNumber,
    /// Whether the first miss was near its beginning.
    is_from_head: bool,
    blocks: u64,
    /// How many blocks the file has.
    of: u64,
}

impl Missed {
    fn is_look(&self) -> bool {
        let is_little = self.blocks <= LOOK_BLOCKS && self.blocks * LOOK_OF.1 <= self.of * LOOK_OF.0;
        self.is_from_head && is_little
    }
}

impl Scans {
    /// A reader waits for `blocks` blocks of a file, at a second. Returns whether that is part of a scan.
    pub fn missed(&mut self, place: FilePlace, blocks: u64, second: u64) -> bool {
        if second.saturating_sub(self.last) > IDLE_SECONDS {
            self.recent.clear();
        }
        self.last = second;
        let missed = match self.recent.iter_mut().find(|missed| missed.file == place.file) {
            Some(missed) => {
                missed.blocks += blocks;
                *missed
            }
            None => {
                if self.recent.len() == RECENT_MAX {
                    self.recent.pop_front();
                }
                let is_from_head = place.at < LOOK_BLOCKS;
                let missed = Missed { file: place.file, is_from_head, blocks, of: place.end };
                self.recent.push_back(missed);
                missed
            }
        };
        missed.is_look() && self.is_scan()
    }

    /// Whether a scan is under way at a second.
    pub fn is_under_way(&self, second: u64) -> bool {
        second.saturating_sub(self.last) <= IDLE_SECONDS && self.is_scan()
    }

    fn is_scan(&self) -> bool {
        let looks = self.recent.iter().filter(|missed| missed.is_look()).count();
        looks >= LOOKS_MIN && looks * LOOKS_OF.1 >= self.recent.len() * LOOKS_OF.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place in one of many files of 40 MB.
    fn file(number: u64, at: u64) -> FilePlace {
        FilePlace { file: FileNumber(number as u32 + 100), at, end: 10_000 }
    }

    #[test]
    fn reading_the_beginnings_of_many_files_is_a_scan() {
        let mut scans = Scans::default();
        let verdicts: Vec<_> = (0..100).map(|number| scans.missed(file(number, 0), 4, number / 10)).collect();
        assert!(verdicts[..LOOKS_MIN - 1].iter().all(|is_scan| !is_scan), "a few files are nothing");
        assert!(verdicts[LOOKS_MIN..].iter().all(|is_scan| *is_scan));
        assert!(scans.is_under_way(20) && !scans.is_under_way(10 + IDLE_SECONDS));
        assert!(!scans.missed(file(1000, 0), 4, 100), "later it begins anew");
    }

    #[test]
    fn watching_a_film_is_not_part_of_a_scan() {
        let mut scans = Scans::default();
        for number in 0..60 {
            scans.missed(file(number, 0), 4, 0);
        }
        assert!(!scans.missed(file(5000, 9000), 4, 0));
        assert!(scans.missed(file(61, 3), 4, 0));
    }

    /// The requests of a look: the kernel's for 64 KiB that are read bit by bit, and those for an index at the end.
    const PARTS: [(u64, u64); 5] = [(0, 4), (4, 16), (20, 32), (9_990, 10), (5_000, 32)];

    #[test]
    fn several_reads_of_one_file_are_one_look() {
        let mut scans = Scans::default();
        let mut looks = (0..60).flat_map(|number| PARTS.map(|(at, blocks)| (file(number, at), blocks)));
        let verdicts: Vec<_> = looks.by_ref().map(|(place, blocks)| scans.missed(place, blocks, 0)).collect();
        assert!(verdicts[LOOKS_MIN * PARTS.len()..].iter().all(|is_scan| *is_scan));
        // A film watched at the same time is one file.
        for at in (0..9_000).step_by(32) {
            let is_scan = scans.missed(file(5000, at), 32, 0);
            assert!(!is_scan || at < LOOK_BLOCKS, "at {at}");
        }
        assert!(scans.is_under_way(0));
    }

    #[test]
    fn reading_whole_files_or_the_same_files_is_no_scan() {
        let mut scans = Scans::default();
        let mut copies = (0..200).flat_map(|number| (0..8).map(move |part| (number, part * 32)));
        assert!(!copies.any(|(number, at)| scans.missed(file(number, at), 32, 0)));
        let mut scans = Scans::default();
        assert!(!(0..500).any(|number| scans.missed(file(number % 10, 0), 4, 0)));
        let mut scans = Scans::default();
        let small = |number| FilePlace { end: 5, ..file(number, 0) };
        assert!(!(0..500).any(|number| scans.missed(small(number), 5, 0)), "small ones in one read");
    }
}
