//! Pushing: from the journal to the store, in batches that are committed one after another.
//!
//! A batch is a contiguous range of durable records. It is sealed from the journal (the cache may already hold newer data).
//! Its segments are put, then the root, then HEAD is swapped: that swap is the only commit point. A crash anywhere before
//! leaves objects that nothing names, never a version with a hole.
//!
//! One task does all of this, so there is never more than one swap under way. If a put may or may not have taken effect,
//! the task asks again until it knows.

use crate::fence::Fence;
use crate::format::head::Head;
use crate::format::id::ObjectId;
use crate::format::root::{Root, Snapshot};
pub use crate::heads::Device;
use crate::heads::transition::Invalid;
use crate::journal::{Journal, JournalError};
use crate::local::{Base, Fork, Inherits};
use crate::map::{Map, ReadError};
use crate::store::Etag;
use crate::units::{Epoch, Lsn};
use crate::volume::VolumeLimits;
use async_trait::async_trait;
use serde::Serialize;
use std::future::pending;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

mod commit;
mod fork;
mod gc;
pub(crate) mod hold;
mod interrupt;
mod lanes;
mod pack;
mod pause;
mod policy;
mod repack;
mod requests;
mod sending;
mod take;
mod task;

pub use crate::reach::{Reference, ReferenceKind};
pub use gc::Collected;
use interrupt::Interrupts;
pub use interrupt::{Collecting, Stage, Wanted};
use pack::Namer;
use pause::Pause;
pub use policy::{Decision, Facts, decide};
use requests::{Request, Requests};

/// Why a request to push failed, or why nothing can be pushed any longer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PushError {
    /// Another device has the drive, and the changes that are not pushed cannot become a fork: no version that the fork
    /// could begin with is kept.
    #[error("{} has taken the drive over (epoch {})", .0.device_name, .0.epoch)]
    Fenced(Fence),
    /// Another device has the drive. The changes that it lacks are a fork now, and are pushed there from now on.
    #[error("{} has taken the drive over (epoch {}); your changes go on as a fork", .0.device_name, .0.epoch)]
    Forked(Fence),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The map cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// HEAD allows no such change.
    #[error(transparent)]
    Head(#[from] Invalid),
    /// Pushing is switched off.
    #[error("pushing is paused")]
    Paused,
    /// The drive is being handed over: nothing is committed meanwhile.
    #[error("the drive is being handed over to another computer")]
    OnHold,
    /// The drive was handed over.
    #[error("{to} has the drive now")]
    HandedOver {
        /// The name of the device that has it.
        to: String,
    },
    /// A collection was stopped, or gave way to another request.
    #[error("the collection was stopped")]
    CutOff,
    /// The drive is closing.
    #[error("the drive is closed")]
    Closed,
    /// A label that cannot be used.
    #[error(transparent)]
    Label(#[from] LabelError),
}

/// Why a snapshot's label cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Another snapshot has it.
    #[error("a snapshot \"{0}\" is there already")]
    Taken(String),
    /// No snapshot has it.
    #[error("there is no snapshot \"{0}\"")]
    Missing(String),
    /// Holdall gives such labels itself and relies on them.
    #[error("\"{0}\" is a label that Holdall gives itself")]
    Reserved(String),
}

/// A committed version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Name of the root.
    pub root: String,
    /// BLAKE3 of the root object, in hex.
    pub root_hash: String,
    /// The writer's generation.
    pub epoch: u64,
    /// The last record that is contained.
    pub lsn: u64,
}

/// The state of pushing.
#[derive(Clone, Debug)]
pub struct PushState {
    /// The last record that is in the store.
    pub committed: Lsn,
    /// The current version.
    pub root: ObjectId,
    /// BLAKE3 of its object.
    pub root_hash: [u8; 32],
    /// The writer's generation.
    pub epoch: Epoch,
    /// When the last commit was made, Unix time in ms.
    pub committed_ms: u64,
    /// Since when data waits that is not in the store, to about a second; `None` if none does.
    pub waiting_since: Option<Instant>,
    /// Whether a batch is on its way.
    pub pushing: bool,
    /// Bytes of the batch that were put, and bytes of the batch in all, counted on the drive.
    pub batch: (u64, u64),
    /// Bytes of the journal that the batch was made of; 0 if no batch is under way.
    pub batch_journal_bytes: u64,
    /// Bytes of the drive that were put since it was opened; it only grows.
    pub put_bytes: u64,
    /// The objects that are being uploaded, oldest first. A batch has few at once.
    pub outgoing: Vec<Outgoing>,
    /// When the store took the last commit.
    pub answered: Option<Instant>,
    /// Why pushing makes no progress; `None` while all is well.
    pub trouble: Option<String>,
    /// Whether the reason is that the store is full.
    pub is_full: bool,
    /// Whether the drive was taken: it was opened with its store, or the store has come back since.
    pub is_taken: bool,
    /// Whether nothing is committed because the drive is being handed over.
    pub is_on_hold: bool,
    /// Why pushing has stopped for good.
    pub stopped: Option<PushError>,
    /// The fork that this state is about, if it is one.
    pub fork: Option<Fork>,
    /// The store's bytes, as far as known without asking it.
    pub stored: Stored,
    /// The collection that is under way.
    pub collecting: Option<Collecting>,
}

