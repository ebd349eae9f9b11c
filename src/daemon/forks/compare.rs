//! Compares a fork with its drive's current version: both are mounted, scanned, and closed again if they were closed before.

use super::differences::{Outline, differences};
use crate::api::{self, Compared, Failure};
use crate::daemon::drive::Drive;
use crate::daemon::drives::Drives;
use crate::daemon::failure;
use crate::daemon::work::Work;
use std::sync::Arc;

/// The text for a person whose comparison was interrupted.
const NOTHING_CHANGED: &str = "Neither version was changed.";

impl Drives {
    /// The differences, by file. Neither version is changed.
    pub async fn compare_fork(
        &self,
        name: &str,
        fork: &str,
        request: api::Compare,
        work: Work,
    ) -> Result<Compared, Failure> {
        let drive = self.get(name)?;
        let fork = self.fork(name, fork).await?;
        // Another fork may be in the drive's place.
        if let Some(other) = drive.forks().into_iter().find(|fork| fork.in_place) {
            return Err(failure::fork_in_place(name, other.mountpoint.as_deref().unwrap_or_default()));
        }
        let attach = request.attach;
        let look = api::Open { read_only: true, attach, ..api::Open::default() };
        let current = Visited::enter(&drive, &look).await?;
        let mine = match Visited::enter(&fork, &api::Open { attach, ..api::Open::default() }).await {
            Ok(mine) => mine,
            Err(failure) => {
                current.leave(&work).await;
                return Err(failure);
            }
        };
        let both = async { tokio::try_join!(fork.outline(), drive.outline()) };
        let found = work.unless_interrupted(NOTHING_CHANGED, both).await;
        mine.leave(&work).await;
        current.leave(&work).await;
        let ((mine, unread), (theirs, unread_there)) = found??;
        Ok(compared(&mine, &theirs, unread + unread_there))
    }
}

fn compared(fork: &Outline, current: &Outline, unreadable: u64) -> Compared {
    let (differences, more) = differences(fork, current);
    Compared { differences, more, unreadable }
}

/// A drive that is open for the comparison.
struct Visited {
    drive: Arc<Drive>,
    was_closed: bool,
}

impl Visited {
    async fn enter(drive: &Arc<Drive>, how: &api::Open) -> Result<Self, Failure> {
        let was_closed = drive.mountpoint().is_none();
        if was_closed {
            let opened = drive.open(how).await;
            opened.map_err(|failure| failure::named(failure, &drive.name, &drive.store_url()))?;
        }
        Ok(Self { drive: drive.clone(), was_closed })
    }

    /// Closes it again, unless somebody has begun to use it.
    async fn leave(self, work: &Work) {
        if self.was_closed
            && let Err(failure) = self.drive.close(false, work.clone()).await
        {
            tracing::info!(
                drive = self.drive.name,
                message = failure.message,
                "it stays open after a comparison"
            );
        }
    }
}
