//! One inode, with all that a person sees of it (kernel documentation, ext4, "Index Nodes", "Inode Timestamps").

use super::FsError;
use crate::ext4::InodeNumber;
use crate::ext4::fields::{u16_at, u32_at, wide};
use crate::ext4::inode::Inode;
use crate::ext4::superblock::Superblock;
use crate::ext4::tree::{Entries, Style};

/// The part of an inode that every version of the format has.
const OLD_BYTES: usize = 128;
const FLAG_ENCRYPTED: u32 = 0x800;
const FLAG_INDEX: u32 = 0x1000;
const FLAG_HUGE: u32 = 0x4_0000;
const FLAG_INLINE: u32 = 0x1000_0000;
/// A shorter target of a symbolic link is inside the inode.
const FAST_LINK_BYTES: u64 = 60;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    fn of(mode: u16) -> Option<Self> {
        Some(match mode >> 12 {
            0x1 => Kind::Fifo,
            0x2 => Kind::CharDevice,
            0x4 => Kind::Directory,
            0x6 => Kind::BlockDevice,
            0x8 => Kind::Regular,
            0xa => Kind::Symlink,
            0xc => Kind::Socket,
            _ => return None,
        })
    }

    /// The kind that a directory's entry names; `None` if it names none.
    pub(super) fn of_entry(kind: u8) -> Option<Self> {
        // The upper bits are flags (dirdata).
        Some(match kind & 0xf {
            1 => Kind::Regular,
            2 => Kind::Directory,
            3 => Kind::CharDevice,
            4 => Kind::BlockDevice,
            5 => Kind::Fifo,
            6 => Kind::Socket,
            7 => Kind::Symlink,
            _ => return None,
        })
    }
}

/// A time since 1970, which may be before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, less than a second.
    pub nanoseconds: u32,
}

/// An inode in use.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: InodeNumber,
    /// The kind of file.
    pub kind: Kind,
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space in units of 512 bytes.
    pub sectors: u64,
    /// Number of names.
    pub links: u16,
    /// Changes when the number is used for another file.
    pub generation: u32,
    /// The device that a device file stands for, as ext4 writes it (12 bits of major, 20 of minor number).
    pub device: u32,
    /// Last read.
    pub accessed: Time,
    /// Last change of content.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    pub(super) inode: Inode,
    flags: u32,
    bytes: Vec<u8>,
}

impl Node {
    pub(super) fn parse(number: InodeNumber, bytes: Vec<u8>, fs: &Superblock) -> Result<Self, FsError> {
        let inode = Inode::parse(number.0, &bytes, fs).map_err(|_| FsError::Damaged("an inode"))?;
        let inode = inode.ok_or(FsError::NotFound)?;
        let mode = u16_at(&bytes, 0);
        let flags = u32_at(&bytes, 0x20);
        let sectors = wide(u32_at(&bytes, 0x1c), u16_at(&bytes, 0x74).into());
        // The older encoding has 8 bits each, in the first word.
        let device = match (u32_at(&bytes, 0x28), u32_at(&bytes, 0x2c)) {
            (0, new) => (new >> 8 & 0xfff, new & 0xff | new >> 12 & 0xf_ff00),
            (old, _) => (old >> 8 & 0xff, old & 0xff),
        };
        Ok(Self {
            number,
            kind: Kind::of(mode).ok_or(FsError::Damaged("the kind of a file"))?,
            permissions: mode & 0o7777,
            uid: u32::from(u16_at(&bytes, 0x78)) << 16 | u32::from(u16_at(&bytes, 0x2)),
            gid: u32::from(u16_at(&bytes, 0x7a)) << 16 | u32::from(u16_at(&bytes, 0x18)),
            size: inode.size,
            sectors: if flags & FLAG_HUGE != 0 { sectors.saturating_mul(8) } else { sectors },
            links: u16_at(&bytes, 0x1a),
            generation: u32_at(&bytes, 0x64),
            device: device.0 << 20 | device.1,
            accessed: time(&bytes, 0x8, 0x8c),
            modified: time(&bytes, 0x10, 0x88),
            changed: time(&bytes, 0xc, 0x84),
            inode,
            flags,
            bytes,
        })
    }

    /// Whether names and content are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.flags & FLAG_ENCRYPTED != 0
    }

    /// Whether a directory has a hashed index.
    pub(super) fn is_indexed(&self) -> bool {
        self.flags & FLAG_INDEX != 0
    }

    /// Whether the content is inside the inode.
    pub(super) fn is_inline(&self) -> bool {
        self.flags & FLAG_INLINE != 0
    }

    /// The target of a short link.
    pub(super) fn fast_link(&self) -> Option<&[u8]> {
        let is_fast = self.kind == Kind::Symlink && !self.is_inline() && self.size < FAST_LINK_BYTES;
        is_fast.then(|| &self.root()[..self.size as usize])
    }

    /// The root of its tree, or the first bytes of what is inline.
    pub(super) fn root(&self) -> &[u8] {
        &self.bytes[0x28..0x64]
    }

    /// The entries of the root of its tree.
    pub(super) fn roots(&self) -> &[Entries] {
        &self.inode.roots
    }

    pub(super) fn style(&self) -> Style {
        self.inode.style
    }

    /// The bytes behind the fields of the inode, where attributes may be.
    pub(super) fn behind_fields(&self) -> &[u8] {
        let from = OLD_BYTES + extra_bytes(&self.bytes);
        self.bytes.get(from..).unwrap_or_default()
    }
}

/// The bytes of the fields beyond the old ones; 0 if there are none.
fn extra_bytes(bytes: &[u8]) -> usize {
    if bytes.len() > OLD_BYTES { u16_at(bytes, OLD_BYTES).into() } else { 0 }
}

/// A time from its seconds and, if the inode has that field, from its upper bits and nanoseconds.
fn time(bytes: &[u8], at: usize, extra_at: usize) -> Time {
    let seconds = i64::from(u32_at(bytes, at).cast_signed());
    let has_extra = extra_at + 4 <= OLD_BYTES + extra_bytes(bytes);
    let extra = if has_extra { u32_at(bytes, extra_at) } else { 0 };
    let nanoseconds = extra >> 2;
    Time {
        seconds: seconds + (i64::from(extra & 3) << 32),
        nanoseconds: if nanoseconds < 1_000_000_000 { nanoseconds } else { 0 },
    }
}
