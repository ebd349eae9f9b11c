//! Closing a folder: unmounted now, its uploads then or in the background. And its end with the daemon's.
//!
//! **A close until the next daemon never records that the folder should stay closed**: the power may fail at any step, and the folder must be
//! back at the next start all the same.
//!
//! Unmounting runs to its end even if the client has disconnected: half of it is worse than all of it.

use super::condition::Phase;
use super::{Folder, Live, OpenFolder};
use crate::api::{Action, ActivityKind, Code, Failure, FolderCommand};
use crate::daemon::awake::StaysAwake;
use crate::daemon::failure::failure;
use crate::daemon::work::Work;
use holdall_core::folder::outbox::Unsettled;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// How long an ending daemon waits for an opening or a close that is under way.
const UNDER_WAY_PATIENCE: Duration = Duration::from_secs(60);
/// How long an ending daemon waits for programs that use a folder. Then they get errors: nobody serves them afterwards.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// How often unmounting is tried meanwhile.
const BUSY_INTERVAL: Duration = Duration::from_millis(500);
/// How often a closed folder looks whether all of it is at the remote.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// The text for a person whose wait for a close was interrupted.
const GOES_ON_UNMOUNTED: &str = "The folder is unmounted. Changes that are not uploaded yet are safe on this computer, and are still being uploaded.";

impl Folder {
    /// Unmounts it. The rest is uploaded, now or in the background. Returns whether it was closed before.
    pub async fn close(self: &Arc<Self>, wait: bool, work: Work) -> Result<bool, Failure> {
        let (live, already) = {
            let mut open = self.open.lock().await;
            self.check_known()?;
            let already =
                open.as_ref().is_none_or(|open| open.mount.is_none()) && !self.config.lock().is_open;
            if !already {
                let _awake = StaysAwake::because(format!("“{}” is being closed", self.name));
                self.unmount(&mut open, Until::Asked).await?;
            }
            if let Some(open) = &mut *open {
                self.drain_in_background(open);
            }
            (open.as_ref().map(|open| open.live.clone()), already)
        };
        match live {
            Some(live) if wait => self.wait_until_sent(&live, &work).await?,
            // There may be changes, and nothing runs that could upload them.
            None if wait && self.config.lock().unsent => return Err(self.left_unsent()),
            _ => {}
        }
        Ok(already)
    }

    /// Waits until everything of a closed folder is at the remote, and its engine is put down.
    async fn wait_until_sent(self: &Arc<Self>, live: &Live, work: &Work) -> Result<(), Failure> {
        match self.wait_for_uploads(live, work, GOES_ON_UNMOUNTED).await {
            // The background task was faster: it puts the engine down once everything is there.
            Err(failure) if *live.down.borrow() => {
                // It has the folder locked until it has recorded that.
                drop(self.open.lock().await);
                return if self.config.lock().unsent { Err(failure) } else { Ok(()) };
            }
            settled => settled?,
        }
        self.finish_if_still(live).await;
        Ok(())
    }

    fn left_unsent(&self) -> Failure {
        failure(
            Code::Unsent,
            "Some changes may be only on this computer, and the folder could not be started to upload them.",
            "They are safe here.",
            [self.action(FolderCommand::Status), self.action(FolderCommand::Open)],
        )
    }

    /// Unmounts it. Another program may have done that already.
    pub(super) async fn unmount(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenFolder>>,
        until: Until,
    ) -> Result<(), Failure> {
        let Some(opened) = &mut **open else {
            // It could not be opened again.
            let record = self.config.lock().mount.clone();
            if let Some(record) = record {
                super::mount::clean_up(record, &self.keeping()).await?;
            }
            self.remember(|config| (config.is_open, config.mount) = (false, None))?;
            self.set_phase(Phase::Closed);
            self.drain_what_is_left(open).await;
            return Ok(());
        };
        if let Some(mount) = &opened.mount {
            mount.take_off().await?;
        }
        opened.mount = None;
        self.set_phase(Phase::Draining);
        self.unmounted(until)?;
        let left = opened.live.engine.outbox().queue(0);
        let left = match left.waiting + left.uploading + left.failed + left.in_use {
            0 => String::new(),
            1 => " 1 file is still to be uploaded.".to_owned(),
            count => format!(" {count} files are still to be uploaded."),
        };
        self.note(ActivityKind::Closed, format!("Closed.{left}"));
        Ok(())
    }

    /// Records that it is not mounted any longer.
    fn unmounted(&self, until: Until) -> Result<(), Failure> {
        let noted = self.remember(|config| {
            config.mount = None;
            if until == Until::Asked {
                config.is_open = false;
            }
        });
        noted.map_err(|failure| Failure {
            consequence: "The folder is unmounted, and your files are safe. But the next start of the background service would mount it again.".into(),
            ..failure
        }
        .with_actions([Action::tell("Free space on this computer's disk first."), self.action(FolderCommand::Close)]))
    }

