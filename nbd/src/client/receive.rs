//! Assembles replies. Every length is compared with the request before it is believed.

use super::{ClientError, Stream};
use crate::codec::transmission::{CHUNK_BYTES, Command, Cookie, ReplyHead, SIMPLE_REPLY_BYTES, chunk};
use crate::codec::{Malformed, Reader};
use std::collections::HashMap;

/// The longest chunk without data: an error's message, or the extents of one answer.
const CHUNK_BYTES_MAX: u32 = 64 << 10;

/// The contents of a successful reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data {
    /// A READ's bytes.
    pub bytes: Vec<u8>,
    /// A BLOCK_STATUS's extents: lengths in bytes, and flags.
    pub extents: Vec<(u32, u32)>,
    /// How many content chunks a READ came in; 0 for simple replies.
    pub chunks: usize,
    /// How many of them were holes.
    pub holes: usize,
}

/// How a request ended.
pub type Outcome = Result<Data, ClientError>;

/// A request in flight, and what has come of its reply.
pub(super) struct Expected {
    command: Command,
    offset: u64,
    len: u32,
    data: Data,
    // Bytes of a READ that content chunks have covered.
    covered: u64,
    error: Option<ClientError>,
}

impl Expected {
    pub(super) fn new(command: Command, offset: u64, len: u32) -> Self {
        Self { command, offset, len, data: Data::default(), covered: 0, error: None }
    }

    /// The place in the answer for `len` bytes from `offset`.
    fn place(&mut self, offset: u64, len: u32) -> Result<&mut [u8], ClientError> {
        const OUTSIDE: ClientError = ClientError::Unexpected("with bytes that were not asked for");
        let at = offset.checked_sub(self.offset).ok_or(OUTSIDE)?;
        let end = at.checked_add(len.into()).filter(|end| *end <= self.len.into()).ok_or(OUTSIDE)?;
        self.data.bytes.resize(self.len as usize, 0);
        self.covered += u64::from(len);
        self.data.chunks += 1;
        Ok(&mut self.data.bytes[at as usize..end as usize])
    }

    fn finish(self) -> Outcome {
        if let Some(error) = self.error {
            return Err(error);
        }
        let missing = self.command == Command::Read && self.covered != u64::from(self.len);
        if missing {
            Err(ClientError::Unexpected("with less or more than was asked for"))
        } else {
            Ok(self.data)
        }
    }
}

/// Receives the next complete reply.
pub(super) fn receive(
    stream: &mut dyn Stream,
    waiting: &mut HashMap<Cookie, Expected>,
) -> Result<(Cookie, Outcome), ClientError> {
    const FOREIGN: ClientError = ClientError::Unexpected("to a request that was not sent");
    loop {
        let mut head = [0; SIMPLE_REPLY_BYTES];
        stream.read_exact(&mut head)?;
        match ReplyHead::decode(&head)? {
            ReplyHead::Simple { error, cookie } => {
                let mut expected = waiting.remove(&cookie).ok_or(FOREIGN)?;
                if error != 0 {
                    return Ok((cookie, Err(ClientError::Failed { error, message: String::new() })));
                }
                if expected.command == Command::Read {
                    let (offset, len) = (expected.offset, expected.len);
                    stream.read_exact(expected.place(offset, len)?)?;
                    expected.data.chunks = 0;
                }
                return Ok((cookie, expected.finish()));
            }
            ReplyHead::Chunk { done, kind, cookie } => {
                let expected = waiting.get_mut(&cookie).ok_or(FOREIGN)?;
                take_chunk(stream, kind, expected)?;
                if done {
                    let expected = waiting.remove(&cookie).ok_or(FOREIGN)?;
                    return Ok((cookie, expected.finish()));
                }
            }
        }
    }
}

fn take_chunk(stream: &mut dyn Stream, kind: u16, expected: &mut Expected) -> Result<(), ClientError> {
    let mut len = [0; CHUNK_BYTES - SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if kind == chunk::OFFSET_DATA {
        let mut offset = [0; 8];
        stream.read_exact(&mut offset)?;
        let len = len.checked_sub(8).ok_or(Malformed::Truncated)?;
        return Ok(stream.read_exact(expected.place(u64::from_be_bytes(offset), len)?)?);
    }
    if len > CHUNK_BYTES_MAX {
        return Err(Malformed::TooLong { len: len.into(), limit: CHUNK_BYTES_MAX.into() }.into());
    }
    let mut payload = vec![0; len as usize];
    stream.read_exact(&mut payload)?;
    let mut reader = Reader::new(&payload);
    match kind {
        chunk::NONE => reader.finish()?,
        chunk::OFFSET_HOLE => {
            let (offset, len) = (reader.u64()?, reader.u32()?);
            reader.finish()?;
            expected.place(offset, len)?.fill(0);
            expected.data.holes += 1;
        }
        chunk::BLOCK_STATUS => {
            // This client chooses only one context.
            reader.u32()?;
            while reader.remaining() > 0 {
                expected.data.extents.push((reader.u32()?, reader.u32()?));
            }
        }
        _ if kind & chunk::ERROR_BIT != 0 => {
            let error = reader.u32()?;
            let len = reader.u16()?;
            let message = reader.string(len.into())?.to_owned();
            expected.error = Some(ClientError::Failed { error, message });
        }
        _ => return Err(ClientError::Unexpected("of an unknown kind")),
    }
    Ok(())
}
