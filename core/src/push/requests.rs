//! What the push task is asked to do, and by how many.

use super::{Collected, Committed, PushError, Wanted};
use crate::format::root::Snapshot;
use std::collections::VecDeque;
use tokio::sync::{mpsc, oneshot, watch};

/// What the push task is asked to do.
pub(crate) enum Request {
    /// Push everything that is appended now.
    Sync(oneshot::Sender<Result<Committed, PushError>>),
    /// Push everything, and keep that version under a label.
    Snapshot(String, oneshot::Sender<Result<Snapshot, PushError>>),
    /// Stop keeping a version.
    DropSnapshot(String, oneshot::Sender<Result<(), PushError>>),
    /// Collect garbage.
    Collect {
        /// Who wants it.
        wanted: Wanted,
        /// How often collections had been stopped before.
        stops: u64,
        reply: oneshot::Sender<Result<Collected, PushError>>,
    },
    /// Write the map's pages again.
    Checkpoint(oneshot::Sender<Result<(), PushError>>),
    /// Say in HEAD that nobody has the drive open any more.
    Release(oneshot::Sender<Result<(), PushError>>),
}

/// A request that somebody may wait for, until it is dropped.
pub(super) struct Asked {
    pub request: Request,
    pub waits: Waits,
}

/// How many requests there are, with the one that is being served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub requests: usize,
    /// Of these, collections.
    pub collections: usize,
}

/// Where requests are made.
pub(super) struct Requests {
    channel: mpsc::UnboundedSender<Asked>,
    waiting: watch::Sender<Waiting>,
}

/// Requests that are not served yet, in their order.
pub(super) struct Queue {
    channel: mpsc::UnboundedReceiver<Asked>,
    asked: VecDeque<Asked>,
}

/// Somebody waits.
pub(super) struct Waits {
    waiting: watch::Sender<Waiting>,
    for_collection: bool,
}

/// Requests, and how many there are.
pub(super) fn channel() -> (Requests, Queue, watch::Receiver<Waiting>) {
    let (channel, asked) = mpsc::unbounded_channel();
    let (waiting, number) = watch::channel(Waiting::default());
    (Requests { channel, waiting }, Queue { channel: asked, asked: VecDeque::new() }, number)
}

impl Requests {
    /// Closed where the task has ended.
    pub fn send(&self, request: Request) -> Result<(), PushError> {
        let waits = Waits::begin(&self.waiting, matches!(request, Request::Collect { .. }));
        self.channel.send(Asked { request, waits }).map_err(|_| PushError::Closed)
    }
}

impl Queue {
    /// The next one. None once nobody can ask any more.
    pub async fn next(&mut self) -> Option<Asked> {
        match self.asked.pop_front() {
            Some(asked) => Some(asked),
            None => self.channel.recv().await,
        }
    }

    /// The next one, if it has come.
    pub fn next_now(&mut self) -> Option<Asked> {
        self.asked.pop_front().or_else(|| self.channel.try_recv().ok())
    }

    /// Waits until one more has come. Whether one has: nobody can ask any more otherwise.
    pub async fn grows(&mut self) -> bool {
        let asked = self.channel.recv().await;
        let has_grown = asked.is_some();
        self.asked.extend(asked);
        has_grown
    }

    /// The first collection, ahead of its turn.
    pub fn collection(&mut self) -> Option<Asked> {
        while let Ok(asked) = self.channel.try_recv() {
            self.asked.push_back(asked);
        }
        let first = self.asked.iter().position(|asked| matches!(asked.request, Request::Collect { .. }))?;
        self.asked.remove(first)
    }

    /// Answers those that have come.
    pub fn refuse(&mut self, error: &PushError) {
        self.asked.drain(..).for_each(|asked| asked.refuse(error.clone()));
    }

    /// Answers all that come.
    pub async fn refuse_all(mut self, error: PushError) {
        while let Some(asked) = self.next().await {
            asked.refuse(error.clone());
        }
    }
}

impl Asked {
    /// Answers that it cannot be done.
    pub fn refuse(self, error: PushError) {
        // Who asked may have gone away.
        match self.request {
            Request::Sync(reply) => drop(reply.send(Err(error))),
            Request::Snapshot(_, reply) => drop(reply.send(Err(error))),
            Request::DropSnapshot(_, reply) | Request::Release(reply) | Request::Checkpoint(reply) => {
                drop(reply.send(Err(error)))
            }
            Request::Collect { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

impl Waits {
    fn begin(waiting: &watch::Sender<Waiting>, for_collection: bool) -> Self {
        waiting.send_modify(|waiting| {
            waiting.requests += 1;
            waiting.collections += usize::from(for_collection);
        });
        Self { waiting: waiting.clone(), for_collection }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let for_collection = self.for_collection;
        self.waiting.send_modify(|waiting| {
            waiting.requests -= 1;
            waiting.collections -= usize::from(for_collection);
        });
    }
}
