//! What the parts of the outbox share.

use super::conflicts::Conflicts;
use super::desk::{Clocks, Desk};
use super::written::Sent;
use crate::clock;
use crate::disk::Disk;
use crate::folder::node::{Ino, Node, Place};
use crate::folder::shared::Shared;
use crate::store::remote::RemotePath;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

/// Memory for the bytes of small files under way, in KiB: two of the largest.
const MEMORY_KIB: usize = 32 << 10;

/// The outbox's parts.
pub(super) struct Works {
    pub shared: Arc<Shared>,
    pub conflicts: Conflicts,
    // Held for a decision, also inside of the ledger's: nothing that is called under it waits, or asks the ledger.
    pub desk: Mutex<Desk>,
    /// Something on the desk has changed that may let an action begin.
    pub wake: Notify,
    /// Counts what happened, for those that wait for the end of something.
    pub happened: watch::Sender<u64>,
    /// The last counts of changes and of what happened at which there was nothing more to begin.
    pub idle: watch::Sender<Option<(u64, u64)>>,
    pub stopped: watch::Sender<bool>,
    pub memory: Arc<Semaphore>,
    /// What the remote has of contents that stay, since programs may write to them.
    // Held to look up or change one.
    pub sent: Mutex<BTreeMap<Ino, Sent>>,
    syncs: GroupSync,
    started: Instant,
}

/// Syncs of the table of numbers, shared by all that wait at a time.
#[derive(Default)]
struct GroupSync {
    asked: AtomicU64,
    done: tokio::sync::Mutex<u64>,
}

impl Works {
    pub fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            shared,
            conflicts: Conflicts::open(disk)?,
            desk: Mutex::default(),
            wake: Notify::new(),
            happened: watch::Sender::new(0),
            idle: watch::Sender::new(None),
            stopped: watch::Sender::new(false),
            memory: Arc::new(Semaphore::new(MEMORY_KIB)),
            sent: Mutex::default(),
            syncs: GroupSync::default(),
            started: Instant::now(),
        }))
    }

    /// The outbox's clock.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// That time of the outbox's clock.
    pub fn at(&self, now: Duration) -> Instant {
        self.started + now
    }

    pub fn clocks(&self) -> Clocks {
        Clocks { now: self.now(), now_ms: clock::now_ms() }
    }

    /// Changes the desk, and lets the runner look at it again.
    pub fn tell<T>(&self, change: impl FnOnce(&mut Desk) -> T) -> T {
        let told = change(&mut self.desk.lock());
        self.happened.send_modify(|count| *count += 1);
        self.wake.notify_one();
        told
    }

    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Waits for something, but not longer than the outbox works.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stopped = self.stopped.subscribe();
        tokio::select! { biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => None,
            done = work => Some(done),
        }
    }

    /// Where the remote has a directory's name.
    pub fn path_at(&self, place: &Place) -> Option<RemotePath> {
        Some(self.shared.paths.path_of(place.parent)?.join(&place.name))
    }

    /// Whether a content is still of that generation, and nobody may write to it.
    pub fn is_unchanged(&self, ino: Ino, generation: u64) -> bool {
        let is_it = |node: &Node| {
            !node.may_be_written && node.content.as_ref().is_some_and(|here| here.generation == generation)
        };
        !self.shared.opens.is_open_to_write(ino)
            && self.shared.ledger.read(|tree| tree.node(ino).is_some_and(is_it))
    }

    /// Makes durable which name has which number.
    pub async fn sync_numbers(&self) -> io::Result<()> {
        let turn = self.syncs.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut done = self.syncs.done.lock().await;
        if *done >= turn {
            return Ok(());
        }
        let covers = self.syncs.asked.load(Ordering::SeqCst);
        self.shared.inodes.sync().await?;
        *done = covers;
        Ok(())
    }
}
