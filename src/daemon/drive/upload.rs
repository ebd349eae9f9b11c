//! Uploading a drive's changes, and collecting its garbage in the store.

use super::Drive;
use crate::api::{self, Failure, Unit};
use crate::daemon::failure;
use crate::daemon::status::Phase;
use crate::daemon::work::Work;
use holdall_core::push::{Collected, Collecting, Committed, PushError, Pusher, Stage};
use holdall_core::volume::Volume;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// All trims have arrived once nothing is written for `TRIMS_PAUSE`; they are waited for no longer than `TRIMS_PATIENCE`.
const TRIMS_PAUSE: Duration = Duration::from_millis(200);
const TRIMS_PATIENCE: Duration = Duration::from_secs(5);
/// The text for a person whose wait for an upload was interrupted.
pub(super) const GOES_ON: &str =
    "Uploaded changes stay in the store. The rest is safe on this computer and is uploaded later.";
/// The text for a person whose wait for a collection was interrupted.
const COLLECTED_IN_PART: &str = "Only data that no version needs was deleted. The rest can be deleted later.";

impl Drive {
    /// Whether this computer has changes that the store lacks, for a drive that nobody has open.
    pub(super) fn is_left_to_upload(&self) -> bool {
        self.may_have_unsent() || self.is_fork_to_upload()
    }

    /// Continues uploading what a closed drive has, if it was closed before everything was in the store.
    pub(in crate::daemon) fn upload_in_background(self: &Arc<Self>) {
        if self.is_closed() && self.is_left_to_upload() {
            self.set_phase(Phase::Draining);
            tokio::spawn(self.clone().upload_what_is_left());
        }
    }

    /// Writes everything back to the journal, pushes it, and waits for the commit.
    pub async fn sync(self: &Arc<Self>, work: Work) -> Result<api::Synced, Failure> {
        if let Some(open) = &*self.open.lock().await {
            open.check_writable(&self.name)?;
            open.sync_file_system().await?;
        }
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            let committed = work.unless_interrupted(GOES_ON, with_progress(volume, &work, pusher.sync()));
            let committed = committed.await?.map(synced).map_err(|error| failure::push(&error))?;
            // The data is safe in the store, but not in the drive that was asked for.
            self.check_no_fork(volume)?;
            Ok(committed)
        })
        .await
    }

    /// Pushes the changes of an open drive, so that the store has what a person sees.
    pub async fn push_if_open(self: &Arc<Self>, work: &Work) -> Result<(), Failure> {
        let volume = match &*self.open.lock().await {
            Some(open) if open.is_writable() => {
                open.sync_file_system().await?;
                open.volume.clone()
            }
            _ => return Ok(()),
        };
        let pusher = pusher(&volume);
        let pushed = work.unless_interrupted(GOES_ON, with_progress(&volume, work, pusher.sync()));
        pushed.await?.map(drop).map_err(|error| failure::push(&error))
    }

    /// Collects garbage, including what was deleted a moment ago: that becomes garbage only once the deletion is uploaded.
    pub async fn collect(self: &Arc<Self>, work: Work) -> Result<api::Collected, Failure> {
        let is_mounted = match &*self.open.lock().await {
            Some(open) if open.is_writable() => open.sync_file_system().await.map(|()| true)?,
            _ => false,
        };
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            let collect = async {
                if is_mounted {
                    trims_are_in(volume).await;
                }
                let mut collected = Collected::default();
                let collect = async || with_stages(pusher, &work, pusher.collect()).await;
                let is_up = pusher.is_paused() || push_unless_full(volume, &work).await?;
                if !is_up {
                    collected.extend(collect().await?);
                    // The store may have space now.
                    push_unless_full(volume, &work).await?;
                }
                collected.extend(collect().await?);
                Ok(collected)
            };
            let collected = work.unless_interrupted(COLLECTED_IN_PART, collect).await;
            // Nobody waits for it any longer.
            let collected = collected.inspect_err(|_| pusher.stop_collecting())?;
            let collected = collected.map_err(|error: PushError| failure::push(&error))?;
            Ok(api::Collected {
                deleted: collected.deleted,
                bytes_freed: collected.bytes_freed,
                live_bytes: collected.live_bytes,
                garbage_bytes: collected.garbage_bytes,
            })
        })
        .await
    }
}

