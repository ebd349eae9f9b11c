//! The bytes of log files and records (`core/FORMAT.md`, section 2).

use super::{Body, Encoded};
use crate::units::Lsn;
use uuid::Uuid;

/// Bytes before the first record of a file.
pub const FILE_HEADER_BYTES: u64 = 4096;
/// Bytes before a record's data.
pub const HEADER_BYTES: u64 = 64;
/// Records begin at multiples of this.
pub const RECORD_ALIGN: u64 = 64;
/// After a sync the next record begins at a multiple of this, so that a page with durable bytes is never written again.
pub const SYNC_ALIGN: u64 = 4096;

const FILE_MAGIC: &[u8; 8] = b"HLDJRNL\x01";
const GROUP_MAGIC: &[u8; 8] = b"HLDJCMP\x01";
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"HREC");

/// The start of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The log.
    pub log: Uuid,
    /// Place of the file in the log's order.
    pub seq: u64,
    /// The incarnation that began it.
    pub incarnation: u32,
    /// CRC of the last record before it.
    pub prev_crc: u32,
    /// LSN of its first record.
    pub first: Lsn,
    /// The last durable record when the file was begun.
    pub durable: Lsn,
    /// Length of the file. A shorter file was truncated.
    pub file_bytes: u64,
    /// Set if the file is a compacted group.
    pub group: Option<Group>,
}

/// A compacted file: the latest version of each block that some records wrote. It stands for all of those records at once,
/// and its own records carry the LSN of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The last record that it stands for.
    pub last: Lsn,
    /// Own CRC of that record in its original file.
    pub last_crc: u32,
    /// Records in the file.
    pub records: u32,
}

impl FileHeader {
    /// The header's page.
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut page = [0; FILE_HEADER_BYTES as usize];
        page[..8].copy_from_slice(if self.group.is_some() { GROUP_MAGIC } else { FILE_MAGIC });
        page[8..24].copy_from_slice(self.log.as_bytes());
        page[24..32].copy_from_slice(&self.seq.to_le_bytes());
        page[32..36].copy_from_slice(&self.incarnation.to_le_bytes());
        page[36..40].copy_from_slice(&self.prev_crc.to_le_bytes());
        page[40..48].copy_from_slice(&self.first.0.to_le_bytes());
        page[48..56].copy_from_slice(&self.durable.0.to_le_bytes());
        if let Some(Group { last, last_crc, records }) = self.group {
            page[56..64].copy_from_slice(&last.0.to_le_bytes());
            page[64..68].copy_from_slice(&last_crc.to_le_bytes());
            page[68..72].copy_from_slice(&records.to_le_bytes());
        }
        page[72..80].copy_from_slice(&self.file_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&page[..80]);
        page[80..84].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Reads a header; `None` if there is none or it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 84] = bytes.first_chunk()?;
        let is_group = bytes[..8] == *GROUP_MAGIC;
        if bytes[..8] != *FILE_MAGIC && !is_group || crc32c::crc32c(&bytes[..80]) != u32_at(bytes, 80) {
            return None;
        }
        let (last, last_crc, records) = (Lsn(u64_at(bytes, 56)), u32_at(bytes, 64), u32_at(bytes, 68));
        let header = Self {
            file_bytes: u64_at(bytes, 72),
            group: is_group.then_some(Group { last, last_crc, records }),
            log: Uuid::from_bytes(*bytes[8..].first_chunk()?),
            seq: u64_at(bytes, 24),
            incarnation: u32_at(bytes, 32),
            prev_crc: u32_at(bytes, 36),
            first: Lsn(u64_at(bytes, 40)),
            durable: Lsn(u64_at(bytes, 48)),
        };
        // The next file needs the numbers after these.
        let goes_on = header.seq < u64::MAX && header.incarnation < u32::MAX;
        let group_fits = header.group.is_none_or(|group| is_lsn(group.last));
        (is_lsn(header.first) && group_fits && goes_on).then_some(header)
    }
}

