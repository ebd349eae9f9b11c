//! The replicas of an open drive: a task for each, which the engine does not wait for.

use super::Drive;
use crate::api::{self, Failure, ReplicaState, ReplicaStatus, Unit};
use crate::daemon::registry::ReplicaConfig;
use crate::daemon::status::time;
use crate::daemon::stores::Stores;
use crate::daemon::stores::later::Later;
use crate::daemon::work::Work;
use holdall_core::family::{Family, Unlocked};
use holdall_core::map::{Objects, PageCache};
use holdall_core::replica::{Progress, Replica, Replicated, Standing, Wanted};
use holdall_core::store::Store;
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often the progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How long a closing drive waits for replicas that are still copying. The next opening copies what is missing then.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// The text for a person whose wait for a copy was interrupted.
pub(super) const COPIED_WHILE_OPEN: &str =
    "The replica is added. The rest is copied while the drive is open.";

/// The replicas of an open drive.
pub struct Replicas {
    hub: Arc<Replicated>,
    /// The primary's objects.
    objects: Arc<Objects>,
    /// Counts the requests to the replicas, together with those to the primary.
    meter: Meter,
    family: Family,
    /// The setting for replicas that begin from now on.
    wanted: Wanted,
    running: Vec<Running>,
}

struct Running {
    url: String,
    progress: watch::Receiver<Progress>,
    wanted: watch::Sender<Wanted>,
    handle: JoinHandle<()>,
}

impl Replicas {
    /// The replicas of a drive whose engine uses `hub`, which reads and writes `primary`. None of them runs yet.
    pub fn new(
        hub: Arc<Replicated>,
        primary: Arc<dyn Store>,
        meter: Meter,
        unlocked: &Unlocked,
        pages: Option<sled::Tree>,
    ) -> Self {
        let pages = pages.map_or_else(PageCache::none, PageCache::sled);
        let objects = Arc::new(Objects::new(primary, unlocked.sealer.clone(), pages));
        Self {
            hub,
            objects,
            meter,
            family: unlocked.family.clone(),
            wanted: Wanted::Kept,
            running: Vec::new(),
        }
    }

    /// Starts keeping a replica up to date, however long its store is away.
    fn begin(&mut self, config: &ReplicaConfig, stores: &Arc<Stores>) {
        let store: Arc<dyn Store> = Arc::new(Later::new(stores.clone(), &config.store, self.meter.clone()));
        let family = Family::new(self.family.family, self.family.cipher, config.mode);
        let replica = Replica::new(store.clone(), self.objects.clone(), family, self.hub.add(store));
        let (progress, wanted) = (replica.progress(), watch::Sender::new(self.wanted));
        let handle = tokio::spawn(replica.run(wanted.subscribe()));
        self.running.push(Running { url: config.store.clone(), progress, wanted, handle });
    }

    fn set_paused(&mut self, paused: bool) {
        self.wanted = if paused { Wanted::Paused } else { Wanted::Kept };
        for running in &self.running {
            running.wanted.send_if_modified(|wanted| std::mem::replace(wanted, self.wanted) != self.wanted);
        }
    }

    /// The status of each.
    pub fn statuses(&self) -> Vec<ReplicaStatus> {
        let commits = self.hub.commits();
        self.running.iter().map(|running| running.status(commits)).collect()
    }

    fn progress_of(&self, url: &str) -> Option<watch::Receiver<Progress>> {
        self.running.iter().find(|running| running.url == url).map(|running| running.progress.clone())
    }

    fn begun(&self, url: &str) -> Option<Begun> {
        Some(Begun { hub: self.hub.clone(), progress: self.progress_of(url)? })
    }

    fn end(&mut self, url: &str) {
        for running in self.running.extract_if(.., |running| running.url == url) {
            running.end();
        }
    }
}

impl Running {
    fn status(&self, commits: u64) -> ReplicaStatus {
        let progress = self.progress.borrow();
        let (state, reason) = match &progress.standing {
            Standing::UpToDate | Standing::Paused
                if progress.version.is_some() && progress.commits == commits =>
            {
                (ReplicaState::UpToDate, None)
            }
            Standing::Paused => (ReplicaState::Behind, Some("uploading is paused".to_owned())),
            Standing::UpToDate | Standing::Behind | Standing::Unknown => (ReplicaState::Behind, None),
            Standing::Trouble(reason) => (ReplicaState::Trouble, Some(reason.clone())),
        };
        ReplicaStatus {
            store: self.url.clone(),
            state,
            reason,
            behind_bytes: progress.behind_bytes,
            version: progress.version.map(|version| version.root_name()),
            committed_at: progress.version.map(|_| time(progress.committed_ms)),
        }
    }

    fn end(self) {
        self.wanted.send_replace(Wanted::Ended);
        drop(self.handle);
    }
}

/// A replica that a client waits for.
pub(super) struct Begun {
    hub: Arc<Replicated>,
    progress: watch::Receiver<Progress>,
}

