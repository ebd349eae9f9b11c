//! Metadata first: everything that a program reads before it gets to a file's data is pulled when the drive opens, in few large requests,
//! and stays. So listings need no store, and offline only data of files can be missing.

use super::Volume;
use super::kept;
use crate::admission::CacheFull;
use crate::bitmap::Bitmap;
use crate::cache::Cache;
use crate::disk::Disk;
use crate::ext4::{InodeNumber, Kind, Limits, Walk};
use crate::pull::prefetch::{self, LocalBlocks};
use crate::pull::{Class, FileNumber, FilePlace, Files, PullError};
use crate::units::{BLOCK_BYTES, BlockRange, portions};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How long to wait for more writes before looking at what they changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// If nothing was written or found, how often to check at most whether all metadata is still here.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Time from the moment that all metadata is local until the file system's journal is pulled too, after everything that readers wait for.
const JOURNAL_AFTER: Duration = Duration::from_secs(10);
/// The most that is learnt from at once: one part in this many of the cache's limit. More might evict its own beginning before that is
/// read.
const LEARNT_SHARE: u64 = 8;
/// How often the notes for the next opening are saved, in case of a crash.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Pause after metadata could not be pulled.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// A file that a reader waits for is examined again after this time: what its format asks for may have failed, or may have been evicted.
const FORESEE_AGAIN: Duration = Duration::from_secs(60);
/// The most that metadata may keep: one part in this many of the cache's limit.
const KEPT_SHARE: u64 = 2;
/// The most that the trace of the last opening may fill: one part in this many of the cache's limit.
const TRACE_SHARE: u64 = 4;
/// Misses that wait in the queue. A scan makes more, and nothing can be foreseen of it.
const MISSES_MAX: usize = 64;
/// Recently examined files that are remembered.
const FILES_REMEMBERED: usize = 256;

/// Follows a drive's file system while the drive is open.
pub(super) struct MetadataTracker {
    /// Blocks for which a reader had to wait.
    misses: mpsc::Sender<BlockRange>,
    /// Whether all metadata is local that is known and for which the cache has space. True if there is none.
    is_complete: watch::Receiver<bool>,
    /// Whether everything that a mount reads was local when metadata was first complete.
    is_mountable: watch::Receiver<Option<bool>>,
    needs: Arc<Needs>,
    // Held to look something up, and to learn from local blocks; never across a pull.
    walk: Arc<RwLock<Walk>>,
    /// The place of the notes on metadata for the next opening.
    disk: Option<Arc<dyn Disk>>,
    // Held to take it out.
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The cache space that metadata needs, as of the last look.
#[derive(Default)]
struct Needs {
    /// Blocks of it that programs read.
    all: AtomicU64,
    /// Those for which the cache is too small.
    without_room: AtomicU64,
    /// Whether there are more directories than are tracked.
    is_more: AtomicBool,
}

/// A survey before it begins: it needs the volume, and the volume has its survey.
pub(super) struct Beginning(Option<(Running, mpsc::Receiver<BlockRange>)>);

impl MetadataTracker {
    /// Prepares a survey, with a cache of `limit_bytes` at most. `disk` has the notes of the last opening.
    pub fn new(size_blocks: u64, cache: &Cache, disk: Arc<dyn Disk>, limit_bytes: u64) -> (Self, Beginning) {
        let (misses, missed) = mpsc::channel(MISSES_MAX);
        let (complete, is_complete) = watch::channel(false);
        let (mountable, is_mountable) = watch::channel(None);
        let walk = Arc::new(RwLock::new(Walk::new(size_blocks, Limits::default())));
        kept::again(&*disk, cache, kept_most(limit_bytes));
        let running = Running {
            volume: Weak::new(),
            walk: walk.clone(),
            size_blocks,
            kept_blocks: 0,
            has_changed: false,
            is_written: false,
            complete,
            mountable,
            completed_at: None,
            noted_at: None,
            looked_at: None,
            has_news: true,
            foreseeing: JoinSet::new(),
            seen: VecDeque::new(),
            needs: Arc::default(),
            is_refused: false,
            asks_at: None,
        };
        let needs = running.needs.clone();
        let survey =
            Self { misses, is_complete, is_mountable, needs, walk, disk: Some(disk), task: Mutex::new(None) };
        (survey, Beginning(Some((running, missed))))
    }

