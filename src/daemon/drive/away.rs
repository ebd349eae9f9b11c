//! Opening a drive whose store does not serve it: the store is away, refuses this computer, or lacks space for the few bytes that an
//! opening writes. The drive is opened with what is on this computer all the same, and new writes wait for upload.

use super::Drive;
use super::engine::{Patience, Taking};
use super::opened::OpenDrive;
use crate::api::{Code, Failure};
use holdall_core::retry::WAITED_FOR;
use holdall_core::volume::TakeOver;
use std::sync::Arc;
use std::time::Duration;

/// How often the store is tried before the drive is opened without it, and the pause between: a moment's trouble is no reason to miss what
/// another device has written.
const TRIES: u32 = 3;
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to check whether all metadata is here: the check fetches nothing.
const LOOK_PATIENCE: Duration = Duration::from_secs(20);

impl Drive {
    /// Opens the engine for a mount, once the store can be reached. Waits out a moment's trouble.
    pub(super) async fn open_engine_patiently(self: &Arc<Self>) -> Result<OpenDrive, Failure> {
        let mut tries = 1;
        loop {
            let opened = self.open_engine_within(Patience::Short, TakeOver::Nobody).await;
            match opened.as_ref().err().and_then(again_after) {
                Some(pause) if tries < TRIES => tokio::time::sleep(pause).await,
                _ => return opened,
            }
            tries += 1;
        }
    }

    /// Opens the engine for a mount without its store, which has failed. Also returns why.
    pub(super) async fn open_without_store(
        self: &Arc<Self>,
        because: Failure,
    ) -> Result<(OpenDrive, String), Failure> {
        let opened = self.open_away(false, because.clone()).await?;
        self.check_mountable(opened, because.clone()).await.map(|opened| (opened, because.message))
    }

    /// Opens the engine without its store, which has failed.
    pub(super) async fn open_away(
        self: &Arc<Self>,
        mounted: bool,
        because: Failure,
    ) -> Result<OpenDrive, Failure> {
        match self.open_in_place(Taking::Away, mounted).await {
            // Why it needs its store after all.
            Err(failure) if failure.code == Code::Offline => {
                let message = format!("{} {}", because.message, failure.message);
                // The network alone does not help where a store refuses.
                let retry_after_s = because.retry_after_s;
                let told = if because.code == Code::Offline { failure } else { because };
                Err(Failure { message, retry_after_s, ..told })
            }
            opened => opened,
        }
    }

    /// Refuses a mount that would have to wait for the store: nothing could end a mount that hangs.
    pub(super) async fn check_mountable(
        self: &Arc<Self>,
        opened: OpenDrive,
        because: Failure,
    ) -> Result<OpenDrive, Failure> {
        if opened.volume.is_taken() {
            return Ok(opened);
        }
        let mountable = tokio::time::timeout(LOOK_PATIENCE, opened.volume.is_mountable_away()).await;
        if mountable == Ok(true) {
            return Ok(opened);
        }
        self.put_down(opened).await;
        Err(Failure {
            message: format!("{} Not all of the drive's directories are on this computer.", because.message),
            ..because
        })
    }
}

/// The pause before the next try of an opening that somebody waits for: at least as long as the store asks for. `None` if there is no next
/// try; a store that asks for a long pause is done without at once.
fn again_after(failure: &Failure) -> Option<Duration> {
    let pause = AGAIN_AFTER.max(failure.retry_after().unwrap_or_default());
    (failure.code == Code::Offline && pause <= WAITED_FOR).then_some(pause)
}

/// Whether a drive continues with what is on this computer after this failure of its store.
pub(super) fn goes_without(failure: &Failure) -> bool {
    matches!(failure.code, Code::Offline | Code::Credentials | Code::Full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::failure;
    use holdall_core::store::StoreError;

    #[test]
    fn an_opening_waits_for_a_busy_store_only_briefly() {
        let busy = |retry_after| {
            let retry_after = Option::map(retry_after, Duration::from_secs);
            failure::store(&StoreError::Busy { reason: "h asks to wait".into(), retry_after })
        };
        assert_eq!(again_after(&busy(None)), Some(AGAIN_AFTER));
        assert_eq!(again_after(&busy(Some(0))), Some(AGAIN_AFTER));
        assert_eq!(again_after(&busy(Some(2))), Some(Duration::from_secs(2)));
        assert_eq!(again_after(&busy(Some(60))), None);
        assert!(goes_without(&busy(Some(60))));
        let away = failure::store(&StoreError::Unreachable { reason: "no route".into() });
        assert_eq!(again_after(&away), Some(AGAIN_AFTER));
        assert_eq!(again_after(&failure::store(&StoreError::Denied { reason: "no".into() })), None);
    }
}
