//! Whether a store still does what its family relies on. It is tried beside each opening for writing: a server may have
//! been replaced, or a proxy put in front of it, since the drive was made. What is found can only take trust away.

use super::Drive;
use crate::api::Failure;
use crate::daemon::failure;
use crate::daemon::stores::trial;
use holdall_core::format::family::Mode;
use holdall_core::store::probe::{Effort, Report};
use holdall_core::store::url::StoreUrl;
use std::time::Duration;

/// How long a store may take to prove itself; one that takes longer is judged at the next opening.
const PATIENCE: Duration = Duration::from_secs(30);

impl Drive {
    /// Tries the store, unless it is a directory of this computer or was tried a moment ago. A store that cannot be tried
    /// is not judged: whatever keeps it from answering keeps the opening from it as well.
    pub(super) async fn try_store(&self) -> Option<Report> {
        let url = StoreUrl::parse(&self.store_url()).ok()?;
        if matches!(url, StoreUrl::File(_)) || self.stores.is_proved(&url) {
            return None;
        }
        let credentials = self.stores.credentials(&url).await.ok()?;
        let meter = self.meter();
        let trial = trial::of(&self.stores, &url, (&credentials, &meter), Effort::QUICK, None);
        match tokio::time::timeout(PATIENCE, trial).await {
            Ok(Ok(report)) => Some(report),
            Ok(Err(failure)) => {
                tracing::info!(drive = self.name, message = failure.message, "the store could not be tried");
                None
            }
            Err(_) => {
                tracing::info!(drive = self.name, "the store takes too long to be tried");
                None
            }
        }
    }

    /// What a trial means for a drive that is being opened for writing.
    pub(super) fn judge(&self, report: Option<&Report>) -> Result<(), Failure> {
        let family = self.config.lock().mode;
        let Some(report) = report else { return Ok(()) };
        // Credentials that may not write are told by the opening itself, better than by a mode.
        if !report.rights.write || !report.rights.read || !report.rights.list {
            return Ok(());
        }
        let now = family.min(report.mode);
        *self.mode_now.lock() = Some(now);
        if family == Mode::Swap && now < Mode::Swap {
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
