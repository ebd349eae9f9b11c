//! What the push task is asked to do, and by how many.

use super::{Collected, Committed, PushError};
use crate::format::root::Snapshot;
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
    Collect(oneshot::Sender<Result<Collected, PushError>>),
    /// Say in HEAD that nobody has the drive open any more.
    Release(oneshot::Sender<Result<(), PushError>>),
}

/// A request that somebody may wait for, until it is dropped.
pub(super) struct Asked {
    pub request: Request,
    pub waits: Waits,
}

/// Where requests are made.
pub(super) struct Requests {
    channel: mpsc::UnboundedSender<Asked>,
    waiting: watch::Sender<usize>,
}

/// Somebody waits.
pub(super) struct Waits(watch::Sender<usize>);

/// Requests, in their order; and how many there are, with the one that is being served.
pub(super) fn channel() -> (Requests, mpsc::UnboundedReceiver<Asked>, watch::Receiver<usize>) {
    let (channel, asked) = mpsc::unbounded_channel();
    let (waiting, number) = watch::channel(0);
    (Requests { channel, waiting }, asked, number)
}

impl Requests {
    /// Closed where the task has ended.
    pub fn send(&self, request: Request) -> Result<(), PushError> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let asked = Asked { request, waits: Waits(self.waiting.clone()) };
        self.channel.send(asked).map_err(|_| PushError::Closed)
    }
}

impl Asked {
    /// Answers that it cannot be done.
    pub fn refuse(self, error: PushError) {
        // Who asked may have gone away.
        match self.request {
            Request::Sync(reply) => drop(reply.send(Err(error))),
            Request::Snapshot(_, reply) => drop(reply.send(Err(error))),
            Request::DropSnapshot(_, reply) | Request::Release(reply) => drop(reply.send(Err(error))),
            Request::Collect(reply) => drop(reply.send(Err(error))),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// Answers all that come.
pub(super) async fn refuse_all(mut requests: mpsc::UnboundedReceiver<Asked>, error: PushError) {
    while let Some(asked) = requests.recv().await {
        asked.refuse(error.clone());
    }
}
