//! The blocks that inodes claim: those of directories and other metadata, the nodes of all trees, blocks of attributes, and the data of
//! regular files.
//!
//! Metadata is kept up to the limits. The runs of regular files are kept while there is space; then the runs of the smallest files are
//! dropped, because large files are the ones that are streamed and that have formats worth knowing.
//!
//! An inode's record is kept exactly while the inode has something here, so that an inode table can be read again at any time: unchanged
//! claims are skipped, new ones added, and old ones removed.

mod answers;

use super::agenda::Agenda;
use super::attributes::Attributes;
use super::block_map::{BlockMap, FILE_BLOCKS_MAX};
use super::checksum::crc32c;
use super::fields::u32_at;
use super::groups::Groups;
use super::inode::{Content, Inode, maps_the_reserve};
use super::nodes::{Node, Nodes};
use super::superblock::{GroupCheck, Superblock};
use super::tree::{self, Entries, Style};
use super::{Doubt, Kind, Limits};
use crate::units::{BLOCK_BYTES, BlockRange};
use std::collections::BTreeMap;
use std::ops::Range;

/// The first size below which files are dropped if there is no space for all.
const SMALLEST_FILE_BYTES: u64 = 64 << 10;
/// One file may have at most one in this many of all kept runs, so that a large file in pieces does not push out all others.
const FILE_SHARE: usize = 4;

/// The parts of the walk that claims need.
pub struct Context<'a> {
    /// The layout.
    pub fs: &'a Superblock,
    /// The blocks with fixed places: no inode may claim them.
    pub groups: &'a Groups,
    /// The limits.
    pub limits: &'a Limits,
    /// The blocks to read, and the metadata found.
    pub agenda: &'a mut Agenda,
}

/// The record of an inode. About 55 bytes with its place in the map.
struct Known {
    size: u64,
    digest: u32,
    seed: u32,
    /// The number of its runs, roughly.
    runs: u32,
    content: Content,
    kept: Kept,
}

/// Whether an inode's runs are kept. Those of metadata are, within the limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Runs,
    /// A regular file that is too small, as there is no space for all.
    TooSmall,
    /// A regular file in so many pieces that it would push out too many others.
    TooManyRuns,
}

/// All claims of inodes.
#[derive(Default)]
pub struct Claims {
    inodes: BTreeMap<u32, Known>,
    nodes: Nodes,
    metadata: BlockMap,
    files: BlockMap,
    attributes: Attributes,
    /// The runs of smaller files are not kept.
    smallest: u64,
    /// Whether runs of a file were dropped. Small files are left out only after that.
    has_forgotten: bool,
}

impl Claims {
    /// Reads a block of an inode table whose first inode is `first`.
    pub fn learn_table(&mut self, first: u32, block: &[u8], cx: &mut Context) {
        let group_end =
            (first - 1) / cx.fs.inodes_per_group * cx.fs.inodes_per_group + cx.fs.inodes_per_group;
        for (number, inode) in (first..=group_end).zip(block.chunks_exact(cx.fs.inode_bytes)) {
            match Inode::parse(number, inode, cx.fs) {
                Ok(Some(inode)) => self.learn_inode(number, inode, cx),
                Ok(None) => self.forget(number),
                Err(Doubt) => cx.agenda.doubt(),
            }
        }
    }

    /// Reads a node of a tree, if the block is known as one.
    pub fn learn_node(&mut self, block: u64, bytes: &[u8], cx: &mut Context) {
        let Some(node) = self.nodes.at(block).cloned() else { return };
        let Some(known) = self.inodes.get(&node.inode) else { return };
        if maps_the_reserve(node.inode) || node.depth == 0 && known.kept != Kept::Runs {
            return;
        }
        let below = node.depth.checked_sub(1);
        let entries = match node.style {
            Style::Extents if !checks(bytes, node.seed, cx.fs) => Err(Doubt),
            Style::Extents => tree::extents(bytes, Some(node.depth), node.span, cx.fs),
            Style::Pointers => tree::pointers(bytes, below, node.span, cx.fs),
        };
        match entries.and_then(|entries| free_of_fixed(entries, cx.groups)) {
            Ok(entries) => self.apply(node.inode, node.style, &entries, cx),
            Err(Doubt) => cx.agenda.doubt(),
        }
    }

