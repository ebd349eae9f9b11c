//! The file of numbers: reading it from its beginning, appending, and making a new one.

use super::record::{ALIGN, GIVING_BYTES_MIN, Header, RECORD_BYTES_MAX, RECORDS_START, Record};
use super::{NAME, NEW_NAME};
use crate::disk::{Disk, DiskFile};
use crate::folder::node::Ino;
use rand::Rng;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Read at once: a hundredth of the file of a million numbers.
const WINDOW_BYTES: u64 = 1 << 20;

/// The file, and where its records end.
pub(super) struct Records {
    pub file: Arc<dyn DiskFile>,
    /// The file's id.
    pub id: u64,
    /// Where the next record goes. What lies behind it means nothing.
    pub end: u64,
}

impl Records {
    /// Makes an empty file beside the one that is in use.
    pub fn create(disk: &dyn Disk, floor: Ino) -> io::Result<Self> {
        let file = disk.open(NEW_NAME, true)?;
        file.set_len(0)?;
        let id = rand::rng().random();
        file.write_at(&Header { id, floor }.encode(), 0)?;
        Ok(Self { file, id, end: RECORDS_START })
    }

    /// Puts a file that was created in the place of the one that is in use.
    pub fn install(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.rename(NEW_NAME, NAME)
    }

    /// The same file, as far as it is written now.
    pub fn handle(&self) -> Self {
        Self { file: self.file.clone(), ..*self }
    }

    /// Opens the file that is in use. `each` gets the records in their order; a floor that is never below any number that the file gave is
    /// returned beside the file. `Err` of the inner result: there is no file that can be read, only that floor.
    pub fn open(
        disk: &dyn Disk,
        mut each: impl FnMut(&Self, u64, Record) -> io::Result<()>,
    ) -> io::Result<Result<(Self, Ino), Ino>> {
        let file = match disk.open(NAME, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Ino(0))),
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        let mut bytes = [0; RECORDS_START as usize];
        if len >= RECORDS_START {
            file.read_at(&mut bytes, 0)?;
        }
        let Some(Header { id, floor }) = Header::decode(&bytes) else {
            tracing::warn!("the table of inode numbers cannot be read: it begins anew");
            return Ok(Err(given_in(len)));
        };
        let mut records = Self { file, id, end: len };
        let mut highest = floor;
        let end = records.scan(RECORDS_START..len, |offset, record| {
            highest = highest.max(record.ino());
            each(&records, offset, record)
        })?;
        if end < len {
            tracing::warn!(
                bytes = len - end,
                "the end of the table of inode numbers is torn or damaged, and dropped"
            );
            highest = highest.max(records.highest_in(end..len)?);
            highest = Ino(highest.0.saturating_add(given_in(len - end).0));
            // The header first: once the records are gone, nothing else knows that their numbers were given.
            records.file.write_at(&Header { id, floor: highest }.encode(), 0)?;
            records.file.set_len(end)?;
            records.end = end;
        }
        Ok(Ok((records, highest)))
    }

    /// Writes a record behind the others, and returns where. Nothing has changed if that fails.
    pub fn append(&mut self, record: &Record) -> io::Result<u64> {
        let offset = self.end;
        if offset > super::index::Index::OFFSET_MAX {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the table of inode numbers is full"));
        }
        let bytes = record.encode(self.id, offset);
        if let Err(error) = self.file.write_at(&bytes, offset) {
            // What was written of it means nothing, and the next record overwrites it.
            let _ = self.file.set_len(offset);
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(offset)
    }

    /// The record at `offset`; `None` if it is damaged.
    pub fn read(&self, offset: u64) -> io::Result<Option<Record>> {
        let mut bytes = [0; RECORD_BYTES_MAX as usize];
        let bytes = &mut bytes[..RECORD_BYTES_MAX.min(self.end.saturating_sub(offset)) as usize];
        match self.file.read_at(bytes, offset) {
            Ok(()) => Ok(Record::decode(bytes, self.id, offset).map(|(record, _)| record)),
            // Somebody has cut the file.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads records one after the other. Returns where the first one lies that is torn or damaged, or the end.
    pub fn scan(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(u64, Record) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut window = Window::new(&*self.file, range.end);
        let mut at = range.start;
        while let Some((record, len)) = Record::decode(window.at(at)?, self.id, at) {
            each(at, record)?;
            at += len;
        }
        Ok(at)
    }

    /// The highest number that any record in the range names, also behind damage.
    fn highest_in(&self, range: Range<u64>) -> io::Result<Ino> {
        let mut window = Window::new(&*self.file, range.end);
        let mut highest = Ino(0);
        let mut at = range.start;
        while at < range.end {
            let record = Record::decode(window.at(at)?, self.id, at);
            at += record.as_ref().map_or(ALIGN, |(_, len)| *len);
            highest = record.map_or(highest, |(record, _)| highest.max(record.ino()));
        }
        Ok(highest)
    }
}

/// As many numbers as records of that many bytes can have given.
fn given_in(bytes: u64) -> Ino {
    Ino(u32::try_from(bytes.div_ceil(GIVING_BYTES_MIN)).unwrap_or(u32::MAX))
}

/// A file's bytes, read ahead.
pub(super) struct Window<'a> {
    file: &'a dyn DiskFile,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Reads up to `end`.
    pub fn new(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { file, end, start: 0, bytes: Vec::new() }
    }

    /// The bytes from `offset`, enough for the longest record or up to the end.
    pub fn at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let have = self.start..self.start + self.bytes.len() as u64;
        let want_end = self.end.min(offset + RECORD_BYTES_MAX);
        if !(have.start <= offset && want_end <= have.end) {
            self.start = offset;
            self.bytes.resize(WINDOW_BYTES.min(self.end.saturating_sub(offset)) as usize, 0);
            self.file.read_at(&mut self.bytes, offset)?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from.min(self.bytes.len())..])
    }
}
