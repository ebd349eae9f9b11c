//! Adding and removing replicas, and making one the drive's store.

use super::Drive;
use super::former::Former;
use crate::api::{self, Code, Failure, ReplicaStatus};
use crate::daemon::failure::{self, NOTHING_CHANGED, failure};
use crate::daemon::registry::{FormerStore, ReplicaConfig};
use crate::daemon::status::time;
use crate::daemon::stores::trial;
use crate::daemon::work::Work;
use holdall_core::disk::real::Directory;
use holdall_core::drive as core_drive;
use holdall_core::family::{self, FamilyError, Unlocked};
use holdall_core::format::family::{Family, Mode};
use holdall_core::format::id::{ObjectId, ObjectKind};
use holdall_core::map::{Objects, PageCache};
use holdall_core::replica::{self, ReplicaError};
use holdall_core::store::When;
use holdall_core::store::probe::{self, Effort};
use holdall_core::store::url::StoreUrl;
use holdall_core::units::Epoch;
use holdall_core::volume;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How the name of a directory begins with what this computer alone has had when a replica became the drive's store.
const ASIDE: &str = "before-promotion-";

impl Drive {
    /// Adds a replica: tries the store, readies it, and copies everything while the drive is open. Of a closed drive it is
    /// opened for that.
    pub async fn add_replica(self: &Arc<Self>, url: StoreUrl, work: Work) -> Result<ReplicaStatus, Failure> {
        let address = url.to_string();
        let known = {
            let config = self.config.lock();
            config.store == address || config.replicas.iter().any(|replica| replica.store == address)
        };
        if known {
            let message = format!("{address} has this drive already.");
            return Err(failure(Code::Exists, message, NOTHING_CHANGED, "Choose another store."));
        }
        let mode = self.replica_mode(&url, &work).await?;
        let (primary, unlocked) = self.unlock().await?;
        let family = Family::new(unlocked.family.family, unlocked.family.cipher, mode);
        let store = self.replica_store(&address).await?;
        let drive = self.uuid();
        self.tell_if_former(&address).await?;
        // Before anything is put there: keys of another's drive are none of ours.
        match family::describe(store.as_ref()).await {
            Ok(there) => {
                let ours = replica::check_no_primary(&store, there.mode, &unlocked.sealer, drive).await;
                ours.map_err(|error| failure::replica(&error, &address))?;
            }
            Err(FamilyError::None) => {}
            Err(error) => return Err(failure::at_store(failure::family(&error), &address)),
        }
        let prepared = replica::prepare(primary.as_ref(), store.as_ref(), &family).await;
        let mode = prepared.map_err(|error| failure::replica(&error, &address))?.mode;
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
        *open = Some(self.open_engine(false).await?);
        let waited = work
            .unless_interrupted(
                "The replica is added. What is missing there is copied while the drive is open.",
                self.settle_replicas(Duration::MAX),
            )
            .await;
        let status = self.replica_status(&address);
        self.finish(&mut open).await;
        waited?;
        status
    }

    fn replica_status(&self, url: &str) -> Result<ReplicaStatus, Failure> {
        let found = self.replica_statuses().into_iter().find(|status| status.store == url);
        found.ok_or_else(|| failure::no_replica(&self.name, url))
    }

    /// What the store can do, as for a new drive.
    async fn replica_mode(&self, url: &StoreUrl, work: &Work) -> Result<Mode, Failure> {
        if let StoreUrl::File(path) = url {
            let made = holdall_core::store::file::FileStore::new(path.clone()).prepare().await;
            made.map_err(|error| failure::no_directory(path, &error))?;
            return Ok(Mode::Swap);
        }
        let credentials = self.stores.credentials(url).await?;
        let report =
            trial::of(&self.stores, url, (&credentials, &self.meter()), Effort::FULL, Some(work)).await?;
        match report.is_usable() {
            true => Ok(report.mode),
            false => Err(failure::unusable_store(&url.to_string(), &report)),
        }
    }

    /// Keeps a replica up no more. What it has stays there.
    pub fn remove_replica(&self, url: &StoreUrl) -> Result<(), Failure> {
        let url = url.to_string();
        if !self.config.lock().replicas.iter().any(|replica| replica.store == url) {
            return Err(failure::no_replica(&self.name, &url));
        }
        self.remember(|config| config.replicas.retain(|replica| replica.store != url))?;
        self.end_replica(&url);
        Ok(())
    }

