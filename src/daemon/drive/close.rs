//! Closing a drive: for good, or until the next daemon.
//!
//! **A close until the next daemon never records, not even for a moment, that the drive should stay closed**: the power may fail at any
//! step, and the drive must be back at the next login all the same. A daemon that finds a drive remembered as open, but attached to
//! nothing, attaches it again.
//!
//! Unmounting runs to its end even if the client has disconnected: half of it is worse than all of it.

use super::Drive;
use super::opened::OpenDrive;
use super::upload::with_progress;
use crate::api::{Action, ActivityKind, Code, Failure};
use crate::attach::{self, AttachError};
use crate::daemon::awake::StaysAwake;
use crate::daemon::failure::{self, failure};
use crate::daemon::registry::LastMount;
use crate::daemon::status::Phase;
use crate::daemon::work::Work;
use crate::daemon::{shutdown, systemd};
use crate::sizes::format_bytes;
use holdall_core::push::{PushError, Pusher};
use holdall_core::volume::Volume;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// How long an ending daemon waits for an opening or a close that is under way: half of it is worse than all of it, but a check of a file
/// system may take hours.
const UNDER_WAY_PATIENCE: Duration = Duration::from_secs(300);
/// How long an ending daemon that must unmount a drive waits for programs that use it.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// The same when the computer shuts down. systemd kills what does not end by itself after 90 s; after 120 s it kills a user's own services,
/// and among them the daemon.
const BUSY_PATIENCE_AT_SHUTDOWN: Duration = Duration::from_secs(100);
/// The same for a daemon that a command has started: it is ended together with the programs that it would wait for.
const BUSY_PATIENCE_UNKEPT: Duration = Duration::from_secs(60);
/// How often unmounting is tried meanwhile.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// How long writing back may take for a drive that stays mounted. The data goes to the local disk, and is 256 MiB at most where the kernel
/// limits it.
const LAST_SYNC_DEADLINE: Duration = Duration::from_secs(10);
/// How long requests in flight may take at a hand-over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(10);
/// How often a closed drive tries again to upload what its store did not take, and checks for progress.
const DRAIN_EVERY: Duration = Duration::from_secs(2);
/// The text for a person whose wait for a close was interrupted.
const GOES_ON_UNMOUNTED: &str = "The drive is unmounted. Changes that are not uploaded yet are safe on this computer, and are still being uploaded.";

impl Drive {
    /// Unmounts it. The rest is pushed, now or in the background. Returns whether it was closed before.
    pub async fn close(self: &Arc<Self>, wait: bool, work: Work) -> Result<bool, Failure> {
        let (volume, already) = {
            let mut open = self.when_served_no_longer().await;
            let already = self.is_closed() && open.as_ref().is_none_or(OpenDrive::is_put_away);
            if !already {
                let _awake = StaysAwake::because(format!("“{}” is being closed", self.name));
                self.unmount(&mut open, Until::Asked).await?;
            }
            match &mut *open {
                Some(open) => {
                    self.drain_in_background(open);
                    (open.volume.clone(), already)
                }
                None => return Ok(already),
            }
        };
        self.wait_for_upload(volume, wait, work).await.map(|()| already)
    }

    /// Waits until everything of a closed drive is in the store, if `wait` is set.
    async fn wait_for_upload(
        self: &Arc<Self>,
        volume: Arc<Volume>,
        wait: bool,
        work: Work,
    ) -> Result<(), Failure> {
        let Some(pusher) = volume.pusher().filter(|_| wait) else { return Ok(()) };
        if pusher.is_paused() && volume.has_unsent() {
            return Err(failure(
                Code::Unsent,
                "Uploads are paused, and some changes are only on this computer.",
                "They are safe here; the drive is unmounted.",
                [Action::Resume { drive: Some(self.name.clone()) }, Action::tell("Then close it again.")],
            ));
        }
        let releasing = async {
            match volume.release().await {
                Err(PushError::Forked(_)) => volume.release().await,
                released => released,
            }
        };
        let releasing = with_progress(&volume, &work, releasing);
        let released = work.unless_interrupted(GOES_ON_UNMOUNTED, releasing).await?;
        match released {
            // The background task was faster: it puts the drive down once everything is in the store.
            Err(PushError::Closed) if !volume.has_unsent() => {
                drop(self.open.lock().await);
                return self.check_no_fork(&volume);
            }
            released => released.map_err(|error| failure::push(&error))?,
        }
        let settling = self.settle_replicas(Duration::MAX);
        work.unless_interrupted(GOES_ON_UNMOUNTED, settling).await?;
        let ours = self.check_no_fork(&volume);
        self.finish_if_still(&volume).await;
        ours
    }

