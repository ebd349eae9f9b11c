//! Flush: one fdatasync for all who wait, and what becomes of the log when one fails.
//!
//! After a failed fdatasync the kernel may have dropped the pages and will report success the next time. So the
//! file is condemned: what was not durable is read back (its checksums tell whether it is still what was written)
//! and written to a fresh file. If that fails too, the journal stops: a flush never lies.

use super::files::{self, LiveFile};
use super::marks::Marks;
use super::record::{self, FileHeader, HEADER_BYTES, Header};
use super::scan::Cursor;
use super::{Entry, Journal, JournalError, JournalFile, Operation, Place};
use crate::planted::{self, Bug};
use crate::units::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Journal {
    /// Ready when every record that was appended before the call is durable.
    pub async fn flush(self: &Arc<Self>) -> Result<Lsn, JournalError> {
        let target = self.appended();
        loop {
            self.check()?;
            if self.durable() >= target {
                return Ok(self.durable());
            }
            // A task of its own: whoever waits may go away, but the outcome of an fdatasync must be looked at. The
            // kernel tells of a failure once, so that the next sync would succeed and prove nothing.
            let journal = self.clone();
            let synced = tokio::spawn(async move { journal.sync_up_to(target).await });
            synced.await.map_err(|stopped| self.fail(stopped.to_string()))??;
        }
    }

    async fn sync_up_to(&self, target: Lsn) -> Result<(), JournalError> {
        // In order of arrival. Whoever gets here behind a sync that began after its own call has nothing to do.
        let _turn = self.syncing.lock().await;
        self.check()?;
        if self.durable() < target { self.sync().await } else { Ok(()) }
    }

    /// The same as [`Journal::flush`] on the calling thread, which must not be one of the runtime's; `None` where it cannot
    /// be done so, be it that a sync has failed and the file has to be written anew.
    pub fn flush_here(&self) -> Option<Result<Lsn, JournalError>> {
        let target = self.appended();
        let _turn = if self.durable() < target { Some(self.syncing.blocking_lock()) } else { None };
        if let Err(error) = self.check() {
            return Some(Err(error));
        }
        if self.durable() < target {
            let (upto, files) = self.unsynced();
            if self.condemned.load(Ordering::Acquire) {
                return None;
            }
            for file in files.iter().filter(|_| !planted::has(Bug::FlushWithoutSync)) {
                if let Err(error) = file.file.sync_here()? {
                    tracing::warn!(%error, file = file.name, "the journal could not be synced: writing it anew");
                    self.condemned.store(true, Ordering::Release);
                    return None;
                }
            }
            self.synced(upto);
        }
        Some(Ok(self.durable()))
    }

    async fn sync(&self) -> Result<(), JournalError> {
        let (upto, files) = self.unsynced();
        if self.condemned.load(Ordering::Acquire) {
            self.rewrite().await?;
            self.condemned.store(false, Ordering::Release);
            return Ok(());
        }
        for file in files.iter().filter(|_| !planted::has(Bug::FlushWithoutSync)) {
            if let Err(error) = file.file.clone().sync().await {
                tracing::warn!(%error, file = file.name, "the journal could not be synced: writing it anew");
                return self.rewrite().await;
            }
        }
        self.synced(upto);
        Ok(())
    }

    /// What a sync that begins now makes durable, and the files that it has to sync.
    fn unsynced(&self) -> (Lsn, Vec<Arc<JournalFile>>) {
        let mut appender = self.appender.lock();
        appender.close_page();
        let unsynced = |live: &&LiveFile| live.synced < live.last;
        let files = appender.files.live().filter(unsynced).map(|live| live.file.clone()).collect();
        (self.appended(), files)
    }

    /// Everything up to `upto` has been synced.
    fn synced(&self, upto: Lsn) {
        let mut appender = self.appender.lock();
        for live in appender.files.live_mut() {
            live.synced = live.synced.max(upto.min(live.last));
        }
        self.durable.fetch_max(upto.0, Ordering::AcqRel);
    }

    /// Writes every record that is not durable to a fresh file, and syncs that.
    async fn rewrite(&self) -> Result<(), JournalError> {
        // The lock on syncs is held, so `durable` stands still. The one on appends cannot be held while the new
        // file is made; it is then held while records move, so none is missed.
        let name = self.appender.lock().files.new_slot();
        let moved = async {
            let file = files::create(&*self.disk, &name, self.limits.file_bytes).await?;
            self.move_unsynced(file)
        };
        let file = moved.await.map_err(|error: JournalError| self.fail(error.to_string()))?;
        let upto = self.appended();
        file.file.clone().sync().await.map_err(|error| self.fail(error.to_string()))?;
        let mut appender = self.appender.lock();
        for live in appender.files.live_mut().filter(|live| Arc::ptr_eq(&live.file, &file)) {
            live.synced = upto.min(live.last);
        }
        self.durable.fetch_max(upto.0, Ordering::AcqRel);
        Ok(())
    }

    fn move_unsynced(&self, file: Arc<JournalFile>) -> Result<Arc<JournalFile>, JournalError> {
        let mut appender = self.appender.lock();
        let first = self.durable().next();
        let mut cursor = Cursor::new(appender.files.live(), first)?;
        let mut end = record::FILE_HEADER_BYTES;
        let mut moved = Vec::new();
        let mut buffer = Vec::new();
        let mut prev_crc = None;
        while let Some((header, found)) = cursor.next(self.uuid, self.appended())? {
            let data_len = header.data_len();
            buffer.resize(data_len as usize, 0);
            found.file.read(&mut buffer, found.offset + HEADER_BYTES)?;
            if crc32c::crc32c(&buffer) != header.data_crc {
                return Err(JournalError::Io(format!("record {} was lost with the failed sync", header.lsn)));
            }
            prev_crc.get_or_insert(header.prev_crc);
            if end + record::record_len(data_len) > self.limits.file_bytes {
                return Err(JournalError::Io("more was unsynced than fits a file".into()));
            }
            // The record's bytes stay the same: its LSN, and the chain of checksums.
            file.file.write_at(&header.encode(self.uuid).0, end)?;
            file.file.write_at(&buffer, end + HEADER_BYTES)?;
            moved.push((header, end));
            end += record::record_len(data_len);
        }
        let header = FileHeader {
            journal: self.uuid,
            seq: appender.files.next_seq(),
            incarnation: self.incarnation,
            prev_crc: prev_crc.unwrap_or(appender.prev_crc),
            first,
            durable: first.prev(),
            file_bytes: self.limits.file_bytes,
            group: None,
        };
        file.file.write_at(&header.encode(), 0)?;
        for live in appender.files.live_mut().filter(|live| live.last >= first) {
            live.last = first.prev();
        }
        let last = self.appended();
        appender.files.push(LiveFile {
            file: file.clone(),
            seq: header.seq,
            incarnation: header.incarnation,
            prev_crc: header.prev_crc,
            first,
            last,
            // The records that moved are about to be synced: what follows begins on a page of its own.
            end: end.next_multiple_of(record::SYNC_ALIGN),
            synced: first.prev(),
            group: None,
            marks: Marks::default(),
        });
        self.point_to(&mut appender, &file, &moved);
        Ok(file)
    }

    /// Points the index and the applier's list to where the records are now.
    fn point_to(
        &self,
        appender: &mut super::append::Appender,
        file: &Arc<JournalFile>,
        moved: &[(Header, u64)],
    ) {
        let mut index = self.index.write();
        for (header, offset) in moved {
            let Operation::Data(blocks) = header.operation else {
                continue;
            };
            let place = Place::Data { file: file.clone(), offset: offset + HEADER_BYTES };
            let current: Vec<_> =
                (index.overlapping(blocks)).filter(|(_, entry)| entry.lsn == header.lsn).collect();
            for (run, _) in current {
                let entry = Entry { lsn: header.lsn, place: place.clone() };
                index.insert(run, crate::runs::Run::skip(&entry, run.start - blocks.start));
            }
            if let Ok(at) = appender.unapplied.binary_search_by_key(&header.lsn, |record| record.lsn) {
                appender.unapplied[at].place = place;
            }
        }
    }

    /// Marks `lsn` durable at recovery.
    pub(super) fn set_durable(&self, lsn: Lsn) {
        self.durable.store(lsn.0, Ordering::Release);
    }
}
