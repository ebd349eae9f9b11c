//! The journal: the local, ordered, checksummed log of writes. Data that is not yet committed to the store lives here.
//!
//! * A write is answered when its record and every record before it are written; a flush is answered when they are synced.
//!   One lock sets the order: under it a record gets its LSN, place, bytes and index entry.
//! * Until a record is applied to the cache, its blocks are read from here, through the index.
//! * Only durable records may be applied or pushed: a power cut may take back any other.
//! * A file is reused once its records are committed in the store *and* durable in the cache file. If it were reused
//!   earlier, a power cut could leave an old version in a block that counts as valid.

use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::log::{Body, Encoded, Header, Log, Records};
use crate::planted::{self, Bug};
use crate::runs::{Run, RunMap};
use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX, Lsn};
use burst::Burst;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracker::{Taken, Tracker, Written};
use uuid::Uuid;

mod burst;
mod compact;
pub mod import;
pub mod tracker;
mod write;

pub use crate::log::{
    Limits, LogError as JournalError, LogFile as JournalFile, Place, Recovered, SpaceUse, Writer, found,
    is_aside, set_aside,
};
pub use compact::Progress;

/// The journal of one drive.
pub type Journal = Log<Blocks>;

/// A record of it.
pub type Record = crate::log::Record<Operation>;

/// Most blocks of data in one record: 1 MiB keeps a torn record cheap and the scratch buffer small.
pub const RECORD_BLOCKS_MAX: u64 = 256;

/// The effect of a record on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The blocks hold the data that follows.
    Data(BlockRange),
    /// The blocks read as zeros.
    Zero(BlockRange),
    /// The drive has this many blocks.
    Resize(u64),
}

impl Body for Operation {
    fn encode(&self) -> Encoded {
        match *self {
            Operation::Data(blocks) => Encoded { kind: 1, first: blocks.start, second: blocks.count() },
            // A run of zeros may be as long as a drive: the length has 40 bits.
            Operation::Zero(blocks) => Encoded { kind: 2, first: blocks.start, second: blocks.count() },
            Operation::Resize(size) => Encoded { kind: 3, first: size, second: 0 },
        }
    }

    fn decode(encoded: Encoded) -> Option<Self> {
        let Encoded { kind, first, second: blocks } = encoded;
        let range = BlockRange { start: first, end: first.checked_add(blocks)? };
        if range.end > DRIVE_BYTES_MAX / BLOCK_BYTES {
            return None;
        }
        match kind {
            1 if blocks <= RECORD_BLOCKS_MAX && blocks > 0 => Some(Operation::Data(range)),
            2 => Some(Operation::Zero(range)),
            3 => Some(Operation::Resize(first)),
            _ => None,
        }
    }

    fn data_len(&self) -> u64 {
        match self {
            Operation::Data(blocks) => blocks.byte_len(),
            Operation::Zero(_) | Operation::Resize(_) => 0,
        }
    }
}

/// The journal's state in memory: where the latest version of each block is, and which blocks the store lacks.
pub struct Blocks {
    // Write-locked only while a map is updated. Readers look at `journaled` first.
    index: RwLock<RunMap<Entry>>,
    journaled: Bitmap,
    dirty: Dirty,
    /// The blocks that another device lacks, while the drive is handed over to it. Locked for each record, and otherwise only to take a set.
    tracker: Mutex<Option<Tracker>>,
    /// Held while records are written to the cache: two appliers at once could write an older version over a newer one.
    pub(crate) applying: tokio::sync::Mutex<()>,
}

/// State that changes with every record.
pub struct Pending {
    /// Records that are not applied to the cache yet, in order.
    unapplied: VecDeque<Record>,
    unapplied_bytes: u64,
    burst: Burst,
}

/// The blocks that the store does not have yet. Neither set may be evicted.
struct Dirty {
    // Write-locked while one replaces the other. They are replaced and not cleared, so that each commit frees the memory
    // that random writes have touched.
    /// Written since the last freeze.
    recent: RwLock<Bitmap>,
    /// Written up to the last freeze; emptied when a commit reaches it.
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

impl Records for Blocks {
    type Body = Operation;
    type Pending = Pending;

    /// Makes a record visible to readers, to the applier and to the dirty set.
    fn appended(&self, pending: &mut Pending, record: Record) {
        pending.burst.note(record.operation.data_len(), Instant::now());
        if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
            let mut index = self.index.write();
            index.insert(blocks, Entry { lsn: record.lsn, place: record.place.clone() });
            self.journaled.set(blocks);
            self.dirty.recent.read().set(blocks);
            if let Some(tracker) = &mut *self.tracker.lock() {
                let is_zero = matches!(record.operation, Operation::Zero(_));
                tracker.wrote(blocks, if is_zero { Written::Zero } else { Written::Data });
            }
        }
        pending.unapplied_bytes += bytes_of(&record);
        pending.unapplied.push_back(record);
    }

