//! The engine of a drive: opened to write or to look, and put down.

use super::Drive;
use super::aside;
use super::lock::lock;
use super::opened::OpenDrive;
use super::replicas::Replicas;
use super::wishes::Shows;
use crate::api::{self, Action, ActivityKind, Code, Failure};
use crate::daemon::failure::{self, failure};
use crate::daemon::status::{self, Phase};
use holdall_core::disk::Disk;
use holdall_core::disk::real::Directory;
use holdall_core::drive as core_drive;
use holdall_core::family::Unlocked;
use holdall_core::map::{Objects, PageCache, ReadError};
use holdall_core::push::ReferenceKind;
use holdall_core::replica::Replicated;
use holdall_core::store::{Store, StoreError};
use holdall_core::volume::{self, Access, Environment, OpenError, TakeOver, VolumeLimits};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// The journal: a tenth of the free disk, at most this.
const JOURNAL_BYTES_MAX: u64 = 32 << 30;
/// The cache: half of the free disk.
pub(super) const CACHE_SHARE: u64 = 2;
/// If set to anything, a drive's metadata is not pulled first: only for the benches, which measure what pulling it first gains.
const NO_SURVEY: &str = "HOLDALL_NO_SURVEY";
/// How long a store may be silent before a drive that can do without it continues without it.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// How long releasing the drive in the store may take. A release is a courtesy: the next open does without.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

/// How an engine is opened for writing.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Taking {
    /// With its store, and taken from the other devices that `over` names.
    Now { over: TakeOver, patience: Patience },
    /// With its store; nobody waits for this attempt, which may be repeated for days. While the drive is another device's, the store is
    /// asked only whose it is.
    Again { patience: Patience },
    /// With its store, which is known to be unreliable, to copy everything to another store.
    ToMove,
    /// Without its store, from the version that was seen last.
    Away,
}

/// How long a silent store may take for its first answer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Patience {
    /// As long as any request may take.
    Usual,
    /// A moment; then the drive continues without it.
    Short,
}

impl Drive {
    /// Opens the engine for writing, attached to nothing, taking the drive from the devices that `over` names. If a fork begins, it is set
    /// apart and continues to be uploaded there: what is opened is the drive.
    pub(super) async fn open_engine(self: &Arc<Self>, over: TakeOver) -> Result<OpenDrive, Failure> {
        self.open_engine_within(Patience::Usual, over).await
    }

    /// The same, with this patience.
    pub(super) async fn open_engine_within(
        self: &Arc<Self>,
        patience: Patience,
        over: TakeOver,
    ) -> Result<OpenDrive, Failure> {
        self.open_engine_by(Taking::Now { over, patience }).await
    }

    /// The same, to copy everything to another store, although this store is no longer reliable.
    pub(super) async fn open_engine_to_move(self: &Arc<Self>) -> Result<OpenDrive, Failure> {
        self.open_engine_by(Taking::ToMove).await
    }

    async fn open_engine_by(self: &Arc<Self>, taking: Taking) -> Result<OpenDrive, Failure> {
        self.refuse_while_fork_waits()?;
        self.part_with_fork()?;
        let opened = self.open_in_place(taking, false).await?;
        if self.fork_in(&opened.volume).is_none() {
            return Ok(opened);
        }
        self.put_down(opened).await;
        self.refuse_while_fork_waits()?;
        self.part_with_fork()?;
        self.open_in_place(taking, false).await
    }

