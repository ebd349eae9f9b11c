//! Waiting until everything is at the remote.

use super::{Folder, Live};
use crate::api::{Failure, FolderStatus, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use holdall_core::folder::outbox::Unsettled;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// The text for a person whose wait was interrupted.
const GOES_ON: &str = "Nothing is lost: uploads continue in the background.";

impl Folder {
    /// Uploads all changes, and waits until they are at the remote.
    pub async fn sync(self: &Arc<Self>, work: Work) -> Result<FolderStatus, Failure> {
        let live = self.live()?;
        self.wait_for_uploads(&live, &work, GOES_ON).await?;
        Ok(self.status())
    }

    /// Waits until all that was changed before the call is at the remote. The wait ends when the engine is put down.
    pub(super) async fn wait_for_uploads(
        &self,
        live: &Live,
        work: &Work,
        interrupted: &str,
    ) -> Result<(), Failure> {
        live.remote.try_now();
        let mut down = live.down.subscribe();
        let settling = async {
            tokio::select! { biased;
                settled = Box::pin(live.engine.outbox().settle()) => settled,
                _ = down.wait_for(|&is_down| is_down) => Err(Unsettled::Closed),
                never = progress(live, work) => match never {},
            }
        };
        let settled = work.unless_interrupted(interrupted, settling).await?;
        settled.map_err(|error| failure::unsettled(&error, live.engine.status().dirty_bytes))
    }
}

/// Tells how much is left, as a part of the most that was.
async fn progress(live: &Live, work: &Work) -> Infallible {
    let mut most = 0;
    loop {
        let left = left(live);
        most = most.max(left);
        if most > 0 {
            work.progress("Uploading", most - left, most, Unit::Bytes);
        }
        tokio::time::sleep(TELL_EVERY).await;
    }
}

/// Bytes that are still to be sent.
fn left(live: &Live) -> u64 {
    // Those under way come first.
    const UNDER_WAY_MAX: usize = 64;
    let queue = live.engine.outbox().queue(UNDER_WAY_MAX);
    let sent: u64 = queue.items.iter().map(|item| item.sent.min(item.bytes)).sum();
    queue.bytes.saturating_sub(sent)
}