/// Waits until a replica has everything, or cannot have it now.
async fn settled(hub: &Replicated, mut progress: watch::Receiver<Progress>) {
    let is_settled = |progress: &Progress| match progress.standing {
        Standing::UpToDate => progress.commits == hub.commits(),
        Standing::Trouble(_) | Standing::Paused => true,
        Standing::Behind | Standing::Unknown => false,
    };
    let _ = progress.wait_for(is_settled).await;
}

impl Drive {
    /// Starts keeping the remembered replicas up to date.
    pub(super) fn begin_replicas(&self, mut replicas: Replicas) {
        let configs = self.config.lock().replicas.clone();
        // A pause from now on waits for this lock, and so reaches them.
        let mut now = self.replicas.lock();
        replicas.set_paused(self.pause().is_some());
        for config in &configs {
            replicas.begin(config, &self.stores);
            replicas
                .progress_of(&config.store)
                .into_iter()
                .for_each(|progress| self.watch_replica(&config.store, progress));
        }
        *now = Some(replicas);
    }

    /// A replica's store.
    pub(super) async fn replica_store(&self, url: &str) -> Result<Arc<dyn Store>, Failure> {
        let url = StoreUrl::parse(url).map_err(|error| crate::daemon::failure::url(&error))?;
        Ok(self.stores.connect(&url, &self.meter()).await?)
    }

    /// Starts keeping a new replica up to date.
    pub(super) fn begin_replica(&self, config: &ReplicaConfig) -> Option<Begun> {
        let mut replicas = self.replicas.lock();
        let replicas = replicas.as_mut()?;
        replicas.begin(config, &self.stores);
        self.watch_replica(&config.store, replicas.progress_of(&config.store)?);
        replicas.begun(&config.store)
    }

    /// A replica that is already kept up to date.
    pub(super) fn replica_begun(&self, url: &str) -> Option<Begun> {
        self.replicas.lock().as_ref()?.begun(url)
    }

    /// Waits until the replica has everything. It continues even if nobody waits any longer.
    pub(super) async fn until_settled(&self, begun: Option<Begun>, work: &Work) -> Result<(), Failure> {
        let Some(Begun { hub, progress }) = begun else { return Ok(()) };
        let told = async {
            loop {
                let behind = progress.borrow().behind_bytes;
                work.progress("Copying to the replica, bytes left", behind, 0, Unit::Bytes);
                tokio::time::sleep(PROGRESS_EVERY).await;
            }
        };
        let waiting = async {
            tokio::select! { biased;
                () = settled(&hub, progress.clone()) => {}
                () = told => {}
            }
        };
        work.unless_interrupted(COPIED_WHILE_OPEN, waiting).await
    }

    /// Pauses or resumes them.
    pub(super) fn pause_replicas(&self, paused: bool) {
        if let Some(replicas) = &mut *self.replicas.lock() {
            replicas.set_paused(paused);
        }
    }

    /// Has replicas that wait for a retry tried at once, and all of them checked again.
    pub fn look_at_replicas_again(&self) {
        if let Some(replicas) = &*self.replicas.lock() {
            replicas.hub.look_again();
        }
    }

    /// Stops one.
    pub(super) fn end_replica(&self, url: &str) {
        if let Some(replicas) = &mut *self.replicas.lock() {
            replicas.end(url);
        }
    }

    /// Waits until every replica has everything or cannot have it now, for at most `limit`.
    pub(super) async fn settle_replicas(&self, limit: Duration) {
        let waiting = match &*self.replicas.lock() {
            Some(replicas) => {
                let progress: Vec<_> =
                    replicas.running.iter().map(|running| running.progress.clone()).collect();
                (replicas.hub.clone(), progress)
            }
            None => return,
        };
        let (hub, progress) = waiting;
        let all =
            futures_util::future::join_all(progress.into_iter().map(|progress| settled(&hub, progress)));
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Stops all, after a moment for those that are still copying.
    pub(super) async fn end_replicas(&self) {
        self.settle_replicas(LAST_PATIENCE).await;
        self.stop_replicas();
    }

    /// Stops all at once. The next opening copies what is missing.
    pub(super) fn stop_replicas(&self) {
        let replicas = self.replicas.lock().take();
        if let Some(replicas) = replicas {
            replicas.running.into_iter().for_each(Running::end);
        }
    }

    /// The status of the drive's replicas; for a closed drive, only which replicas it has.
    pub fn replica_statuses(&self) -> Vec<ReplicaStatus> {
        if let Some(replicas) = &*self.replicas.lock() {
            return replicas.statuses();
        }
        // The last known status says which versions a replica has.
        let last = self.figures.last_replicas();
        let closed = |config: &ReplicaConfig| {
            let known = last.iter().find(|replica| replica.store == config.store);
            ReplicaStatus {
                store: config.store.clone(),
                state: api::ReplicaState::Closed,
                reason: None,
                behind_bytes: known.map_or(0, |known| known.behind_bytes),
                version: known.and_then(|known| known.version.clone()),
                committed_at: known.and_then(|known| known.committed_at.clone()),
            }
        };
        self.config.lock().replicas.iter().map(closed).collect()
    }
}
