//! One drive that is known here, and the requests to it.

use super::failure::{self, failure};
use super::limits::Waits;
use super::registry::{Config, Registry};
use super::status::Phase;
use super::stores::renewable::Renewable;
use super::stores::{self, FamilyStore, Stores};
use crate::api::{Action, ActivityKind, Code, Failure, Finding};
use crate::attach::Site;
use crate::attach::doctor::{KnownDrive, Service};
use crate::daemon::drives::Known;
use crate::sizes::format_bytes;
use figures::Figures;
use holdall_core::family::{Family, FamilyError, Mode, Unlocked};
use holdall_core::map::{Objects, PageCache};
use holdall_core::seal::Cipher;
use holdall_core::store::Store;
use holdall_core::store::meter::Meter;
use holdall_core::volume::{OpenError, TakeOver, Volume};
pub use open::{asked_place, default_mountpoint};
use opened::{OpenDrive, Place};
use parking_lot::{Mutex, RwLock};
pub use pins::{at_least, words};
pub(in crate::daemon) use room::LEAST_BYTES as LEAST_CACHE_BYTES;
pub use scanning::ScanError;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;
use uuid::Uuid;

mod aside;
mod away;
mod change;
mod close;
mod collecting;
mod directory;
mod engine;
mod figures;
mod fork;
mod former;
mod holds;
mod inspect;
mod lock;
mod open;
mod opened;
mod outline;
mod outside;
mod pins;
mod promote;
mod proof;
mod queue;
mod replicas;
mod resume;
mod room;
mod scanning;
mod serve;
mod upload;
mod usage;
mod versions;
mod watching;
mod wishes;
mod writeback;

/// A drive.
pub struct Drive {
    pub(super) name: String,
    pub(super) registry: Arc<Registry>,
    pub(super) stores: Arc<Stores>,
    /// Counts the requests to its stores since it was opened. Held to copy it.
    meter: RwLock<Meter>,
    /// The store as it was last reached; while the drive has an engine, as the engine reached it.
    pub(super) reached: RwLock<Option<Arc<Renewable>>>,
    /// The mode that the store supported when it was last tried. Held to copy it.
    pub(super) mode_now: Mutex<Option<Mode>>,
    /// Why it is open only to look at, although writing was asked for. Held to copy it.
    pub(super) looks_because: Mutex<Option<String>>,
    pub(super) site: Site,
    pub(super) tree: Option<sled::Tree>,
    // Held for reading and changing a few fields.
    pub(super) config: Mutex<Config>,
    /// Held while it is opened, closed, or changed as a whole.
    pub(super) open: tokio::sync::Mutex<Option<OpenDrive>>,
    /// The engine of the open drive, for callers that only look.
    pub(super) live: RwLock<Option<Arc<Volume>>>,
    /// The replicas of the open drive. Held to read them, or to begin and end them.
    pub(super) replicas: Mutex<Option<replicas::Replicas>>,
    /// The operation under way, or what went wrong, apart from the engine. Held to read or set it.
    pub(super) phase: Mutex<Phase>,
    /// Where it is mounted. Known even while `open` is held.
    pub(super) place: RwLock<Option<Place>>,
    /// What is shown of it while it is not open, and how full its file system is.
    pub(super) figures: Figures,
    /// The files that a person always wants to keep here.
    pub(super) pins: pins::Pins,
    /// When a person last stopped a collection of garbage.
    collecting_stopped: Mutex<Option<tokio::time::Instant>>,
    /// Writes back what programs have not synced.
    writeback: writeback::Writeback,
    /// Held to add or remove holds.
    letting_go: Mutex<holds::LettingGo>,
    /// All drives: a fork becomes one of them.
    pub(super) known: Weak<Known>,
    /// Whether a task tells the stores that it has left.
    pub(super) telling: AtomicBool,
}

