//! Pulling: from the store into the cache, by priority.
//!
//! A reader that waits, and whoever else wants blocks, tells the queue (`queue`, pure). A pull looks its blocks up in
//! the map, fetches the frames (neighbours in one ranged request), opens them, and fills what is still absent.

use crate::cache::Cache;
use crate::ext4::{InodeNumber, Walk};
use crate::journal::Journal;
use crate::map::{self, Content, Frame, Map, ReadError};
use crate::retry::Backoff;
use crate::store::pace::{in_background, is_background};
use crate::units::BlockRange;
use crate::volume::room::Room;
use futures_util::FutureExt;
use futures_util::stream::{StreamExt, TryStreamExt};
use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

mod flights;
mod neighbours;
mod queue;
mod scans;
mod sink;
mod streams;
mod strides;
mod window;

use flights::{Flights, landed};
use neighbours::Neighbours;
pub use queue::{Class, Ending, Job, Queue};
pub use scans::Scans;
pub use sink::Fetched;
use sink::{ForReaders, Sink};
use streams::{Part, Space, Streams};
use strides::Strides;

/// Why a pull did not bring its blocks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PullError {
    /// The store did not give them, or gave something else.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The local disk failed.
    #[error("the cache cannot be written: {0}")]
    Cache(String),
}

/// How often a reader may see go again what was pulled for it, before it reads past the cache.
const LOSSES_MAX: u32 = 3;

/// How often what may be read next is tried.
const TRIES_AHEAD: u32 = 4;

/// Brings blocks into the cache.
pub struct Puller {
    map: Arc<Map>,
    cache: Arc<Cache>,
    journal: Arc<Journal>,
    room: Arc<Room>,
    // Held to decide, never while pulling.
    queue: Mutex<Queue>,
    // Held to decide; taken before the queue's.
    patterns: Mutex<Patterns>,
    /// Which file has which blocks, as far as that is known.
    files: Arc<RwLock<Walk>>,
    /// Whether reads of what is local matter to a stream.
    is_streaming: AtomicBool,
    flights: Flights,
    /// Readers come on threads of their own.
    runtime: Handle,
    /// Raised whenever a job ends, so that waiting readers look again.
    ended: watch::Sender<u64>,
    /// Raised whenever the store answers or does not.
    health: watch::Sender<Health>,
    /// A reader waits for blocks from now on.
    reader_came: Notify,
    /// One does not any more.
    reader_left: Notify,
}

/// A reader waits for blocks.
struct Awaited {
    puller: Arc<Puller>,
    range: BlockRange,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.puller.queue.lock().wait_no_more(self.range);
        self.puller.reader_left.notify_waiters();
    }
}

/// How readers go on.
#[derive(Default)]
struct Patterns {
    streams: Streams,
    strides: Strides,
    neighbours: Neighbours,
}

/// Whether the store answers pulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why pulls wait or fail; `None` while all is well.
    pub trouble: Option<String>,
    /// Since when they do.
    pub since: Option<Instant>,
}

impl Health {
    /// Once more no answer came.
    fn note(&mut self, trouble: String) {
        self.trouble = Some(trouble);
        self.since.get_or_insert_with(Instant::now);
    }
}

