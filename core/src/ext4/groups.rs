//! The blocks with fixed places: superblock, descriptors, bitmaps and inode tables (kernel documentation, ext4, "Block Group Descriptors",
//! "Layout", "Block and inode Bitmaps").
//!
//! Bitmaps and tables count once their group is in use: the flags and the count of unused inodes in its descriptor say so. A descriptor
//! that does not check says nothing.

use super::agenda::Agenda;
use super::checksum::{crc16, crc32c};
use super::fields::{u16_at, u32_at, wide};
use super::superblock::{GroupCheck, Superblock};
use super::{Kind, Limits};
use crate::runs::{Run, RunMap};
use crate::units::BlockRange;

const INODES_UNUSED: u16 = 0x1;
const BLOCKS_UNUSED: u16 = 0x2;

/// The use of a block with a fixed place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fixed {
    /// The superblock.
    Superblock,
    /// Descriptors; the value is the number of the first such block.
    Descriptors(u32),
    /// Copies of the superblock and of descriptors.
    Backup,
    /// Reserved for more descriptors.
    Reserve,
    /// A bitmap of blocks.
    BlockBitmap,
    /// A bitmap of inodes.
    InodeBitmap,
    /// An inode table; the value is its group.
    Table(u32),
    /// Multiple mount protection.
    Special,
}

impl Run for Fixed {
    fn skip(&self, blocks: u64) -> Self {
        match self {
            Fixed::Descriptors(first) => Fixed::Descriptors(first + blocks as u32),
            other => *other,
        }
    }
}

impl Fixed {
    /// The kind that callers see.
    pub fn kind(self) -> Kind {
        match self {
            Fixed::Superblock => Kind::Superblock,
            Fixed::Descriptors(_) => Kind::Descriptors,
            Fixed::Backup => Kind::Backup,
            Fixed::Reserve => Kind::Reserve,
            Fixed::BlockBitmap => Kind::BlockBitmap,
            Fixed::InodeBitmap => Kind::InodeBitmap,
            Fixed::Table(_) => Kind::InodeTable,
            Fixed::Special => Kind::Special,
        }
    }
}

/// The parts of a group that are in use, and empty ranges for the others. 48 bytes for each group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Group {
    block_bitmap: BlockRange,
    inode_bitmap: BlockRange,
    table: BlockRange,
}

/// All groups. In addition to the table of groups it holds at most three runs for each, about 45 bytes a run.
#[derive(Default)]
pub struct Groups {
    groups: Vec<Group>,
    fixed: RunMap<Fixed>,
    blocks: u64,
}

impl Groups {
    /// The knowledge from the superblock alone.
    pub fn new(fs: &Superblock, limits: &Limits, agenda: &mut Agenda) -> Self {
        let mut this = Self { groups: vec![Group::default(); fs.groups as usize], ..Self::default() };
        // If a strange superblock makes ranges overlap, the later ones here win.
        this.claim(fs.reserve(), Fixed::Reserve, limits, agenda);
        for backup in fs.backups() {
            this.claim(backup, Fixed::Backup, limits, agenda);
        }
        if let Some(mmp) = fs.mmp.filter(|block| *block < fs.blocks) {
            this.claim(BlockRange::new(mmp, 1), Fixed::Special, limits, agenda);
        }
        for (run, first) in fs.descriptors() {
            if this.claim(run, Fixed::Descriptors(first), limits, agenda) {
                agenda.read(run);
            }
        }
        this.claim(BlockRange::new(0, 1), Fixed::Superblock, limits, agenda);
        this
    }

    /// The number of blocks with fixed places.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The memory in use, roughly.
    pub fn memory_bytes(&self) -> usize {
        48 * self.groups.len() + 45 * self.fixed.len()
    }

    /// The use of the block.
    pub fn at(&self, block: u64) -> Option<Fixed> {
        self.fixed.run_at(block).map(|(run, fixed)| fixed.skip(block - run.start))
    }

    /// The parts of the range that have fixed places.
    pub fn within(&self, range: BlockRange) -> impl Iterator<Item = (BlockRange, Fixed)> {
        self.fixed.overlapping(range)
    }

    /// All ranges with fixed places.
    pub fn iter(&self) -> impl Iterator<Item = (BlockRange, Fixed)> {
        self.fixed.iter().map(|(range, fixed)| (range, *fixed))
    }

    /// The number of the first inode in a block of the group's table.
    pub fn first_inode(&self, group: u32, block: u64, fs: &Superblock) -> Option<u32> {
        let table = self.groups.get(group as usize)?.table;
        let before =
            block.checked_sub(table.start).filter(|_| block < table.end)? * u64::from(fs.inodes_per_block());
        let first = u64::from(group) * u64::from(fs.inodes_per_group) + before + 1;
        u32::try_from(first).ok()
    }

    /// Reads descriptor block `number`.
    pub fn learn(
        &mut self,
        number: u32,
        block: &[u8],
        fs: &Superblock,
        limits: &Limits,
        agenda: &mut Agenda,
    ) {
        let first = number * fs.descriptors_per_block();
        for (group, descriptor) in (first..fs.groups).zip(block.chunks_exact(fs.descriptor_bytes)) {
            match parse(group, descriptor, fs) {
                Some(now) => self.change(group, now, limits, agenda),
                None => agenda.doubt(),
            }
        }
    }

