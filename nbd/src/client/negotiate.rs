//! The handshake, from the client's side.

use super::{ClientError, Stream};
use crate::codec::handshake::*;

/// What the client asks for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The export; empty for the default one.
    pub export: String,
    /// Whether to ask for structured replies.
    pub structured: bool,
    /// Whether to ask for block sizes, and so to promise to respect them.
    pub block_sizes: bool,
    /// Whether to ask for `base:allocation`; needs structured replies.
    pub allocation: bool,
}

/// The agreed terms.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// Size of the export.
    pub size_bytes: u64,
    /// See [`crate::codec::transmission::flags`].
    pub flags: u16,
    /// The block size constraints, if they were asked for.
    pub block_sizes: Option<BlockSizes>,
    /// Whether READ gets structured replies.
    pub structured: bool,
    /// Whether BLOCK_STATUS is allowed.
    pub allocation: bool,
}

pub(super) fn negotiate(stream: &mut dyn Stream, options: &Options) -> Result<Agreement, ClientError> {
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting)?;
    let offered = decode_greeting(&greeting)?;
    let fixed_newstyle = offered & FLAG_FIXED_NEWSTYLE != 0;
    let no_zeroes = offered & FLAG_NO_ZEROES != 0;
    stream.write_all(&ClientFlags { fixed_newstyle, no_zeroes }.encode())?;
    let mut agreement = Agreement::default();
    if options.structured {
        ask(stream, option::STRUCTURED_REPLY, &[], |_, _| Ok(()))?;
        agreement.structured = true;
    }
    if options.allocation {
        let query = ContextQuery { name: &options.export, queries: vec![CONTEXT_ALLOCATION] };
        ask(stream, option::SET_META_CONTEXT, &query.encode(), |kind, _| {
            agreement.allocation |= kind == reply::META_CONTEXT;
            Ok(())
        })?;
    }
    let wanted =
        InfoRequest { name: &options.export, block_size: options.block_sizes, canonical_name: false };
    ask(stream, option::GO, &wanted.encode(), |kind, data| {
        if kind == reply::INFO {
            match Info::decode(data)? {
                Info::Export { size, flags } => (agreement.size_bytes, agreement.flags) = (size, flags),
                Info::BlockSize(sizes) => agreement.block_sizes = Some(sizes),
                Info::Name(_) | Info::Other => {}
            }
        }
        Ok(())
    })?;
    Ok(agreement)
}

/// Sends an option and handles its replies, up to the final one.
fn ask(
    stream: &mut dyn Stream,
    code: u32,
    data: &[u8],
    mut each: impl FnMut(u32, &[u8]) -> Result<(), ClientError>,
) -> Result<(), ClientError> {
    stream.write_all(&encode_option(code, data))?;
    loop {
        let mut header = [0; OPTION_REPLY_HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let header = OptionReplyHeader::decode(&header)?;
        let mut data = vec![0; header.len as usize];
        stream.read_exact(&mut data)?;
        if header.code != code {
            return Err(ClientError::Unexpected("to another option"));
        }
        if header.kind & reply::ERR_BIT != 0 {
            let message = String::from_utf8_lossy(&data).into_owned();
            return Err(ClientError::Refused { option: code, kind: header.kind, message });
        }
        if header.kind == reply::ACK {
            return Ok(());
        }
        each(header.kind, &data)?;
    }
}