    /// Brings the wrapped keys to the replicas as they are now, so that a passphrase that was changed opens none of them any
    /// more. One that is away is caught up with: each time that it answers again, and each time that the drive is opened, its
    /// keys are compared with those of the drive's store.
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
                let prepared = replica::prepare(primary.as_ref(), store.as_ref(), &family).await;
                prepared.map(drop).map_err(|error| failure::replica(&error, &config.store))
            };
            if let Err(failure) = shared.await {
                tracing::warn!(
                    drive = self.name,
                    replica = config.store,
                    message = failure.message,
                    "the replica still opens with the old passphrase; it gets the new one once it answers while the drive is open"
                );
                self.look_at_replicas_again();
            }
        }
    }

    /// Makes a replica the drive's store, for when that is lost, or to move. Nothing is deleted anywhere.
    pub async fn promote(self: &Arc<Self>, request: api::Promote) -> Result<api::Promoted, Failure> {
        let url = StoreUrl::parse(&request.store).map_err(|error| failure::url(&error))?.to_string();
        let mut open = self.open.lock().await;
        self.check_closed(&open)?;
        if self.store_url() == url {
            let message = format!("{url} is the store of {} already.", self.name);
            return Err(failure(Code::Exists, message, NOTHING_CHANGED, "Open the drive."));
        }
        let config = self.config.lock().replicas.iter().find(|replica| replica.store == url).cloned();
        let config = config.ok_or_else(|| failure::no_replica(&self.name, &url))?;
        // Closed, but still waiting for the store that is lost.
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        self.part_with_fork()?;
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let there = self.stores.family(&url, &self.meter()).await?;
        let unlocked = Unlocked::with_key(there.family, key);
        let objects = Objects::new(there.store, unlocked.sealer.clone(), PageCache::none());
        let (drive, device) = (self.uuid(), self.registry.device());
        let at_replica = |error: ReplicaError| failure::replica(&error, &url);
        let newest =
            replica::newest(objects.store().as_ref(), objects.sealer(), drive).await.map_err(at_replica)?;

        let directory = Directory::create(&self.registry.directory(&self.name));
        let local = directory.and_then(|directory| volume::Local::load(&directory));
        let base = local.map_err(|error| failure::local(&error))?.and_then(|local| local.base);
        let seen = base.as_ref().map_or(Epoch(0), |base| Epoch(base.epoch));
        let former = self.former(request.accept_loss).await?;
        let order = |id: ObjectId| (id.epoch, id.seq);
        let newer_here = base
            .as_ref()
            .and_then(|base| base.id())
            .is_some_and(|id| id.drive != drive || order(id) > order(newest.root));
        let newer_there = match &former {
            Former::There(_, head) => order(head.root) > order(newest.root),
            // Whoever else had the drive may have uploaded more than the replica got.
            Former::Away => newest.device != device.id,
            Former::Retired => false,
        };
        if (newer_there || newer_here) && !request.accept_loss {
            let reachable = matches!(former, Former::There(..));
            return Err(failure::replica_lags(&self.name, &url, &time(newest.written_ms), reachable));
        }
        // What can fail there fails before the former store is given up.
        let version = objects.root(newest.root, Some(newest.root_hash)).await;
        version.map_err(|error| failure::at_store(failure::read(&error), &url))?;
        let trial = format!("{}promotion-{}", probe::AREA, uuid::Uuid::new_v4().simple());
        let tried = objects.store().put(&trial, bytes::Bytes::from_static(b"?"), When::Absent).await;
        tried.map_err(|error| failure::at_store(failure::store(&error), &url))?;
        let _ = objects.store().delete(&trial).await;
        if let Former::There(former, _) = &former {
            // A passphrase that was changed while the replica was away.
            let family = &unlocked.family;
            let shared = replica::prepare(former.store().as_ref(), objects.store().as_ref(), family).await;
            shared.map_err(at_replica)?;
            // The former store first: a crash in between leaves no store that takes commits, never two.
            core_drive::retire(former, drive, &url, device).await.map_err(|error| failure::drive(&error))?;
        }
        let above = match &former {
            Former::There(_, head) => Epoch(head.epoch.max(seen).0 + 1),
            Former::Away | Former::Retired => seen,
        };
        let is_away = matches!(former, Former::Away);
        let head = match replica::promote(&objects, drive, above, is_away, device).await {
            Ok(head) => head,
            // An earlier try came so far.
            Err(ReplicaError::Already) => {
                core_drive::current(&objects, drive).await.map_err(|error| failure::drive(&error))?.0
            }
            Err(error) => {
                if let Former::There(objects, _) = &former
                    && let Err(error) = core_drive::restore(objects, drive, device).await
                {
                    tracing::error!(drive = self.name, %error, "its store stays given up; promote the replica again");
                }
                return Err(at_replica(error));
            }
        };
        if newer_here {
            self.set_files_aside().map_err(|error| failure::local(&error))?;
        }
        let left = FormerStore { store: self.store_url(), left_at: head.epoch.0 };
        self.remember(|all| {
            (all.store, all.mode) = (url.clone(), config.mode);
            all.replicas.retain(|replica| replica.store != url);
            all.former.retain(|former| former.store != url && former.store != left.store);
            all.former.extend(matches!(former, Former::Away).then_some(left));
        })?;
        self.tell_former_stores();
        *self.reached.write() = None;
        *self.mode_now.lock() = None;
        self.forget_figures();
        Ok(api::Promoted {
            store: url.clone(),
            root: head.root.name(ObjectKind::Root),
            committed_at: time(head.written_ms),
            former_store_told: !matches!(former, Former::Away),
            lost_versions: newer_here || newer_there,
        })
    }

    /// What this computer has of versions that the store does not have goes out of the way: kept, and used no more.
    fn set_files_aside(&self) -> io::Result<()> {
        let directory = self.registry.directory(&self.name);
        let aside = directory.join(format!("{ASIDE}{}", crate::daemon::status::now_ms()));
        std::fs::create_dir(&aside)?;
        for name in ["journal", "drive.json"] {
            match std::fs::rename(directory.join(name), aside.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::File::open(&aside)?.sync_all()?;
        std::fs::File::open(&directory)?.sync_all()
    }

    /// Refuses while something is only on this computer that was set aside; `or_else` is how one gives it up.
    pub(super) fn check_nothing_aside(&self, or_else: &str) -> Result<(), Failure> {
        let directory = self.registry.directory(&self.name);
        let entries = std::fs::read_dir(&directory).map_err(|error| failure::local(&error))?;
        let aside = entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(ASIDE));
        match aside {
            None => Ok(()),
            Some(aside) => Err(failure(
                Code::Unsent,
                format!(
                    "What this computer had and the replica lacked was set aside when {} was moved. It is in {}.",
                    self.name,
                    aside.path().display()
                ),
                "Nothing was changed. It would be lost.",
                format!("Move it elsewhere if it may still be needed{or_else}."),
            )),
        }
    }
}
