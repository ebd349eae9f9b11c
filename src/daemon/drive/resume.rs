//! Taking over what a former daemon had open: its block device and its mount if they are still there; otherwise both are made again.

use super::Drive;
use super::away::{self, AGAIN_AFTER};
use super::engine::{Patience, Taking};
use super::opened::{Attachment, OpenDrive};
use crate::api::{ActivityKind, Code, Failure};
use crate::attach;
use crate::attach::filesystem;
use crate::daemon::failure;
use crate::daemon::registry::{LastMount, OpenAs};
use crate::daemon::status::Phase;
use holdall_core::retry::Backoff;
use holdall_core::volume::TakeOver;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often a drive that could not be taken over is tried again.
const RESUME_EVERY: Duration = Duration::from_secs(5);

impl Drive {
    /// Takes over what a former daemon had open, however long its store is away.
    pub async fn resume(self: &Arc<Self>) {
        let Some(was) = self.config.lock().open.clone() else { return };
        self.set_phase(self.phase_of_opening());
        let Err(failure) = self.try_resume(&was, None).await else { return };
        let drive = self.clone();
        tokio::spawn(async move {
            let (mut last, mut refused) = (failure.code, Backoff::unwatched());
            let mut without = Some(failure).filter(away::goes_without);
            loop {
                let pause = match last {
                    // Stores mistake repeated wrong credentials for an attack; and another computer may have the drive for days.
                    Code::Credentials | Code::Held => refused.next(Some(RESUME_EVERY)),
                    // Programs wait for data that may be here; a store that has asked for patience gets some.
                    _ if without.as_ref().is_some_and(|why| why.retry_after().is_none()) => AGAIN_AFTER,
                    _ => RESUME_EVERY,
                };
                tokio::time::sleep(pause).await;
                let wanted = drive.config.lock().open.is_some();
                if !wanted {
                    return;
                }
                match drive.try_resume(&was, without.take()).await {
                    Ok(()) => return,
                    // The next try opens it without its store.
                    Err(failure) => {
                        last = failure.code;
                        without = Some(failure).filter(away::goes_without);
                    }
                }
            }
        });
    }

    /// `without` is the store's last failure, if the drive continues without its store after it.
    async fn try_resume(self: &Arc<Self>, was: &OpenAs, without: Option<Failure>) -> Result<(), Failure> {
        let mut open = self.open.lock().await;
        // A drive that is uploading must finish first.
        if let Some(open) = &*open {
            let is_up = open.attachment.is_some() || open.serving;
            return is_up
                .then_some(())
                .ok_or_else(|| failure::state("The drive is being uploaded.", "Wait."));
        }
        match self.resume_now(was, without).await {
            Ok(opened) => {
                *open = Some(opened);
                self.set_phase(Phase::Open);
                self.note(ActivityKind::Opened, format!("Opened again at {}.", was.mountpoint.display()));
                Ok(())
            }
            Err(failure) => {
                tracing::warn!(
                    drive = self.name,
                    message = failure.message,
                    "the drive cannot be reopened yet"
                );
                *self.live.write() = None;
                self.set_phase(Phase::Failed(failure.clone()));
                Err(failure)
            }
        }
    }

    async fn resume_now(
        self: &Arc<Self>,
        was: &OpenAs,
        without: Option<Failure>,
    ) -> Result<OpenDrive, Failure> {
        // A fork is only needed while programs may still use it; nobody uses a drive whose mount has ended.
        let mounted = was.mount.may_be_there();
        let again = Taking::Again { patience: Patience::Short };
        let mut opened = match (self.open_in_place(again, mounted).await, &without) {
            (Err(failure), Some(_)) if away::goes_without(&failure) => {
                self.open_away(mounted, failure).await?
            }
            (opened, _) => opened?,
        };
        let (device, identity, site) = (opened.device(), self.identity(), self.site.clone());
        let found = tokio::task::spawn_blocking(move || -> Result<_, attach::AttachError> {
            let Some(attached) = attach::reattach(device, &identity, &site)? else { return Ok(None) };
            match filesystem::find(&attached)? {
                Some(mounted) => Ok(Some(Attachment { attached, mounted })),
                // A device without a mount: the daemon ended while opening or closing.
                None => {
                    drop(attached);
                    attach::take_down(identity.uuid, &site)?;
                    Ok(None)
                }
            }
        });
        let found = found.await.map_err(|error| failure::local(&io::Error::other(error)))?;
        let attachment = match found.map_err(|error| error.failure())? {
            Some(attachment) => attachment,
            // Nobody uses the fork: the drive itself is opened again.
            None if self.fork_in(&opened.volume).is_some() => {
                self.put_down(opened).await;
                self.part_unmounted()?;
                opened = self.open_engine(TakeOver::Nobody).await?;
                self.attach(opened.device(), was.attach, was.mountpoint.clone(), false).await?
            }
            None => {
                if let Some(without) = without {
                    opened = self.check_mountable(opened, without).await?;
                }
                self.attach(opened.device(), was.attach, was.mountpoint.clone(), false).await?
            }
        };
        let place = attachment.place();
        let block_device = PathBuf::from(&place.block_device);
        opened.attachment = Some(attachment);
        *self.place.write() = Some(place);
        self.begin_pins(&opened.volume, opened.writable);
        self.begin_writeback(&opened.volume, opened.writable);
        let noted = self.remember(|config| {
            if let Some(open) = &mut config.open {
                (open.block_device, open.mount) = (block_device, LastMount::now());
            }
        });
        if let Err(failure) = noted {
            // The mount itself was recorded before it was made, and programs have waited long enough.
            tracing::warn!(
                drive = self.name,
                message = failure.message,
                "its block device could not be recorded"
            );
        }
        Ok(opened)
    }
}
