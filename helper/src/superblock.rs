//! What the first bytes of a device hold: nothing, an ext4, or something else.
//!
//! Source: fs/ext4/ext4.h (`struct ext4_super_block`). Numbers are little-endian.

use serde::{Deserialize, Serialize};

/// How much is looked at. It covers the marks of all common file systems, partition tables and volume managers: the last is btrfs's, at 64
/// KiB.
pub const LOOKED_AT_BYTES: usize = 128 << 10;

/// One block, which holds ext4's superblock.
pub(super) const SUPERBLOCK_END_BYTES: usize = 4096;

const OFFSET: usize = 1024;
const MAGIC_AT: usize = 0x38;
const MAGIC: u16 = 0xef53;
const STATE_AT: usize = 0x3a;
const STATE_HAS_ERRORS: u16 = 2;
const INCOMPAT_AT: usize = 0x60;
const INCOMPAT_NEEDS_RECOVERY: u32 = 4;
const INCOMPAT_64BIT: u32 = 0x80;
const BLOCKS_AT: usize = 0x4;
const BLOCKS_HIGH_AT: usize = 0x150;
const LOG_BLOCK_SIZE_AT: usize = 0x18;
const UUID_AT: usize = 0x68;
const LABEL_AT: usize = 0x78;
/// The longest label that ext4 holds.
pub const LABEL_BYTES_MAX: usize = 16;

/// What is on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Zeros.
    Blank,
    /// An ext4.
    Ext4(Superblock),
    /// Something else.
    Foreign,
}

/// The part of an ext4's superblock that decides how it is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superblock {
    /// The kernel met an inconsistency earlier: check it before mounting.
    pub has_errors: bool,
    /// It was not unmounted; mounting replays its journal.
    pub needs_recovery: bool,
    /// Its label.
    pub label: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// How many bytes of the device it takes.
    pub size_bytes: u64,
}

impl Content {
    /// Tells it from the beginning of a device.
    pub fn of(bytes: &[u8]) -> Content {
        if let Some(superblock) = Superblock::parse(bytes) {
            return Content::Ext4(superblock);
        }
        if bytes.iter().all(|&byte| byte == 0) { Content::Blank } else { Content::Foreign }
    }
}

impl Superblock {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let block = bytes.get(OFFSET..2 * OFFSET)?;
        let two = |at: usize| block[at..].first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let four = |at: usize| block[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if two(MAGIC_AT)? != MAGIC {
            return None;
        }
        let label = &block[LABEL_AT..LABEL_AT + LABEL_BYTES_MAX];
        let label = label.split(|&byte| byte == 0).next().unwrap_or_default();
        let blocks_high = match four(INCOMPAT_AT)? & INCOMPAT_64BIT {
            0 => 0,
            _ => four(BLOCKS_HIGH_AT)?,
        };
        let blocks = u64::from(blocks_high) << 32 | u64::from(four(BLOCKS_AT)?);
        // 1 KiB shifted by this; if it is no ext4 that we would mount, any number can be here.
        let block_bytes = 1024_u64.checked_shl(four(LOG_BLOCK_SIZE_AT)?).unwrap_or(0);
        Some(Superblock {
            size_bytes: blocks.saturating_mul(block_bytes),
            has_errors: two(STATE_AT)? & STATE_HAS_ERRORS != 0,
            needs_recovery: four(INCOMPAT_AT)? & INCOMPAT_NEEDS_RECOVERY != 0,
            label: String::from_utf8_lossy(label).into_owned(),
            uuid: *block[UUID_AT..].first_chunk()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ext4() -> Vec<u8> {
        let mut bytes = vec![0; LOOKED_AT_BYTES];
        bytes[1024 + MAGIC_AT..][..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[1024 + LABEL_AT..][..4].copy_from_slice(b"work");
        bytes
    }

    #[test]
    fn zeros_are_blank_and_one_bit_is_not() {
        let mut bytes = vec![0; LOOKED_AT_BYTES];
        assert_eq!(Content::of(&bytes), Content::Blank);
        bytes[LOOKED_AT_BYTES - 1] = 1;
        assert_eq!(Content::of(&bytes), Content::Foreign);
        assert_eq!(Content::of(&[0; 100]), Content::Blank);
    }

    #[test]
    fn a_superblock_shows_how_the_ext4_was_left() {
        let mut bytes = ext4();
        bytes[1024 + INCOMPAT_AT] = INCOMPAT_NEEDS_RECOVERY as u8;
        let Content::Ext4(superblock) = Content::of(&bytes) else { panic!("it has the magic") };
        assert_eq!((superblock.has_errors, superblock.needs_recovery), (false, true));
        assert_eq!(superblock.label, "work");
        assert_eq!(superblock.size_bytes, 0);
        bytes[1024 + BLOCKS_AT] = 7;
        bytes[1024 + LOG_BLOCK_SIZE_AT] = 2;
        bytes[1024 + INCOMPAT_AT] |= INCOMPAT_64BIT as u8;
        bytes[1024 + BLOCKS_HIGH_AT] = 1;
        let Content::Ext4(superblock) = Content::of(&bytes) else { panic!("it has the magic") };
        assert_eq!(superblock.size_bytes, ((1 << 32) + 7) * 4096);
        bytes[1024 + STATE_AT] = 3;
        let Content::Ext4(superblock) = Content::of(&bytes) else { panic!("it has the magic") };
        assert!(superblock.has_errors);
    }
}
