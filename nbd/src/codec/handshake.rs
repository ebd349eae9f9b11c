//! The fixed newstyle handshake: greeting, options, option replies.

use super::{Malformed, Reader, STRING_BYTES_MAX};

/// `NBDMAGIC`, the first eight bytes that a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, the next eight bytes, and the first bytes of each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The first eight bytes of each option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Handshake and client flag: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake and client flag: no 124 zero bytes after `EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Zero bytes after `EXPORT_NAME`'s answer for clients without [`FLAG_NO_ZEROES`].
pub const EXPORT_NAME_ZEROES: usize = 124;

/// Bytes of the server's greeting.
pub const GREETING_BYTES: usize = 18;
/// Bytes of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of an option reply's header.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// The longest option data that is read: two strings of the greatest length with their counts, and many queries or information requests. A
/// longer option is skipped in pieces, or ends the connection.
pub const OPTION_BYTES_MAX: u32 = 16 << 10;
/// The most queries in one metadata option: the server knows only one context, so no client needs more.
pub const QUERIES_MAX: u32 = 64;

/// Option codes.
pub mod option {
    /// Choose an export and begin transmission; the server cannot refuse.
    pub const EXPORT_NAME: u32 = 1;
    /// End the negotiation.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information on an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERR_BIT: u32 = 1 << 31;
    /// The server does not know the option.
    pub const ERR_UNSUP: u32 = ERR_BIT | 1;
    /// The option's data is malformed, or comes at the wrong time.
    pub const ERR_INVALID: u32 = ERR_BIT | 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = ERR_BIT | 6;
    /// The server is shutting down.
    pub const ERR_SHUTDOWN: u32 = ERR_BIT | 7;
    /// The option's data is too long.
    pub const ERR_TOO_BIG: u32 = ERR_BIT | 9;
}

/// Information types of `INFO` and `GO`.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's own name.
    pub const NAME: u16 = 1;
    /// Block size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The one metadata context that is supported: holes and zeroes.
pub const CONTEXT_ALLOCATION: &str = "base:allocation";
/// The query that lists the contexts of the standard's own namespace.
pub const CONTEXT_NAMESPACE: &str = "base:";

/// The server's greeting.
pub fn encode_greeting(flags: u16) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// The handshake flags of a greeting. An oldstyle server gives a wrong magic number.
pub fn decode_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<u16, Malformed> {
    let mut reader = Reader::new(bytes);
    expect_magic(reader.u64()?, INIT_MAGIC)?;
    expect_magic(reader.u64()?, OPTION_MAGIC)?;
    reader.u16()
}

/// The client's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFlags {
    /// It speaks fixed newstyle.
    pub fixed_newstyle: bool,
    /// It wants no zeroes after `EXPORT_NAME`.
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// Decodes them. Unknown flags must end the connection.
    pub fn decode(bytes: [u8; 4]) -> Result<Self, Malformed> {
        let flags = u32::from_be_bytes(bytes);
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !known != 0 {
            return Err(Malformed::ClientFlags(flags));
        }
        Ok(Self {
            fixed_newstyle: flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0,
            no_zeroes: flags & u32::from(FLAG_NO_ZEROES) != 0,
        })
    }

    /// Encodes them.
    pub fn encode(self) -> [u8; 4] {
        let fixed = if self.fixed_newstyle { FLAG_FIXED_NEWSTYLE } else { 0 };
        let zeroes = if self.no_zeroes { FLAG_NO_ZEROES } else { 0 };
        u32::from(fixed | zeroes).to_be_bytes()
    }
}

/// An option's header: its code and how many bytes of data follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// See [`option`].
    pub code: u32,
    /// Bytes of data, as the client says: not yet compared with any limit.
    pub len: u32,
}

impl OptionHeader {
    /// Decodes it.
    pub fn decode(bytes: &[u8; OPTION_HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        expect_magic(reader.u64()?, OPTION_MAGIC)?;
        Ok(Self { code: reader.u32()?, len: reader.u32()? })
    }
}

/// An option with its data, as a client sends it.
pub fn encode_option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(OPTION_HEADER_BYTES + data.len());
    bytes.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// An option reply's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option that it answers.
    pub code: u32,
    /// See [`reply`].
    pub kind: u32,
    /// Bytes of data that follow.
    pub len: u32,
}

