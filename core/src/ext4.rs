//! Reads ext4 from outside: finds which blocks of a drive are metadata, and which file each data block belongs to.
//!
//! Written from the kernel's documentation of the format (docs.kernel.org/filesystems/ext4); each module names its pages. It does no I/O.
//! It says which blocks it wants, level by level, so that each level takes few large requests made at once, and the caller hands it their
//! bytes:
//!
//! 1. the superblock, and the place where the descriptors are expected;
//! 2. the descriptors, if they are elsewhere (meta_bg, strange sizes);
//! 3. the used parts of all inode tables, which tell directories from files without reading any directory;
//! 4. nodes of files' trees, one level of the trees at a time, at most five.
//!
//! The caller's part:
//!
//! ```text
//! let mut walk = Walk::new(blocks of the drive, Limits::default());
//! loop {
//!     let wanted = walk.wanted();
//!     pull walk.found() in the background: bitmaps, directories, the journal are not read here
//!     if wanted.is_empty() { break }
//!     pull wanted, and wait for it
//!     walk.feed(&mut |range, bytes| read what is local into bytes)?;
//! }
//! ```
//!
//! Later, for every range that the kernel writes: `walk.written(range)`, and now and then the same loop again. Nearly all writes touch no
//! block that is read here, and cost two searches in ordered maps.
//!
//! Nothing that is read is trusted. A mounted file system changes in the meantime, its newest metadata may be only in its journal, and it
//! may be hostile. So every number is checked against the size of the file system, and every checksum is checked. A structure that does not
//! check is skipped, and the earlier knowledge stays. [`Limits`] bound the memory and the blocks that may be pulled in vain. A wrong answer
//! costs pulling a block early or late. It must cost nothing else: do not decide by it what is written, dropped or served.

mod agenda;
mod attributes;
mod block_map;
mod checksum;
mod claims;
mod doubts;
mod fields;
mod groups;
mod inode;
mod kind;
mod limits;
mod nodes;
pub mod reader;
mod superblock;
mod tree;

pub use kind::Kind;
pub use limits::Limits;
pub use superblock::Ext4Error;

use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, CHUNK_BYTES};
use agenda::Agenda;
use claims::{Claims, Context};
use doubts::Doubts;
use groups::{Fixed, Groups};
use std::fmt;
use superblock::Superblock;

/// Wanted blocks less than a chunk apart are one request.
const GAP_BLOCKS: u64 = CHUNK_BLOCKS;
/// An inode's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u32);

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bytes that were read are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt;

/// The knowledge about a drive's file system.
///
/// Memory: 48 bytes for each group, at most three runs of 45 bytes for each group in use, and beyond that what [`Limits`] allow. At most
/// 2^18 groups are read.
pub struct Walk {
    device_blocks: u64,
    limits: Limits,
    fs: Option<Superblock>,
    needs_recovery: bool,
    groups: Groups,
    claims: Claims,
    agenda: Agenda,
    /// Blocks with content that was not trusted when it was last read.
    doubts: Doubts,
    /// The ranges that the caller was last asked for, and so has.
    asked: Vec<BlockRange>,
}

impl Walk {
    /// A walk that knows nothing yet about a drive of `device_blocks` blocks.
    pub fn new(device_blocks: u64, limits: Limits) -> Self {
        let mut agenda = Agenda::default();
        agenda.read(BlockRange::new(0, 1));
        Self {
            device_blocks,
            limits,
            fs: None,
            needs_recovery: false,
            groups: Groups::default(),
            claims: Claims::default(),
            agenda,
            doubts: Doubts::default(),
            asked: Vec::new(),
        }
    }

    /// The blocks that must be local before [`feed`](Self::feed), in order; empty once everything is known. Blocks less than a chunk apart
    /// are one range, so at most fifteen extra blocks are pulled for each wanted one.
    pub fn wanted(&mut self) -> Vec<BlockRange> {
        self.asked = self.agenda.wanted(GAP_BLOCKS);
        if self.fs.is_none()
            && let Some(first) = self.asked.first_mut()
        {
            first.end = first.end.max(expected_front(self.device_blocks));
        }
        self.asked.clone()
    }

