//! Pulling: from the store into the cache, by priority.
//!
//! Readers that wait, and other parts that want blocks, put them in the queue (`queue`, pure). A pull looks its blocks up
//! in the source ([`Source`]: a drive or a folder), fetches the parts that hold them, and fills the blocks that are still
//! absent (`fetch`). Failed pulls are tried again (`tries`). Blocks that readers will probably want next are pulled ahead
//! of them (`ahead`).

use crate::admission::{Admission, CacheFull};
use crate::cache::{self, Cache};
use crate::read_error::ReadError;
use crate::units::{BlockRange, portions};
use ahead::Patterns;
use futures_util::FutureExt;
use parking_lot::Mutex;
use single_flight::SingleFlight;
use sink::ForReaders;
use stalls::Stalls;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use underway::Underway;

mod ahead;
mod fetch;
mod patience;
pub(crate) mod prefetch;
mod queue;
mod scans;
mod single_flight;
mod sink;
mod small_files;
mod source;
mod stalls;
mod streams;
mod strides;
mod tries;
mod underway;
mod window;

pub use queue::{Class, Ending, Job, Queue};
pub use scans::Scans;
pub use sink::Fetched;
pub use source::{Content, FileNumber, FilePlace, Files, Found, Source};
pub use tries::Health;
use tries::Persistence;

/// Why a pull did not bring its blocks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    /// The store did not return them, or returned something else.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The local disk failed.
    #[error("the cache cannot be written: {0}")]
    Cache(String),
    /// The cache is full, and nothing in it may be evicted.
    #[error(transparent)]
    CacheFull(#[from] CacheFull),
    /// The store does not answer, and nobody waits for the blocks.
    #[error("the store does not answer")]
    Away,
}

/// How often blocks may vanish again that were pulled for a reader, before the demand fails and the reader reads past the
/// cache.
const LOSSES_MAX: u32 = 3;

/// How often read-ahead is tried.
const TRIES_AHEAD: u32 = 4;

/// Brings blocks into the cache.
pub struct Puller<S: Source> {
    source: Arc<S>,
    cache: Arc<Cache>,
    room: Arc<Admission>,
    // Held only to decide, never while pulling.
    queue: Mutex<Queue>,
    // Held only to decide; taken before the queue's lock.
    patterns: Mutex<Patterns>,
    /// Whether reads of local blocks matter to a stream.
    is_streaming: AtomicBool,
    flights: SingleFlight<S::Part>,
    underway: Underway,
    /// The runtime for pulls: readers call from threads of their own.
    runtime: Handle,
    /// Raised whenever a job ends, or a part that a reader waits for has come, so that waiting readers look again.
    ended: watch::Sender<u64>,
    /// Changes whenever the store answers or fails to.
    health: watch::Sender<Health>,
    stalls: Stalls,
    /// A reader begins to wait for blocks.
    reader_came: Notify,
    /// A reader stops waiting.
    reader_left: Notify,
}

/// A reader that waits for blocks.
struct Awaited<S: Source> {
    puller: Arc<Puller<S>>,
    range: BlockRange,
    /// Keeps what has come from being evicted before the reader sees it.
    _stays: cache::Awaited,
}

impl<S: Source> Drop for Awaited<S> {
    fn drop(&mut self) {
        self.puller.queue.lock().wait_no_more(self.range);
        self.puller.reader_left.notify_waiters();
    }
}

impl<S: Source> Puller<S> {
    /// Pulls blocks of `source` into `cache`, on the runtime that calls this.
    pub fn new(source: S, cache: Arc<Cache>, room: Arc<Admission>) -> Arc<Self> {
        let puller = Arc::new(Self {
            source: Arc::new(source),
            cache,
            room,
            queue: Mutex::new(Queue::new()),
            patterns: Mutex::default(),
            is_streaming: AtomicBool::new(false),
            flights: SingleFlight::default(),
            underway: Underway::default(),
            runtime: Handle::current(),
            ended: watch::Sender::new(0),
            health: watch::Sender::new(Health::default()),
            stalls: Stalls::default(),
            reader_came: Notify::new(),
            reader_left: Notify::new(),
        });
        tokio::spawn(tries::look_whether_back(Arc::downgrade(&puller), puller.health()));
        tokio::spawn(ahead::leave_idle_readers(Arc::downgrade(&puller)));
        puller
    }

    /// Whether the store answers.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Bytes that are wanted and not here yet.
    pub fn pending_bytes(&self) -> u64 {
        self.queue.lock().pending_blocks() * crate::units::BLOCK_BYTES
    }