    fn learn_inode(&mut self, number: u32, inode: Inode, cx: &mut Context) {
        let is_small = inode.content == Content::Regular && inode.size < self.smallest;
        if let Some(known) = self.inodes.get_mut(&number) {
            let is_same = known.digest == inode.digest && known.content == inode.content;
            if is_same && (is_small || known.kept != Kept::TooSmall) {
                known.size = inode.size;
                return;
            }
            let is_another = known.seed != inode.seed || known.content != inode.content;
            // Parts that were not read while the runs were not kept are read again from the root.
            if is_another || is_small != (known.kept == Kept::TooSmall) {
                self.forget(number);
            }
        }
        let checked = inode.roots.into_iter().map(|entries| free_of_fixed(entries, cx.groups));
        let Ok(roots) = checked.collect::<Result<Vec<_>, Doubt>>() else { return cx.agenda.doubt() };
        let attributes = inode.attributes.filter(|block| cx.groups.at(*block).is_none());
        let adds_nothing = |root: &Entries| root.children.is_empty() && (is_small || root.runs.is_empty());
        if attributes.is_none() && roots.iter().all(adds_nothing) {
            return self.forget(number);
        }
        let records_max = cx.limits.metadata_runs.saturating_add(cx.limits.file_runs);
        if self.inodes.len() >= records_max && !self.inodes.contains_key(&number) {
            cx.agenda.is_full = true;
            return;
        }
        let (size, digest, seed, content) = (inode.size, inode.digest, inode.seed, inode.content);
        let (runs, kept) = match self.inodes.get(&number) {
            Some(known) => (known.runs, known.kept),
            None => (0, if is_small { Kept::TooSmall } else { Kept::Runs }),
        };
        self.inodes.insert(number, Known { size, digest, seed, runs, content, kept });
        let attributes = attributes.filter(|_| self.has_room(1, cx));
        if let Some(block) = self.attributes.set(number, attributes) {
            cx.agenda.found(BlockRange::new(block, 1), Kind::Attributes);
        }
        // Nodes before data: a record without nodes may be dropped when there is no space for its runs.
        for root in roots.into_iter().rev() {
            self.nodes.prune(number, root.child_depth.map_or(0, |depth| depth + 1), &root.span);
            self.apply(number, inode.style, &root, cx);
        }
        self.drop_if_empty(number);
    }

    /// Replaces the knowledge about a part of the inode's file.
    fn apply(&mut self, inode: u32, style: Style, entries: &Entries, cx: &mut Context) {
        let Some(depth) = entries.child_depth else { return self.apply_runs(inode, entries, cx) };
        for gone in self.nodes.retain(inode, depth, &entries.span, &entries.children) {
            self.clear(inode, gone);
        }
        let Some(known) = self.inodes.get(&inode) else { return };
        let (seed, reads_leaves) = (known.seed, known.kept == Kept::Runs);
        for child in &entries.children {
            let node = Node { inode, depth, span: child.span.clone(), style, seed };
            if self.nodes.at(child.block) != Some(&node) && !self.has_room(1, cx) {
                return;
            }
            // A leaf is read only for its runs.
            let is_wanted = (depth > 0 || reads_leaves) && !maps_the_reserve(inode);
            if self.nodes.insert(child.block, node) {
                cx.agenda.found(BlockRange::new(child.block, 1), Kind::Mapping);
                if is_wanted {
                    cx.agenda.read(BlockRange::new(child.block, 1));
                }
            }
        }
    }

    fn apply_runs(&mut self, inode: u32, entries: &Entries, cx: &mut Context) {
        let Some(known) = self.inodes.get_mut(&inode) else { return };
        let content = known.content;
        if known.kept != Kept::Runs || maps_the_reserve(inode) {
            return;
        }
        let map = if content == Content::Regular { &self.files } else { &self.metadata };
        let was = map.runs_within(inode, entries.span.clone());
        if was == entries.runs {
            return;
        }
        known.runs = (known.runs + entries.runs.len() as u32).saturating_sub(was.len() as u32);
        self.clear(inode, entries.span.clone());
        for (at, range) in &entries.runs {
            if content == Content::Regular {
                self.files.insert(inode, *at, *range);
            } else if self.has_room(range.count(), cx) {
                self.metadata.insert(inode, *at, *range);
                told(content, *at, *range).for_each(|(part, kind)| cx.agenda.found(part, kind));
            }
        }
        if content == Content::Regular {
            self.keep_within(cx.limits.file_runs, inode);
        }
    }

