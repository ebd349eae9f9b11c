//! The span table: which version of which file has which blocks of a folder's virtual space.
//!
//! A folder has one virtual space of 2^32 blocks. Each version of a file that is touched gets a *span* of it: whole chunks,
//! because eviction, pins and pulls work in chunks, and two files never share one. Low chunks are taken first, so that what
//! is kept for each block (bitmaps, counters) stays small.
//!
//! A span stands for one version of one file, for ever. If another version becomes current, that has a span of its own, and
//! the old one is *retired*: nothing new finds it, but its blocks are not reused before [`Spans::free`]. The caller frees a
//! span only after
//! 1. no pull of its blocks is under way (a pull that looked them up before would fill in the old version's bytes),
//! 2. its bits are durably invalid (a bit on disk would count for the next span), and
//! 3. no reader holds its blocks.
//!
//! The table is also durable ([`Rows`]). It may be lost: then the cache counts as empty.

use super::Ino;
use crate::pull::{FileNumber, FilePlace, Files};
use crate::store::remote::Version;
use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, CHUNK_BYTES, DRIVE_BYTES_MAX};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

mod free;
mod rows;

use free::Free;
pub(super) use rows::Rows;

/// Chunks in the virtual space of a folder (16 TiB).
pub(super) const SPACE_CHUNKS: u32 = (DRIVE_BYTES_MAX / CHUNK_BYTES) as u32;
/// Blocks in the virtual space of a folder.
pub(super) const SPACE_BLOCKS: u64 = SPACE_CHUNKS as u64 * CHUNK_BLOCKS;

/// The blocks of one version of a file.
pub struct Span {
    ino: Ino,
    version: Version,
    /// The first chunk, which is also the span's number.
    first: u32,
    /// What its local file takes on the disk, in blocks, as last measured.
    pub(super) taken: AtomicU32,
    is_retired: AtomicBool,
}

/// The space of a folder is used up, or a version cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a file of {len} bytes does not fit into the folder's space")]
pub struct NoSpace {
    /// The file's length.
    pub len: u64,
}

impl Span {
    pub(super) fn new(ino: Ino, version: Version, first: u32) -> Self {
        let (taken, is_retired) = Default::default();
        Self { ino, version, first, taken, is_retired }
    }

    /// Its number. No other span of the folder has it at the same time.
    pub fn number(&self) -> FileNumber {
        FileNumber(self.first)
    }

    /// The file.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Which version of the file.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.version.len
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks that hold its bytes; none if it is empty.
    pub fn blocks(&self) -> BlockRange {
        BlockRange::new(u64::from(self.first) * CHUNK_BLOCKS, self.len().div_ceil(BLOCK_BYTES))
    }

    /// The blocks that hold the bytes `range` of the file, which lie within its length.
    pub fn blocks_of(&self, range: &std::ops::Range<u64>) -> BlockRange {
        let at = BlockRange::covering(range);
        BlockRange::new(self.blocks().start + at.start, at.count())
    }

    /// All blocks that no other span has: whole chunks, at least one.
    pub fn extent(&self) -> BlockRange {
        BlockRange::new(u64::from(self.first) * CHUNK_BLOCKS, u64::from(self.chunks()) * CHUNK_BLOCKS)
    }

    /// Whether its version is no longer the file's: its blocks must not be used.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::SeqCst)
    }

    /// The name of its local file: the file's number, the span's, and a hash of the version. Two spans never have the same
    /// name at the same time, although a file may come back to a version while the span that it had then is on its way out.
    pub fn file_name(&self) -> String {
        let Version { tag, len, written } = &self.version;
        let mut hash = blake3::Hasher::new();
        hash.update(&len.to_le_bytes());
        hash.update(&written.map_or([0; 16], |time| time.0.to_le_bytes()));
        hash.update(&[u8::from(written.is_some())]);
        hash.update(tag.as_bytes());
        format!("{}-{:x}-{}", self.ino, self.first, &hash.finalize().to_hex()[..32])
    }

    pub(super) fn chunks(&self) -> u32 {
        chunks_of(self.len()).expect("it fits, since it was allocated")
    }
}

/// Chunks that a file of this length takes: at least one. `None` if that is more than there are.
fn chunks_of(len: u64) -> Option<u32> {
    let chunks = len.div_ceil(CHUNK_BYTES).max(1);
    u32::try_from(chunks).ok().filter(|chunks| *chunks <= SPACE_CHUNKS)
}

/// The spans of a folder.
pub struct Spans {
    by_chunk: BTreeMap<u32, Arc<Span>>,
    current: HashMap<Ino, u32>,
    free: Free,
    highest: Ino,
}

impl Default for Spans {
    fn default() -> Self {
        let (by_chunk, current) = Default::default();
        Self { by_chunk, current, free: Free::new(SPACE_CHUNKS), highest: Ino::ROOT }
    }
}

impl Spans {
    /// Takes blocks for a version of a file. It becomes the file's current version; the one before is retired.
    pub(super) fn allocate(&mut self, ino: Ino, version: Version) -> Result<Arc<Span>, NoSpace> {
        let no_space = NoSpace { len: version.len };
        let chunks = chunks_of(version.len).ok_or(no_space)?;
        let first = self.free.take(chunks).ok_or(no_space)?;
        let span = Arc::new(Span::new(ino, version, first));
        self.insert(span.clone());
        Ok(span)
    }

