//! A drive's forks. A fork begins in the drive's place, where programs may still use it, and is set apart once they no longer do: from then
//! on it is a drive of its own, with a name of its own, and remembers which drive it is a fork of.
//!
//! Setting a fork apart can be interrupted anywhere. `drive.json` moves last; while it is in the drive's directory, the rest is done again
//! when the daemon starts, before anybody can open half of a fork.

use super::Drive;
use super::away;
use super::engine::{Patience, Taking};
use super::lock::lock;
use super::opened::OpenDrive;
use crate::api::{self, Action, Failure};
use crate::daemon::failure;
use crate::daemon::registry::{Config, ForkOf, private_directory, sync_directory};
use crate::daemon::status::{self, Phase};
use holdall_core::disk::real::Directory;
use holdall_core::drive;
use holdall_core::retry::Backoff;
use holdall_core::volume::{Fork, Local, Volume};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How often the upload of a fork is tried while its store is away.
const UPLOAD_EVERY: Duration = Duration::from_secs(5);

impl Drive {
    /// The fork that is open in the place of this drive.
    pub fn fork_in(&self, volume: &Volume) -> Option<Fork> {
        let fork = volume.pusher()?.state().borrow().fork.clone();
        fork.filter(|fork| fork.drive != self.uuid())
    }

    /// The forks of this drive on this device.
    pub fn forks(&self) -> Vec<api::Fork> {
        let known = self.known.upgrade().map(|known| known.lock().values().cloned().collect::<Vec<_>>());
        let apart = known.unwrap_or_default().into_iter().filter_map(|drive| {
            let of = drive.config.lock().fork_of.clone().filter(|of| of.name == self.name)?;
            Some(drive.describe_fork(&drive.name, &of.fork, false))
        });
        let mut forks: Vec<_> = apart.collect();
        let volume = self.live.read().clone();
        let fork = volume.and_then(|volume| self.fork_in(&volume));
        forks.extend(fork.map(|fork| self.describe_fork(&self.fork_name(&fork), &fork, true)));
        forks.sort_by(|a, b| a.made_at.cmp(&b.made_at));
        forks
    }

    fn describe_fork(&self, name: &str, fork: &Fork, in_place: bool) -> api::Fork {
        let last = self.figures.last().map(|last| last.size_bytes);
        let (records, bytes, size_bytes) = match &*self.live.read() {
            Some(volume) => {
                let status = volume.status();
                let committed = status.push.map_or(0, |push| push.committed.0);
                (status.appended.0.saturating_sub(committed), status.unpushed_bytes, status.size_bytes)
            }
            // Then nobody knows how many bytes they are.
            None => (self.unsent_records(), 0, last.unwrap_or_default()),
        };
        api::Fork {
            name: name.to_owned(),
            uuid: fork.drive.to_string(),
            device: self.registry.device().name.clone(),
            taken_by: fork.taken_by.clone(),
            made_at: status::time(fork.made_ms),
            base: fork.base.clone(),
            records,
            bytes,
            size_bytes,
            mountpoint: self.place.read().as_ref().map(|place| place.mountpoint()),
            in_place,
        }
    }

    /// The number of changes that this computer is known to have beyond the store, while nobody has the drive open.
    fn unsent_records(&self) -> u64 {
        let local = Directory::create(&self.registry.directory(&self.name)).and_then(|dir| Local::load(&dir));
        let Ok(Some(local)) = local else { return 0 };
        let base = local.base.as_ref().map_or(0, |base| base.lsn);
        let at_least = u64::from(self.may_have_unsent() || self.is_fork_to_upload());
        local.durable.saturating_sub(base).max(at_least)
    }

    /// The name of a fork of this drive here; forks of the same day are numbered.
    fn fork_name(&self, fork: &Fork) -> String {
        let device = self.registry.device().name.replace(['/', '\0'], "-");
        let name = holdall_core::fork::name(&self.name, &device, fork.made_ms);
        let free = |name: &String| match self.registry.uuid_of(name) {
            Some(uuid) => uuid == fork.drive,
            None => !self.registry.directory(name).exists(),
        };
        let numbered = (2..).map(|number| format!("{name} {number}"));
        std::iter::once(name.clone()).chain(numbered).find(free).expect("there is no end of numbers")
    }

    /// Refuses to report success if the work was done on a fork.
    pub(super) fn check_no_fork(&self, volume: &Volume) -> Result<(), Failure> {
        match self.fork_in(volume) {
            Some(fork) => Err(failure::forked(&fork.taken_by, Some(&self.name))),
            None => Ok(()),
        }
    }

