//! The pending uploads, and uploading them at once.

use super::Drive;
use super::opened::SYNC_DEADLINE;
use super::upload::pusher;
use crate::api::{self, Action, Code, Failure, Queued, QueuedKind};
use crate::daemon::failure::{self, failure};
use crate::daemon::status::time;
use holdall_core::push::{Outgoing, PushState};
use std::sync::Arc;

impl Drive {
    /// The uploads under way, in the order in which they began, and then what is pending behind them.
    pub fn queue(&self) -> Vec<Queued> {
        let live = self.live.read();
        let Some(volume) = live.as_ref() else { return Vec::new() };
        let status = volume.status();
        let unsent_bytes = status.unpushed_bytes + self.in_memory_bytes();
        status.push.map(|push| queue(&push, unsent_bytes)).unwrap_or_default()
    }

    /// Uploads pending changes without waiting for more, and retries what the store did not take. Returns at once.
    pub fn upload_now(self: &Arc<Self>) -> Result<api::Nothing, Failure> {
        if let Some(why) = self.pause() {
            return Err(failure(
                Code::Paused,
                format!("Uploads are paused ({why})."),
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
            // Includes what programs have written and not synced.
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
        // Between two tries, the tries that have failed; during a try, that one counts too.
        tries: outgoing.failures + u32::from(outgoing.next_try_ms.is_none()),
        last_error: outgoing.last_error.as_deref().map(crate::api::words::sentence),
        next_try_at: outgoing.next_try_ms.map(time),
    }
}
