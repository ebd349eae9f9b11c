//! Collecting garbage without being asked, while a drive is open for writing.
//!
//! The push task counts what it puts and what the map reaches, so the figure of garbage costs no request. [`Ledger`] carries it over
//! openings; [`policy`] decides. The ledger is a file of its own that may vanish: the drive then waits a week, and collects.

use super::Drive;
use crate::api::ActivityKind;
use crate::daemon::failure;
use crate::daemon::limits::Waits;
use crate::daemon::power;
use crate::daemon::status::now_ms;
use crate::sizes::format_bytes;
use holdall_core::push::{PushState, Stored};
use holdall_core::volume::Volume;
use ledger::Ledger;
use policy::{Decision, Facts, OVER_BYTES, decide};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

mod ledger;
mod policy;

/// News of the push task is looked at once a second at most; it can come many times a second.
const PACE: Duration = Duration::from_secs(1);
/// Batteries, networks and weeks send no news.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How much garbage is enough, in bytes. For tests alone, which make less of it.
const OVER: &str = "HOLDALL_COLLECT_OVER_BYTES";

impl Drive {
    /// Begins for an engine that was just opened for writing; ends with it.
    pub(super) fn begin_collecting(self: &Arc<Self>, volume: &Arc<Volume>) {
        let Some(pusher) = volume.pusher() else { return };
        let ledger = Ledger::load(&self.registry.directory(&self.name), now_ms());
        let (drive, volume) = (Arc::downgrade(self), Arc::downgrade(volume));
        let over_bytes = std::env::var(OVER).ok().and_then(|bytes| bytes.parse().ok());
        let collecting = Collecting {
            drive,
            volume,
            ledger,
            tried_at: None,
            over_bytes: over_bytes.unwrap_or(OVER_BYTES),
        };
        tokio::spawn(collecting.run(pusher.state()));
    }
}

struct Collecting {
    drive: Weak<Drive>,
    volume: Weak<Volume>,
    ledger: Ledger,
    /// When a collection began that was not asked for and has failed.
    tried_at: Option<Instant>,
    over_bytes: u64,
}

impl Collecting {
    async fn run(mut self, mut state: watch::Receiver<PushState>) {
        // Nobody waits for the news of the opening itself.
        state.mark_changed();
        loop {
            let is_over = tokio::select! {
                changed = state.changed() => changed.is_err(),
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            let now = state.borrow_and_update().clone();
            self.count(&now.stored);
            let (Some(drive), Some(volume)) = (self.drive.upgrade(), self.volume.upgrade()) else { return };
            if is_over {
                return;
            }
            let facts = self.facts(&drive, &volume, &now);
            // Files are read for that: only where something else asks for a collection.
            if decide(&facts) == Decision::Collect
                && decide(&Facts { on_battery: power::on_battery(), ..facts }) == Decision::Collect
            {
                self.tried_at = Some(Instant::now());
                if collect(&drive, &volume).await {
                    self.tried_at = None;
                }
            }
            drop((drive, volume));
            // Ends at once when the task has ended. What comes meanwhile is news still to `state`.
            let mut ending = state.clone();
            let _ = tokio::time::timeout(PACE, ending.wait_for(|_| false)).await;
        }
    }

    /// Counts what has happened, and tells of a collection, whoever asked for it.
    fn count(&mut self, stored: &Stored) {
        let Some(drive) = self.drive.upgrade() else { return };
        let counted = self.ledger.count(stored, now_ms());
        if let Some(collected) = counted.collected.filter(|collected| collected.deleted > 0) {
            let freed = format_bytes(collected.bytes_freed);
            let message = format!("Deleted data that no version needs. That freed {freed} in the store.");
            drive.note(ActivityKind::Collected, message);
        }
        if counted.is_worth_saving {
            self.ledger.save(&drive.registry.directory(&drive.name));
        }
    }

    fn facts(&self, drive: &Drive, volume: &Volume, state: &PushState) -> Facts {
        let unsent_bytes = if volume.has_unsent() { volume.status().unpushed_bytes } else { 0 };
        let is_cut_off = state.trouble.is_some() || state.stopped.is_some() || !state.is_taken;
        let metered = *drive.stores.limits().waiting().borrow() == Some(Waits::Metered);
        Facts {
            garbage_bytes: self.ledger.garbage_bytes(&state.stored),
            store_bytes: self.ledger.store_bytes(&state.stored),
            put_bytes: self.ledger.put_bytes(),
            since_collection: self.ledger.since_collection(now_ms()),
            since_try: self.tried_at.map(|at| at.elapsed()),
            unsent_bytes,
            is_cut_off,
            is_fork: state.fork.is_some(),
            paused: drive.pause().is_some(),
            metered,
            on_battery: false,
            over_bytes: self.over_bytes,
        }
    }
}

/// Collects once, and says whether it did. A failure is tried again later: nothing is lost but room in the store.
async fn collect(drive: &Drive, volume: &Volume) -> bool {
    let Some(pusher) = volume.pusher() else { return false };
    tracing::info!(drive = drive.name, "collecting garbage");
    let collected = pusher.collect().await;
    if let Err(error) = &collected {
        let message = failure::push(error).message;
        tracing::warn!(drive = drive.name, message, "garbage was not collected; it is tried again later");
    }
    collected.is_ok()
}
