//! Answers to questions about inodes.

use super::super::Kind;
use super::super::inode::Content;
use super::{Claims, Kept, told};
use crate::units::BlockRange;

impl Claims {
    /// The blocks in the range that hold nodes.
    pub fn nodes_within(&self, range: BlockRange) -> impl Iterator<Item = u64> {
        self.nodes.within(range.start..range.end.max(range.start))
    }

    /// The kind of an inode's metadata in the block, if it holds any.
    pub fn kind_of(&self, block: u64) -> Option<Kind> {
        if self.nodes.at(block).is_some() {
            return Some(Kind::Mapping);
        }
        let held = self.metadata.owner_of(block);
        let held = held.and_then(|(inode, at)| self.inodes.get(&inode)?.content.kind(at));
        held.or_else(|| self.attributes.has(block).then_some(Kind::Attributes))
    }

    /// The regular file that has the block, and the block's number in the file.
    pub fn owner_of(&self, block: u64) -> Option<(u32, u32)> {
        self.files.owner_of(block)
    }

    /// Regular files with fewer bytes are not kept.
    pub fn smallest_bytes(&self) -> u64 {
        self.smallest
    }

    /// Whether the block is a node of a file's tree.
    pub fn is_node(&self, block: u64) -> bool {
        self.nodes.at(block).is_some()
    }

    /// Whether runs of a file were dropped, for lack of space.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// An inode's size in bytes, if the inode is kept.
    pub fn size_of(&self, inode: u32) -> Option<u64> {
        self.inodes.get(&inode).map(|known| known.size)
    }

    /// An inode's runs, if they are kept.
    pub fn runs_of(&self, inode: u32) -> Option<Vec<(u32, BlockRange)>> {
        let known = self.inodes.get(&inode).filter(|known| known.kept == Kept::Runs)?;
        let map = if known.content == Content::Regular { &self.files } else { &self.metadata };
        Some(map.runs_of(inode))
    }

    /// The blocks of a part of a regular file whose runs are kept.
    pub fn blocks_within(&self, inode: u32, part: std::ops::Range<u32>) -> Vec<BlockRange> {
        let runs = self.files.runs_within(inode, part);
        runs.into_iter().map(|(_, blocks)| blocks).collect()
    }

    /// All metadata of inodes.
    pub fn metadata(&self) -> impl Iterator<Item = (BlockRange, Kind)> {
        let held = self
            .metadata
            .iter()
            .filter_map(|(range, inode, at)| Some((range, at, self.inodes.get(&inode)?.content)));
        let held = held.flat_map(|(range, at, content)| told(content, at, range));
        let nodes = self.nodes.iter().map(|block| (BlockRange::new(block, 1), Kind::Mapping));
        let attributes = self.attributes.iter().map(|block| (BlockRange::new(block, 1), Kind::Attributes));
        held.chain(nodes).chain(attributes)
    }

    /// The number of metadata blocks.
    pub fn metadata_blocks(&self) -> u64 {
        self.metadata.blocks() + (self.nodes.len() + self.attributes.len()) as u64
    }

    pub(super) fn metadata_runs(&self) -> usize {
        self.metadata.len() + self.nodes.len() + self.attributes.len()
    }

    /// The most memory in use, in bytes; the overhead of the maps' nodes is an estimate.
    pub fn memory_bytes(&self) -> usize {
        90 * (self.metadata.len() + self.files.len())
            + 110 * self.nodes.len()
            + 55 * self.inodes.len()
            + self.attributes.memory_bytes()
    }
}