impl PushState {
    /// Bytes that wait, given the `bytes` that the journal has after the last commit: what has been put of the batch is
    /// subtracted in proportion. The number falls as segments are put, and is above zero until the commit that counts them.
    pub fn waiting_bytes(&self, bytes: u64) -> u64 {
        /// Stands for the commit itself.
        const LAST: u64 = 4096;
        bytes.saturating_sub(self.batch_put_bytes().min(bytes)).max(LAST.min(bytes))
    }

    /// Bytes of the current batch that still wait, counted as in [`PushState::waiting_bytes`].
    pub fn batch_left_bytes(&self) -> u64 {
        self.batch_journal_bytes - self.batch_put_bytes()
    }

    /// Bytes of the batch that have been put, counted in the journal.
    fn batch_put_bytes(&self) -> u64 {
        let (done, total) = self.batch;
        let put =
            u128::from(self.batch_journal_bytes) * u128::from(done.min(total)) / u128::from(total.max(1));
        put as u64
    }
}

/// A drive's bytes in its store, as far as known without asking it. The difference between two of these shows how much
/// garbage arose in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of objects that were put since the drive was opened; it only grows.
    pub put_bytes: u64,
    /// Bytes of segments that the map's pages reach. `None` before the first checkpoint since the opening, unless there are
    /// no pages.
    pub pages_reached_bytes: Option<u64>,
    /// Bytes of segments that commits since the last checkpoint reach. `None` before that is known.
    pub tail_reached_bytes: Option<u64>,
    /// Bytes of the drive that those commits write. Once the pages are written again, they reach at most that many bytes
    /// less.
    pub tail_covers_bytes: u64,
    /// How many collections have ended since the opening, and what the last one did.
    pub collected: Option<(u64, Collected)>,
}

/// An object that is on its way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// How often the store did not accept it.
    pub failures: u32,
    /// Why not, the last time.
    pub last_error: Option<String>,
    /// When it is tried again, Unix time in ms; `None` while it is being tried.
    pub next_try_ms: Option<u64>,
}

/// Pushes one open drive.
pub struct Pusher {
    requests: Requests,
    state: watch::Receiver<PushState>,
    paused: watch::Sender<bool>,
    /// Ends waits between two tries.
    again: Arc<Notify>,
    interrupts: Interrupts,
    // Held only to take it out.
    task: parking_lot::Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// Keeps a local record of versions and forks.
#[async_trait]
pub(crate) trait Remembers: Send + Sync {
    /// A version was committed.
    fn committed(&self, head: &Head, root: &Root);
    /// The version that is remembered.
    fn base(&self) -> Option<Base>;
    /// From now on everything goes to a fork. Returns when that is recorded durably.
    async fn forked(&self, fork: Fork);
}

/// The parts that the push task works with.
pub(crate) struct Parts {
    pub journal: Arc<Journal>,
    pub map: Arc<Map>,
    pub device: Device,
    pub head: Head,
    /// `None` if the store was away: then `head` is what this device saw last, and the drive is taken once the store is
    /// back.
    pub etag: Option<Etag>,
    pub root: Root,
    pub committed: Lsn,
    /// Own CRC of the record `committed`.
    pub committed_crc: u32,
    pub limits: VolumeLimits,
    /// Learns of every commit before anything relies on it.
    pub remembers: Arc<dyn Remembers>,
    /// The fork that is opened.
    pub fork: Option<Fork>,
    /// What the journal contains of other devices' journals, until a commit says so.
    pub inherits: Option<Inherits>,
}

impl Pusher {
    pub(crate) fn start(parts: Parts) -> Self {
        let (requests, asked, waiting) = requests::channel();
        let tail = parts.map.tail_bytes();
        let state = PushState {
            committed: parts.committed,
            root: parts.head.root,
            root_hash: parts.head.root_hash,
            epoch: parts.head.epoch,
            committed_ms: parts.root.committed_ms,
            pushing: false,
            batch: (0, 0),
            batch_journal_bytes: 0,
            put_bytes: 0,
            outgoing: Vec::new(),
            answered: None,
            trouble: parts
                .etag
                .is_none()
                .then(|| "the store did not answer when the drive was opened".into()),
            is_full: false,
            is_taken: parts.etag.is_some(),
            is_on_hold: false,
            stopped: None,
            waiting_since: None,
            fork: parts.fork.clone(),
            stored: Stored {
                pages_reached_bytes: parts.root.pages.is_empty().then_some(0),
                tail_reached_bytes: tail.map(|tail| tail.reached),
                tail_covers_bytes: tail.map_or(0, |tail| tail.covered),
                ..Stored::default()
            },
            collecting: None,
        };
        let (publish, state) = watch::channel(state);
        let (paused, is_paused) = watch::channel(parts.limits.push_paused);
        let again = Arc::new(Notify::new());
        let (interrupts, interrupted) = Interrupts::new(waiting.clone());
        let pause = Pause::new(is_paused, waiting);
        let task = task::Task::new(parts, publish, pause, interrupted, again.clone());
        let task = parking_lot::Mutex::new(Some(tokio::spawn(task.run(asked))));
        Self { requests, state, paused, again, interrupts, task }
    }

