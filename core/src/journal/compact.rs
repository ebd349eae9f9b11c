//! Compaction: files whose records were mostly overwritten by later ones become one file, a group, so that rewriting
//! the same blocks while the store is away does not fill the disk.
//!
//! Only records that are durable here, and durable in the cache, are compacted: nobody looks them up any more but who
//! pushes. The group is written and synced before it gets a header, and gets that before any file that it replaces is
//! erased; a crash at any point leaves the one or the other, or both, which are the same.

use super::files::{self, LiveFile};
use super::marks::Marks;
use super::record::{self, FILE_HEADER_BYTES, FileHeader, Group, HEADER_BYTES, Header, RECORD_BLOCKS_MAX};
use super::{Journal, JournalError, JournalFile, Operation, Place, Record};
use crate::planted::{self, Bug};
use crate::runs::{Run, RunMap};
use crate::units::{BlockRange, Lsn};
use std::sync::Arc;

/// Files that may become a group, and what they come to.
#[derive(Default)]
struct Window {
    files: Vec<Candidate>,
    latest: RunMap<Place>,
    resized: Option<u64>,
    last_crc: u32,
}

/// How far compaction has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// What lies before is as small as it gets.
    from: Lsn,
    /// Up to here there is nothing new.
    considered: Lsn,
}

#[derive(Clone, Copy)]
struct Candidate {
    first: Lsn,
    last: Lsn,
    prev_crc: u32,
}

impl Journal {
    /// Compacts where at least two files become one, if there are new ones since the last time. Files with records
    /// behind `upto`, the last that is durable in the cache, are left alone.
    pub async fn compact(self: &Arc<Self>, progress: &mut Progress, upto: Lsn) -> Result<(), JournalError> {
        let candidates = self.candidates(progress.from, upto);
        let Some(last) = candidates.last().filter(|last| last.last > progress.considered) else {
            return Ok(());
        };
        let considered = last.last;
        let mut window = Window::default();
        for candidate in candidates {
            let records = self.records(candidate.first, candidate.last, u64::MAX).await?;
            let mut wider = window.with(candidate, &records);
            if !wider.files.is_empty() && wider.bytes() > self.limits.file_bytes {
                self.replace(&window).await?;
                wider = Window::default().with(candidate, &records);
            }
            window = wider;
        }
        self.replace(&window).await?;
        let from = window.files.first().map_or(progress.from, |candidate| candidate.first);
        *progress = Progress { from, considered };
        Ok(())
    }

    fn candidates(&self, from: Lsn, upto: Lsn) -> Vec<Candidate> {
        let appender = self.appender.lock();
        let done = |live: &&LiveFile| {
            live.last >= live.first && live.synced == live.last && live.last >= from && live.last <= upto
        };
        let candidate =
            |live: &LiveFile| Candidate { first: live.first, last: live.last, prev_crc: live.prev_crc };
        let current = appender.files.live().count() - 1;
        appender.files.live().take(current).filter(done).map(candidate).collect()
    }

    /// Writes the window as a group and puts it in the place of its files, if that saves any.
    async fn replace(self: &Arc<Self>, window: &Window) -> Result<(), JournalError> {
        let (Some(first), Some(last)) = (window.files.first(), window.files.last()) else { return Ok(()) };
        if window.files.len() < 2 {
            return Ok(());
        }
        let name = self.appender.lock().files.new_slot();
        let written = self.write(&name, window, *first, *last).await;
        if written.is_err() {
            // Without it all is as it was.
            let _ = self.disk.remove(&name);
        }
        let replaced = self.appender.lock().files.replace(written?);
        if let Err(unused) = replaced {
            // They were pushed and freed in the meantime.
            files::erase(&unused.file.file).await?;
            self.appender.lock().files.add_spare(unused.file);
        }
        self.keep_spare().await
    }

