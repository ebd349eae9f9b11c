//! Blocks of extended attributes, which several inodes may share (kernel documentation, ext4, "Extended Attributes").

use std::collections::BTreeMap;

/// Which inode has which block.
#[derive(Default)]
pub struct Attributes {
    of: BTreeMap<u32, u64>,
    owners: BTreeMap<u64, u32>,
}

impl Attributes {
    /// Notes that the inode has this block, or none. Returns the block if no inode had it before.
    pub fn set(&mut self, inode: u32, block: Option<u64>) -> Option<u64> {
        let was = match block {
            Some(block) => self.of.insert(inode, block),
            None => self.of.remove(&inode),
        };
        if was == block {
            return None;
        }
        if let Some(was) = was
            && let Some(owners) = self.owners.get_mut(&was)
        {
            *owners -= 1;
            if *owners == 0 {
                self.owners.remove(&was);
            }
        }
        let owners = self.owners.entry(block?).or_default();
        *owners += 1;
        block.filter(|_| *owners == 1)
    }

    /// The inode's block.
    pub fn of(&self, inode: u32) -> Option<u64> {
        self.of.get(&inode).copied()
    }

    /// Whether the block holds attributes.
    pub fn has(&self, block: u64) -> bool {
        self.owners.contains_key(&block)
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// All blocks.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.owners.keys().copied()
    }

    /// The memory in use, roughly.
    pub fn memory_bytes(&self) -> usize {
        24 * (self.of.len() + self.owners.len())
    }
}
