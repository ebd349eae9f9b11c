//! Pins: blocks that a person always wants on this device are never evicted. Those that are missing are pulled while the drive is open, in
//! the class after metadata.
//!
//! Only the first of the two is a promise. A block is pinned once [`Volume::set_pinned`] has returned. Blocks that the caller remembers
//! from an earlier opening are pinned before anything can be evicted. Whether a block is here already depends on time and on the store.

use super::Volume;
use crate::map::Content;
use crate::pull::{Class, PullError};
use crate::retry::Backoff;
use crate::units::{BLOCK_BYTES, BlockRange};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod set;

pub use set::Pinned;

/// Blocks that are requested at once: enough to fill a link, few enough not to burden the queue.
const WINDOW_BLOCKS: u64 = (64 << 20) / BLOCK_BYTES;
const WINDOW_RUNS: usize = 1024;
/// Missing runs this near to each other are pulled as one: the blocks in between are in the same frames, or nearly.
const GAP_BLOCKS: u64 = 4;
/// Blocks of a whole drive that are looked up at once: during that time none of them can be evicted.
const LOOK_BLOCKS: u64 = (64 << 20) / BLOCK_BYTES;
/// How often to check whether all is still here: a cache whose disk has failed is filled again.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The progress of pinned blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinsStatus {
    /// Bytes that are pinned. For a whole drive: bytes of data, as far as they are counted.
    pub pinned_bytes: u64,
    /// Bytes of them that are not here.
    pub missing_bytes: u64,
    /// Whether that was counted: for a whole drive its map has to be read.
    pub is_counted: bool,
    /// Why pulling them fails for now.
    pub trouble: Option<String>,
    /// Bytes that are not here because the cache has no space for them.
    pub without_room_bytes: u64,
}

/// The pins of an open drive.
pub(super) struct Pins {
    wanted: watch::Sender<Arc<Pinned>>,
    shared: Arc<Shared>,
    // Held to take it out.
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    /// If the whole drive is pinned: its blocks of data, plus one; 0 before they are counted.
    data_blocks: AtomicU64,
    // Held to copy or replace it.
    trouble: Mutex<Option<PullError>>,
}

impl Pins {
    /// Starts with these pins.
    pub fn new(pinned: Pinned) -> Self {
        let wanted = watch::Sender::new(Arc::new(pinned));
        Self { wanted, shared: Arc::default(), task: Mutex::new(None) }
    }

    /// Begins to pull, now that the volume is there.
    pub fn begin(&self, volume: &Arc<Volume>) {
        let pulling = keep_here(Arc::downgrade(volume), self.wanted.subscribe(), self.shared.clone());
        *self.task.lock() = Some(tokio::spawn(pulling));
    }

    /// Stops pulling. Pinned blocks stay pinned.
    pub async fn stop(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.task.lock().iter().for_each(JoinHandle::abort);
    }
}

/// Blocks that stay in the cache while this lives, like pinned ones.
pub struct Held {
    volume: Weak<Volume>,
    runs: Vec<BlockRange>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(volume) = self.volume.upgrade()
            && let Err(error) = volume.cache.hold_no_more(&self.runs)
        {
            tracing::warn!(%error, "what was held for a while is not taken out of the cache before the drive is opened again");
        }
    }
}

impl Volume {
    /// Keeps exactly these blocks here from now on. Missing ones are pulled in the background.
    ///
    /// # Errors
    ///
    /// The cache's file cannot be read: blocks that are no longer pinned may stay until the drive is opened again.
    pub fn set_pinned(&self, pinned: Pinned) -> io::Result<()> {
        let done = self.cache.pin(&pinned.below(self.cache.valid().capacity()));
        if self.pins.wanted.borrow().is_whole() != pinned.is_whole() {
            self.pins.shared.data_blocks.store(0, Ordering::Release);
        }
        self.pins.wanted.send_replace(Arc::new(pinned));
        done
    }

    /// The current pins.
    pub fn pinned(&self) -> Arc<Pinned> {
        self.pins.wanted.borrow().clone()
    }

