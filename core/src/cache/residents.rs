//! Which chunks are in the cache, and which have to stay.

use crate::bitmap::Bitmap;
use crate::evict::{Evictor, Fate, Heat};
use crate::units::{BlockRange, CHUNK_BLOCKS, ChunkIndex};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The chunks of one cache.
pub struct Residents {
    // Held only to decide.
    evictor: Mutex<Evictor>,
    heat: Heat,
    /// Seconds, counted by [`tick`](Self::tick): a read does not look at a clock.
    second: AtomicU64,
    /// Metadata blocks, which always stay.
    kept: Bitmap,
    /// Blocks that are always kept on this device by a person's choice. Apart from `kept`, so that unpinning releases no
    /// metadata.
    pinned: Bitmap,
    /// Blocks that stay for a while, until a waiter has enough of them.
    held: Bitmap,
    /// Blocks that were fetched for a reader or ahead of one, and not read yet.
    unread: Bitmap,
    fetched_blocks: AtomicU64,
    used_blocks: AtomicU64,
    // Held to add a run or to take them all.
    written: Mutex<Vec<BlockRange>>,
}

/// Most runs in `written`: beyond that, they become one run that covers everything.
const WRITTEN_MAX: usize = 1 << 16;

impl Residents {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            evictor: Mutex::default(),
            heat: Heat::new(capacity.div_ceil(CHUNK_BLOCKS)),
            second: AtomicU64::new(0),
            kept: Bitmap::new(capacity),
            pinned: Bitmap::new(capacity),
            held: Bitmap::new(capacity),
            unread: Bitmap::new(capacity),
            fetched_blocks: AtomicU64::new(0),
            used_blocks: AtomicU64::new(0),
            written: Mutex::default(),
        }
    }

    /// Blocks were written: they are listed for [`take_written`](Self::take_written).
    pub fn are_written(&self, blocks: BlockRange) {
        let mut written = self.written.lock();
        if let Some(last) = written.last_mut().filter(|last| last.end == blocks.start) {
            last.end = blocks.end;
        } else if written.len() < WRITTEN_MAX {
            written.push(blocks);
        } else {
            *written = vec![BlockRange { start: 0, end: self.kept.capacity() }];
        }
    }

    /// The runs that were written since the last call.
    pub fn take_written(&self) -> Vec<BlockRange> {
        std::mem::take(&mut *self.written.lock())
    }

    /// Blocks were pulled or written.
    pub fn came(&self, blocks: BlockRange) {
        let mut evictor = self.evictor.lock();
        for part in blocks.by_chunk() {
            evictor.came(ChunkIndex(part.start / CHUNK_BLOCKS), &self.heat);
        }
    }

    /// Blocks were fetched for a reader, or ahead of one.
    pub fn are_fetched(&self, blocks: BlockRange) {
        self.unread.set(blocks);
        self.fetched_blocks.fetch_add(blocks.count(), Relaxed);
    }

    /// Bytes that were fetched for readers and ahead of them, and how many of them were read since.
    pub fn fetched_and_used_bytes(&self) -> (u64, u64) {
        let bytes = |blocks: &AtomicU64| blocks.load(Relaxed) * crate::units::BLOCK_BYTES;
        (bytes(&self.fetched_blocks), bytes(&self.used_blocks))
    }

    /// Valid blocks were read. Takes no lock.
    pub fn are_read(&self, blocks: BlockRange) {
        if self.unread.any(blocks) {
            self.used_blocks.fetch_add(self.unread.count(blocks), Relaxed);
            self.unread.clear(blocks);
        }
        let second = self.second.load(Relaxed);
        for part in blocks.by_chunk() {
            self.heat.is_read(ChunkIndex(part.start / CHUNK_BLOCKS), second);
        }
    }

    /// A second has passed.
    pub fn tick(&self) {
        self.second.fetch_add(1, Relaxed);
    }

    /// Metadata blocks: they stay from now on.
    pub fn keep(&self, blocks: BlockRange) {
        self.kept.set(blocks);
    }

    /// These blocks are no longer metadata that has to stay.
    pub fn let_go(&self, blocks: BlockRange, valid: &Bitmap) {
        self.kept.clear(blocks);
        for part in blocks.by_chunk().filter(|part| valid.any(*part)) {
            self.came(part);
        }
    }

    /// Number of metadata blocks that stay.
    pub fn kept_blocks(&self) -> u64 {
        self.kept.count_all()
    }

    /// Parts of `range` that stay because they are metadata.
    pub fn kept_runs(&self, range: BlockRange) -> Vec<BlockRange> {
        self.kept.runs(range).collect()
    }

    /// Number of blocks of `runs` that are not kept as metadata.
    pub fn not_kept_blocks(&self, runs: &[BlockRange]) -> u64 {
        runs.iter().map(|run| run.count() - self.kept.count(*run)).sum()
    }

    /// Whether any of the blocks has to stay.
    pub fn must_stay(&self, blocks: BlockRange) -> bool {
        [&self.kept, &self.pinned, &self.held].into_iter().any(|stays| stays.any(blocks))
    }

    /// Whether any of the blocks is always kept on this device.
    pub fn is_pinned(&self, blocks: BlockRange) -> bool {
        self.pinned.any(blocks)
    }

    /// Which of the blocks are always kept on this device.
    pub fn pinned_runs(&self, blocks: BlockRange) -> Vec<BlockRange> {
        self.pinned.runs(blocks).collect()
    }

    /// Whether all of the blocks are always kept on this device.
    pub fn are_all_pinned(&self, blocks: BlockRange) -> bool {
        self.pinned.all(blocks)
    }

    /// Pins exactly these runs, which are in order and apart from each other. Returns the runs that are no longer pinned. A
    /// block that is pinned before and after is never seen without its pin.
    pub(super) fn pin(&self, runs: &[BlockRange]) -> Vec<BlockRange> {
        runs.iter().for_each(|run| self.pinned.set(*run));
        let mut gone = Vec::new();
        let mut at = 0;
        let end = self.pinned.capacity();
        for next in runs.iter().copied().chain(std::iter::once(BlockRange { start: end, end })) {
            let gap = BlockRange { start: at, end: next.start.max(at) };
            gone.extend(self.pinned.runs(gap));
            at = next.end;
        }
        gone.iter().for_each(|run| self.pinned.clear(*run));
        gone
    }

    /// Blocks stay until [`Cache::hold_no_more`](super::Cache::hold_no_more).
    pub(super) fn hold(&self, runs: &[BlockRange]) {
        runs.iter().for_each(|run| self.held.set(*run));
    }

    pub(super) fn hold_no_more(&self, runs: &[BlockRange]) {
        runs.iter().for_each(|run| self.held.clear(*run));
    }

    /// Whether any of the blocks is metadata that stays.
    pub fn is_any_kept(&self, blocks: BlockRange) -> bool {
        self.kept.any(blocks)
    }

    /// Whether all of the blocks are metadata that stays.
    pub fn are_all_kept(&self, blocks: BlockRange) -> bool {
        self.kept.all(blocks)
    }

    /// Up to `most` chunks to evict next, at least in part. `valid` says which blocks are here, and `later` which blocks
    /// cannot be evicted now.
    pub fn next(&self, most: usize, valid: &Bitmap, later: impl Fn(BlockRange) -> bool) -> Vec<ChunkIndex> {
        let mut evictor = self.evictor.lock();
        let all = BlockRange { start: 0, end: self.kept.capacity() };
        let fate = |chunk: ChunkIndex| {
            let blocks = chunk.blocks().intersect(&all);
            let here = || valid.runs(blocks).flat_map(|run| run.pieces(1));
            match self.must_stay(blocks) && here().all(|block| self.must_stay(block)) {
                true => Fate::Never,
                // A partly dirty chunk waits as a whole: otherwise a cache full of such chunks would have to be searched
                // block by block.
                false if later(blocks) => Fate::Later,
                false => Fate::Goes,
            }
        };
        std::iter::from_fn(|| evictor.next(&self.heat, fate)).take(most).collect()
    }
}
