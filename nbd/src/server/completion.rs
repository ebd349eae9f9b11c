//! Replies to requests that had to wait. They are sent at once from the thread that has them, if that does not wait; otherwise by the
//! connection's writing thread.

use super::in_flight::Slot;
use super::outgoing::Outgoing;
use super::reply::{Body, Reply};
use crate::codec::transmission::Cookie;
use holdall_core::device::DeviceError;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// The jobs of the writing thread.
pub(super) enum Work {
    /// A reply, and the slot that it ends.
    Reply(Reply, Slot),
    /// Bytes that the runtime could not send without waiting. The slot lives until they have left, so that the bytes a client does not take
    /// stay bounded.
    Flush(Slot),
}

/// Runs the writing thread; it ends when nothing is left that could give it work.
pub(super) fn write(outgoing: &Outgoing, work: Receiver<Work>) {
    for work in work {
        // The reading thread notices a broken connection; here replies are just dropped.
        let _ = match work {
            Work::Reply(reply, _slot) => outgoing.send(reply),
            Work::Flush(_slot) => outgoing.flush(),
        };
    }
}

/// Answers a request whose device call had to wait. If it is dropped unanswered (the future panicked, or the runtime is gone), the
/// connection ends: a client must not wait for a reply that will never come.
pub(super) struct Completion {
    outgoing: Arc<Outgoing>,
    queue: Sender<Work>,
    slot: Option<Slot>,
}

impl Completion {
    pub(super) fn new(outgoing: Arc<Outgoing>, queue: Sender<Work>, slot: Slot) -> Self {
        Self { outgoing, queue, slot: Some(slot) }
    }

    /// Answers with the device's result.
    pub(super) fn send<T>(
        self,
        cookie: Cookie,
        result: Result<T, DeviceError>,
        body: impl FnOnce(T) -> Body,
    ) {
        let body = result.map_or_else(|error| Body::of_error(&error), body);
        self.finish(Reply { cookie, body }, Outgoing::try_send);
    }

    /// Answers, with `try_send` if that does not have to wait.
    pub(super) fn finish(
        mut self,
        reply: Reply,
        try_send: impl FnOnce(&Outgoing, Reply) -> Result<bool, Reply>,
    ) {
        let slot = self.slot.take().expect("it is taken once");
        let work = match try_send(&self.outgoing, reply) {
            Ok(true) => return,
            Ok(false) => Work::Flush(slot),
            Err(reply) => Work::Reply(reply, slot),
        };
        // The writing thread outlives the last slot, so it is there.
        let _ = self.queue.send(work);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.outgoing.break_off();
        }
    }
}
