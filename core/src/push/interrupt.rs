//! When a collection ends early, and when it waits.
//!
//! A collection is never urgent. It ends at its next step if a person stops it or closes the drive; one that nobody
//! requested also ends when another request comes. Objects that it has deleted by then stay deleted, and the next
//! collection finds the rest: stopping at any step leaves the same as a crash at that step.

use super::requests::Waiting;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait for reading programs at each step: a collection advances however much is read.
const FOR_READERS_MAX: Duration = Duration::from_secs(10);

/// The origin of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A person, who waits for it.
    ByPerson,
    /// Nobody: there is much garbage.
    ByItself,
}

/// The stages of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding objects that no version reaches.
    Looking,
    /// Deleting them.
    Deleting,
    /// Moving live data out of objects that are mostly garbage.
    Repacking,
}

/// The progress of a collection that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collecting {
    /// The current stage.
    pub stage: Stage,
    /// Objects of this stage that are done ...
    pub done: u64,
    /// ... of this many; 0 if not known yet.
    pub total: u64,
}

/// Stops collections, and tells them that programs read.
pub(super) struct Interrupts {
    stops: watch::Sender<u64>,
    readers: watch::Sender<bool>,
}

impl Interrupts {
    pub fn new(waiting: watch::Receiver<Waiting>) -> (Self, Interrupted) {
        let (stops, stopped) = watch::channel(0);
        let (readers, read) = watch::channel(false);
        (Self { stops, readers }, Interrupted { stopped, read, waiting })
    }

    /// How often collections were stopped so far: this count does not stop a collection that is requested from now on.
    pub fn stops(&self) -> u64 {
        *self.stops.borrow()
    }

    /// Stops the collections that were requested so far.
    pub fn stop(&self) {
        self.stops.send_modify(|stops| *stops += 1);
    }

    /// Says whether programs wait for the store.
    pub fn set_readers(&self, wait: bool) {
        self.readers.send_if_modified(|before| std::mem::replace(before, wait) != wait);
    }
}

/// The signals that a collection checks between its steps.
pub(super) struct Interrupted {
    stopped: watch::Receiver<u64>,
    read: watch::Receiver<bool>,
    waiting: watch::Receiver<Waiting>,
}

impl Interrupted {
    /// Whether a collection that was requested after `stops` stops has to end.
    pub fn is_cut_off(&self, wanted: Wanted, stops: u64) -> bool {
        let is_in_the_way = wanted == Wanted::ByItself && self.waiting.borrow().requests > 1;
        *self.stopped.borrow() > stops || is_in_the_way
    }

    /// Waits until that is so.
    pub async fn cut_off(&self, wanted: Wanted, stops: u64) {
        let (mut stopped, mut waiting) = (self.stopped.clone(), self.waiting.clone());
        while !self.is_cut_off(wanted, stops) {
            let is_over = tokio::select! {
                changed = stopped.changed() => changed.is_err(),
                changed = waiting.changed() => changed.is_err(),
            };
            if is_over {
                // No one is left to stop it.
                pending::<()>().await;
            }
        }
    }

    /// Waits while programs read, up to a limit.
    pub async fn until_unread(&self) {
        let mut read = self.read.clone();
        let _ = tokio::time::timeout(FOR_READERS_MAX, read.wait_for(|read| !read)).await;
    }
}
