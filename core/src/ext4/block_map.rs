//! Which block holds which block of which file, in both directions.
//!
//! Two maps of runs: by (inode, block of the file), and by block of the drive. On a sound file system two files never have the same block.
//! If they seem to (one of them was read before it was deleted), the block belongs to the one that was read last. Both maps are checked
//! before an answer, so that deleting a file takes no blocks from another.

use crate::runs::{Run, RunMap};
use crate::units::BlockRange;
use std::ops::Range;

/// One past the last block that a file can have. It is never a block itself, so that the runs of two inodes never touch.
pub const FILE_BLOCKS_MAX: u32 = u32::MAX;

/// A block of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place(u64);

/// An inode in the upper half, a block of its file in the lower.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Owner(u64);

impl Run for Place {
    fn skip(&self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

impl Run for Owner {
    fn skip(&self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

/// Files' blocks. Each run takes about 90 bytes.
#[derive(Default)]
pub struct BlockMap {
    by_file: RunMap<Place>,
    by_block: RunMap<Owner>,
    blocks: u64,
}

impl BlockMap {
    /// Runs held.
    pub fn len(&self) -> usize {
        self.by_file.len().max(self.by_block.len())
    }

    /// Blocks that have an owner.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Sets the file's blocks from `at` on to those of `range`.
    pub fn insert(&mut self, inode: u32, at: u32, range: BlockRange) {
        let end = u64::from(at) + range.count();
        self.clear(inode, at..u32::try_from(end).unwrap_or(FILE_BLOCKS_MAX));
        let taken: u64 = self.by_block.overlapping(range).map(|(part, _)| part.count()).sum();
        self.blocks += range.count() - taken;
        let first = key(inode, at);
        self.by_file.join(BlockRange::new(first, range.count()), Place(range.start));
        self.by_block.join(range, Owner(first));
    }

    /// Forgets some blocks of a file.
    pub fn clear(&mut self, inode: u32, span: Range<u32>) {
        let keys = BlockRange { start: key(inode, span.start), end: key(inode, span.end) };
        let runs: Vec<_> = self.by_file.overlapping(keys).collect();
        for (run, place) in runs {
            let blocks = BlockRange::new(place.0, run.count());
            let owned: Vec<_> = self.by_block.overlapping(blocks).collect();
            for (part, owner) in owned {
                if owner.0 == run.start + (part.start - place.0) {
                    self.by_block.remove(part);
                    self.blocks -= part.count();
                }
            }
        }
        self.by_file.remove(keys);
    }

    /// The file that has the block, and the block's number in that file.
    pub fn owner_of(&self, block: u64) -> Option<(u32, u32)> {
        let (run, owner) = self.by_block.run_at(block)?;
        let key = owner.0 + (block - run.start);
        Some(((key >> 32) as u32, key as u32))
    }

    /// Whether the file has any run.
    pub fn has(&self, inode: u32) -> bool {
        let keys = BlockRange { start: key(inode, 0), end: key(inode, FILE_BLOCKS_MAX) };
        self.by_file.overlapping(keys).next().is_some()
    }

    /// A file's runs in order: the place of each in the file, and its blocks.
    pub fn runs_of(&self, inode: u32) -> Vec<(u32, BlockRange)> {
        self.runs_within(inode, 0..FILE_BLOCKS_MAX)
    }

    /// The same for a part of the file.
    pub fn runs_within(&self, inode: u32, span: Range<u32>) -> Vec<(u32, BlockRange)> {
        let keys = BlockRange { start: key(inode, span.start), end: key(inode, span.end) };
        let runs = self.by_file.overlapping(keys);
        runs.map(|(run, place)| (run.start as u32, BlockRange::new(place.0, run.count()))).collect()
    }

    /// All blocks with an owner: each run, its owner, and the place of its first block in the file.
    pub fn iter(&self) -> impl Iterator<Item = (BlockRange, u32, u32)> {
        self.by_block.iter().map(|(range, owner)| (range, (owner.0 >> 32) as u32, owner.0 as u32))
    }
}

fn key(inode: u32, block: u32) -> u64 {
    u64::from(inode) << 32 | u64::from(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_a_file_takes_no_blocks_from_another() {
        let mut map = BlockMap::default();
        map.insert(7, 0, BlockRange::new(100, 10));
        map.insert(7, 10, BlockRange::new(110, 10));
        assert_eq!(map.runs_of(7), [(0, BlockRange::new(100, 20))]);
        map.insert(8, 5, BlockRange::new(104, 4));
        assert_eq!((map.owner_of(103), map.owner_of(105)), (Some((7, 3)), Some((8, 6))));
        assert_eq!(map.blocks(), 20);
        map.clear(7, 0..FILE_BLOCKS_MAX);
        assert_eq!((map.owner_of(103), map.owner_of(105), map.blocks()), (None, Some((8, 6)), 4));
        map.clear(8, 6..7);
        assert_eq!(map.runs_of(8), [(5, BlockRange::new(104, 1)), (7, BlockRange::new(106, 2))]);
        assert_eq!(map.blocks(), 3);
    }

    #[test]
    fn the_last_block_of_the_last_inode_has_a_place() {
        let mut map = BlockMap::default();
        map.insert(u32::MAX, FILE_BLOCKS_MAX - 1, BlockRange::new(5, 1));
        assert_eq!(map.owner_of(5), Some((u32::MAX, FILE_BLOCKS_MAX - 1)));
    }
}