/// Pushes everything, unless the store lacks the space: it has none until garbage is collected. Returns whether it pushed.
async fn push_unless_full(volume: &Volume, work: &Work) -> Result<bool, PushError> {
    let pusher = pusher(volume);
    tokio::select! { biased;
        pushed = with_progress(volume, work, pusher.sync()) => pushed.map(|_| true),
        () = pusher.until_full() => Ok(false),
    }
}

/// ext4 trims deleted blocks some time after its journal has committed the deletion, and nothing reports when it does.
async fn trims_are_in(volume: &Volume) {
    let until = Instant::now() + TRIMS_PATIENCE;
    let mut before = None;
    loop {
        let now = Some(volume.status().appended);
        if now == before || Instant::now() >= until {
            return;
        }
        before = now;
        tokio::time::sleep(TRIMS_PAUSE).await;
    }
}

/// Waits for `doing`, reporting how much of what is pending now has reached the store, over all its batches.
pub(super) async fn with_progress<T>(volume: &Volume, work: &Work, doing: impl Future<Output = T>) -> T {
    let state = pusher(volume).state();
    let target = volume.journal().appended();
    let tell = async {
        let mut bar = Bar::default();
        loop {
            let waits = {
                let state = state.borrow();
                let bytes = volume.journal().bytes_after(state.committed);
                // Later writes are not waited for.
                let later = volume.journal().bytes_after(target.max(state.committed));
                if state.committed < target { state.waiting_bytes(bytes).saturating_sub(later) } else { 0 }
            };
            if let Some((done, total)) = bar.at(waits) {
                work.progress("Uploading", done, total, Unit::Bytes);
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    };
    tokio::select! { biased;
        done = doing => done,
        () = tell => unreachable!("reporting progress never ends"),
    }
}

/// Waits for a collection, reporting its progress.
async fn with_stages<T>(pusher: &Pusher, work: &Work, collecting: impl Future<Output = T>) -> T {
    let mut state = pusher.state();
    let tell = async {
        loop {
            let now = state.borrow_and_update().collecting;
            if let Some(Collecting { stage, done, total }) = now.filter(|now| now.total > 0) {
                let stage = if stage == Stage::Repacking { "Tidying up" } else { "Deleting" };
                work.progress(stage, done, total, Unit::Items);
            }
            if state.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    };
    tokio::select! {
        done = collecting => done,
        () = tell => unreachable!("it never ends"),
    }
}

/// One bar for the whole wait, which never goes back. Pure.
#[derive(Default)]
struct Bar {
    total: u64,
    done: u64,
}

impl Bar {
    /// The part done and the total while this many bytes are pending. `None` if nothing was ever pending.
    fn at(&mut self, waits: u64) -> Option<(u64, u64)> {
        self.total = self.total.max(waits);
        self.done = self.done.max(self.total - waits);
        (self.total > 0).then_some((self.done, self.total))
    }
}

/// The push task of an engine that was opened for writing.
pub(super) fn pusher(volume: &Volume) -> &Pusher {
    volume.pusher().expect("it was opened for writing")
}

pub(super) fn synced(committed: Committed) -> api::Synced {
    let Committed { root, root_hash, epoch, lsn } = committed;
    api::Synced { root, root_hash, epoch, lsn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_covers_all_batches_and_never_goes_back() {
        let mut bar = Bar::default();
        assert_eq!(bar.at(0), None);
        let told: Vec<_> = [300, 250, 100, 120, 4, 0].into_iter().filter_map(|waits| bar.at(waits)).collect();
        assert_eq!(told, [(0, 300), (50, 300), (200, 300), (200, 300), (296, 300), (300, 300)]);
    }
}
