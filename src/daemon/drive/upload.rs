//! Uploading what a drive holds, and collecting what its store holds in vain.

use super::Drive;
use crate::api::{self, Failure, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use holdall_core::push::{Collected, Committed, PushError, Pusher};
use holdall_core::volume::Volume;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Trims are all in when nothing is written for so long, and are not waited for any longer than this.
const TRIMS_PAUSE: Duration = Duration::from_millis(200);
const TRIMS_PATIENCE: Duration = Duration::from_secs(5);
/// What it means that nobody waits for an upload any more.
pub(super) const GOES_ON: &str =
    "What was uploaded stays. The rest is safe on this computer and is uploaded later.";
/// What it means that nobody waits for a collection any more.
const COLLECTED_IN_PART: &str = "What was deleted was needed by no version. The rest can be deleted later.";

impl Drive {
    /// Writes everything to the journal, pushes it, and waits for the commit.
    pub async fn sync(self: &Arc<Self>, work: Work) -> Result<api::Synced, Failure> {
        if let Some(open) = &*self.open.lock().await {
            open.check_writable(&self.name)?;
            open.sync_file_system().await?;
        }
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            let committed = work.unless_interrupted(GOES_ON, with_progress(pusher, &work, pusher.sync()));
            let committed = committed.await?.map(synced).map_err(|error| failure::push(&error))?;
            // It is safe in the store, but not as what was asked for.
            self.check_no_fork(volume)?;
            Ok(committed)
        })
        .await
    }

    /// Pushes what an open drive holds, so that what is in the store is what a person sees.
    pub async fn push_if_open(self: &Arc<Self>, work: &Work) -> Result<(), Failure> {
        let volume = match &*self.open.lock().await {
            Some(open) if open.is_writable() => {
                open.sync_file_system().await?;
                open.volume.clone()
            }
            _ => return Ok(()),
        };
        let pusher = pusher(&volume);
        let pushed = work.unless_interrupted(GOES_ON, with_progress(pusher, work, pusher.sync()));
        pushed.await?.map(drop).map_err(|error| failure::push(&error))
    }

    /// Collects garbage, and that of what was deleted a moment ago: it is none before that is uploaded.
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
                let is_up = pusher.is_paused() || push_unless_full(pusher, &work).await?;
                if !is_up {
                    collected.extend(pusher.collect().await?);
                    // There may be room now.
                    push_unless_full(pusher, &work).await?;
                }
                collected.extend(pusher.collect().await?);
                Ok(collected)
            };
            let collected = work.unless_interrupted(COLLECTED_IN_PART, collect).await?;
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

/// Pushes everything, unless the store has no room for it: it has none before a collection then. Whether it did.
async fn push_unless_full(pusher: &Pusher, work: &Work) -> Result<bool, PushError> {
    tokio::select! { biased;
        pushed = with_progress(pusher, work, pusher.sync()) => pushed.map(|_| true),
        () = pusher.until_full() => Ok(false),
    }
}

/// ext4 trims what was deleted when its journal has it, and behind the back of whoever waits for that.
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

/// Waits for `work`, telling how far the batch that is on its way is.
pub(super) async fn with_progress<T>(pusher: &Pusher, work: &Work, doing: impl Future<Output = T>) -> T {
    let state = pusher.state();
    let tell = async {
        loop {
            let (done, total) = state.borrow().batch;
            if total > 0 {
                work.progress("Uploading", done, total, Unit::Bytes);
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    };
    tokio::select! { biased;
        done = doing => done,
        () = tell => unreachable!("progress is told for ever"),
    }
}

/// Who pushes an engine that was opened for writing.
pub(super) fn pusher(volume: &Volume) -> &Pusher {
    volume.pusher().expect("it was opened for writing")
}

pub(super) fn synced(committed: Committed) -> api::Synced {
    let Committed { root, root_hash, epoch, lsn } = committed;
    api::Synced { root, root_hash, epoch, lsn }
}