    /// The part of [`pending_bytes`](Self::pending_bytes) that is wanted only because it was read at an earlier opening.
    pub fn pending_trace_bytes(&self) -> u64 {
        self.queue.lock().pending_blocks_of(Class::Trace) * crate::units::BLOCK_BYTES
    }

    /// Switches pulls on or off, except those that readers wait for.
    pub fn set_background(self: &Arc<Self>, on: bool) {
        self.queue.lock().set_background(on);
        self.pump();
    }

    /// No longer wants these blocks merely because they were read at an earlier opening.
    pub fn leave_out(&self, range: BlockRange) {
        self.queue.lock().leave_out(range);
    }

    /// Wants blocks in the background.
    pub fn want(self: &Arc<Self>, class: Class, range: BlockRange) {
        let absent = self.missing(range);
        {
            let mut queue = self.queue.lock();
            absent.into_iter().for_each(|run| queue.want(class, run));
        }
        self.pump();
    }

    /// Ready when no block of `range` is missing (or one was evicted again at once: then the caller looks again). Waits for
    /// a store that cannot be reached; fails if waiting does not help.
    pub async fn demand(self: &Arc<Self>, range: BlockRange) -> Result<(), PullError> {
        self.demand_with(range, true).await
    }

    /// The same, without pulling anything ahead.
    pub async fn demand_alone(self: &Arc<Self>, range: BlockRange) -> Result<(), PullError> {
        self.demand_with(range, false).await
    }

    async fn demand_with(self: &Arc<Self>, range: BlockRange, ahead: bool) -> Result<(), PullError> {
        if self.missing(range).is_empty() {
            return Ok(());
        }
        let _waiting = self.wait_for(range);
        let mut ended = self.ended.subscribe();
        let mut is_told = !ahead;
        let (mut before, mut losses) = (vec![range], 0);
        loop {
            ended.borrow_and_update();
            let missing = self.missing(range);
            if missing.is_empty() {
                return Ok(());
            }
            let was_missing = |run: &BlockRange| before.iter().any(|before| before.intersect(run) == *run);
            if !missing.iter().all(was_missing) {
                losses += 1;
                if losses == LOSSES_MAX {
                    return Err(PullError::Cache("what is pulled goes at once".into()));
                }
            }
            before.clone_from(&missing);
            {
                let mut queue = self.queue.lock();
                for run in missing {
                    if let Some((_, error)) = queue.take_error(Class::Reader, run) {
                        return Err(error);
                    }
                    queue.want(Class::Reader, run);
                }
            }
            self.pump();
            // Read-ahead is queued after the blocks that the reader waits for.
            if !std::mem::replace(&mut is_told, true) {
                self.note_read(range, true);
            }
            ended.changed().await.expect("the sender lives as long as the puller");
        }
    }

    /// A reader waits for these blocks while the result lives.
    fn wait_for(self: &Arc<Self>, range: BlockRange) -> Awaited<S> {
        let _stays = self.cache.wait_for(range);
        self.queue.lock().wait_for(range);
        self.underway.are_awaited(range);
        self.reader_came.notify_waiters();
        Awaited { puller: self.clone(), range, _stays }
    }

    /// Ready when every missing block of the ranges has been pulled in the background. If the cache cannot hold all of
    /// them, the first ones have been evicted again by then.
    ///
    /// # Errors
    ///
    /// Some blocks could not be pulled, but all others were; or there is no space, and the rest is not waited for.
    pub async fn pull_all(self: &Arc<Self>, class: Class, ranges: &[BlockRange]) -> Result<(), PullError> {
        /// The share of the cache's limit that is wanted at once: one part in this many. More might push its own beginning
        /// out.
        const SHARE: u64 = 8;
        let most = (self.room.limit() / SHARE / crate::units::BLOCK_BYTES).max(1);
        let mut outcome = Ok(());
        self.queue.lock().forget_errors(class);
        for portion in portions(ranges, most) {
            let missing = portion.into_iter().flat_map(|range| self.missing(range)).collect();
            match self.pull_batch(class, missing).await {
                Err(PullError::CacheFull(full)) => return Err(full.into()),
                pulled => outcome = outcome.and(pulled),
            }
        }
        outcome
    }

