//! Reads ext4 from outside: which blocks of a drive are metadata, and which file has which block.
//!
//! Written after the kernel's documentation of the format (docs.kernel.org/filesystems/ext4); each module names its
//! pages. It does no I/O. It says which blocks it wants, level by level, so that each level is few large requests made
//! at once, and it is handed their bytes:
//!
//! 1. the superblock, and where the descriptors are expected;
//! 2. the descriptors, where they lie elsewhere (meta_bg, strange sizes);
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
//! Later, for every range that the kernel writes: `walk.written(range)`, and now and then the same loop again. Nearly all
//! writes touch nothing that is known to be read here, and cost two searches in ordered maps.
//!
//! What is read is not trusted. A mounted file system changes meanwhile, its newest metadata may be in its journal only,
//! and it may be hostile. So every number is checked against the size of the file system, what has a checksum is
//! checked, a structure that does not check is skipped and what was known before stays, and [`Limits`] bound the memory
//! and what may be pulled in vain. A wrong answer costs pulling a block early or late. It must cost nothing else: do
//! not decide by it what is written, dropped or served.

mod agenda;
mod attributes;
mod block_map;
mod checksum;
mod claims;
mod fields;
mod groups;
mod inode;
mod kind;
mod limits;
mod nodes;
mod superblock;
mod tree;

pub use kind::Kind;
pub use limits::Limits;
pub use superblock::Ext4Error;

use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, CHUNK_BYTES};
use agenda::Agenda;
use claims::{Claims, Context};
use groups::{Fixed, Groups};
use std::collections::BTreeSet;
use std::fmt;
use superblock::Superblock;

/// Blocks wanted that lie less than a chunk apart are one request.
const GAP_BLOCKS: u64 = CHUNK_BLOCKS;
/// Blocks whose content is not believed that are remembered. With more, none is ever taken back.
const DOUBTS_MAX: usize = 4096;
/// An inode's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u32);

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was read is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt;

/// What is known of a drive's file system.
///
/// Memory: 48 bytes a group and at most three runs of 45 bytes for each group in use; beside that what [`Limits`] say.
/// At most 2^18 groups are looked at.
pub struct Walk {
    device_blocks: u64,
    limits: Limits,
    fs: Option<Superblock>,
    needs_recovery: bool,
    groups: Groups,
    claims: Claims,
    agenda: Agenda,
    /// Blocks that something of was not believed, when they were learnt from last.
    doubts: BTreeSet<u64>,
    /// What the caller was asked for last, and so has.
    asked: Vec<BlockRange>,
}

