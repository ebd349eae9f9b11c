//! The table: what both sides held when they were last alike, durable.
//!
//! A log of changes in the file `table`; the last record of a path counts. Torn records at the end were never synced and are cut off.
//!
//! ```text
//! magic "hold-wt" | version u8 = 1 | uuid 16 bytes | record*
//! record: len u32 | crc32c u32 of the body | body
//! body:   kind u8 (0 row, 1 upload, 2 conflict) | is_there u8 | path str | value
//! ```
//!
//! When most records no longer count, the live ones are written to `table.new`, which is synced before it replaces `table`: a crash leaves
//! the old file or the new one. Reading ends at the first record that is not whole: what follows was not synced, or the disk has damaged it. In
//! both cases the table only lags more than before, which deletes nothing (see the head of `watched`).

use super::row::{Conflict, Row, Upload, take_path};
use crate::disk::{Disk, DiskFile};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::RemotePath;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

const FILE: &str = "table";
const TEMPORARY: &str = "table.new";
const MAGIC: &[u8; 8] = b"hold-wt\x01";
const HEADER_BYTES: u64 = 24;
/// A longer record is not one of ours: a path of 4 KiB, and parts of a file of 4 TiB.
const RECORD_BYTES_MAX: u32 = 160 << 20;
/// The file is not compacted below this size.
const COMPACT_BYTES_MIN: u64 = 1 << 20;

/// Why a table cannot be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The local disk failed.
    #[error("the record of the last state cannot be used: {0}")]
    Io(#[from] io::Error),
    /// What is there is not what was written.
    #[error("the record of the last state is damaged: {0}")]
    Damaged(String),
}

impl From<FormatError> for TableError {
    fn from(error: FormatError) -> Self {
        TableError::Damaged(error.to_string())
    }
}

/// What the table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Files, links and directories.
    pub rows: BTreeMap<RemotePath, Row>,
    /// Uploads that can be continued.
    pub uploads: BTreeMap<RemotePath, Upload>,
    /// Conflicts that nobody has settled, by the path that keeps its name.
    pub conflicts: BTreeMap<RemotePath, Conflict>,
}

/// A change of the table.
#[derive(Clone, Debug)]
pub enum Change {
    /// Of a row.
    Row(RemotePath, Option<Row>),
    /// Of an upload.
    Upload(RemotePath, Option<Upload>),
    /// Of a conflict.
    Conflict(RemotePath, Option<Conflict>),
}

/// An open table.
pub struct Table {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    uuid: Uuid,
    /// Where the next record goes.
    end: u64,
    /// Size after the last compaction.
    live_bytes: u64,
    known: Known,
    /// A write has failed: what the file holds is unknown, and nothing more is recorded.
    has_failed: bool,
}

impl Table {
    /// Opens the table of the directory `uuid`, or begins it.
    pub async fn open(disk: Arc<dyn Disk>, uuid: Uuid) -> Result<Self, TableError> {
        match disk.remove(TEMPORARY) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let is_new = !disk.list()?.iter().any(|name| name == FILE);
        if is_new {
            let (file, end) = write(&*disk, FILE, uuid, &Known::default()).await?;
            disk.sync_names().await?;
            return Ok(Self {
                disk,
                file,
                uuid,
                end,
                live_bytes: end,
                known: Known::default(),
                has_failed: false,
            });
        }
        let file = disk.open(FILE, false)?;
        let (known, end) = read(&*file, uuid)?;
        if end < file.len()? {
            file.set_len(end)?;
        }
        Ok(Self { disk, file, uuid, end, live_bytes: end, known, has_failed: false })
    }

    /// What it holds.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Makes changes. They survive a power cut after the next [`sync`](Self::sync).
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<(), TableError> {
        if self.has_failed {
            return Err(TableError::Damaged("an earlier write has failed".into()));
        }
        let mut bytes = Vec::new();
        let changes: Vec<_> = changes.into_iter().collect();
        changes.iter().for_each(|change| bytes.extend(record(change)));
        if let Err(error) = self.file.write_at(&bytes, self.end) {
            // The next change begins at the same place; nothing of this one may follow it.
            self.has_failed = self.file.set_len(self.end).is_err();
            return Err(error.into());
        }
        self.end += bytes.len() as u64;
        changes.into_iter().for_each(|change| apply(&mut self.known, change));
        Ok(())
    }

