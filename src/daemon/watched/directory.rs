//! One watched directory.

use super::config::{Config, Directories};
use super::events::{self, Events};
use crate::api::{
    ActivityKind, DeletionsSettled, Failure, FolderConflict, FolderQueue, FolderStatus, HeldDeletions,
    KeepVersion, Unit, WhichVersion,
};
use crate::daemon::failure;
use crate::daemon::folder::Common;
use crate::daemon::folder::queue::told;
use crate::daemon::folder::remote::{Known as KnownRemote, Place, Reached, connect};
use crate::daemon::limits::Waits;
use crate::daemon::status::{now_ms, time};
use crate::daemon::stores;
use crate::daemon::work::Work;
use holdall_core::disk::real::Directory as Disk;
use holdall_core::folder::outbox::Keep;
use holdall_core::store::meter::Meter;
use holdall_core::watched::local::LocalTree;
use holdall_core::watched::{Environment, Watched};
use parking_lot::{Mutex, RwLock};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Held paths of one answer: more than a person reads.
const PATHS_MAX: usize = 1_000;
const GOES_ON: &str = "Nothing is lost: both sides are made alike in the background.";

/// A watched directory.
pub struct Directory {
    /// Its path, which names it.
    pub name: String,
    common: Arc<Common>,
    directories: Directories,
    // Held to read and change a few fields.
    config: Mutex<Config>,
    /// Held while it starts or stops.
    starting: tokio::sync::Mutex<()>,
    pub(super) live: RwLock<Option<Live>>,
    // Held to read or set it.
    pub(super) failed: Mutex<Option<Failure>>,
    pub(super) since_ms: Mutex<Option<(crate::api::DriveState, u64)>>,
}

/// What runs for it.
#[derive(Clone)]
pub(super) struct Live {
    pub engine: Arc<Watched>,
    pub remote: Arc<Reached>,
    pub meter: Meter,
    tasks: Arc<Tasks>,
}

struct Tasks {
    // Taken by whoever waits for its end.
    rounds: Mutex<Option<JoinHandle<()>>>,
    connecting: tokio::task::AbortHandle,
    // Held to put it here.
    events: Mutex<Option<Events>>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.connecting.abort();
    }
}

impl Directory {
    /// One that nothing runs for yet.
    pub fn new(config: Config, common: Arc<Common>, directories: Directories) -> Arc<Self> {
        Arc::new(Self {
            name: config.directory.clone(),
            common,
            directories,
            config: Mutex::new(config),
            starting: tokio::sync::Mutex::default(),
            live: RwLock::new(None),
            failed: Mutex::new(None),
            since_ms: Mutex::new(None),
        })
    }

    /// What is remembered of it.
    pub fn config(&self) -> Config {
        self.config.lock().clone()
    }

    /// A failure of it, with its name and address.
    pub fn named(&self, failure: Failure) -> Failure {
        failure::of_folder(failure, &self.name, &self.config.lock().url)
    }

    /// Begins to work, unless it does.
    pub async fn resume(&self) {
        let _turn = self.starting.lock().await;
        if self.live.read().is_some() {
            return;
        }
        match Box::pin(self.begin()).await {
            Ok(live) => {
                *self.failed.lock() = None;
                *self.live.write() = Some(live);
                self.apply_pause();
            }
            Err(failure) => {
                tracing::warn!(directory = self.name, message = failure.message, "it cannot be watched");
                self.note(ActivityKind::Attention, format!("It cannot be watched. {}", failure.message));
                *self.failed.lock() = Some(failure);
            }
        }
    }