    /// The drive that this one's engine opens: itself, or the fork in its place.
    pub(super) fn uuid_in_place(&self) -> Uuid {
        let fork = fork_in(&self.registry.directory(&self.name)).ok().flatten();
        fork.map_or_else(|| self.uuid(), |fork| fork.drive)
    }

    /// Refuses to open the drive while a fork in its place was mounted when the daemon ended, and may still be mounted.
    pub(super) fn refuse_while_fork_waits(&self) -> Result<(), Failure> {
        let waits = self.config.lock().open.is_some()
            && fork_in(&self.registry.directory(&self.name))
                .map_err(|error| failure::local(&error))?
                .is_some();
        if waits { Err(self.waits_to_be_taken_up()) } else { Ok(()) }
    }

    /// Refuses an operation that a drive must be unmounted for.
    pub(super) fn check_closed(&self, open: &Option<OpenDrive>) -> Result<(), Failure> {
        match open {
            Some(open) if open.attachment.is_some() || open.serving => {
                let action = Action::Close { drive: Some(self.name.clone()), wait: false };
                Err(failure::state("The drive is open.", action))
            }
            None if self.config.lock().open.is_some() => Err(self.waits_to_be_taken_up()),
            _ => Ok(()),
        }
    }

    fn waits_to_be_taken_up(&self) -> Failure {
        failure::state(
            "The drive was open before a restart, and is still to be reopened: programs may still use it.",
            Action::Close { drive: Some(self.name.clone()), wait: false },
        )
    }

    /// Sets the fork apart that is in the place of this closed drive, and continues uploading it. A fork that may be mounted stays where it
    /// is.
    pub(super) fn part_with_fork(self: &Arc<Self>) -> Result<(), Failure> {
        if self.config.lock().open.is_some() {
            return Ok(());
        }
        self.part_unmounted()
    }

    /// The same, where the fork is known not to be mounted.
    pub(super) fn part_unmounted(self: &Arc<Self>) -> Result<(), Failure> {
        let parted = self.part().map_err(|error| failure::local(&error))?;
        if let Some(fork) = parted.filter(|fork| fork.is_fork_to_upload()) {
            tokio::spawn(async move { fork.upload_what_is_left().await });
        }
        Ok(())
    }

    /// The same at once, for a drive that was closed a moment ago and is still uploading: the upload continues from where the fork is then.
    pub async fn part_now(self: &Arc<Self>) -> Result<(), Failure> {
        let mut open = self.open.lock().await;
        self.check_closed(&open)?;
        self.finish(&mut open).await;
        self.part_unmounted()
    }

    /// The same when the daemon starts; a fork that was mounted stays where it is, since it may still be mounted.
    pub fn part_at_start(self: &Arc<Self>) {
        if self.config.lock().open.is_some() {
            return;
        }
        // A process that has the drive open also sets the fork apart.
        let Ok(_lock) = lock(&self.registry.directory(&self.name)) else { return };
        if let Err(error) = self.part() {
            tracing::error!(drive = self.name, %error, "its fork cannot be separated from the drive");
        }
    }

    fn part(self: &Arc<Self>) -> io::Result<Option<Arc<Drive>>> {
        let from = self.registry.directory(&self.name);
        let config = self.config.lock().clone();
        let Some(fork) = fork_in(&from)?.filter(|fork| fork.drive != config.drive) else { return Ok(None) };
        let name = self.fork_name(&fork);
        let of = config.fork_of.as_ref().map_or(&self.name, |of| &of.name).clone();
        let of = ForkOf { name: of, fork: fork.clone() };
        let (former, moving_to) = (Vec::new(), None);
        // Pins stay with the drive's name.
        let (open, pins) = (None, false);
        let config = Config {
            drive: fork.drive,
            open,
            place: None,
            pins,
            cache_bytes: None,
            fork_of: Some(of),
            former,
            moving_to,
            ..config
        };
        let to = self.registry.directory(&name);
        private_directory(&to)?;
        self.registry.add(&name, &config, &self.registry.key(&self.name)?)?;
        // The drive pulls again what it needs of the cache; the fork may have its data nowhere else.
        move_directory(
            &self.registry.cache_directory(self.uuid()),
            &self.registry.cache_directory(fork.drive),
        )?;
        move_directory(&from.join("journal"), &to.join("journal"))?;
        sync_directory(&to)?;
        std::fs::rename(from.join("drive.json"), to.join("drive.json"))?;
        sync_directory(&to)?;
        sync_directory(&from)?;
        let tree = self.tree.clone();
        let shared = (self.registry.clone(), self.stores.clone());
        let drive = Drive::new(&name, config, shared, self.site.clone(), tree, self.known.clone());
        if let Some(known) = self.known.upgrade() {
            known.lock().insert(name, drive.clone());
        }
        self.figures.forget();
        // All pending changes are the fork's.
        self.remember(|config| config.unsent = false).map_err(|failure| io::Error::other(failure.message))?;
        Ok(Some(drive))
    }

