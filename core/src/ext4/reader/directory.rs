//! Directories (kernel documentation, ext4, "Directory Entries").
//!
//! The nodes of a hashed index look like deleted entries to a reader that does not know them, and the leaves are ordinary blocks. So every
//! directory is read in order, block by block.

use super::attributes;
use super::{BLOCK, Blocks, FileSystem, FsError, Kind, Node};
use crate::ext4::InodeNumber;
use crate::ext4::checksum::crc32c;
use crate::ext4::fields::{u16_at, u32_at};
use crate::ext4::superblock::GroupCheck;
use crate::units::BLOCK_BYTES;

/// The fields of an entry before its name.
const HEAD_BYTES: usize = 8;
/// The entry at the end of a block that holds its checksum, and the kind of file it names.
const TAIL_BYTES: usize = 12;
const TAIL_KIND: u8 = 0xde;
/// Blocks that are read at a time.
const BLOCKS_AT_ONCE: u64 = 16;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without any meaning: it may be no UTF-8. Never empty, and without `/` and zero bytes.
    pub name: Vec<u8>,
    /// Its inode.
    pub inode: InodeNumber,
    /// The kind, if the entry names one.
    pub kind: Option<Kind>,
    /// The place after it: reading continues there.
    pub next: u64,
}

impl<B: Blocks> FileSystem<B> {
    /// Entries from the place `from` on, with `.` and `..`: none at the end, and at least one before it. The first place is 0; others come
    /// from [`Entry::next`].
    ///
    /// # Errors
    ///
    /// It is no directory, or it does not check.
    pub async fn entries(&self, directory: &Node, from: u64) -> Result<Vec<Entry>, FsError> {
        if directory.kind != Kind::Directory {
            return Err(FsError::NotADirectory);
        }
        if directory.is_encrypted() {
            return Err(FsError::Unsupported("encrypted directories"));
        }
        let mut entries = match directory.is_inline() {
            true => inline_entries(directory)?,
            false => return self.entries_in_blocks(directory, from).await,
        };
        entries.retain(|entry| entry.next > from);
        Ok(entries)
    }

    /// The entry with that name.
    ///
    /// # Errors
    ///
    /// [`FsError::NotFound`] if there is none.
    pub async fn look_up(&self, directory: &Node, name: &[u8]) -> Result<Entry, FsError> {
        let mut from = 0;
        loop {
            let entries = self.entries(directory, from).await?;
            from = entries.last().ok_or(FsError::NotFound)?.next;
            if let Some(found) = entries.into_iter().find(|entry| entry.name == name) {
                return Ok(found);
            }
        }
    }

    async fn entries_in_blocks(&self, directory: &Node, from: u64) -> Result<Vec<Entry>, FsError> {
        let mut entries = Vec::new();
        let mut block = from / BLOCK_BYTES;
        while entries.is_empty() && block * BLOCK_BYTES < directory.size {
            let part = block * BLOCK_BYTES..(block + BLOCKS_AT_ONCE) * BLOCK_BYTES;
            let bytes = self.read(directory, part).await?;
            for bytes in bytes.chunks(BLOCK) {
                let at = block * BLOCK_BYTES;
                let whole = self.check_block(directory, block, bytes)?;
                parse(whole, at, &mut entries)?;
                block += 1;
            }
            entries.retain(|entry| entry.next > from);
        }
        Ok(entries)
    }

    /// The part of a block that holds entries, if its checksum is right.
    fn check_block<'a>(&self, directory: &Node, block: u64, bytes: &'a [u8]) -> Result<&'a [u8], FsError> {
        let damaged = FsError::Damaged("a block of a directory");
        if bytes.len() != BLOCK {
            return Err(damaged);
        }
        if self.fs.group_check != GroupCheck::Crc32c {
            return Ok(bytes);
        }
        let (front, tail) = bytes.split_at(BLOCK - TAIL_BYTES);
        let is_tail = u32_at(tail, 0) == 0 && u16_at(tail, 4) as usize == TAIL_BYTES && tail[7] == TAIL_KIND;
        // A node of the index has its checksum elsewhere, and names no file but `.` and `..`.
        let is_node = directory.is_indexed()
            && (block == 0 || u32_at(bytes, 0) == 0 && usize::from(u16_at(bytes, 4)) == BLOCK);
        match is_tail {
            true if crc32c(directory.inode.seed, front) == u32_at(tail, 8) => Ok(front),
            false if is_node => Ok(bytes),
            _ => Err(damaged),
        }
    }
}

/// The entries of a directory that is inside its inode: the parent's number, entries, and more of them in an attribute.
fn inline_entries(directory: &Node) -> Result<Vec<Entry>, FsError> {
    const PARENT_BYTES: usize = 4;
    let root = directory.root();
    let dots = [(&b"."[..], directory.number.0), (b"..", u32_at(root, 0))];
    let mut entries: Vec<Entry> = Vec::new();
    for (name, inode) in dots {
        let (kind, next) = (Some(Kind::Directory), entries.len() as u64 + 1);
        entries.push(Entry { name: name.to_vec(), inode: InodeNumber(inode), kind, next });
    }
    let first = root.get(PARENT_BYTES..).unwrap_or_default();
    parse(first, PARENT_BYTES as u64, &mut entries)?;
    if let Some(rest) = attributes::inline_rest(directory)? {
        parse(rest, root.len() as u64, &mut entries)?;
    }
    Ok(entries)
}

/// Adds the entries in `bytes`, whose first byte is at the place `at`. Entries divide the space: each says where the next one is.
fn parse(bytes: &[u8], at: u64, entries: &mut Vec<Entry>) -> Result<(), FsError> {
    let damaged = || FsError::Damaged("an entry of a directory");
    let mut from = 0;
    while from < bytes.len() {
        let rest = &bytes[from..];
        let (inode, length, name_bytes) =
            (u32_at(rest, 0), usize::from(u16_at(rest, 4)), usize::from(*rest.get(6).ok_or_else(damaged)?));
        // The root of an index is one entry that reaches to the end of the block, behind the tail that it does not have.
        if length < HEAD_BYTES || length % 4 != 0 || length > rest.len() {
            return Err(damaged());
        }
        if inode != 0 {
            let name =
                rest.get(HEAD_BYTES..HEAD_BYTES + name_bytes).filter(|_| HEAD_BYTES + name_bytes <= length);
            let name = name.filter(|name| is_name(name)).ok_or_else(damaged)?;
            entries.push(Entry {
                name: name.to_vec(),
                inode: InodeNumber(inode),
                kind: Kind::of_entry(rest[7]),
                next: at + (from + length) as u64,
            });
        }
        from += length;
    }
    Ok(())
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}