    async fn begin(&self) -> Result<Live, Failure> {
        let config = self.config();
        let state = self.directories.of(config.uuid);
        let meter = Meter::default();
        let place = Place {
            url: stores::parse(&config.url)?,
            stores: self.common.stores.clone(),
            device: self.common.registry.device().id,
            read_only: false,
            meter: meter.clone(),
        };
        let remote = match KnownRemote::load(&state) {
            Some(known) => Reached::later(place, known, &state),
            None => {
                let connected =
                    Box::pin(connect(&place, None)).await.map_err(|error| failure::reach(&error))?;
                let known =
                    KnownRemote { facts: connected.remote.facts().clone(), root: connected.root.clone() };
                known.save(&state).map_err(|error| failure::local(&error))?;
                Reached::connected(place, connected, &state)
            }
        };
        let disk = Disk::create(&state).map_err(|error| failure::local(&error))?;
        let environment = Environment {
            tree: Arc::new(LocalTree::new(Path::new(&config.directory), config.uuid)),
            remote: remote.clone(),
            disk: Arc::new(disk),
            uuid: config.uuid,
            two_way: config.two_way,
            device_name: self.common.registry.device().name.clone(),
        };
        let engine = Box::pin(Watched::open(environment)).await;
        let engine = engine.map_err(|error| failure::local(&std::io::Error::other(error.to_string())))?;
        let rounds = Mutex::new(Some(tokio::spawn(engine.clone().run())));
        let connecting = tokio::spawn(remote.clone().connect_in_background()).abort_handle();
        let tasks = Arc::new(Tasks { rounds, connecting, events: Mutex::new(None) });
        let (heard, watching, path) = (tasks.clone(), engine.clone(), config.directory.clone());
        // Watching a large directory takes a while, and the first round looks at everything anyway.
        tokio::task::spawn_blocking(move || {
            let events = events::watch(Path::new(&path), &watching);
            *heard.events.lock() = events;
            watching.hint();
        });
        Ok(Live { engine, remote, meter, tasks })
    }

    /// Stops working, without waiting.
    pub fn stop(&self) {
        if let Some(live) = &*self.live.read() {
            live.engine.stop();
        }
    }

    /// Stops working, and waits until nothing is under way.
    pub async fn stop_and_wait(&self) {
        let _turn = self.starting.lock().await;
        let Some(live) = self.live.write().take() else { return };
        live.engine.stop();
        let rounds = live.tasks.rounds.lock().take();
        if let Some(rounds) = rounds {
            let _ = rounds.await;
        }
    }

    fn note(&self, kind: ActivityKind, message: impl Into<String>) {
        self.common.registry.activity().note_of_folder(&self.name, kind, message);
    }

    pub(super) fn live(&self) -> Result<Live, Failure> {
        let live = self.live.read().clone();
        let failed = self.failed.lock().clone();
        live.ok_or_else(|| failed.unwrap_or_else(failure::folder_closed))
    }

    /// Switches it off or on until changed again.
    pub fn set_paused(&self, paused: bool) -> Result<(), Failure> {
        let mut changed = self.config();
        changed.paused = paused;
        self.directories.save(&changed).map_err(|error| failure::local(&error))?;
        *self.config.lock() = changed;
        self.apply_pause();
        Ok(())
    }

    /// Applies the current pause.
    pub fn apply_pause(&self) {
        let why = self.pause().map(str::to_owned);
        if let Some(live) = &*self.live.read() {
            live.engine.set_paused(why);
        }
    }

