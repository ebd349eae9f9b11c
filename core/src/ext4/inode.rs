//! One inode (kernel documentation, ext4, "Index Nodes", "Special inodes", "Inline Data", "Large Extended Attribute
//! Values", "Orphan file").

use super::block_map::FILE_BLOCKS_MAX;
use super::checksum::crc32c;
use super::fields::{u16_at, u32_at, wide};
use super::superblock::{GroupCheck, Superblock};
use super::tree::{self, Entries, Style};
use super::{Doubt, Kind};
use crate::units::BLOCK_BYTES;

const TYPE: u16 = 0xf000;
const TYPE_DIRECTORY: u16 = 0x4000;
const TYPE_FILE: u16 = 0x8000;
const TYPE_SYMLINK: u16 = 0xa000;
const FLAG_EXTENTS: u32 = 0x8_0000;
const FLAG_ATTRIBUTES: u32 = 0x20_0000;
const FLAG_INLINE: u32 = 0x1000_0000;
/// A shorter target of a symbolic link is inside the inode.
const INLINE_LINK_BYTES: u64 = 60;
/// The largest possible file with blocks of 4 KiB.
const SIZE_MAX: u64 = FILE_BLOCKS_MAX as u64 * BLOCK_BYTES;

const INODE_BAD_BLOCKS: u32 = 1;
const INODE_ROOT: u32 = 2;
const INODE_RESIZE: u32 = 7;

/// The content of an inode's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of a regular file, the only content that is not metadata.
    Regular,
    /// Directory entries.
    Directory,
    /// The target of a symbolic link.
    Symlink,
    /// An extended attribute.
    Attributes,
    /// The journal.
    Journal,
    /// Quota, orphans, and the content of other reserved inodes.
    Special,
}

impl Content {
    /// The kind of metadata, if it is metadata; `at` is the block of the file.
    pub fn kind(self, at: u32) -> Option<Kind> {
        Some(match self {
            Content::Regular => return None,
            Content::Directory => Kind::Directory,
            Content::Symlink => Kind::Symlink,
            Content::Attributes => Kind::Attributes,
            Content::Journal if at == 0 => Kind::JournalHead,
            Content::Journal => Kind::Journal,
            Content::Special => Kind::Special,
        })
    }
}

/// An inode in use.
#[derive(Clone, Debug)]
pub struct Inode {
    /// The content of its blocks.
    pub content: Content,
    /// Its size in bytes.
    pub size: u64,
    /// The style of its tree.
    pub style: Style,
    /// The entries in the root of its tree; empty if it has no blocks.
    pub roots: Vec<Entries>,
    /// The block with its extended attributes.
    pub attributes: Option<u64>,
    /// Seed of the checksums of its tree.
    pub seed: u32,
    /// Two inodes with the same digest have the same blocks.
    pub digest: u32,
}

impl Inode {
    /// Reads inode `number`; `None` if it is free.
    pub fn parse(number: u32, bytes: &[u8], fs: &Superblock) -> Result<Option<Self>, Doubt> {
        let mode = u16_at(bytes, 0x0);
        if mode == 0 || number == INODE_BAD_BLOCKS {
            return Ok(None);
        }
        let seed = crc32c(crc32c(fs.seed, &number.to_le_bytes()), bytes.get(0x64..0x68).unwrap_or_default());
        if !checks(bytes, seed, fs) {
            return Err(Doubt);
        }
        // A deleted inode has a time of deletion. One that is still open has the number of another inode there, or 0.
        let (links, deleted) = (u16_at(bytes, 0x1a), u32_at(bytes, 0x14));
        if links == 0 && deleted > fs.inodes {
            return Ok(None);
        }
        let flags = u32_at(bytes, 0x20);
        let content = content(number, mode, flags, fs);
        let has_large_size = content != Content::Directory || fs.large_directories;
        let size = wide(u32_at(bytes, 0x4), if has_large_size { u32_at(bytes, 0x6c) } else { 0 });
        if size > SIZE_MAX {
            return Err(Doubt);
        }
        let is_extents = flags & FLAG_EXTENTS != 0;
        let root = bytes.get(0x28..0x64).unwrap_or_default();
        let is_inline = flags & FLAG_INLINE != 0 || content == Content::Symlink && size < INLINE_LINK_BYTES;
        let roots = match mode & TYPE {
            TYPE_FILE | TYPE_DIRECTORY | TYPE_SYMLINK if is_inline => Vec::new(),
            TYPE_FILE | TYPE_DIRECTORY | TYPE_SYMLINK if is_extents => {
                vec![tree::extents(root, None, 0..FILE_BLOCKS_MAX, fs)?]
            }
            TYPE_FILE | TYPE_DIRECTORY | TYPE_SYMLINK => tree::pointer_root(root, fs)?,
            _ => Vec::new(),
        };
        let attributes = wide(u32_at(bytes, 0x68), u16_at(bytes, 0x76).into());
        let mut digest = crc32c(seed, root);
        digest = crc32c(digest, &(flags & (FLAG_EXTENTS | FLAG_INLINE | FLAG_ATTRIBUTES)).to_le_bytes());
        digest = crc32c(digest, &attributes.to_le_bytes());
        digest = crc32c(digest, &mode.to_le_bytes());
        Ok(Some(Self {
            content,
            size,
            style: if is_extents { Style::Extents } else { Style::Pointers },
            roots,
            attributes: (attributes > 0 && attributes < fs.blocks).then_some(attributes),
            seed,
            digest,
        }))
    }
}

fn content(number: u32, mode: u16, flags: u32, fs: &Superblock) -> Content {
    match mode & TYPE {
        _ if fs.journal == Some(number) => Content::Journal,
        _ if fs.special.contains(&number) => Content::Special,
        TYPE_DIRECTORY => Content::Directory,
        _ if number < fs.first_inode && number != INODE_ROOT => Content::Special,
        TYPE_SYMLINK => Content::Symlink,
        _ if flags & FLAG_ATTRIBUTES != 0 => Content::Attributes,
        _ => Content::Regular,
    }
}

/// Whether its checksum is right, if it has one.
fn checks(bytes: &[u8], seed: u32, fs: &Superblock) -> bool {
    if fs.group_check != GroupCheck::Crc32c {
        return true;
    }
    let Some((old, rest)) = bytes.split_at_checked(128) else { return false };
    let mut sum = crc32c(crc32c(seed, &old[..0x7c]), &[0, 0]);
    sum = crc32c(sum, &old[0x7e..]);
    let has_upper = u16_at(rest, 0) >= 4 && rest.len() >= 4;
    if !has_upper {
        sum = crc32c(sum, rest);
        return sum as u16 == u16_at(old, 0x7c);
    }
    sum = crc32c(crc32c(crc32c(sum, &rest[..2]), &[0, 0]), &rest[4..]);
    sum == u32::from(u16_at(rest, 2)) << 16 | u32::from(u16_at(old, 0x7c))
}

/// Whether the inode's data blocks are the reserved descriptor blocks, which are known already. Its only indirect block is not one of
/// those.
pub fn maps_the_reserve(number: u32) -> bool {
    number == INODE_RESIZE
}
