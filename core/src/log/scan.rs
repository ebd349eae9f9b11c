//! Walking over records in order.

use super::files::LiveFile;
use super::record::{self, FILE_HEADER_BYTES, Group, HEADER_BYTES, Header, RECORD_ALIGN, SYNC_ALIGN};
use super::{Body, Log, LogError, LogFile, Place, Record, Records};
use crate::units::Lsn;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// Where a record was found.
pub(super) struct Found {
    pub file: Arc<LogFile>,
    pub offset: u64,
}

/// A walk over the records of an open log. A group is walked as a whole if any record that it stands for is wanted.
pub(super) struct Cursor {
    spans: VecDeque<Span>,
    /// In the first span: where the next record is, and how many were found.
    offset: u64,
    found: u32,
    next: Lsn,
    /// Own CRC of the record before the next.
    prev_crc: u32,
    from: Lsn,
}

/// A file to walk.
struct Span {
    file: Arc<LogFile>,
    incarnation: u32,
    first: Lsn,
    last: Lsn,
    prev_crc: u32,
    group: Option<Group>,
}

/// The record to look for. A recycled file may hold others with the same LSN that a power cut removed from the log: those
/// follow another record, or were written by an earlier process than the one that began the file.
pub(super) struct Wanted {
    pub lsn: Lsn,
    /// Own CRC of the record before.
    pub prev_crc: u32,
    /// The file's incarnation.
    pub incarnation: u32,
}

impl Cursor {
    /// Walks from the record `from` on. If records were freed already, this is an error: they are never skipped.
    pub fn new<'a>(live: impl Iterator<Item = &'a LiveFile>, from: Lsn) -> Result<Self, LogError> {
        let live = live.filter(|live| live.last >= from && live.last >= live.first);
        let spans: VecDeque<_> = live.map(Span::of).collect();
        let (next, prev_crc) = spans.front().map_or((from, 0), |span| (span.first, span.prev_crc));
        if next > from {
            return Err(LogError::Damaged { lsn: from, durable: next });
        }
        Ok(Self { spans, offset: FILE_HEADER_BYTES, found: 0, next, prev_crc, from })
    }

    /// Own CRC of the record that was found last; in a group, that of the last record that the group stands for.
    pub fn last_crc(&self) -> u32 {
        let group = self.spans.front().and_then(|span| span.group).filter(|_| self.found > 0);
        group.map_or(self.prev_crc, |group| group.last_crc)
    }

    /// The next record up to `upto`.
    pub fn next<B: Body>(&mut self, log: Uuid, upto: Lsn) -> Result<Option<(Header<B>, Found)>, LogError> {
        while let Some(span) = self.spans.front() {
            if span.ends_before(self.next, self.found) {
                self.spans.pop_front();
                (self.offset, self.found) = (FILE_HEADER_BYTES, 0);
                if let Some(span) = self.spans.front() {
                    (self.next, self.prev_crc) = (span.first, span.prev_crc);
                }
                continue;
            }
            if self.next > upto {
                return Ok(None);
            }
            let damaged = LogError::Damaged { lsn: self.next, durable: span.last };
            let lsn = span.group.map_or(self.next, |group| group.last);
            let wanted = Wanted { lsn, prev_crc: self.prev_crc, incarnation: span.incarnation };
            let found = find(&span.file, self.offset, log, &wanted)?;
            let (header, crc, offset) = found.ok_or(damaged)?;
            self.offset = offset + record::record_len(header.data_len());
            (self.found, self.prev_crc) = (self.found + 1, crc);
            if span.group.is_none() {
                self.next = header.lsn.next();
            }
            if header.lsn >= self.from {
                return Ok(Some((header, Found { file: span.file.clone(), offset })));
            }
        }
        Ok(None)
    }
}

impl Span {
    fn of(live: &LiveFile) -> Self {
        let LiveFile { incarnation, first, last, prev_crc, group, .. } = *live;
        Self { file: live.file.clone(), incarnation, first, last, prev_crc, group }
    }

    fn ends_before(&self, next: Lsn, found: u32) -> bool {
        self.group.map_or(next > self.last, |group| found == group.records)
    }
}

/// The `wanted` record. It begins at `offset` or, if a sync came between, at the next page.
pub(super) fn find<B: Body>(
    file: &LogFile,
    offset: u64,
    log: Uuid,
    wanted: &Wanted,
) -> io::Result<Option<(Header<B>, u32, u64)>> {
    let file_len = file.file.len()?;
    let aligned = offset.next_multiple_of(SYNC_ALIGN);
    let places = if aligned == offset { [Some(offset), None] } else { [Some(offset), Some(aligned)] };
    for offset in places.into_iter().flatten() {
        if let Some((header, crc)) = read_header(file, offset, file_len, log)?
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
pub(super) fn read_header<B: Body>(
    file: &LogFile,
    offset: u64,
    file_len: u64,
    log: Uuid,
) -> io::Result<Option<(Header<B>, u32)>> {
    if offset + HEADER_BYTES > file_len {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_BYTES as usize];
    file.read(&mut bytes, offset)?;
    Ok(Header::decode(&bytes, log))
}

/// Checks a record's data against its header, reading it into `buffer`.
pub(super) fn data_checks<B: Body>(
    file: &LogFile,
    offset: u64,
    header: &Header<B>,
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    buffer.resize(header.data_len() as usize, 0);
    file.read(buffer, offset + HEADER_BYTES)?;
    Ok(crc32c::crc32c(buffer) == header.data_crc)
}

impl<R: Records> Log<R> {
    /// Own CRC of the record `lsn`, which covers all records up to it; `None` if the record is not here. The CRC of the
    /// record before the first one here is known too.
    pub fn crc_of(&self, lsn: Lsn) -> Result<Option<u32>, LogError> {
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
        let found = cursor.next::<R::Body>(self.uuid, lsn)?.filter(|(header, _)| header.lsn == lsn);
        Ok(found.map(|_| cursor.last_crc()))
    }

    /// The records from `from` to `upto`, until their size exceeds `bytes` (at least one record), each checked against its
    /// checksum. A compacted group that any of them belongs to is returned whole.
    pub async fn records(&self, from: Lsn, upto: Lsn, bytes: u64) -> Result<Vec<Record<R::Body>>, LogError> {
        /// Bytes whose checksums are computed before other tasks may run: about a millisecond.
        const YIELD_BYTES: u64 = 4 << 20;
        let mut cursor = Cursor::new(self.appender.lock().files.live(), from)?;
        let mut records = Vec::new();
        let mut buffer = Vec::new();
        let (mut total, mut since_yield) = (0, 0);
        while let Some((header, found)) = cursor.next(self.uuid, upto)? {
            if !data_checks(&found.file, found.offset, &header, &mut buffer)? {
                return Err(LogError::Damaged { lsn: header.lsn, durable: self.durable() });
            }
            total += record::record_len(header.data_len());
            // Records with the same LSN are one group and stay together.
            if total > bytes && records.last().is_some_and(|last: &Record<R::Body>| last.lsn != header.lsn) {
                break;
            }
            records.push(record_at(&header, &found, cursor.last_crc()));
            since_yield += header.data_len();
            if since_yield > YIELD_BYTES {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(records)
    }
}

fn record_at<B: Body>(header: &Header<B>, found: &Found, crc: u32) -> Record<B> {
    let place = match header.data_len() {
        0 => Place::Zero,
        _ => Place::Data { file: found.file.clone(), offset: found.offset + HEADER_BYTES },
    };
    Record { lsn: header.lsn, durable: header.durable, operation: header.operation, place, crc }
}
