//! Who is in the cache, and who has to stay.

use crate::bitmap::Bitmap;
use crate::evict::{Evictor, Fate, Heat};
use crate::units::{BlockRange, CHUNK_BLOCKS, ChunkIndex};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The chunks of one cache.
pub struct Residents {
    // Held to decide.
    evictor: Mutex<Evictor>,
    heat: Heat,
    /// Seconds that somebody has counted: reads do not look at a clock.
    second: AtomicU64,
    /// Blocks that stay whatever happens.
    kept: Bitmap,
}

impl Residents {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            evictor: Mutex::default(),
            heat: Heat::new(capacity.div_ceil(CHUNK_BLOCKS)),
            second: AtomicU64::new(0),
            kept: Bitmap::new(capacity),
        }
    }

    /// Blocks have come, or were written.
    pub fn came(&self, blocks: BlockRange) {
        let mut evictor = self.evictor.lock();
        for part in blocks.by_chunk() {
            evictor.came(ChunkIndex(part.start / CHUNK_BLOCKS), &self.heat);
        }
    }

    /// Blocks that are here were read. Takes no lock.
    pub fn are_read(&self, blocks: BlockRange) {
        let second = self.second.load(Relaxed);
        for part in blocks.by_chunk() {
            self.heat.is_read(ChunkIndex(part.start / CHUNK_BLOCKS), second);
        }
    }

    /// A second has gone by.
    pub fn tick(&self) {
        self.second.fetch_add(1, Relaxed);
    }

    /// Blocks stay from now on.
    pub fn keep(&self, blocks: BlockRange) {
        self.kept.set(blocks);
    }

    /// Blocks may go again.
    pub fn let_go(&self, blocks: BlockRange, valid: &Bitmap) {
        self.kept.clear(blocks);
        for part in blocks.by_chunk().filter(|part| valid.any(*part)) {
            self.came(part);
        }
    }

    /// Whether some of the blocks have to stay.
    pub fn are_kept(&self, blocks: BlockRange) -> bool {
        self.kept.any(blocks)
    }

    /// Up to `most` chunks that go next. `later` tells of one that cannot go now.
    pub fn next(&self, most: usize, later: impl Fn(BlockRange) -> bool) -> Vec<ChunkIndex> {
        let mut evictor = self.evictor.lock();
        let end = self.kept.capacity();
        let fate = |chunk: ChunkIndex| match chunk.blocks().intersect(&BlockRange { start: 0, end }) {
            blocks if self.kept.any(blocks) => Fate::Never,
            blocks if later(blocks) => Fate::Later,
            _ => Fate::Goes,
        };
        std::iter::from_fn(|| evictor.next(&self.heat, fate)).take(most).collect()
    }
}
