//! The bodies of replies, as bytes. [`header`] makes the header before them.

use super::{InitIn, NOTIFY_RESEND, OUT_HEADER_BYTES};

/// How long the kernel may trust a reply about a name or attributes: not at all. It asks for them only a few times per attach (reads and
/// writes do not ask), and the next stat sees a drive that grew.
const VALID_SECONDS: u64 = 0;

/// `FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES`: no page cache of ours under the file system's own (the loop device
/// reads with O_DIRECT, and any other reader must see the same bytes), no message at each close, and no inode lock around each write,
/// because the blocks of a disk have no order among themselves.
const OPEN_FLAGS: u32 = 1 << 0 | 1 << 5 | 1 << 6;

/// The attributes in `fuse_attr`.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The inode.
    pub node: u64,
    /// Size in bytes.
    pub size: u64,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
}

/// The header of a reply with `body` bytes after it; `errno` is positive, 0 for success.
pub fn header(unique: u64, errno: i32, body: usize) -> [u8; OUT_HEADER_BYTES] {
    let mut bytes = [0; OUT_HEADER_BYTES];
    bytes[..4].copy_from_slice(&((OUT_HEADER_BYTES + body) as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// The message that makes the kernel send again what was taken but not answered. A notification is a reply to no request (unique 0), with
/// its code in the error field.
pub fn resend() -> [u8; OUT_HEADER_BYTES] {
    header(0, -NOTIFY_RESEND, 0)
}

/// Our answer to the kernel's offer (`fuse_init_out`).
#[derive(Clone, Copy, Debug)]
pub struct InitOut {
    /// The protocol's minor version that both sides speak.
    pub minor: u32,
    /// The flags that both sides have.
    pub flags: u64,
    /// Readahead in bytes, at most what was offered.
    pub max_readahead: u32,
    /// How many background requests may be in flight.
    pub max_background: u16,
    /// The largest write in bytes.
    pub max_write: u32,
    /// The largest request in pages of 4 KiB.
    pub max_pages: u16,
}

impl InitOut {
    /// The answer to a kernel that offers `offer`.
    pub fn agree(offer: &InitIn, wanted: u64, max_write: u32, max_background: u16) -> Self {
        /// The protocol version for which this was written (Linux 6.18).
        const MINOR: u32 = 45;
        InitOut {
            minor: offer.minor.min(MINOR),
            flags: offer.flags & wanted,
            max_readahead: offer.max_readahead.min(max_write),
            max_background,
            max_write,
            max_pages: (max_write / 4096) as u16,
        }
    }

    /// Encodes it for the kernel.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Body::default();
        out.u32(7).u32(self.minor).u32(self.max_readahead).u32(self.flags as u32);
        // The congestion threshold is the usual three quarters.
        out.u16(self.max_background).u16(self.max_background / 4 * 3).u32(self.max_write);
        out.u32(1).u16(self.max_pages).u16(0).u32((self.flags >> 32) as u32);
        out.0.resize(64, 0);
        out.0
    }
}

/// An answer to LOOKUP (`fuse_entry_out`).
pub fn entry(attributes: &Attributes) -> Vec<u8> {
    let mut out = Body::default();
    out.u64(attributes.node).u64(0).u64(VALID_SECONDS).u64(VALID_SECONDS).u32(0).u32(0);
    out.attributes(attributes);
    out.0
}

/// An answer to GETATTR and SETATTR (`fuse_attr_out`).
pub fn attributes(attributes: &Attributes) -> Vec<u8> {
    let mut out = Body::default();
    out.u64(VALID_SECONDS).u32(0).u32(0).attributes(attributes);
    out.0
}

/// An answer to OPEN and OPENDIR (`fuse_open_out`). There is only one file, so the handle is not used.
pub fn opened() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[8..12].copy_from_slice(&OPEN_FLAGS.to_ne_bytes());
    bytes
}

/// An answer to WRITE (`fuse_write_out`).
pub fn written(bytes: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&bytes.to_ne_bytes());
    out
}

/// An answer to STATFS (`fuse_kstatfs`): `blocks` of 4 KiB, none free.
pub fn statfs(blocks: u64) -> Vec<u8> {
    let mut out = Body::default();
    out.u64(blocks).u64(0).u64(0).u64(2).u64(0).u32(4096).u32(255).u32(4096);
    out.0.resize(80, 0);
    out.0
}

/// Entries of a directory for READDIR (`fuse_dirent`), as many as fit into `limit` bytes, starting after the cookie `after`.
pub fn directory(entries: &[(u64, u32, &str)], after: u64, limit: u32) -> Vec<u8> {
    let mut out = Body::default();
    let skipped = usize::try_from(after).unwrap_or(usize::MAX);
    for (index, (node, kind, name)) in entries.iter().enumerate().skip(skipped) {
        let padded = name.len().next_multiple_of(8);
        if out.0.len() + 24 + padded > limit as usize {
            break;
        }
        out.u64(*node).u64(index as u64 + 1).u32(name.len() as u32).u32(*kind);
        out.0.extend_from_slice(name.as_bytes());
        out.0.resize(out.0.len().next_multiple_of(8), 0);
    }
    out.0
}

#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn attributes(&mut self, of: &Attributes) {
        self.u64(of.node).u64(of.size).u64(of.size / 512);
        self.u64(0).u64(0).u64(0).u32(0).u32(0).u32(0); // atime, mtime, ctime: a disk has none
        self.u32(of.mode).u32(1).u32(of.uid).u32(of.gid).u32(0).u32(4096).u32(0);
    }
}
