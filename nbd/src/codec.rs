//! The bytes of the NBD protocol, as pure functions over slices, shared by the server and the client.
//!
//! Source: `doc/proto.md` of the reference implementation (github.com/NetworkBlockDevice/nbd), with its extensions for `WRITE_ZEROES`,
//! `INFO`, structured replies and `BLOCK_STATUS`, and `CACHE` as nbdkit and qemu implement it. Everything is big-endian. Each length from a
//! peer is compared with a limit in this module before anything is allocated for it.

pub mod handshake;
mod reader;
pub mod transmission;

pub use reader::Reader;

/// The longest string of the protocol: export names, queries, messages.
pub const STRING_BYTES_MAX: usize = 4096;

/// The largest READ or WRITE. This is the protocol's default maximum, which clients assume if they did not ask, and the kernel's own upper
/// limit for one request.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Why bytes do not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A structure ends before its last field.
    #[error("the structure ends early")]
    Truncated,
    /// A structure continues after its last field.
    #[error("there are bytes after the structure's end")]
    TrailingBytes,
    /// A fixed number is not what it must be.
    #[error("wrong magic number {0:#x}")]
    Magic(u64),
    /// A length is above the limit for its field.
    #[error("a length of {len} where at most {limit} is allowed")]
    TooLong {
        /// The peer's length.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A string is not UTF-8 or holds a NUL.
    #[error("a string is not text")]
    NotText,
    /// Client flags that the protocol does not define, or that the server did not offer.
    #[error("unknown client flags {0:#x}")]
    ClientFlags(u32),
    /// A field has a value that its structure does not allow.
    #[error("the field {0} has a value that is not allowed")]
    Field(&'static str),
}
