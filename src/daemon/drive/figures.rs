//! The figures of a drive: what is shown of it while it is not open, and how full its file system is.
//!
//! The last figures are remembered across daemons, only for display. Whether uploads are pending is decided by the journal and not by these
//! figures: a crash may have changed it since.

use super::Drive;
use super::opened::Place;
use super::usage::{Full, Usage};
use crate::api::{self, DriveState, DriveStatus, Holder, ReplicaStatus};
use crate::daemon::registry;
use crate::daemon::status::now_ms;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

const NAME: &str = "figures.json";

/// The figures of one drive.
pub(in crate::daemon) struct Figures {
    /// The file that remembers them.
    path: PathBuf,
    // Held to read or change it, never while waiting.
    shown: Mutex<Shown>,
    usage: Arc<Usage>,
}

/// What was shown last.
struct Shown {
    state: DriveState,
    /// Since when, in milliseconds of the Unix epoch.
    since_ms: u64,
    /// The figures from when the drive was last open.
    last: Option<DriveStatus>,
}

/// What is known of a closed drive apart from its figures.
struct Closed {
    name: String,
    store: String,
    /// Whether this computer has changes that the store lacks.
    is_left_to_upload: bool,
    /// Whether the drive was open when the service ended.
    was_open: bool,
}

impl Figures {
    /// Bytes that files take, as far as it is known already.
    pub(super) fn last_used_bytes(&self) -> u64 {
        self.usage.last_used_bytes()
    }

    /// The figures that are remembered in `directory`; none are shown before [`Drive::recall_figures`].
    pub fn new(directory: PathBuf) -> Self {
        let shown = Shown { state: DriveState::Closed, since_ms: now_ms(), last: None };
        Self { path: directory.join(NAME), shown: Mutex::new(shown), usage: Arc::default() }
    }

    /// The figures from when the drive was last open, if any are known.
    pub fn last(&self) -> Option<DriveStatus> {
        self.shown.lock().last.clone()
    }

    /// Since when the drive is in `state`, which is shown now, in milliseconds of the Unix epoch.
    pub fn since_ms(&self, state: DriveState) -> u64 {
        let mut shown = self.shown.lock();
        if shown.state != state {
            (shown.state, shown.since_ms) = (state, now_ms());
        }
        shown.since_ms
    }

    /// Keeps the figures of an open drive. Those of a version that is only looked at are kept only if no others are known.
    pub fn keep(&self, status: &DriveStatus, is_of_a_look: bool) {
        let mut shown = self.shown.lock();
        if let (Some(last), true) = (&mut shown.last, is_of_a_look) {
            last.replicas.clone_from(&status.replicas);
            return;
        }
        let mut last = status.clone();
        (last.block_device, last.mountpoint, last.attach) = (None, None, None);
        (last.pending_pull_bytes, last.batch_bytes, last.batch_done_bytes) = (0, 0, 0);
        (last.lacks_metadata, last.collecting, last.prefetch_bytes) = (false, None, 0);
        shown.last = Some(last);
    }

    /// Another device holds the drive. `blank` is shown with it if no figures are known.
    pub fn keep_holder(&self, holder: Option<&Holder>, blank: DriveStatus) {
        self.shown.lock().last.get_or_insert(blank).holder = holder.cloned();
    }

    /// The status of the drive's replicas when it was last open.
    pub fn last_replicas(&self) -> Vec<ReplicaStatus> {
        self.shown.lock().last.as_ref().map_or(Vec::new(), |last| last.replicas.clone())
    }

    /// The engine has been put down.
    pub fn all_applied(&self) {
        if let Some(last) = &mut self.shown.lock().last {
            all_applied(last);
        }
    }

    /// The last figures are those of something else.
    pub fn forget(&self) {
        // The file may not exist; and if it stays, it is only for display.
        let _ = std::fs::remove_file(&self.path);
        self.shown.lock().last = None;
    }

    /// The cache was deleted.
    pub fn without_cache(&self) {
        let without = |figures: &mut DriveStatus| {
            (figures.cached_bytes, figures.unapplied_bytes) = (0, 0);
            figures.cache = api::CacheSplit::default();
        };
        if let Some(last) = &mut self.shown.lock().last {
            without(last);
        }
        if let Some(mut figures) = self.load() {
            without(&mut figures);
            self.save(&figures);
        }
    }

    /// Bytes that files take on the drive that is mounted at `place`; the last figure if no newer one is available soon.
    pub async fn used_bytes(&self, place: &Place) -> u64 {
        self.usage.used_bytes(place).await
    }

    /// The resource that the file system is short of, by the last figure.
    pub fn full(&self) -> Option<Full> {
        self.usage.full()
    }

    /// The remembered figures; `None` if they cannot be read: they are for display.
    fn load(&self) -> Option<DriveStatus> {
        serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()
    }

    fn save(&self, figures: &DriveStatus) {
        let text = serde_json::to_vec(figures).expect("the API's types become JSON");
        if let Err(error) = registry::replace(&self.path, &text) {
            tracing::warn!(drive = figures.name, %error, "its figures could not be written");
        }
    }

    /// Shows the remembered figures of a closed drive, or those of `blank` if all that is known is that uploads are pending.
    fn recall(&self, closed: Closed, blank: DriveStatus) {
        let known = self.load().filter(|known| known.uuid == blank.uuid);
        if known.is_none() && !closed.is_left_to_upload {
            return;
        }
        self.shown.lock().last = Some(recalled(known.unwrap_or(blank), closed));
    }
}

/// Putting an engine down applies its journal to the cache.
fn all_applied(figures: &mut DriveStatus) {
    let applied = std::mem::take(&mut figures.unapplied_bytes);
    figures.cached_bytes += applied;
    figures.cache.dirty_bytes += applied;
}

/// What the figures of an earlier daemon still say about a closed drive. If nothing says how many bytes are pending, the amount is shown as
/// not counted.
fn recalled(mut figures: DriveStatus, closed: Closed) -> DriveStatus {
    all_applied(&mut figures);
    // If the drive was open, it may have been written to since the figures were counted.
    let is_counted = figures.unpushed_is_known && !closed.was_open;
    if closed.is_left_to_upload {
        figures.set_unsent(if is_counted { figures.unpushed_bytes } else { 0 });
    } else {
        (figures.unpushed_bytes, figures.unpushed_is_known) = (0, true);
    }
    if !(closed.is_left_to_upload && is_counted) {
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
    (figures.name, figures.store) = (closed.name, closed.store);
    (figures.block_device, figures.mountpoint, figures.attach) = (None, None, None);
    figures
}

impl Drive {
    /// Remembers the current figures.
    pub(super) async fn save_figures(&self) {
        let status = self.status().await;
        self.figures.save(&status);
    }

    /// Shows the remembered figures until the drive is opened.
    pub(super) fn recall_figures(&self) {
        let closed = Closed {
            name: self.name.clone(),
            store: self.store_url(),
            is_left_to_upload: self.is_left_to_upload(),
            was_open: self.config.lock().open.is_some(),
        };
        self.figures.recall(closed, self.blank());
    }
}