    fn change(&mut self, group: u32, now: Group, limits: &Limits, agenda: &mut Agenda) {
        let Some(slot) = self.groups.get_mut(group as usize) else { return };
        let was = std::mem::replace(slot, now);
        if was == now {
            return;
        }
        self.replace(was.block_bitmap, now.block_bitmap, Fixed::BlockBitmap, limits, agenda);
        self.replace(was.inode_bitmap, now.inode_bitmap, Fixed::InodeBitmap, limits, agenda);
        let table = Fixed::Table(group);
        if self.replace(was.table, now.table, table, limits, agenda) {
            let known = if was.table.start == now.table.start { was.table.count() } else { 0 };
            let start = (now.table.start + known).min(now.table.end);
            agenda.read(BlockRange { start, end: now.table.end });
        }
    }

    /// Whether there was space for it.
    fn replace(
        &mut self,
        was: BlockRange,
        now: BlockRange,
        fixed: Fixed,
        limits: &Limits,
        agenda: &mut Agenda,
    ) -> bool {
        if was == now {
            return true;
        }
        let stale: Vec<_> =
            self.fixed.overlapping(was).filter(|(_, old)| *old == fixed).map(|(part, _)| part).collect();
        for part in stale {
            self.blocks -= part.count();
            self.fixed.remove(part);
        }
        self.claim(now, fixed, limits, agenda)
    }

    fn claim(&mut self, range: BlockRange, fixed: Fixed, limits: &Limits, agenda: &mut Agenda) -> bool {
        let known: u64 = self.fixed.overlapping(range).map(|(part, _)| part.count()).sum();
        let fresh = if range.is_empty() { 0 } else { range.count() - known };
        if self.blocks + fresh > limits.metadata_blocks {
            agenda.is_full = true;
            return false;
        }
        if !range.is_empty() {
            self.blocks += fresh;
            self.fixed.join(range, fixed);
            agenda.found(range, fixed.kind());
        }
        true
    }
}

/// The parts that the descriptor marks as in use, if it checks.
fn parse(group: u32, descriptor: &[u8], fs: &Superblock) -> Option<Group> {
    if !checks(group, descriptor, fs) {
        return None;
    }
    let is_wide = descriptor.len() >= 64;
    let block_at = |low: usize, high: usize| {
        wide(u32_at(descriptor, low), if is_wide { u32_at(descriptor, high) } else { 0 })
    };
    let count_at = |low: usize, high: usize| {
        u32::from(u16_at(descriptor, low))
            | if is_wide { u32::from(u16_at(descriptor, high)) << 16 } else { 0 }
    };
    let flags = if fs.group_check == GroupCheck::None { 0 } else { u16_at(descriptor, 0x12) };
    let unused = match fs.group_check {
        _ if flags & INODES_UNUSED != 0 => fs.inodes_per_group,
        // Without checksums nothing says how far the table is used, only whether it is used.
        GroupCheck::None if count_at(0xe, 0x2e) >= fs.inodes_per_group => fs.inodes_per_group,
        GroupCheck::None => 0,
        _ => count_at(0x1c, 0x32),
    };
    let used = fs.inodes_per_group.checked_sub(unused)?;
    let table =
        BlockRange { start: block_at(0x8, 0x28), end: block_at(0x8, 0x28).checked_add(fs.table_blocks())? };
    let bitmaps = [block_at(0x0, 0x20), block_at(0x4, 0x24)]
        .map(|at| BlockRange { start: at, end: at.saturating_add(1) });
    let [block_bitmap, inode_bitmap] = bitmaps;
    if ![block_bitmap, inode_bitmap, table].iter().all(|range| fs.holds(*range)) {
        return None;
    }
    let when = |in_use: bool, range: BlockRange| if in_use { range } else { BlockRange::default() };
    let used_blocks = u64::from(used.div_ceil(fs.inodes_per_block()));
    Some(Group {
        block_bitmap: when(flags & BLOCKS_UNUSED == 0, block_bitmap),
        inode_bitmap: when(flags & INODES_UNUSED == 0, inode_bitmap),
        table: when(used > 0, BlockRange::new(table.start, used_blocks)),
    })
}

/// The first block of the group's inode table, by its descriptor.
pub fn table_start(descriptor: &[u8]) -> u64 {
    wide(u32_at(descriptor, 0x8), if descriptor.len() >= 64 { u32_at(descriptor, 0x28) } else { 0 })
}

/// Whether its checksum is right, if it has one.
pub fn checks(group: u32, descriptor: &[u8], fs: &Superblock) -> bool {
    let Some((before, rest)) = descriptor.split_at_checked(0x1e) else { return false };
    let after = rest.get(2..).unwrap_or_default();
    let number = group.to_le_bytes();
    let expected = match fs.group_check {
        GroupCheck::None => return true,
        GroupCheck::Crc16 => {
            [&fs.uuid, &number[..], before, after].iter().fold(!0, |crc, part| crc16(crc, part))
        }
        GroupCheck::Crc32c => {
            [&number[..], before, &[0, 0], after].iter().fold(fs.seed, |crc, part| crc32c(crc, part)) as u16
        }
    };
    expected == u16_at(descriptor, 0x1e)
}
