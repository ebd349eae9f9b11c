//! Walking over records in order.

use super::files::LiveFile;
use super::record::{self, FILE_HEADER_BYTES, HEADER_BYTES, Header, RECORD_ALIGN, SYNC_ALIGN};
use super::{Journal, JournalError, JournalFile, Operation, Place, Record};
use crate::units::Lsn;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// Where a record was found.
pub(super) struct Found {
    pub file: Arc<JournalFile>,
    pub offset: u64,
}

/// A walk over the records of an open journal.
pub(super) struct Cursor {
    /// Each with its last record and its incarnation.
    files: Vec<(Arc<JournalFile>, Lsn, u32)>,
    at: usize,
    offset: u64,
    next: Lsn,
    /// Own CRC of the record before `next`.
    prev_crc: u32,
    from: Lsn,
}

/// Which record is looked for. A recycled file may hold others with the same LSN, which a cut took out of the log:
/// they have another record before them, or were written by a process before the one that began the file.
pub(super) struct Wanted {
    pub lsn: Lsn,
    /// Own CRC of the record before.
    pub prev_crc: u32,
    /// That of the file.
    pub incarnation: u32,
}

impl Cursor {
    /// Walks from the record `from` on. Records that were freed already are an error, never skipped.
    pub fn new<'a>(live: impl Iterator<Item = &'a LiveFile>, from: Lsn) -> Result<Self, JournalError> {
        let mut live = live.filter(|live| live.last >= from && live.last >= live.first).peekable();
        let (next, prev_crc) = live.peek().map_or((from, 0), |live| (live.first, live.prev_crc));
        if next > from {
            return Err(JournalError::Damaged { lsn: from, durable: next });
        }
        let files = live.map(|live| (live.file.clone(), live.last, live.incarnation)).collect();
        Ok(Self { files, at: 0, offset: FILE_HEADER_BYTES, next, prev_crc, from })
    }

    /// The next record up to `upto`.
    pub fn next(&mut self, journal: Uuid, upto: Lsn) -> Result<Option<(Header, Found)>, JournalError> {
        while let Some((file, last, incarnation)) = self.files.get(self.at) {
            if self.next > *last {
                self.at += 1;
                self.offset = FILE_HEADER_BYTES;
                continue;
            }
            if self.next > upto {
                return Ok(None);
            }
            let damaged = JournalError::Damaged { lsn: self.next, durable: *last };
            let wanted = Wanted { lsn: self.next, prev_crc: self.prev_crc, incarnation: *incarnation };
            let found = find(file, self.offset, journal, &wanted)?;
            let (header, crc, offset) = found.ok_or(damaged)?;
            self.offset = offset + record::record_len(header.data_len());
            (self.next, self.prev_crc) = (header.lsn.next(), crc);
            if header.lsn >= self.from {
                return Ok(Some((header, Found { file: file.clone(), offset })));
            }
        }
        Ok(None)
    }
}

/// The record that is `wanted`, which begins at `offset` or, where a sync came between, at the next page.
pub(super) fn find(
    file: &JournalFile,
    offset: u64,
    journal: Uuid,
    wanted: &Wanted,
) -> io::Result<Option<(Header, u32, u64)>> {
    let file_len = file.file.len()?;
    let aligned = offset.next_multiple_of(SYNC_ALIGN);
    let places = if aligned == offset { [Some(offset), None] } else { [Some(offset), Some(aligned)] };
    for offset in places.into_iter().flatten() {
        if let Some((header, crc)) = read_header(file, offset, file_len, journal)?
            && (header.lsn, header.prev_crc) == (wanted.lsn, wanted.prev_crc)
            && header.incarnation == wanted.incarnation
            && offset + record::record_len(header.data_len()) <= file_len.next_multiple_of(RECORD_ALIGN)
        {
            return Ok(Some((header, crc, offset)));
        }
    }
    Ok(None)
}

/// The header at `offset`, if there is one.
pub(super) fn read_header(
    file: &JournalFile,
    offset: u64,
    file_len: u64,
    journal: Uuid,
) -> io::Result<Option<(Header, u32)>> {
    if offset + HEADER_BYTES > file_len {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_BYTES as usize];
    file.read(&mut bytes, offset)?;
    Ok(Header::decode(&bytes, journal))
}

/// Checks a record's data against its header, reading it into `buffer`.
pub(super) fn data_checks(
    file: &JournalFile,
    offset: u64,
    header: &Header,
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    buffer.resize(header.data_len() as usize, 0);
    file.read(buffer, offset + HEADER_BYTES)?;
    Ok(crc32c::crc32c(buffer) == header.data_crc)
}

impl Journal {
    /// Own CRC of the record `lsn`, which stands for all records up to it; `None` where it is not here. That of the
    /// record before the first one here is known too.
    pub fn crc_of(&self, lsn: Lsn) -> Result<Option<u32>, JournalError> {
        let mut cursor = {
            let appender = self.appender.lock();
            let follower = appender.files.live().find(|live| live.first == lsn.next());
            if let Some(follower) = follower {
                return Ok(Some(follower.prev_crc));
            }
            if lsn < appender.files.first() || lsn > self.appended() {
                return Ok(None);
            }
            Cursor::new(appender.files.live(), lsn)?
        };
        Ok(cursor.next(self.uuid, lsn)?.map(|_| cursor.prev_crc))
    }

    /// The records from `from` to `upto`, until their data exceeds `bytes` (at least one record), each checked
    /// against its checksum.
    pub async fn records(&self, from: Lsn, upto: Lsn, bytes: u64) -> Result<Vec<Record>, JournalError> {
        /// Checksums of so much are computed without letting others run: about a millisecond.
        const YIELD_BYTES: u64 = 4 << 20;
        let mut cursor = Cursor::new(self.appender.lock().files.live(), from)?;
        let mut records = Vec::new();
        let mut buffer = Vec::new();
        let (mut total, mut since_yield) = (0, 0);
        while let Some((header, found)) = cursor.next(self.uuid, upto)? {
            if !data_checks(&found.file, found.offset, &header, &mut buffer)? {
                return Err(JournalError::Damaged { lsn: header.lsn, durable: self.durable() });
            }
            total += record::record_len(header.data_len());
            if total > bytes && !records.is_empty() {
                break;
            }
            records.push(record_at(&header, &found, cursor.prev_crc));
            since_yield += header.data_len();
            if since_yield > YIELD_BYTES {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(records)
    }
}

fn record_at(header: &Header, found: &Found, crc: u32) -> Record {
    let place = match header.operation {
        Operation::Data(_) => Place::Data { file: found.file.clone(), offset: found.offset + HEADER_BYTES },
        Operation::Zero(_) | Operation::Resize(_) => Place::Zero,
    };
    Record { lsn: header.lsn, durable: header.durable, operation: header.operation, place, crc }
}
