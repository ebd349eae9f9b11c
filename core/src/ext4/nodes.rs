//! The blocks that hold nodes of files' trees, by block and by their place in the tree.
//!
//! A block is at most one node: that of the inode read last. So there are never more nodes than blocks, and no tree can name one block so
//! often that reading it never ends.

use super::tree::{Child, DEPTH_MAX, Style};
use std::collections::BTreeMap;
use std::ops::Range;

/// A node in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The inode of its tree.
    pub inode: u32,
    /// Levels below it: a node of depth 0 names data.
    pub depth: u8,
    /// The blocks of the file that it covers.
    pub span: Range<u32>,
    /// The style of its tree.
    pub style: Style,
    /// Seed of its checksum.
    pub seed: u32,
}

/// All nodes. Each takes about 110 bytes.
#[derive(Default)]
pub struct Nodes {
    by_block: BTreeMap<u64, Node>,
    /// By inode, depth and first block of the file: the block, and the end of the span.
    by_place: BTreeMap<(u32, u8, u32), (u64, u32)>,
}

impl Nodes {
    /// Entries held.
    pub fn len(&self) -> usize {
        self.by_place.len().max(self.by_block.len())
    }

    /// The node in the block.
    pub fn at(&self, block: u64) -> Option<&Node> {
        self.by_block.get(&block)
    }

    /// The blocks of a range that hold nodes.
    pub fn within(&self, blocks: Range<u64>) -> impl Iterator<Item = u64> {
        self.by_block.range(blocks).map(|(block, _)| *block)
    }

    /// Whether the inode has nodes.
    pub fn has(&self, inode: u32) -> bool {
        self.by_place.range((inode, 0, 0)..=(inode, u8::MAX, u32::MAX)).next().is_some()
    }

    /// Adds a node. False if exactly this node was known.
    pub fn insert(&mut self, block: u64, node: Node) -> bool {
        let place = (node.inode, node.depth, node.span.start);
        let was = self.by_place.insert(place, (block, node.span.end));
        if let Some((other, _)) = was.filter(|(other, _)| *other != block) {
            self.unless_taken(other, place);
        }
        self.by_block.insert(block, node.clone()) != Some(node)
    }

    /// Forgets the nodes of this depth in a part of the file that are not in `keep` (which is in order), and everything below them. Returns
    /// the parts of the file that they covered.
    pub fn retain(&mut self, inode: u32, depth: u8, span: &Range<u32>, keep: &[Child]) -> Vec<Range<u32>> {
        let known = self.by_place.range((inode, depth, span.start)..(inode, depth, span.end));
        let stays = |from: u32, block: u64| {
            keep.binary_search_by_key(&from, |child| child.span.start).is_ok_and(|at| keep[at].block == block)
        };
        let gone: Vec<_> = known
            .filter(|((_, _, from), (block, _))| !stays(*from, *block))
            .map(|((_, _, from), (_, to))| *from..*to)
            .collect();
        for span in &gone {
            (0..=depth).for_each(|depth| self.remove(inode, depth, span));
        }
        gone
    }

    /// Forgets the nodes of an inode in a part of the file that are at least `depth` levels above data.
    pub fn prune(&mut self, inode: u32, depth: u8, span: &Range<u32>) {
        (depth..=DEPTH_MAX).for_each(|depth| self.remove(inode, depth, span));
    }

    fn remove(&mut self, inode: u32, depth: u8, span: &Range<u32>) {
        let known = self.by_place.range((inode, depth, span.start)..(inode, depth, span.end));
        let gone: Vec<_> = known.map(|(place, (block, _))| (*place, *block)).collect();
        for (place, block) in gone {
            self.by_place.remove(&place);
            self.unless_taken(block, place);
        }
    }

    /// Forgets the node in the block, unless the block has since been read as another node.
    fn unless_taken(&mut self, block: u64, place: (u32, u8, u32)) {
        let is_that = |node: &Node| (node.inode, node.depth, node.span.start) == place;
        if self.by_block.get(&block).is_some_and(is_that) {
            self.by_block.remove(&block);
        }
    }

    /// All blocks that hold nodes.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.by_block.keys().copied()
    }
}