    /// A survey that does nothing and knows no metadata.
    pub fn none(size_blocks: u64) -> (Self, Beginning) {
        let walk = Arc::new(RwLock::new(Walk::new(size_blocks, Limits::default())));
        let (misses, is_complete, is_mountable) =
            (mpsc::channel(MISSES_MAX).0, watch::channel(true).1, watch::channel(Some(false)).1);
        let needs = Arc::default();
        let survey =
            Self { misses, is_complete, is_mountable, needs, walk, disk: None, task: Mutex::new(None) };
        (survey, Beginning(None))
    }

    /// Begins, now that the volume is there.
    pub fn begin(&self, beginning: Beginning, volume: &Arc<Volume>) {
        if let Some((running, missed)) = beginning.0 {
            let running = Running { volume: Arc::downgrade(volume), ..running };
            *self.task.lock() = Some(tokio::spawn(running.run(missed)));
        }
    }

    /// Whether a mount would find everything that it reads without the store. Waits until all metadata is local.
    pub async fn is_mountable_away(&self) -> bool {
        let mut is_mountable = self.is_mountable.clone();
        let known = is_mountable.wait_for(Option::is_some).await.map(|known| *known);
        known.ok().flatten().unwrap_or(false)
    }

    /// Whether all of the blocks are known to be data of files.
    pub fn is_file_data(&self, blocks: BlockRange) -> bool {
        let (walk, is_complete) = (self.walk.read(), self.is_complete());
        blocks
            .iter()
            .all(|block| walk.owner_of(block).is_some() || is_complete && walk.is_forgotten_data(block))
    }

    /// All that is known of the drive's files.
    pub fn files(&self) -> Arc<RwLock<Walk>> {
        self.walk.clone()
    }

    /// The file that a block is data of, and which block of it. None if that is not known, or not at once.
    pub fn file_at(&self, block: u64) -> Option<FilePlace> {
        self.walk.try_read()?.file_at(block)
    }

    /// A reader waits for these blocks.
    pub fn missed(&self, blocks: BlockRange) {
        // When the queue is full, more misses do not matter.
        let _ = self.misses.try_send(blocks);
    }

    /// Blocks of metadata for which the cache is too small: they come and go like data of files.
    pub fn blocks_without_room(&self) -> u64 {
        self.needs.without_room.load(Ordering::Acquire)
    }

    /// Whether there is more metadata than is known: in a file system with very many directories, some are read like data.
    pub fn is_more(&self) -> bool {
        self.needs.is_more.load(Ordering::Acquire)
    }

    /// The smallest cache that keeps all metadata, in bytes, as far as that is known.
    pub fn least_cache_bytes(&self) -> u64 {
        self.needs.all.load(Ordering::Acquire) * BLOCK_BYTES * KEPT_SHARE
    }

    /// Whether all metadata is local that is known and for which the cache has space. True if there is none.
    pub fn is_complete(&self) -> bool {
        *self.is_complete.borrow()
    }

    /// Notes the metadata for the next opening, once all of it is known.
    pub fn note(&self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_complete()) else { return };
        let metadata = self.walk.read().metadata();
        // The journal is large, and the rest does not depend on it.
        let (needed, journal): (Vec<_>, Vec<_>) =
            metadata.into_iter().filter(|(_, kind)| is_kept(*kind)).partition(|(_, kind)| is_needed(*kind));
        kept::note(&**disk, needed.into_iter().chain(journal).map(|(range, _)| range));
    }

