//! Compaction: files whose records were mostly overwritten by later ones become one file, a group. So rewriting the same blocks while the
//! store is away does not fill the disk.

use super::{Journal, JournalError, Operation, Place, RECORD_BLOCKS_MAX, Record};
use crate::log::{Candidate, FILE_HEADER_BYTES, HEADER_BYTES, record_len};
use crate::runs::{Run, RunMap};
use crate::units::{BlockRange, Lsn};
use std::sync::Arc;

/// Files that may become a group, and its contents.
#[derive(Default)]
struct Window {
    files: Vec<Candidate>,
    latest: RunMap<Place>,
    resized: Option<u64>,
    last_crc: u32,
}

/// The progress of compaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Files before this record cannot get smaller.
    from: Lsn,
    /// Files up to this record were considered already.
    considered: Lsn,
}

impl Journal {
    /// Compacts if at least two files become one, and if there are new files since the last time. Leaves files alone that have records
    /// after `upto`, the last one that is durable in the cache.
    pub async fn compact(self: &Arc<Self>, progress: &mut Progress, upto: Lsn) -> Result<(), JournalError> {
        let candidates = self.candidates(progress.from, upto);
        let Some(last) = candidates.last().filter(|last| last.last > progress.considered) else {
            return Ok(());
        };
        let considered = last.last;
        let mut window = Window::default();
        for candidate in candidates {
            let records = self.records(candidate.first, candidate.last, u64::MAX).await?;
            let mut wider = window.with(candidate, &records);
            if !wider.files.is_empty() && wider.bytes() > self.file_bytes() {
                self.replace(&window).await?;
                wider = Window::default().with(candidate, &records);
            }
            window = wider;
        }
        self.replace(&window).await?;
        let from = window.files.first().map_or(progress.from, |candidate| candidate.first);
        *progress = Progress { from, considered };
        Ok(())
    }

    /// Replaces the window's files by its group, if that saves any.
    async fn replace(self: &Arc<Self>, window: &Window) -> Result<(), JournalError> {
        match &window.files[..] {
            [first, .., last] => {
                self.replace_by_group(*first, *last, window.last_crc, window.operations()).await
            }
            _ => Ok(()),
        }
    }
}

impl Window {
    fn with(&self, candidate: Candidate, records: &[Record]) -> Self {
        let mut wider = Self {
            files: self.files.iter().copied().chain([candidate]).collect(),
            latest: self.latest.clone(),
            resized: self.resized,
            last_crc: records.last().map_or(self.last_crc, |record| record.crc),
        };
        for record in records {
            match record.operation {
                Operation::Data(blocks) | Operation::Zero(blocks) => {
                    wider.latest.insert(blocks, record.place.clone());
                }
                Operation::Resize(size) => wider.resized = Some(size),
            }
        }
        wider
    }

    /// The records of the group.
    fn operations(&self) -> impl Iterator<Item = (Operation, Place)> {
        let resize = self.resized.map(|size| (Operation::Resize(size), Place::Zero));
        let blocks = self.latest.iter().flat_map(|(run, place)| pieces(run, place.clone()));
        resize.into_iter().chain(blocks)
    }

    /// The length of the file that they make, in bytes.
    fn bytes(&self) -> u64 {
        let len = |(operation, _)| match operation {
            Operation::Data(blocks) => record_len(blocks.byte_len()),
            Operation::Zero(_) | Operation::Resize(_) => HEADER_BYTES,
        };
        FILE_HEADER_BYTES + self.operations().map(len).sum::<u64>()
    }
}

/// A run as records, each of which holds a limited number of blocks of data.
fn pieces(run: BlockRange, place: Place) -> Vec<(Operation, Place)> {
    if let Place::Zero = place {
        return vec![(Operation::Zero(run), place)];
    }
    let starts = (run.start..run.end).step_by(RECORD_BLOCKS_MAX as usize);
    let piece = |start: u64| {
        let blocks = BlockRange { start, end: run.end.min(start + RECORD_BLOCKS_MAX) };
        (Operation::Data(blocks), place.skip(start - run.start))
    };
    starts.map(piece).collect()
}
