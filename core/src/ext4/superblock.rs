//! The superblock, and the places that follow from it (kernel documentation, ext4, "Super Block" and "Layout").

use super::checksum::crc32c;
use super::fields::{u16_at, u32_at, u64_at, wide};
use crate::units::{BLOCK_BYTES, BlockRange};

/// The place of the superblock in block 0, and its length.
const AT: usize = 1024;
const BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;

/// The most groups to look at: twice as many as the largest drive has with groups of the usual size. 12 MiB of memory.
const GROUPS_MAX: u64 = 1 << 18;
/// The most groups with a backup to list. The largest drive has 24 by the usual rule (powers of 3, 5 and 7).
const BACKUPS_MAX: usize = 64;

const COMPAT_HAS_JOURNAL: u32 = 0x4;
const COMPAT_RESIZE_INODE: u32 = 0x10;
const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_MMP: u32 = 0x100;
const INCOMPAT_CSUM_SEED: u32 = 0x2000;
const INCOMPAT_LARGEDIR: u32 = 0x4000;
/// File types in directories, recovery, meta_bg, extents, 64bit, mmp, flex_bg, ea_inode, dirdata, csum_seed, largedir, inline_data,
/// encrypt, casefold. With any other feature, structures may mean something else.
const INCOMPAT_KNOWN: u32 = 0x3_f7d6;
const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
const RO_COMPAT_GDT_CSUM: u32 = 0x10;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

/// Why the metadata of a file system cannot be read ahead of the kernel. The drive works without that: its metadata is then pulled when it
/// is first read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ext4Error {
    /// Not ext4, or not written yet.
    #[error("the drive holds no ext4 file system")]
    NotExt4,
    /// Damaged, or read in the middle of a change.
    #[error("the superblock of the drive's ext4 does not check")]
    Checksum,
    /// A feature that this reader does not know.
    #[error(
        "the drive's ext4 has {0}, which is not read ahead: its metadata is pulled when it is first read"
    )]
    Unsupported(&'static str),
    /// A number is impossible.
    #[error("the superblock of the drive's ext4 says what cannot be: {0}")]
    Implausible(&'static str),
}

/// How group descriptors are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCheck {
    /// Not at all: an old file system. Then nothing says which groups are unused either.
    None,
    /// With CRC-16 (feature gdt_csum).
    Crc16,
    /// With CRC-32C, like everything else (feature metadata_csum).
    Crc32c,
}

/// Which groups have a copy of the superblock and of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    All,
    Powers,
    Two([u32; 2]),
}

/// The parts of the superblock that decide where things are. Two equal ones describe the same layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Size of the file system; not beyond the device.
    pub blocks: u64,
    /// Number of groups.
    pub groups: u32,
    /// Blocks in a group; the last one may have fewer.
    pub blocks_per_group: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Inodes in a group.
    pub inodes_per_group: u32,
    /// Bytes of an inode: a power of two from 128 to 4096.
    pub inode_bytes: usize,
    /// Bytes of a group descriptor: a power of two from 32 to 1024.
    pub descriptor_bytes: usize,
    /// The first inode that is not reserved.
    pub first_inode: u32,
    /// How group descriptors are checked.
    pub group_check: GroupCheck,
    /// Seed of every CRC-32C in the file system.
    pub seed: u32,
    /// Its uuid.
    pub uuid: [u8; 16],
    /// Directories may be larger than 4 GiB.
    pub large_directories: bool,
    /// The journal's inode, unless the journal is on another device.
    pub journal: Option<u32>,
    /// Inodes of quota and of orphans; 0 if there is none.
    pub special: [u32; 4],
    /// The block of multiple mount protection.
    pub mmp: Option<u64>,
    /// Descriptor blocks right after the superblock; all others are in their own groups (meta_bg).
    together: u64,
    /// Blocks after the descriptors that are reserved for more of them.
    reserved: u64,
    backups: Backups,
}

