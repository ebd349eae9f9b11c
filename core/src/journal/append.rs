//! The one appender: LSN, place, bytes and index entry of a record are given under its lock, in that order.

use super::burst::Burst;
use super::files::{FileSet, LiveFile};
use super::marks::Marks;
use super::record::{self, Header, Operation, RECORD_BLOCKS_MAX, SYNC_ALIGN};
use super::{Entry, Journal, JournalError, Place, Record};
use crate::units::{BLOCK_BYTES, BlockRange, Lsn};
use parking_lot::MutexGuard;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// Data up to this length is copied behind its header so that both are written by one call.
const ONE_WRITE_BYTES: usize = 128 << 10;

/// The end of the log.
pub(super) struct Appender {
    pub files: FileSet,
    /// Own CRC of the last record.
    pub prev_crc: u32,
    /// Records that are not applied to the cache yet, in order.
    pub unapplied: VecDeque<Record>,
    pub unapplied_bytes: u64,
    /// Whether closing the drive may use the reserve.
    pub reserve_open: bool,
    pub scratch: Vec<u8>,
    pub burst: Burst,
}

/// The exclusive right to append. Nothing else is written to the drive while it lives.
pub struct Writer<'a> {
    journal: &'a Journal,
    appender: MutexGuard<'a, Appender>,
}

impl Journal {
    /// Waits (never for I/O other than page cache copies) for the right to append.
    pub fn writer(&self) -> Writer<'_> {
        Writer { journal: self, appender: self.appender.lock() }
    }

    /// Appends `data` at `first`. Longer writes become several records: a disk promises no more than that either.
    /// [`JournalError::Full`] may leave a prefix appended; writing it again is harmless.
    pub fn append_data(&self, first: u64, data: &[u8]) -> Result<Lsn, JournalError> {
        self.writer().data(first, data)
    }

    /// Lets writes use the space that is kept for closing the drive.
    pub fn open_reserve(&self) {
        self.appender.lock().reserve_open = true;
        self.room.notify_waiters();
    }

    /// Keeps that space again for the next time. What is in it stays until it is freed, and nothing is added before.
    pub fn close_reserve(&self) {
        self.appender.lock().reserve_open = false;
    }
}

impl Writer<'_> {
    /// Appends whole blocks of data.
    pub fn data(&mut self, first: u64, data: &[u8]) -> Result<Lsn, JournalError> {
        assert!(
            data.len().is_multiple_of(BLOCK_BYTES as usize) && !data.is_empty(),
            "records hold whole blocks"
        );
        let mut lsn = Lsn(0);
        let mut at = first;
        for piece in data.chunks((RECORD_BLOCKS_MAX * BLOCK_BYTES) as usize) {
            let blocks = BlockRange::new(at, piece.len() as u64 / BLOCK_BYTES);
            lsn = self.record(Operation::Data(blocks), piece)?;
            at = blocks.end;
        }
        Ok(lsn)
    }

    /// Appends a run of zeros: O(1), however long.
    pub fn zero(&mut self, blocks: BlockRange) -> Result<Lsn, JournalError> {
        self.record(Operation::Zero(blocks), &[])
    }

    /// Appends a new size of the drive.
    pub fn resize(&mut self, size_blocks: u64) -> Result<Lsn, JournalError> {
        self.record(Operation::Resize(size_blocks), &[])
    }

    fn record(&mut self, operation: Operation, data: &[u8]) -> Result<Lsn, JournalError> {
        let journal = self.journal;
        journal.check()?;
        let lsn = journal.appended().next();
        let durable = journal.durable();
        let appender = &mut *self.appender;
        appender.make_room(journal, record::record_len(data.len() as u64), lsn)?;
        let live = appender.files.current();
        let (file, offset) = (live.file.clone(), live.end);
        let header = Header {
            lsn,
            durable,
            operation,
            data_crc: crc32c::crc32c(data),
            incarnation: journal.incarnation,
            prev_crc: appender.prev_crc,
        };
        let (bytes, crc) = header.encode(journal.uuid);
        let written = if data.len() <= ONE_WRITE_BYTES {
            appender.scratch.clear();
            appender.scratch.extend_from_slice(&bytes);
            appender.scratch.extend_from_slice(data);
            file.file.write_at(&appender.scratch, offset)
        } else {
            let behind = offset + record::HEADER_BYTES;
            file.file.write_at(data, behind).and_then(|()| file.file.write_at(&bytes, offset))
        };
        written.map_err(|error| journal.fail(error.to_string()))?;

        appender.burst.note(data.len() as u64, Instant::now());
        let live = appender.files.current();
        live.last = lsn;
        live.end = offset + record::record_len(data.len() as u64);
        live.marks.note((live.last, live.end));
        appender.prev_crc = crc;
        let place = match operation {
            Operation::Data(_) => Place::Data { file, offset: offset + record::HEADER_BYTES },
            Operation::Zero(_) | Operation::Resize(_) => Place::Zero,
        };
        journal.admit(appender, Record { lsn, durable, operation, place, crc });
        journal.appended.store(lsn.0, Ordering::Release);
        Ok(lsn)
    }
}

