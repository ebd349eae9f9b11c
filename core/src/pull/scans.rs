//! Thumbnailers and indexers: who reads the beginning of one file after another must not pull the whole drive. Pure.
//!
//! They are known by what misses: most of the last ones were the beginnings of files, each of another file. Then
//! nothing is pulled ahead of the reads that fit, and few of them are under way at once. Who reads files to their ends, as a
//! copy does, or comes back to some of them, does not look like that.

use crate::ext4::{FileAt, InodeNumber};
use std::collections::{BTreeSet, VecDeque};

/// Misses that are looked back at.
const RECENT_MAX: usize = 48;
/// Beginnings of different files among them that make a scan.
const HEADS_MIN: usize = 24;
/// Of all those misses, beginnings of files must be this part at least: three of four.
const HEADS_OF: (usize, usize) = (3, 4);
/// A file begins with so many blocks (64 KiB): what programs look at to tell what a file is.
const HEAD_BLOCKS: u64 = 16;
/// After so many seconds without a miss it is over.
const IDLE_SECONDS: u64 = 20;

/// The misses of late, of one drive.
#[derive(Debug, Default)]
pub struct Scans {
    /// The file whose beginning it was; none elsewhere in a file.
    recent: VecDeque<Option<InodeNumber>>,
    /// In seconds of any clock that goes on.
    last: u64,
}

impl Scans {
    /// A reader waits for so many blocks of a file, at a second. Whether that is part of a scan.
    pub fn missed(&mut self, place: FileAt, blocks: u64, second: u64) -> bool {
        if second.saturating_sub(self.last) > IDLE_SECONDS {
            self.recent.clear();
        }
        self.last = second;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        let is_head = place.at < HEAD_BLOCKS && place.at + blocks < place.end;
        self.recent.push_back(is_head.then_some(place.file));
        is_head && self.is_scan()
    }

    /// Whether a scan is under way at a second.
    pub fn is_under_way(&self, second: u64) -> bool {
        second.saturating_sub(self.last) <= IDLE_SECONDS && self.is_scan()
    }

    fn is_scan(&self) -> bool {
        let heads = self.recent.iter().flatten();
        let different = heads.clone().collect::<BTreeSet<_>>().len();
        different >= HEADS_MIN && heads.count() * HEADS_OF.1 >= self.recent.len() * HEADS_OF.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place in one of many files of 40 MB.
    fn file(number: u64, at: u64) -> FileAt {
        FileAt { file: InodeNumber(number as u32 + 100), at, end: 10_000 }
    }

    #[test]
    fn the_beginnings_of_many_files_are_a_scan_until_it_stops() {
        let mut scans = Scans::default();
        let verdicts: Vec<_> = (0..100).map(|number| scans.missed(file(number, 0), 4, number / 10)).collect();
        assert!(verdicts[..HEADS_MIN - 1].iter().all(|is_scan| !is_scan), "a few files are nothing");
        assert!(verdicts[HEADS_MIN..].iter().all(|is_scan| *is_scan));
        assert!(scans.is_under_way(20) && !scans.is_under_way(10 + IDLE_SECONDS));
        assert!(!scans.missed(file(1000, 0), 4, 100), "later it begins anew");
    }

    #[test]
    fn a_film_that_is_watched_meanwhile_is_none_of_it() {
        let mut scans = Scans::default();
        for number in 0..60 {
            scans.missed(file(number, 0), 4, 0);
        }
        assert!(!scans.missed(file(5000, 9000), 4, 0));
        assert!(scans.missed(file(61, 3), 4, 0));
    }

    #[test]
    fn who_reads_whole_files_or_the_same_ones_again_does_not_scan() {
        let mut scans = Scans::default();
        let mut copies = (0..200).flat_map(|number| (0..8).map(move |part| (number, part * 32)));
        assert!(!copies.any(|(number, at)| scans.missed(file(number, at), 32, 0)));
        let mut scans = Scans::default();
        assert!(!(0..500).any(|number| scans.missed(file(number % 10, 0), 4, 0)));
        let mut scans = Scans::default();
        let small = |number| FileAt { end: 5, ..file(number, 0) };
        assert!(!(0..500).any(|number| scans.missed(small(number), 5, 0)), "small ones in one read");
    }
}
