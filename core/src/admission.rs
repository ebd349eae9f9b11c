//! Space in the cache: new data is admitted while the cache is below its limit, and the least wanted chunks are evicted
//! before the limit is reached.

use crate::cache::Cache;
use crate::disk::Disk;
use crate::units::BlockRange;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Data is admitted up to this limit (per mille of the cache's limit). The rest is for the file system, which takes blocks
/// of its own later, when it records where a file's blocks are: at most one for each 340 pieces.
const MOST: u64 = 996;
/// Above this (per mille of the limit), chunks are evicted ...
const HIGH: u64 = 970;
/// ... until the cache is down to this.
const LOW: u64 = 940;
/// Chunks evicted in one turn: each turn may cost a sync of the bitmap (16 MiB).
const CHUNKS_AT_ONCE: usize = 256;
/// The cache counts as stuck after this many turns in a row that did not make it smaller.
const FRUITLESS_MAX: u32 = 16;
/// Space that is left free on the disk, because other programs need some too.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// How often the disk's free space is checked, and whether chunks that could not be evicted can be now.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The cache has no space, and nothing in it may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cache is full of what has to stay: what waits for upload, metadata, and what is always kept on this computer"
)]
pub struct CacheFull;

/// The space of one cache.
pub struct Admission {
    shared: Arc<Shared>,
    // Held only to take it out.
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    cache: Arc<Cache>,
    disk: Arc<dyn Disk>,
    /// Whether blocks cannot be evicted now, because the store lacks them.
    is_dirty: Box<dyn Fn(BlockRange) -> bool + Send + Sync>,
    limit: AtomicU64,
    /// The same, or less if the disk is full of other things.
    effective: AtomicU64,
    /// Bytes that were admitted and are not here yet.
    coming: AtomicU64,
    /// Bytes that wait for admission.
    waiting: AtomicU64,
    /// Bytes of metadata, by the last count.
    metadata: AtomicU64,
    wanted: Notify,
    turns: watch::Sender<Turn>,
}

/// When metadata was counted, and the numbers that show whether the count still holds.
struct Counting {
    at: Instant,
    kept_blocks: u64,
    used: u64,
}

/// The result of the last turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    number: u64,
    /// Nothing more may be evicted.
    is_stuck: bool,
}

/// Releases all waiters however the task ends.
struct LastTurn(Arc<Shared>);

impl Drop for LastTurn {
    fn drop(&mut self) {
        self.0.turns.send_replace(Turn { number: u64::MAX, is_stuck: true });
    }
}

/// Admits a number of bytes while it lives.
pub struct Permit<'a>(#[allow(dead_code, reason = "it is held")] Counted<'a>);

/// Counts bytes for as long as it lives.
struct Counted<'a> {
    count: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU64, bytes: u64) -> Self {
        count.fetch_add(bytes, Ordering::AcqRel);
        Self { count, bytes }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.task.lock().iter().for_each(JoinHandle::abort);
    }
}