/// A record without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<B> {
    /// Its place in the order.
    pub lsn: Lsn,
    /// The last durable record when this one was written.
    pub durable: Lsn,
    /// Its content.
    pub operation: B,
    /// CRC-32C of its data.
    pub data_crc: u32,
    /// The incarnation that wrote it.
    pub incarnation: u32,
    /// The own CRC of the record before.
    pub prev_crc: u32,
}

impl<B: Body> Header<B> {
    /// Its length. The record's data follows it.
    pub const BYTES: u64 = HEADER_BYTES;

    /// Bytes of data after the header.
    pub fn data_len(&self) -> u64 {
        self.operation.data_len()
    }

    /// The bytes, and the record's own CRC, which the next record repeats.
    pub fn encode(&self, log: Uuid) -> ([u8; HEADER_BYTES as usize], u32) {
        let Encoded { kind, first, second } = self.operation.encode();
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[0..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        bytes[4] = kind;
        bytes[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&first.to_le_bytes());
        bytes[32..40].copy_from_slice(&second.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.data_crc.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.prev_crc.to_le_bytes());
        bytes[52..60].copy_from_slice(&log.as_bytes()[..8]);
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// Reads a header of `log` and its own CRC; `None` if there is none or it is damaged.
    pub fn decode(bytes: &[u8], log: Uuid) -> Option<(Self, u32)> {
        let bytes: &[u8; HEADER_BYTES as usize] = bytes.first_chunk()?;
        let crc = u32_at(bytes, 60);
        let ours = u32_at(bytes, 0) == RECORD_MAGIC && bytes[52..60] == log.as_bytes()[..8];
        if !ours || crc32c::crc32c(&bytes[..60]) != crc {
            return None;
        }
        let encoded = Encoded { kind: bytes[4], first: u64_at(bytes, 24), second: u64_at(bytes, 32) };
        let operation = B::decode(encoded)?;
        let header = Self {
            lsn: Lsn(u64_at(bytes, 8)),
            durable: Lsn(u64_at(bytes, 16)),
            operation,
            data_crc: u32_at(bytes, 40),
            incarnation: u32_at(bytes, 44),
            prev_crc: u32_at(bytes, 48),
        };
        is_lsn(header.lsn).then_some((header, crc))
    }
}

/// Whether a record can have this LSN: 0 means "none", and there must be a next one.
fn is_lsn(lsn: Lsn) -> bool {
    lsn.0 > 0 && lsn.0 < u64::MAX
}

/// Bytes that a record with `data_len` bytes of data takes, including its padding.
pub fn record_len(data_len: u64) -> u64 {
    (HEADER_BYTES + data_len).next_multiple_of(RECORD_ALIGN)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the offset is a constant inside the header"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the offset is a constant inside the header"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Operation;
    use crate::units::BlockRange;

    #[test]
    fn headers_round_trip_and_reject_every_bit_flip() {
        let journal = Uuid::from_u128(0x1234_5678 << 96);
        for operation in [
            Operation::Data(BlockRange::new(5, 256)),
            Operation::Zero(BlockRange::new(0, 1 << 32)),
            Operation::Resize(1 << 32),
        ] {
            let header =
                Header { lsn: Lsn(9), durable: Lsn(8), operation, data_crc: 7, incarnation: 6, prev_crc: 5 };
            let (bytes, crc) = header.encode(journal);
            assert_eq!(Header::decode(&bytes, journal), Some((header, crc)));
            assert_eq!(
                Header::<Operation>::decode(&bytes, Uuid::nil()),
                None,
                "another journal's record is none of ours"
            );
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::<Operation>::decode(&damaged, journal), None, "bit {bit}");
            }
        }
        for group in [None, Some(Group { last: Lsn(9), last_crc: 10, records: 5 })] {
            let (first, durable) = (Lsn(4), Lsn(3));
            let (seq, incarnation, prev_crc, file_bytes) = (1, 2, 3, 1 << 16);
            let header =
                FileHeader { log: journal, seq, incarnation, prev_crc, first, durable, file_bytes, group };
            let page = header.encode();
            assert_eq!(FileHeader::decode(&page), Some(header));
            for bit in 0..84 * 8 {
                let mut damaged = page;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(FileHeader::decode(&damaged), None, "bit {bit}");
            }
        }
    }
}
