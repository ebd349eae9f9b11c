//! Closing a drive: for good, or until the next daemon.
//!
//! Unmounting runs to its end even when whoever asked has gone: half of it is worse than all of it.

use super::Drive;
use super::opened::OpenDrive;
use super::upload::with_progress;
use crate::api::{Code, Failure};
use crate::attach;
use crate::daemon::failure::{self, failure};
use crate::daemon::status::Phase;
use crate::daemon::work::Work;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How long requests in flight may take at a hand-over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(10);

impl Drive {
    /// Unmounts it. What is left is pushed: now, or in the background.
    pub async fn close(self: &Arc<Self>, wait: bool, work: Work) -> Result<(), Failure> {
        let drive = self.clone();
        let unmounting = tokio::spawn(async move {
            let mut open = drive.open.lock().await;
            drive.unmount(&mut open).await
        });
        let unmounted = unmounting.await;
        unmounted.unwrap_or_else(|error| Err(failure::local(&io::Error::other(error))))?;
        let mut open = self.open.lock().await;
        let Some(opened) = &*open else { return Ok(()) };
        if !wait {
            drop(open);
            let drive = self.clone();
            tokio::spawn(async move { drive.drain().await });
            return Ok(());
        }
        if let Some(pusher) = opened.volume.pusher() {
            if pusher.is_paused() {
                return Err(failure(
                    Code::Unsent,
                    "Uploading is paused, and changes are only on this computer.",
                    "They are safe here; the drive is unmounted.",
                    format!("Run holdall drive resume {}, then close it again.", self.name),
                ));
            }
            let released = with_progress(pusher, &work, opened.volume.release()).await;
            released.map_err(|error| failure::push(&error))?;
        }
        self.finish(&mut open).await;
        Ok(())
    }

    async fn unmount(self: &Arc<Self>, open: &mut MutexGuard<'_, Option<OpenDrive>>) -> Result<(), Failure> {
        let Some(opened) = &mut **open else {
            if self.config.lock().open.is_some() {
                self.remember(|config| config.open = None)?;
                self.set_phase(Phase::Closed);
                let (uuid, site) = (self.uuid(), self.site.clone());
                let down = tokio::task::spawn_blocking(move || attach::take_down(uuid, &site)).await;
                down.map_err(|error| failure::local(&io::Error::other(error)))?
                    .map_err(|error| error.failure())?;
            }
            return Ok(());
        };
        opened.volume.prepare_to_close();
        if let Some(mut at) = opened.attachment.take() {
            let work = move || {
                let done = at.mounted.unmount().and_then(|()| at.attached.detach());
                (at, done)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let (at, done) = done.map_err(|error| failure::local(&io::Error::other(error)))?;
            if let Err(error) = done {
                opened.attachment = Some(at);
                return Err(error.failure());
            }
        }
        if opened.writable {
            self.remember(|config| config.open = None)?;
        }
        self.set_phase(Phase::Draining);
        Ok(())
    }

    /// Pushes what a closed drive has left, as long as it takes, and puts it down then.
    async fn drain(self: &Arc<Self>) {
        let volume = {
            let open = self.open.lock().await;
            open.as_ref().filter(|open| open.attachment.is_none()).map(|open| open.volume.clone())
        };
        let Some(volume) = volume else { return };
        if let Err(error) = volume.release().await {
            tracing::warn!(drive = self.name, %error, "not all of a closed drive could be uploaded");
            return;
        }
        let mut open = self.open.lock().await;
        // It may have been opened again meanwhile, with another engine.
        if open.as_ref().is_some_and(|open| open.attachment.is_none() && Arc::ptr_eq(&open.volume, &volume)) {
            self.finish(&mut open).await;
        }
    }

    /// The daemon ends: the drive waits for the next one, or is closed.
    pub async fn end(self: &Arc<Self>, hand_over: bool) {
        if !hand_over && let Err(failure) = self.close_for_now().await {
            tracing::warn!(
                drive = self.name,
                message = failure.message,
                "it stays mounted for the next daemon"
            );
        }
        let Some(mut opened) = self.open.lock().await.take() else { return };
        if let Some(mut at) = opened.attachment.take() {
            let left = tokio::task::spawn_blocking(move || at.attached.hand_over(HAND_OVER_PATIENCE)).await;
            if let Ok(Err(error)) = left {
                tracing::warn!(drive = self.name, %error, "the drive could not be handed over");
            }
        }
        self.put_down(opened).await;
    }

    /// Unmounts, but remembers that it was open: the next daemon opens it again.
    async fn close_for_now(self: &Arc<Self>) -> Result<(), Failure> {
        let was = self.config.lock().open.clone();
        let mut open = self.open.lock().await;
        if open.is_none() {
            return Ok(());
        }
        self.unmount(&mut open).await?;
        self.finish(&mut open).await;
        self.remember(|config| config.open = was)
    }
}
