//! The journal: the local, ordered, checksummed log of writes. What is not yet committed to the store lives here.
//!
//! * A write is answered when its record, and every record before it, is written; a flush when they are synced.
//!   The order is that of one lock, under which a record gets its LSN, its place, its bytes and its index entry.
//! * Until a record is applied to the cache its blocks are read from here, through the index.
//! * Only records that are durable may be applied or pushed: a power cut may take back any other.
//! * A file is reused once its records are committed in the store *and* durable in the cache file. Freed earlier,
//!   a cut would leave an old version in a block that counts as valid.

use crate::bitmap::Bitmap;
use crate::disk::{Disk, DiskFile};
use crate::planted::{self, Bug};
use crate::runs::{Run, RunMap};
use crate::units::{BLOCK_BYTES, BlockRange, Lsn};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

mod append;
mod aside;
mod burst;
mod compact;
mod copies;
mod files;
mod marks;
mod record;
mod recover;
mod scan;
mod sync;

pub use append::Writer;
pub use aside::{found, is_aside, set_aside};
pub use compact::Progress;
pub use files::{JournalFile, SpaceUse};
pub use record::Operation;
pub use recover::Recovered;

/// How much of the local disk the journal may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Files at most, full or spare; below two nothing could ever be freed.
    pub files: usize,
    /// Files beyond the limit that only closing the drive may use, so that an unmount never waits for the network.
    pub reserve_files: usize,
}

impl Limits {
    /// The limits for `bytes` of journal, in files of 64 MiB: long enough that a file's end is rare, short enough
    /// to be zero-filled in a moment.
    pub fn of_bytes(bytes: u64) -> Self {
        const FILE_BYTES: u64 = 64 << 20;
        /// What a device may have dirty in the page cache (BDI max_bytes).
        const RESERVE_BYTES: u64 = 256 << 20;
        let files = (bytes / FILE_BYTES).max(4) as usize;
        Self { file_bytes: FILE_BYTES, files, reserve_files: (RESERVE_BYTES / FILE_BYTES) as usize }
    }
}

/// Why the journal cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no room for a record now. Pushing frees some.
    #[error("the journal is full")]
    Full,
    /// The local disk failed. Nothing more is accepted; what was acknowledged as durable is not affected.
    #[error("the journal cannot be written: {0}")]
    Failed(String),
    /// Records that were durable are damaged.
    #[error(
        "the journal is damaged at record {lsn}, although everything up to {durable} had been made durable"
    )]
    Damaged {
        /// The first record that does not check.
        lsn: Lsn,
        /// What a later record claims to have been durable.
        durable: Lsn,
    },
    /// A file was truncated behind our back.
    #[error("the journal's file {name} was cut short")]
    CutShort {
        /// The file.
        name: String,
    },
    /// Its files are gone.
    #[error("the journal's files are not there")]
    Missing,
    /// The local disk has no room for a file that is needed.
    #[error("the local disk has no room for the journal: {0}")]
    NoRoom(String),
    /// The operating system's error.
    #[error("the journal cannot be read: {0}")]
    Io(String),
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                JournalError::NoRoom(error.to_string())
            }
            _ => JournalError::Io(error.to_string()),
        }
    }
}

/// The journal of one drive.
pub struct Journal {
    disk: Arc<dyn Disk>,
    uuid: Uuid,
    /// Copies of its files that were found, and set aside.
    copies: Vec<String>,
    incarnation: u32,
    limits: Limits,
    // A lock and not a message: a write's answer must not cost a task switch, and whoever holds it only copies
    // bytes into the page cache.
    appender: Mutex<append::Appender>,
    // Taken for writing for as long as a map insertion takes; readers look at `journaled` first.
    index: RwLock<RunMap<Entry>>,
    journaled: Bitmap,
    dirty: Dirty,
    appended: AtomicU64,
    durable: AtomicU64,
    syncing: tokio::sync::Mutex<()>,
    /// A sync failed on a thread that could not write the file anew: the next one has to.
    condemned: AtomicBool,
    /// Held by whoever carries records to the cache: two at once could write an older version over a newer one.
    pub(crate) applying: tokio::sync::Mutex<()>,
    failed: OnceLock<String>,
    /// Wakes writers that wait for room.
    room: Notify,
    /// Wakes whoever keeps spare files.
    spare_wanted: Notify,
}

/// The blocks that the store does not have yet. Neither set may be evicted.
struct Dirty {
    // Held for writing while one takes the other's place: what random writes have touched of a bitmap is given back
    // with each commit.
    /// Written since the last freeze.
    recent: RwLock<Bitmap>,
    /// Written up to the last freeze, and emptied when a commit reaches it.
    sealing: RwLock<Bitmap>,
}

