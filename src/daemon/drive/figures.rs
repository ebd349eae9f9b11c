//! The figures of a drive that is not open, as they last were: remembered across daemons, only for display.
//!
//! Whether uploads are pending is decided by the journal and not by these figures: a crash may have changed it since.

use super::Drive;
use crate::api::{self, DriveStatus};
use crate::daemon::registry;
use crate::daemon::status::Phase;
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "figures.json";

/// The remembered figures; `None` if they cannot be read: they are for display.
pub(super) fn load(directory: &Path) -> Option<DriveStatus> {
    serde_json::from_slice(&std::fs::read(directory.join(NAME)).ok()?).ok()
}

pub(in crate::daemon) fn forget(directory: &Path) {
    // The file may not exist; and if it stays, it is only for display.
    let _ = std::fs::remove_file(directory.join(NAME));
}

/// Putting an engine down applies its journal to the cache.
fn all_applied(figures: &mut DriveStatus) {
    let applied = std::mem::take(&mut figures.unapplied_bytes);
    figures.cached_bytes += applied;
    figures.cache.dirty_bytes += applied;
}

impl Drive {
    /// The engine has been put down.
    pub(super) fn figures_all_applied(&self) {
        if let Some(last) = &mut self.shown.lock().last {
            all_applied(last);
        }
    }

    /// Remembers the current figures.
    pub(super) async fn save_figures(&self) {
        let status = self.status().await;
        let path = self.registry.directory(&self.name).join(NAME);
        let text = serde_json::to_vec(&status).expect("the API's types become JSON");
        if let Err(error) = registry::replace(&path, &text) {
            tracing::warn!(drive = self.name, %error, "its figures could not be written");
        }
    }

    /// Shows the remembered figures until the drive is opened. If nothing says how many bytes are pending, the amount is shown as not
    /// counted.
    pub(super) fn recall_figures(&self) {
        let is_left = self.is_left_to_upload();
        let known =
            load(&self.registry.directory(&self.name)).filter(|known| known.uuid == self.uuid().to_string());
        if known.is_none() && !is_left {
            return;
        }
        let mut figures = known.unwrap_or_else(|| self.blank());
        all_applied(&mut figures);
        // If the drive was open, it may have been written to since the figures were counted.
        let is_counted = figures.unpushed_is_known && self.config.lock().open.is_none();
        if is_left {
            figures.set_unsent(if is_counted { figures.unpushed_bytes } else { 0 });
        } else {
            (figures.unpushed_bytes, figures.unpushed_is_known) = (0, true);
        }
        if !(is_left && is_counted) {
            figures.dirty_bytes = 0;
            // All that is still known of these bytes is that they are here.
            figures.cache.evictable_bytes += std::mem::take(&mut figures.cache.dirty_bytes);
        }
        figures.oldest_dirty_age_ms = 0;
        // These count from the start of this daemon.
        (figures.requests, figures.daemon_pid) = (api::ByKind::default(), std::process::id());
        (figures.sent_bytes, figures.received_bytes) = (0, 0);
        (figures.sent_by_kind, figures.received_by_kind) = Default::default();
        (figures.fetched_bytes, figures.fetched_used_bytes) = (0, 0);
        (figures.name, figures.store) = (self.name.clone(), self.store_url());
        (figures.block_device, figures.mountpoint, figures.attach) = (None, None, None);
        self.shown.lock().last = Some(figures);
    }

    /// The cache was deleted.
    pub(super) fn figures_without_cache(&self) {
        let directory = self.registry.directory(&self.name);
        let without = |figures: &mut DriveStatus| {
            (figures.cached_bytes, figures.unapplied_bytes) = (0, 0);
            figures.cache = api::CacheSplit::default();
        };
        if let Some(last) = &mut self.shown.lock().last {
            without(last);
        }
        if let Some(mut figures) = load(&directory) {
            without(&mut figures);
            let text = serde_json::to_vec(&figures).expect("the API's types become JSON");
            if let Err(error) = registry::replace(&directory.join(NAME), &text) {
                tracing::warn!(drive = self.name, %error, "its figures could not be written");
            }
        }
    }

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
}
