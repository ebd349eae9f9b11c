//! Metadata first: what any program needs before it gets to a file is pulled as soon as the drive is open, in few large
//! requests, and stays. Then listings need no store, and offline only data of files can be missing.

use super::Volume;
use super::{foresight, kept};
use crate::bitmap::Bitmap;
use crate::cache::Cache;
use crate::disk::Disk;
use crate::ext4::{FileAt, InodeNumber, Kind, Limits, Walk};
use crate::pull::{Class, PullError};
use crate::units::{BLOCK_BYTES, BlockRange};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long to wait for more writes before what they changed is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So long after all metadata is local its journal is pulled too.
const JOURNAL_AFTER: Duration = Duration::from_secs(60);
/// So often what is of use at the next opening is noted, for one after a crash.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// After metadata could not be pulled.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// Of the cache's limit, what metadata may keep: one part in so many.
const KEPT_SHARE: u64 = 2;
/// Of the cache's limit, what the trace of the last opening may fill: one part in so many.
const TRACE_SHARE: u64 = 4;
/// Misses that wait to be looked at. More come from a scan, of which nothing is to be foreseen.
const MISSES_MAX: usize = 64;
/// Files that were looked at lately are not looked at again.
const FILES_REMEMBERED: usize = 256;

/// Looks at a drive's file system for as long as it is open.
pub(super) struct Survey {
    /// Where a reader had to wait.
    misses: mpsc::Sender<BlockRange>,
    /// Whether all metadata that is known is local. So it is where there is none.
    is_complete: watch::Receiver<bool>,
    /// Whether all that a mount reads was local when metadata was first complete.
    is_mountable: watch::Receiver<Option<bool>>,
    // Held to look something up, and to learn from what is local; never across a pull.
    walk: Arc<RwLock<Walk>>,
    /// Where what is metadata is noted for the next opening.
    disk: Option<Arc<dyn Disk>>,
    // Held to take it out.
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What looks, before it has begun: it needs the volume, which has its survey.
pub(super) struct Beginning(Option<(Running, mpsc::Receiver<BlockRange>)>);

impl Survey {
    /// What is to begin, with a cache of so many bytes at most, beside which `disk` has what was noted at the last opening.
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
            seen: VecDeque::new(),
        };
        let survey =
            Self { misses, is_complete, is_mountable, walk, disk: Some(disk), task: Mutex::new(None) };
        (survey, Beginning(Some((running, missed))))
    }

    /// What looks at nothing, and knows of no metadata.
    pub fn none(size_blocks: u64) -> (Self, Beginning) {
        let walk = Arc::new(RwLock::new(Walk::new(size_blocks, Limits::default())));
        let (misses, is_complete, is_mountable) =
            (mpsc::channel(MISSES_MAX).0, watch::channel(true).1, watch::channel(Some(false)).1);
        let survey = Self { misses, is_complete, is_mountable, walk, disk: None, task: Mutex::new(None) };
        (survey, Beginning(None))
    }

    /// Begins, now that the volume is there.
    pub fn begin(&self, beginning: Beginning, volume: &Arc<Volume>) {
        if let Some((running, missed)) = beginning.0 {
            let running = Running { volume: Arc::downgrade(volume), ..running };
            *self.task.lock() = Some(tokio::spawn(running.run(missed)));
        }
    }

    /// Whether a mount would find all that it reads without the store. Waits until all metadata is local.
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

    /// What is known of the drive's files.
    pub fn files(&self) -> Arc<RwLock<Walk>> {
        self.walk.clone()
    }

    /// The file that a block is data of, and which block of it, as far as that is known at once.
    pub fn file_at(&self, block: u64) -> Option<FileAt> {
        self.walk.try_read()?.file_at(block)
    }

    /// A reader waits for these blocks.
    pub fn missed(&self, blocks: BlockRange) {
        // What does not fit is of no interest: many miss at once.
        let _ = self.misses.try_send(blocks);
    }

    /// Whether all metadata that is known is local. So it is where there is none.
    pub fn is_complete(&self) -> bool {
        *self.is_complete.borrow()
    }

    /// Notes what is metadata, for the next opening, as soon as all of it is known.
    pub fn note(&self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_complete()) else { return };
        let metadata = self.walk.read().metadata();
        // The journal is large, and the rest does not need it.
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

