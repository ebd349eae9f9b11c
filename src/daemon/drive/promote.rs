//! Adding and removing replicas, and making a replica the drive's store.
//!
//! A promotion retires the former store, then makes the replica the primary, then remembers the new address. Before all of that, it records
//! that the drive is moving. While the drive is moving, nobody opens it or uploads its pending changes: a retired store would turn them
//! into a fork, although they must continue in the replica; and a store that was away would accept them, although the replica may already
//! be the primary. The move ends with the new address, in the same write; or when the replica is known not to have become the primary, and
//! the former store has the drive again. If that is not known, the promotion is repeated, and continues from wherever it was interrupted.

use super::Drive;
use super::former::Former;
use super::replicas::COPIED_WHILE_OPEN;
use crate::api::{self, Code, Failure, ReplicaStatus};
use crate::daemon::failure::{self, NOTHING_CHANGED, failure};
use crate::daemon::registry::{FormerStore, ReplicaConfig};
use crate::daemon::status::{Phase, time};
use crate::daemon::stores::{self, trial};
use crate::daemon::work::Work;
use holdall_core::disk::real::Directory;
use holdall_core::drive::{self as core_drive, DriveError};
use holdall_core::family::{self, Family, FamilyError, Mode};
use holdall_core::map::{Objects, PageCache};
use holdall_core::replica::plan::{self, Loss};
use holdall_core::replica::{self, Promoted, ReplicaError};
use holdall_core::store::file::FileStore;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::{self, Effort};
use holdall_core::store::url::StoreUrl;
use holdall_core::store::{StoreError, When};
use holdall_core::units::Epoch;
use holdall_core::volume::{self, TakeOver};
use std::sync::Arc;
use std::time::Duration;

impl Drive {
    /// Adds a replica: tries the store, prepares it, and copies everything while the drive is open. A closed drive is opened for that.
    pub async fn add_replica(self: &Arc<Self>, url: StoreUrl, work: Work) -> Result<ReplicaStatus, Failure> {
        let address = url.to_string();
        let known = {
            let config = self.config.lock();
            config.store == address || config.replicas.iter().any(|replica| replica.store == address)
        };
        if known {
            let message = format!("{address} already has this drive.");
            return Err(failure(Code::Exists, message, NOTHING_CHANGED, "Choose another store."));
        }
        let mode = work.unless_interrupted(failure::TRIED_IN_PART, self.replica_mode(&url, &work)).await??;
        let (primary, unlocked) = self.unlock().await?;
        let family = Family::new(unlocked.family.family, unlocked.family.cipher, mode);
        let store = self.replica_store(&address).await?;
        let drive = self.uuid();
        self.tell_if_former(&address).await?;
        // Before anything is put there: the keys of another family's drive are not ours to replace.
        match family::describe(store.as_ref()).await {
            Ok(there) => {
                let ours = replica::check_no_primary(&store, there.mode, &unlocked.sealer, drive).await;
                ours.map_err(|error| failure::replica(&error, &address))?;
            }
            Err(FamilyError::None) => {}
            Err(error) => return Err(failure::at_store(failure::family(&error), &address)),
        }
        let prepared = replica::prepare(primary.as_ref(), &store, &family, &unlocked.sealer).await;
        let mode = prepared.map_err(|error| failure::replica(&error, &address))?.mode;
        self.warn_where_synced(&address).await;
        let config = ReplicaConfig { store: address.clone(), mode };
        let mut open = self.open.lock().await;
        self.remember(|all| {
            if !all.replicas.iter().any(|replica| replica.store == config.store) {
                all.replicas.push(config.clone());
            }
        })?;
        if open.is_some() {
            let begun = self.begin_replica(&config);
            drop(open);
            self.until_settled(begun, &work).await?;
            return self.replica_status(&address);
        }
        self.check_closed(&open)?;
        let opened = match self.relies_on_locks().await {
            // The only way to move to another store. The only other writers there are devices that do the same at the same time.
            Some(_) => self.open_engine_to_move().await?,
            None => self.open_engine(TakeOver::Nobody).await?,
        };
        let volume = opened.volume.clone();
        *open = Some(opened);
        self.set_phase(Phase::Draining);
        let begun = self.replica_begun(&address);
        // It may take hours: if the drive is opened meanwhile, the copying continues there.
        drop(open);
        let waited = self.until_settled(begun, &work).await;
        if waited.is_ok() {
            // Another replica may have been added meanwhile.
            let others = self.settle_replicas(Duration::MAX);
            let _ = work.unless_interrupted(COPIED_WHILE_OPEN, others).await;
        }
        // While the drive is being opened, its replicas do not run for a moment: wait for the opening.
        let open = self.open.lock().await;
        let status = self.replica_status(&address);
        drop(open);
        self.finish_if_still(&volume).await;
        waited?;
        status
    }