    /// Takes the blocks of a span that was recorded. Returns whether they were free.
    fn restore(&mut self, ino: Ino, version: Version, first: u32) -> bool {
        let is_free = chunks_of(version.len).is_some_and(|chunks| self.free.take_at(first, chunks));
        if is_free {
            self.insert(Arc::new(Span::new(ino, version, first)));
        }
        is_free
    }

    fn insert(&mut self, span: Arc<Span>) {
        self.saw(span.ino);
        if let Some(before) = self.current(span.ino) {
            self.retire(&before);
        }
        self.current.insert(span.ino, span.first);
        self.by_chunk.insert(span.first, span);
    }

    /// From here on nothing finds the span by its blocks or its file. Its blocks stay taken.
    pub(super) fn retire(&mut self, span: &Arc<Span>) {
        span.is_retired.store(true, Ordering::SeqCst);
        if self.current.get(&span.ino) == Some(&span.first) {
            self.current.remove(&span.ino);
        }
    }

    /// Gives the blocks back; see the module's head for what has to come before.
    pub(super) fn free(&mut self, span: &Arc<Span>) {
        assert!(span.is_retired(), "a span is retired before its blocks are given back");
        let taken = self.by_chunk.remove(&span.first);
        assert!(taken.is_some_and(|taken| Arc::ptr_eq(&taken, span)), "a span's blocks are given back once");
        self.free.give_back(span.first, span.chunks());
    }

    /// A file with this number is or was known.
    pub(super) fn saw(&mut self, ino: Ino) {
        self.highest = self.highest.max(ino);
    }

    /// The highest number of a file that was ever seen here.
    pub fn highest_ino(&self) -> Ino {
        self.highest
    }

    /// The span of the file's current version.
    pub fn current(&self, ino: Ino) -> Option<Arc<Span>> {
        self.by_chunk.get(self.current.get(&ino)?).cloned()
    }

    /// The span with this number, unless it is retired.
    pub fn numbered(&self, number: FileNumber) -> Option<&Arc<Span>> {
        self.by_chunk.get(&number.0).filter(|span| !span.is_retired())
    }

    /// The span that has the block, unless it is retired.
    pub fn at(&self, block: u64) -> Option<&Arc<Span>> {
        self.any_at(block).filter(|span| !span.is_retired())
    }

    /// The same, also of a retired one.
    pub(super) fn any_at(&self, block: u64) -> Option<&Arc<Span>> {
        let chunk = u32::try_from(block / CHUNK_BLOCKS).ok()?;
        let (_, span) = self.by_chunk.range(..=chunk).next_back()?;
        (block < span.extent().end).then_some(span)
    }

    /// The parts of `range` that spans have as bytes of their files, in order, with the span of each.
    pub(super) fn within(&self, range: BlockRange) -> impl Iterator<Item = (BlockRange, &Arc<Span>)> {
        self.any_within(range)
            .filter(|span| !span.is_retired())
            .map(move |span| (span.blocks().intersect(&range), span))
            .filter(|(part, _)| !part.is_empty())
    }

    /// The spans, also retired ones, whose chunks reach into `range`, in order.
    fn any_within(&self, range: BlockRange) -> impl Iterator<Item = &Arc<Span>> {
        let first = self.any_at(range.start).map_or((range.start / CHUNK_BLOCKS) as u32, |span| span.first);
        self.by_chunk
            .range(first..)
            .map(|(_, span)| span)
            .take_while(move |span| span.blocks().start < range.end)
    }

    /// The first span, also a retired one, whose chunks reach beyond `block` and whose file takes space.
    pub(super) fn next_with_data(&self, block: u64) -> Option<&Arc<Span>> {
        let first = self.any_at(block).map_or((block / CHUNK_BLOCKS) as u32, |span| span.first);
        self.by_chunk.range(first..).map(|(_, span)| span).find(|span| span.taken.load(Ordering::Relaxed) > 0)
    }

    /// All spans, also retired ones, in order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Span>> {
        self.by_chunk.values()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_chunk.len()
    }

    /// Blocks that no span has.
    pub(super) fn free_runs(&self) -> impl Iterator<Item = BlockRange> {
        let run = |(first, chunks): (u32, u32)| {
            BlockRange::new(u64::from(first) * CHUNK_BLOCKS, u64::from(chunks) * CHUNK_BLOCKS)
        };
        self.free.runs().map(run)
    }
}

impl Files for Spans {
    fn file_at(&self, block: u64) -> Option<FilePlace> {
        let span = self.at(block)?;
        let blocks = span.blocks();
        let place = FilePlace { file: span.number(), at: block - blocks.start, end: blocks.count() };
        (place.at < place.end).then_some(place)
    }

