//! Reads the files of an ext4 file system without mounting it: directories, data, links, attributes.
//!
//! A version of a drive is a cut through a mounted file system, so its newest metadata may be only in ext4's journal. The journal is
//! replayed first, in memory ([`journal`]): from then on a block that the journal has is read there. Nothing is written.
//!
//! Nothing that is read is trusted. Every number is checked against the size of the file system, every checksum is checked, and every loop
//! is bounded. A structure that does not check is an error, never an empty file: whoever copies from here must not lose data in silence.
//! Directories may still contain each other: a caller that descends bounds the depth.
//!
//! It does no I/O itself: the bytes come from [`Blocks`].

mod attributes;
mod directory;
mod error;
mod inode;
mod journal;
mod mapping;

pub use attributes::Attribute;
pub use directory::Entry;
pub use error::FsError;
pub use inode::{Kind, Node, Time};

use super::InodeNumber;
use super::fields::{u32_at, wide};
use super::groups;
use super::superblock::Superblock;
use crate::device::DeviceError;
use crate::units::{BLOCK_BYTES, BlockRange};
use journal::Replayed;
use std::ops::Range;

/// The root directory.
pub const ROOT: InodeNumber = InodeNumber(2);

/// The most bytes that one call reads.
pub const READ_BYTES_MAX: u64 = 1 << 20;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The blocks of one version of a drive. They never change.
pub trait Blocks: Send + Sync {
    /// The size of the drive in blocks.
    fn size_blocks(&self) -> u64;
    /// The bytes of the blocks, all of them. At most [`READ_BYTES_MAX`] and one block are asked for at once.
    fn read(&self, range: BlockRange) -> impl Future<Output = Result<Vec<u8>, DeviceError>> + Send;
}

/// The size and use of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its blocks.
    pub blocks: u64,
    /// Blocks that are free, as the superblock says.
    pub free_blocks: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Inodes that are free, as the superblock says.
    pub free_inodes: u64,
}

/// One version of a file system.
pub struct FileSystem<B> {
    blocks: B,
    fs: Superblock,
    replayed: Replayed,
    usage: Usage,
}

impl<B: Blocks> FileSystem<B> {
    /// Reads the superblock and the journal.
    ///
    /// # Errors
    ///
    /// The drive holds no ext4 that this reader knows, the structures do not check, or the bytes cannot be read.
    pub async fn open(blocks: B) -> Result<Self, FsError> {
        let front = blocks.read(BlockRange::new(0, 1)).await?;
        let (fs, needs_recovery) = Superblock::parse(&front, blocks.size_blocks())?;
        let usage = usage_by(&front, &fs);
        let mut this = Self { blocks, fs, replayed: Replayed::default(), usage };
        if needs_recovery {
            this.replayed = journal::replay(&this).await?;
            let front = this.read_blocks(BlockRange::new(0, 1)).await?;
            this.fs = Superblock::parse(&front, this.blocks.size_blocks())?.0;
            this.usage = usage_by(&front, &this.fs);
        }
        Ok(this)
    }

    /// The size and use.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Blocks whose newest content is in ext4's journal.
    pub fn replayed_blocks(&self) -> usize {
        self.replayed.len()
    }

    /// Reads an inode that is in use.
    ///
    /// # Errors
    ///
    /// [`FsError::NotFound`] if it is free.
    pub async fn node(&self, number: InodeNumber) -> Result<Node, FsError> {
        let bytes = self.inode_bytes(number).await?;
        Node::parse(number, bytes, &self.fs)
    }