    fn replica_status(&self, url: &str) -> Result<ReplicaStatus, Failure> {
        let found = self.replica_statuses().into_iter().find(|status| status.store == url);
        found.ok_or_else(|| failure::no_replica(&self.name, url))
    }

    /// The mode that the store supports, tried as for a new drive.
    async fn replica_mode(&self, url: &StoreUrl, work: &Work) -> Result<Mode, Failure> {
        if let StoreUrl::File(path) = url {
            let made = FileStore::new(path.clone(), &DriveNames).prepare().await;
            made.map_err(|error| failure::no_directory(path, &error))?;
            if let Some(mode) = stores::untried_mode(url).await {
                return Ok(mode);
            }
        }
        let credentials = self.stores.credentials(url).await?;
        let report =
            trial::of(&self.stores, url, (&credentials, &self.meter()), Effort::FULL, Some(work)).await?;
        match report.is_usable() {
            true => Ok(report.mode),
            false => Err(failure::unusable_store(&url.to_string(), &report)),
        }
    }

    /// Stops keeping a replica up to date. Its data stays there.
    pub fn remove_replica(&self, url: &StoreUrl) -> Result<(), Failure> {
        let url = url.to_string();
        if !self.config.lock().replicas.iter().any(|replica| replica.store == url) {
            return Err(failure::no_replica(&self.name, &url));
        }
        self.remember(|config| {
            config.replicas.retain(|replica| replica.store != url);
            // A person who removes the replica does not want it to become the drive's store.
            config.moving_to = config.moving_to.take().filter(|to| *to != url);
        })?;
        self.end_replica(&url);
        Ok(())
    }

    /// Copies the current wrapped keys to the replicas, so that a replaced passphrase or recovery key no longer opens any of them. A
    /// replica that is away catches up later: its keys are compared with those of the drive's store whenever it answers again, and whenever
    /// the drive is opened.
    pub(super) async fn share_keys(&self) {
        let configs = self.config.lock().replicas.clone();
        for config in configs {
            let shared = async {
                let (primary, unlocked) = self.unlock().await?;
                let store = self.replica_store(&config.store).await?;
                let family = Family::new(unlocked.family.family, unlocked.family.cipher, config.mode);
                let ours =
                    replica::check_no_primary(&store, config.mode, &unlocked.sealer, self.uuid()).await;
                ours.map_err(|error| failure::replica(&error, &config.store))?;
                let prepared = replica::prepare(primary.as_ref(), &store, &family, &unlocked.sealer).await;
                prepared.map(drop).map_err(|error| failure::replica(&error, &config.store))
            };
            if let Err(failure) = shared.await {
                tracing::warn!(
                    drive = self.name,
                    replica = config.store,
                    message = failure.message,
                    "the replica still opens with the old passphrase and recovery key; it gets the new keys once it answers while the drive is open"
                );
                self.look_at_replicas_again();
            }
        }
    }

