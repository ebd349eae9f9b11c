//! Opening a drive: the engine, the block device, the mount.
//!
//! It runs to its end even if the client has disconnected: half of it is worse than all of it.

use super::Drive;
use super::away;
use super::close::Until;
use super::opened::{Attachment, OpenDrive};
use super::outside::is_unmounted;
use super::wishes::Shows;
use crate::api::words::unsentenced;
use crate::api::{self, Action, ActivityKind, Code, Failure};
use crate::attach::filesystem::{self, MountOptions};
use crate::attach::{self, Identity};
use crate::daemon::failure;
use crate::daemon::registry::{LastMount, OpenAs};
use crate::daemon::status::Phase;
use holdall_client::paths;
use holdall_core::device::BlockDevice;
use holdall_core::units::Epoch;
use holdall_core::volume::TakeOver;
use holdall_helper::mountinfo;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::MutexGuard;
use uuid::Uuid;

impl Drive {
    /// Opens and mounts it.
    pub async fn open(self: &Arc<Self>, request: &api::Open) -> Result<api::Opened, Failure> {
        let mut open = self.when_served_no_longer().await;
        if !self.is_known() {
            return Err(failure::no_drive(&self.name, &[]));
        }
        self.open_now(&mut open, request).await
    }

    async fn open_now(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        request: &api::Open,
    ) -> Result<api::Opened, Failure> {
        if open.as_ref().is_some_and(is_unmounted) {
            // Another program has unmounted it, and the task that watches for that has not run yet.
            self.unmount(open, Until::Asked).await?;
        }
        if let Some(open) = &**open {
            open.check_not_serving()?;
            if let Some(attachment) = &open.attachment {
                return self.opened_already(open, &attachment.place(), request);
            }
        }
        // Closed, but still uploading: it starts again from its journal.
        let draining = open.take();
        let was_uploading = draining.is_some();
        if let Some(draining) = draining {
            // Copies in progress continue right afterwards.
            self.stop_replicas();
            self.put_down(draining).await;
        }
        self.count_anew();
        self.set_phase(self.phase_of_opening());
        let opened = self.open_and_mount(open, request).await;
        match opened {
            Ok((opened, answer)) => {
                **open = Some(opened);
                self.set_phase(Phase::Open);
                self.note(ActivityKind::Opened, format!("Opened at {}.", answer.mountpoint));
                self.warn_of_synced_folder().await;
                Ok(answer)
            }
            Err(failure) => {
                if open.is_none() {
                    *self.live.write() = None;
                    self.set_phase(Phase::Closed);
                    if was_uploading {
                        self.upload_in_background();
                    }
                }
                Err(failure)
            }
        }
    }

    /// The mount point if the request names none: the last one asked for, unless something else is mounted there now or its parent
    /// directory is gone.
    fn usual_place(&self) -> Result<PathBuf, Failure> {
        let (last, open_at) = {
            let config = self.config.lock();
            (config.place.clone(), config.open.as_ref().map(|open| open.mountpoint.clone()))
        };
        let mounts = mountinfo::read().unwrap_or_default();
        // A mount that an earlier service has left there is taken down first.
        let is_free =
            |place: &Path| open_at.as_deref() == Some(place) || mountinfo::at(&mounts, place).is_none();
        // Finding that out must not wait for a network or for another drive.
        let is_there = |place: &Path| {
            !mountinfo::is_safe_to_look_at(&mounts, place) || place.parent().is_some_and(Path::is_dir)
        };
        let last = last.filter(|place| is_free(place) && is_there(place));
        last.map_or_else(|| default_mountpoint(&self.name), Ok)
    }

    /// Whether another drive would be mounted there by default: two cannot be.
    fn is_place_of_another(&self, place: &Path) -> bool {
        let Some(known) = self.known.upgrade() else { return false };
        let others: Vec<_> = known.lock().values().filter(|drive| drive.name != self.name).cloned().collect();
        others.iter().any(|other| {
            let usual = default_mountpoint(&other.name).ok();
            usual.as_deref() == Some(place) || other.config.lock().place.as_deref() == Some(place)
        })
    }

    /// The phase of an opening: a drive that an earlier service had open is being recovered.
    pub(super) fn phase_of_opening(&self) -> Phase {
        match self.config.lock().open {
            Some(_) => Phase::Recovering,
            None => Phase::Connecting,
        }
    }