    /// Unmounts it and removes its block device. Another program may have done part of that already.
    pub(super) async fn unmount(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        until: Until,
    ) -> Result<(), Failure> {
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
        opened.check_not_serving()?;
        opened.volume.prepare_to_close();
        // Looking at files uses the drive.
        self.end_pins().await;
        self.end_writeback().await;
        if let Some(mut at) = opened.attachment.take() {
            let work = move || {
                let done = at.mounted.take_off().and_then(|()| at.attached.detach());
                (at, done)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let (at, done) = done.map_err(|error| {
                opened.volume.stays_open();
                failure::local(&io::Error::other(error))
            })?;
            if let Err(error) = done {
                opened.volume.stays_open();
                opened.attachment = Some(at);
                self.begin_pins(&opened.volume, opened.writable);
                self.begin_writeback(&opened.volume, opened.writable);
                return Err(error.failure());
            }
            *self.place.write() = None;
        }
        if opened.writable {
            let unsent = opened.volume.has_unsent();
            let noted = self.remember(|config| {
                config.unsent = unsent;
                match (until, &mut config.open) {
                    (Until::Asked, open) => *open = None,
                    (Until::NextDaemon, Some(open)) => open.mount = LastMount::Ended,
                    (Until::NextDaemon, None) => {}
                }
            });
            // It is unmounted, even if the disk does not record that.
            self.set_phase(Phase::Draining);
            noted.map_err(|failure| not_noted(failure, &self.name))?;
        }
        self.set_phase(Phase::Draining);
        self.save_figures().await;
        let left = opened.volume.status().unpushed_bytes;
        let left = match left {
            0 => String::new(),
            bytes => format!(" {} is still to be uploaded.", format_bytes(bytes)),
        };
        self.note(ActivityKind::Closed, format!("Closed.{left}"));
        Ok(())
    }

    /// Pushes the rest of a closed drive, however long its store is away, and then puts the drive down.
    pub(super) fn drain_in_background(self: &Arc<Self>, open: &mut OpenDrive) {
        if !std::mem::replace(&mut open.draining, true) {
            let (drive, volume) = (self.clone(), open.volume.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = drive.drain(volume.clone()) => {}
                    () = drive.stay_awake_for(&volume) => {}
                }
            });
        }
    }

    /// Keeps the computer awake while the upload of a closed drive makes progress: a person may wait for it to open the drive on another
    /// computer.
    async fn stay_awake_for(&self, volume: &Volume) {
        let Some(is_stuck) = volume.pusher().map(Pusher::is_stuck) else { return pending().await };
        let mut awake = None;
        loop {
            if is_stuck() {
                awake = None;
            } else if awake.is_none() {
                let why = format!("Uploading changes of “{}”", self.name);
                awake = Some(StaysAwake::because(why));
            }
            tokio::time::sleep(DRAIN_EVERY).await;
        }
    }

    async fn drain(self: &Arc<Self>, volume: Arc<Volume>) {
        loop {
            match volume.release().await {
                Ok(()) => return self.finish_if_still(&volume).await,
                Err(PushError::Read(_) | PushError::Paused | PushError::OnHold | PushError::CutOff) => {
                    tokio::time::sleep(DRAIN_EVERY).await
                }
                Err(PushError::Forked(_)) => {}
                // It was opened again with another engine.
                Err(PushError::Closed) => return,
                Err(
                    error @ (PushError::Fenced(_)
                    | PushError::HandedOver { .. }
                    | PushError::Head(_)
                    | PushError::Journal(_)
                    | PushError::Label(_)),
                ) => {
                    tracing::warn!(drive = self.name, %error, "not all of a closed drive could be uploaded");
                    return;
                }
            }
        }
    }

    /// Puts down an unmounted drive, unless it was opened again with another engine.
    pub(super) async fn finish_if_still(self: &Arc<Self>, volume: &Arc<Volume>) {
        let mut open = self.open.lock().await;
        if open.as_ref().is_some_and(|open| open.attachment.is_none() && Arc::ptr_eq(&open.volume, volume)) {
            let was_looked_at = open.as_ref().is_some_and(|open| !open.writable);
            self.finish(&mut open).await;
            drop(open);
            if was_looked_at {
                self.upload_in_background();
            }
        }
    }

    /// The daemon ends: the drive waits for the next one, or is closed.
    pub async fn end(self: &Arc<Self>, hand_over: bool) {
        if tokio::time::timeout(UNDER_WAY_PATIENCE, self.open.lock()).await.is_err() {
            tracing::warn!(
                drive = self.name,
                "it is still being opened or closed; the next service continues"
            );
            return;
        }
        let mut goes_down = false;
        if !hand_over && let Err(failure) = self.close_patiently(&mut goes_down).await {
            tracing::warn!(
                drive = self.name,
                message = failure.message,
                goes_down,
                "it stays mounted when the service ends"
            );
        }
        // There may be no next daemon: what programs have written must be in the journal by then.
        self.write_back(LAST_SYNC_DEADLINE).await;
        self.end_writeback().await;
        let mut open = self.open.lock().await;
        // A closed drive with everything in its store: no next daemon would release it for other computers.
        if open.as_ref().is_some_and(|open| open.is_unused() && !open.volume.has_unsent()) {
            self.stop_replicas();
            return self.finish(&mut open).await;
        }
        let Some(mut opened) = open.take() else { return };
        drop(open);
        if hand_over {
            // Programs wait for the next daemon, so nothing else may delay the hand-over.
            self.stop_replicas();
        }
        self.end_pins().await;
        if let Some(mut at) = opened.attachment.take() {
            *self.place.write() = None;
            let (uuid, site) = (self.uuid(), self.site.clone());
            let left = tokio::task::spawn_blocking(move || -> Result<(), AttachError> {
                at.attached.hand_over(HAND_OVER_PATIENCE)?;
                if goes_down {
                    // No daemon takes it over before the computer is off, and the last unmount would wait for a device that nobody serves.
                    drop(at);
                    attach::take_down(uuid, &site)?;
                }
                Ok(())
            });
            match left.await {
                Ok(Ok(())) if goes_down && opened.writable => {
                    let _ = self.note_mount(LastMount::Ended);
                }
                Ok(Err(error)) => {
                    tracing::warn!(drive = self.name, %error, "the drive could not be handed over")
                }
                _ => {}
            }
        }
        self.put_down(opened).await;
    }

    /// Closes it until the next daemon, and waits a while for programs that use it. Only if some do, finds out whether the computer is
    /// shutting down.
    async fn close_patiently(self: &Arc<Self>, goes_down: &mut bool) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut patience = None;
        loop {
            let Err(failure) = self.close_for_now().await else { return Ok(()) };
            if self.place.read().is_none() {
                return Err(failure);
            }
            let patience = match patience {
                Some(patience) => patience,
                None => {
                    *goes_down = shutdown::is_under_way().await;
                    let message = format!("The drive cannot be unmounted yet. {}", failure.message);
                    tracing::warn!(drive = self.name, message, goes_down, "the service was asked to stop");
                    self.note(ActivityKind::Attention, message);
                    // The process that ends us may not wait as long as we would.
                    self.write_back(LAST_SYNC_DEADLINE).await;
                    *patience.insert(busy_patience(*goes_down))
                }
            };
            if begun.elapsed() >= patience {
                return Err(failure);
            }
            tokio::time::sleep(BUSY_INTERVAL).await;
        }
    }

    /// Unmounts it, and keeps it remembered as open: the next daemon opens it again.
    async fn close_for_now(self: &Arc<Self>) -> Result<(), Failure> {
        let mut open = self.open.lock().await;
        if open.is_none() {
            return Ok(());
        }
        self.unmount(&mut open, Until::NextDaemon).await?;
        self.finish(&mut open).await;
        // It is not mounted, even if it is remembered as open.
        self.part_unmounted()
    }
}

/// The drive is unmounted, but the disk does not record that it must stay so.
fn not_noted(failure: Failure, name: &str) -> Failure {
    let close = Action::Close { drive: Some(name.to_owned()), wait: false };
    Failure {
        consequence: "The drive is unmounted, and your files are safe. But the next start of the background service would mount it again.".into(),
        ..failure
    }
    .with_actions([Action::tell("Free space on this computer's disk first."), close])
}

fn busy_patience(goes_down: bool) -> Duration {
    match (goes_down, systemd::keeps_us()) {
        (false, _) => BUSY_PATIENCE,
        (true, true) => BUSY_PATIENCE_AT_SHUTDOWN,
        (true, false) => BUSY_PATIENCE_UNKEPT,
    }
}

/// How long a drive is closed for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// Until somebody asks for it.
    Asked,
    /// Until the next daemon.
    NextDaemon,
}
