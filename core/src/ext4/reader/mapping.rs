//! Where the blocks of a file are. Each step goes down one level of a tree that has at most five, so no loop of blocks is followed forever.

use super::{Blocks, FileSystem, FsError, Node};
use crate::ext4::claims;
use crate::ext4::fields::{u16_at, u32_at};
use crate::ext4::tree::{self, Entries, Style};
use crate::units::BlockRange;
use std::ops::Range;

/// The header, and each entry, of a node of extents.
const ENTRY_BYTES: usize = 12;
/// A greater length means this many blocks fewer, which were never written.
const EXTENT_BLOCKS_MAX: u16 = 1 << 15;

/// Blocks of a file that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their place on the drive; `None` where they read as zeros.
    pub start: Option<u64>,
    /// How many; at least one.
    pub blocks: u64,
}

/// The run that begins with block `at` of the file.
pub async fn run_at<B: Blocks>(fs: &FileSystem<B>, node: &Node, at: u64) -> Result<Run, FsError> {
    let at = u32::try_from(at).map_err(|_| FsError::Damaged("a file's size"))?;
    let root = node.roots().iter().find(|root| root.span.contains(&at));
    let Some(root) = root else { return Ok(Run { start: None, blocks: 1 }) };
    let (mut entries, mut bytes) = (root.clone(), node.root().to_vec());
    while let Some(depth) = entries.child_depth {
        let Some(child) = entries.children.iter().find(|child| child.span.contains(&at)) else {
            let next = entries.children.iter().map(|child| child.span.start).find(|start| *start > at);
            return Ok(hole(at, next, &entries.span));
        };
        bytes = fs.read_blocks(BlockRange::new(child.block, 1)).await?;
        entries = match node.style() {
            Style::Extents if !claims::checks(&bytes, node.inode.seed, &fs.fs) => {
                return Err(FsError::Damaged("a file's tree of blocks"));
            }
            Style::Extents => tree::extents(&bytes, Some(depth), child.span.clone(), &fs.fs)?,
            Style::Pointers => tree::pointers(&bytes, depth.checked_sub(1), child.span.clone(), &fs.fs)?,
        };
    }
    Ok(match node.style() {
        Style::Extents => extent_at(&bytes, at, &entries.span),
        Style::Pointers => pointed_at(&entries, at),
    })
}

/// The run in a leaf of extents, which was checked. The entries say which of the blocks were never written.
fn extent_at(leaf: &[u8], at: u32, span: &Range<u32>) -> Run {
    let count = usize::from(u16_at(leaf, 2));
    let entries = leaf.get(ENTRY_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).take(count);
    for entry in entries {
        let (from, length) = (u32_at(entry, 0), u16_at(entry, 4));
        if from > at {
            return hole(at, Some(from), span);
        }
        let is_written = length <= EXTENT_BLOCKS_MAX;
        let blocks = u64::from(if is_written { length } else { length - EXTENT_BLOCKS_MAX });
        let skipped = u64::from(at - from);
        if skipped < blocks {
            let start = u64::from(u16_at(entry, 6)) << 32 | u64::from(u32_at(entry, 8));
            return Run { start: is_written.then_some(start + skipped), blocks: blocks - skipped };
        }
    }
    hole(at, None, span)
}

fn pointed_at(entries: &Entries, at: u32) -> Run {
    for (from, range) in &entries.runs {
        if *from > at {
            return hole(at, Some(*from), &entries.span);
        }
        let skipped = u64::from(at - from);
        if skipped < range.count() {
            return Run { start: Some(range.start + skipped), blocks: range.count() - skipped };
        }
    }
    hole(at, None, &entries.span)
}

/// Nothing until `next`, or until the end of the span.
fn hole(at: u32, next: Option<u32>, span: &Range<u32>) -> Run {
    let end = next.unwrap_or(span.end).max(at.saturating_add(1));
    Run { start: None, blocks: u64::from(end.saturating_sub(at)).max(1) }
}
