//! Continuing with what a former daemon had open, or had not uploaded yet.

use super::condition::Phase;
use super::config::{Config, MountRecord};
use super::open::Wishes;
use super::{Folder, OpenFolder, mount};
use crate::api::{ActivityKind, Failure};
use holdall_fuse::handover::Handover;
use std::sync::Arc;

impl Folder {
    /// Opens the folder again if it was open, and uploads what it may have left.
    pub async fn resume(self: &Arc<Self>) {
        let mut open = self.open.lock().await;
        let config = self.config.lock().clone();
        if open.is_some() {
            // Somebody was faster.
            return;
        }
        if !config.is_open {
            self.drain_what_is_left(&mut open).await;
            return;
        }
        if let Some(taken) = self.take_over(&config).await {
            let at = taken.mount.as_ref().map(|mount| mount.mountpoint().display().to_string());
            *self.live.write() = Some(taken.live.clone());
            *open = Some(taken);
            self.set_phase(Phase::Open);
            self.note(ActivityKind::Opened, format!("Opened again at {}.", at.unwrap_or_default()));
            return;
        }
        let wishes = Wishes { at: None, read_only: config.read_only, no_passthrough: config.no_passthrough };
        if let Err(failure) = self.open_now(&mut open, &wishes).await {
            tracing::warn!(folder = self.name, message = failure.message, "it could not be opened again");
            self.note(ActivityKind::Attention, format!("It could not be opened again. {}", failure.message));
            // It is still meant to be open, and the next daemon tries again.
            let noted = self.remember(|config| config.is_open = true);
            if noted.is_err() {
                tracing::warn!(folder = self.name, "that it was open is not recorded");
            }
            self.set_phase(Phase::Failed(failure));
        }
    }

    /// Continues with the mount that a killed daemon has left, if the keeper has its connection: programs have noticed a pause. Otherwise
    /// that mount is taken down, and the folder is mounted anew.
    async fn take_over(self: &Arc<Self>, config: &Config) -> Option<OpenFolder> {
        let record = config.mount.clone()?;
        let handover = self.keeping().take(&record).await?;
        self.set_phase(Phase::Connecting);
        match self.continue_with(handover, record, config).await {
            Ok(opened) => Some(opened),
            Err(failure) => {
                let message = failure.message;
                tracing::warn!(folder = self.name, message, "its mount cannot be continued with");
                None
            }
        }
    }

    async fn continue_with(
        self: &Arc<Self>,
        handover: Handover,
        record: MountRecord,
        config: &Config,
    ) -> Result<OpenFolder, Failure> {
        let (mut live, stale) = self.begin(config.read_only, true).await?;
        let registering = (!config.no_passthrough).then(|| self.registering(&live));
        let (engine, others) = (live.engine.clone(), (registering, self.keeping()));
        match mount::resume((engine, stale), (handover, record), others).await {
            Ok((mount, passthrough)) => {
                live.passthrough = passthrough;
                let tasks = self.begin_tasks(&live);
                Ok(OpenFolder {
                    live,
                    mount: Some(mount),
                    read_only: config.read_only,
                    no_passthrough: config.no_passthrough,
                    draining: false,
                    tasks,
                })
            }
            Err(failure) => {
                if let Err(error) = live.engine.close().await {
                    tracing::warn!(folder = self.name, %error, "the engine could not be closed in order");
                }
                Err(failure)
            }
        }
    }
}