impl Drive {
    /// A drive that is closed.
    pub fn new(
        name: &str,
        config: Config,
        (registry, stores): (Arc<Registry>, Arc<Stores>),
        site: Site,
        tree: Option<sled::Tree>,
        known: Weak<Known>,
    ) -> Arc<Self> {
        let directory = registry.directory(name);
        let pins = pins::Pins::load(&directory, config.pins);
        let drive = Arc::new(Self {
            name: name.to_owned(),
            pins,
            registry,
            stores,
            meter: RwLock::default(),
            reached: RwLock::new(None),
            mode_now: Mutex::new(None),
            looks_because: Mutex::new(None),
            site,
            tree,
            config: Mutex::new(config),
            open: tokio::sync::Mutex::new(None),
            live: RwLock::new(None),
            replicas: Mutex::new(None),
            phase: Mutex::new(Phase::Closed),
            place: RwLock::new(None),
            figures: Figures::new(directory),
            collecting_stopped: Mutex::default(),
            writeback: writeback::Writeback::default(),
            letting_go: Mutex::default(),
            known,
            telling: AtomicBool::new(false),
        });
        drive.recall_figures();
        drive
    }

    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        self.config.lock().drive
    }

    /// Whether it is still a drive of this device: it may have been removed or renamed while the caller waited.
    pub(super) fn is_known(self: &Arc<Self>) -> bool {
        let known = self.known.upgrade();
        known.is_some_and(|known| known.lock().get(&self.name).is_some_and(|drive| Arc::ptr_eq(drive, self)))
    }

    /// Whether it is meant to be closed.
    pub fn is_closed(&self) -> bool {
        self.config.lock().open.is_none()
    }

    /// The mode that its store supports, as far as is known.
    pub fn store_mode(&self) -> Mode {
        let now = *self.mode_now.lock();
        now.unwrap_or_else(|| self.config.lock().mode)
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> Option<std::path::PathBuf> {
        self.place.read().as_ref().map(|place| place.mounted.mountpoint().to_owned())
    }

    /// Where it was mounted when the service ended, until it is taken over.
    pub fn waits_at(&self) -> Option<std::path::PathBuf> {
        let was = self.config.lock().open.as_ref().map(|open| open.mountpoint.clone());
        was.filter(|_| self.place.read().is_none())
    }

    /// Records an event of the drive.
    pub(super) fn note(&self, kind: ActivityKind, message: impl Into<String>) {
        self.registry.activity().note(Some(&self.name), kind, message);
    }

    /// Where its data lives.
    pub fn store_url(&self) -> String {
        self.config.lock().store.clone()
    }

    /// The stores that keep copies of it.
    pub fn replica_urls(&self) -> Vec<String> {
        self.config.lock().replicas.iter().map(|replica| replica.store.clone()).collect()
    }

    /// The facts for the doctor, which leaves served drives alone.
    pub fn for_doctor(&self) -> KnownDrive {
        let is_opening = matches!(*self.phase.lock(), Phase::Connecting | Phase::Recovering);
        let service = match (is_opening, self.live.read().is_some()) {
            (true, _) => Service::Opens,
            (false, true) => Service::Serves,
            (false, false) => Service::Rests,
        };
        KnownDrive { uuid: self.uuid(), name: self.name.clone(), service }
    }

    /// The doctor's finding on a mounted drive that is nearly full.
    pub async fn full_for_doctor(&self) -> Option<crate::api::Finding> {
        let place = self.place.read().clone()?;
        self.figures.used_bytes(&place).await;
        let full = self.figures.full()?;
        let detail = crate::api::words::sentence(&full.reason());
        Some(Finding::new(format!("drive {}", self.name), false, detail, full.action(&self.name)))
    }

    /// Changes what is remembered: first on the disk, then in memory. If the disk does not accept it, both stay as they were, and the drive
    /// continues to behave as it is saved.
    pub(super) fn remember(&self, change: impl FnOnce(&mut Config)) -> Result<(), Failure> {
        let mut config = self.config.lock();
        let mut changed = config.clone();
        change(&mut changed);
        self.registry.save(&self.name, &changed).map_err(|error| failure::local(&error))?;
        *config = changed;
        Ok(())
    }

    /// Records how the store was reached. While an engine runs, its connection stays recorded, because that shows whether the store refuses
    /// it.
    fn has_reached(&self, reached: Arc<Renewable>) {
        let mut known = self.reached.write();
        if known.is_none() || self.live.read().is_none() {
            *known = Some(reached);
        }
    }

    /// Counts the requests to its stores.
    pub(super) fn meter(&self) -> Meter {
        self.meter.read().clone()
    }

    /// An opening begins: from here on, the drive's requests are counted.
    pub(super) fn count_anew(&self) {
        *self.meter.write() = Meter::default();
    }

    /// The store, and the keys.
    pub(super) async fn unlock(&self) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let url = stores::parse(&self.store_url())?;
        let FamilyStore { reached, store, family } =
            self.stores.family_of(&url, &self.meter(), failure::known_family).await?;
        self.has_reached(reached);
        let (mode, known) = {
            let config = self.config.lock();
            (config.mode, config.family.clone())
        };
        // Earlier services did not record all of it; the key says whether the family is encrypted.
        let before = known.as_ref().unwrap_or(&family);
        let before = Family::new(before.family, before.cipher, mode);
        let unlocked = match before.differs_from(&family) {
            Some(difference) => Err(FamilyError::Changed(difference)),
            None => Unlocked::with_key(family, key),
        };
        let unlocked = unlocked.map_err(|error| self.of_family(&error))?;
        if known.as_ref() != Some(&unlocked.family) {
            self.remember(|config| config.family = Some(unlocked.family.clone()))?;
        }
        Ok((store, unlocked))
    }

    /// The same from what is remembered, without asking the store.
    pub(super) async fn unlock_away(&self) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let known = self.config.lock().family.clone();
        let family = known.ok_or_else(|| failure::open(&OpenError::NotSeen, &self.name))?;
        let FamilyStore { reached, store, family } =
            self.stores.known_family(&self.store_url(), &self.meter(), family).await?;
        self.has_reached(reached);
        Ok((store, Unlocked::with_key(family, key).map_err(|error| self.of_family(&error))?))
    }

    /// Another store of the drive, a replica or a former one, with the keys: it must describe the same family. It may change HEADs in
    /// another way: by `mode`, if that is known.
    pub(super) async fn unlock_at(
        &self,
        url: &str,
        mode: Option<Mode>,
    ) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let there = self.stores.family(url, &self.meter()).await?;
        let known = self.config.lock().family.clone();
        let mode = mode.unwrap_or(there.family.mode);
        let known = known.map(|known| Family::new(known.family, known.cipher, mode));
        let unlocked = match known.and_then(|known| known.differs_from(&there.family)) {
            Some(difference) => Err(FamilyError::Changed(difference)),
            None => Unlocked::with_key(there.family, key),
        };
        let named = |error| failure::named(failure::family(&error), &self.name, url);
        Ok((there.store, unlocked.map_err(named)?))
    }

    /// Whether it is encrypted, as far as it is known here.
    pub fn is_encrypted(&self) -> bool {
        self.config.lock().family.as_ref().is_none_or(|family| family.cipher != Cipher::None)
    }

    fn of_family(&self, error: &FamilyError) -> Failure {
        failure::named(failure::family(error), &self.name, &self.store_url())
    }

    /// Objects of its family, and the keys.
    pub async fn objects(&self) -> Result<(Arc<Objects>, Unlocked), Failure> {
        let (store, unlocked) = self.unlock().await?;
        Ok((Arc::new(Objects::new(store, unlocked.sealer.clone(), PageCache::none())), unlocked))
    }

    /// Runs `work` with the engine for writing: the open drive's, or one that is opened only for this. An open drive may be closed
    /// meanwhile, which ends the work of its engine; so nobody is blocked by a caller that waits for a store.
    async fn with_volume<T>(
        self: &Arc<Self>,
        work: impl AsyncFnOnce(&Arc<Volume>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut lock = self.open.lock().await;
        if let Some(open) = &*lock {
            open.check_writable(&self.name)?;
            let volume = open.volume.clone();
            drop(lock);
            return work(&volume).await;
        }
        if let Some(failure) = self.relies_on_locks().await {
            return Err(failure);
        }
        let opened = self.open_engine(TakeOver::Nobody).await?;
        let result = work(&opened.volume).await;
        *lock = Some(opened);
        self.finish(&mut lock).await;
        result
    }

    /// Switches uploading and background downloading off or on until changed again.
    pub fn set_paused(&self, paused: bool) -> Result<(), Failure> {
        self.remember(|config| config.paused = paused)?;
        self.apply_pause();
        Ok(())
    }

    /// Why uploading and background downloading are off: a person or the limits have switched them off.
    pub fn pause(&self) -> Option<&'static str> {
        match self.config.lock().paused {
            true => Some("paused by you"),
            false => match *self.stores.limits().waiting().borrow() {
                Some(Waits::Metered) => Some("metered network"),
                Some(Waits::Paused) => Some("all drives are paused for a while"),
                Some(Waits::Quiet) => Some("quiet hours"),
                None => None,
            },
        }
    }

    /// Applies the current pause to the engine.
    pub fn apply_pause(&self) {
        if let Some(volume) = &*self.live.read() {
            let paused = self.pause().is_some();
            if let Some(pusher) = volume.pusher() {
                pusher.set_paused(paused);
            }
            volume.puller().set_background(!paused);
            self.pause_replicas(paused);
        }
    }

    /// Whether what must stay in the cache fits `bytes`, with a tenth to work with.
    pub fn fits_cache(&self, bytes: u64) -> Result<(), Failure> {
        let open = self.live.read().clone();
        let (needed, limit) = match open {
            Some(volume) => (volume.cache_needed_bytes(), volume.status().cache_limit_bytes),
            None => match self.needs_when_opened() {
                0 => return Ok(()),
                needed => (needed, self.cache_limit().unwrap_or(u64::MAX)),
            },
        };
        // A larger cache is an improvement even if it is still too small.
        if needed + needed / 10 <= bytes || bytes >= limit {
            return Ok(());
        }
        let (needed, given) = (format_bytes(needed + needed / 10), format_bytes(bytes));
        Err(failure(
            Code::Usage,
            format!("The drive {} needs a cache of {needed}; {given} is too small.", self.name),
            "Nothing was changed. Folder listings, pinned files, and changes that are not uploaded yet always stay on this computer.",
            [
                Action::tell(format!("Give {needed} or more, keep less offline, or upload changes first.")),
                Action::Pins { drive: Some(self.name.clone()) },
                Action::Sync { drive: Some(self.name.clone()) },
            ],
        ))
    }

    /// Bytes that must stay in the cache of a closed drive, as far as that is known.
    fn needs_when_opened(&self) -> u64 {
        let last = self.figures.last();
        let unsent = last.as_ref().filter(|_| self.is_left_to_upload()).map_or(0, |last| last.dirty_bytes);
        let pinned = self.pins.at_open();
        let stays = match (pinned.is_whole(), last) {
            (true, last) => last.map_or(0, |last| last.pinned_bytes),
            (false, last) => {
                let metadata = last.map_or(0, |last| last.cache.metadata_bytes);
                metadata + pinned.as_runs().iter().map(|run| run.byte_len()).sum::<u64>()
            }
        };
        stays + unsent
    }

    /// Adapts the cache's limit to the local disk while the engine runs: the free space at the opening says little days later.
    pub(super) fn follow_disk(self: &Arc<Self>, volume: &Arc<Volume>) {
        const EVERY: Duration = Duration::from_secs(60);
        let (drive, volume) = (Arc::downgrade(self), Arc::downgrade(volume));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let (Some(drive), Some(volume)) = (drive.upgrade(), volume.upgrade()) else { return };
                let now = volume.cache_limit();
                if drive.cache_limit().is_ok_and(|bytes| is_another(now, bytes)) {
                    drive.apply_limits();
                }
            }
        });
    }

    /// Applies the current cache limit and the treatment of scans.
    pub fn apply_limits(&self) {
        if let Some(volume) = &*self.live.read() {
            volume.set_scans_slowed(self.stores.limits().indexers() == crate::api::Indexers::Slow);
        }
        if let Some(volume) = &*self.live.read()
            && let Ok(bytes) = self.cache_limit()
        {
            volume.set_cache_limit(bytes);
            // Pins that did not fit may fit now.
            self.look_at_pins_again();
        }
    }
}

/// Whether a limit differs enough to be worth setting: by more than an eighth.
fn is_another(now: u64, next: u64) -> bool {
    next.abs_diff(now) > now / 8
}

#[cfg(test)]
mod tests {
    use super::is_another;

    #[test]
    fn a_nearly_equal_limit_is_left() {
        assert!(!is_another(800, 900) && !is_another(800, 700) && !is_another(0, 0));
        assert!(is_another(800, 901) && is_another(800, 699) && is_another(0, 1));
    }
}