    /// Makes a replica the drive's store, after its store is lost or to move. Nothing is deleted anywhere.
    pub async fn promote(self: &Arc<Self>, request: api::Promote) -> Result<api::Promoted, Failure> {
        let url = crate::daemon::stores::read(&request.store)?.to_string();
        let mut open = self.open.lock().await;
        self.check_closed(&open)?;
        if self.store_url() == url {
            let message = format!("{url} is already the store of {}.", self.name);
            return Err(failure(Code::Exists, message, NOTHING_CHANGED, "Open the drive."));
        }
        let config = self.config.lock().replicas.iter().find(|replica| replica.store == url).cloned();
        let config = config.ok_or_else(|| failure::no_replica(&self.name, &url))?;
        if config.mode < self.config.lock().mode && stores::told(config.mode) < request.weakest {
            return Err(failure::weak_store(&url));
        }
        // Closed, but still waiting for the store that is lost.
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        self.part_with_fork()?;
        let (store, unlocked) = self.unlock_at(&url, Some(config.mode)).await?;
        let objects = Objects::new(store, unlocked.sealer.clone(), PageCache::none());
        let (drive, device) = (self.uuid(), self.registry.device());
        let at_replica = |error: ReplicaError| failure::replica(&error, &url);
        let newest = replica::candidate(&objects, drive, request.accept_loss).await.map_err(at_replica)?;

        let directory = Directory::create(&self.registry.directory(&self.name));
        let local = directory.and_then(|directory| volume::Local::load(&directory));
        let local = local.map_err(|error| failure::local(&error))?;
        let base = local.as_ref().and_then(|local| local.base.as_ref());
        let seen = base.map_or(Epoch(0), |base| Epoch(base.epoch));
        let former = self.former(&url, request.accept_loss).await?;
        let mut loss = Loss {
            newer_here: plan::is_newer_here(drive, base, &newest)
                && !self.is_in_primary(&objects, local.as_ref(), &url).await?,
            newer_there: plan::is_newer_there(former.facts(), &newest, device.id),
        };
        if loss.is_any() && !request.accept_loss {
            let reachable = matches!(former, Former::There(..));
            return Err(failure::replica_lags(&self.name, &url, &time(newest.written_ms), reachable));
        }
        // All steps at the replica that can fail come before the former store is retired.
        let version = objects.root(newest.root, Some(newest.root_hash)).await;
        version.map_err(|error| failure::at_store(failure::read(&error), &url))?;
        try_to_put(&objects).await.map_err(|error| failure::at_store(failure::store(&error), &url))?;
        if let Former::There(former, ..) = &former {
            if let Err(error @ StoreError::Denied { .. }) = try_to_put(former).await {
                return Err(failure::at_store(failure::store(&error), &self.store_url()));
            }
            // The passphrase may have been changed while the replica was away.
            let (store, family) = (self.replica_store(&url).await?, &unlocked.family);
            let shared = replica::prepare(former.store().as_ref(), &store, family, &unlocked.sealer).await;
            shared.map_err(at_replica)?;
        }
        let was_moving = self.begin_to_move(&url)?;
        if let Former::There(former, head, etag) = &former {
            // The former store first: a crash in between leaves no store that takes commits, never two.
            let judged = (head.as_ref(), etag.clone());
            if let Err(error) = core_drive::retire(former, judged, &url, device).await {
                if !plan::may_be_retired(&error) {
                    self.moves_no_more(was_moving);
                }
                return Err(failure::drive(&error));
            }
        }
        let promotion = plan::promotion(former.facts(), &newest, seen, request.accept_loss);
        let Promoted { head, with } = match replica::promote(&objects, drive, promotion, device).await {
            // An earlier try came this far, or another device has finished it.
            Err(ReplicaError::Already) => {
                replica::promoted_with(&objects, drive).await.map_err(at_replica)?
            }
            Err(error) => {
                if plan::stays(&error, was_moving.is_some()) {
                    self.stay(&former).await;
                }
                return Err(at_replica(error));
            }
            Ok(promoted) => promoted,
        };
        loss.newer_here = loss.newer_here && !self.is_in_primary(&objects, local.as_ref(), &url).await?;
        if loss.newer_here {
            self.set_files_aside()?;
        }
        // Later versions of the former store are not here: another device may have opened the replica before they reached it.
        loss.newer_there |= plan::order(with) < plan::order(newest.root);
        let left = FormerStore {
            store: self.store_url(),
            left_at: head.epoch.0,
            left_with: (with.epoch.0, with.seq),
        };
        self.remember(|all| {
            (all.store, all.mode, all.moving_to) = (url.clone(), config.mode, None);
            if let Some(family) = &mut all.family {
                *family = Family::new(family.family, family.cipher, config.mode);
            }
            all.replicas.retain(|replica| replica.store != url);
            all.former.retain(|former| former.store != url && former.store != left.store);
            // The replica may lack even more of the earlier former stores' versions than the store that it replaces.
            all.former.iter_mut().for_each(|former| former.left_with = former.left_with.min(left.left_with));
            all.former.extend(matches!(former, Former::Away).then_some(left));
        })?;
        self.warn_where_synced(&url).await;
        self.tell_former_stores();
        *self.reached.write() = None;
        *self.mode_now.lock() = None;
        self.figures.forget();
        Ok(api::Promoted {
            store: url.clone(),
            root: head.root.root_name(),
            committed_at: time(head.written_ms),
            former_store_told: !matches!(former, Former::Away),
            lost_versions: loss.is_any(),
        })
    }

