//! What metadata there is.

use crate::runs::Run;

/// What a block of metadata is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The superblock.
    Superblock,
    /// Group descriptors that are in use.
    Descriptors,
    /// Copies of the superblock and of descriptors: read by repairs alone.
    Backup,
    /// Room for more descriptors: read when the file system is made larger.
    Reserve,
    /// Which blocks of a group are in use.
    BlockBitmap,
    /// Which inodes of a group are in use.
    InodeBitmap,
    /// The part of an inode table that is in use.
    InodeTable,
    /// Extents and indirect blocks.
    Mapping,
    /// Directory entries and their index.
    Directory,
    /// A long target of a symbolic link.
    Symlink,
    /// Extended attributes.
    Attributes,
    /// The journal's first block, which says where the rest begins.
    JournalHead,
    /// The rest of the journal: read by the next mount if [`Walk::needs_recovery`](super::Walk::needs_recovery), else only written.
    Journal,
    /// Quota, orphans, multiple mount protection, and what else reserved inodes hold.
    Special,
}

impl Run for Kind {
    fn skip(&self, _blocks: u64) -> Self {
        *self
    }
}
