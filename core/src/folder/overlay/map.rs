//! Which bytes of a file that is written here come from a version of the remote. Pure.
//!
//! The file on the local disk has the blocks that were written; the others are the *base's*. A block is here as a whole or not at all: a
//! write that touches a part of one brings the rest of it first. The base counts only below `end`, the smallest length that the file has had
//! since: what was cut off reads as zeros when the file grows again.

use crate::folder::step::{put_version, take_version};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::Version;
use crate::units::{BLOCK_BYTES, DRIVE_BYTES_MAX};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"HLDOVER1";
/// Where [`Map::end`] is in the live form.
pub(super) const END_AT: u64 = 8;
/// The version of the base is within this, and the bits follow.
const HEADER_BYTES: usize = 8192;
const WORD_BITS: u64 = 64;

/// The map of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::folder) struct Map {
    base: Version,
    /// The base's bytes count up to here.
    end: u64,
    /// A bit for each block of the base, set where the local file has it.
    here: Vec<u64>,
}

impl Map {
    /// Nothing is here yet. `None` if the version cannot be described, or no file is so long.
    pub fn new(base: Version) -> Option<Self> {
        let mut header = Writer::new();
        put_version(&mut header, &base);
        if base.len > DRIVE_BYTES_MAX || header.finish().len() + 16 > HEADER_BYTES {
            return None;
        }
        let words = base.len.div_ceil(BLOCK_BYTES).div_ceil(WORD_BITS);
        Some(Self { end: base.len, here: vec![0; words as usize], base })
    }

    /// The version that has the bytes that are not here.
    pub fn base(&self) -> &Version {
        &self.base
    }

    /// The base's bytes count up to here.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Another version has the same bytes where this one counts.
    pub fn rebase(&mut self, base: Version) {
        self.end = self.end.min(base.len);
        self.base = base;
    }

    /// The file has this length now.
    pub fn cut(&mut self, len: u64) {
        self.end = self.end.min(len);
    }

    fn is_missing(&self, block: u64) -> bool {
        let word = self.here.get((block / WORD_BITS) as usize).copied().unwrap_or(u64::MAX);
        block * BLOCK_BYTES < self.end && word & (1 << (block % WORD_BITS)) == 0
    }

