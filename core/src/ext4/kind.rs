//! The kinds of metadata.

use crate::runs::Run;

/// The kind of a block of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The superblock.
    Superblock,
    /// Group descriptors that are in use.
    Descriptors,
    /// Copies of the superblock and of descriptors: read only by repairs.
    Backup,
    /// Space for more descriptors: read when the file system is enlarged.
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
    /// Quota, orphans, multiple mount protection, and the content of other reserved inodes.
    Special,
}

impl Run for Kind {
    fn skip(&self, _blocks: u64) -> Self {
        *self
    }
}