impl Puller {
    /// Pulls blocks of `map` into `cache`, on the runtime that it is called on. `files` is whatever is known of the drive's
    /// files by the time somebody reads.
    pub fn new(
        map: Arc<Map>,
        cache: Arc<Cache>,
        journal: Arc<Journal>,
        room: Arc<Room>,
        files: Arc<RwLock<Walk>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            map,
            cache,
            journal,
            room,
            queue: Mutex::new(Queue::new()),
            patterns: Mutex::default(),
            files,
            is_streaming: AtomicBool::new(false),
            flights: Flights::default(),
            runtime: Handle::current(),
            ended: watch::Sender::new(0),
            health: watch::Sender::new(Health::default()),
            reader_came: Notify::new(),
            reader_left: Notify::new(),
        })
    }

    /// Whether the store answers.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Bytes that are wanted and not here yet.
    pub fn pending_bytes(&self) -> u64 {
        self.queue.lock().pending_blocks() * crate::units::BLOCK_BYTES
    }

    /// Switches all but what readers wait for on or off.
    pub fn set_background(self: &Arc<Self>, on: bool) {
        self.queue.lock().set_background(on);
        self.pump();
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

    /// Programs jump in the file, and read on from there.
    pub fn note_played(&self, file: InodeNumber) {
        self.patterns.lock().streams.note_played(file);
    }

    /// A reader reads blocks that are local, or of which some are `missed`: what follows is pulled ahead of it.
    pub fn note_read(self: &Arc<Self>, blocks: BlockRange, missed: bool) {
        if !missed && !self.is_streaming.load(Relaxed) {
            return;
        }
        // While files are being learnt about nobody can say whose these are, and the next read comes soon.
        let Some(files) = self.files.try_read() else { return };
        let place = files.file_at(blocks.start);
        let most = self.blocks_ahead();
        let drive = BlockRange::new(0, self.map.size_blocks());
        let (absent, no_more) = {
            let Patterns { streams, strides, neighbours } = &mut *self.patterns.lock();
            let (space, part) = match place {
                Some(at) => {
                    (Space { file: Some(at.file), end: at.end }, BlockRange::new(at.at, blocks.count()))
                }
                None => (Space { file: None, end: drive.end }, blocks),
            };
            let step = streams.read(space, part, missed, most);
            let mut absent = Vec::new();
            if let Some(want) = step.want {
                absent = on_drive(&files, want).into_iter().flat_map(|run| self.missing(run)).collect();
                streams.was_missing(want.blocks.count(), absent.iter().map(BlockRange::count).sum());
            }
            let mut next = if step.want.is_none() { strides.read(blocks) } else { Vec::new() };
            self.is_streaming.store(streams.is_any_open() || !next.is_empty(), Relaxed);
            let around = place.filter(|_| missed).and_then(|place| neighbours.missed(place, blocks));
            next.extend(around.filter(|around| around.count() <= most));
            absent.extend(next.into_iter().flat_map(|next| self.missing(next.intersect(&drive))));
            let no_more: Vec<_> = step.no_more.into_iter().flat_map(|part| on_drive(&files, part)).collect();
            (absent, no_more)
        };
        drop(files);
        if absent.is_empty() && no_more.is_empty() {
            return;
        }
        {
            let mut queue = self.queue.lock();
            no_more.into_iter().for_each(|range| queue.want_no_more(range));
            absent.into_iter().for_each(|run| queue.want(Class::ReadAhead, run));
        }
        self.pump();
    }

    /// Blocks ahead of a stream that are of use, and do not push what others read out of a small cache.
    fn blocks_ahead(&self) -> u64 {
        /// Of the cache's limit: one part in so many.
        const AHEAD_SHARE: u64 = 16;
        let room = self.room.limit() / AHEAD_SHARE / crate::units::BLOCK_BYTES;
        self.queue.lock().blocks_ahead().min(room)
    }

    /// Ready when no block of `range` is missing any more (or one was evicted again at once: then the caller looks
    /// again). A store that cannot be reached is waited for; what cannot be mended by waiting is an error.
    pub async fn demand(self: &Arc<Self>, range: BlockRange) -> Result<(), PullError> {
        self.demand_with(range, true).await
    }

    /// The same, and nothing is pulled ahead because of it.
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
                    if let Some(error) = queue.take_error(run) {
                        return Err(error);
                    }
                    queue.want(Class::Reader, run);
                }
            }
            self.pump();
            // What a stream wants goes behind what its reader waits for.
            if !std::mem::replace(&mut is_told, true) {
                self.note_read(range, true);
            }
            ended.changed().await.expect("the sender lives as long as the puller");
        }
    }

    /// For as long as it lives a reader waits for these blocks.
    fn wait_for(self: &Arc<Self>, range: BlockRange) -> Awaited {
        self.queue.lock().wait_for(range);
        self.reader_came.notify_waiters();
        Awaited { puller: self.clone(), range }
    }

    /// Ready when no block of the ranges is missing any more, pulled in the background.
    ///
    /// # Errors
    ///
    /// Too many pulls failed meanwhile, these or others.
    pub async fn pull_all(self: &Arc<Self>, class: Class, ranges: &[BlockRange]) -> Result<(), PullError> {
        /// Others may fail too.
        const FAILURES_MAX: u64 = 16;
        let mut ended = self.ended.subscribe();
        let first = self.queue.lock().failures(class);
        loop {
            let missing: Vec<_> = ranges.iter().flat_map(|range| self.missing(*range)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            {
                let mut queue = self.queue.lock();
                missing.iter().for_each(|run| queue.want(class, *run));
            }
            // One after another: looking at all of them whenever one has come would take a time that grows with their square.
            for run in missing {
                loop {
                    ended.borrow_and_update();
                    let missing = self.missing(run);
                    if missing.is_empty() {
                        break;
                    }
                    {
                        let mut queue = self.queue.lock();
                        if queue.failures(class) - first > FAILURES_MAX {
                            return Err(PullError::Cache(
                                "what is pulled in the background does not come".into(),
                            ));
                        }
                        missing.into_iter().for_each(|run| queue.want(class, run));
                    }
                    self.pump();
                    ended.changed().await.expect("the sender lives as long as the puller");
                }
            }
        }
    }

    /// Makes what the map knows to be zero of `range` local without asking for it, however much it is. Returns how many
    /// blocks are data.
    pub(crate) async fn settle_zeros(&self, range: BlockRange) -> Result<u64, PullError> {
        let _stays = self.cache.begin_pull(range);
        let mut data = 0;
        for (run, content) in self.map.look_up(range).await? {
            match content {
                Content::Zero => self.cache.fill_zero(run).map_err(cache_failed)?,
                Content::Frame(_) => data += run.count(),
            }
        }
        Ok(data)
    }

    /// What is neither in the cache nor in the journal.
    pub fn missing(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut missing = self.cache.absent(range);
        if self.journal.holds_any(range) {
            missing = missing
                .into_iter()
                .flat_map(|run| self.journal.look_up(run))
                .filter_map(|(run, entry)| entry.is_none().then_some(run))
                .collect();
        }
        missing
    }

    fn pump(self: &Arc<Self>) {
        loop {
            let Some(job) = self.queue.lock().begin_next() else { return };
            let puller = self.clone();
            self.runtime.spawn(async move {
                let ending = AssertUnwindSafe(puller.run(job)).catch_unwind().await;
                let ending = ending.unwrap_or_else(|_| failed("an internal error".into()));
                puller.queue.lock().ended(&job, ending, Instant::now().into_std());
                puller.ended.send_modify(|count| *count += 1);
                puller.pump();
            });
        }
    }

    /// Fetches what is missing of `range` for one reader, past a cache that has no room for it.
    pub async fn fetch_past_cache(&self, range: BlockRange) -> Result<Fetched, PullError> {
        let fetched = Fetched::default();
        for run in self.missing(range) {
            self.pull_until_done(run, &fetched, u32::MAX).await?;
        }
        Ok(fetched)
    }

    async fn run(&self, job: Job) -> Ending {
        // It may have waited for long, and have come for somebody else.
        if self.missing(job.blocks).is_empty() {
            return Ending::Needless;
        }
        let begun = Instant::now();
        let _admission = match self.room.let_in(job.blocks.byte_len()).await {
            Ok(admission) => admission,
            Err(full) => return failed(full.to_string()),
        };
        let for_readers = ForReaders(&self.cache);
        let pulled = match job.class {
            Class::Reader => {
                tokio::select! { biased;
                    pulled = self.pull_until_done(job.blocks, &for_readers, u32::MAX) => pulled,
                    () = self.left_while_away(job.blocks) => return Ending::Left,
                }
            }
            Class::ReadAhead if self.is_away() => return Ending::Left,
            Class::ReadAhead => {
                in_background(self.pull_until_done(job.blocks, &for_readers, TRIES_AHEAD)).await
            }
            Class::Metadata | Class::Pinned | Class::Trace | Class::Rest => {
                in_background(self.pull_until_done(job.blocks, &*self.cache, u32::MAX)).await
            }
        };
        match pulled {
            Ok(()) => Ending::Pulled(begun.elapsed()),
            Err(error) => Ending::Failed(error),
        }
    }

    /// Ready once nobody waits for the blocks any more while the store does not answer. What it is answering comes, wanted or not.
    async fn left_while_away(&self, blocks: BlockRange) {
        let mut health = self.health.subscribe();
        loop {
            let has_left = self.reader_left.notified();
            if health.borrow_and_update().trouble.is_some() && !self.queue.lock().is_awaited(blocks) {
                return;
            }
            tokio::select! {
                () = has_left => {}
                changed = health.changed() => changed.expect("the sender lives as long as the puller"),
            }
        }
    }

    /// Whether the store has been away for long enough not to be asked for what is only likely to be read: by the time that it is
    /// back somebody reads something else, behind which this would come.
    fn is_away(&self) -> bool {
        const LONG: Duration = Duration::from_secs(10);
        self.health.borrow().since.is_some_and(|since| since.elapsed() >= LONG)
    }

    /// Pulls until it succeeds or cannot succeed, or has been tried so often.
    async fn pull_until_done(
        &self,
        blocks: BlockRange,
        sink: &impl Sink,
        tries: u32,
    ) -> Result<(), PullError> {
        let mut backoff = Backoff::new();
        let mut waited = false;
        loop {
            match self.pull(blocks, sink).await {
                Ok(()) => {
                    if waited {
                        self.is_well();
                    }
                    return Ok(());
                }
                Err(PullError::Read(error)) if error.is_transient() && backoff.tries() + 1 < tries => {
                    waited = true;
                    self.health.send_modify(|health| health.note(error.to_string()));
                    self.pause(blocks, backoff.next(crate::retry::hint(&error)), error.is_unreachable())
                        .await;
                }
                Err(error) => {
                    self.health.send_modify(|health| health.note(error.to_string()));
                    return Err(error);
                }
            }
        }
    }

    /// Waits before the next try: shorter where it was the way to the store that failed, and others have found it open again, or
    /// a reader has come for the blocks. What a store asks for is kept.
    async fn pause(&self, blocks: BlockRange, pause: Duration, is_unreachable: bool) {
        /// At least.
        const LEAST: Duration = Duration::from_millis(250);
        if !is_unreachable {
            return tokio::time::sleep(pause).await;
        }
        let mut health = self.health.subscribe();
        let reader = async {
            loop {
                let came = self.reader_came.notified();
                came.await;
                if self.queue.lock().is_awaited(blocks) {
                    return;
                }
            }
        };
        let sooner = async {
            tokio::select! {
                _ = health.wait_for(|health| health.trouble.is_none()) => {}
                () = reader => {}
            }
        };
        let begun = Instant::now();
        let _ = tokio::time::timeout(pause, sooner).await;
        tokio::time::sleep_until(begun + LEAST.min(pause)).await;
    }

    /// The store has answered. (Zeros come without it, and say nothing about it.)
    fn is_well(&self) {
        self.health.send_if_modified(|health| std::mem::take(health) != Health::default());
    }

    async fn pull(&self, blocks: BlockRange, sink: &impl Sink) -> Result<(), PullError> {
        let _stays = self.cache.begin_pull(blocks);
        loop {
            let found = self.map.look_up(blocks).await?;
            match self.pull_found(&found, sink).await {
                // A collection has moved the blocks since they were looked up.
                Err(PullError::Read(error))
                    if error.is_missing() && self.map.look_up(blocks).await? != found => {}
                result => return result,
            }
        }
    }

    async fn pull_found(&self, found: &[(BlockRange, Content)], sink: &impl Sink) -> Result<(), PullError> {
        /// Ranged requests of one job at once.
        const REQUESTS: usize = 8;
        let mut frames: Vec<Frame> = Vec::new();
        for (run, content) in found {
            match content {
                Content::Zero => sink.zero(*run).map_err(cache_failed)?,
                Content::Frame(frame) if frames.last() != Some(frame) => frames.push(*frame),
                Content::Frame(_) => {}
            }
        }
        frames.sort_unstable();
        frames.dedup();
        let (flight, frames, theirs) = match sink.is_everybodys() {
            true => {
                let (flight, ours, theirs) = self.flights.begin(frames, is_background());
                (Some(flight), ours, theirs)
            }
            false => (None, frames, Vec::new()),
        };
        let fetches: Vec<_> = requests(frames).into_iter().map(|frames| self.fetch(frames, sink)).collect();
        let fetched = futures_util::stream::iter(fetches).buffer_unordered(REQUESTS).try_collect().await;
        // Before others are waited for: they may wait for these.
        drop(flight);
        futures_util::future::join_all(theirs.into_iter().map(landed)).await;
        fetched
    }

    /// Fetches frames that lie side by side in one segment, in one ranged request.
    async fn fetch(&self, frames: Vec<Frame>, sink: &impl Sink) -> Result<(), PullError> {
        let objects = self.map.objects();
        let range = extent(&frames);
        let name = frames[0].segment.name(crate::format::id::ObjectKind::Segment);
        let open = |body: &[u8]| {
            let open = |frame: &Frame| {
                let at = (u64::from(frame.offset) - range.start) as usize;
                objects.open_frame(frame, body.get(at..at + frame.stored_len as usize).unwrap_or_default())
            };
            frames.iter().map(open).collect::<Result<Vec<_>, _>>()
        };
        let (opened, _) = map::read(objects.store().as_ref(), &name, Some(range.clone()), open).await?;
        self.is_well();
        for (frame, data) in frames.iter().zip(opened) {
            self.fill(frame, &data, sink).await?;
        }
        Ok(())
    }

    /// Fills from a frame what the map still takes from it: other blocks of it may have been committed since. The
    /// chunk is protected from eviction, so a block that was written since is not absent.
    async fn fill(&self, frame: &Frame, data: &[u8], sink: &impl Sink) -> Result<(), PullError> {
        for (run, content) in self.map.look_up(frame.blocks).await? {
            if content == Content::Frame(*frame) {
                let from = ((run.start - frame.blocks.start) * crate::units::BLOCK_BYTES) as usize;
                let bytes = &data[from..from + run.byte_len() as usize];
                sink.data(run, bytes).map_err(cache_failed)?;
            }
        }
        Ok(())
    }
}