    /// Drops runs of files until few enough are left: those of `inode` if they are a large share of all, or else those of the smallest
    /// files.
    fn keep_within(&mut self, file_runs: usize, inode: u32) {
        let share = (file_runs / FILE_SHARE).max(1);
        if let Some(known) = self.inodes.get_mut(&inode)
            && known.runs as usize > share
        {
            known.runs = self.files.runs_of(inode).len() as u32;
            if known.runs as usize > share {
                self.let_go(inode, Kept::TooManyRuns);
            }
        }
        while self.files.len() > file_runs {
            self.smallest = self.smallest.saturating_mul(2).max(SMALLEST_FILE_BYTES);
            let is_small = |known: &Known| known.content == Content::Regular && known.size < self.smallest;
            let small = self.inodes.iter().filter(|(_, known)| is_small(known)).map(|(number, _)| *number);
            for number in small.collect::<Vec<_>>() {
                self.let_go(number, Kept::TooSmall);
            }
        }
    }

    /// Forgets a file's runs; the nodes of its tree stay known.
    fn let_go(&mut self, inode: u32, why: Kept) {
        self.has_forgotten = true;
        self.files.clear(inode, 0..FILE_BLOCKS_MAX);
        if let Some(known) = self.inodes.get_mut(&inode) {
            (known.kept, known.runs) = (why, 0);
        }
        self.drop_if_empty(inode);
    }

    /// Whether `blocks` more blocks of metadata fit, in runs and in blocks.
    fn has_room(&self, blocks: u64, cx: &mut Context) -> bool {
        let fits = self.metadata_runs() < cx.limits.metadata_runs
            && cx.groups.blocks() + self.metadata_blocks() + blocks <= cx.limits.metadata_blocks;
        cx.agenda.is_full |= !fits;
        fits
    }

    fn clear(&mut self, inode: u32, span: Range<u32>) {
        self.files.clear(inode, span.clone());
        self.metadata.clear(inode, span);
    }

    fn forget(&mut self, inode: u32) {
        if self.inodes.remove(&inode).is_some() {
            self.nodes.prune(inode, 0, &(0..FILE_BLOCKS_MAX));
            self.clear(inode, 0..FILE_BLOCKS_MAX);
            self.attributes.set(inode, None);
        }
    }

    /// Drops a record that stands for nothing.
    fn drop_if_empty(&mut self, inode: u32) {
        let has_runs = self.files.has(inode) || self.metadata.has(inode);
        if !has_runs && !self.nodes.has(inode) && self.attributes.of(inode).is_none() {
            self.inodes.remove(&inode);
        }
    }
}

/// The parts of a run by kind: the journal's first block has its own kind.
fn told(content: Content, at: u32, range: BlockRange) -> impl Iterator<Item = (BlockRange, Kind)> {
    let border = if content == Content::Journal && at == 0 { range.start + 1 } else { range.start };
    let head = BlockRange { start: range.start, end: border };
    let rest = BlockRange { start: border, end: range.end };
    let parts = [(head, at), (rest, at.saturating_add(1))].into_iter().filter(|(part, _)| !part.is_empty());
    parts.filter_map(move |(part, at)| Some((part, content.kind(at)?)))
}

/// Blocks with fixed places belong to no file: a structure that claims them is not trusted.
fn free_of_fixed(entries: Entries, groups: &Groups) -> Result<Entries, Doubt> {
    let is_free = |range: BlockRange| groups.within(range).next().is_none();
    let runs_are = entries.runs.iter().all(|(_, range)| is_free(*range));
    let children_are = entries.children.iter().all(|child| is_free(BlockRange::new(child.block, 1)));
    if runs_are && children_are { Ok(entries) } else { Err(Doubt) }
}

/// Whether the checksum of a block of extents is right, if it has one.
pub fn checks(block: &[u8], seed: u32, fs: &Superblock) -> bool {
    let guarded = tree::guarded_bytes(block);
    fs.group_check != GroupCheck::Crc32c
        || guarded + 4 <= BLOCK_BYTES as usize
            && block.get(..guarded).is_some_and(|front| crc32c(seed, front) == u32_at(block, guarded))
}
