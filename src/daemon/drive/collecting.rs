//! Collecting garbage unasked, while a drive is open for writing.
//!
//! The push task counts what it puts and what the map reaches, so estimating the garbage costs no request. [`Ledger`] keeps the estimate
//! across openings; [`policy`] decides. The ledger is a file of its own that may be lost: the drive then waits a week, and collects.
//!
//! A running collection is watched: it waits while programs read, and ends when the person would mind its cost.

use super::Drive;
use crate::api::{self, ActivityKind, Failure};
use crate::daemon::failure;
use crate::daemon::limits::Waits;
use crate::daemon::power;
use crate::daemon::status::now_ms;
use crate::sizes::format_bytes;
use holdall_core::push::{PushError, PushState, Pusher, Stored};
use holdall_core::volume::Volume;
use ledger::Ledger;
use policy::{Decision, Ended, Facts, OVER_BYTES, decide};
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

mod ledger;
mod policy;

/// The push task's news is handled once a second at most; it can come many times a second.
const PACE: Duration = Duration::from_secs(1);
/// Batteries, networks and the calendar send no news.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How much garbage is enough, in bytes. Only for tests, which produce less of it.
const OVER: &str = "HOLDALL_COLLECT_OVER_BYTES";

impl Drive {
    /// Begins for an engine that was just opened for writing; ends with the engine.
    pub(super) fn begin_collecting(self: &Arc<Self>, volume: &Arc<Volume>) {
        let Some(pusher) = volume.pusher() else { return };
        let ledger = Ledger::load(&self.registry.directory(&self.name), now_ms());
        let (drive, volume) = (Arc::downgrade(self), Arc::downgrade(volume));
        let over_bytes = std::env::var(OVER).ok().and_then(|bytes| bytes.parse().ok());
        let collecting = Collecting {
            drive,
            volume,
            ledger,
            last_try: None,
            measured_at: None,
            fetched_bytes: 0,
            readers_wait: false,
            over_bytes: over_bytes.unwrap_or(OVER_BYTES),
        };
        tokio::spawn(collecting.run(pusher.state()));
    }

    /// A person stops the running collection; no collection starts unasked for a while.
    pub fn stop_collecting(&self) -> Result<api::Nothing, Failure> {
        let live = self.live.read().clone();
        if let Some(pusher) = live.as_ref().and_then(|volume| volume.pusher()) {
            *self.collecting_stopped.lock() = Some(Instant::now());
            pusher.stop_collecting();
        }
        Ok(api::Nothing {})
    }
}

struct Collecting {
    drive: Weak<Drive>,
    volume: Weak<Volume>,
    ledger: Ledger,
    /// How the last collection that did not finish has ended, and when.
    last_try: Option<(Ended, Instant)>,
    measured_at: Option<Instant>,
    /// Bytes fetched for programs at the last look, and whether they had grown.
    fetched_bytes: u64,
    readers_wait: bool,
    over_bytes: u64,
}