impl Dirty {
    fn new(capacity: u64) -> Self {
        Self { recent: RwLock::new(Bitmap::new(capacity)), sealing: RwLock::new(Bitmap::new(capacity)) }
    }
}

/// Where the latest version of a run of blocks is.
#[derive(Clone)]
pub struct Entry {
    /// The record.
    pub lsn: Lsn,
    /// Its data.
    pub place: Place,
}

/// Data of a record.
#[derive(Clone)]
pub enum Place {
    /// Bytes of a journal file.
    Data {
        /// The file. While anyone holds it, it is not recycled.
        file: Arc<JournalFile>,
        /// Where the run begins.
        offset: u64,
    },
    /// Zeros.
    Zero,
}

impl Run for Entry {
    fn skip(&self, blocks: u64) -> Self {
        Entry { lsn: self.lsn, place: self.place.skip(blocks) }
    }
}

impl Run for Place {
    fn skip(&self, blocks: u64) -> Self {
        match self {
            Place::Zero => Place::Zero,
            Place::Data { file, offset } => {
                Place::Data { file: file.clone(), offset: offset + blocks * BLOCK_BYTES }
            }
        }
    }
}

/// A record, and where its data is.
#[derive(Clone)]
pub struct Record {
    /// Its place in the order.
    pub lsn: Lsn,
    /// What was durable when it was written.
    pub durable: Lsn,
    /// What it does.
    pub operation: Operation,
    /// Its data.
    pub place: Place,
    /// Its own CRC, which stands for all records up to it.
    pub crc: u32,
}

impl Journal {
    /// Its identity, which a root's lineage names.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The last record that was written.
    pub fn appended(&self) -> Lsn {
        Lsn(self.appended.load(Ordering::Acquire))
    }

    /// The last record that is known to be durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The first record that is still here.
    pub fn first(&self) -> Lsn {
        self.appender.lock().files.first()
    }

    /// Whether any block of `range` has to be read from here.
    pub fn holds_any(&self, range: BlockRange) -> bool {
        self.journaled.any(range)
    }

    /// The parts of `range` that have to be read from here, and where they are.
    pub fn look_up(&self, range: BlockRange) -> Vec<(BlockRange, Option<Entry>)> {
        self.index.read().pieces(range)
    }

    /// Whether a block of `range` is not yet in the store.
    pub fn is_dirty(&self, range: BlockRange) -> bool {
        // In this order: what is frozen in between is seen in the other.
        self.dirty.recent.read().any(range) || self.dirty.sealing.read().any(range)
    }