impl Journal {
    /// Makes a record visible to readers, to the applier and to the dirty set.
    pub(super) fn admit(&self, appender: &mut Appender, record: Record) {
        if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
            let mut index = self.index.write();
            index.insert(blocks, Entry { lsn: record.lsn, place: record.place.clone() });
            self.journaled.set(blocks);
            self.dirty.recent.read().set(blocks);
        }
        appender.unapplied_bytes += bytes_of(&record);
        appender.unapplied.push_back(record);
    }
}

/// What a record weighs until it is applied.
pub(super) fn bytes_of(record: &Record) -> u64 {
    match record.operation {
        Operation::Data(blocks) => record::record_len(blocks.byte_len()),
        Operation::Zero(_) | Operation::Resize(_) => record::HEADER_BYTES,
    }
}

impl Appender {
    /// Sees to it that the current file has `len` bytes left, beginning the next file if not.
    fn make_room(&mut self, journal: &Journal, len: u64, lsn: Lsn) -> Result<(), JournalError> {
        if self.files.current().end + len <= journal.limits.file_bytes {
            return Ok(());
        }
        let allowed = journal.files_allowed(self);
        let Some(file) = self.files.take_spare(allowed) else {
            journal.spare_wanted.notify_one();
            return Err(JournalError::Full);
        };
        self.begin_file(journal, file, lsn)?;
        journal.spare_wanted.notify_one();
        Ok(())
    }

    /// Makes `file` the one that is appended to; its first record will be `first`.
    pub(super) fn begin_file(
        &mut self,
        journal: &Journal,
        file: Arc<super::JournalFile>,
        first: Lsn,
    ) -> Result<(), JournalError> {
        let header = record::FileHeader {
            journal: journal.uuid,
            seq: self.files.next_seq(),
            incarnation: journal.incarnation,
            prev_crc: self.prev_crc,
            first,
            durable: journal.durable(),
            file_bytes: journal.limits.file_bytes,
            group: None,
        };
        file.file.write_at(&header.encode(), 0).map_err(|error| journal.fail(error.to_string()))?;
        self.files.push(LiveFile {
            file,
            seq: header.seq,
            incarnation: header.incarnation,
            prev_crc: header.prev_crc,
            first,
            last: first.prev(),
            end: record::FILE_HEADER_BYTES,
            synced: first.prev(),
            group: None,
            marks: Marks::default(),
        });
        Ok(())
    }

    /// Called when a sync begins: what is appended from here on starts on a page of its own, so that no page with
    /// durable bytes is ever written again.
    pub(super) fn close_page(&mut self) {
        let live = self.files.current();
        live.end = live.end.next_multiple_of(SYNC_ALIGN);
    }
}
