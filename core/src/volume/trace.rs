//! What was read first after an opening: it is pulled early after the next one, since people begin their day with the
//! same files. Noted by chunk, as far as it is data of files, and kept in a small file that may vanish.

use super::notes;
use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::units::{BlockRange, CHUNK_BLOCKS, ChunkIndex};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const NAME: &str = "trace.json";
/// Chunks of one trace at most (256 MiB).
const CHUNKS_MAX: usize = 4096;

/// The trace of one opening.
pub(super) struct Trace {
    disk: Arc<dyn Disk>,
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
        Self {
            disk,
            is_noting: AtomicBool::new(true),
            seen,
            chunks: Mutex::default(),
            kept: AtomicUsize::new(0),
        }
    }

    /// The trace of the last opening, in the order of its reads. Empty where there is none.
    pub fn last(&self) -> Vec<ChunkIndex> {
        let chunks: Vec<u64> = notes::load(&*self.disk, NAME).unwrap_or_default();
        chunks.into_iter().take(CHUNKS_MAX).map(ChunkIndex).collect()
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
        if let Err(error) = notes::store(&*self.disk, NAME, &chunks) {
            tracing::debug!(%error, "what was read first is not noted");
        }
    }
}
