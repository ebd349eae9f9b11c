//! Versions of a drive that are kept under a label.

use super::Drive;
use super::opened::thaw;
use super::upload::{pusher, with_progress};
use crate::api::{self, Action, ActivityKind, Failure};
use crate::daemon::work::Work;
use crate::daemon::{failure, status};
use holdall_core::drive::{self, Snapshot};
use holdall_core::push::LabelError;
use std::sync::Arc;

/// The text for a person whose wait for a snapshot was interrupted: that of an open drive is taken with the next commit.
const MAY_STILL_BE_TAKEN: &str = "The drive itself is unchanged. The snapshot may still be taken.";
/// The same for deleting a snapshot.
const MAY_STILL_GO: &str = "The drive itself is unchanged. The snapshot may still be deleted.";

impl Drive {
    /// The snapshots; with `all` also the versions that are kept only for devices which may still continue them.
    pub async fn snapshots(&self, all: bool) -> Result<Vec<api::Snapshot>, Failure> {
        let (objects, _) = self.objects().await?;
        let (_, _, root) =
            drive::current(&objects, self.uuid()).await.map_err(|error| failure::drive(&error))?;
        let is_for_absent = |kept: &&Snapshot| holdall_core::fork::is_for_absent(&kept.label);
        let shown = root.snapshots.iter().filter(|kept| all || !is_for_absent(kept));
        Ok(shown.map(status::snapshot).collect())
    }

    /// Keeps the current version under a label.
    pub async fn snapshot(self: &Arc<Self>, label: &str, work: Work) -> Result<api::Snapshot, Failure> {
        if label.is_empty() || label.len() > 200 || label.contains('/') {
            return Err(failure::usage("A label has 1 to 200 characters, and no slash."));
        }
        // Checked before a closed drive is opened for it.
        if holdall_core::fork::is_reserved(label) {
            return Err(failure::label(&LabelError::Reserved(label.to_owned())));
        }
        if let Some(open) = &*self.open.lock().await {
            open.check_writable(&self.name)?;
            let frozen = open.freeze().await?;
            // Later writes are not part of it: the snapshot is a cut at this moment.
            let flushed = open.volume.journal().flush().await;
            thaw(frozen).await?;
            flushed.map_err(|error| failure::journal(&error))?;
        }
        self.with_volume(async |volume| {
            let pusher = pusher(volume);
            let taken = with_progress(volume, &work, pusher.snapshot(label));
            let taken = work.unless_interrupted(MAY_STILL_BE_TAKEN, taken).await?;
            let taken = taken.map_err(|error| failure::push(&error))?;
            self.note(ActivityKind::Snapshot, format!("The snapshot \"{label}\" was taken."));
            Ok(status::snapshot(&taken))
        })
        .await
    }

    /// Stops keeping a version.
    pub async fn drop_snapshot(self: &Arc<Self>, label: &str, work: Work) -> Result<(), Failure> {
        let known: Vec<_> = self.snapshots(true).await?.into_iter().map(|snapshot| snapshot.label).collect();
        if !known.iter().any(|known| known == label) {
            return Err(failure::no_snapshot(label, &known));
        }
        self.with_volume(async |volume| {
            let dropped = work.unless_interrupted(MAY_STILL_GO, pusher(volume).drop_snapshot(label));
            dropped.await?.map_err(|error| failure::push(&error))?;
            self.note(ActivityKind::Snapshot, format!("The snapshot \"{label}\" was deleted."));
            Ok(())
        })
        .await
    }

    /// Makes a snapshot the current version.
    pub async fn rollback(self: &Arc<Self>, label: &str) -> Result<api::Synced, Failure> {
        let mut open = self.open.lock().await;
        self.finish_draining(&mut open, false, None).await?;
        if open.is_some() {
            let action = Action::Close { drive: Some(self.name.clone()), wait: true };
            return Err(failure::state("The drive is open.", action));
        }
        self.check_closed(&open)?;
        self.check_nothing_unsent(None).await?;
        let (objects, _) = self.objects().await?;
        let device = self.registry.device();
        drive::rollback(&objects, self.uuid(), label, device)
            .await
            .map_err(|error| failure::drive(&error))?;
        let (head, _, root) =
            drive::current(&objects, self.uuid()).await.map_err(|error| failure::drive(&error))?;
        drop(open);
        Ok(status::version(&head, &root))
    }
}
