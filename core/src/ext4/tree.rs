//! The nodes of a file's tree: extents, and the older indirect blocks (kernel documentation, ext4, "The Contents of
//! inode.i_block").
//!
//! A node is trusted as a whole or not at all. Each node has a lesser depth than its parent, and at most five levels are read, so that no
//! loop of blocks is followed forever.

use super::Doubt;
use super::block_map::FILE_BLOCKS_MAX;
use super::fields::{u16_at, u32_at, wide};
use super::superblock::Superblock;
use crate::units::{BLOCK_BYTES, BlockRange};
use std::ops::Range;

/// Deeper trees do not exist: five levels hold all blocks that a file can have.
pub const DEPTH_MAX: u8 = 5;
const MAGIC: u16 = 0xf30a;
const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 12;
/// A greater length means this many blocks fewer, which were never written.
const EXTENT_BLOCKS_MAX: u16 = 1 << 15;
/// Pointers in an indirect block.
const POINTERS: u32 = BLOCK_BYTES as u32 / 4;
/// Pointers in an inode that lead to data.
const DIRECT: u32 = 12;

/// The format of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Extents.
    Extents,
    /// Indirect blocks.
    Pointers,
}

/// A node that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its block.
    pub block: u64,
    /// The blocks of the file that it covers.
    pub span: Range<u32>,
}

/// The entries of a node, or of the root in an inode, for a part of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The part of the file.
    pub span: Range<u32>,
    /// Depth of the children; `None` if the entries are data.
    pub child_depth: Option<u8>,
    /// Data, in order: the place in the file, and the blocks.
    pub runs: Vec<(u32, BlockRange)>,
    /// Nodes, in order.
    pub children: Vec<Child>,
}

/// Reads a node of extents: the root in an inode (`depth` is `None`) or a block.
pub fn extents(bytes: &[u8], depth: Option<u8>, span: Range<u32>, fs: &Superblock) -> Result<Entries, Doubt> {
    let room = bytes.len().saturating_sub(HEADER_BYTES) / ENTRY_BYTES;
    let (count, most) = (usize::from(u16_at(bytes, 2)), usize::from(u16_at(bytes, 4)));
    let own = u16_at(bytes, 6);
    let fits = u16_at(bytes, 0) == MAGIC && count <= most && most <= room;
    if !fits || own > u16::from(DEPTH_MAX) || depth.is_some_and(|depth| own != u16::from(depth)) {
        return Err(Doubt);
    }
    let entries: Vec<_> =
        bytes.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).take(count).collect();
    match (own as u8).checked_sub(1) {
        Some(below) => index(&entries, below, span, fs),
        None => leaf(&entries, span, fs),
    }
}

/// The number of bytes at the front of a block of extents that are guarded by the checksum after them.
pub fn guarded_bytes(block: &[u8]) -> usize {
    HEADER_BYTES + ENTRY_BYTES * usize::from(u16_at(block, 4))
}

fn leaf(entries: &[&[u8]], span: Range<u32>, fs: &Superblock) -> Result<Entries, Doubt> {
    let mut runs: Vec<(u32, BlockRange)> = Vec::with_capacity(entries.len());
    let mut next = u64::from(span.start);
    for entry in entries {
        let (at, length) = (u32_at(entry, 0), u16_at(entry, 4));
        let blocks = if length > EXTENT_BLOCKS_MAX { length - EXTENT_BLOCKS_MAX } else { length };
        let start = wide(u32_at(entry, 8), u16_at(entry, 6).into());
        let range = BlockRange::new(start, blocks.into());
        if u64::from(at) < next || !fs.holds(range) {
            return Err(Doubt);
        }
        next = u64::from(at) + range.count();
        push(&mut runs, at, range);
    }
    if next > u64::from(span.end) {
        return Err(Doubt);
    }
    Ok(Entries { span, runs, ..Entries::default() })
}

fn index(entries: &[&[u8]], below: u8, span: Range<u32>, fs: &Superblock) -> Result<Entries, Doubt> {
    let mut children: Vec<Child> = Vec::with_capacity(entries.len());
    for entry in entries {
        let (at, block) = (u32_at(entry, 0), wide(u32_at(entry, 4), u16_at(entry, 8).into()));
        // The first child also covers everything before it.
        let from = if children.is_empty() { span.start } else { at };
        let follows = children.last().is_none_or(|last| last.span.start < from);
        if !follows
            || at < span.start
            || at >= span.end
            || !fs.holds(BlockRange { start: block, end: block + 1 })
        {
            return Err(Doubt);
        }
        if let Some(last) = children.last_mut() {
            last.span.end = from;
        }
        children.push(Child { block, span: from..span.end });
    }
    Ok(Entries { span, child_depth: Some(below), children, ..Entries::default() })
}

/// Reads the pointers in an inode: those to data, and one to each kind of indirect block.
pub fn pointer_root(bytes: &[u8], fs: &Superblock) -> Result<Vec<Entries>, Doubt> {
    let mut parts = vec![pointers(&bytes[..bytes.len().min(4 * DIRECT as usize)], None, 0..DIRECT, fs)?];
    let mut from = DIRECT;
    for depth in 0..3u8 {
        let to = from + POINTERS.pow(u32::from(depth) + 1).min(FILE_BLOCKS_MAX - from);
        let at = 4 * (DIRECT as usize + usize::from(depth));
        parts.push(pointers(bytes.get(at..at + 4).unwrap_or_default(), Some(depth), from..to, fs)?);
        from = to;
    }
    Ok(parts)
}

/// Reads pointers to data, or to nodes of the depth `below`. They divide the span evenly; 0 is a hole.
pub fn pointers(
    bytes: &[u8],
    below: Option<u8>,
    span: Range<u32>,
    fs: &Superblock,
) -> Result<Entries, Doubt> {
    let step = below.map_or(1, |depth| POINTERS.pow(u32::from(depth) + 1));
    let mut entries = Entries { span: span.clone(), child_depth: below, ..Entries::default() };
    for (number, pointer) in bytes.chunks_exact(4).enumerate() {
        let block = u64::from(u32_at(pointer, 0));
        let at = u64::from(span.start) + number as u64 * u64::from(step);
        if block == 0 {
            continue;
        }
        let range = BlockRange { start: block, end: block + 1 };
        let (Ok(from), true) = (u32::try_from(at), at < u64::from(span.end) && fs.holds(range)) else {
            return Err(Doubt);
        };
        match below {
            Some(_) => {
                let to = from.saturating_add(step).min(span.end);
                entries.children.push(Child { block, span: from..to });
            }
            None => push(&mut entries.runs, from, range),
        }
    }
    Ok(entries)
}

/// Adds a run, or extends the last one if this one continues it.
fn push(runs: &mut Vec<(u32, BlockRange)>, at: u32, range: BlockRange) {
    match runs.last_mut() {
        Some((first, last))
            if last.end == range.start && u64::from(*first) + last.count() == u64::from(at) =>
        {
            last.end = range.end;
        }
        _ => runs.push((at, range)),
    }
}
