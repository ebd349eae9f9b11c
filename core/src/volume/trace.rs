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
    // Those of the openings before, the last one first. Held to read them, or to forget some.
    before: Mutex<Vec<Vec<u64>>>,
    /// Looked at by every read.
    is_noting: AtomicBool,
    /// Chunks that were noted, or are none of files.
    seen: Bitmap,
    // Held to add one.
    chunks: Mutex<Vec<u64>>,
    /// How many were kept last.
    kept: AtomicUsize,
    // Held while the file is written, so that an older one does not come last.
    saving: Mutex<()>,
}

impl Trace {
    /// Begins to note, for a drive with room for so many blocks.
    pub fn start(disk: Arc<dyn Disk>, capacity: u64) -> Self {
        let seen = Bitmap::new(capacity.div_ceil(CHUNK_BLOCKS));
        let before = notes::load(&*disk, NAME).unwrap_or_default();
        Self {
            disk,
            before: Mutex::new(before),
            is_noting: AtomicBool::new(true),
            seen,
            chunks: Mutex::default(),
            kept: AtomicUsize::new(0),
            saving: Mutex::default(),
        }
    }

    /// What the traces of the last openings name, at most so many chunks, and the last opening's first. Neighbours are one run, wherever
    /// they were in the order of reads: each run costs one request or few.
    pub fn last(&self, chunks_max: usize) -> Vec<BlockRange> {
        let mut seen = HashSet::new();
        let before = self.before.lock();
        let chunks = before.iter().flatten().copied().filter(|chunk| seen.insert(*chunk));
        let chunks: Vec<_> = chunks.take(chunks_max.min(CHUNKS_MAX)).collect();
        drop(before);
        runs(&chunks)
    }

    /// Forgets chunks, because a person wants them to go: the next opening does not bring them back. Where they are read again they are
    /// noted again.
    pub fn forget(&self, gone: &[ChunkIndex]) {
        let gone: HashSet<_> = gone.iter().map(|chunk| chunk.0).collect();
        self.forget_where(|chunk| gone.contains(&chunk));
    }

    /// Forgets all chunks.
    pub fn forget_all(&self) {
        self.forget_where(|_| true);
    }

    fn forget_where(&self, is_gone: impl Fn(u64) -> bool) {
        let mut forgotten = 0;
        for chunks in self.before.lock().iter_mut() {
            let len = chunks.len();
            chunks.retain(|chunk| !is_gone(*chunk));
            forgotten += len - chunks.len();
        }
        self.chunks.lock().retain(|chunk| {
            let is_gone = is_gone(*chunk);
            if is_gone {
                self.seen.clear(BlockRange::new(*chunk, 1));
                forgotten += 1;
            }
            !is_gone
        });
        if forgotten > 0 {
            self.write();
        }
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
        let len = self.chunks.lock().len();
        if self.kept.load(Relaxed) != len {
            self.write();
        }
    }

    fn write(&self) {
        let _saving = self.saving.lock();
        let chunks = self.chunks.lock().clone();
        self.kept.store(chunks.len(), Relaxed);
        let before = self.before.lock().clone();
        // An opening in which nothing was read takes no place.
        let now = (!chunks.is_empty()).then_some(&chunks);
        let openings: Vec<_> = now.into_iter().chain(&before).take(OPENINGS).collect();
        if let Err(error) = notes::store(&*self.disk, NAME, &openings) {
            tracing::debug!(%error, "what was read first is not noted");
        }
    }
}

/// Chunks as runs of neighbours, each at the place of its first chunk.
fn runs(chunks: &[u64]) -> Vec<BlockRange> {
    let mut by_chunk: Vec<_> = chunks.iter().enumerate().map(|(at, chunk)| (*chunk, at)).collect();
    by_chunk.sort_unstable();
    let mut runs: Vec<(usize, BlockRange)> = Vec::new();
    for (chunk, at) in by_chunk {
        let blocks = ChunkIndex(chunk).blocks();
        match runs.last_mut() {
            Some((first, run)) if run.end == blocks.start => {
                (*first, run.end) = ((*first).min(at), blocks.end)
            }
            _ => runs.push((at, blocks)),
        }
    }
    runs.sort_unstable_by_key(|(first, _)| *first);
    runs.into_iter().map(|(_, run)| run).collect()
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
            let before = trace.last(CHUNKS_MAX);
            for chunk in chunks {
                trace.note(ChunkIndex(*chunk).blocks(), |_| false);
            }
            trace.save();
            before.into_iter().map(|run| run.start / CHUNK_BLOCKS).collect::<Vec<_>>()
        };
        assert_eq!(opening(&[70, 30, 90]), [0; 0]);
        assert_eq!(opening(&[50]), [70, 30, 90]);
        assert_eq!(opening(&[]), [50, 70, 30, 90]);
        assert_eq!(opening(&[30, 40]), [50, 70, 30, 90]);
        assert_eq!(opening(&[10]), [30, 40, 50, 70, 90]);
        assert_eq!(opening(&[20]), [10, 30, 40, 50], "what nobody has read for three openings is left");
    }

    #[test]
    fn neighbours_are_one_run_in_the_order_of_their_first_reads() {
        let of = |first: u64, count: u64| BlockRange::new(first * CHUNK_BLOCKS, count * CHUNK_BLOCKS);
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[9, 3, 1, 2, 10, 7]), [of(9, 2), of(1, 3), of(7, 1)]);
        let whole: Vec<u64> = (0..CHUNKS_MAX as u64).rev().collect();
        assert_eq!(runs(&whole), [of(0, CHUNKS_MAX as u64)]);
    }

    #[test]
    fn what_a_person_lets_go_does_not_come_back_until_it_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(Directory::create(dir.path()).unwrap());
        let read = |trace: &Trace, chunk: u64| trace.note(ChunkIndex(chunk).blocks(), |_| false);
        let remembered = || Trace::start(disk.clone(), 1 << 20).last(CHUNKS_MAX);
        let of = |chunk: u64| ChunkIndex(chunk).blocks();
        let first = Trace::start(disk.clone(), 1 << 20);
        [10, 20, 30].into_iter().for_each(|chunk| read(&first, chunk));
        first.save();
        let second = Trace::start(disk.clone(), 1 << 20);
        [40, 50].into_iter().for_each(|chunk| read(&second, chunk));
        second.forget(&[ChunkIndex(20), ChunkIndex(50)]);
        // A crash right behind it changes nothing: it is written.
        assert_eq!(remembered(), [of(40), of(10), of(30)]);
        read(&second, 50);
        second.save();
        assert_eq!(remembered(), [of(40), of(50), of(10), of(30)]);
        second.forget_all();
        second.save();
        assert_eq!(remembered(), []);
    }
}