    /// Points the index and the applier's list to the new places of the records.
    fn moved(&self, pending: &mut Pending, file: &Arc<JournalFile>, records: &[(Header<Operation>, u64)]) {
        let mut index = self.index.write();
        for (header, offset) in records {
            let Operation::Data(blocks) = header.operation else {
                continue;
            };
            let place = Place::Data { file: file.clone(), offset: offset + Header::<Operation>::BYTES };
            let current: Vec<_> =
                (index.overlapping(blocks)).filter(|(_, entry)| entry.lsn == header.lsn).collect();
            for (run, _) in current {
                let entry = Entry { lsn: header.lsn, place: place.clone() };
                index.insert(run, entry.skip(run.start - blocks.start));
            }
            if let Ok(at) = pending.unapplied.binary_search_by_key(&header.lsn, |record| record.lsn) {
                pending.unapplied[at].place = place;
            }
        }
    }
}

/// Bytes that a record counts for until it is applied.
fn bytes_of(record: &Record) -> u64 {
    match record.operation {
        Operation::Data(blocks) => crate::log::record_len(blocks.byte_len()),
        Operation::Zero(_) | Operation::Resize(_) => crate::log::HEADER_BYTES,
    }
}

impl Journal {
    /// Makes an empty journal for a drive of at most `capacity` blocks. Removes files of another one, except those that
    /// were set aside.
    pub async fn create(
        disk: Arc<dyn Disk>,
        limits: Limits,
        capacity: u64,
    ) -> Result<Arc<Self>, JournalError> {
        Self::create_with(disk, limits, Blocks::new(capacity), Pending::new()).await
    }

    /// Opens the journal `uuid` for a drive of at most `capacity` blocks. The records are not in the index yet: the ones
    /// that the store's history lacks have to be replayed.
    pub async fn open(
        disk: Arc<dyn Disk>,
        limits: Limits,
        capacity: u64,
        uuid: Uuid,
    ) -> Result<(Arc<Self>, Recovered), JournalError> {
        Self::open_with(disk, limits, uuid, Blocks::new(capacity), Pending::new()).await
    }

    /// Whether any block of `range` has to be read from here.
    pub fn holds_any(&self, range: BlockRange) -> bool {
        self.records.journaled.any(range)
    }

    /// `range` in parts: those that have to be read from here come with their place.
    pub fn look_up(&self, range: BlockRange) -> Vec<(BlockRange, Option<Entry>)> {
        self.records.index.read().pieces(range)
    }

    /// Whether a block of `range` is not yet in the store.
    pub fn is_dirty(&self, range: BlockRange) -> bool {
        // In this order: a block that is frozen in between is found in the second set.
        self.records.dirty.recent.read().any(range) || self.records.dirty.sealing.read().any(range)
    }