    async fn write(
        &self,
        name: &str,
        window: &Window,
        first: Candidate,
        last: Candidate,
    ) -> Result<LiveFile, JournalError> {
        let file = files::create(&*self.disk, name, self.limits.file_bytes).await?;
        let (group, end) = self.write_records(&file, window, first.prev_crc, last.last).await?;
        let skips_syncs = planted::has(Bug::GroupBeforeItIsDurable);
        if !skips_syncs {
            file.file.clone().sync().await?;
        }
        let durable = self.durable();
        let header = FileHeader {
            journal: self.uuid,
            seq: self.appender.lock().files.next_seq(),
            incarnation: self.incarnation,
            prev_crc: first.prev_crc,
            first: first.first,
            durable,
            file_bytes: self.limits.file_bytes,
            group: Some(group),
        };
        let headed = file.file.write_at(&header.encode(), 0);
        let synced = if skips_syncs { Ok(()) } else { file.file.clone().sync().await };
        if let Err(error) = headed.and(synced) {
            // A header that comes to light when the files around it are gone would be taken for damage.
            files::erase(&file.file).await.map_err(|error| self.fail(error.to_string()))?;
            return Err(error.into());
        }
        let FileHeader { seq, incarnation, prev_crc, first, .. } = header;
        let (last, group) = (group.last, Some(group));
        Ok(LiveFile {
            file,
            seq,
            incarnation,
            prev_crc,
            first,
            last,
            end,
            synced: last,
            group,
            marks: Marks::default(),
        })
    }

    async fn write_records(
        &self,
        file: &JournalFile,
        window: &Window,
        mut prev_crc: u32,
        last: Lsn,
    ) -> Result<(Group, u64), JournalError> {
        let durable = self.durable();
        let (mut end, mut count) = (FILE_HEADER_BYTES, 0);
        let mut data = Vec::new();
        for (operation, place) in window.operations() {
            data.clear();
            if let (Operation::Data(blocks), Place::Data { file, offset }) = (operation, &place) {
                data.resize(blocks.byte_len() as usize, 0);
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
        Ok((Group { last, last_crc: window.last_crc, records: count }, end))
    }
}

impl Window {
    fn with(&self, candidate: Candidate, records: &[Record]) -> Self {
        let mut wider = Self {
            files: self.files.iter().copied().chain([candidate]).collect(),
            latest: self.latest.clone(),
            resized: self.resized,
            last_crc: records.last().map_or(self.last_crc, |record| record.crc),
        };
        for record in records {
            match record.operation {
                Operation::Data(blocks) | Operation::Zero(blocks) => {
                    wider.latest.insert(blocks, record.place.clone());
                }
                Operation::Resize(size) => wider.resized = Some(size),
            }
        }
        wider
    }

    /// The records of the group.
    fn operations(&self) -> impl Iterator<Item = (Operation, Place)> {
        let resize = self.resized.map(|size| (Operation::Resize(size), Place::Zero));
        let blocks = self.latest.iter().flat_map(|(run, place)| pieces(run, place.clone()));
        resize.into_iter().chain(blocks)
    }

    /// Bytes of the file that they make.
    fn bytes(&self) -> u64 {
        let len = |(operation, _)| match operation {
            Operation::Data(blocks) => record::record_len(blocks.byte_len()),
            Operation::Zero(_) | Operation::Resize(_) => HEADER_BYTES,
        };
        FILE_HEADER_BYTES + self.operations().map(len).sum::<u64>()
    }
}

/// A run as records, which hold so many blocks of data at most.
fn pieces(run: BlockRange, place: Place) -> Vec<(Operation, Place)> {
    if let Place::Zero = place {
        return vec![(Operation::Zero(run), place)];
    }
    let starts = (run.start..run.end).step_by(RECORD_BLOCKS_MAX as usize);
    let piece = |start: u64| {
        let blocks = BlockRange { start, end: run.end.min(start + RECORD_BLOCKS_MAX) };
        (Operation::Data(blocks), place.skip(start - run.start))
    };
    starts.map(piece).collect()
}