impl OptionReplyHeader {
    /// Decodes it, and compares its length with the limit.
    pub fn decode(bytes: &[u8; OPTION_REPLY_HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        expect_magic(reader.u64()?, OPTION_REPLY_MAGIC)?;
        let header = Self { code: reader.u32()?, kind: reader.u32()?, len: reader.u32()? };
        if header.len > OPTION_BYTES_MAX {
            return Err(Malformed::TooLong { len: header.len.into(), limit: OPTION_BYTES_MAX.into() });
        }
        Ok(header)
    }
}

/// An option reply with its data, appended to `out`.
pub fn encode_option_reply(out: &mut Vec<u8>, code: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The data of `INFO` and `GO`: an export's name and what the client wants to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    /// Whether the client asks for block sizes, and so will respect them.
    pub block_size: bool,
    /// Whether it asks for the export's own name.
    pub canonical_name: bool,
}

impl<'a> InfoRequest<'a> {
    /// Decodes it. Unknown information types are ignored, as the protocol demands.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let mut request = Self { name: reader.counted_string()?, block_size: false, canonical_name: false };
        for _ in 0..reader.u16()? {
            match reader.u16()? {
                info::BLOCK_SIZE => request.block_size = true,
                info::NAME => request.canonical_name = true,
                _ => {}
            }
        }
        reader.finish()?;
        Ok(request)
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut wanted = Vec::new();
        if self.block_size {
            wanted.push(info::BLOCK_SIZE);
        }
        if self.canonical_name {
            wanted.push(info::NAME);
        }
        let mut data = counted(self.name);
        data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
        wanted.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
        data
    }
}

/// The constraints on requests that `INFO_BLOCK_SIZE` announces, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of this.
    pub minimum: u32,
    /// Requests of this size need no read-modify-write.
    pub preferred: u32,
    /// The largest READ or WRITE.
    pub maximum: u32,
}

/// One piece of information on an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Info {
    /// Size in bytes, and transmission flags.
    Export {
        /// The size, in bytes.
        size: u64,
        /// See [`super::transmission::flags`].
        flags: u16,
    },
    /// The export's own name.
    Name(String),
    /// Block sizes.
    BlockSize(BlockSizes),
    /// Information of a kind that this client does not know.
    Other,
}

impl Info {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        match self {
            Info::Export { size, flags } => {
                data.extend_from_slice(&info::EXPORT.to_be_bytes());
                data.extend_from_slice(&size.to_be_bytes());
                data.extend_from_slice(&flags.to_be_bytes());
            }
            Info::Name(name) => {
                data.extend_from_slice(&info::NAME.to_be_bytes());
                data.extend_from_slice(name.as_bytes());
            }
            Info::BlockSize(sizes) => {
                data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
                for size in [sizes.minimum, sizes.preferred, sizes.maximum] {
                    data.extend_from_slice(&size.to_be_bytes());
                }
            }
            Info::Other => {}
        }
        data
    }

    /// Decodes it.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let info = match reader.u16()? {
            info::EXPORT => Info::Export { size: reader.u64()?, flags: reader.u16()? },
            info::NAME => Info::Name(reader.string_to_end()?.to_owned()),
            info::BLOCK_SIZE => {
                let (minimum, preferred, maximum) = (reader.u32()?, reader.u32()?, reader.u32()?);
                Info::BlockSize(BlockSizes { minimum, preferred, maximum })
            }
            _ => return Ok(Info::Other),
        };
        reader.finish()?;
        Ok(info)
    }
}

/// The data of the two metadata options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextQuery<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    /// The contexts asked for. An empty list in a LIST means all.
    pub queries: Vec<&'a str>,
}

impl<'a> ContextQuery<'a> {
    /// Decodes it.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let name = reader.counted_string()?;
        let count = reader.u32()?;
        if count > QUERIES_MAX {
            return Err(Malformed::TooLong { len: count.into(), limit: QUERIES_MAX.into() });
        }
        let queries = (0..count).map(|_| reader.counted_string()).collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Self { name, queries })
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut data = counted(self.name);
        data.extend_from_slice(&(self.queries.len() as u32).to_be_bytes());
        self.queries.iter().for_each(|query| data.extend_from_slice(&counted(query)));
        data
    }
}

/// A text with its 32-bit length before it.
pub fn counted(text: &str) -> Vec<u8> {
    debug_assert!(text.len() <= STRING_BYTES_MAX, "callers check names where they are made");
    let mut data = (text.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(text.as_bytes());
    data
}

fn expect_magic(found: u64, expected: u64) -> Result<(), Malformed> {
    if found == expected { Ok(()) } else { Err(Malformed::Magic(found)) }
}

#[cfg(test)]
mod tests;
