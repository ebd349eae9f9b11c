//! The files below a path, as far as pins care: where their blocks are, and which of them are here.

use crate::scanner::{Blind, Run};
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::Volume;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The most files, and runs of blocks, below one path: 8 bytes each. Whoever has more wants the whole drive.
const FILES_MAX: usize = 4 << 20;
const RUNS_MAX: usize = 16 << 20;
/// Figures are so old at least before they are counted anew ...
const NEW: Duration = Duration::from_millis(200);
/// ... and counting takes at most one part in so many of the time.
const SHARE: u32 = 20;

/// Files, and their runs: first block and number of blocks, which fit 32 bits as all block indices do.
#[derive(Default)]
pub struct Tally {
    /// Where the runs of each file end among all; they begin where those of the file before end.
    ends: Vec<u32>,
    runs: Vec<(u32, u32)>,
    directories: Vec<(u32, u32)>,
    blocks: u64,
    /// What could not be seen.
    pub blind: Blind,
    // Held to count.
    counted: Mutex<Counted>,
}

/// How far files are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files of which all is here.
    pub files_ready: u64,
    /// Files.
    pub files_total: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes of them that are here.
    pub ready_bytes: u64,
}

#[derive(Default)]
struct Counted {
    figures: Figures,
    /// Whether all of them stayed then.
    fits: bool,
    /// Files that were not all here when that was looked at.
    waiting: Vec<u32>,
    at: Option<Instant>,
    took: Duration,
}

impl Tally {
    /// Adds what a scan has found; false where it is too much.
    pub fn add(&mut self, files: &[Vec<Run>], directories: &[Run]) -> bool {
        let narrow = |run: &Run| Some((u32::try_from(run.0).ok()?, u32::try_from(run.1).ok()?));
        for file in files {
            // What is beyond the largest drive is nowhere.
            let runs = file.iter().filter_map(narrow);
            self.runs.extend(runs.inspect(|run| self.blocks += u64::from(run.1)));
            self.ends.push(self.runs.len() as u32);
        }
        self.directories.extend(directories.iter().filter_map(narrow));
        self.ends.len() <= FILES_MAX && self.runs.len() + self.directories.len() <= RUNS_MAX
    }

    /// The blocks of all files in their order.
    pub fn file_runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().map(|run| range(*run))
    }

    /// Those of files and directories.
    pub fn all_runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().chain(&self.directories).map(|run| range(*run))
    }

    /// Bytes that the files take.
    pub fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Whether all of it is pinned: where the cache is too small for all that a person has pinned, some is not.
    fn is_pinned(&self, volume: &Volume) -> bool {
        self.all_runs().all(|run| volume.cache().residents().are_all_pinned(run))
    }

    /// How far the files are here and stay, and whether all of them stay, which may not be so where there is `too_much` for the
    /// cache. What stays and was here once is looked at again only where something that is pinned is not here after all.
    pub fn figures(&self, volume: &Volume, too_much: bool) -> (Figures, bool) {
        let mut counted = self.counted.lock();
        let Counted { figures, fits, waiting, at, took } = &mut *counted;
        let new = |at: &Instant| at.elapsed() < NEW.max(*took * SHARE);
        if at.as_ref().is_some_and(new) {
            return (*figures, *fits);
        }
        let begun = Instant::now();
        *fits = !too_much || self.is_pinned(volume);
        let is_lost = || waiting.is_empty() && volume.pins_status().missing_bytes > 0;
        if at.is_none() || !*fits || is_lost() {
            *waiting = (0..self.ends.len() as u32).collect();
        }
        let mut missing = 0;
        waiting.retain(|file| {
            let blocks = self.missing_of(*file as usize, volume, *fits);
            missing += blocks;
            blocks > 0
        });
        let files_total = self.ends.len() as u64;
        *figures = Figures {
            files_ready: files_total - waiting.len() as u64,
            files_total,
            bytes: self.bytes(),
            ready_bytes: self.bytes() - (missing * BLOCK_BYTES).min(self.bytes()),
        };
        (*at, *took) = (Some(begun), begun.elapsed());
        (*figures, *fits)
    }

    /// Blocks of a file that are not here, or do not stay.
    fn missing_of(&self, file: usize, volume: &Volume, is_pinned: bool) -> u64 {
        let begin = if file == 0 { 0 } else { self.ends[file - 1] };
        let runs = self.runs[begin as usize..self.ends[file] as usize].iter().map(|run| range(*run));
        let stays = |run: &BlockRange| is_pinned || volume.cache().residents().are_all_pinned(*run);
        // Run by run, so that nothing is made for each file.
        runs.map(|run| if stays(&run) { volume.missing_blocks(&[run]) } else { run.count() }).sum()
    }
}

fn range((start, count): (u32, u32)) -> BlockRange {
    BlockRange::new(start.into(), count.into())
}
