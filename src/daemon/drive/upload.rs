//! Uploading what a drive holds, and collecting what its store holds in vain.

use super::Drive;
use crate::api::{self, Failure, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use holdall_core::push::{Committed, Pusher};
use holdall_core::volume::Volume;
use std::sync::Arc;
use std::time::Duration;

/// How often a progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

impl Drive {
    /// Writes everything to the journal, pushes it, and waits for the commit.
    pub async fn sync(self: &Arc<Self>, work: Work) -> Result<api::Synced, Failure> {
        let open = self.open.lock().await;
        if let Some(open) = &*open {
            open.check_writable(&self.name)?;
            open.sync_file_system().await?;
            let committed = with_progress(open.pusher(), &work, open.pusher().sync()).await;
            return committed.map(synced).map_err(|error| failure::push(&error));
        }
        drop(open);
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            with_progress(pusher, &work, pusher.sync())
                .await
                .map(synced)
                .map_err(|error| failure::push(&error))
        })
        .await
    }

    /// Pushes what an open drive holds, so that what is in the store is what a person sees.
    pub async fn push_if_open(self: &Arc<Self>) -> Result<(), Failure> {
        match &*self.open.lock().await {
            Some(open) if open.is_writable() => {
                open.sync_file_system().await?;
                open.pusher().sync().await.map(drop).map_err(|error| failure::push(&error))
            }
            _ => Ok(()),
        }
    }

    /// Collects garbage.
    pub async fn collect(self: &Arc<Self>) -> Result<api::Collected, Failure> {
        self.with_volume(async |volume| {
            let collected = pusher(volume).collect().await.map_err(|error| failure::push(&error))?;
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