    /// Makes durable what was changed. What a failed sync leaves is unknown, so nothing is recorded after one.
    pub async fn sync(&mut self) -> Result<(), TableError> {
        let synced = self.file.clone().sync().await;
        if let Err(error) = synced {
            self.has_failed = true;
            return Err(error.into());
        }
        if self.end > COMPACT_BYTES_MIN && self.end > self.live_bytes * 2 {
            self.compact().await?;
        }
        Ok(())
    }

    async fn compact(&mut self) -> Result<(), TableError> {
        let (file, end) = write(&*self.disk, TEMPORARY, self.uuid, &self.known).await?;
        self.disk.rename(TEMPORARY, FILE)?;
        self.has_failed = true;
        self.disk.sync_names().await?;
        (self.file, self.end, self.live_bytes, self.has_failed) = (file, end, end, false);
        Ok(())
    }
}

async fn write(
    disk: &dyn Disk,
    name: &str,
    uuid: Uuid,
    known: &Known,
) -> Result<(Arc<dyn DiskFile>, u64), TableError> {
    let mut bytes = [MAGIC.as_slice(), uuid.as_bytes()].concat();
    let rows = known.rows.iter().map(|(path, row)| Change::Row(path.clone(), Some(row.clone())));
    let uploads = known.uploads.iter().map(|(path, of)| Change::Upload(path.clone(), Some(of.clone())));
    let conflicts = known.conflicts.iter().map(|(path, of)| Change::Conflict(path.clone(), Some(of.clone())));
    rows.chain(uploads).chain(conflicts).for_each(|change| bytes.extend(record(&change)));
    let file = disk.open(name, true)?;
    file.set_len(0)?;
    file.write_at(&bytes, 0)?;
    file.clone().sync().await?;
    Ok((file, bytes.len() as u64))
}

fn record(change: &Change) -> Vec<u8> {
    let mut body = Writer::new();
    let (kind, path, is_there) = match change {
        Change::Row(path, row) => (0, path, row.is_some()),
        Change::Upload(path, upload) => (1, path, upload.is_some()),
        Change::Conflict(path, conflict) => (2, path, conflict.is_some()),
    };
    body.u8(kind).u8(is_there.into()).str(path.as_str());
    match change {
        Change::Row(_, row) => row.iter().for_each(|row| row.put(&mut body)),
        Change::Upload(_, upload) => upload.iter().for_each(|upload| upload.put(&mut body)),
        Change::Conflict(_, conflict) => conflict.iter().for_each(|conflict| conflict.put(&mut body)),
    }
    let body = body.finish();
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn apply(known: &mut Known, change: Change) {
    fn put<T>(map: &mut BTreeMap<RemotePath, T>, path: RemotePath, value: Option<T>) {
        match value {
            Some(value) => drop(map.insert(path, value)),
            None => drop(map.remove(&path)),
        }
    }
    match change {
        Change::Row(path, row) => put(&mut known.rows, path, row),
        Change::Upload(path, upload) => put(&mut known.uploads, path, upload),
        Change::Conflict(path, conflict) => put(&mut known.conflicts, path, conflict),
    }
}

fn read(file: &dyn DiskFile, uuid: Uuid) -> Result<(Known, u64), TableError> {
    let len = file.len()?;
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::Error::other("the file is too long"))?];
    file.read_at(&mut bytes, 0)?;
    let mut header = Reader::new(&bytes);
    header.magic(MAGIC, "the state of a watched directory")?;
    if header.array()? != *uuid.as_bytes() {
        return Err(TableError::Damaged("it belongs to another directory".into()));
    }
    let (mut known, mut end) = (Known::default(), HEADER_BYTES as usize);
    while let Some(body) = next(&bytes[end..]) {
        apply(&mut known, take(body)?);
        end += 8 + body.len();
    }
    Ok((known, end as u64))
}

/// The body of the record that `bytes` begin with, if it is whole.
fn next(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len);
    let body = rest.get(..len as usize).filter(|_| len > 0 && len <= RECORD_BYTES_MAX)?;
    (crc32c::crc32c(body) == u32::from_le_bytes(*crc)).then_some(body)
}

fn take(body: &[u8]) -> Result<Change, FormatError> {
    let mut from = Reader::new(body);
    let (kind, is_there, path) = (from.u8()?, from.u8()? != 0, take_path(&mut from)?);
    let from = &mut from;
    let change = match kind {
        0 => Change::Row(path, is_there.then(|| Row::take(from)).transpose()?),
        1 => Change::Upload(path, is_there.then(|| Upload::take(from)).transpose()?),
        2 => Change::Conflict(path, is_there.then(|| Conflict::take(from)).transpose()?),
        _ => return Err(FormatError::Invalid("an unknown kind of record")),
    };
    from.end()?;
    Ok(change)
}
