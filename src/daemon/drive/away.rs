//! Opening a drive whose store does not serve it: it is away, refuses this computer, or has no room for the few bytes that an opening
//! writes. What is on this computer is used all the same, and what is written waits.

use super::Drive;
use super::engine::Taking;
use super::opened::OpenDrive;
use crate::api::{Code, Failure};
use std::sync::Arc;
use std::time::Duration;

/// Tries to reach the store before the drive is opened without it, and the pause between: a moment's trouble is no
/// reason to miss what another device has written.
const TRIES: u32 = 3;
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to look whether all metadata is here: nothing is fetched for that.
const LOOK_PATIENCE: Duration = Duration::from_secs(20);

impl Drive {
    /// Opens the engine for a mount, once its store can be reached. A moment's trouble is waited for.
    pub(super) async fn open_engine_patiently(self: &Arc<Self>) -> Result<OpenDrive, Failure> {
        let mut tries = 1;
        loop {
            match self.open_engine(false).await {
                Err(failure) if failure.code == Code::Offline && tries < TRIES => tries += 1,
                opened => return opened,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Opens the engine for a mount without its store, which has failed; then also why.
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
                let told = if because.code == Code::Offline { failure } else { because };
                Err(Failure { message, ..told })
            }
            opened => opened,
        }
    }

    /// Refuses to mount what would wait for the store in the middle of mounting: nothing could end that.
    pub(super) async fn check_mountable(
        &self,
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

/// Whether a drive goes on with what is on this computer where its store has failed so.
pub(super) fn goes_without(failure: &Failure) -> bool {
    matches!(failure.code, Code::Offline | Code::Credentials | Code::Full)
}
