//! The FUSE wire format, as much of it as one file needs.
//!
//! The source of every layout and number is the kernel's include/uapi/linux/fuse.h, protocol 7.23 and later; integers are in the machine's
//! own byte order. We trust the kernel with our life, but not with our memory: a bounds-checked `Fields` takes each field, so a short or
//! odd message is a [`Malformed`], never a panic. `reply` encodes the answers.

use std::fmt;

pub mod reply;

/// Bytes of the header at the start of every request (`fuse_in_header`).
pub const IN_HEADER_BYTES: usize = 40;
/// Bytes of the header at the start of every reply (`fuse_out_header`).
pub const OUT_HEADER_BYTES: usize = 16;
/// The inode of the file system's root (`FUSE_ROOT_ID`).
pub const ROOT_NODE: u64 = 1;

/// `FUSE_NOTIFY_RESEND`: asks the kernel to queue again the requests that were taken but not answered (Linux 6.9).
pub const NOTIFY_RESEND: i32 = 7;

/// INIT flags (`FUSE_*`); those from bit 32 on travel in `flags2`.
pub mod init_flags {
    /// Several reads of one file at the same time.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes larger than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Direct I/O that was submitted asynchronously stays asynchronous: this allows a queue depth above one through the loop device.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// An aborted connection reads as ECONNABORTED, an unmounted one as ENODEV.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// The reply's `max_pages` counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// `flags2` counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// The kernel knows `FUSE_NOTIFY_RESEND`.
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// Bits of `fuse_setattr_in.valid`.
pub const SETATTR_SIZE: u32 = 1 << 3;

/// One decoded request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The number that the reply repeats. Kept whole: bit 63 marks a request that was sent again, and the reply must carry it.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    /// The operation.
    pub operation: Operation<'a>,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The first message of a connection.
    Init(InitIn),
    /// Finds the inode of the name in the directory `node`.
    Lookup {
        /// The name, without its NUL.
        name: &'a [u8],
    },
    /// Reads the inode's attributes.
    GetAttr,
    /// Changes attributes.
    SetAttr {
        /// Which fields to change.
        valid: u32,
        /// The new size in bytes, if `valid` has [`SETATTR_SIZE`].
        size: u64,
    },
    /// Opens the file, with the flags of open(2).
    Open {
        /// O_RDONLY and so on.
        flags: u32,
    },
    /// Reads `size` bytes from `offset`.
    Read {
        /// First byte.
        offset: u64,
        /// How many bytes; the answer has fewer only at the end of the file.
        size: u32,
    },
    /// Writes `data` at `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// fsync(2) or fdatasync(2): the flush of a block device.
    Fsync,
    /// fallocate(2).
    Fallocate {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// `FALLOC_FL_*`.
        mode: u32,
    },
    /// Opens the directory.
    OpenDir,
    /// Lists the directory's entries after the one whose cookie is `offset`, at most `size` bytes of them.
    ReadDir {
        /// A cookie.
        offset: u64,
        /// The reply's limit in bytes.
        size: u32,
    },
    /// Asks for the size of the file system.
    StatFs,
    /// FLUSH (a close), RELEASE, RELEASEDIR, FSYNCDIR, ACCESS, DESTROY: nothing to do, always success.
    Nothing,
    /// FORGET, BATCH_FORGET and NOTIFY_REPLY: these get no answer at all.
    Silent,
    /// Any other operation.
    Unknown {
        /// Its number.
        opcode: u32,
    },
}

/// The kernel's offer (`fuse_init_in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitIn {
    /// Protocol major version.
    pub major: u32,
    /// Protocol minor version.
    pub minor: u32,
    /// Largest readahead in bytes.
    pub max_readahead: u32,
    /// The offered [`init_flags`], with `flags2` in the upper half.
    pub flags: u64,
}

/// A message that does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a malformed message from the kernel: {what}")]
pub struct Malformed {
    /// The request to answer, if even that could be read.
    pub unique: Option<u64>,
    /// What is wrong.
    pub what: &'static str,
}

impl<'a> Request<'a> {
    /// Decodes one message, which has exactly the length that read(2) returned.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut header = Fields { rest: message, unique: None };
        let len = header.u32()? as usize;
        let opcode = header.u32()?;
        let unique = header.u64()?;
        header.unique = Some(unique);
        let node = header.u64()?;
        header.skip(16)?; // uid, gid, pid, total_extlen and padding: the mount's permissions were checked by the kernel
        if len != message.len() {
            return Err(header.malformed("its length field differs from its length"));
        }
        Ok(Request { unique, node, operation: operation(opcode, header)? })
    }
}

fn operation(opcode: u32, mut body: Fields<'_>) -> Result<Operation<'_>, Malformed> {
    Ok(match opcode {
        1 => Operation::Lookup { name: body.name()? },
        3 => Operation::GetAttr,
        4 => {
            let valid = body.u32()?;
            body.skip(12)?; // padding, fh
            Operation::SetAttr { valid, size: body.u64()? }
        }
        14 => Operation::Open { flags: body.u32()? },
        15 => {
            body.skip(8)?; // fh
            Operation::Read { offset: body.u64()?, size: body.u32()? }
        }
        16 => {
            body.skip(8)?; // fh
            let (offset, size) = (body.u64()?, body.u32()?);
            body.skip(20)?; // write_flags, lock_owner, flags, padding
            if body.rest.len() != size as usize {
                return Err(body.malformed("a write whose data is not as long as it says"));
            }
            Operation::Write { offset, data: body.rest }
        }
        17 => Operation::StatFs,
        20 => Operation::Fsync,
        26 => {
            let (major, minor) = (body.u32()?, body.u32()?);
            let (max_readahead, flags) = (body.u32()?, body.u32()?);
            // A kernel before 7.36 sends no flags2.
            let flags2 = body.u32().unwrap_or(0);
            let flags = u64::from(flags) | u64::from(flags2) << 32;
            Operation::Init(InitIn { major, minor, max_readahead, flags })
        }
        27 => Operation::OpenDir,
        28 => {
            body.skip(8)?; // fh
            Operation::ReadDir { offset: body.u64()?, size: body.u32()? }
        }
        18 | 25 | 29 | 30 | 34 | 38 => Operation::Nothing,
        2 | 41 | 42 => Operation::Silent,
        43 => {
            body.skip(8)?; // fh
            Operation::Fallocate { offset: body.u64()?, length: body.u64()?, mode: body.u32()? }
        }
        opcode => Operation::Unknown { opcode },
    })
}

/// The rest of a message, taken field by field.
struct Fields<'a> {
    rest: &'a [u8],
    unique: Option<u64>,
}

impl<'a> Fields<'a> {
    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { unique: self.unique, what }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.malformed("it ends too early")),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_ne_bytes)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.rest = self.rest.get(bytes..).ok_or_else(|| self.malformed("it ends too early"))?;
        Ok(())
    }

    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| self.malformed("a name without an end"))?;
        Ok(&self.rest[..end])
    }
}

impl fmt::Display for Request<'_> {
    /// The request without its data.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "request {:#x} on node {}: ", self.unique, self.node)?;
        match &self.operation {
            Operation::Write { offset, data } => write!(out, "write {} bytes at {offset}", data.len()),
            other => write!(out, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