    /// How much of the pinned blocks is here.
    pub fn pins_status(&self) -> PinsStatus {
        let pinned = self.pinned();
        let trouble = self.pins_trouble();
        let runs = pinned.below(self.size_blocks());
        let missing = match pinned.is_whole() {
            // There may be a million runs.
            true => match self.size_blocks() - self.cache.valid().count(self.all_blocks()) {
                0 => 0,
                // Some of it may be in the journal, still to be applied.
                _ if self.journal.unapplied_bytes() > 0 => self.missing_blocks(&runs),
                missing => missing,
            },
            false => self.missing_blocks(&runs),
        };
        let counted = self.pins.shared.data_blocks.load(Ordering::Acquire);
        let blocks = match pinned.is_whole() {
            true => counted.saturating_sub(1).max(self.allocated_blocks()),
            false => runs.iter().map(BlockRange::count).sum(),
        };
        let is_counted = !pinned.is_whole() || counted > 0;
        let missing_bytes = if is_counted { missing.min(blocks) * BLOCK_BYTES } else { 0 };
        let has_room = !matches!(*self.pins.shared.trouble.lock(), Some(PullError::CacheFull(_)));
        let without_room_bytes = if has_room { 0 } else { missing.min(blocks) * BLOCK_BYTES };
        PinsStatus {
            pinned_bytes: blocks * BLOCK_BYTES,
            missing_bytes,
            is_counted,
            trouble,
            without_room_bytes,
        }
    }

    /// Bytes of the cache that would have to stay with these pins: metadata, pinned blocks, and pending uploads.
    ///
    /// # Errors
    ///
    /// For a whole drive: its map cannot be read.
    pub async fn cache_needed_with(&self, pinned: &Pinned) -> Result<u64, PullError> {
        match pinned.is_whole() {
            true => Ok(self.data_blocks().await? * BLOCK_BYTES + self.status().dirty_bytes),
            false => Ok(self.cache_needed(pinned)),
        }
    }

    /// The same for pins of blocks, which needs no look at a map.
    pub fn cache_needed(&self, pinned: &Pinned) -> u64 {
        self.needed_blocks(pinned) * BLOCK_BYTES + self.status().dirty_bytes
    }

    /// Only metadata and pins.
    pub fn cache_stays_bytes(&self, pinned: &Pinned) -> u64 {
        self.needed_blocks(pinned) * BLOCK_BYTES
    }

    /// Why pulling pinned blocks fails for now.
    pub fn pins_trouble(&self) -> Option<String> {
        self.pins.shared.trouble.lock().as_ref().map(ToString::to_string)
    }

    /// Bytes that are pinned. For a whole drive: bytes of data, as far as they are counted.
    pub fn pinned_bytes(&self) -> u64 {
        let pinned = self.pinned();
        match pinned.is_whole() {
            true => self.needed_blocks(&pinned) * BLOCK_BYTES,
            false => pinned.as_runs().iter().map(BlockRange::byte_len).sum(),
        }
    }

    /// Parts of `range` that are not here.
    pub fn missing_parts(&self, range: BlockRange) -> Vec<BlockRange> {
        self.puller.missing(range)
    }

    /// Blocks of metadata and pins.
    pub(super) fn needed_blocks(&self, pinned: &Pinned) -> u64 {
        let residents = self.cache.residents();
        match pinned.is_whole() {
            true => {
                let counted = self.pins.shared.data_blocks.load(Ordering::Acquire).saturating_sub(1);
                counted.max(self.allocated_blocks())
            }
            false => {
                let metadata = residents.kept_blocks() + self.survey.blocks_without_room();
                metadata + residents.not_kept_blocks(pinned.as_runs())
            }
        }
    }

    /// Blocks that take space in the store: all that are not zero.
    pub async fn data_blocks(&self) -> Result<u64, PullError> {
        let mut blocks = 0;
        for part in self.all_blocks().pieces(LOOK_BLOCKS) {
            let found = self.map.look_up(part).await?;
            let data = found.iter().filter(|(_, content)| *content != Content::Zero);
            blocks += data.map(|(run, _)| run.count()).sum::<u64>();
        }
        Ok(blocks)
    }

    /// Blocks of `runs` that are not here.
    pub fn missing_blocks(&self, runs: &[BlockRange]) -> u64 {
        runs.iter().flat_map(|run| self.puller.missing(*run)).map(|run| run.count()).sum()
    }