impl Admission {
    /// Keeps `cache`, whose files lie on `disk`, at `limit` bytes.
    pub(crate) fn start(
        cache: Arc<Cache>,
        disk: Arc<dyn Disk>,
        limit: u64,
        is_dirty: impl Fn(BlockRange) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared {
            cache,
            disk,
            is_dirty: Box::new(is_dirty),
            limit: AtomicU64::new(limit),
            effective: AtomicU64::new(limit),
            coming: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            metadata: AtomicU64::new(0),
            wanted: Notify::new(),
            turns: watch::Sender::new(Turn::default()),
        });
        let working = shared.clone();
        let task = tokio::spawn(async move {
            let _last = LastTurn(working.clone());
            let mut counted = None;
            loop {
                working.make().await;
                working.count_metadata(&mut counted).await;
                let _ = tokio::time::timeout(LOOK_EVERY, working.wanted.notified()).await;
            }
        });
        Arc::new(Self { shared, task: Mutex::new(Some(task)) })
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.shared.limit.load(Ordering::Acquire)
    }

    /// Sets the limit. Evicts at once what exceeds it.
    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit.store(bytes, Ordering::Release);
        self.shared.effective.store(bytes, Ordering::Release);
        self.shared.wanted.notify_one();
    }

    /// Bytes of the limit that metadata takes, as of a few seconds ago.
    pub fn metadata_bytes(&self) -> u64 {
        self.shared.metadata.load(Ordering::Acquire)
    }

    /// Waits until `bytes` fit. Refuses if that takes an upload or an unpin first.
    pub async fn let_in(&self, bytes: u64) -> Result<Permit<'_>, CacheFull> {
        self.shared.let_in(bytes).await
    }

    /// Stops the task: from here on nothing is evicted, and waiters are refused.
    pub(crate) async fn stop(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Shared {
    async fn let_in(&self, bytes: u64) -> Result<Permit<'_>, CacheFull> {
        if let Some(admission) = self.admit(bytes) {
            return Ok(admission);
        }
        let mut turns = self.turns.subscribe();
        let first = turns.borrow_and_update().number;
        let mut asked_at = first;
        let _waiting = Counted::new(&self.waiting, bytes);
        loop {
            self.wanted.notify_one();
            // The sender reports a turn at the latest when the task ends.
            let is_over = |turn: &Turn| turn.number > asked_at || turn.number == u64::MAX;
            let Ok(turn) = turns.wait_for(is_over).await.map(|turn| *turn) else { return Err(CacheFull) };
            asked_at = turn.number;
            if let Some(admission) = self.admit(bytes) {
                return Ok(admission);
            }
            // A turn that had begun before may not have known of these bytes.
            if turn.is_stuck && (turn.number > first.saturating_add(1) || turn.number == u64::MAX) {
                return Err(CacheFull);
            }
        }
    }

    fn admit(&self, bytes: u64) -> Option<Permit<'_>> {
        let limit = self.effective.load(Ordering::Acquire);
        let admission = Permit(Counted::new(&self.coming, bytes));
        let full = self.used().saturating_add(self.coming.load(Ordering::Acquire));
        if is_high(full, limit) {
            self.wanted.notify_one();
        }
        (full <= limit / 1000 * MOST).then_some(admission)
    }

    fn used(&self) -> u64 {
        self.cache.file().allocated().unwrap_or(u64::MAX / 2)
    }

    /// Evicts until there is enough space or nothing more may be evicted.
    async fn make(&self) {
        let mut fruitless = 0;
        loop {
            let used = self.used();
            let limit = self.look_at_disk(used);
            let coming = self.coming.load(Ordering::Acquire) + self.waiting.load(Ordering::Acquire);
            let full = used.saturating_add(coming);
            if !is_high(full, limit) {
                return self.tell(false);
            }
            let some_went = self.evict(full - limit / 1000 * LOW).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "chunks could not be taken out of the cache");
                false
            });
            // New data may take as much as was freed.
            fruitless = if self.used() < used { 0 } else { fruitless + 1 };
            let is_stuck = !some_went || fruitless == FRUITLESS_MAX;
            self.tell(is_stuck);
            if is_stuck {
                return;
            }
        }
    }

    fn tell(&self, is_stuck: bool) {
        self.turns.send_modify(|turn| *turn = Turn { number: turn.number.saturating_add(1), is_stuck });
    }

    /// The limit, or less if the disk has too little space left.
    fn look_at_disk(&self, used: u64) -> u64 {
        let free = self.disk.free_bytes().unwrap_or(FREE_BYTES_MIN);
        let disk = used.saturating_add(free);
        let limit = self.limit.load(Ordering::Acquire).min(disk - FREE_BYTES_MIN.min(disk / 10));
        self.effective.store(limit, Ordering::Release);
        limit
    }

    /// Counts the bytes that metadata takes, from time to time, if something has changed.
    async fn count_metadata(&self, last: &mut Option<Counting>) {
        // The turns of a full cache follow each other closely.
        if last.as_ref().is_some_and(|last| last.at.elapsed() < LOOK_EVERY) {
            return;
        }
        let residents = self.cache.residents();
        let now = Counting { at: Instant::now(), kept_blocks: residents.kept_blocks(), used: self.used() };
        let has_changed = |last: &Counting| (now.kept_blocks, now.used) != (last.kept_blocks, last.used);
        if !last.as_ref().is_none_or(has_changed) {
            return;
        }
        *last = Some(now);
        let mut bytes = 0;
        for run in residents.kept_runs(BlockRange { start: 0, end: self.cache.valid().capacity() }) {
            match self.cache.taken_by(run) {
                Ok(taken) => bytes += taken,
                // The next reader of the disk reports such an error.
                Err(_) => return,
            }
            tokio::task::consume_budget().await;
        }
        self.metadata.store(bytes, Ordering::Release);
    }

    /// Evicts chunks that hold about `bytes`. Returns whether there were any to evict.
    async fn evict(&self, bytes: u64) -> io::Result<bool> {
        let residents = self.cache.residents();
        let most = (bytes.div_ceil(crate::units::CHUNK_BYTES) as usize).clamp(1, CHUNKS_AT_ONCE);
        let later =
            |blocks| (self.is_dirty)(blocks) || self.cache.is_pulled(blocks) || self.cache.is_awaited(blocks);
        let chunks = residents.next(most, self.cache.valid(), later);
        // It may have been pinned since.
        let stays = |blocks| (self.is_dirty)(blocks) || residents.must_stay(blocks);
        let freed = self.cache.evict(&chunks, stays).await;
        // Chunks that were written or pulled meanwhile have stayed.
        let all = BlockRange { start: 0, end: self.cache.valid().capacity() };
        for blocks in chunks.iter().map(|chunk| chunk.blocks().intersect(&all)) {
            if self.cache.valid().any(blocks) || self.cache.taken_by(blocks).is_ok_and(|taken| taken > 0) {
                residents.came(blocks);
            }
        }
        freed.map(|_| !chunks.is_empty())
    }
}

/// Whether chunks should be evicted.
fn is_high(full: u64, limit: u64) -> bool {
    full >= limit / 1000 * HIGH
}
