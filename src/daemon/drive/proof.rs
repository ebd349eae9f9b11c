//! Whether a store still does what its family relies on. It is tried beside each opening for writing: since the drive was created, a server
//! may have been replaced, or a proxy put in front of it. The result can only take trust away.

use super::Drive;
use crate::api::{ActivityKind, Failure};
use crate::daemon::failure;
use crate::daemon::stores::{self, trial};
use holdall_core::family::Mode;
use holdall_core::store::probe::{Effort, Report};
use holdall_core::store::url::StoreUrl;
use std::time::Duration;

/// How long a store may take to prove itself; one that takes longer is judged at the next opening.
const PATIENCE: Duration = Duration::from_secs(30);

impl Drive {
    /// Tries the store, unless it is a directory that only this computer changes, or was tried a moment ago. A store that cannot be tried
    /// is not judged: whatever keeps it from answering the trial keeps it from answering the opening too.
    pub(super) async fn try_store(&self) -> Option<Report> {
        let url = StoreUrl::parse(&self.store_url()).ok()?;
        if stores::is_local_directory(&url).await || self.stores.is_proved(&url) {
            return None;
        }
        let credentials = self.stores.credentials(&url).await.ok()?;
        let (stores, meter) = (self.stores.clone(), self.meter());
        let trial = async move {
            let tried = trial::of(&stores, &url, (&credentials, &meter), Effort::QUICK, None).await;
            // Nobody waits for the cleaning up.
            tokio::spawn(async move { stores.sweep_trials(&url, &credentials, &meter).await });
            tried
        };
        match to_its_end(PATIENCE, trial).await {
            Some(Ok(report)) => Some(report),
            Some(Err(failure)) => {
                tracing::warn!(drive = self.name, message = failure.message, "the store was not tested");
                None
            }
            None => {
                tracing::warn!(
                    drive = self.name,
                    "the store was not tested: it takes too long, and is tested at the next opening"
                );
                None
            }
        }
    }

    /// Why the drive cannot be written where its store is now: it relies on locks, and other computers do not see them.
    pub(super) async fn relies_on_locks(&self) -> Option<Failure> {
        let swaps = self.config.lock().mode == Mode::Swap;
        let url = StoreUrl::parse(&self.store_url()).ok().filter(|_| swaps)?;
        match &url {
            StoreUrl::File(path) if stores::is_shared_directory(&url).await => {
                Some(failure::shared_directory(&self.name, path))
            }
            _ => None,
        }
    }

    /// Says in Activity that a tool keeps the store's directory in sync.
    pub(super) async fn warn_of_synced_folder(&self) {
        self.warn_where_synced(&self.store_url()).await;
    }

    /// The same for any store of the drive.
    pub(super) async fn warn_where_synced(&self, store: &str) {
        let Ok(url) = StoreUrl::parse(store) else { return };
        if let Some(tool) = stores::sync_tool(&url).await {
            self.note(ActivityKind::Attention, failure::synced_warning(&url, tool));
        }
    }

    /// Applies a trial's result to a drive that is being opened for writing.
    pub(super) fn judge(&self, report: Option<&Report>) -> Result<(), Failure> {
        let family = self.config.lock().mode;
        let Some(report) = report else { return Ok(()) };
        // The opening itself reports read-only credentials, and better than a mode could.
        if !report.rights.write || !report.rights.read || !report.rights.list {
            return Ok(());
        }
        let now = family.min(report.mode);
        *self.mode_now.lock() = Some(now);
        if family == Mode::Swap && now < Mode::Swap {
            if let Ok(StoreUrl::File(path)) = StoreUrl::parse(&self.store_url()) {
                return Err(failure::shared_directory(&self.name, &path));
            }
            let why = report.reasons.join("; ");
            return Err(failure::store_demoted(&self.name, &why));
        }
        if let Ok(url) = StoreUrl::parse(&self.store_url())
            && now == family
        {
            self.stores.proved(&url);
        }
        Ok(())
    }
}

/// Waits for a trial for at most `patience`. The trial runs to its end all the same, even if nobody waits for it any longer, so that it
/// deletes what it has put into the store.
async fn to_its_end<T: Send + 'static>(
    patience: Duration,
    trial: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    tokio::time::timeout(patience, tokio::spawn(trial)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_takes_too_long_still_cleans_up() {
        let cleaned = Arc::new(AtomicU32::new(0));
        let trial = |takes| {
            let cleaned = cleaned.clone();
            async move {
                tokio::time::sleep(takes).await;
                cleaned.fetch_add(1, Relaxed)
            }
        };
        assert_eq!(to_its_end(PATIENCE, trial(PATIENCE / 2)).await, Some(0));
        assert_eq!(to_its_end(PATIENCE, trial(PATIENCE * 2)).await, None);
        // Nobody waits for this trial either: its opening has failed.
        assert!(tokio::time::timeout(PATIENCE / 4, to_its_end(PATIENCE, trial(PATIENCE / 2))).await.is_err());
        tokio::time::sleep(PATIENCE * 2).await;
        assert_eq!(cleaned.load(Relaxed), 3);
    }
}