    /// Ends.
    pub async fn stop(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for MetadataTracker {
    fn drop(&mut self) {
        self.task.lock().iter().for_each(JoinHandle::abort);
    }
}

/// Whether blocks of this kind stay.
fn is_kept(kind: Kind) -> bool {
    is_needed(kind) || kind == Kind::Journal
}

/// Whether programs read blocks of this kind.
fn is_needed(kind: Kind) -> bool {
    match kind {
        // A mount reads the live part of the file system's journal by itself: it can wait.
        Kind::Backup | Kind::Reserve | Kind::Journal => false,
        Kind::Superblock
        | Kind::Descriptors
        | Kind::BlockBitmap
        | Kind::InodeBitmap
        | Kind::InodeTable
        | Kind::Mapping
        | Kind::Directory
        | Kind::Symlink
        | Kind::Attributes
        | Kind::JournalHead
        | Kind::Special => true,
    }
}

/// Blocks of metadata that may stay, in a cache of this limit.
fn kept_most(limit_bytes: u64) -> u64 {
    limit_bytes / BLOCK_BYTES / KEPT_SHARE
}

struct Running {
    volume: Weak<Volume>,
    walk: Arc<RwLock<Walk>>,
    size_blocks: u64,
    /// How many blocks stay. Metadata of the last opening counts only once it is known what still is metadata.
    kept_blocks: u64,
    complete: watch::Sender<bool>,
    mountable: watch::Sender<Option<bool>>,
    /// Whether the blocks that stay differ from those that were noted.
    has_changed: bool,
    /// Whether something was written since metadata was last compared with the blocks that stay.
    is_written: bool,
    /// When all metadata was first local.
    completed_at: Option<Instant>,
    /// When the notes for the next opening were last saved.
    noted_at: Option<Instant>,
    /// When all metadata was last found to be local.
    looked_at: Option<Instant>,
    /// Whether something was written or found since.
    has_news: bool,
    /// Files whose next reads are being foreseen. These tasks end with this.
    foreseeing: JoinSet<()>,
    /// Files that were examined, and when.
    seen: VecDeque<(InodeNumber, Instant)>,
    needs: Arc<Needs>,
    /// Whether some metadata found no room.
    is_refused: bool,
    /// The cache's limit when all metadata was last asked to stay; none if that has to be done again.
    asks_at: Option<u64>,
}

impl Running {
    async fn run(mut self, mut missed: mpsc::Receiver<BlockRange>) {
        loop {
            let pause = match self.learn().await {
                None => return,
                Some(Ok(())) => LOOK_EVERY,
                Some(Err(error)) => {
                    tracing::debug!(%error, "metadata is not all here yet");
                    TRY_AGAIN
                }
            };
            let deadline = tokio::time::Instant::now() + pause;
            while let Ok(Some(blocks)) = tokio::time::timeout_at(deadline, missed.recv()).await {
                self.foresee(blocks);
            }
            while self.foreseeing.try_join_next().is_some() {}
            let Some(volume) = self.volume.upgrade() else { return };
            self.note(&volume);
            let mut walk = self.walk.write();
            for range in volume.cache.residents().take_written() {
                (self.is_written, self.has_news) = (true, true);
                walk.written(range);
            }
            if volume.size_blocks() != self.size_blocks {
                self.size_blocks = volume.size_blocks();
                walk.resized(self.size_blocks);
            }
        }
    }

    /// Learns all that there is to learn, level by level. None once the drive is closed.
    async fn learn(&mut self) -> Option<Result<(), PullError>> {
        loop {
            // Not held during the wait: dropping the drive ends this too.
            let volume = self.volume.upgrade()?;
            let puller = volume.puller.clone();
            let wanted = self.walk.write().wanted();
            self.keep(&volume);
            let limit = volume.room.limit();
            drop(volume);
            if wanted.is_empty() {
                if self.is_settled(limit) {
                    return Some(Ok(()));
                }
                self.weigh(&self.volume.upgrade()?);
                // Directories and bitmaps have to be here, though nothing here reads them.
                let ranges = self.staying(&*self.volume.upgrade()?, is_needed);
                let pulled = puller.pull_all(Class::Metadata, &ranges).await;
                if pulled.is_ok() {
                    self.is_here(&self.volume.upgrade()?);
                    (self.looked_at, self.has_news) = (Some(Instant::now()), false);
                }
                self.complete.send_replace(pulled.is_ok());
                return Some(pulled);
            }
            let most = limit / BLOCK_BYTES / LEARNT_SHARE;
            let mut outcome = Ok(());
            for part in portions(&wanted, most.max(1)) {
                // A failure does not keep the rest from being learnt.
                outcome = outcome.and(puller.pull_all(Class::Metadata, &part).await);
                let volume = self.volume.upgrade()?;
                if !self.feed(&volume) {
                    self.let_go(&volume);
                    self.complete.send_replace(true);
                    self.mountable.send_replace(Some(true));
                    return Some(Ok(()));
                }
            }
            if self.walk.write().wanted() == wanted {
                // None of it could be read: it is tried again later.
                return Some(outcome.and(Err(PullError::CacheFull(CacheFull))));
            }
        }
    }

    /// Learns from local blocks. False if there is no ext4 that this program knows: then nothing has to be pulled first.
    fn feed(&self, volume: &Volume) -> bool {
        let mut walk = self.walk.write();
        walk.wanted();
        let fed = walk.feed(&mut |range, bytes| volume.read_local(range, bytes));
        fed.inspect_err(|error| tracing::debug!(%error, "the drive's file system is not looked at")).is_ok()
    }

    /// Whether all metadata was local a moment ago, in a cache of this limit, and nothing has changed since.
    fn is_settled(&self, limit: u64) -> bool {
        let is_recent = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN);
        is_recent && !self.has_news && self.asks_at == Some(limit)
    }

    /// Metadata of these kinds that stays. In a cache that is too small, the rest would be pulled again and again.
    fn staying(&self, volume: &Volume, is_meant: impl Fn(Kind) -> bool) -> Vec<BlockRange> {
        let all = BlockRange { start: 0, end: volume.cache.valid().capacity() };
        let metadata = self.walk.read().metadata().into_iter().filter(|(_, kind)| is_meant(*kind));
        metadata.flat_map(|(range, _)| volume.cache.residents().kept_runs(range.intersect(&all))).collect()
    }

    /// All metadata is local. The file system's journal follows in the background: a mount after a crash reads it, even without the store.
    /// It is large, so blocks that programs read go first.
    fn is_here(&mut self, volume: &Arc<Volume>) {
        let journal = self.walk.read().metadata().into_iter().filter(|(_, kind)| *kind == Kind::Journal);
        let journal: Vec<_> = journal.map(|(range, _)| range).collect();
        for range in &journal {
            self.stays(volume, *range);
        }
        match self.completed_at {
            None => {
                self.completed_at = Some(Instant::now());
                self.let_go(volume);
                self.pull_trace(volume);
                let is_whole = || journal.iter().all(|range| volume.puller.missing(*range).is_empty());
                let is_more = self.needs.is_more.load(Ordering::Acquire);
                let is_kept = !is_more && self.needs.without_room.load(Ordering::Acquire) == 0;
                let is_recovered = || !self.walk.read().needs_recovery() || is_whole();
                self.mountable.send_replace(Some(is_kept && is_recovered()));
            }
            Some(at) if at.elapsed() >= JOURNAL_AFTER => {
                let journal = self.staying(volume, |kind| kind == Kind::Journal);
                journal.into_iter().for_each(|range| volume.puller.want(Class::Trace, range));
            }
            Some(_) => {}
        }
    }

    /// Blocks that were read first after the last opening are likely to be read first again.
    fn pull_trace(&self, volume: &Volume) {
        let most = volume.room.limit() / TRACE_SHARE / crate::units::CHUNK_BYTES;
        let drive = volume.all_blocks();
        for run in volume.trace.last(most as usize) {
            let blocks = run.intersect(&drive);
            if !blocks.is_empty() {
                volume.puller.want(Class::Trace, blocks);
            }
        }
    }

    /// Saves the notes for the next opening from time to time, once those of the last one were used.
    fn note(&mut self, volume: &Volume) {
        if self.noted_at.or(self.completed_at).is_some_and(|at| at.elapsed() >= NOTE_EVERY) {
            volume.trace.save();
            if volume.survey.is_complete() && std::mem::take(&mut self.is_written) {
                self.let_go(volume);
            }
            // Until all metadata is known, the earlier notes say more.
            if volume.survey.is_complete() && std::mem::take(&mut self.has_changed) {
                volume.survey.note();
            }
            self.noted_at = Some(Instant::now());
        }
    }

    /// All metadata is known. Other blocks that stay, noted at the last opening or of deleted files, may be evicted from now on.
    fn let_go(&mut self, volume: &Volume) {
        let residents = volume.cache.residents();
        if residents.kept_blocks() > 0 {
            let now = Bitmap::new(volume.cache.valid().capacity());
            for (range, _) in self.walk.read().metadata().into_iter().filter(|(_, kind)| is_kept(*kind)) {
                now.set(range);
            }
            self.has_changed |= kept::let_go(&volume.cache, &now) > 0;
        }
        // Noted blocks that still stay count from here on.
        self.kept_blocks = residents.kept_blocks();
        self.asks_at = None;
    }

    /// Pulls the metadata that was found, and keeps it as far as there is space.
    fn keep(&mut self, volume: &Arc<Volume>) {
        let found = self.walk.write().found();
        self.has_news |= !found.is_empty();
        for (range, kind) in found {
            if is_needed(kind) {
                match self.stays(volume, range) {
                    true => volume.puller.want(Class::Metadata, range),
                    false => (self.is_refused, self.asks_at) = (true, None),
                }
            }
        }
    }

    /// Counts the space that metadata needs. Keeps metadata that found no space before and may find some now: the limit was raised, or
    /// other metadata has gone.
    fn weigh(&mut self, volume: &Arc<Volume>) {
        let limit = volume.room.limit();
        if self.asks_at == Some(limit) {
            return;
        }
        let (metadata, is_more) = {
            let walk = self.walk.read();
            (walk.metadata(), walk.is_full())
        };
        let (residents, is_refused) = (volume.cache.residents(), self.is_refused);
        if is_refused {
            // The file system's journal is the first to leave.
            let all = BlockRange { start: 0, end: volume.cache.valid().capacity() };
            let journal = metadata.iter().filter(|(_, kind)| *kind == Kind::Journal);
            let kept = journal.flat_map(|(range, _)| residents.kept_runs(range.intersect(&all)));
            kept.for_each(|run| residents.let_go(run, volume.cache.valid()));
            self.kept_blocks = residents.kept_blocks();
        }
        let (mut all, mut without_room) = (0, 0);
        for (range, _) in metadata.into_iter().filter(|(_, kind)| is_needed(*kind)) {
            all += range.count();
            for part in range.by_chunk().filter(|_| is_refused) {
                match self.stays(volume, part) {
                    true => volume.puller.want(Class::Metadata, part),
                    false => without_room += residents.not_kept_blocks(&[part]),
                }
            }
        }
        if is_refused && without_room < self.needs.without_room.load(Ordering::Acquire) {
            // The blocks that stay now are still being pulled.
            self.complete.send_replace(false);
        }
        self.is_refused &= without_room > 0;
        self.asks_at = Some(limit);
        self.needs.all.store(all, Ordering::Release);
        self.needs.without_room.store(without_room, Ordering::Release);
        self.needs.is_more.store(is_more, Ordering::Release);
    }

    /// Keeps blocks if there is space for that. Returns whether they stay.
    fn stays(&mut self, volume: &Volume, range: BlockRange) -> bool {
        let residents = volume.cache.residents();
        if residents.are_all_kept(range) {
            return true;
        }
        let more = residents.not_kept_blocks(&[range]);
        let fits = self.kept_blocks + more <= kept_most(volume.room.limit());
        if fits {
            self.kept_blocks += more;
            self.has_changed = true;
            residents.keep(range);
        }
        fits
    }

    /// A reader waits for a part of a file: its format may show what comes next. If the read is not near the file's beginning, the format
    /// is examined only if the beginning is here.
    fn foresee(&mut self, blocks: BlockRange) {
        let walk = self.walk.read();
        let Some((inode, at)) = walk.owner_of(blocks.start) else { return };
        let is_recent =
            |(of, since): &(InodeNumber, Instant)| *of == inode && since.elapsed() < FORESEE_AGAIN;
        if self.seen.iter().any(is_recent) {
            return;
        }
        let (Some(runs), Some(len)) = (walk.runs_of(inode), walk.size_of(inode)) else { return };
        let layout = prefetch::Layout { len, runs };
        let is_begun = || self.volume.upgrade().is_some_and(|volume| prefetch::is_begun(&*volume, &layout));
        if at * BLOCK_BYTES >= crate::formats::HEAD_BYTES && !is_begun() {
            return;
        }
        self.seen.retain(|(other, _)| *other != inode);
        if self.seen.len() >= FILES_REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back((inode, Instant::now()));
        let volume = self.volume.clone();
        self.foreseeing.spawn(async move {
            if let Err(error) = prefetch::foresee(volume, FileNumber(inode.0), layout).await {
                tracing::debug!(%error, "what a program will read next of a file is not here yet");
            }
        });
    }
}