    /// Records that `url` is becoming the drive's store. Returns what was becoming it until now.
    fn begin_to_move(&self, url: &str) -> Result<Option<String>, Failure> {
        let before = self.config.lock().moving_to.clone();
        let begun = self.remember(|config| config.moving_to = Some(url.to_owned()));
        if begun.is_err() {
            self.config.lock().moving_to.clone_from(&before);
        }
        begun.map(|()| before)
    }

    /// The move has not happened.
    fn moves_no_more(&self, was_moving: Option<String>) {
        if let Err(failure) = self.remember(|config| config.moving_to = was_moving) {
            tracing::error!(drive = self.name, message = failure.message, "promote the replica again");
        }
    }

    /// The drive stays in its store: the replica has not become the primary, and never will by this promotion.
    async fn stay(&self, former: &Former) {
        if let Former::There(objects, ..) = former
            && let Err(error) = core_drive::restore(objects, self.uuid(), self.registry.device()).await
        {
            tracing::error!(drive = self.name, %error, "its store stays marked as left; promote the replica again");
            return;
        }
        self.moves_no_more(None);
    }

    /// Refuses to use the drive if it may already live in a replica.
    pub(super) fn check_not_moving(&self) -> Result<(), Failure> {
        match &self.config.lock().moving_to {
            Some(url) => Err(failure::moving(&self.name, url)),
            None => Ok(()),
        }
    }

    /// Whether the replica, if it is already a primary, has all that this computer remembers of the drive.
    async fn is_in_primary(
        &self,
        objects: &Objects,
        local: Option<&volume::Local>,
        url: &str,
    ) -> Result<bool, Failure> {
        match core_drive::current(objects, self.uuid()).await {
            Ok((_, _, root)) => Ok(local.is_none_or(|local| {
                let base = local.base.as_ref();
                base.is_none_or(|base| base.is_in(&root, local.journal))
            })),
            Err(DriveError::Removed | DriveError::Moved { .. }) => Ok(false),
            Err(DriveError::Read(error)) if error.is_missing() => Ok(false),
            Err(error) => Err(failure::at_store(failure::drive(&error), url)),
        }
    }
}

/// Whether the store takes writes.
async fn try_to_put(objects: &Objects) -> Result<(), StoreError> {
    let name = format!("{}promotion-{}", probe::AREA, uuid::Uuid::new_v4().simple());
    objects.store().put(&name, bytes::Bytes::from_static(b"?"), When::Absent).await?;
    let _ = objects.store().delete(&name).await;
    Ok(())
}