    fn blocks_of(&self, file: FileNumber, part: BlockRange) -> Vec<BlockRange> {
        let Some(span) = self.numbered(file) else { return Vec::new() };
        let blocks = span.blocks();
        let inside = part.intersect(&BlockRange::new(0, blocks.count()));
        let run = BlockRange::new(blocks.start + inside.start, inside.count());
        if run.is_empty() { Vec::new() } else { vec![run] }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}, version {}, in blocks {}", self.ino, self.version, self.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    pub(super) fn version(tag: &str, len: u64) -> Version {
        Version { tag: tag.to_owned(), len, written: None }
    }

    #[test]
    fn no_two_files_ever_share_a_chunk() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut spans, mut held, mut highest) = (Spans::default(), Vec::new(), Ino::ROOT);
            for step in 0..300 {
                match rng.random_range(0..3) {
                    0 if !held.is_empty() => {
                        let span: Arc<Span> = held.swap_remove(rng.random_range(0..held.len()));
                        spans.retire(&span);
                        spans.free(&span);
                        assert!(spans.any_at(span.extent().start).is_none(), "seed {seed}");
                    }
                    _ => {
                        highest = highest.max(Ino(step));
                        let len = rng.random_range(0..600_000) >> rng.random_range(0..12);
                        held.push(spans.allocate(Ino(step), version("v", len)).unwrap());
                    }
                }
                let extents: Vec<_> = spans.all().map(|span| span.extent()).collect();
                assert!(extents.windows(2).all(|pair| pair[0].end <= pair[1].start), "seed {seed}");
                assert!(extents.iter().all(|extent| extent.start % CHUNK_BLOCKS == 0));
                let taken: u64 = extents.iter().map(BlockRange::count).sum();
                let free: u64 = spans.free_runs().map(|run| run.count()).sum();
                assert_eq!(taken + free, SPACE_BLOCKS, "seed {seed}");
            }
            held.iter().for_each(|span| spans.retire(span));
            held.iter().for_each(|span| spans.free(span));
            assert_eq!(spans.free_runs().collect::<Vec<_>>(), [BlockRange::new(0, SPACE_BLOCKS)]);
            assert_eq!(spans.highest_ino(), highest);
        }
    }

    #[test]
    fn low_blocks_come_first_and_the_space_ends() {
        let mut spans = Spans::default();
        let first = spans.allocate(Ino(2), version("a", 1)).unwrap();
        let second = spans.allocate(Ino(3), version("a", 3 * CHUNK_BYTES + 1)).unwrap();
        let third = spans.allocate(Ino(4), version("a", 0)).unwrap();
        let starts = [&first, &second, &third].map(|span| span.extent().start);
        assert_eq!(starts, [0, 16, 80]);
        assert!(third.blocks().is_empty() && third.is_empty());
        spans.retire(&second);
        spans.free(&second);
        let small = spans.allocate(Ino(5), version("a", 5)).unwrap();
        assert_eq!(small.number(), FileNumber(1));
        assert!(spans.allocate(Ino(6), version("a", DRIVE_BYTES_MAX)).is_err());
        assert!(spans.allocate(Ino(6), version("a", u64::MAX)).is_err());
        let rest = SPACE_BLOCKS * BLOCK_BYTES - 6 * CHUNK_BYTES;
        assert!(spans.allocate(Ino(6), version("a", rest)).is_ok());
    }

    #[test]
    fn another_version_of_a_file_takes_the_place_of_the_last() {
        let mut spans = Spans::default();
        let old = spans.allocate(Ino(7), version("old", 100_000)).unwrap();
        let new = spans.allocate(Ino(7), version("new", 100_000)).unwrap();
        assert!(old.is_retired() && !new.is_retired());
        assert!(spans.at(old.blocks().start).is_none() && spans.any_at(old.blocks().start).is_some());
        assert!(spans.numbered(old.number()).is_none());
        assert!(Arc::ptr_eq(&spans.current(Ino(7)).unwrap(), &new));
        assert_ne!(old.file_name(), new.file_name());
        spans.free(&old);
        assert!(spans.current(Ino(7)).is_some());
    }

    #[test]
    fn files_are_found_by_blocks_and_blocks_by_files() {
        let mut spans = Spans::default();
        spans.allocate(Ino(2), version("a", CHUNK_BYTES)).unwrap();
        let span = spans.allocate(Ino(3), version("a", CHUNK_BYTES + 1)).unwrap();
        let place = FilePlace { file: span.number(), at: 16, end: 17 };
        assert_eq!(spans.file_at(32), Some(place));
        // Behind the end of the file, in its chunk, there is nothing.
        assert_eq!((spans.file_at(33), spans.file_at(48)), (None, None));
        assert_eq!(spans.blocks_of(span.number(), BlockRange::new(10, 100)), [BlockRange::new(26, 7)]);
        assert!(spans.blocks_of(span.number(), BlockRange::new(17, 3)).is_empty());
        let parts: Vec<_> = spans.within(BlockRange::new(8, 100)).map(|(part, _)| part).collect();
        assert_eq!(parts, [BlockRange::new(8, 8), BlockRange::new(16, 17)]);
    }

    #[test]
    fn a_span_takes_little_memory() {
        assert!(size_of::<Span>() <= 80, "{}", size_of::<Span>());
    }
}