    /// A part of the bytes of a regular file, of a directory or of a long link: less than asked for at the end of the file, or if the range
    /// is longer than [`READ_BYTES_MAX`]. Holes are zeros.
    ///
    /// # Errors
    ///
    /// The file's tree does not check, or the bytes cannot be read.
    pub async fn read(&self, node: &Node, range: Range<u64>) -> Result<Vec<u8>, FsError> {
        let end = range.end.min(node.size).min(range.start.saturating_add(READ_BYTES_MAX));
        let mut bytes = Vec::with_capacity(end.saturating_sub(range.start) as usize);
        if range.start >= end {
            return Ok(bytes);
        }
        if let Some(inline) = self.inline(node)? {
            // A hole at the end has no bytes of its own.
            let held = |at: u64| usize::try_from(at).map_or(inline.len(), |at| at.min(inline.len()));
            bytes.extend_from_slice(&inline[held(range.start)..held(end)]);
            bytes.resize((end - range.start) as usize, 0);
            return Ok(bytes);
        }
        let mut at = range.start;
        while at < end {
            let block = at / BLOCK_BYTES;
            let run = mapping::run_at(self, node, block).await?;
            let until = end.min((block + run.blocks).saturating_mul(BLOCK_BYTES));
            match run.start {
                None => bytes.resize(bytes.len() + (until - at) as usize, 0),
                Some(start) => {
                    let count = until.div_ceil(BLOCK_BYTES) - block;
                    let read = self.read_blocks(BlockRange::new(start, count)).await?;
                    let skipped = (at % BLOCK_BYTES) as usize;
                    let part = read.get(skipped..skipped + (until - at) as usize);
                    bytes.extend_from_slice(part.ok_or(FsError::Damaged("a file's blocks"))?);
                }
            }
            at = until;
        }
        Ok(bytes)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// It is none, or its target is longer than a path can be.
    pub async fn read_link(&self, node: &Node) -> Result<Vec<u8>, FsError> {
        if node.kind != Kind::Symlink {
            return Err(FsError::NotALink);
        }
        if node.is_encrypted() {
            return Err(FsError::Unsupported("encrypted links"));
        }
        match node.fast_link() {
            Some(target) => Ok(target.to_vec()),
            None if node.size >= BLOCK_BYTES => Err(FsError::Damaged("a link's length")),
            None => self.read(node, 0..node.size).await,
        }
    }

    /// The bytes of a file that is kept inside its inode.
    fn inline(&self, node: &Node) -> Result<Option<Vec<u8>>, FsError> {
        if !node.is_inline() {
            return Ok(None);
        }
        let mut bytes = node.root().to_vec();
        if let Some(rest) = attributes::inline_rest(node)? {
            bytes.extend_from_slice(rest);
        }
        Ok(Some(bytes))
    }

    async fn inode_bytes(&self, InodeNumber(number): InodeNumber) -> Result<Vec<u8>, FsError> {
        let fs = &self.fs;
        if number == 0 || number > fs.inodes {
            return Err(FsError::Damaged("an inode's number"));
        }
        let (group, index) = ((number - 1) / fs.inodes_per_group, (number - 1) % fs.inodes_per_group);
        let descriptor = self.descriptor(group).await?;
        let table = groups::table_start(&descriptor);
        let block = table.saturating_add(u64::from(index / fs.inodes_per_block()));
        let place = BlockRange { start: block, end: block.saturating_add(1) };
        if !fs.holds(place) {
            return Err(FsError::Damaged("the place of an inode table"));
        }
        let bytes = self.read_blocks(place).await?;
        let from = (index % fs.inodes_per_block()) as usize * fs.inode_bytes;
        Ok(bytes[from..from + fs.inode_bytes].to_vec())
    }

    /// The descriptor of a group, checked.
    async fn descriptor(&self, group: u32) -> Result<Vec<u8>, FsError> {
        let fs = &self.fs;
        let number = u64::from(group / fs.descriptors_per_block());
        let runs = fs.descriptors();
        let place = runs.iter().find_map(|(run, first)| {
            let within = number.checked_sub(u64::from(*first))?;
            (within < run.count()).then(|| run.start + within)
        });
        let block = place.ok_or(FsError::Damaged("the place of group descriptors"))?;
        let bytes = self.read_blocks(BlockRange::new(block, 1)).await?;
        let from = (group % fs.descriptors_per_block()) as usize * fs.descriptor_bytes;
        let descriptor = bytes[from..from + fs.descriptor_bytes].to_vec();
        match groups::checks(group, &descriptor, fs) {
            true => Ok(descriptor),
            false => Err(FsError::Damaged("a group descriptor")),
        }
    }

    /// Blocks as they are after the replay of the journal.
    async fn read_blocks(&self, range: BlockRange) -> Result<Vec<u8>, FsError> {
        let logged: Vec<_> = self.replayed.within(range).collect();
        let mut bytes = self.read_plain(range).await?;
        for (block, logged) in logged {
            let content = self.read_plain(BlockRange::new(logged.place, 1)).await?;
            let content = logged.content(content, &self.replayed)?;
            let from = (block - range.start) as usize * BLOCK;
            bytes[from..from + BLOCK].copy_from_slice(&content);
        }
        Ok(bytes)
    }

    /// Blocks as they are on the drive.
    async fn read_plain(&self, range: BlockRange) -> Result<Vec<u8>, FsError> {
        let bytes = self.blocks.read(range).await?;
        match bytes.len() as u64 == range.byte_len() {
            true => Ok(bytes),
            false => Err(FsError::Damaged("the length of what was read")),
        }
    }
}

/// What the superblock says of free space. ext4 brings it up to date now and then.
fn usage_by(block: &[u8], fs: &Superblock) -> Usage {
    let sb = block.get(1024..).unwrap_or_default();
    let free = wide(u32_at(sb, 0xc), if fs.descriptor_bytes >= 64 { u32_at(sb, 0x158) } else { 0 });
    Usage {
        blocks: fs.blocks,
        free_blocks: free.min(fs.blocks),
        inodes: fs.inodes.into(),
        free_inodes: u64::from(u32_at(sb, 0x10).min(fs.inodes)),
    }
}

#[cfg(test)]
mod tests;