    async fn open_and_mount(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        request: &api::Open,
    ) -> Result<(OpenDrive, api::Opened), Failure> {
        let took_over = match request.take_over {
            true => self.holder().await?,
            false => None,
        };
        let (mut opened, how) = match request.read_only || request.snapshot.is_some() {
            true => (self.look(request.snapshot.as_deref()).await?, OpenedAs::Look { because: None }),
            false => self.open_or_set_aside(request).await?,
        };
        let look = matches!(how, OpenedAs::Look { .. });
        let (because, away) = match how {
            OpenedAs::Look { because } => (because, None),
            OpenedAs::Away { because } => (None, Some(because)),
            OpenedAs::Asked => (None, None),
        };
        let of_snapshot = request.snapshot.as_ref().map(|label| {
            format!("this is the snapshot \u{201c}{label}\u{201d}; close the drive and open it again for the current version")
        });
        *self.looks_because.lock() = because.clone().or(of_snapshot);
        opened.shows = Shows::asked(request);
        let at = match &request.at {
            Some(path) => asked_place(path)?,
            None => self.usual_place()?,
        };
        let attached = self.attach(opened.device(), request.attach, at, look).await;
        let attachment = match attached {
            Ok(attachment) => attachment,
            Err(failure) => {
                // The attempt's writes are uploaded, and then the drive is free for other devices.
                self.set_phase(Phase::Draining);
                self.drain_in_background(&mut opened);
                **open = Some(opened);
                return Err(failure);
            }
        };
        let place = attachment.place();
        opened.attachment = Some(attachment);
        *self.place.write() = Some(place.clone());
        self.begin_pins(&opened.volume, opened.writable);
        self.begin_writeback(&opened.volume, opened.writable);
        if !look {
            let (mountpoint, block_device) =
                (PathBuf::from(place.mountpoint()), PathBuf::from(&place.block_device));
            let usual = default_mountpoint(&self.name).ok();
            let is_asked_for = request.at.is_some() && !self.is_place_of_another(&mountpoint);
            let noted = self.remember(|config| {
                if is_asked_for {
                    config.place = Some(mountpoint.clone()).filter(|_| usual.as_ref() != Some(&mountpoint));
                }
                let mount = LastMount::now();
                config.open = Some(OpenAs { mountpoint, attach: place.attach, block_device, mount });
            });
            if let Err(failure) = noted {
                return Err(self.take_back(open, opened, failure).await);
            }
        }
        let answer = api::Opened {
            read_only_because: because,
            away_because: away,
            took_over,
            ..self.describe_opened(&opened, &place)
        };
        Ok((opened, answer))
    }

    /// The engine for writing. If the store's version lacks what this computer has seen, and a person has decided that the store's version
    /// counts all the same, this computer's files are set aside first.
    async fn open_or_set_aside(
        self: &Arc<Self>,
        request: &api::Open,
    ) -> Result<(OpenDrive, OpenedAs), Failure> {
        let over = over(request)?;
        match self.open_to_write(over).await {
            Err(failure) if failure.code == Code::Diverged && request.set_aside => {
                let aside = self.set_files_aside()?;
                let told =
                    format!("Changes that the store does not have were set aside in {}.", aside.display());
                self.note(ActivityKind::Opened, told);
                self.open_to_write(over).await
            }
            opened => opened,
        }
    }

    /// Unmounts a mount that the disk cannot record as open: the next daemon would not know of it. If it cannot be unmounted, it stays
    /// open.
    async fn take_back(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        mut opened: OpenDrive,
        failure: Failure,
    ) -> Failure {
        self.end_pins().await;
        self.end_writeback().await;
        if let Some(mut at) = opened.attachment.take() {
            let undo = move || {
                let undone = at.mounted.take_off().and_then(|()| at.attached.detach());
                (at, undone)
            };
            match tokio::task::spawn_blocking(undo).await {
                Ok((at, Err(error))) => {
                    tracing::warn!(drive = self.name, %error, "it stays mounted, although this could not be recorded");
                    opened.attachment = Some(at);
                    **open = Some(opened);
                    self.set_phase(Phase::Open);
                    return failure;
                }
                Ok((_, Ok(()))) | Err(_) => *self.place.write() = None,
            }
        }
        self.set_phase(Phase::Draining);
        self.drain_in_background(&mut opened);
        **open = Some(opened);
        failure
    }

    /// The engine for writing, or the best that there is instead.
    async fn open_to_write(self: &Arc<Self>, over: TakeOver) -> Result<(OpenDrive, OpenedAs), Failure> {
        // Before the opening, which would take the drive by a lock that other computers do not see.
        if let Some(failure) = self.relies_on_locks().await {
            return self.look_instead(&failure).await.ok_or(failure);
        }
        let opened = match over {
            TakeOver::Nobody => self.open_engine_patiently().await,
            TakeOver::Holder { .. } | TakeOver::Anybody => self.open_engine(over).await,
        };
        let failure = match opened {
            Ok(opened) => return Ok((opened, OpenedAs::Asked)),
            Err(failure) if away::goes_without(&failure) => failure,
            Err(failure) => return Err(failure),
        };
        // Read-only credentials are good for looking; credentials that are refused for looking too are not.
        if failure.code == Code::Credentials
            && let Some(look) = self.look_instead(&failure).await
        {
            return Ok(look);
        }
        // Taking a drive over needs the store.
        if over != TakeOver::Nobody {
            return Err(failure);
        }
        match self.open_without_store(failure.clone()).await {
            Ok((opened, because)) => Ok((opened, OpenedAs::Away { because })),
            Err(without) => match failure.code {
                // A full store can be read.
                Code::Full => self.look_instead(&failure).await.ok_or(without),
                // The store may only be slow, unless it has asked for patience.
                Code::Offline if failure.retry_after().is_none() => match self.open_engine(over).await {
                    Ok(opened) => Ok((opened, OpenedAs::Asked)),
                    Err(_) => Err(without),
                },
                _ => Err(without),
            },
        }
    }