    /// The parts of `range` whose bytes are the base's, in order.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let range = range.start..range.end.min(self.end);
        if range.is_empty() {
            return runs;
        }
        let mut block = range.start / BLOCK_BYTES;
        while block * BLOCK_BYTES < range.end {
            if self.is_missing(block) {
                let start = (block * BLOCK_BYTES).max(range.start);
                let end = ((block + 1) * BLOCK_BYTES).min(range.end);
                match runs.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => runs.push(start..end),
                }
            }
            block += 1;
        }
        runs
    }

    /// Whether all bytes are here.
    pub fn is_whole(&self) -> bool {
        let mut blocks = 0..self.end.div_ceil(BLOCK_BYTES);
        !blocks.any(|block| self.is_missing(block))
    }

    /// What has to be written so that `range` can be: the whole blocks at its ends where these are the base's, as far as it goes.
    pub fn widened(&self, range: &Range<u64>) -> Range<u64> {
        let (first, last) = (range.start / BLOCK_BYTES, (range.end - 1) / BLOCK_BYTES);
        let start = if self.is_missing(first) { first * BLOCK_BYTES } else { range.start };
        let end = match self.is_missing(last) {
            true => ((last + 1) * BLOCK_BYTES).min(self.end).max(range.end),
            false => range.end,
        };
        start..end
    }

    /// The blocks of a widened range are here. Returns the words that have changed.
    pub fn wrote(&mut self, range: &Range<u64>) -> Option<Range<usize>> {
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let mut changed: Option<Range<usize>> = None;
        let last = self.here.len() as u64 * WORD_BITS;
        for block in blocks.start.min(last)..blocks.end.min(last) {
            let (word, bit) = ((block / WORD_BITS) as usize, 1 << (block % WORD_BITS));
            if self.here[word] & bit == 0 {
                self.here[word] |= bit;
                changed = Some(changed.map_or(word, |changed| changed.start)..word + 1);
            }
        }
        changed
    }

    /// Where words are in the live form, and their bytes.
    pub fn words(&self, words: &Range<usize>) -> (u64, Vec<u8>) {
        let bytes = self.here[words.clone()].iter().flat_map(|word| word.to_le_bytes()).collect();
        (HEADER_BYTES as u64 + 8 * words.start as u64, bytes)
    }

    /// What the live form begins with.
    pub fn header(&self) -> Vec<u8> {
        let mut header = Writer::new();
        header.raw(MAGIC).u64(self.end);
        put_version(&mut header, &self.base);
        header.finish()
    }

    /// The live form: it is changed in place, as the file is.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(self.here.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Reads the live form.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut from = Reader::new(bytes);
        if from.raw(MAGIC.len())? != MAGIC {
            return Err(FormatError::Invalid("it is no map of a file"));
        }
        let (end, base) = (from.u64()?, take_version(&mut from)?);
        let mut map = Self::new(base).ok_or(FormatError::Invalid("no file is so long"))?;
        let words = bytes.get(HEADER_BYTES..).unwrap_or_default();
        if words.len() != 8 * map.here.len() {
            return Err(FormatError::Truncated);
        }
        for (word, bytes) in map.here.iter_mut().zip(words.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("it has 8 bytes"));
        }
        map.end = map.end.min(end);
        Ok(map)
    }

    /// The durable form, which is replaced as a whole: a checksum, and the live form.
    pub fn seal(&self) -> Vec<u8> {
        let bytes = self.encode();
        [&crc32c::crc32c(&bytes).to_le_bytes()[..], &bytes].concat()
    }

    /// Reads the durable form.
    pub fn unseal(bytes: &[u8]) -> Result<Self, FormatError> {
        let (crc, bytes) = bytes.split_at_checked(4).ok_or(FormatError::Truncated)?;
        match crc32c::crc32c(bytes).to_le_bytes() == crc {
            true => Self::decode(bytes),
            false => Err(FormatError::Invalid("the checksum of a map is wrong")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = BLOCK_BYTES;

    fn map(len: u64) -> Map {
        Map::new(Version { tag: "1".into(), len, written: None }).unwrap()
    }

    #[test]
    fn whole_blocks_are_here_or_not() {
        let mut map = map(10 * B + 5);
        assert!(map.missing(0..20 * B).iter().eq([&(0..10 * B + 5)]));
        assert_eq!(map.widened(&(2 * B + 1..3 * B - 1)), 2 * B..3 * B);
        assert_eq!(map.widened(&(10 * B + 1..10 * B + 2)), 10 * B..10 * B + 5, "as far as the base goes");
        assert_eq!(map.widened(&(10 * B + 1..10 * B + 9)), 10 * B..10 * B + 9);
        assert_eq!(map.wrote(&(2 * B..4 * B)), Some(0..1));
        assert_eq!(map.wrote(&(2 * B..4 * B)), None);
        assert_eq!(map.missing(B + 7..5 * B), [B + 7..2 * B, 4 * B..5 * B]);
        assert_eq!(map.widened(&(2 * B + 1..5 * B - 1)), 2 * B + 1..5 * B);
        assert!(!map.is_whole());
        map.wrote(&(0..11 * B));
        assert!(map.is_whole() && map.missing(0..11 * B).is_empty());
    }

    #[test]
    fn what_was_cut_off_is_the_bases_no_longer() {
        let mut map = map(10 * B);
        map.cut(3 * B + 10);
        map.cut(9 * B);
        assert!(map.missing(0..10 * B).iter().eq([&(0..3 * B + 10)]));
        assert_eq!(map.widened(&(3 * B + 20..3 * B + 30)), 3 * B..3 * B + 30);
        map.cut(0);
        assert!(map.is_whole());
    }

    #[test]
    fn maps_survive_encoding() {
        let mut map = map(1000 * B + 1);
        map.wrote(&(5 * B..900 * B));
        map.cut(950 * B);
        assert_eq!(Map::decode(&map.encode()).unwrap(), map);
        let sealed = map.seal();
        assert_eq!(Map::unseal(&sealed).unwrap(), map);
        for at in (0..sealed.len()).step_by(97) {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(Map::unseal(&damaged).is_err(), "byte {at}");
            assert!(Map::unseal(&sealed[..at]).is_err(), "{at} bytes");
        }
        let (at, bytes) = map.words(&(1..2));
        assert_eq!(map.encode()[at as usize..][..8], bytes);
    }
}