impl Drop for Survey {
    fn drop(&mut self) {
        self.task.lock().iter().for_each(JoinHandle::abort);
    }
}

/// Whether it stays.
fn is_kept(kind: Kind) -> bool {
    is_needed(kind) || kind == Kind::Journal
}

/// Whether programs read it.
fn is_needed(kind: Kind) -> bool {
    match kind {
        // Of its journal a mount reads what is live, by itself: it can wait.
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

/// Blocks of metadata that may stay, of a cache of so many bytes at most.
fn kept_most(limit_bytes: u64) -> u64 {
    limit_bytes / BLOCK_BYTES / KEPT_SHARE
}

struct Running {
    volume: Weak<Volume>,
    walk: Arc<RwLock<Walk>>,
    size_blocks: u64,
    /// How many blocks stay. Of what was metadata at the last opening only once it is known what still is.
    kept_blocks: u64,
    complete: watch::Sender<bool>,
    mountable: watch::Sender<Option<bool>>,
    /// Whether other blocks stay than were noted.
    has_changed: bool,
    /// Whether something was written since what is metadata was last compared with what stays.
    is_written: bool,
    /// When all metadata was first local.
    completed_at: Option<Instant>,
    /// When what is of use at the next opening was noted last.
    noted_at: Option<Instant>,
    /// Files that were looked at.
    seen: VecDeque<InodeNumber>,
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
            let Some(volume) = self.volume.upgrade() else { return };
            self.note(&volume);
            let mut walk = self.walk.write();
            for range in volume.cache.residents().take_written() {
                self.is_written = true;
                walk.written(range);
            }
            if volume.size_blocks() != self.size_blocks {
                self.size_blocks = volume.size_blocks();
                walk.resized(self.size_blocks);
            }
        }
    }

    /// Learns what there is to learn, level by level. None once the drive is closed.
    async fn learn(&mut self) -> Option<Result<(), PullError>> {
        loop {
            // Not held while it waits: who drops the drive ends this, too.
            let volume = self.volume.upgrade()?;
            let puller = volume.puller.clone();
            let wanted = self.walk.write().wanted();
            self.keep(&volume);
            drop(volume);
            if wanted.is_empty() {
                // Directories and bitmaps are wanted, and read by nobody here.
                let ranges = self.staying(&*self.volume.upgrade()?, is_needed);
                let pulled = puller.pull_all(Class::Metadata, &ranges).await;
                if pulled.is_ok() {
                    self.is_here(&self.volume.upgrade()?);
                }
                self.complete.send_replace(pulled.is_ok());
                return Some(pulled);
            }
            if let Err(error) = puller.pull_all(Class::Metadata, &wanted).await {
                return Some(Err(error));
            }
            let volume = self.volume.upgrade()?;
            let fed = self.walk.write().feed(&mut |range, bytes| volume.read_local(range, bytes));
            if let Err(error) = fed {
                // There is no ext4 here yet, or none that is known: nothing to be pulled first.
                tracing::debug!(%error, "the drive's file system is not looked at");
                self.let_go(&*self.volume.upgrade()?);
                self.complete.send_replace(true);
                self.mountable.send_replace(Some(true));
                return Some(Ok(()));
            }
        }
    }

    /// Metadata of these kinds that stays. A cache that is too small for the rest would have it pulled for ever.
    fn staying(&self, volume: &Volume, is_meant: impl Fn(Kind) -> bool) -> Vec<BlockRange> {
        let all = BlockRange { start: 0, end: volume.cache.valid().capacity() };
        let metadata = self.walk.read().metadata().into_iter().filter(|(_, kind)| is_meant(*kind));
        metadata.flat_map(|(range, _)| volume.cache.residents().kept_runs(range.intersect(&all))).collect()
    }

    /// All metadata is local. The file system's journal follows in the background: a mount after a crash reads it, also
    /// without the store. It is large, so what programs read goes first.
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
                self.mountable.send_replace(Some(!self.walk.read().needs_recovery() || is_whole()));
            }
            Some(at) if at.elapsed() >= JOURNAL_AFTER => {
                let journal = self.staying(volume, |kind| kind == Kind::Journal);
                journal.into_iter().for_each(|range| volume.puller.want(Class::Trace, range));
            }
            Some(_) => {}
        }
    }

    /// What was read first after the last opening is likely to be again.
    fn pull_trace(&self, volume: &Volume) {
        let most = volume.room.limit() / TRACE_SHARE / crate::units::CHUNK_BYTES;
        let drive = volume.all_blocks();
        for chunk in volume.trace.last().into_iter().take(most as usize) {
            let blocks = chunk.blocks().intersect(&drive);
            if !blocks.is_empty() {
                volume.puller.want(Class::Trace, blocks);
            }
        }
    }

    /// Notes what is of use at the next opening, every now and then, once what was noted at the last one was looked at.
    fn note(&mut self, volume: &Volume) {
        if self.noted_at.or(self.completed_at).is_some_and(|at| at.elapsed() >= NOTE_EVERY) {
            volume.trace.save();
            if volume.survey.is_complete() && std::mem::take(&mut self.is_written) {
                self.let_go(volume);
            }
            // Until all of it is known, what was noted before says more.
            if volume.survey.is_complete() && std::mem::take(&mut self.has_changed) {
                volume.survey.note();
            }
            self.noted_at = Some(Instant::now());
        }
    }

    /// What is metadata is known: of what was, at the last opening or before it was deleted, the rest may go.
    fn let_go(&mut self, volume: &Volume) {
        let residents = volume.cache.residents();
        if residents.kept_blocks() > 0 {
            let now = Bitmap::new(volume.cache.valid().capacity());
            for (range, _) in self.walk.read().metadata().into_iter().filter(|(_, kind)| is_kept(*kind)) {
                now.set(range);
            }
            self.has_changed |= kept::let_go(&volume.cache, &now) > 0;
        }
        // What stays of what was counts from here on.
        self.kept_blocks = residents.kept_blocks();
    }

    /// Has what was found pulled, and kept as far as that is sensible.
    fn keep(&mut self, volume: &Arc<Volume>) {
        let found = self.walk.write().found();
        for (range, kind) in found {
            if is_needed(kind) && self.stays(volume, range) {
                volume.puller.want(Class::Metadata, range);
            }
        }
    }

    /// Has blocks stay, if there is room for that. Whether they do.
    fn stays(&mut self, volume: &Volume, range: BlockRange) -> bool {
        let residents = volume.cache.residents();
        if residents.are_all_kept(range) {
            return true;
        }
        let fits = self.kept_blocks + range.count() <= kept_most(volume.room.limit());
        if fits {
            self.kept_blocks += range.count();
            self.has_changed = true;
            residents.keep(range);
        }
        fits
    }

    /// Somebody waits for a part of a file: its format may tell what comes next. Of one that is not read from its beginning it is
    /// looked at if that is here.
    fn foresee(&mut self, blocks: BlockRange) {
        let walk = self.walk.read();
        let Some((inode, at)) = walk.owner_of(blocks.start) else { return };
        if self.seen.contains(&inode) {
            return;
        }
        let (Some(runs), Some(len)) = (walk.runs_of(inode), walk.size_of(inode)) else { return };
        let layout = foresight::Layout { len, runs };
        let is_begun = || self.volume.upgrade().is_some_and(|volume| foresight::is_begun(&volume, &layout));
        if at * BLOCK_BYTES >= crate::formats::HEAD_BYTES && !is_begun() {
            return;
        }
        if self.seen.len() >= FILES_REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(inode);
        tokio::spawn(foresight::foresee(self.volume.clone(), inode, layout));
    }
}
