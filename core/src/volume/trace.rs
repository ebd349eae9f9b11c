//! The blocks that were read first after the last openings. They are pulled early after the next one, since people begin their day with the
//! same files. Chunks of files' data are noted, in a small file that may vanish.

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
/// Openings whose traces are kept: a short look at something does not replace what days begin with.
const OPENINGS: usize = 3;

/// The trace of one opening.
pub(super) struct Trace {
    disk: Arc<dyn Disk>,
    // Those of the earlier openings, the last one first. Held to read them, or to forget some.
    before: Mutex<Vec<Vec<u64>>>,
    /// Every read checks this.
    is_noting: AtomicBool,
    /// Chunks that were noted, or are not data of files.
    seen: Bitmap,
    // Held to add one.
    chunks: Mutex<Vec<u64>>,
    /// How many were saved last.
    kept: AtomicUsize,
    // Held while the file is written, so that an older one is not written last.
    saving: Mutex<()>,
}

impl Trace {
    /// Starts to note, for a drive with space for `capacity` blocks.
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

    /// The chunks of the last traces, at most `chunks_max`, those of the last opening first. Neighbours become one run, wherever they were
    /// in the order of reads: each run costs one request, or few.
    pub fn last(&self, chunks_max: usize) -> Vec<BlockRange> {
        let mut seen = HashSet::new();
        let before = self.before.lock();
        let chunks = before.iter().flatten().copied().filter(|chunk| seen.insert(*chunk));
        let chunks: Vec<_> = chunks.take(chunks_max.min(CHUNKS_MAX)).collect();
        drop(before);
        runs(&chunks)
    }

    /// Forgets chunks, because a person wants them to leave: the next opening does not bring them back. If they are read again, they are
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

    /// Notes a read of these blocks. `is_metadata` tells which blocks are not data of files.
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

    /// Saves what was noted so far for the next opening. If nothing was read, the earlier notes stay.
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
        // An opening without reads does not count.
        let now = (!chunks.is_empty()).then_some(&chunks);
        let openings: Vec<_> = now.into_iter().chain(&before).take(OPENINGS).collect();
        if let Err(error) = notes::store(&*self.disk, NAME, &openings) {
            tracing::debug!(%error, "what was read first is not noted");
        }
    }
}

/// Chunks as runs of neighbours, each in the place of the chunk that was read first.
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
    fn a_short_opening_keeps_what_earlier_ones_noted() {
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
    fn released_chunks_stay_out_until_they_are_read_again() {
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
        // A crash right after that changes nothing: it is saved.
        assert_eq!(remembered(), [of(40), of(10), of(30)]);
        read(&second, 50);
        second.save();
        assert_eq!(remembered(), [of(40), of(50), of(10), of(30)]);
        second.forget_all();
        second.save();
        assert_eq!(remembered(), []);
    }
}
