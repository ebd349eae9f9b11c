//! The requests to the push task, and how many wait.

use super::hold::{OnHold, Order};
use super::{Collected, Committed, PushError, Wanted};
use crate::format::root::Snapshot;
use std::collections::VecDeque;
use tokio::sync::{mpsc, oneshot, watch};

/// A request to the push task.
pub(crate) enum Request {
    /// Push everything that is appended now.
    Sync(oneshot::Sender<Result<Committed, PushError>>),
    /// Push everything, and keep that version under a label.
    Snapshot(String, oneshot::Sender<Result<Snapshot, PushError>>),
    /// Stop keeping a version.
    DropSnapshot(String, oneshot::Sender<Result<(), PushError>>),
    /// Collect garbage.
    Collect {
        /// Its origin.
        wanted: Wanted,
        /// How often collections had been stopped before.
        stops: u64,
        reply: oneshot::Sender<Result<Collected, PushError>>,
    },
    /// Write the map's pages again.
    Checkpoint(oneshot::Sender<Result<(), PushError>>),
    /// Record in HEAD that no device has the drive open.
    Release(oneshot::Sender<Result<(), PushError>>),
    /// Commit nothing while the orders last, so that another device can get the drive with the current version.
    HandOver { orders: mpsc::UnboundedReceiver<Order>, reply: oneshot::Sender<Result<OnHold, PushError>> },
}

/// A request that someone may wait for, until it is dropped.
pub(super) struct Asked {
    pub request: Request,
    pub waits: Waits,
}

/// How many requests there are, including the one that is being served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub requests: usize,
    /// How many of them are collections.
    pub collections: usize,
}

/// Where requests are made.
pub(super) struct Requests {
    channel: mpsc::UnboundedSender<Asked>,
    waiting: watch::Sender<Waiting>,
}

/// Requests that have not been served yet, in order.
pub(super) struct Queue {
    channel: mpsc::UnboundedReceiver<Asked>,
    asked: VecDeque<Asked>,
}

/// Counts one waiting request until it is dropped.
pub(super) struct Waits {
    waiting: watch::Sender<Waiting>,
    for_collection: bool,
}

/// A channel for requests, with their number.
pub(super) fn channel() -> (Requests, Queue, watch::Receiver<Waiting>) {
    let (channel, asked) = mpsc::unbounded_channel();
    let (waiting, number) = watch::channel(Waiting::default());
    (Requests { channel, waiting }, Queue { channel: asked, asked: VecDeque::new() }, number)
}

impl Requests {
    /// Fails with `Closed` if the task has ended.
    pub fn send(&self, request: Request) -> Result<(), PushError> {
        let waits = Waits::begin(&self.waiting, matches!(request, Request::Collect { .. }));
        self.channel.send(Asked { request, waits }).map_err(|_| PushError::Closed)
    }
}

impl Queue {
    /// The next request. `None` once no more can come.
    pub async fn next(&mut self) -> Option<Asked> {
        match self.asked.pop_front() {
            Some(asked) => Some(asked),
            None => self.channel.recv().await,
        }
    }

    /// The next request, if one has come.
    pub fn next_now(&mut self) -> Option<Asked> {
        self.asked.pop_front().or_else(|| self.channel.try_recv().ok())
    }

    /// Waits for one more request. Returns false once no more can come.
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

    /// Refuses the requests that have come.
    pub fn refuse(&mut self, error: &PushError) {
        self.asked.drain(..).for_each(|asked| asked.refuse(error.clone()));
    }

    /// Refuses all requests, also later ones.
    pub async fn refuse_all(mut self, error: PushError) {
        while let Some(asked) = self.next().await {
            asked.refuse(error.clone());
        }
    }
}

impl Asked {
    /// Answers with an error.
    pub fn refuse(self, error: PushError) {
        // The caller may be gone.
        match self.request {
            Request::Sync(reply) => drop(reply.send(Err(error))),
            Request::Snapshot(_, reply) => drop(reply.send(Err(error))),
            Request::DropSnapshot(_, reply) | Request::Release(reply) | Request::Checkpoint(reply) => {
                drop(reply.send(Err(error)))
            }
            Request::Collect { reply, .. } => drop(reply.send(Err(error))),
            Request::HandOver { reply, .. } => drop(reply.send(Err(error))),
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