impl Walk {
    /// Nothing is known yet of a drive of that size.
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
            doubts: BTreeSet::new(),
            asked: Vec::new(),
        }
    }

    /// What is to be local before [`feed`](Self::feed), in order; nothing if all is learnt. Blocks less than a chunk
    /// apart are one range, so that at most fifteen blocks for each one that is wanted are pulled along.
    pub fn wanted(&mut self) -> Vec<BlockRange> {
        self.asked = self.agenda.wanted(GAP_BLOCKS);
        if self.fs.is_none()
            && let Some(first) = self.asked.first_mut()
        {
            first.end = first.end.max(expected_front(self.device_blocks));
        }
        self.asked.clone()
    }

    /// Reads what was wanted, and what it names as far as that lies in the same ranges. `read` fills its second
    /// argument with the blocks of the first (a chunk at most), or answers false where some are not local: these are wanted
    /// again.
    ///
    /// # Errors
    ///
    /// The superblock tells that there is nothing to be read here. What was known stays, and block 0 is looked at again
    /// once it is written.
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
                    // Of what is not all local a part may be.
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

    /// These blocks were written, and what was written can be read: what of them was learnt from is wanted again.
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

    /// The drive has another size now: what the superblock says is looked at again.
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
        // It may have been read while it was being written, and be well the next time.
        match self.agenda.take_doubt() {
            false => _ = self.doubts.remove(&block),
            true if self.doubts.len() < DOUBTS_MAX => _ = self.doubts.insert(block),
            true => {}
        }
        Ok(())
    }

    /// A layout that changed (made larger, made anew) is learnt from the start: all of it is local by then.
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

    /// Metadata that was found since this was last asked, in order; some of it perhaps not for the first time.
    pub fn found(&mut self) -> Vec<(BlockRange, Kind)> {
        self.agenda.take_found()
    }

    /// All metadata that is known, in order, what adjoins and is alike as one range.
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

    /// Blocks of metadata that are known.
    pub fn metadata_blocks(&self) -> u64 {
        self.groups.blocks() + self.claims.metadata_blocks()
    }

    /// What metadata the block is, if it is known to be any.
    pub fn kind_of(&self, block: u64) -> Option<Kind> {
        self.groups.at(block).map(Fixed::kind).or_else(|| self.claims.kind_of(block))
    }

    /// The regular file whose data is in the block, and where in the file, in blocks. None is no proof of anything: a
    /// small file, one that is new, a block that is free.
    pub fn owner_of(&self, block: u64) -> Option<(InodeNumber, u64)> {
        let (inode, at) = self.claims.owner_of(block)?;
        self.kind_of(block).is_none().then_some((InodeNumber(inode), at.into()))
    }

    /// Whether the block, if anything has it, is data of a file that is not kept for want of room: all metadata is known, and it is
    /// none. Only for one that all of `wanted` was fed to. Metadata that ext4 has so far written to its journal alone is at its place
    /// in the page cache: nobody reads it from there before it was written there, and then it is known.
    pub fn is_forgotten_data(&self, block: u64) -> bool {
        let is_all_known = self.fs.is_some() && !self.is_full() && self.doubts() == 0;
        is_all_known && self.claims.has_forgotten() && self.kind_of(block).is_none()
    }

    /// How many blocks a regular file has, holes included. None where it is not kept.
    pub fn blocks_in(&self, file: InodeNumber) -> Option<u64> {
        Some(self.size_of(file)?.div_ceil(BLOCK_BYTES))
    }

    /// The blocks on the drive of a part of a file, in the order of the file, holes aside.
    pub fn blocks_within(&self, file: InodeNumber, part: BlockRange) -> Vec<BlockRange> {
        let block = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
        self.claims.blocks_within(file.0, block(part.start)..block(part.end))
    }

    /// The runs of a regular file, a directory or another inode with blocks, in order: where in the file each begins, in
    /// blocks, and its blocks on the drive. Between runs are holes. None where it is not kept.
    pub fn runs_of(&self, inode: InodeNumber) -> Option<Vec<(u64, BlockRange)>> {
        let runs = self.claims.runs_of(inode.0)?;
        Some(runs.into_iter().map(|(at, range)| (at.into(), range)).collect())
    }

    /// The size of an inode in bytes, as of the last time that its blocks changed or its inode was read. None where it
    /// is not kept.
    pub fn size_of(&self, inode: InodeNumber) -> Option<u64> {
        self.claims.size_of(inode.0)
    }

    /// Whether the next mount reads the journal: it was mounted when the superblock was written.
    pub fn needs_recovery(&self) -> bool {
        self.needs_recovery
    }

    /// Whether a limit was reached, so that some metadata is not known.
    pub fn is_full(&self) -> bool {
        self.agenda.is_full
    }

    /// Regular files of fewer bytes are not kept, for want of room; 0 where all are.
    pub fn smallest_file_bytes(&self) -> u64 {
        self.claims.smallest_bytes()
    }

    /// Blocks whose content is not believed. What is not read any more, as what was freed, is in no doubt.
    pub fn doubts(&self) -> usize {
        let is_read = |block: &&u64| match self.groups.at(**block) {
            Some(fixed) => matches!(fixed, Fixed::Descriptors(_) | Fixed::Table(_)),
            None => self.claims.is_node(**block),
        };
        match self.doubts.len() {
            DOUBTS_MAX => DOUBTS_MAX,
            _ => self.doubts.iter().filter(is_read).count(),
        }
    }

    /// Memory that is held, about.
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