    /// The same, but a fork is opened in the drive's place: for a drive that programs may still use, which is `mounted`.
    pub(super) async fn open_in_place(
        self: &Arc<Self>,
        taking: Taking,
        mounted: bool,
    ) -> Result<OpenDrive, Failure> {
        self.check_not_moving()?;
        let meter = self.meter();
        let (store, unlocked) = match taking {
            Taking::Now { patience, .. } | Taking::Again { patience } => self.unlock_within(patience).await?,
            Taking::ToMove => self.unlock_within(Patience::Usual).await?,
            Taking::Away => self.unlock_away().await?,
        };
        let local = |error: io::Error| failure::local(&error);
        let directory = self.registry.directory(&self.name);
        let cache = self.registry.cache_directory(self.uuid());
        // The cache is locked too: another installation with its own state may share it.
        Directory::create(&cache).map_err(local)?;
        let locks = vec![lock(&directory)?, lock(&cache)?];
        aside::finish(&directory).map_err(local)?;
        let journal_bytes = journal_limit(&directory.join("journal")).map_err(local)?;
        let mut limits = VolumeLimits::new(journal_bytes, self.cache_limit().map_err(local)?);
        limits.metadata_first = std::env::var_os(NO_SURVEY).is_none();
        // Nothing is sent to a store before it is known to do what the drive relies on.
        (limits.push_paused, limits.pull_paused) = (true, self.pause().is_some());
        let state = Arc::new(Directory::create(&directory).map_err(local)?);
        let journal = Arc::new(Directory::create(&directory.join("journal")).map_err(local)?);
        let cache = Arc::new(Directory::create(&cache).map_err(local)?);
        let hub = Arc::new(Replicated::new(store.clone(), self.uuid_in_place()));
        let replicas = Replicas::new(hub.clone(), store, meter.clone(), &unlocked, self.tree.clone());
        let open = async || {
            let env = Environment {
                state: state.clone(),
                journal: journal.clone(),
                cache: cache.clone(),
                store: hub.clone(),
                meter: meter.clone(),
                sealer: unlocked.sealer.clone(),
                pages: self.tree.clone().map_or_else(PageCache::none, PageCache::sled),
            };
            let access = match taking {
                Taking::Now { over, .. } => Access::Write { over, mounted },
                Taking::Again { .. } | Taking::ToMove => Access::Write { over: TakeOver::Nobody, mounted },
                Taking::Away => Access::Away { mounted },
            };
            // Must be set before anything is evicted from the cache.
            let (pinned, device) = (self.pins.at_open(), self.registry.device().clone());
            volume::open_pinned(env, self.uuid(), device, access, limits, pinned).await
        };
        let opening = async {
            let opened = open().await;
            if let Err(OpenError::Forked { by, .. }) = &opened {
                tracing::warn!(
                    drive = self.name,
                    by,
                    "another computer has written to the drive: a fork begins"
                );
                volume::fork(&*state, self.uuid(), by).await?;
                return open().await;
            }
            opened
        };
        let (opened, tried) = match taking {
            Taking::Now { .. } => tokio::join!(opening, self.try_store()),
            Taking::Again { .. } => match opening.await {
                Ok(opened) => (Ok(opened), self.try_store().await),
                refused => (refused, None),
            },
            // It is known what the store can do.
            Taking::ToMove | Taking::Away => (opening.await, None),
        };
        let volume = match opened {
            Ok(volume) => volume,
            Err(error @ OpenError::Held { .. }) => return Err(self.held_elsewhere(&error).await),
            Err(error) => return Err(failure::open(&error, &self.name)),
        };
        if let Err(failure) = self.judge(tried.as_ref()) {
            // Nothing is written. If no upload is pending, other devices may have the drive.
            let _ = tokio::time::timeout(RELEASE_PATIENCE, volume.release()).await;
            let _ = volume.shut_down().await;
            return Err(failure);
        }
        for copy in volume.journal().copies() {
            let at = directory.join("journal").join(copy);
            let text =
                format!("A copy of a journal file was found. It is kept as {}, and not used.", at.display());
            self.note(ActivityKind::Attention, text);
        }
        *self.live.write() = Some(volume.clone());
        self.begin_watching(&volume);
        self.begin_collecting(&volume);
        self.follow_disk(&volume);
        self.apply_pause();
        self.apply_limits();
        self.begin_replicas(replicas);
        Ok(OpenDrive {
            volume,
            attachment: None,
            reference: None,
            writable: true,
            shows: Shows::Current,
            serving: false,
            draining: false,
            _locks: locks,
        })
    }

