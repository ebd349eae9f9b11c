//! The transmission phase: requests, simple replies, structured reply chunks.

use super::{Malformed, Reader};

/// The first four bytes of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first four bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first four bytes of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk without its payload.
pub const CHUNK_BYTES: usize = 20;

/// Transmission flags: what an export can do.
pub mod flags {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// The device supports FLUSH. Without this flag the kernel assumes a write-through device.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The device supports FUA.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The device supports TRIM.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// The device supports WRITE_ZEROES.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A READ may demand an unfragmented reply. Only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers every write that was acknowledged on any connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The device supports CACHE.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// A WRITE_ZEROES may demand to fail rather than be slow.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Command flags: how to carry out a request.
pub mod command_flags {
    /// Make it durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// The zeroed range must keep its space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply with a single content chunk.
    pub const DF: u16 = 1 << 2;
    /// Reply with a single extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail if this is no faster than writing zeroes.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Extent flags of `base:allocation`.
pub mod extent {
    /// Not allocated.
    pub const HOLE: u32 = 1 << 0;
    /// Reads as zeroes.
    pub const ZERO: u32 = 1 << 1;
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Read bytes.
    Read,
    /// Write the bytes that follow.
    Write,
    /// End the connection. It has no reply.
    Disconnect,
    /// Make all acknowledged writes durable.
    Flush,
    /// Discard a range.
    Trim,
    /// Prefetch a range.
    Cache,
    /// Write zeroes.
    WriteZeroes,
    /// List extents.
    BlockStatus,
    /// A command that is not known here.
    Unknown(u16),
}

impl From<u16> for Command {
    fn from(code: u16) -> Self {
        match code {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        }
    }
}

impl From<Command> for u16 {
    fn from(command: Command) -> Self {
        match command {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::Cache => 5,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Unknown(code) => code,
        }
    }
}

/// The number by which a client recognizes the reply to its request. The server returns it without interpreting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// A request's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// See [`command_flags`].
    pub flags: u16,
    /// The command.
    pub command: Command,
    /// Returned in the reply.
    pub cookie: Cookie,
    /// The offset, in bytes.
    pub offset: u64,
    /// The length, in bytes, as the client says: not yet compared with any limit.
    pub len: u32,
}

impl Request {
    /// Decodes it.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32()?;
        if magic != REQUEST_MAGIC {
            return Err(Malformed::Magic(magic.into()));
        }
        Ok(Self {
            flags: reader.u16()?,
            command: reader.u16()?.into(),
            cookie: Cookie(reader.u64()?),
            offset: reader.u64()?,
            len: reader.u32()?,
        })
    }

    /// Encodes it.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&u16::from(self.command).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// The protocol's errors that this server uses. ENOSPC is not among them: when local space runs out, writes are throttled and do not fail,
/// and the kernel would turn the error into EIO anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Read-only.
    Perm,
    /// Input or output failed.
    Io,
    /// The request makes no sense.
    Inval,
    /// The read is too long to be answered unfragmented.
    Overflow,
    /// The server is going away.
    Shutdown,
}

impl ErrorCode {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        match self {
            ErrorCode::Perm => 1,
            ErrorCode::Io => 5,
            ErrorCode::Inval => 22,
            ErrorCode::Overflow => 75,
            ErrorCode::Shutdown => 108,
        }
    }
}

/// A simple reply's header.
pub fn encode_simple_reply(error: u32, cookie: Cookie) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.0.to_be_bytes());
    bytes
}

/// Chunk flag: the last one of its reply.
pub const CHUNK_DONE: u16 = 1 << 0;

/// Chunk types.
pub mod chunk {
    /// No content: only marks the reply as done.
    pub const NONE: u16 = 0;
    /// An offset, then bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// An offset and a length of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// A context's number, then extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// The bit that all errors have.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// An error and a message.
    pub const ERROR: u16 = ERROR_BIT | 1;
}

/// A chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Whether it is the last of its reply.
    pub done: bool,
    /// See [`chunk`].
    pub kind: u16,
    /// The request that it answers.
    pub cookie: Cookie,
    /// Bytes of payload, as the server says: not yet compared with any limit.
    pub len: u32,
}

impl Chunk {
    /// Encodes it.
    pub fn encode(&self) -> [u8; CHUNK_BYTES] {
        let mut bytes = [0; CHUNK_BYTES];
        let flags = if self.done { CHUNK_DONE } else { 0 };
        bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// The head of a reply of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHead {
    /// A simple reply: 16 bytes.
    Simple {
        /// Zero is success.
        error: u32,
        /// The request that it answers.
        cookie: Cookie,
    },
    /// A chunk: 16 bytes, and 4 more with the length.
    Chunk {
        /// Whether it is the last of its reply.
        done: bool,
        /// See [`chunk`].
        kind: u16,
        /// The request that it answers.
        cookie: Cookie,
    },
}

impl ReplyHead {
    /// Decodes the 16 bytes with which both kinds begin.
    pub fn decode(bytes: &[u8; SIMPLE_REPLY_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.u32()? {
            SIMPLE_REPLY_MAGIC => {
                Ok(ReplyHead::Simple { error: reader.u32()?, cookie: Cookie(reader.u64()?) })
            }
            STRUCTURED_REPLY_MAGIC => Ok(ReplyHead::Chunk {
                done: reader.u16()? & CHUNK_DONE != 0,
                kind: reader.u16()?,
                cookie: Cookie(reader.u64()?),
            }),
            other => Err(Malformed::Magic(other.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_encoding() {
        for code in 0..=9 {
            let command = Command::from(code);
            let request =
                Request { flags: 3, command, cookie: Cookie(u64::MAX - 1), offset: 1 << 50, len: 4096 };
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn a_request_has_the_bytes_of_the_standard() {
        let request =
            Request { flags: 1, command: Command::Write, cookie: Cookie(0x0102), offset: 0x1000, len: 0x200 };
        let expected = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0,
        ];
        assert_eq!(request.encode(), expected);
    }

    #[test]
    fn reply_heads_of_both_kinds_decode() {
        let simple = encode_simple_reply(5, Cookie(9));
        assert_eq!(ReplyHead::decode(&simple), Ok(ReplyHead::Simple { error: 5, cookie: Cookie(9) }));
        let chunk = Chunk { done: true, kind: chunk::ERROR, cookie: Cookie(9), len: 6 }.encode();
        let head = ReplyHead::decode(chunk.first_chunk().unwrap());
        assert_eq!(head, Ok(ReplyHead::Chunk { done: true, kind: chunk::ERROR, cookie: Cookie(9) }));
        assert_eq!(ReplyHead::decode(&[0; 16]), Err(Malformed::Magic(0)));
    }
}
