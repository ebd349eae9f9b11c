//! Opening a drive while its store is away.

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
    /// Opens the engine for a mount, with its store if that can be reached, else without; then also why.
    pub(super) async fn open_engine_anyway(self: &Arc<Self>) -> Result<(OpenDrive, Option<String>), Failure> {
        let mut offline = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            match self.open_engine(false).await {
                Ok(opened) => return Ok((opened, None)),
                Err(failure) if failure.code == Code::Offline => offline = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        let offline = offline.expect("every try has failed so");
        let opened = self.open_away(false, offline.clone()).await?;
        self.check_mountable(opened, offline.clone()).await.map(|opened| (opened, Some(offline.message)))
    }

    /// Opens the engine without its store, which was `offline`.
    pub(super) async fn open_away(
        self: &Arc<Self>,
        mounted: bool,
        offline: Failure,
    ) -> Result<OpenDrive, Failure> {
        match self.open_in_place(Taking::Away, mounted).await {
            // Why it needs its store after all.
            Err(failure) if failure.code == Code::Offline => {
                Err(Failure { message: format!("{} {}", offline.message, failure.message), ..failure })
            }
            opened => opened,
        }
    }

    /// Refuses to mount what would wait for the store in the middle of mounting: nothing could end that.
    pub(super) async fn check_mountable(
        &self,
        opened: OpenDrive,
        offline: Failure,
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
            message: format!("{} Not all of the drive's directories are on this computer.", offline.message),
            ..offline
        })
    }
}
