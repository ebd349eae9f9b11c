//! The keeper's copy of the folder's connection: programs go on with their files after the daemon was killed, once the next one serves.
//!
//! Without a keeper a folder works all the same; then programs get errors when the daemon is killed.

use super::Folder;
use super::config::MountRecord;
use crate::attach::{Site, folder_kept};
use holdall_fuse::folder::Mounted;
use holdall_fuse::handover::Handover;
use uuid::Uuid;

/// Where the copy is.
#[derive(Clone)]
pub(super) struct Keeping {
    site: Site,
    folder: Uuid,
}

impl Keeping {
    /// Gives the keeper a copy. Returns whether it has one. It starts a process: call it where blocking is allowed.
    pub fn keep(&self, mounted: &Mounted) -> bool {
        let kept = folder_kept::keep(&self.site, self.folder, mounted);
        if let Err(error) = &kept {
            tracing::warn!(
                folder = %self.folder,
                %error,
                "no keeper has the folder's connection: if this service dies, programs get errors"
            );
        }
        kept.is_ok()
    }

    /// What the keeper has for that mount. `None`: there is nothing to continue with.
    pub async fn take(&self, record: &MountRecord) -> Option<Handover> {
        let (keeping, path) = (self.clone(), record.path.clone());
        let work = move || folder_kept::take(&keeping.site, keeping.folder, &path);
        tokio::task::spawn_blocking(work).await.ok().flatten()
    }

    /// The keeper closes its copy.
    pub async fn leave(&self, record: &MountRecord) {
        let (keeping, path) = (self.clone(), record.path.clone());
        let work = move || folder_kept::leave(&keeping.site, keeping.folder, &path);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
            tracing::warn!(folder = %self.folder, %error, "the keeper may still have the folder's connection");
        }
    }
}

impl Folder {
    pub(super) fn keeping(&self) -> Keeping {
        Keeping { site: self.common.site.clone(), folder: self.uuid }
    }

    /// Gives a copy of its connection to the keeper, whose predecessor has died. Returns whether it is kept, if there is one to keep.
    pub async fn keep_again(&self) -> bool {
        let open = self.open.lock().await;
        match open.as_ref().and_then(|open| open.mount.as_ref()) {
            Some(mount) => mount.keep_again().await,
            None => true,
        }
    }
}