/// Where a part lies.
fn on_drive(files: &Walk, part: Part) -> Vec<BlockRange> {
    match part.file {
        None => vec![part.blocks],
        Some(file) => files.blocks_of(file, part.blocks),
    }
}

fn failed(why: String) -> Ending {
    Ending::Failed(PullError::Cache(why))
}

fn cache_failed(error: std::io::Error) -> PullError {
    PullError::Cache(error.to_string())
}

/// Frames, in order, grouped so that each group is one ranged request: same segment, side by side or nearly.
fn requests(frames: Vec<Frame>) -> Vec<Vec<Frame>> {
    /// Fetching so many bytes for nothing is cheaper than another request.
    const GAP_BYTES: u64 = 16 << 10;
    /// One request carries at most so much, so that it can be spread and retried.
    const REQUEST_BYTES_MAX: u64 = 1 << 20;
    let mut groups: Vec<Vec<Frame>> = Vec::new();
    for frame in frames {
        if let Some(group) = groups.last_mut() {
            let extent = extent(group);
            let end = u64::from(frame.offset) + u64::from(frame.stored_len);
            let near = u64::from(frame.offset) <= extent.end + GAP_BYTES;
            if group[0].segment == frame.segment && near && end - extent.start <= REQUEST_BYTES_MAX {
                group.push(frame);
                continue;
            }
        }
        groups.push(vec![frame]);
    }
    groups
}

fn extent(frames: &[Frame]) -> Range<u64> {
    let start = frames.iter().map(|frame| u64::from(frame.offset)).min().unwrap_or(0);
    let end =
        frames.iter().map(|frame| u64::from(frame.offset) + u64::from(frame.stored_len)).max().unwrap_or(0);
    start..end
}