    async fn pull_batch(self: &Arc<Self>, class: Class, batch: Vec<BlockRange>) -> Result<(), PullError> {
        /// How often to check: waiting jobs may be dropped without any job ending, as read-ahead is.
        const LOOK_EVERY: Duration = Duration::from_secs(10);
        let mut ended = self.ended.subscribe();
        let mut outcome = Ok(());
        {
            let mut queue = self.queue.lock();
            batch.iter().for_each(|run| queue.want(class, *run));
        }
        // One run after another: checking all of them whenever one has come would take time that grows with their square.
        for run in batch {
            let mut left = vec![run];
            loop {
                ended.borrow_and_update();
                left = left.into_iter().flat_map(|run| self.missing(run)).collect();
                {
                    let mut queue = self.queue.lock();
                    while let Some((blocks, error)) = queue.take_error(class, run) {
                        left = left.into_iter().flat_map(|run| run.without(&blocks)).collect();
                        match error {
                            PullError::CacheFull(full) => return Err(full.into()),
                            error => outcome = outcome.and(Err(error)),
                        }
                    }
                    left.iter().for_each(|run| queue.want(class, *run));
                }
                if left.is_empty() {
                    break;
                }
                self.pump();
                if let Ok(changed) = tokio::time::timeout(LOOK_EVERY, ended.changed()).await {
                    changed.expect("the sender lives as long as the puller");
                }
            }
        }
        outcome
    }

    /// Marks blocks of `range` that the source knows to be zero as local, without fetching them, however many there are.
    /// Returns how many blocks are data.
    pub(crate) async fn settle_zeros(&self, range: BlockRange) -> Result<u64, PullError> {
        let _stays = self.cache.begin_pull(range);
        let mut data = 0;
        for (run, content) in self.source.look_up(range).await? {
            match content {
                Content::Zero => self.cache.fill_zero(run).map_err(cache_failed)?,
                Content::Part(_) => data += run.count(),
            }
        }
        Ok(data)
    }

    /// The missing blocks: those neither in the cache nor written here and on their way to it.
    pub fn missing(&self, range: BlockRange) -> Vec<BlockRange> {
        let absent = self.cache.absent(range);
        absent.into_iter().flat_map(|run| self.source.not_written_here(run)).collect()
    }

    fn pump(self: &Arc<Self>) {
        loop {
            let Some(job) = self.queue.lock().begin_next() else { return };
            let puller = self.clone();
            self.runtime.spawn(async move {
                let ending = AssertUnwindSafe(puller.run(job)).catch_unwind().await;
                let ending = ending.unwrap_or_else(|_| failed("an internal error".into()));
                puller.queue.lock().ended(&job, ending, Instant::now().into_std());
                if job.class == Class::ReadAhead {
                    puller.leave_idle();
                }
                puller.ended.send_modify(|count| *count += 1);
                puller.pump();
            });
        }
    }

    async fn run(&self, job: Job) -> Ending {
        // The job may have waited long, and another one may have brought its blocks.
        if self.missing(job.blocks).is_empty() {
            return Ending::Needless;
        }
        let begun = Instant::now();
        let _admission = match self.room.let_in(job.blocks.byte_len()).await {
            Ok(admission) => admission,
            Err(full) => return Ending::Failed(full.into()),
        };
        let for_readers = ForReaders(&self.cache);
        let pulled = match job.class {
            Class::Reader => {
                tokio::select! { biased;
                    pulled = self.pull_until_done(job.blocks, &for_readers, Persistence::Always) => pulled,
                    () = self.left_while_away(job.blocks) => return Ending::Left,
                }
            }
            Class::ReadAhead if self.is_away() => return Ending::Left,
            Class::ReadAhead => {
                let pull = self.pull_until_done(job.blocks, &for_readers, Persistence::Tries(TRIES_AHEAD));
                self.beside_readers(&job, pull).await
            }
            Class::Metadata | Class::Pinned | Class::Trace => {
                let pull = self.pull_until_done(job.blocks, &*self.cache, Persistence::WhileAway);
                self.beside_readers(&job, pull).await
            }
        };
        match pulled {
            Ok(()) => Ending::Pulled(begun.elapsed()),
            Err(error) => Ending::Failed(error),
        }
    }

    /// Runs a pull in the background, until a reader waits for its blocks.
    async fn beside_readers<T>(&self, job: &Job, pull: impl Future<Output = T>) -> T {
        let registered = self.underway.begin(job.blocks);
        // The reader may have come before the pull was registered.
        if self.queue.lock().is_awaited(job.blocks) {
            registered.work.is_awaited_now();
        }
        registered.work.run(pull).await
    }
}

fn failed(why: String) -> Ending {
    Ending::Failed(PullError::Cache(why))
}

fn cache_failed(error: std::io::Error) -> PullError {
    PullError::Cache(error.to_string())
}
