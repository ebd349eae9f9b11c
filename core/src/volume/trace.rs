//! What was read first after the last openings: it is pulled early after the next one, since people begin their day with the
//! same files. Noted by chunk, as far as it is data of files, and kept in a small file that may vanish.

use super::notes;
use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::units::{BlockRange, CHUNK_BLOCKS, ChunkIndex};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const NAME: &str = "trace.json";
/// Chunks of one trace at most (256 MiB).
const CHUNKS_MAX: usize = 4096;
/// Openings whose traces are kept: one in which somebody only looked something up does not take away what days begin with.
const OPENINGS: usize = 3;

/// The trace of one opening.
pub(super) struct Trace {
    disk: Arc<dyn Disk>,
    /// Those of the openings before, the last one first.
    before: Vec<Vec<u64>>,
    /// Looked at by every read.
    is_noting: AtomicBool,
    /// Chunks that were noted, or are none of files.
    seen: Bitmap,
    // Held to add one.
    chunks: Mutex<Vec<u64>>,
    /// How many were kept last.
    kept: AtomicUsize,
}

impl Trace {
    /// Begins to note, for a drive with room for so many blocks.
    pub fn start(disk: Arc<dyn Disk>, capacity: u64) -> Self {
        let seen = Bitmap::new(capacity.div_ceil(CHUNK_BLOCKS));
        let before = notes::load(&*disk, NAME).unwrap_or_default();
        Self {
            disk,
            before,
            is_noting: AtomicBool::new(true),
            seen,
            chunks: Mutex::default(),
            kept: AtomicUsize::new(0),
        }
    }

    /// The traces of the last openings, each in the order of its reads. Empty where there is none.
    pub fn last(&self) -> Vec<ChunkIndex> {
        let mut seen = HashSet::new();
        let chunks = self.before.iter().flatten().copied().filter(|chunk| seen.insert(*chunk));
        chunks.take(CHUNKS_MAX).map(ChunkIndex).collect()
    }

    /// Blocks are read; `is_metadata` tells whether they are none of a file.
    pub fn note(&self, blocks: BlockRange, is_metadata: impl Fn(BlockRange) -> bool) {
        if !self.is_noting.load(Relaxed) {
            return;
        }
        for part in blocks.by_chunk() {
            let chunk = part.start / CHUNK_BLOCKS;
            if self.seen.get(chunk) || is_metadata(part) {
                continue;
            }
            let mut chunks = self.chunks.lock();
            if chunks.len() >= CHUNKS_MAX {
                self.is_noting.store(false, Relaxed);
                return;
            }
            self.seen.set(BlockRange::new(chunk, 1));
            chunks.push(chunk);
        }
    }

    /// Keeps what was noted so far for the next opening. Where nothing was read, what was noted before stays.
    pub fn save(&self) {
        let chunks = self.chunks.lock().clone();
        if self.kept.swap(chunks.len(), Relaxed) == chunks.len() {
            return;
        }
        let openings: Vec<_> = std::iter::once(&chunks).chain(&self.before).take(OPENINGS).collect();
        if let Err(error) = notes::store(&*self.disk, NAME, &openings) {
            tracing::debug!(%error, "what was read first is not noted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::real::Directory;

    #[test]
    fn a_short_opening_does_not_take_away_what_the_one_before_began_with() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(Directory::create(dir.path()).unwrap());
        let opening = |chunks: &[u64]| {
            let trace = Trace::start(disk.clone(), 1 << 20);
            let before = trace.last();
            for chunk in chunks {
                trace.note(ChunkIndex(*chunk).blocks(), |_| false);
            }
            trace.save();
            before.into_iter().map(|chunk| chunk.0).collect::<Vec<_>>()
        };
        assert_eq!(opening(&[7, 3, 9]), [0; 0]);
        assert_eq!(opening(&[5]), [7, 3, 9]);
        assert_eq!(opening(&[]), [5, 7, 3, 9]);
        assert_eq!(opening(&[3, 4]), [5, 7, 3, 9]);
        assert_eq!(opening(&[1]), [3, 4, 5, 7, 9]);
        assert_eq!(opening(&[2]), [1, 3, 4, 5], "what nobody has read for three openings is left");
    }
}
