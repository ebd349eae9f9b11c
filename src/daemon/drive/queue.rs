//! What waits to be uploaded, and uploading it at once.

use super::Drive;
use super::opened::SYNC_DEADLINE;
use super::upload::pusher;
use crate::api::{self, Action, Code, Failure, Queued, QueuedKind};
use crate::daemon::failure::{self, failure};
use crate::daemon::status::time;
use holdall_core::push::{Outgoing, PushState};
use std::sync::Arc;

impl Drive {
    /// What is on its way, in the order in which it was begun, and what waits behind it.
    pub fn queue(&self) -> Vec<Queued> {
        let live = self.live.read();
        let Some(volume) = live.as_ref() else { return Vec::new() };
        let status = volume.status();
        let unsent_bytes = status.unpushed_bytes + self.in_memory_bytes();
        status.push.map(|push| queue(&push, unsent_bytes)).unwrap_or_default()
    }

    /// Uploads what waits without waiting for more, and tries again what the store did not take. Nobody waits for it here.
    pub fn upload_now(self: &Arc<Self>) -> Result<api::Nothing, Failure> {
        if let Some(why) = self.pause() {
            return Err(failure(
                Code::Paused,
                format!("Uploading is paused ({why})."),
                "Changes stay on this computer, and are safe there.",
                [Action::Resume { drive: Some(self.name.clone()) }, Action::Limits],
            ));
        }
        let live = self.live.read().clone();
        let Some(volume) = live.filter(|volume| volume.pusher().is_some()) else {
            let action = Action::Open { drive: Some(self.name.clone()) };
            return Err(failure::state("The drive is not open for writing.", action));
        };
        pusher(&volume).push_now();
        let (drive, volume) = (self.clone(), Arc::downgrade(&volume));
        tokio::spawn(async move {
            // What programs have written and not synced is to go along.
            drive.write_back(SYNC_DEADLINE).await;
            if let Some(volume) = volume.upgrade() {
                pusher(&volume).push_now();
            }
        });
        Ok(api::Nothing {})
    }
}

fn queue(push: &PushState, unsent_bytes: u64) -> Vec<Queued> {
    let mut queue: Vec<_> = push.outgoing.iter().map(outgoing).collect();
    // The rest waits for the next batch.
    let bytes = unsent_bytes.saturating_sub(push.batch_left_bytes());
    if bytes > 0 {
        queue.push(Queued {
            kind: QueuedKind::Changes,
            bytes,
            tries: 0,
            last_error: None,
            next_try_at: None,
        });
    }
    queue
}

fn outgoing(outgoing: &Outgoing) -> Queued {
    let kind = match outgoing.name.split('/').next() {
        Some("root") => QueuedKind::Root,
        Some("head") => QueuedKind::Head,
        _ => QueuedKind::Segment,
    };
    Queued {
        kind,
        bytes: outgoing.bytes,
        // Between two tries as many as have failed; else the one that is under way counts, too.
        tries: outgoing.failures + u32::from(outgoing.next_try_ms.is_none()),
        last_error: outgoing.last_error.as_deref().map(crate::words::sentence),
        next_try_at: outgoing.next_try_ms.map(time),
    }
}
