//! Flush: one fdatasync for all waiters, and how the log recovers when one fails.
//!
//! After a failed fdatasync the kernel may have dropped the pages, and it will report success the next time. So the file is
//! condemned: records that were not durable are read back (their checksums tell whether they are still what was written)
//! and written to fresh files. If that fails again and again, the journal stops: a flush never lies.

use super::files::{self, LiveFile};
use super::record::{self, FileHeader, HEADER_BYTES, Header};
use super::scan::Cursor;
use super::{Appender, Body, Log, LogError, LogFile, Records};
use crate::planted::{self, Bug};
use crate::units::Lsn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often records that a failed sync may have lost are rewritten before the journal stops: about six seconds in all.
const REWRITES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The files that records moved to, and the last record in them.
type Moved = (Vec<Arc<LogFile>>, Lsn);

/// Records that move to one file.
struct Batch<B> {
    file: Arc<LogFile>,
    first: Lsn,
    /// While there is none: the LSN before the first.
    last: Lsn,
    /// Own CRC of the record before the first.
    prev_crc: u32,
    end: u64,
    moved: Vec<(Header<B>, u64)>,
}

impl<B: Body> Batch<B> {
    fn new(file: Arc<LogFile>, first: Lsn, prev_crc: u32) -> Self {
        Self { file, first, last: first.prev(), prev_crc, end: record::FILE_HEADER_BYTES, moved: Vec::new() }
    }
}

impl<R: Records> Log<R> {
    /// Ready when every record that was appended before the call is durable.
    pub async fn flush(self: &Arc<Self>) -> Result<Lsn, LogError> {
        let target = self.appended();
        loop {
            self.check()?;
            if self.durable() >= target {
                return Ok(self.durable());
            }
            // In a task of its own: the caller may be cancelled, but the result of an fdatasync must be seen. The kernel
            // reports a failure only once: the next sync would succeed and prove nothing.
            let log = self.clone();
            let synced = tokio::spawn(async move { log.sync_up_to(target).await });
            synced.await.map_err(|stopped| self.fail(stopped.to_string()))??;
        }
    }

    async fn sync_up_to(&self, target: Lsn) -> Result<(), LogError> {
        // Calls are served in order of arrival. A call has nothing left to do if a sync began after it and has ended by
        // now.
        let _turn = self.syncing.lock().await;
        self.check()?;
        if self.durable() < target { self.sync().await } else { Ok(()) }
    }

