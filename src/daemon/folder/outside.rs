//! A folder that another program unmounts: a file manager's eject, `umount`. This counts as a close, because an eject means one; while the
//! computer shuts down, the folder is closed only until the next start.

use super::Folder;
use super::close::Until;
use crate::api::ActivityKind;
use crate::daemon::shutdown;
use std::sync::Arc;

const UNMOUNTED: &str = "Another program has unmounted the folder, so it is closed here. Changes that are not uploaded yet are uploaded in the background.";

impl Folder {
    /// The mounts have changed: closes the folder if its mount is gone and was not unmounted here.
    pub fn look_at_mount(self: &Arc<Self>) {
        if self.live.read().is_some() {
            let folder = self.clone();
            tokio::spawn(async move { folder.close_as_unmounted().await });
        }
    }

    async fn close_as_unmounted(self: &Arc<Self>) {
        let is_gone = |open: &super::OpenFolder| open.mount.as_ref().is_some_and(|mount| !mount.is_mounted());
        // A close that is under way has the folder locked, and its mount is taken by the time this gets the lock.
        let mut open = self.open.lock().await;
        if !open.as_ref().is_some_and(is_gone) {
            return;
        }
        let until = match shutdown::is_under_way().await {
            true => Until::NextDaemon,
            false => Until::Asked,
        };
        if until == Until::Asked {
            tracing::warn!(folder = self.name, "another program has unmounted the folder");
            self.note(ActivityKind::Attention, UNMOUNTED);
        }
        match self.unmount(&mut open, until).await {
            Ok(()) => {
                if let Some(open) = &mut *open {
                    self.drain_in_background(open);
                }
            }
            Err(failure) => {
                tracing::warn!(
                    folder = self.name,
                    message = failure.message,
                    "the unmounted folder could not be closed"
                )
            }
        }
    }
}
