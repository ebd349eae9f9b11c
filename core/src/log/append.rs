//! The one appender: under its lock a record gets its LSN, its place and its bytes, in that order, and then the log's user
//! learns of it.

use super::files::{FileSet, LiveFile};
use super::record::{self, Header, SYNC_ALIGN};
use super::{Body, Log, LogError, Place, Record, Records};
use crate::units::Lsn;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Data up to this length is copied behind its header so that both are written by one call.
const ONE_WRITE_BYTES: usize = 128 << 10;

/// The end of the log.
pub(crate) struct Appender<P> {
    pub(super) files: FileSet,
    /// Own CRC of the last record.
    pub(super) prev_crc: u32,
    /// State of the log's user under the same lock.
    pub pending: P,
    /// Whether the reserve may be used.
    pub(super) reserve_open: bool,
    /// The current file ends in a record that was not written whole. The next one goes to another file: in this one it might not be where
    /// recovery looks for it.
    pub(super) is_torn: bool,
    pub(super) scratch: Vec<u8>,
}

/// The exclusive right to append: nobody else appends while it lives.
pub struct Writer<'a, R: Records> {
    log: &'a Log<R>,
    appender: MutexGuard<'a, Appender<R::Pending>>,
}

impl<R: Records> Log<R> {
    /// The lock of appends, with the state that it guards.
    pub(crate) fn appender(&self) -> MutexGuard<'_, Appender<R::Pending>> {
        self.appender.lock()
    }

    /// Waits (never for I/O other than page cache copies) for the right to append.
    pub fn writer(&self) -> Writer<'_, R> {
        Writer { log: self, appender: self.appender.lock() }
    }

    /// Lets writes use the space that is reserved for closing the drive.
    pub fn open_reserve(&self) {
        self.appender.lock().reserve_open = true;
        self.room.notify_waiters();
    }

    /// Reserves that space again for the next time. Records in it stay until they are freed, and no others are added
    /// before.
    pub fn close_reserve(&self) {
        self.appender.lock().reserve_open = false;
    }
}

impl<R: Records> Writer<'_, R> {
    /// Appends a record with its data. The data is exactly as long as the record says, because readers of the log rely on
    /// that length.
    pub fn append(&mut self, operation: R::Body, data: &[u8]) -> Result<Lsn, LogError> {
        assert_eq!(operation.data_len(), data.len() as u64, "a record has the data that it speaks of");
        let log = self.log;
        log.check()?;
        let lsn = log.appended().next();
        let durable = log.durable();
        let appender = &mut *self.appender;
        appender.make_room(log, record::record_len(data.len() as u64), lsn)?;
        let live = appender.files.current();
        let (file, offset) = (live.file.clone(), live.end);
        let header = Header {
            lsn,
            durable,
            operation,
            data_crc: crc32c::crc32c(data),
            incarnation: log.incarnation,
            prev_crc: appender.prev_crc,
        };
        let (bytes, crc) = header.encode(log.uuid);
        let written = if data.len() <= ONE_WRITE_BYTES {
            appender.scratch.clear();
            appender.scratch.extend_from_slice(&bytes);
            appender.scratch.extend_from_slice(data);
            file.file.write_at(&appender.scratch, offset)
        } else {
            let behind = offset + record::HEADER_BYTES;
            file.file.write_at(data, behind).and_then(|()| file.file.write_at(&bytes, offset))
        };
        if let Err(error) = written {
            appender.is_torn = true;
            return Err(log.not_written(error));
        }

        let live = appender.files.current();
        live.last = lsn;
        live.end = offset + record::record_len(data.len() as u64);
        live.marks.note((live.last, live.end));
        appender.prev_crc = crc;
        let place = match data.is_empty() {
            true => Place::Zero,
            false => Place::Data { file, offset: offset + record::HEADER_BYTES },
        };
        log.records.appended(&mut appender.pending, Record { lsn, durable, operation, place, crc });
        log.appended.store(lsn.0, Ordering::Release);
        Ok(lsn)
    }
}

impl<P> Appender<P> {
    /// The first record that is still here.
    pub fn first(&self) -> Lsn {
        self.files.first()
    }

    /// Makes sure that the current file has `len` bytes left, and begins the next file if it does not.
    fn make_room<R: Records<Pending = P>>(
        &mut self,
        log: &Log<R>,
        len: u64,
        lsn: Lsn,
    ) -> Result<(), LogError> {
        if self.files.current().end + len <= log.limits.file_bytes && !self.is_torn {
            return Ok(());
        }
        let allowed = log.files_allowed(self);
        let Some(file) = self.files.take_spare(allowed, log.limits.file_bytes) else {
            log.spare_wanted.notify_one();
            return Err(LogError::Full);
        };
        if let Err(error) = self.begin_file(log, file.clone(), lsn) {
            self.files.add_spare(file);
            return Err(error);
        }
        log.spare_wanted.notify_one();
        Ok(())
    }

    /// Makes `file` the one that is appended to; its first record will be `first`.
    pub(super) fn begin_file<R: Records<Pending = P>>(
        &mut self,
        log: &Log<R>,
        file: Arc<super::LogFile>,
        first: Lsn,
    ) -> Result<(), LogError> {
        let header = record::FileHeader {
            log: log.uuid,
            seq: self.files.next_seq(),
            incarnation: log.incarnation,
            prev_crc: self.prev_crc,
            first,
            durable: log.durable(),
            file_bytes: log.limits.file_bytes,
            group: None,
        };
        file.file.write_at(&header.encode(), 0).map_err(|error| log.not_written(error))?;
        self.is_torn = false;
        let (last, end) = (first.prev(), record::FILE_HEADER_BYTES);
        self.files.push(LiveFile::new(file, &header, (last, end), last));
        Ok(())
    }

    /// Called when a sync begins. Records appended from here on start on a page of their own, so that no page with durable
    /// bytes is ever written again.
    pub(super) fn close_page(&mut self) {
        let live = self.files.current();
        live.end = live.end.next_multiple_of(SYNC_ALIGN);
    }
}