    /// Reads the wanted blocks, and the blocks that these name, as far as they are in the same ranges. `read` fills its second argument
    /// with the blocks of the first (a chunk at most), or returns false if some are not local: these are wanted again.
    ///
    /// # Errors
    ///
    /// The superblock shows that there is nothing to read here. The earlier knowledge stays, and block 0 is read again once it is written.
    pub fn feed(&mut self, read: &mut dyn FnMut(BlockRange, &mut [u8]) -> bool) -> Result<(), Ext4Error> {
        let asked = std::mem::take(&mut self.asked);
        let mut buffer = vec![0; CHUNK_BYTES as usize];
        let (mut absent, mut outcome) = (Vec::new(), Ok(()));
        loop {
            let batch = self.agenda.take(&asked);
            if batch.is_empty() {
                break;
            }
            for piece in batch.into_iter().flat_map(BlockRange::by_chunk) {
                let bytes = &mut buffer[..piece.byte_len() as usize];
                let is_whole = read(piece, bytes);
                for (block, bytes) in piece.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES as usize)) {
                    // If the piece is not wholly local, a part of it may be.
                    match is_whole || read(BlockRange::new(block, 1), bytes) {
                        true => outcome = outcome.and(self.learn(block, bytes)),
                        false => absent.push(BlockRange::new(block, 1)),
                    }
                }
            }
        }
        absent.into_iter().for_each(|piece| self.agenda.read(piece));
        outcome
    }

    /// These blocks were written, and the new content can be read: those that were read here before are wanted again.
    pub fn written(&mut self, range: BlockRange) {
        if range.start == 0 && !range.is_empty() {
            self.agenda.read(BlockRange::new(0, 1));
        }
        for (part, fixed) in self.groups.within(range) {
            if matches!(fixed, Fixed::Descriptors(_) | Fixed::Table(_)) {
                self.agenda.read(part);
            }
        }
        for block in self.claims.nodes_within(range) {
            self.agenda.read(BlockRange::new(block, 1));
        }
    }

    /// The drive has another size now: look at the superblock again.
    pub fn resized(&mut self, device_blocks: u64) {
        self.device_blocks = device_blocks;
        self.agenda.read(BlockRange::new(0, 1));
    }

    fn learn(&mut self, block: u64, bytes: &[u8]) -> Result<(), Ext4Error> {
        if block == 0 {
            return self.learn_superblock(bytes);
        }
        let Some(fs) = &self.fs else { return Ok(()) };
        let (limits, agenda) = (&self.limits, &mut self.agenda);
        match self.groups.at(block) {
            Some(Fixed::Descriptors(number)) => self.groups.learn(number, bytes, fs, limits, agenda),
            Some(Fixed::Table(group)) => {
                let groups = &self.groups;
                if let Some(first) = groups.first_inode(group, block, fs) {
                    self.claims.learn_table(first, bytes, &mut Context { fs, groups, limits, agenda });
                }
            }
            Some(_) => {}
            None => {
                let groups = &self.groups;
                self.claims.learn_node(block, bytes, &mut Context { fs, groups, limits, agenda });
            }
        }
        // The block may have been read during a write, and be sound the next time.
        let is_doubted = self.agenda.take_doubt();
        self.doubts.note(block, is_doubted);
        Ok(())
    }

    /// A changed layout (enlarged, or made again) is read from the start: all of it is local by then.
    fn learn_superblock(&mut self, bytes: &[u8]) -> Result<(), Ext4Error> {
        let (fs, needs_recovery) = Superblock::parse(bytes, self.device_blocks)?;
        self.needs_recovery = needs_recovery;
        if self.fs.as_ref() != Some(&fs) {
            self.agenda.clear();
            self.doubts.clear();
            self.claims = Claims::default();
            self.groups = Groups::new(&fs, &self.limits, &mut self.agenda);
            self.fs = Some(fs);
        }
        Ok(())
    }

    /// Metadata found since the last call, in order; some of it may have been returned before.
    pub fn found(&mut self) -> Vec<(BlockRange, Kind)> {
        self.agenda.take_found()
    }

    /// All known metadata, in order. Adjoining ranges of the same kind are one range.
    pub fn metadata(&self) -> Vec<(BlockRange, Kind)> {
        let fixed = self.groups.iter().map(|(range, fixed)| (range, fixed.kind()));
        let mut all: Vec<_> = fixed.chain(self.claims.metadata()).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let adjoins = next.1 == last.1 && next.0.start <= last.0.end;
            if adjoins {
                last.0.end = last.0.end.max(next.0.end);
            }
            adjoins
        });
        all
    }

    /// The number of known metadata blocks.
    pub fn metadata_blocks(&self) -> u64 {
        self.groups.blocks() + self.claims.metadata_blocks()
    }

    /// The kind of metadata in the block, if it is known to be metadata.
    pub fn kind_of(&self, block: u64) -> Option<Kind> {
        self.groups.at(block).map(Fixed::kind).or_else(|| self.claims.kind_of(block))
    }

    /// The regular file whose data is in the block, and the block's place in the file, in blocks. `None` proves nothing: the block may be a
    /// small file's, a new one, or free.
    pub fn owner_of(&self, block: u64) -> Option<(InodeNumber, u64)> {
        let (inode, at) = self.claims.owner_of(block)?;
        self.kind_of(block).is_none().then_some((InodeNumber(inode), at.into()))
    }

    /// Whether the block, if it is in use, is data of a file that is not kept for lack of space: all metadata is known, and the block is
    /// none. Only for a walk that was fed all of `wanted`. Metadata that ext4 has so far written only to its journal is in the page cache:
    /// nobody reads it from its place before it is written there, and then it is known.
    pub fn is_forgotten_data(&self, block: u64) -> bool {
        let is_all_known = self.fs.is_some() && !self.is_full() && self.doubts() == 0;
        is_all_known && self.claims.has_forgotten() && self.kind_of(block).is_none()
    }

    /// The number of blocks of a regular file, holes included. `None` if the file is not kept.
    pub fn blocks_in(&self, file: InodeNumber) -> Option<u64> {
        Some(self.size_of(file)?.div_ceil(BLOCK_BYTES))
    }

    /// The blocks on the drive of a part of a file, in the order of the file, without holes.
    pub fn blocks_within(&self, file: InodeNumber, part: BlockRange) -> Vec<BlockRange> {
        let block = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
        self.claims.blocks_within(file.0, block(part.start)..block(part.end))
    }

    /// The runs of a regular file, a directory or another inode with blocks, in order: the place of each in the file, in blocks, and its
    /// blocks on the drive. Between runs are holes. `None` if the inode is not kept.
    pub fn runs_of(&self, inode: InodeNumber) -> Option<Vec<(u64, BlockRange)>> {
        let runs = self.claims.runs_of(inode.0)?;
        Some(runs.into_iter().map(|(at, range)| (at.into(), range)).collect())
    }

    /// The size of an inode in bytes, as of the last time that its blocks changed or its inode was read. `None` if the inode is not kept.
    pub fn size_of(&self, inode: InodeNumber) -> Option<u64> {
        self.claims.size_of(inode.0)
    }

    /// Whether the next mount reads the journal: the file system was mounted when the superblock was written.
    pub fn needs_recovery(&self) -> bool {
        self.needs_recovery
    }

    /// Whether a limit was reached, so that some metadata is unknown.
    pub fn is_full(&self) -> bool {
        self.agenda.is_full
    }

    /// Regular files with fewer bytes are not kept, for lack of space; 0 if all are kept.
    pub fn smallest_file_bytes(&self) -> u64 {
        self.claims.smallest_bytes()
    }

    /// The number of blocks with untrusted content. Blocks that are no longer read, such as freed ones, do not count.
    pub fn doubts(&self) -> usize {
        self.doubts.count(|block| match self.groups.at(block) {
            Some(fixed) => matches!(fixed, Fixed::Descriptors(_) | Fixed::Table(_)),
            None => self.claims.is_node(block),
        })
    }

    /// The memory in use, roughly.
    pub fn memory_bytes(&self) -> usize {
        self.groups.memory_bytes() + self.claims.memory_bytes()
    }
}

/// The superblock, and the descriptors of a drive that is one file system with groups of the usual size.
fn expected_front(device_blocks: u64) -> u64 {
    let groups = device_blocks.div_ceil(8 * BLOCK_BYTES);
    (1 + (groups * 64).div_ceil(BLOCK_BYTES)).min(device_blocks)
}

#[cfg(test)]
mod tests;
