//! Integers, strings and lengths on the wire: little-endian, LEB128, all reads checked.

use super::FormatError;
use std::cmp::Ordering;

/// Appends fields to a buffer.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes that were written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// One to ten bytes.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// A length and UTF-8.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.varint(value.len() as u64).raw(value.as_bytes())
    }

    /// The bytes as they are.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }
}

/// Takes fields off the front of a slice.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// `len` bytes as they are.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// A fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A LEB128 integer in its shortest form, so that decoded bytes are always encoded the same way again.
    pub fn varint(&mut self) -> Result<u64, FormatError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(FormatError::Invalid("an integer does not fit 64 bits"));
            }
            value |= bits << shift;
            if byte == 0 && shift > 0 {
                return Err(FormatError::Invalid("an integer is longer than it need be"));
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FormatError::Invalid("an integer does not end"))
    }

    /// A LEB128 integer that must fit 32 bits.
    pub fn varint32(&mut self) -> Result<u32, FormatError> {
        u32::try_from(self.varint()?).map_err(|_| FormatError::Invalid("an integer does not fit 32 bits"))
    }

    /// A number of items that follow, each of at least `item_bytes`, so that it cannot exceed the bytes that are there.
    pub fn count(&mut self, item_bytes: usize) -> Result<usize, FormatError> {
        let count = self.varint()?;
        if count > (self.rest.len() / item_bytes.max(1)) as u64 {
            return Err(FormatError::Truncated);
        }
        Ok(count as usize)
    }

    /// A counted list of items, each of at least `item_bytes`.
    pub fn list<T>(
        &mut self,
        item_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let count = self.count(item_bytes)?;
        (0..count).map(|_| item(self)).collect()
    }

    /// A length and UTF-8.
    pub fn str(&mut self) -> Result<String, FormatError> {
        let len = self.count(1)?;
        let text = std::str::from_utf8(self.raw(len)?);
        Ok(text.map_err(|_| FormatError::Invalid("a text is not UTF-8"))?.to_owned())
    }

    /// Checks an object's first bytes.
    pub fn magic(&mut self, magic: &[u8; 8], expected: &'static str) -> Result<(), FormatError> {
        let found = self.raw(8).map_err(|_| FormatError::Magic { expected })?;
        // The last byte is the version of the envelope.
        if found[..7] != magic[..7] {
            return Err(FormatError::Magic { expected });
        }
        match found[7].cmp(&magic[7]) {
            Ordering::Less => Err(FormatError::Magic { expected }),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(FormatError::Newer { found: found[7].into(), known: magic[7].into() }),
        }
    }

    /// Four bytes without a meaning yet.
    pub fn reserved(&mut self) -> Result<(), FormatError> {
        if self.u32()? == 0 { Ok(()) } else { Err(FormatError::Invalid("a reserved field is not zero")) }
    }

    /// An error if bytes follow.
    pub fn end(&self) -> Result<(), FormatError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FormatError::Invalid("bytes follow the last field")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_the_round_trip() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX] {
            let mut w = Writer::new();
            w.varint(value).u64(value);
            let bytes = w.finish();
            let mut r = Reader::new(&bytes);
            assert_eq!((r.varint(), r.u64()), (Ok(value), Ok(value)));
            assert_eq!(r.end(), Ok(()));
        }
    }

    #[test]
    fn overlong_and_truncated_integers_are_refused() {
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        assert!(Reader::new(&[0x80, 0]).varint().is_err());
        assert_eq!(Reader::new(&[0x80]).varint(), Err(FormatError::Truncated));
    }

    #[test]
    fn a_count_cannot_promise_more_than_is_there() {
        let mut w = Writer::new();
        w.varint(1 << 40).raw(&[0; 32]);
        assert_eq!(Reader::new(&w.finish()).count(16), Err(FormatError::Truncated));
    }
}