    /// `range` in runs, each with whether it is not yet in the store.
    pub fn dirty_runs(&self, range: BlockRange) -> Vec<(BlockRange, bool)> {
        // Both locks at once: a block that is frozen in between would be in neither.
        let (recent, sealing) = (self.records.dirty.recent.read(), self.records.dirty.sealing.read());
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

    /// Whether a block of `range` is being pushed.
    pub fn is_sealing(&self, range: BlockRange) -> bool {
        self.records.dirty.sealing.read().any(range)
    }

    /// Blocks that are not yet in the store.
    pub fn dirty_blocks(&self) -> u64 {
        let (recent, sealing) = (self.records.dirty.recent.read(), self.records.dirty.sealing.read());
        let all = BlockRange { start: 0, end: sealing.capacity() };
        let only_sealing: u64 = sealing.runs(all).map(|run| run.count() - recent.count(run)).sum();
        recent.count_all() + only_sealing
    }

    /// Marks blocks as not yet in the store, when a journal is replayed.
    pub fn mark_dirty(&self, blocks: BlockRange) {
        self.records.dirty.recent.read().set(blocks);
    }

    /// Freezes the dirty set: new writes are counted apart from now on, and a commit that reaches the returned LSN empties
    /// the frozen set. Call this only while nothing is frozen.
    pub fn freeze(&self) -> Lsn {
        let fresh = Bitmap::new(self.records.journaled.capacity());
        let _order = self.appender();
        // Both locks at once: a reader must not find a block in neither set.
        let (mut recent, mut sealing) =
            (self.records.dirty.recent.write(), self.records.dirty.sealing.write());
        debug_assert_eq!(sealing.count_all(), 0, "nothing is frozen");
        *sealing = std::mem::replace(&mut *recent, fresh);
        self.appended()
    }

    /// The frozen set is in the store.
    pub fn thaw(&self) {
        *self.records.dirty.sealing.write() = Bitmap::new(self.records.journaled.capacity());
        if planted::has(Bug::CommitClearsEverythingDirty) {
            self.records.dirty.recent.read().clear_all();
        }
    }

    /// Tracks the blocks that another device lacks: those that the store lacks, and all that are written from now on.
    pub fn track(&self) {
        // No record comes in between: it would be in neither set.
        let _order = self.appender();
        let all = BlockRange { start: 0, end: self.records.journaled.capacity() };
        let dirty = self.dirty_runs(all).into_iter().filter(|(_, is_dirty)| *is_dirty).map(|(run, _)| run);
        *self.records.tracker.lock() = Some(Tracker::new(dirty));
    }

    /// Ends tracking.
    pub fn stop_tracking(&self) {
        *self.records.tracker.lock() = None;
    }

    /// Works with the tracked blocks; `None` if nothing is tracked.
    pub fn tracked<T>(&self, work: impl FnOnce(&mut Tracker) -> T) -> Option<T> {
        self.records.tracker.lock().as_mut().map(work)
    }

    /// Takes tracked blocks, as [`Tracker::take`] does.
    pub fn take_tracked(&self, most_blocks: u64, most_runs: usize) -> Option<Taken> {
        self.tracked(|tracker| tracker.take(most_blocks, most_runs)).flatten()
    }

    /// The records that are not applied yet, up to `upto`, in order: the first one, and as many more as fit into
    /// `most_bytes` with it. A compacted group that any of them belongs to is returned whole: its records share one LSN,
    /// and [`applied`](Self::applied) goes by LSN.
    pub fn unapplied(&self, upto: Lsn, most_bytes: u64) -> Vec<Record> {
        let appender = self.appender();
        let (mut records, mut bytes): (Vec<Record>, u64) = (Vec::new(), 0);
        for record in appender.pending.unapplied.iter().take_while(|record| record.lsn <= upto) {
            bytes += bytes_of(record);
            if bytes > most_bytes && records.last().is_some_and(|last| last.lsn != record.lsn) {
                break;
            }
            records.push(record.clone());
        }
        records
    }

    /// Bytes of records that are not applied yet.
    pub fn unapplied_bytes(&self) -> u64 {
        self.appender().pending.unapplied_bytes
    }

    /// How much longer the current burst of writes lasts at least; `None` outside of one. Work that can wait does so
    /// meanwhile, as long as the journal has space.
    pub fn burst(&self) -> Option<Duration> {
        self.appender().pending.burst.left(Instant::now())
    }

    /// Records up to `upto` are in the cache file: their blocks are read from there now.
    pub fn applied(&self, upto: Lsn) {
        let mut appender = self.appender();
        let mut index = self.records.index.write();
        while let Some(record) = appender.pending.unapplied.pop_front_if(|record| record.lsn <= upto) {
            appender.pending.unapplied_bytes -= bytes_of(&record);
            let (Operation::Data(blocks) | Operation::Zero(blocks)) = record.operation else {
                continue;
            };
            let superseded: Vec<_> =
                index.overlapping(blocks).filter(|(_, entry)| entry.lsn <= upto).collect();
            for (run, _) in superseded {
                index.remove(run);
                self.records.journaled.clear(run);
            }
        }
    }

    /// Marks everything that is still in the journal as not applied: its blocks are read from here until it is applied
    /// again. For a cache file that has lost data that was written to it.
    pub async fn unapply(&self) -> Result<(), JournalError> {
        let (first, last) = {
            let appender = self.appender();
            (
                appender.first(),
                appender.pending.unapplied.front().map_or(self.appended(), |record| record.lsn.prev()),
            )
        };
        let records = self.records(first, last, u64::MAX).await?;
        let mut appender = self.appender();
        let mut index = self.records.index.write();
        for record in records.into_iter().rev() {
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                // Newest first: an entry that is already in the index is newer than this record.
                for (run, entry) in index.pieces(blocks) {
                    if entry.is_none() {
                        let place = record.place.skip(run.start - blocks.start);
                        index.insert(run, Entry { lsn: record.lsn, place });
                        self.records.journaled.set(run);
                    }
                }
            }
            appender.pending.unapplied_bytes += bytes_of(&record);
            appender.pending.unapplied.push_front(record);
        }
        Ok(())
    }

    /// Makes the blocks of records that an earlier process wrote readable from here, until they are applied. Call it in
    /// order, after all records that are here already.
    pub fn hold_back(&self, records: Vec<Record>) {
        let mut appender = self.appender();
        let mut index = self.records.index.write();
        for record in records {
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                index.insert(blocks, Entry { lsn: record.lsn, place: record.place.clone() });
                self.records.journaled.set(blocks);
            }
            appender.pending.unapplied_bytes += bytes_of(&record);
            appender.pending.unapplied.push_back(record);
        }
    }
}

impl Blocks {
    fn new(capacity: u64) -> Self {
        Self {
            index: RwLock::new(RunMap::new()),
            journaled: Bitmap::new(capacity),
            dirty: Dirty::new(capacity),
            tracker: Mutex::new(None),
            applying: tokio::sync::Mutex::new(()),
        }
    }
}

impl Pending {
    fn new() -> Self {
        Self { unapplied: VecDeque::new(), unapplied_bytes: 0, burst: Burst::new(Instant::now()) }
    }
}
