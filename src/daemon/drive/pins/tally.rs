//! The files below a path, as pins see them: where their blocks are, and which of them are here.

use crate::scanner::{Blind, Run};
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::Volume;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The most files, and runs of blocks, below one path: 8 bytes each. For more than that, pin the whole drive.
const FILES_MAX: usize = 4 << 20;
const RUNS_MAX: usize = 16 << 20;
/// Figures are counted again after this time at the earliest ...
const NEW: Duration = Duration::from_millis(200);
/// ... and counting takes at most one part in `SHARE` of the time.
const SHARE: u32 = 20;

/// Files, and their runs: first block and number of blocks, which fit 32 bits as all block indices do.
#[derive(Default)]
pub struct Tally {
    /// Where the runs of each file end in `runs`; they begin where those of the file before end.
    ends: Vec<u32>,
    runs: Vec<(u32, u32)>,
    directories: Vec<(u32, u32)>,
    blocks: u64,
    /// The parts that the scan could not see.
    pub blind: Blind,
    // Held while counting.
    counted: Mutex<Counted>,
}

/// How much of the files is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files that are completely here.
    pub files_ready: u64,
    /// All files.
    pub files_total: u64,
    /// Bytes that they take on the drive.
    pub bytes: u64,
    /// Bytes of them that are here.
    pub ready_bytes: u64,
}

#[derive(Default)]
struct Counted {
    figures: Figures,
    /// Whether all of them stayed at that count.
    fits: bool,
    /// Files that were not completely here at that count.
    waiting: Vec<u32>,
    at: Option<Instant>,
    took: Duration,
}

impl Tally {
    /// Adds what a scan has found; returns false if it is too much.
    pub fn add(&mut self, files: &[Vec<Run>], directories: &[Run]) -> bool {
        let narrow = |run: &Run| Some((u32::try_from(run.0).ok()?, u32::try_from(run.1).ok()?));
        for file in files {
            // A run beyond the largest drive does not exist.
            let runs = file.iter().filter_map(narrow);
            self.runs.extend(runs.inspect(|run| self.blocks += u64::from(run.1)));
            self.ends.push(self.runs.len() as u32);
        }
        self.directories.extend(directories.iter().filter_map(narrow));
        self.ends.len() <= FILES_MAX && self.runs.len() + self.directories.len() <= RUNS_MAX
    }

    /// The blocks of all files, in order.
    pub fn file_runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().map(|run| range(*run))
    }

    /// The blocks of all files and directories.
    pub fn all_runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().chain(&self.directories).map(|run| range(*run))
    }

    /// Bytes that the files take.
    pub fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Whether all of it is pinned: if the cache is too small for all that a person has pinned, some is not.
    fn is_pinned(&self, volume: &Volume) -> bool {
        self.all_runs().all(|run| volume.cache().residents().are_all_pinned(run))
    }

    /// How much of the files is here and stays, and whether all of them stay, which may be false if the pins are `too_much` for the cache.
    /// A file that stays and was once completely here is checked again only if the engine misses a pinned block.
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
        // Run by run, to avoid an allocation for each file.
        runs.map(|run| if stays(&run) { volume.missing_blocks(&[run]) } else { run.count() }).sum()
    }
}

fn range((start, count): (u32, u32)) -> BlockRange {
    BlockRange::new(start.into(), count.into())
}
