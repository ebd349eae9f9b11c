//! Groups: several files of records, replaced by one file with fewer records.
//!
//! Only durable records become part of a group, and the log's user decides which can be left out. The group is written and
//! synced before it gets a header, and it gets the header before any file that it replaces is erased. A crash at any point
//! leaves the old files, the group, or both, and all of these mean the same.

use super::files::{self, LiveFile};
use super::record::{self, FILE_HEADER_BYTES, FileHeader, Group, HEADER_BYTES, Header};
use super::{Body, Log, LogError, LogFile, Place, Records};
use crate::planted::{self, Bug};
use crate::units::Lsn;
use std::sync::Arc;

/// A file that may become a part of a group.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub first: Lsn,
    pub last: Lsn,
    /// Own CRC of the record before its first.
    pub prev_crc: u32,
}

impl<R: Records> Log<R> {
    /// Files that may become a part of a group: those with records between `from` and `upto` that are all durable, except
    /// the current file.
    pub(crate) fn candidates(&self, from: Lsn, upto: Lsn) -> Vec<Candidate> {
        let appender = self.appender.lock();
        let done = |live: &&LiveFile| {
            live.last >= live.first && live.synced == live.last && live.last >= from && live.last <= upto
        };
        let candidate =
            |live: &LiveFile| Candidate { first: live.first, last: live.last, prev_crc: live.prev_crc };
        let current = appender.files.live().count() - 1;
        appender.files.live().take(current).filter(done).map(candidate).collect()
    }

    /// Writes a group of these records and replaces the files from `first` to `last` by it. `last_crc` is the own CRC of
    /// the last record in them.
    pub(crate) async fn replace_by_group(
        self: &Arc<Self>,
        first: Candidate,
        last: Candidate,
        last_crc: u32,
        records: impl Iterator<Item = (R::Body, Place)>,
    ) -> Result<(), LogError> {
        let name = self.appender.lock().files.new_slot();
        let written = self.write(&name, (first, last, last_crc), records).await;
        if written.is_err() {
            // Without the group nothing has changed.
            let _ = self.disk.remove(&name);
        }
        let replaced = self.appender.lock().files.replace(written?);
        if let Err(unused) = replaced {
            // The files were pushed and freed in the meantime.
            files::erase(&unused.file.file).await?;
            self.appender.lock().files.add_spare(unused.file);
        }
        self.keep_spare().await
    }

    async fn write(
        &self,
        name: &str,
        (first, last, last_crc): (Candidate, Candidate, u32),
        records: impl Iterator<Item = (R::Body, Place)>,
    ) -> Result<LiveFile, LogError> {
        let file = files::create(&*self.disk, name, self.limits.file_bytes).await?;
        let (records, end) = self.write_records(&file, records, first.prev_crc, last.last).await?;
        let skips_syncs = planted::has(Bug::GroupBeforeItIsDurable);
        if !skips_syncs {
            file.file.clone().sync().await?;
        }
        let durable = self.durable();
        let header = FileHeader {
            log: self.uuid,
            seq: self.appender.lock().files.next_seq(),
            incarnation: self.incarnation,
            prev_crc: first.prev_crc,
            first: first.first,
            durable,
            file_bytes: self.limits.file_bytes,
            group: Some(Group { last: last.last, last_crc, records }),
        };
        let headed = file.file.write_at(&header.encode(), 0);
        let synced = if skips_syncs { Ok(()) } else { file.file.clone().sync().await };
        if let Err(error) = headed.and(synced) {
            // The header may still reach the disk, after the files around it are gone. Recovery would take that for damage.
            files::erase(&file.file).await.map_err(|error| self.fail(error.to_string()))?;
            return Err(error.into());
        }
        Ok(LiveFile::new(file, &header, (last.last, end), last.last))
    }

    async fn write_records(
        &self,
        file: &LogFile,
        records: impl Iterator<Item = (R::Body, Place)>,
        mut prev_crc: u32,
        last: Lsn,
    ) -> Result<(u32, u64), LogError> {
        let durable = self.durable();
        let (mut end, mut count) = (FILE_HEADER_BYTES, 0);
        let mut data = Vec::new();
        for (operation, place) in records {
            data.clear();
            if let Place::Data { file, offset } = &place {
                data.resize(operation.data_len() as usize, 0);
                file.read(&mut data, *offset)?;
            }
            let data_crc = crc32c::crc32c(&data);
            let incarnation = self.incarnation;
            let header = Header { lsn: last, durable, operation, data_crc, incarnation, prev_crc };
            let (bytes, crc) = header.encode(self.uuid);
            file.file.write_at(&bytes, end)?;
            file.file.write_at(&data, end + HEADER_BYTES)?;
            (end, count, prev_crc) = (end + record::record_len(data.len() as u64), count + 1, crc);
            tokio::task::yield_now().await;
        }
        Ok((count, end))
    }
}