impl Collecting {
    async fn run(mut self, mut state: watch::Receiver<PushState>) {
        // The news of the opening itself is of no use.
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
            match self.decide(&drive, &volume, &now) {
                Decision::Collect => self.collect(&drive, &volume).await,
                Decision::Measure => self.measure(&volume).await,
                Decision::Wait(_) => {}
            }
            drop((drive, volume));
            // Ends at once when the task has ended. News that comes meanwhile stays unread in `state`.
            let mut ending = state.clone();
            let _ = tokio::time::timeout(PACE, ending.wait_for(|_| false)).await;
        }
    }

    /// Updates the ledger, and reports a finished collection, whoever asked for it.
    fn count(&mut self, stored: &Stored) {
        let Some(drive) = self.drive.upgrade() else { return };
        let counted = self.ledger.count(stored, now_ms());
        if let Some(collected) = counted.collected.filter(|collected| collected.deleted > 0) {
            let freed = format_bytes(collected.bytes_freed);
            let message = format!("Deleted data that no version needs. This freed {freed} in the store.");
            drive.note(ActivityKind::Collected, message);
        }
        if counted.is_worth_saving {
            self.ledger.save(&drive.registry.directory(&drive.name));
        }
    }

    fn decide(&mut self, drive: &Drive, volume: &Volume, state: &PushState) -> Decision {
        let fetched_bytes = volume.status().fetched_bytes;
        self.readers_wait = std::mem::replace(&mut self.fetched_bytes, fetched_bytes) < fetched_bytes;
        let facts = self.facts(drive, volume, state);
        match decide(&facts) {
            Decision::Wait(because) => Decision::Wait(because),
            // The battery's state is read from files: only when everything else calls for a collection.
            _ => decide(&Facts { on_battery: power::on_battery(), ..facts }),
        }
    }

    fn facts(&self, drive: &Drive, volume: &Volume, state: &PushState) -> Facts {
        let unsent_bytes = if volume.has_unsent() { volume.status().unpushed_bytes } else { 0 };
        let is_cut_off =
            state.trouble.is_some() && !state.is_full || state.stopped.is_some() || !state.is_taken;
        let metered = *drive.stores.limits().waiting().borrow() == Some(Waits::Metered);
        let stopped = drive.collecting_stopped.lock().map(|at| (Ended::Stopped, at));
        let last = [self.last_try, stopped].into_iter().flatten().max_by_key(|(_, at)| *at);
        Facts {
            garbage_bytes: self.ledger.garbage_bytes(&state.stored),
            maybe_garbage_bytes: self.ledger.maybe_garbage_bytes(&state.stored),
            store_bytes: self.ledger.store_bytes(&state.stored),
            put_bytes: self.ledger.put_bytes(),
            since_collection: self.ledger.since_collection(now_ms()),
            last_try: last.map(|(ended, at)| (ended, at.elapsed())),
            since_measured: self.measured_at.map(|at| at.elapsed()),
            unsent_bytes,
            is_full: state.is_full,
            is_cut_off,
            is_fork: state.fork.is_some(),
            paused: drive.pause().is_some(),
            metered,
            on_battery: false,
            over_bytes: self.over_bytes,
        }
    }

    /// Collects once. A failed collection is tried again later: it costs nothing but space in the store.
    async fn collect(&mut self, drive: &Drive, volume: &Volume) {
        let Some(pusher) = volume.pusher() else { return };
        tracing::info!(drive = drive.name, "collecting garbage");
        let collected = tokio::select! {
            collected = pusher.collect_unasked() => collected,
            never = self.watch(drive, volume, pusher) => match never {},
        };
        pusher.set_readers(false);
        self.last_try = collected.err().map(|error| {
            let message = failure::push(&error).message;
            tracing::info!(drive = drive.name, message, "garbage is collected later");
            let ended = if matches!(error, PushError::CutOff) { Ended::CutOff } else { Ended::Failed };
            (ended, Instant::now())
        });
    }

    /// Pauses a collection while programs read, and ends it when the moment no longer suits.
    async fn watch(&mut self, drive: &Drive, volume: &Volume, pusher: &Pusher) -> Infallible {
        let state = pusher.state();
        loop {
            tokio::time::sleep(PACE).await;
            let now = state.borrow().clone();
            let decision = self.decide(drive, volume, &now);
            pusher.set_readers(self.readers_wait);
            if matches!(decision, Decision::Wait(because) if because.ends_it()) {
                pusher.stop_collecting();
            }
        }
    }

    /// Writes the map's pages again, so that the count is exact.
    async fn measure(&mut self, volume: &Volume) {
        self.measured_at = Some(Instant::now());
        let Some(pusher) = volume.pusher() else { return };
        if let Err(error) = pusher.checkpoint().await {
            tracing::debug!(%error, "garbage is not measured");
        }
    }
}
