//! Units are types: a block index cannot be passed where a byte offset is meant.

use std::fmt;
use std::ops::Range;

/// Bytes in a block: the unit of validity, of dirtiness and of the map, and the smallest request (4 KiB).
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks in a chunk.
pub const CHUNK_BLOCKS: u64 = 16;
/// Bytes in a chunk: the unit of background pulling, pinning, eviction and progress (64 KiB).
pub const CHUNK_BYTES: u64 = BLOCK_BYTES * CHUNK_BLOCKS;
/// The largest drive: block indices within the map are 32 bits wide, so that a run costs few bytes (16 TiB).
pub const DRIVE_BYTES_MAX: u64 = (1 << 32) * BLOCK_BYTES;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// A block of the drive, counted from its start.
    BlockIndex
);
index!(
    /// A chunk of the drive, counted from its start.
    ChunkIndex
);
index!(
    /// Log sequence number: the place of one record in the journal's order. The first record has 1; 0 is "none".
    Lsn
);
index!(
    /// The writer's generation, raised by one at each online open. It fences.
    Epoch
);

impl BlockIndex {
    /// The block that holds the byte at `offset`.
    pub fn of_byte(offset: u64) -> Self {
        Self(offset / BLOCK_BYTES)
    }

    /// Where the block begins on the drive, in bytes.
    pub fn byte(self) -> u64 {
        self.0 * BLOCK_BYTES
    }

    /// The chunk that the block belongs to.
    pub fn chunk(self) -> ChunkIndex {
        ChunkIndex(self.0 / CHUNK_BLOCKS)
    }
}

impl ChunkIndex {
    /// The blocks of the chunk. The last chunk of a drive may have fewer.
    pub fn blocks(self) -> BlockRange {
        BlockRange { start: self.0 * CHUNK_BLOCKS, end: (self.0 + 1) * CHUNK_BLOCKS }
    }
}

impl Lsn {
    /// The record that follows.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The record before, or "none" for the first.
    pub fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// A half-open range of block indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    /// The first block.
    pub start: u64,
    /// One past the last block.
    pub end: u64,
}

impl BlockRange {
    /// The range of `count` blocks from `start`.
    pub fn new(start: u64, count: u64) -> Self {
        Self { start, end: start + count }
    }

    /// The smallest range of whole blocks that contains the bytes `range`.
    pub fn covering(range: &Range<u64>) -> Self {
        Self { start: range.start / BLOCK_BYTES, end: range.end.div_ceil(BLOCK_BYTES) }
    }

    /// The largest range of whole blocks inside the bytes `range`; empty if there is none.
    pub fn within(range: &Range<u64>) -> Self {
        let start = range.start.div_ceil(BLOCK_BYTES);
        Self { start, end: (range.end / BLOCK_BYTES).max(start) }
    }

    /// Number of blocks.
    pub fn count(&self) -> u64 {
        self.end - self.start
    }

    /// Size in bytes.
    pub fn byte_len(&self) -> u64 {
        self.count() * BLOCK_BYTES
    }

    /// The same range in bytes of the drive.
    pub fn bytes(&self) -> Range<u64> {
        self.start * BLOCK_BYTES..self.end * BLOCK_BYTES
    }

    /// Whether it holds no block.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether any block is in both.
    pub fn overlaps(&self, other: &BlockRange) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// The blocks that both ranges contain; empty if there are none.
    pub fn intersect(&self, other: &BlockRange) -> BlockRange {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }

    /// The range cut at chunk borders, in order.
    pub fn by_chunk(self) -> impl Iterator<Item = BlockRange> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            (at < self.end).then(|| {
                let end = ((at / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS).min(self.end);
                let piece = BlockRange { start: at, end };
                at = end;
                piece
            })
        })
    }

    /// The range cut into pieces of at most `most` blocks, in order.
    pub fn pieces(self, most: u64) -> impl Iterator<Item = BlockRange> {
        (self.start..self.end)
            .step_by(most as usize)
            .map(move |start| BlockRange { start, end: (start + most).min(self.end) })
    }

    /// The blocks of this range that are not in `other`: those before it, and those after it.
    pub fn without(self, other: &BlockRange) -> impl Iterator<Item = BlockRange> {
        let met = self.intersect(other);
        let parts = match met.is_empty() {
            true => [self, BlockRange { start: self.end, end: self.end }],
            false => [
                BlockRange { start: self.start, end: met.start },
                BlockRange { start: met.end, end: self.end },
            ],
        };
        parts.into_iter().filter(|part| !part.is_empty())
    }

    /// The block indices, in order.
    pub fn iter(self) -> Range<u64> {
        self.start..self.end
    }
}

/// The ranges in order, grouped into portions of at most `most` blocks each.
pub(crate) fn portions(ranges: &[BlockRange], most: u64) -> Vec<Vec<BlockRange>> {
    let mut portions: Vec<Vec<BlockRange>> = Vec::new();
    let mut blocks = most;
    for piece in ranges.iter().flat_map(|range| range.pieces(most)) {
        blocks += piece.count();
        match portions.last_mut().filter(|_| blocks <= most) {
            Some(portion) => portion.push(piece),
            None => {
                blocks = piece.count();
                portions.push(vec![piece]);
            }
        }
    }
    portions
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// The ranges in order. Ranges with fewer than `gap` blocks between them are joined.
pub fn coalesce(mut ranges: Vec<BlockRange>, gap: u64) -> Vec<BlockRange> {
    ranges.sort_unstable();
    let mut joined: Vec<BlockRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap.saturating_sub(1)) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covering_rounds_out_and_within_rounds_in() {
        let bytes = 4095..12289;
        assert_eq!(BlockRange::covering(&bytes), BlockRange { start: 0, end: 4 });
        assert_eq!(BlockRange::within(&bytes), BlockRange { start: 1, end: 3 });
        assert!(BlockRange::within(&(1..4095)).is_empty());
    }

    #[test]
    fn by_chunk_cuts_at_borders_and_loses_nothing() {
        let pieces: Vec<_> = BlockRange { start: 15, end: 33 }.by_chunk().collect();
        let expected = [(15, 16), (16, 32), (32, 33)].map(|(start, end)| BlockRange { start, end });
        assert_eq!(pieces, expected);
    }

    #[test]
    fn the_rest_of_a_range_is_before_and_after() {
        let run = |start, end| BlockRange { start, end };
        let left = |other| run(10, 20).without(&other).collect::<Vec<_>>();
        assert_eq!(left(run(12, 15)), [run(10, 12), run(15, 20)]);
        assert_eq!(left(run(5, 15)), [run(15, 20)]);
        assert_eq!(left(run(15, 25)), [run(10, 15)]);
        assert_eq!(left(run(5, 25)), []);
        assert_eq!(left(run(20, 25)), [run(10, 20)]);
        assert_eq!(run(10, 20).pieces(4).collect::<Vec<_>>(), [run(10, 14), run(14, 18), run(18, 20)]);
    }

    #[test]
    fn portions_hold_everything_within_their_limit() {
        let run = |start, end| BlockRange { start, end };
        let ranges = [run(0, 10), run(20, 22), run(30, 31)];
        assert_eq!(
            portions(&ranges, 4),
            [vec![run(0, 4)], vec![run(4, 8)], vec![run(8, 10), run(20, 22)], vec![run(30, 31)]]
        );
        assert_eq!(portions(&ranges, 100), [ranges.to_vec()]);
        assert!(portions(&[], 4).is_empty());
    }
}
