//! The uploads under way, for display only: no decision depends on them.

use super::{Outgoing, PushState};
use tokio::sync::watch;

/// One object that is being uploaded, until it is dropped.
pub(super) struct Sending {
    publish: watch::Sender<PushState>,
    name: String,
}

impl Sending {
    /// It is being tried for the first time.
    pub fn begin(publish: &watch::Sender<PushState>, name: &str, bytes: u64) -> Self {
        let outgoing =
            Outgoing { name: name.to_owned(), bytes, failures: 0, last_error: None, next_try_ms: None };
        publish.send_modify(|state| state.outgoing.push(outgoing));
        Self { publish: publish.clone(), name: name.to_owned() }
    }

    /// The store did not accept it. It is tried again at `next_try_ms`.
    pub fn waits(&self, error: String, next_try_ms: u64) {
        self.change(|outgoing| {
            outgoing.failures += 1;
            (outgoing.last_error, outgoing.next_try_ms) = (Some(error), Some(next_try_ms));
        });
    }

    /// It is being tried again.
    pub fn is_tried(&self) {
        self.change(|outgoing| outgoing.next_try_ms = None);
    }

    fn change(&self, change: impl FnOnce(&mut Outgoing)) {
        self.publish.send_modify(|state| {
            if let Some(outgoing) = state.outgoing.iter_mut().find(|outgoing| outgoing.name == self.name) {
                change(outgoing);
            }
        });
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.publish.send_modify(|state| state.outgoing.retain(|outgoing| outgoing.name != self.name));
    }
}
