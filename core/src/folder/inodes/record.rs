//! The bytes of the file of numbers. Integers are little-endian.
//!
//! The file begins with its header, twice (the first copy that checks counts):
//!
//! ```text
//! 0    8   magic "HLDINOD\1"
//! 8    8   file id, random
//! 16   4   floor: no number up to it is given
//! 20   4   CRC-32C of bytes 0..20
//! ```
//!
//! Records follow back to back, from byte 48, each at a multiple of 8:
//!
//! ```text
//! 0    4   CRC-32C of the file id, the record's offset (u64), and bytes 4 to the end
//! 4    1   kind: 1 the number has the name, 2 the number has no name (it may be given by this record)
//! 5    1   length of the name; 0 in kind 2
//! 6    2   0
//! 8    4   number
//! 12   4   parent's number; 0 in kind 2
//! 16   ..  name, then zeros up to a multiple of 8
//! ```
//!
//! The CRC covers the file id and the offset, so that neither a name nor what is left of an older write can pass for a record.

use crate::folder::node::{Ino, Place};
use crate::store::remote::Name;

const MAGIC: &[u8; 8] = b"HLDINOD\x01";

/// Bytes of one copy of the header.
const HEADER_BYTES: usize = 24;

/// Where the records begin.
pub(super) const RECORDS_START: u64 = 2 * HEADER_BYTES as u64;

/// Records begin at multiples of this.
pub(super) const ALIGN: u64 = 8;

const FIXED_BYTES: usize = 16;

/// The longest record.
pub(super) const RECORD_BYTES_MAX: u64 =
    (FIXED_BYTES + Name::BYTES_MAX).next_multiple_of(ALIGN as usize) as u64;

/// The shortest record that gives a number: one without a name.
pub(super) const GIVING_BYTES_MIN: u64 = FIXED_BYTES as u64;

/// What is said of the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Tells its records from those of another file.
    pub id: u64,
    /// No number up to it is given.
    pub floor: Ino,
}

impl Header {
    /// Both copies.
    pub fn encode(&self) -> [u8; RECORDS_START as usize] {
        let mut bytes = [0; RECORDS_START as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.floor.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes.copy_within(..HEADER_BYTES, HEADER_BYTES);
        bytes
    }

    /// The first copy that checks.
    pub fn decode(bytes: &[u8; RECORDS_START as usize]) -> Option<Self> {
        let (copies, _) = bytes.as_chunks::<HEADER_BYTES>();
        let good = copies
            .iter()
            .find(|copy| copy[..8] == *MAGIC && u32_at(*copy, 20) == crc32c::crc32c(&copy[..20]));
        good.map(|copy| Self { id: u64_at(copy, 8), floor: Ino(u32_at(copy, 16)) })
    }
}

/// One change of a number's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The number has this name. Another number that had it has none.
    Named(Ino, Place),
    /// The number has no name.
    Nameless(Ino),
}

impl Record {
    /// The number.
    pub fn ino(&self) -> Ino {
        match self {
            Record::Named(ino, _) | Record::Nameless(ino) => *ino,
        }
    }

    /// The bytes at `offset` of the file `id`.
    pub fn encode(&self, id: u64, offset: u64) -> Vec<u8> {
        let (kind, parent, name) = match self {
            Record::Named(_, place) => (1, place.parent.0, place.name.as_str().as_bytes()),
            Record::Nameless(_) => (2, 0, &[][..]),
        };
        let len = (FIXED_BYTES + name.len()).next_multiple_of(ALIGN as usize);
        let mut bytes = vec![0; len];
        bytes[4] = kind;
        bytes[5] = name.len() as u8;
        bytes[8..12].copy_from_slice(&self.ino().0.to_le_bytes());
        bytes[12..16].copy_from_slice(&parent.to_le_bytes());
        bytes[FIXED_BYTES..FIXED_BYTES + name.len()].copy_from_slice(name);
        let crc = checksum(&bytes, id, offset);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The record at the start of `bytes`, which lie at `offset` of the file `id`, and its length. `None` if there is no whole one.
    pub fn decode(bytes: &[u8], id: u64, offset: u64) -> Option<(Self, u64)> {
        let fixed = bytes.get(..FIXED_BYTES)?;
        let name_len = usize::from(fixed[5]);
        let len = (FIXED_BYTES + name_len).next_multiple_of(ALIGN as usize);
        let bytes = bytes.get(..len)?;
        if u32_at(bytes, 0) != checksum(bytes, id, offset) {
            return None;
        }
        let ino = Ino(u32_at(bytes, 8));
        let record = match bytes[4] {
            1 => {
                let name = std::str::from_utf8(&bytes[FIXED_BYTES..FIXED_BYTES + name_len]).ok()?;
                Record::Named(ino, Place::new(Ino(u32_at(bytes, 12)), Name::new(name).ok()?))
            }
            2 => Record::Nameless(ino),
            _ => return None,
        };
        Some((record, len as u64))
    }
}

fn checksum(record: &[u8], id: u64, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&id.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), &record[4..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