    /// Keeps blocks here for a while, without pinning them.
    pub fn hold(self: &Arc<Self>, runs: Vec<BlockRange>) -> Held {
        let all = BlockRange { start: 0, end: self.cache.valid().capacity() };
        let runs: Vec<_> = runs.iter().map(|run| run.intersect(&all)).collect();
        self.cache.keep_for_now(&runs);
        Held { volume: Arc::downgrade(self), runs }
    }

    fn allocated_blocks(&self) -> u64 {
        self.cache.file().allocated().unwrap_or(0) / BLOCK_BYTES
    }
}

/// Pulls missing blocks while the drive is open.
async fn keep_here(volume: Weak<Volume>, mut wanted: watch::Receiver<Arc<Pinned>>, shared: Arc<Shared>) {
    let mut backoff = Backoff::new();
    loop {
        let pinned = wanted.borrow_and_update().clone();
        let round = async {
            let settled = match pinned.is_whole() {
                true => settle_zeros(&volume, &shared).await,
                false => Ok(()),
            };
            // If the map cannot be read for a part, the rest is pulled all the same.
            pull_missing(&volume, &pinned).await.and(settled)
        };
        let done = tokio::select! { biased;
            changed = wanted.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            done = round => done,
        };
        let pause = match &done {
            Ok(()) => {
                backoff = Backoff::new();
                LOOK_EVERY
            }
            Err(error) => {
                tracing::debug!(%error, "not all that is pinned could be pulled");
                backoff.next(None)
            }
        };
        *shared.trouble.lock() = done.err();
        if volume.strong_count() == 0 {
            return;
        }
        if let Ok(Err(_)) = tokio::time::timeout(pause, wanted.changed()).await {
            return;
        }
    }
}

/// Makes blocks local that are zero in the map, and counts the others. If all are here, nothing is looked up.
async fn settle_zeros(volume: &Weak<Volume>, shared: &Shared) -> Result<(), PullError> {
    let Some(opened) = volume.upgrade() else { return Ok(()) };
    let (all, puller) = (opened.all_blocks(), opened.puller.clone());
    if opened.cache.valid().all(all) {
        let _ = shared.data_blocks.compare_exchange(
            0,
            opened.allocated_blocks() + 1,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        return Ok(());
    }
    drop(opened);
    let mut data: Result<u64, PullError> = Ok(0);
    for part in all.pieces(LOOK_BLOCKS) {
        let more = puller.settle_zeros(part).await;
        data = data.and_then(|data| Ok(data + more?));
    }
    shared.data_blocks.store(data? + 1, Ordering::Release);
    Ok(())
}

/// Pulls missing blocks piece by piece. A failure does not keep the rest from being pulled. Returns the first one.
async fn pull_missing(volume: &Weak<Volume>, pinned: &Pinned) -> Result<(), PullError> {
    let mut failed = Ok(());
    let mut from = 0;
    loop {
        // Not held during the wait: dropping the drive ends this too.
        let Some(opened) = volume.upgrade() else { return Ok(()) };
        let (window, end) = opened.next_missing(pinned, from);
        let puller = opened.puller.clone();
        drop(opened);
        if window.is_empty() {
            return failed;
        }
        from = end;
        let pulled = puller.pull_all(Class::Pinned, &window).await;
        if let Err(PullError::CacheFull(_)) = pulled {
            return pulled;
        }
        failed = failed.and(pulled);
    }
}

impl Volume {
    /// Missing runs from the block `from` on, as many as are to be requested at once, and where they end.
    fn next_missing(&self, pinned: &Pinned, from: u64) -> (Vec<BlockRange>, u64) {
        let runs = pinned.below(self.size_blocks());
        let first = runs.partition_point(|run| run.end <= from);
        let mut window: Vec<BlockRange> = Vec::new();
        let mut blocks = 0;
        for run in &runs[first..] {
            let rest = BlockRange { start: run.start.max(from), end: run.end };
            for part in rest.pieces(WINDOW_BLOCKS) {
                for missing in self.puller.missing(part) {
                    blocks += missing.count();
                    match window.last_mut().filter(|last| missing.start <= last.end + GAP_BLOCKS) {
                        Some(last) => last.end = missing.end,
                        None => window.push(missing),
                    }
                }
                if blocks >= WINDOW_BLOCKS || window.len() >= WINDOW_RUNS {
                    return (window, part.end);
                }
            }
        }
        (window, self.size_blocks())
    }
}
