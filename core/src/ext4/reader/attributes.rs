//! Extended attributes: behind an inode's fields, in a block, and large ones in inodes of their own (kernel documentation, ext4, "Extended
//! Attributes").

use super::{BLOCK, Blocks, FileSystem, FsError, Node};
use crate::ext4::InodeNumber;
use crate::ext4::checksum::crc32c;
use crate::ext4::fields::{u16_at, u32_at};
use crate::ext4::superblock::GroupCheck;
use crate::units::BlockRange;

const MAGIC: u32 = 0xea02_0000;
const MAGIC_BYTES: usize = 4;
const BLOCK_HEAD_BYTES: usize = 32;
const CHECKSUM_AT: usize = 0x10;
const ENTRY_BYTES: usize = 16;
/// The kernel's limit for one value.
const VALUE_BYTES_MAX: u32 = 64 << 10;
/// The namespace and the name under which the rest of inline data is kept.
const SYSTEM: u8 = 7;
const INLINE: &[u8] = b"data";

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name with its namespace, such as `user.comment`.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// An entry whose bounds are checked.
struct Entry<'a> {
    index: u8,
    name: &'a [u8],
    value: Value<'a>,
}

enum Value<'a> {
    Here(&'a [u8]),
    Inode { number: u32, bytes: u32 },
}

impl<B: Blocks> FileSystem<B> {
    /// All attributes that a program may see. Access control lists, which ext4 writes in a form of its own, are left out.
    ///
    /// # Errors
    ///
    /// They do not check, or cannot be read.
    pub async fn attributes(&self, node: &Node) -> Result<Vec<Attribute>, FsError> {
        let block = match node.inode.attributes {
            Some(number) => self.attribute_block(number).await?,
            None => Vec::new(),
        };
        let mut found = inside(node)?;
        if !block.is_empty() {
            found.extend(parse(&block, BLOCK_HEAD_BYTES, 0)?);
        }
        let mut attributes = Vec::with_capacity(found.len());
        for Entry { index, name, value } in found {
            let Some(namespace) = namespace(index) else { continue };
            if index == SYSTEM && name == INLINE {
                continue;
            }
            let value = match value {
                Value::Here(value) => value.to_vec(),
                Value::Inode { number, bytes } => self.large_value(number, bytes).await?,
            };
            attributes.push(Attribute { name: [namespace, name].concat(), value });
        }
        Ok(attributes)
    }

    async fn large_value(&self, number: u32, bytes: u32) -> Result<Vec<u8>, FsError> {
        let node = self.node(InodeNumber(number)).await?;
        let value = self.read(&node, 0..u64::from(bytes)).await?;
        match value.len() == bytes as usize {
            true => Ok(value),
            false => Err(FsError::Damaged("a large attribute")),
        }
    }

    async fn attribute_block(&self, number: u64) -> Result<Vec<u8>, FsError> {
        let block = self.read_blocks(BlockRange::new(number, 1)).await?;
        let mut cleared = block.clone();
        cleared[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
        let sum = crc32c(crc32c(self.fs.seed, &number.to_le_bytes()), &cleared);
        let is_whole = self.fs.group_check != GroupCheck::Crc32c || sum == u32_at(&block, CHECKSUM_AT);
        match u32_at(&block, 0) == MAGIC && block.len() == BLOCK && is_whole {
            true => Ok(block),
            false => Err(FsError::Damaged("a block of attributes")),
        }
    }
}

/// The rest of an inline file or directory, beyond the inode's first bytes.
pub fn inline_rest(node: &Node) -> Result<Option<&[u8]>, FsError> {
    let found = inside(node)?.into_iter().find(|entry| entry.index == SYSTEM && entry.name == INLINE);
    match found.map(|entry| entry.value) {
        None => Ok(None),
        Some(Value::Here(value)) => Ok(Some(value)),
        Some(Value::Inode { .. }) => Err(FsError::Damaged("inline data")),
    }
}

/// The attributes behind the inode's fields.
fn inside(node: &Node) -> Result<Vec<Entry<'_>>, FsError> {
    let bytes = node.behind_fields();
    match u32_at(bytes, 0) == MAGIC {
        true => parse(bytes, MAGIC_BYTES, MAGIC_BYTES),
        false => Ok(Vec::new()),
    }
}

/// Entries from `from` on; the places of values count from `base`.
fn parse(bytes: &[u8], from: usize, base: usize) -> Result<Vec<Entry<'_>>, FsError> {
    let damaged = || FsError::Damaged("an attribute");
    let mut entries = Vec::new();
    let mut at = from;
    while u32_at(bytes, at) != 0 {
        let head = bytes.get(at..at + ENTRY_BYTES).ok_or_else(damaged)?;
        let name_bytes = usize::from(head[0]);
        let name = bytes.get(at + ENTRY_BYTES..at + ENTRY_BYTES + name_bytes).ok_or_else(damaged)?;
        let (place, inode, length) = (usize::from(u16_at(head, 2)), u32_at(head, 4), u32_at(head, 8));
        if length > VALUE_BYTES_MAX {
            return Err(damaged());
        }
        let value = match inode {
            0 if length == 0 => Value::Here(&[]),
            0 => Value::Here(bytes.get(base + place..base + place + length as usize).ok_or_else(damaged)?),
            number => Value::Inode { number, bytes: length },
        };
        entries.push(Entry { index: head[1], name, value });
        at += ENTRY_BYTES + name_bytes.next_multiple_of(4);
    }
    Ok(entries)
}

fn namespace(index: u8) -> Option<&'static [u8]> {
    Some(match index {
        1 => b"user.",
        4 => b"trusted.",
        6 => b"security.",
        SYSTEM => b"system.",
        _ => return None,
    })
}
