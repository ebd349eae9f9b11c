//! A cursor over received bytes. It never panics, whatever the bytes are.

use super::{Malformed, STRING_BYTES_MAX};

/// Takes big-endian fields off the front of a slice.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// The next `len` bytes as text.
    pub fn string(&mut self, len: usize) -> Result<&'a str, Malformed> {
        if len > STRING_BYTES_MAX {
            return Err(Malformed::TooLong { len: len as u64, limit: STRING_BYTES_MAX as u64 });
        }
        text(self.bytes(len)?)
    }

    /// A text with its 32-bit length before it.
    pub fn counted_string(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()?;
        self.string(len as usize)
    }

    /// All remaining bytes as text.
    pub fn string_to_end(&mut self) -> Result<&'a str, Malformed> {
        self.string(self.rest.len())
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::TrailingBytes) }
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::NotText)?;
    if text.contains('\0') { Err(Malformed::NotText) } else { Ok(text) }
}