    /// The same as [`flush`](Self::flush) on the calling thread, which must not be one of the runtime's. `None` if that is
    /// not possible here, for example because a sync has failed and the file has to be rewritten.
    pub fn flush_here(&self) -> Option<Result<Lsn, LogError>> {
        let target = self.appended();
        let _turn = if self.durable() < target { Some(self.syncing.blocking_lock()) } else { None };
        if let Err(error) = self.check() {
            return Some(Err(error));
        }
        if self.durable() < target {
            let (upto, files) = self.unsynced();
            if self.condemned.load(Ordering::Acquire) || self.has_new_names.load(Ordering::Acquire) {
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

    async fn sync(&self) -> Result<(), LogError> {
        let (upto, files) = self.unsynced();
        if self.condemned.load(Ordering::Acquire) {
            self.rewrite().await?;
            self.condemned.store(false, Ordering::Release);
            return Ok(());
        }
        if self.has_new_names.swap(false, Ordering::AcqRel) {
            self.disk.sync_names().await.map_err(|error| self.fail(error.to_string()))?;
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

    /// The last record that a sync makes durable if it begins now, and the files that it has to sync.
    fn unsynced(&self) -> (Lsn, Vec<Arc<LogFile>>) {
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

    /// Writes every record that is not durable to fresh files, and syncs those. A disk may fail only for a moment, so this
    /// is retried a few times before the journal stops.
    async fn rewrite(&self) -> Result<(), LogError> {
        let mut pause = FIRST_PAUSE;
        for tried in 1.. {
            let error = match self.try_rewrite().await {
                Ok(()) => return Ok(()),
                // Records that can no longer be read back are lost: another try does not help.
                Err(error @ LogError::Damaged { .. }) => return Err(self.fail(error.to_string())),
                Err(error) => error,
            };
            if tried == REWRITES {
                return Err(self.fail(error.to_string()));
            }
            tracing::warn!(%error, "the journal could not be written anew: trying again");
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the last try returns")
    }

    async fn try_rewrite(&self) -> Result<(), LogError> {
        // The lock on syncs is held, so `durable` does not change. The lock on appends cannot be held while files are made,
        // but it is held while records move, so none is missed.
        let mut fresh = VecDeque::new();
        let moved = self.move_to_fresh(&mut fresh).await;
        for unused in fresh {
            match &moved {
                Ok(_) => self.appender.lock().files.add_spare(unused),
                // It may hold some of the records that were to move.
                Err(_) => drop(self.disk.remove(&unused.name)),
            }
        }
        let (files, upto) = moved?;
        for file in &files {
            file.file.clone().sync().await?;
        }
        // Records that were appended meanwhile may be in a file after these: they wait for the next sync.
        self.synced(upto);
        Ok(())
    }

    async fn move_to_fresh(&self, fresh: &mut VecDeque<Arc<LogFile>>) -> Result<Moved, LogError> {
        loop {
            if let Some(moved) = self.move_unsynced(fresh)? {
                return Ok(moved);
            }
            let spare = self.appender.lock().files.take_spare(usize::MAX, self.limits.file_bytes);
            fresh.push_back(match spare {
                Some(spare) => spare,
                None => {
                    let name = self.appender.lock().files.new_slot();
                    files::create(&*self.disk, &name, self.limits.file_bytes).await?
                }
            });
        }
    }

    /// Moves every record that is not durable to `fresh` files. Returns the files that it used and the last record in them;
    /// `None`, with nothing changed, if there are too few.
    fn move_unsynced(&self, fresh: &mut VecDeque<Arc<LogFile>>) -> Result<Option<Moved>, LogError> {
        let mut appender = self.appender.lock();
        let first = self.durable().next();
        let upto = self.appended();
        let mut cursor = Cursor::new(appender.files.live(), first)?;
        let mut batches: Vec<Batch<R::Body>> = Vec::new();
        let mut buffer = Vec::new();
        while let Some((header, found)) = cursor.next(self.uuid, upto)? {
            let data_len = header.data_len();
            buffer.resize(data_len as usize, 0);
            found.file.read(&mut buffer, found.offset + HEADER_BYTES)?;
            if crc32c::crc32c(&buffer) != header.data_crc {
                return Err(LogError::Damaged { lsn: header.lsn, durable: first.prev() });
            }
            let len = record::record_len(data_len);
            if batches.last().is_none_or(|batch| batch.end + len > self.limits.file_bytes) {
                let Some(file) = fresh.get(batches.len()) else { return Ok(None) };
                batches.push(Batch::new(file.clone(), header.lsn, header.prev_crc));
            }
            let batch = batches.last_mut().expect("there is one");
            // The record's bytes stay the same, and so do its LSN and the chain of checksums.
            batch.file.file.write_at(&header.encode(self.uuid).0, batch.end)?;
            batch.file.file.write_at(&buffer, batch.end + HEADER_BYTES)?;
            batch.last = header.lsn;
            batch.moved.push((header, batch.end));
            batch.end += len;
        }
        if batches.is_empty() {
            let Some(file) = fresh.front() else { return Ok(None) };
            batches.push(Batch::new(file.clone(), first, appender.prev_crc));
        }
        let headers: Vec<_> = batches.iter().map(|batch| self.header_of(&mut appender, batch)).collect();
        // The last header first: wherever this is interrupted, the files form a log without a gap.
        for (batch, header) in batches.iter().zip(&headers).rev() {
            batch.file.file.write_at(&header.encode(), 0)?;
        }
        drop(fresh.drain(..batches.len()));
        for live in appender.files.live_mut().filter(|live| live.last >= first) {
            live.last = first.prev();
        }
        appender.files.retire_empty();
        for (batch, header) in batches.iter().zip(&headers) {
            // The moved records are about to be synced, so the next record begins on a page of its own.
            let end = batch.end.next_multiple_of(record::SYNC_ALIGN);
            let moved = LiveFile::new(batch.file.clone(), header, (batch.last, end), first.prev());
            appender.files.push(moved);
            self.records.moved(&mut appender.pending, &batch.file, &batch.moved);
        }
        Ok(Some((batches.into_iter().map(|batch| batch.file).collect(), upto)))
    }

    fn header_of(&self, appender: &mut Appender<R::Pending>, batch: &Batch<R::Body>) -> FileHeader {
        FileHeader {
            log: self.uuid,
            seq: appender.files.next_seq(),
            incarnation: self.incarnation,
            prev_crc: batch.prev_crc,
            first: batch.first,
            durable: self.durable(),
            file_bytes: self.limits.file_bytes,
            group: None,
        }
    }

    /// Marks `lsn` durable at recovery.
    pub(super) fn set_durable(&self, lsn: Lsn) {
        self.durable.store(lsn.0, Ordering::Release);
    }
}