impl Superblock {
    /// Reads block 0 of a device of `device_blocks`. Also says whether the journal must be replayed.
    pub fn parse(block: &[u8], device_blocks: u64) -> Result<(Self, bool), Ext4Error> {
        let sb = block.get(AT..AT + BYTES).ok_or(Ext4Error::NotExt4)?;
        if u16_at(sb, 0x38) != MAGIC {
            return Err(Ext4Error::NotExt4);
        }
        let dynamic = u32_at(sb, 0x4c) >= 1;
        let feature = |at: usize| if dynamic { u32_at(sb, at) } else { 0 };
        let (compat, incompat, ro_compat) = (feature(0x5c), feature(0x60), feature(0x64));
        let checked = ro_compat & RO_COMPAT_METADATA_CSUM != 0;
        if checked && crc32c(!0, &sb[..0x3fc]) != u32_at(sb, 0x3fc) {
            return Err(Ext4Error::Checksum);
        }
        refuse_unsupported(sb, incompat, ro_compat)?;

        let uuid: [u8; 16] = std::array::from_fn(|at| sb[0x68 + at]);
        let is_wide = incompat & INCOMPAT_64BIT != 0;
        let mut this = Self {
            blocks: wide(u32_at(sb, 0x4), if is_wide { u32_at(sb, 0x150) } else { 0 }),
            groups: 0,
            blocks_per_group: u64::from(u32_at(sb, 0x20)),
            inodes: u32_at(sb, 0x0),
            inodes_per_group: u32_at(sb, 0x28),
            inode_bytes: if dynamic { usize::from(u16_at(sb, 0x58)) } else { 128 },
            descriptor_bytes: if is_wide { usize::from(u16_at(sb, 0xfe)) } else { 32 },
            first_inode: if dynamic { u32_at(sb, 0x54) } else { 11 },
            group_check: match (checked, ro_compat & RO_COMPAT_GDT_CSUM != 0) {
                (true, _) => GroupCheck::Crc32c,
                (_, true) => GroupCheck::Crc16,
                _ => GroupCheck::None,
            },
            seed: if incompat & INCOMPAT_CSUM_SEED != 0 { u32_at(sb, 0x270) } else { crc32c(!0, &uuid) },
            uuid,
            large_directories: incompat & INCOMPAT_LARGEDIR != 0,
            journal: (compat & COMPAT_HAS_JOURNAL != 0).then_some(u32_at(sb, 0xe0)).filter(|ino| *ino != 0),
            special: [0x240, 0x244, 0x26c, 0x280].map(feature),
            mmp: (incompat & INCOMPAT_MMP != 0).then_some(u64_at(sb, 0x168)),
            together: if incompat & INCOMPAT_META_BG != 0 { u64::from(u32_at(sb, 0x104)) } else { u64::MAX },
            reserved: if compat & COMPAT_RESIZE_INODE != 0 { u64::from(u16_at(sb, 0xce)) } else { 0 },
            backups: match (compat & COMPAT_SPARSE_SUPER2 != 0, ro_compat & RO_COMPAT_SPARSE_SUPER != 0) {
                (true, _) => Backups::Two([u32_at(sb, 0x24c), u32_at(sb, 0x250)]),
                (_, true) => Backups::Powers,
                _ => Backups::All,
            },
        };
        this.check(device_blocks)?;
        Ok((this, incompat & INCOMPAT_RECOVER != 0))
    }

    /// Checks that every number is within its bounds, and computes the number of groups.
    fn check(&mut self, device_blocks: u64) -> Result<(), Ext4Error> {
        let must = |holds: bool, what| if holds { Ok(()) } else { Err(Ext4Error::Implausible(what)) };
        must(self.blocks > 0 && self.blocks <= device_blocks, "it is larger than the drive")?;
        let bits = 8 * BLOCK_BYTES;
        must((256..=bits).contains(&self.blocks_per_group), "blocks in a group")?;
        must((1..=bits).contains(&u64::from(self.inodes_per_group)), "inodes in a group")?;
        let groups = self.blocks.div_ceil(self.blocks_per_group);
        must(groups <= GROUPS_MAX, "number of groups")?;
        self.groups = groups as u32;
        must(u64::from(self.inodes) == groups * u64::from(self.inodes_per_group), "number of inodes")?;
        let power = |bytes: usize, least, most| bytes.is_power_of_two() && (least..=most).contains(&bytes);
        must(power(self.inode_bytes, 128, 4096), "size of an inode")?;
        let least = if self.descriptor_bytes == 32 { 32 } else { 64 };
        must(power(self.descriptor_bytes, least, 1024), "size of a group descriptor")?;
        must(self.reserved <= BLOCK_BYTES / 4, "reserved descriptor blocks")?;
        self.together = self.together.min(self.descriptor_blocks());
        must(self.together < self.blocks_per_group, "number of descriptor blocks")
    }