    /// `range` in runs, with whether each is not yet in the store.
    pub fn dirty_runs(&self, range: BlockRange) -> Vec<(BlockRange, bool)> {
        // Both at once: what is frozen in between is seen in one of them.
        let (recent, sealing) = (self.dirty.recent.read(), self.dirty.sealing.read());
        let mut runs: Vec<(BlockRange, bool)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let rest = BlockRange { start: at, end: range.end };
            let ((one, first), (other, second)) = (recent.run(rest), sealing.run(rest));
            let (run, is_dirty) = (BlockRange { start: at, end: first.end.min(second.end) }, one || other);
            match runs.last_mut() {
                Some((last, same)) if *same == is_dirty => last.end = run.end,
                _ => runs.push((run, is_dirty)),
            }
            at = run.end;
        }
        runs
    }

    /// Whether a block of `range` is part of what is being pushed.
    pub fn is_sealing(&self, range: BlockRange) -> bool {
        self.dirty.sealing.read().any(range)
    }

    /// Blocks that are not yet in the store.
    pub fn dirty_blocks(&self) -> u64 {
        let (recent, sealing) = (self.dirty.recent.read(), self.dirty.sealing.read());
        let all = BlockRange { start: 0, end: sealing.capacity() };
        let only_sealing: u64 = sealing.runs(all).map(|run| run.count() - recent.count(run)).sum();
        recent.count_all() + only_sealing
    }

    /// Counts blocks as not yet in the store, when a journal is replayed.
    pub fn mark_dirty(&self, blocks: BlockRange) {
        self.dirty.recent.read().set(blocks);
    }

    /// Freezes what is dirty: from now on new writes count apart, and a commit that reaches the returned LSN
    /// empties what was frozen. Only when nothing is frozen.
    pub fn freeze(&self) -> Lsn {
        let fresh = Bitmap::new(self.journaled.capacity());
        let _order = self.appender.lock();
        // Both locks at once: whoever looks must not find a block in neither.
        let (mut recent, mut sealing) = (self.dirty.recent.write(), self.dirty.sealing.write());
        debug_assert_eq!(sealing.count_all(), 0, "nothing is frozen");
        *sealing = std::mem::replace(&mut *recent, fresh);
        self.appended()
    }

    /// What was frozen is in the store.
    pub fn thaw(&self) {
        *self.dirty.sealing.write() = Bitmap::new(self.journaled.capacity());
        if planted::has(Bug::CommitClearsEverythingDirty) {
            self.dirty.recent.read().clear_all();
        }
    }

    /// The records that are not applied yet, up to `upto`, in order: the first, and as many as take `most_bytes` with it. A compacted group
    /// that any of them belongs to is given as a whole: its records have one LSN, by which they are told to be applied.
    pub fn unapplied(&self, upto: Lsn, most_bytes: u64) -> Vec<Record> {
        let appender = self.appender.lock();
        let (mut records, mut bytes): (Vec<Record>, u64) = (Vec::new(), 0);
        for record in appender.unapplied.iter().take_while(|record| record.lsn <= upto) {
            bytes += append::bytes_of(record);
            if bytes > most_bytes && records.last().is_some_and(|last| last.lsn != record.lsn) {
                break;
            }
            records.push(record.clone());
        }
        records
    }

    /// Bytes of records that are not applied yet.
    pub fn unapplied_bytes(&self) -> u64 {
        self.appender.lock().unapplied_bytes
    }

    /// How long much is written at least, without a pause; none where that is not so. What can wait does then, while the
    /// journal has room.
    pub fn burst(&self) -> Option<Duration> {
        self.appender.lock().burst.left(Instant::now())
    }

    /// Records up to `upto` are in the cache file: their blocks are read from there.
    pub fn applied(&self, upto: Lsn) {
        let mut appender = self.appender.lock();
        let mut index = self.index.write();
        while let Some(record) = appender.unapplied.pop_front_if(|record| record.lsn <= upto) {
            appender.unapplied_bytes -= append::bytes_of(&record);
            let (Operation::Data(blocks) | Operation::Zero(blocks)) = record.operation else {
                continue;
            };
            let superseded: Vec<_> =
                index.overlapping(blocks).filter(|(_, entry)| entry.lsn <= upto).collect();
            for (run, _) in superseded {
                index.remove(run);
                self.journaled.clear(run);
            }
        }
    }

    /// Everything that is still in the journal counts as not applied again: its blocks are read from here until it
    /// has been. For a cache file that turned out to have lost what it was given.
    pub async fn unapply(&self) -> Result<(), JournalError> {
        let (first, last) = {
            let appender = self.appender.lock();
            (
                appender.files.first(),
                appender.unapplied.front().map_or(self.appended(), |record| record.lsn.prev()),
            )
        };
        let records = self.records(first, last, u64::MAX).await?;
        let mut appender = self.appender.lock();
        let mut index = self.index.write();
        for record in records.into_iter().rev() {
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                // Newest first: what is in the index already is newer than this record.
                for (run, entry) in index.pieces(blocks) {
                    if entry.is_none() {
                        let place = record.place.skip(run.start - blocks.start);
                        index.insert(run, Entry { lsn: record.lsn, place });
                        self.journaled.set(run);
                    }
                }
            }
            appender.unapplied_bytes += append::bytes_of(&record);
            appender.unapplied.push_front(record);
        }
        Ok(())
    }

    /// Has records read from here, though they were written in a former life, until they are applied. In order, and
    /// behind all that are here already.
    pub fn hold_back(&self, records: Vec<Record>) {
        let mut appender = self.appender.lock();
        let mut index = self.index.write();
        for record in records {
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                index.insert(blocks, Entry { lsn: record.lsn, place: record.place.clone() });
                self.journaled.set(blocks);
            }
            appender.unapplied_bytes += append::bytes_of(&record);
            appender.unapplied.push_back(record);
        }
    }

    /// Keeps the local disk's failure: no write or flush succeeds from here on.
    fn fail(&self, reason: String) -> JournalError {
        let reason = self.failed.get_or_init(|| reason);
        self.room.notify_waiters();
        JournalError::Failed(reason.clone())
    }

    fn check(&self) -> Result<(), JournalError> {
        match self.failed.get() {
            Some(reason) => Err(JournalError::Failed(reason.clone())),
            None => Ok(()),
        }
    }
}

impl JournalFile {
    /// The bytes at `offset`.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    /// The local file.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }
}
