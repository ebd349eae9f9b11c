//! When a collection ends early, and when it waits.
//!
//! Nobody needs a collection now. It ends at its next step where a person stops it or closes the drive; one that nobody asked for also
//! ends where somebody asks for something else. What it has deleted by then stays deleted, and the next one finds the rest: a cut
//! at any step leaves what a crash at that step would leave.

use super::requests::Waiting;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;

/// How long programs that read are waited for at each step: a collection gets on however much is read.
const FOR_READERS_MAX: Duration = Duration::from_secs(10);

/// Who wants a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A person, who waits for it.
    ByPerson,
    /// Nobody: there is much garbage.
    ByItself,
}

/// What is being done in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding what no version reaches.
    Looking,
    /// Deleting it.
    Deleting,
    /// Moving what is live out of objects that are mostly garbage.
    Repacking,
}

/// How far a collection is that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collecting {
    /// What is being done.
    pub stage: Stage,
    /// Objects of this stage that are done ...
    pub done: u64,
    /// ... of so many; 0 where nobody knows yet.
    pub total: u64,
}

/// Where collections are stopped, and told that programs read.
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

    /// How often collections were stopped so far: what is asked for from now on is not meant by that.
    pub fn stops(&self) -> u64 {
        *self.stops.borrow()
    }

    /// Stops the collections that were asked for so far.
    pub fn stop(&self) {
        self.stops.send_modify(|stops| *stops += 1);
    }

    /// Programs wait for the store now, or no longer.
    pub fn set_readers(&self, wait: bool) {
        self.readers.send_if_modified(|before| std::mem::replace(before, wait) != wait);
    }
}

/// What a collection looks at between its steps.
pub(super) struct Interrupted {
    stopped: watch::Receiver<u64>,
    read: watch::Receiver<bool>,
    waiting: watch::Receiver<Waiting>,
}

impl Interrupted {
    /// Whether a collection that was asked for after so many stops is to end.
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
                // Nobody can say so any more.
                pending::<()>().await;
            }
        }
    }

    /// Waits while programs do, for a while.
    pub async fn until_unread(&self) {
        let mut read = self.read.clone();
        let _ = tokio::time::timeout(FOR_READERS_MAX, read.wait_for(|read| !read)).await;
    }
}