    /// Uploads what is left of a drive or a fork that nobody has open, however long its store is away or another device has it.
    pub async fn upload_what_is_left(self: Arc<Self>) {
        let (mut held, mut later) = (Backoff::new(), Backoff::unwatched());
        loop {
            let mut open = self.open.lock().await;
            if open.is_some() || !self.is_known() || self.config.lock().open.is_some() {
                return;
            }
            let opened = match self.open_in_place(Taking::Again { patience: Patience::Usual }, false).await {
                // It waits for its store with everything that is known of it.
                Err(failure) if away::goes_without(&failure) => {
                    self.open_away(false, failure.clone()).await.map_err(|_| failure)
                }
                opened => opened,
            };
            match opened {
                Ok(mut opened) => {
                    self.set_phase(Phase::Draining);
                    self.drain_in_background(&mut opened);
                    *open = Some(opened);
                    return;
                }
                Err(failure) => {
                    tracing::warn!(drive = self.name, message = failure.message, "it is not uploaded yet");
                    let pause = match (failure.code, failure.retry_after()) {
                        (api::Code::Offline, None) => UPLOAD_EVERY,
                        (api::Code::Offline, Some(after)) => {
                            Backoff::new().next(Some(after.max(UPLOAD_EVERY)))
                        }
                        // It may take a day until that device closes the drive; what is here then becomes a fork of that device's version.
                        (api::Code::Held, _) => held.next(Some(UPLOAD_EVERY)),
                        // Nor is it known when the store has space again, or when somebody enters other credentials.
                        _ => later.next(Some(UPLOAD_EVERY)),
                    };
                    self.set_phase(Phase::Failed(failure));
                    drop(open);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Makes it an ordinary drive, with another name.
    pub async fn keep_as(self: &Arc<Self>, new: &str) -> Result<(), Failure> {
        let local = |error: io::Error| failure::local(&error);
        let mut open = self.open.lock().await;
        self.check_closed(&open)?;
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        // Other computers add it by that name. A store that is away must not stop a person from deciding.
        let renamed = match self.objects().await {
            Ok((objects, _)) => drive::rename(&objects, self.uuid(), new, self.registry.device())
                .await
                .map_err(|error| error.to_string()),
            Err(failure) => Err(failure.message),
        };
        if let Err(reason) = renamed {
            tracing::warn!(drive = new, reason, "it keeps its old name in the store");
        }
        let config = Config { fork_of: None, ..self.config.lock().clone() };
        self.registry.rename(&self.name, new).map_err(local)?;
        self.registry.save(new, &config).map_err(local)?;
        let shared = (self.registry.clone(), self.stores.clone());
        let kept = Drive::new(new, config, shared, self.site.clone(), self.tree.clone(), self.known.clone());
        if let Some(known) = self.known.upgrade() {
            let mut known = known.lock();
            known.remove(&self.name);
            known.insert(new.to_owned(), kept.clone());
        }
        tokio::spawn(async move { kept.upload_what_is_left().await });
        Ok(())
    }

    /// Deletes the fork, here and in the store.
    pub async fn discard(self: &Arc<Self>) -> Result<(), Failure> {
        let mut open = self.open.lock().await;
        self.check_closed(&open)?;
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        let everything = api::Remove { delete_data: true, discard_unsent: true };
        self.remove_locked(&open, &everything).await.map(drop)
    }

    /// Whether it is a fork whose upload was interrupted.
    pub fn is_fork_to_upload(&self) -> bool {
        let Some(of) = self.config.lock().fork_of.clone() else { return false };
        let local = Directory::create(&self.registry.directory(&self.name)).and_then(|dir| Local::load(&dir));
        let Ok(Some(local)) = local else { return false };
        let base = local.base.as_ref();
        let begun = base.and_then(|base| base.id()).is_some_and(|id| id.drive == of.fork.drive);
        !begun || local.durable > base.map_or(0, |base| base.lsn)
    }
}

/// The fork that a directory's `drive.json` names.
fn fork_in(directory: &Path) -> io::Result<Option<Fork>> {
    if !directory.join("drive.json").exists() {
        return Ok(None);
    }
    Ok(Local::load(&Directory::create(directory)?)?.and_then(|local| local.fork))
}

/// Moves a directory, unless that was already done.
fn move_directory(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