    /// Opens the store and the keys; fails if the store is silent for longer than `patience` allows.
    async fn unlock_within(&self, patience: Patience) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        // Without the family's parameters, which must be read from the store first, nothing can continue.
        if patience == Patience::Usual || self.config.lock().family.is_none() {
            return self.unlock().await;
        }
        let silent = |_| {
            let reason = format!("it has not answered for {} s", FIRST_ANSWER.as_secs());
            failure::at_store(failure::store(&StoreError::Unreachable { reason }), &self.store_url())
        };
        tokio::time::timeout(FIRST_ANSWER, self.unlock()).await.map_err(silent)?
    }

    /// Opens one version to look at: it is held in the store while it is open, and what the file system writes to replay its own journal is
    /// thrown away. The pending upload of a closed drive waits meanwhile, and that is remembered.
    pub(super) async fn look(self: &Arc<Self>, label: Option<&str>) -> Result<OpenDrive, Failure> {
        self.check_not_moving()?;
        if self.is_left_to_upload() && !self.config.lock().unsent {
            self.remember(|config| config.unsent = true)?;
        }
        let (store, unlocked) = self.unlock().await?;
        let objects = Arc::new(Objects::new(store.clone(), unlocked.sealer.clone(), PageCache::none()));
        let drive_failed = |error: core_drive::DriveError| failure::drive(&error);
        let local = |error: io::Error| failure::local(&error);
        let device = self.registry.device();
        let (head, _, root) = core_drive::current(&objects, self.uuid()).await.map_err(drive_failed)?;
        let version = match label {
            Some(label) => core_drive::snapshot(&root, label).map(|kept| (kept.root, kept.root_hash)),
            None => Ok((head.root, head.root_hash)),
        };
        let version = version.map_err(drive_failed)?;
        let directory = self.registry.directory(&self.name).join("look");
        let lock = lock(&self.registry.directory(&self.name))?;
        self.let_go_in_background(self.left_holds());
        let hold = core_drive::new_hold();
        self.remember_hold(&hold).map_err(local)?;
        let version_held = (self.uuid(), version.0);
        let held = core_drive::hold_as(&objects, &hold, version_held, ReferenceKind::Reader, device).await;
        let reference = match held {
            Ok(()) => Some((store.clone(), hold)),
            // Read-only credentials cannot hold anything, and a full store takes nothing. If the version is deleted meanwhile, reads report
            // it. (HEAD was just read: a server that now says it does not know the credentials means the same. Apache answers so to a user
            // without write access.)
            Err(core_drive::DriveError::Read(ReadError::Store(
                StoreError::Denied { .. } | StoreError::UnknownCredentials { .. } | StoreError::Full { .. },
            ))) => {
                self.forget_hold(&hold);
                None
            }
            Err(error) => return Err(drive_failed(error)),
        };
        remove_directory(&directory).map_err(local)?;
        let journal = Arc::new(Directory::create(&directory.join("journal")).map_err(local)?);
        let free = journal.free_bytes().map_err(local)?;
        let env = Environment {
            state: Arc::new(Directory::create(&directory).map_err(local)?),
            journal,
            cache: Arc::new(Directory::create(&directory.join("cache")).map_err(local)?),
            store,
            meter: self.meter(),
            sealer: unlocked.sealer,
            pages: self.tree.clone().map_or_else(PageCache::none, PageCache::sled),
        };
        let limits = VolumeLimits::new((free / 10).min(1 << 30), self.cache_limit().map_err(local)?);
        let access = Access::Look { root: version };
        let opened = volume::open(env, self.uuid(), device.clone(), access, limits).await;
        let volume = match opened {
            Ok(volume) => volume,
            Err(error) => {
                if let Some((store, held)) = &reference {
                    self.let_go(&**store, held).await;
                }
                return Err(failure::open(&error, &self.name));
            }
        };
        *self.live.write() = Some(volume.clone());
        Ok(OpenDrive {
            volume,
            attachment: None,
            reference,
            writable: false,
            shows: label.map_or(Shows::Look, |label| Shows::Snapshot(label.to_owned())),
            serving: false,
            draining: false,
            _locks: vec![lock],
        })
    }

    /// Whether this computer may have changes that the store lacks. If that cannot be found out, it may.
    pub(super) fn may_have_unsent(&self) -> bool {
        let known = Directory::create(&self.registry.directory(&self.name))
            .and_then(|directory| volume::Local::load(&directory));
        match known {
            // `local` does not include writes since the drive was opened.
            Ok(Some(_)) if self.has_written() => true,
            // A failed opening leaves a journal with nothing in it.
            Ok(Some(local)) => local.durable > local.base.map_or(0, |base| base.lsn),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    fn has_written(&self) -> bool {
        let config = self.config.lock();
        config.open.is_some() || config.unsent
    }

    /// Puts down a drive that is attached to nothing, after releasing it in the store if nothing is left to push.
    pub(super) async fn finish(self: &Arc<Self>, open: &mut MutexGuard<'_, Option<OpenDrive>>) {
        let Some(opened) = open.take() else { return };
        if opened.writable && !opened.volume.has_unsent() {
            let _ = tokio::time::timeout(RELEASE_PATIENCE, opened.volume.release()).await;
        }
        let has_unsent = opened.volume.has_unsent();
        let is_news = opened.writable && self.config.lock().unsent != has_unsent;
        if is_news && has_unsent {
            // A short opening has changed the drive. A crash before this line costs no data: the next opening finds the change in the
            // journal.
            if let Err(failure) = self.remember(|config| config.unsent = true) {
                tracing::warn!(
                    drive = self.name,
                    message = failure.message,
                    "its changes are uploaded when it is opened next"
                );
            }
        }
        self.put_down(opened).await;
        if is_news && !has_unsent {
            // If this cannot be written, the next daemon checks whether anything is left.
            let _ = self.remember(|config| config.unsent = false);
        }
        self.set_phase(Phase::Closed);
        // A fork that was mounted in the drive's place becomes a drive of its own.
        if let Err(failure) = self.part_with_fork() {
            tracing::warn!(
                drive = self.name,
                message = failure.message,
                "the fork could not be separated from the drive yet"
            );
        }
    }

    /// The device that holds the drive, asked of the store now.
    pub(super) async fn holder(&self) -> Result<Option<api::Holder>, Failure> {
        let (objects, _) = self.objects().await?;
        let current = core_drive::current(&objects, self.uuid()).await;
        let (head, _, root) = current.map_err(|error| failure::drive(&error))?;
        let held = head.is_held() && head.device != self.registry.device().id;
        Ok(held.then(|| status::holder(&head, &root)))
    }

    /// The store's current version of the drive, asked of the store now.
    pub(in crate::daemon) async fn current(&self) -> Result<api::Version, Failure> {
        let (objects, _) = self.objects().await?;
        let current = core_drive::current(&objects, self.uuid()).await;
        let (head, _, root) = current.map_err(|error| failure::drive(&error))?;
        Ok(status::current(&head, &root, self.registry.device()))
    }

    async fn held_elsewhere(&self, error: &OpenError) -> Failure {
        let mut failure = failure::open(error, &self.name);
        // If the store cannot be asked now, what it said a moment ago stands.
        let holder = self.holder().await.ok().flatten();
        if holder.is_some() {
            self.figures.keep_holder(holder.as_ref(), self.blank());
            failure.holder = holder.map(Box::new);
        }
        failure
    }

    pub(super) async fn put_down(self: &Arc<Self>, opened: OpenDrive) {
        // The last figures are shown while it is closed.
        self.save_figures().await;
        self.end_pins().await;
        self.end_writeback().await;
        self.end_replicas().await;
        if let Err(error) = opened.volume.shut_down().await {
            tracing::warn!(drive = self.name, %error, "the cache could not be synced; the journal is replayed");
        }
        *self.live.write() = None;
        self.figures.all_applied();
        if let Some((store, reference)) = &opened.reference {
            self.let_go(&**store, reference).await;
            let _ = remove_directory(&self.registry.directory(&self.name).join("look"));
        }
    }

    /// Refuses while changes are only on this computer. `or_else` is how a person discards them.
    pub(super) async fn check_nothing_unsent(
        self: &Arc<Self>,
        or_else: Option<Action>,
    ) -> Result<(), Failure> {
        if !self.has_opened()? {
            return Ok(());
        }
        let opened = match self.open_engine(TakeOver::Nobody).await {
            // The store no longer has the drive, and everything that is here was in the store.
            Err(failure) if failure.code == Code::Gone => return Ok(()),
            opened => opened?,
        };
        let unsent = opened.volume.has_unsent();
        let bytes = opened.volume.status().unpushed_bytes;
        if !unsent {
            let _ = opened.volume.release().await;
        }
        self.put_down(opened).await;
        if unsent { Err(self.only_here(bytes, or_else)) } else { Ok(()) }
    }

    /// The same for a drive that leaves this computer: another computer may have it open, and the store may be away. Then the journal and
    /// the version that this computer remembers tell.
    pub(super) async fn check_leaves_nothing_unsent(
        self: &Arc<Self>,
        or_else: Option<Action>,
    ) -> Result<(), Failure> {
        let refused = match self.check_nothing_unsent(or_else).await {
            Err(refused) if matches!(refused.code, Code::Held | Code::Offline | Code::Credentials) => refused,
            checked => return checked,
        };
        let directory = self.registry.directory(&self.name);
        let _lock = lock(&directory)?;
        let state = Directory::create(&directory).map_err(|error| failure::local(&error))?;
        let journal =
            Directory::create(&directory.join("journal")).map_err(|error| failure::local(&error))?;
        match volume::has_unsent(&state, &journal).await {
            Ok(false) => Ok(()),
            // Opening finds out how much it is, or says what is wrong with the journal.
            Ok(true) | Err(_) => Err(refused),
        }
    }

    /// Whether this computer has ever opened the drive.
    fn has_opened(&self) -> Result<bool, Failure> {
        let directory = self.registry.directory(&self.name);
        let known = Directory::create(&directory).and_then(|directory| volume::Local::load(&directory));
        let journal = Directory::create(&directory.join("journal"));
        let journal = journal.and_then(|journal| holdall_core::journal::found(&journal));
        Ok(known.map_err(|error| failure::local(&error))?.is_some()
            || journal.map_err(|error| failure::local(&error))?.is_some())
    }

    /// Why the drive is kept: these bytes are nowhere else.
    pub(super) fn only_here(&self, bytes: u64, or_else: Option<Action>) -> Failure {
        failure(
            Code::Unsent,
            format!("{} of changes is only on this computer.", crate::sizes::format_bytes(bytes)),
            "Nothing was changed, because these changes would be lost.",
            [Some(Action::Sync { drive: Some(self.name.clone()) }), or_else]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
        )
    }
}

/// The journal's limit on the local disk: a share of the space that would be free without it.
fn journal_limit(journal: &Path) -> io::Result<u64> {
    Ok((free_without(journal)? / 10).min(JOURNAL_BYTES_MAX))
}

/// Bytes of the local disk that would be free without the directory.
pub(super) fn free_without(path: &Path) -> io::Result<u64> {
    let directory = Directory::create(path)?;
    Ok(directory.free_bytes()? + directory.allocated_bytes()?)
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