    pub(super) fn pause(&self) -> Option<&'static str> {
        match self.config.lock().paused {
            true => Some("paused by you"),
            false => match *self.common.stores.limits().waiting().borrow() {
                Some(Waits::Metered) => Some("metered network"),
                Some(Waits::Paused) => Some("all drives and folders are paused for a while"),
                Some(Waits::Quiet) => Some("quiet hours"),
                None => None,
            },
        }
    }

    /// The way to the remote has changed.
    pub fn renew(&self) {
        if let Some(live) = &*self.live.read() {
            live.remote.renew();
            live.engine.hint();
        }
    }

    /// Makes both sides alike, and waits for it.
    pub async fn sync(&self, work: Work) -> Result<FolderStatus, Failure> {
        self.resume().await;
        let live = self.live()?;
        live.remote.try_now();
        let settling = async {
            tokio::select! { biased;
                settled = Box::pin(live.engine.settle()) => settled,
                never = progress(&live, &work) => match never {},
            }
        };
        let settled = work.unless_interrupted(GOES_ON, settling).await?;
        settled.map_err(|error| failure::unsettled(&error, live.engine.status().queue.bytes))?;
        Ok(self.status())
    }

    /// What differs.
    pub fn queue(&self) -> FolderQueue {
        let live = self.live.read().clone();
        live.map(|live| told(live.engine.status().queue)).unwrap_or_default()
    }

    /// Conflicts that nobody has settled.
    pub async fn conflicts(&self) -> Result<Vec<FolderConflict>, Failure> {
        let conflicts = self.live()?.engine.conflicts().await;
        let conflicts = conflicts.into_iter().map(|(path, conflict)| FolderConflict {
            path: path.to_string(),
            kept_as: conflict.kept_as.to_string(),
            at: time(conflict.at_ms),
            our_bytes: conflict.our_len,
            their_bytes: conflict.their_len,
            their_time: conflict.their_time.and_then(|at| u64::try_from(at.0 / 1_000_000).ok()).map(time),
        });
        Ok(conflicts.collect())
    }

    /// Settles a conflict. Returns those that are left.
    pub async fn keep(&self, request: &KeepVersion) -> Result<Vec<FolderConflict>, Failure> {
        let path = request.path.trim_matches('/');
        let keep = match request.keep {
            WhichVersion::Mine => Keep::Mine,
            WhichVersion::Theirs => Keep::Theirs,
            WhichVersion::Both => Keep::Both,
        };
        if !self.conflicts().await?.iter().any(|of| of.path == path || of.kept_as == path) {
            return Err(failure::no_conflict(path));
        }
        let kept = self.live()?.engine.keep(path, keep).await;
        kept.map_err(|why| failure::state(format!("The conflict was not settled: {why}."), "Try again."))?;
        self.note(ActivityKind::Conflict, format!("Conflict settled ({path})."));
        self.conflicts().await
    }

    /// Deletions that are held, on either side.
    pub async fn deletions(&self) -> Result<HeldDeletions, Failure> {
        let held = self.live()?.engine.held().await;
        let at = held.iter().map(|(_, _, at)| *at).min().map(time);
        let paths = held.iter().take(PATHS_MAX).map(|(path, _, _)| path.to_string()).collect();
        Ok(HeldDeletions { count: held.len() as u64, paths, at })
    }

    /// Decides about held deletions.
    pub async fn decide(&self, is_right: bool) -> Result<DeletionsSettled, Failure> {
        let live = self.live()?;
        if self.deletions().await?.count == 0 {
            return Err(failure::no_held_deletions());
        }
        let settled = live.engine.decide(is_right).await;
        let settled = settled.map_err(|error| failure::local(&std::io::Error::other(error.to_string())))?;
        let told = match is_right {
            true => format!("Deleted on the other side, too: {} files.", settled.removed),
            false => format!("{} deleted files are brought back.", settled.restored),
        };
        self.note(ActivityKind::Deletions, told);
        Ok(DeletionsSettled { removed: settled.removed, restored: settled.restored, lost: 0 })
    }

    pub(super) fn since(&self, state: crate::api::DriveState) -> String {
        let mut since = self.since_ms.lock();
        match *since {
            Some((before, at)) if before == state => time(at),
            _ => {
                let now = now_ms();
                *since = Some((state, now));
                time(now)
            }
        }
    }
}

async fn progress(live: &Live, work: &Work) -> Infallible {
    let mut most = 0;
    loop {
        let queue = live.engine.status().queue;
        let sent: u64 = queue.items.iter().map(|item| item.sent).sum();
        let left = queue.bytes.saturating_sub(sent);
        most = most.max(left);
        if most > 0 {
            work.progress("Uploading", most - left, most, Unit::Bytes);
        }
        tokio::time::sleep(TELL_EVERY).await;
    }
}