    /// The current version to look at, where the drive cannot be written. `None` if the view would lack changes of this computer.
    async fn look_instead(self: &Arc<Self>, failure: &Failure) -> Option<(OpenDrive, OpenedAs)> {
        if self.may_have_unsent() {
            return None;
        }
        let opened = self.look(None).await.inspect_err(|failure| {
            tracing::info!(
                drive = self.name,
                message = failure.message,
                "it cannot be opened read-only either"
            );
        });
        let opened = opened.ok()?;
        let because = match failure.code {
            Code::WeakStore => format!(
                "it is open read-only: {}. {}",
                unsentenced(&failure.message),
                failure.action.trim_end_matches('.')
            ),
            _ => format!("it is open read-only: {}", unsentenced(&failure.message)),
        };
        Some((opened, OpenedAs::Look { because: Some(because) }))
    }

    pub(super) async fn attach(
        &self,
        device: Arc<dyn BlockDevice>,
        mode: api::AttachMode,
        at: PathBuf,
        read_only: bool,
    ) -> Result<Attachment, Failure> {
        if !read_only {
            // A no-op unless the drive is remembered as open already.
            self.note_mount(LastMount::now())?;
        }
        let (identity, site) = (self.identity(), self.site.clone());
        let work = move || {
            attach::take_down(identity.uuid, &site)?;
            let mut attached = attach::attach(device, &identity, mode, &site)?;
            let options = MountOptions {
                at,
                read_only,
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
            };
            match filesystem::mount(&attached, &options) {
                Ok(mounted) => Ok(Attachment { attached, mounted }),
                Err(error) => {
                    // The first error is the one to report; the doctor finds what cannot be detached.
                    let _ = attached.detach();
                    Err(error)
                }
            }
        };
        let attached = tokio::task::spawn_blocking(work).await;
        let attached = attached.map_err(|error| failure::local(&io::Error::other(error)))?;
        attached.map_err(|error: attach::AttachError| error.failure())
    }

    /// Records what is known of the mount of a drive that is remembered as open.
    pub(super) fn note_mount(&self, mount: LastMount) -> Result<(), Failure> {
        if self.config.lock().open.as_ref().is_none_or(|open| open.mount == mount) {
            return Ok(());
        }
        self.remember(|config| {
            if let Some(open) = &mut config.open {
                open.mount = mount;
            }
        })
    }

    pub(super) fn identity(&self) -> Identity {
        Identity { uuid: self.uuid(), name: self.name.clone() }
    }
}

/// The devices from which the request may take the drive.
fn over(request: &api::Open) -> Result<TakeOver, Failure> {
    match (request.take_over, &request.take_over_from) {
        (false, _) => Ok(TakeOver::Nobody),
        (true, None) => Ok(TakeOver::Anybody),
        (true, Some(seen)) => {
            let device = Uuid::try_parse(&seen.device).map_err(|_| {
                failure::usage("take_over_from names no device: it takes the UUID of the holder.")
            })?;
            Ok(TakeOver::Holder { device, epoch: Epoch(seen.epoch) })
        }
    }
}

/// How a drive was opened.
enum OpenedAs {
    /// To write, as asked.
    Asked,
    /// To write without its store, and why.
    Away { because: String },
    /// To look at; with the reason if writing was asked for.
    Look { because: Option<String> },
}

/// The mount point that a request names.
pub fn asked_place(path: &str) -> Result<PathBuf, Failure> {
    paths::expanded(path).ok_or_else(no_home)
}

fn no_home() -> Failure {
    failure::usage("There is no home directory.").with_actions(Action::ChooseMountPoint)
}

/// The mount point of a drive or folder, unless a person names another one.
pub fn default_mountpoint(name: &str) -> Result<PathBuf, Failure> {
    let parent = paths::home().ok_or_else(no_home)?.join("Holdall");
    std::fs::create_dir_all(&parent).map_err(|error| failure::local(&error))?;
    Ok(parent.join(name))
}