    /// Inodes in a block of an inode table.
    pub fn inodes_per_block(&self) -> u32 {
        (BLOCK_BYTES as usize / self.inode_bytes) as u32
    }

    /// Descriptors in a block.
    pub fn descriptors_per_block(&self) -> u32 {
        (BLOCK_BYTES as usize / self.descriptor_bytes) as u32
    }

    /// Blocks of a whole inode table.
    pub fn table_blocks(&self) -> u64 {
        u64::from(self.inodes_per_group.div_ceil(self.inodes_per_block()))
    }

    /// Whether the blocks can belong to the file system. Block 0 holds the superblock, and means "none" in most places.
    pub fn holds(&self, range: BlockRange) -> bool {
        range.start > 0 && range.start < range.end && range.end <= self.blocks
    }

    /// Number of blocks with descriptors, one copy of each.
    fn descriptor_blocks(&self) -> u64 {
        u64::from(self.groups.div_ceil(self.descriptors_per_block()))
    }

    /// The first copy of all descriptors: runs of blocks, each with the number of its first one.
    pub fn descriptors(&self) -> Vec<(BlockRange, u32)> {
        let mut runs = vec![(BlockRange::new(1, self.together), 0)];
        for number in self.together..self.descriptor_blocks() {
            let group = number * u64::from(self.descriptors_per_block());
            runs.push((self.descriptor_copy(group), number as u32));
        }
        runs.retain(|(run, _)| self.holds(*run));
        runs
    }

    /// Blocks that are reserved for more descriptors.
    pub fn reserve(&self) -> BlockRange {
        self.inside(BlockRange::new(1 + self.together, self.reserved))
    }

    /// Copies of the superblock and of descriptors.
    pub fn backups(&self) -> Vec<BlockRange> {
        let groups = 1..u64::from(self.groups);
        let supers = groups.filter(|group| self.has_superblock(*group)).take(BACKUPS_MAX);
        let mut runs: Vec<_> =
            supers.map(|group| BlockRange::new(self.group_start(group), 1 + self.together)).collect();
        let per = u64::from(self.descriptors_per_block());
        for number in (self.together..self.descriptor_blocks()).take(BACKUPS_MAX) {
            let copies = [number * per + 1, number * per + per - 1];
            runs.extend(
                copies
                    .into_iter()
                    .filter(|group| *group < u64::from(self.groups))
                    .map(|group| self.descriptor_copy(group)),
            );
        }
        runs.into_iter().map(|run| self.inside(run)).filter(|run| !run.is_empty()).collect()
    }

    /// The copy of a descriptor block that is in its own group (meta_bg).
    fn descriptor_copy(&self, group: u64) -> BlockRange {
        BlockRange::new(self.group_start(group) + u64::from(self.has_superblock(group)), 1)
    }

    fn group_start(&self, group: u64) -> u64 {
        group * self.blocks_per_group
    }

    fn inside(&self, range: BlockRange) -> BlockRange {
        range.intersect(&BlockRange { start: 0, end: self.blocks })
    }

    fn has_superblock(&self, group: u64) -> bool {
        match self.backups {
            _ if group == 0 => true,
            Backups::Two(groups) => groups.iter().any(|backup| u64::from(*backup) == group),
            Backups::Powers => group == 1 || [3, 5, 7].iter().any(|base| is_power(group, *base)),
            Backups::All => true,
        }
    }
}

fn refuse_unsupported(sb: &[u8], incompat: u32, ro_compat: u32) -> Result<(), Ext4Error> {
    if u32_at(sb, 0x18) != 2 {
        return Err(Ext4Error::Unsupported("blocks of another size than 4 KiB"));
    }
    if u32_at(sb, 0x14) != 0 {
        return Err(Ext4Error::Implausible("the first data block"));
    }
    if ro_compat & RO_COMPAT_BIGALLOC != 0 {
        return Err(Ext4Error::Unsupported("clusters (bigalloc)"));
    }
    if incompat & !INCOMPAT_KNOWN != 0 {
        return Err(Ext4Error::Unsupported("a feature that this program does not know"));
    }
    Ok(())
}

fn is_power(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}