    /// The state of pushing, now and from now on.
    pub fn state(&self) -> watch::Receiver<PushState> {
        self.state.clone()
    }

    /// Switches pushing off or on. Uploads under way are cut off, and continue where they were once pushing is on again. If
    /// a request waits for them, it fails with [`PushError::Paused`], and its batch starts over later.
    pub fn set_paused(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Whether pushing is switched off.
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Whether there is no progress: pushing is switched off, the store does not accept data, or another device has the
    /// drive.
    pub fn is_stuck(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (state, paused) = (self.state.clone(), self.paused.subscribe());
        move || {
            let state = state.borrow();
            *paused.borrow() || state.trouble.is_some() || state.stopped.is_some()
        }
    }

    /// Waits until the store has no space for pushed data.
    pub async fn until_full(&self) {
        if self.state.clone().wait_for(|state| state.is_full).await.is_err() {
            pending().await
        }
    }

    /// Retries at once whatever waits to be tried again, and pushes everything that is appended now without waiting for
    /// more.
    pub fn push_now(&self) {
        self.again.notify_waiters();
        // The answer is dropped; a task that has ended has published why.
        let _ = self.requests.send(Request::Sync(oneshot::channel().0));
    }

    /// Pushes everything that is appended now, and waits for the commit.
    pub async fn sync(&self) -> Result<Committed, PushError> {
        self.ask(Request::Sync).await
    }

    /// Pushes everything, and keeps that version under `label`.
    pub async fn snapshot(&self, label: &str) -> Result<Snapshot, PushError> {
        self.ask(|reply| Request::Snapshot(label.to_owned(), reply)).await
    }

    /// Stops keeping the version under `label`.
    pub async fn drop_snapshot(&self, label: &str) -> Result<(), PushError> {
        self.ask(|reply| Request::DropSnapshot(label.to_owned(), reply)).await
    }

    /// Collects garbage. This goes before an upload for which the store has no space.
    pub async fn collect(&self) -> Result<Collected, PushError> {
        self.collect_for(Wanted::ByPerson).await
    }

    /// Collects garbage on Holdall's own initiative: ends with [`PushError::CutOff`] if another request comes.
    pub async fn collect_unasked(&self) -> Result<Collected, PushError> {
        self.collect_for(Wanted::ByItself).await
    }

    async fn collect_for(&self, wanted: Wanted) -> Result<Collected, PushError> {
        let stops = self.interrupts.stops();
        self.ask(|reply| Request::Collect { wanted, stops, reply }).await
    }

    /// Stops the collection that is under way and those that were requested: they end with [`PushError::CutOff`] at their
    /// next step.
    pub fn stop_collecting(&self) {
        self.interrupts.stop();
    }

    /// Says whether programs wait for the store: a collection waits for them at each step.
    pub fn set_readers(&self, wait: bool) {
        self.interrupts.set_readers(wait);
    }

    /// Writes the map's pages again, so that what they no longer reach is known. A page that cannot be read now postpones
    /// this.
    pub async fn checkpoint(&self) -> Result<(), PushError> {
        self.ask(Request::Checkpoint).await
    }

    /// Records in HEAD that no device has the drive open. Nothing may be pushed afterwards.
    pub async fn release(&self) -> Result<(), PushError> {
        self.ask(Request::Release).await
    }

    /// Ends pushing, and waits until it has ended. A swap that is under way is applied or not; the next opening's swap
    /// comes after it either way.
    pub async fn stop(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, PushError>>) -> Request,
    ) -> Result<T, PushError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply))?;
        answer.await.map_err(|_| PushError::Closed)?
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        if let Some(task) = &*self.task.lock() {
            task.abort();
        }
    }
}