    /// Uploads the rest of a closed folder, however long its remote is away, and then puts the engine down.
    pub(super) fn drain_in_background(self: &Arc<Self>, open: &mut OpenFolder) {
        if std::mem::replace(&mut open.draining, true) {
            return;
        }
        let (folder, live) = (self.clone(), open.live.clone());
        tokio::spawn(async move {
            let mut down = live.down.subscribe();
            let is_all_sent = tokio::select! { biased;
                _ = down.wait_for(|&is_down| is_down) => false,
                is_all_sent = Box::pin(folder.drain(&live)) => is_all_sent,
            };
            // Not within the race: putting the engine down says that it is down, and must not end itself by that.
            if is_all_sent {
                folder.finish_if_still(&live).await;
            }
        });
    }

    /// Waits until everything is at the remote. False: somebody has put the engine down before.
    async fn drain(&self, live: &Live) -> bool {
        let mut awake = None;
        loop {
            let queue = live.engine.outbox().queue(0);
            if super::queue::counts(&queue).all() == 0 {
                match Box::pin(live.engine.outbox().settle()).await {
                    Ok(()) => return true,
                    Err(Unsettled::Closed) => return false,
                    // It is tried again by itself, or a person has to act.
                    Err(Unsettled::Paused(_) | Unsettled::Failed { .. }) => {}
                }
            }
            // A person may wait for it to use the files elsewhere. What waits for a person keeps no computer awake.
            match queue.uploading {
                0 => awake = None,
                _ if awake.is_none() => {
                    awake = Some(StaysAwake::because(format!("Uploading changes of “{}”", self.name)));
                }
                _ => {}
            }
            tokio::time::sleep(DRAIN_EVERY).await;
        }
    }

    /// Puts down an unmounted folder of which everything is at the remote, unless it was opened again meanwhile.
    async fn finish_if_still(self: &Arc<Self>, live: &Live) {
        let mut open = self.open.lock().await;
        let is_still = open
            .as_ref()
            .is_some_and(|open| open.mount.is_none() && Arc::ptr_eq(&open.live.engine, &live.engine));
        if is_still && let Some(open) = open.take() {
            self.put_down(open, true).await;
            self.set_phase(Phase::Closed);
        }
    }

    /// A folder that is not mounted, but may have changes that exist nowhere else: its engine uploads them.
    pub(super) async fn drain_what_is_left(self: &Arc<Self>, open: &mut MutexGuard<'_, Option<OpenFolder>>) {
        let config = self.config.lock().clone();
        if open.is_some() || !config.unsent {
            return;
        }
        match self.begin(false, false).await {
            // Nobody has it mounted, so nobody is told what is stale.
            Ok((live, _stale)) => {
                let tasks = self.begin_tasks(&live);
                *self.live.write() = Some(live.clone());
                let mut opened = OpenFolder {
                    live,
                    mount: None,
                    read_only: false,
                    no_passthrough: false,
                    draining: false,
                    tasks,
                };
                self.drain_in_background(&mut opened);
                **open = Some(opened);
                self.set_phase(Phase::Draining);
            }
            Err(failure) => {
                tracing::warn!(
                    folder = self.name,
                    message = failure.message,
                    "changes of a closed folder cannot be uploaded"
                );
                self.set_phase(Phase::Failed(failure));
            }
        }
    }

    /// The daemon ends: the folder is unmounted, and the next daemon opens it again.
    pub async fn end(self: &Arc<Self>) {
        let Ok(mut open) = tokio::time::timeout(UNDER_WAY_PATIENCE, self.open.lock()).await else {
            tracing::warn!(
                folder = self.name,
                "it is still being opened or closed; the next service continues"
            );
            return;
        };
        let Some(opened) = open.take() else { return };
        if let Some(mount) = &opened.mount {
            self.take_off_patiently(mount).await;
            if let Err(failure) = self.unmounted(Until::NextDaemon) {
                tracing::warn!(folder = self.name, message = failure.message, "the unmount is not recorded");
            }
        }
        // Nobody has seen that all of it is at the remote: the next daemon looks.
        self.put_down(opened, false).await;
    }

    /// Unmounts, and waits a while for programs that use it.
    async fn take_off_patiently(&self, mount: &super::mount::Mount) {
        let begun = Instant::now();
        let mut is_told = false;
        loop {
            let Err(failure) = mount.take_off().await else { return };
            if !std::mem::replace(&mut is_told, true) {
                let message = format!("The folder cannot be unmounted yet. {}", failure.message);
                tracing::warn!(folder = self.name, message, "the service was asked to stop");
                self.note(ActivityKind::Attention, message);
            }
            if begun.elapsed() >= BUSY_PATIENCE {
                break;
            }
            tokio::time::sleep(BUSY_INTERVAL).await;
        }
        if let Err(failure) = mount.pull_off().await {
            tracing::warn!(
                folder = self.name,
                message = failure.message,
                "it stays mounted without a service"
            );
        }
    }
}

/// How long a folder is closed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Until somebody asks for it.
    Asked,
    /// Until the next daemon.
    NextDaemon,
}
