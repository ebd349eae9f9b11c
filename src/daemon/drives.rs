//! All drives that this device knows.

use super::activity::Activity;
use super::devices::Devices;
use super::drive::Drive;
use super::failure::{self, failure};
use super::folders::Folders;
use super::largest;
use super::limits::Limits;
use super::mounts;
use super::overview::Overviews;
use super::registry::{Config, Registry, is_name};
use super::secrets::SecretStore;
use super::stores::{self, FamilyStore, Stores, found, place, trial};
use super::watched::WatchedDirectories;
use super::web::Web;
use super::work::Work;
use crate::api::{self, Action, ActivityKind, Code, Failure, SetLimits};
use crate::attach::{Site, doctor};
use holdall_client::paths::Paths;
use holdall_core::drive::{self, Geometry};
use holdall_core::family::{self, Family, Mode};
use holdall_core::heads::Head;
use holdall_core::keys::{RecoveryKey, Secret};
use holdall_core::push::Device;
use holdall_core::seal::Cipher;
use holdall_core::store::Store;
use holdall_core::store::connect::with_heads;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::Effort;
use holdall_core::store::url::StoreUrl;
use holdall_core::units::{BLOCK_BYTES, DRIVE_BYTES_MAX};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;
use zeroize::Zeroizing;

/// How long the ending daemon waits for its last answers to reach their clients.
const ANSWERS_PATIENCE: Duration = Duration::from_secs(2);
/// The least time between two keepers.
const KEEPER_PAUSE: Duration = Duration::from_secs(1);
/// The smallest drive: ext4 with a journal needs about this.
const SIZE_MIN: u64 = 16 << 20;
/// The default size of a drive: more than most people fill, and it costs 14 MB in the store.
const SIZE_DEFAULT: u64 = 1 << 40;

/// The drives by name. Held only for look-ups.
pub type Known = Mutex<BTreeMap<String, Arc<Drive>>>;

/// The drives, and what they share.
pub struct Drives {
    registry: Arc<Registry>,
    stores: Arc<Stores>,
    site: Site,
    /// Map pages of all drives; lost pages are fetched again.
    pages: Option<sled::Db>,
    known: Arc<Known>,
    /// Drives whose configuration cannot be read, and why.
    damaged: BTreeMap<String, Failure>,
    folders: Folders,
    watched: WatchedDirectories,
    started: Instant,
    stop: mpsc::Sender<()>,
    /// Tells work that only waits to stop waiting.
    ending: watch::Sender<bool>,
    /// The port for browsers.
    web: Web,
    devices: Devices,
    overviews: Overviews,
}

impl Drives {
    /// The remembered drives, all closed; and the receiver of the request to stop the daemon.
    pub fn new(registry: Registry, site: Site) -> io::Result<(Arc<Self>, mpsc::Receiver<()>)> {
        let (stop, stopped) = mpsc::channel(1);
        let registry = Arc::new(registry);
        let pages =
            sled::Config::new().path(registry.paths().cache.join("pages")).cache_capacity(4 << 20).open();
        let pages = pages.inspect_err(|error| tracing::warn!(%error, "map pages are not saved")).ok();
        if let Err(error) = registry.finish_forgetting() {
            tracing::warn!(%error, "files of a removed drive cannot be deleted yet");
        }
        let (mut configs, mut damaged) = (BTreeMap::new(), BTreeMap::new());
        for (name, config) in registry.list()? {
            match config {
                Ok(config) => drop(configs.insert(name, config)),
                Err(error) => {
                    tracing::error!(drive = name, %error, "the drive's configuration cannot be read");
                    damaged.insert(name, failure::local(&error));
                }
            }
        }
        let stores =
            Stores::new(SecretStore::new(&registry.paths().state), Limits::load(&registry.paths().state));
        let folders = Folders::new(&registry, &stores, &site)?;
        let drives = Self {
            watched: WatchedDirectories::new(&folders.common)?,
            folders,
            stores,
            registry: registry.clone(),
            site,
            pages,
            known: Arc::default(),
            damaged,
            started: Instant::now(),
            stop,
            ending: watch::channel(false).0,
            web: Web::default(),
            devices: Devices::new(&registry),
            overviews: Overviews::default(),
        };
        let known = Arc::downgrade(&drives.known);
        drives.limits().count_caches(move |but_for| {
            let known = known.upgrade().map(|known| known.lock().values().cloned().collect::<Vec<_>>());
            let others = known.into_iter().flatten().filter(|drive| drive.uuid() != but_for);
            others.fold((0, 0), |(closed, open), drive| match drive.cache_while_closed() {
                Some(bytes) => (closed + bytes, open),
                None => (closed, open + 1),
            })
        });
        for (name, config) in configs {
            let drive = drives.known_drive(&name, config);
            drives.known.lock().insert(name, drive);
        }
        // Finishes what a former daemon had begun, before anybody can open half of it.
        drives.all().iter().for_each(|drive| drive.part_at_start());
        Ok((Arc::new(drives), stopped))
    }

    /// The limits for all drives.
    pub fn limits(&self) -> &Arc<Limits> {
        self.stores.limits()
    }

    /// Changes limits. Refuses a cache that could not hold what must stay in it.
    pub async fn set_limits(&self, mut changes: SetLimits) -> Result<api::Limits, Failure> {
        let (all, folders) = (self.all(), self.folders.all());
        if let Some(total) = changes.cache_total_bytes.filter(|bytes| *bytes > 0) {
            all.iter().try_for_each(|drive| drive.fits_total(total))?;
            folders.iter().try_for_each(|folder| folder.fits_total(total))?;
        }
        let of_drives = changes.cache_bytes.is_some()
            || changes.cache_total_bytes.is_some()
            || changes.indexers.is_some();
        let mut own = None;
        if let Some(name) = changes.drive.take() {
            let (place, bytes) = (self.place(&name)?, changes.cache_bytes.take());
            place.check_own_cache(bytes)?;
            own = Some((place, bytes));
        } else if let Some(bytes) = changes.cache_bytes.filter(|bytes| *bytes > 0) {
            let mut follow = all.iter().filter(|drive| drive.own_cache().is_none());
            follow.try_for_each(|drive| drive.fits_cache(bytes))?;
            let mut follow = folders.iter().filter(|folder| folder.own_cache().is_none());
            follow.try_for_each(|folder| folder.fits_cache(bytes))?;
        }
        let of_stores = changes.proxy.is_some();
        self.limits().set(changes)?;
        if let Some((place, bytes)) = own {
            place.set_own_cache(bytes)?;
        }
        if of_stores {
            // Requests under way continue as they began.
            self.stores.renew().await;
            folders.iter().for_each(|folder| folder.renew());
            self.watched.all().iter().for_each(|directory| directory.renew());
        }
        if of_drives {
            all.iter().for_each(|drive| drive.apply_limits());
            folders.iter().for_each(|folder| folder.apply_limits());
        }
        Ok(self.shown_limits())
    }

    /// The limits, with those of single drives and folders.
    pub fn shown_limits(&self) -> api::Limits {
        let own = |drive: &Arc<Drive>| Some((drive.name.clone(), drive.own_cache()?));
        let folders = self.folders.all();
        let of_folders = folders.iter().filter_map(|folder| Some((folder.name.clone(), folder.own_cache()?)));
        let cache_of = self.all().iter().filter_map(own).chain(of_folders).collect();
        api::Limits { cache_of, ..self.limits().shown() }
    }

    /// Pauses and resumes drives and folders as the limits require.
    pub async fn wait_where_told(self: Arc<Self>) {
        let mut waiting = self.limits().waiting();
        while waiting.changed().await.is_ok() {
            waiting.borrow_and_update();
            self.all().iter().for_each(|drive| drive.apply_pause());
            self.folders.all().iter().for_each(|folder| folder.apply_pause());
            self.watched.all().iter().for_each(|directory| directory.apply_pause());
        }
    }

    /// Closes drives and folders that another program unmounts.
    pub async fn follow_mounts(self: Arc<Self>) {
        let mut changes = match mounts::follow() {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(%error, "unmounts by other programs cannot be noticed");
                return;
            }
        };
        while changes.changed().await.is_ok() {
            changes.borrow_and_update();
            self.all().iter().for_each(|drive| drive.look_at_mount());
            self.folders.all().iter().for_each(|folder| folder.look_at_mount());
        }
    }

    /// Replaces a keeper that dies, and gives the new one the connections to keep.
    pub async fn follow_keeper(self: Arc<Self>) {
        let Some(watch) = self.site.watch.clone() else { return };
        loop {
            watch.lost().await;
            loop {
                let mut is_kept = true;
                for drive in self.all() {
                    is_kept &= drive.keep_again().await;
                }
                for folder in self.folders.all() {
                    is_kept &= folder.keep_again().await;
                }
                // A keeper that dies at once must not keep us busy.
                tokio::time::sleep(KEEPER_PAUSE).await;
                if is_kept {
                    break;
                }
            }
        }
    }

    fn known_drive(&self, name: &str, config: Config) -> Arc<Drive> {
        let tree = self.pages.as_ref().and_then(|db| db.open_tree(config.drive.as_bytes()).ok());
        let shared = (self.registry.clone(), self.stores.clone());
        Drive::new(name, config, shared, self.site.clone(), tree, Arc::downgrade(&self.known))
    }

    /// A drive by name.
    pub fn get(&self, name: &str) -> Result<Arc<Drive>, Failure> {
        let known = self.known.lock().get(name).cloned();
        known.ok_or_else(|| self.damaged.get(name).cloned().unwrap_or_else(|| self.no_drive(name)))
    }

    fn no_drive(&self, name: &str) -> Failure {
        let known: Vec<_> = self.known.lock().keys().chain(self.damaged.keys()).cloned().collect();
        failure::no_drive(name, &known)
    }

    /// The folders.
    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Whether a drive has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.lock().contains_key(name) || self.damaged.contains_key(name)
    }

    /// Adds something under a name that neither a drive nor a folder has. `None` if one has it.
    pub(super) fn with_free_name<T>(&self, name: &str, add: impl FnOnce() -> T) -> Option<T> {
        let known = self.known.lock();
        let is_taken = known.contains_key(name) || self.damaged.contains_key(name) || self.folders.has(name);
        (!is_taken).then(add)
    }

    /// All drives.
    pub(super) fn all(&self) -> Vec<Arc<Drive>> {
        self.known.lock().values().cloned().collect()
    }

    /// The directories of this computer that are kept in remotes.
    pub fn watched(&self) -> &WatchedDirectories {
        &self.watched
    }

    /// The port for browsers.
    pub fn web(&self) -> &Web {
        &self.web
    }

    /// The paired devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// This device.
    pub fn device(&self) -> &Device {
        self.registry.device()
    }

    /// The record of what has happened.
    pub fn activity(&self) -> &Activity {
        self.registry.activity()
    }

    /// The paths of this installation.
    pub fn paths(&self) -> &Paths {
        self.registry.paths()
    }

    /// The overviews for pages and the tray.
    pub fn overviews(&self) -> &Overviews {
        &self.overviews
    }

    /// The stores of all drives.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Where each drive's data lives.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let known = self.known.lock();
        known.iter().map(|(name, drive)| (name.clone(), drive.store_url())).collect()
    }

    /// The status of every drive.
    pub async fn statuses(&self) -> Vec<api::DriveStatus> {
        futures_util::future::join_all(self.all().iter().map(|drive| drive.status())).await
    }

    /// The status of the daemon.
    pub fn daemon(&self) -> api::DaemonStatus {
        api::DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
        }
    }

    /// Ends the daemon, with drives handed over.
    pub fn stop(&self) {
        // A second request finds the channel full, and the daemon already ending.
        let _ = self.stop.try_send(());
    }

    /// The drives that stay mounted when the daemon hands them over.
    pub fn left_mounted(&self) -> Vec<api::LeftMounted> {
        let left = |drive: &Arc<Drive>| {
            let mountpoint = drive.mountpoint()?.display().to_string();
            Some(api::LeftMounted { name: drive.name.clone(), mountpoint })
        };
        self.all().iter().filter_map(left).collect()
    }

    /// Becomes true when the daemon ends.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Takes over what a former daemon had open.
    pub async fn resume_all(&self) {
        // Looks from now on have holds of their own.
        self.all().iter().for_each(|drive| drive.let_go_of_what_was_looked_at());
        let drives = self.all();
        let drives = futures_util::future::join_all(drives.iter().map(|drive| drive.resume()));
        tokio::join!(drives, self.folders.resume_all(), self.watched.resume_all());
        self.all().iter().for_each(|drive| drive.tell_former_stores());
        self.all().iter().for_each(|drive| drive.upload_in_background());
    }

    /// Ends with all drives: handed over to the next daemon, or closed.
    pub async fn end(&self, hand_over: bool) {
        // Before locking the drives: a request that waits for a store holds such a lock.
        self.ending.send_replace(true);
        self.web.end().await;
        let drives = self.all();
        let drives = futures_util::future::join_all(drives.iter().map(|drive| drive.end(hand_over)));
        self.watched.end();
        tokio::join!(drives, self.folders.end());
        if let Some(pages) = &self.pages {
            let _ = pages.flush_async().await;
        }
        // Waiting clients receive their results.
        let _ = tokio::time::timeout(ANSWERS_PATIENCE, self.ending.closed()).await;
    }

    /// Creates a drive. Its store is tried first; the result decides forever how the family changes HEADs.
    pub async fn create(&self, mut request: api::Create, work: Work) -> Result<api::Created, Failure> {
        self.check_name(&request.name)?;
        let url = stores::read(&request.store)?;
        let given = request.credentials.take();
        self.with_new_login(&url, given, self.create_at(&url, request, work)).await
    }

    async fn create_at(
        &self,
        url: &StoreUrl,
        request: api::Create,
        work: Work,
    ) -> Result<api::Created, Failure> {
        let size_bytes = request.size_bytes.unwrap_or(SIZE_DEFAULT);
        let size = check_size(size_bytes)?;
        largest::check(&self.registry.paths().cache, size_bytes)?;
        let passphrase = match (request.encrypt, request.secrets.passphrase) {
            (false, Some(_)) => return Err(failure::unused_passphrase()),
            (false, None) => None,
            (true, Some(passphrase)) if !passphrase.is_empty() => Some(check_passphrase(passphrase)?),
            (true, _) => return Err(failure::usage("An encrypted drive needs a passphrase.")),
        };
        let reached = self.stores.connect(url, &Meter::default()).await?;
        if !request.in_synced_folder {
            stores::check_not_synced(url).await?;
        }
        if !request.beside_others {
            let credentials = self.stores.credentials(url).await?;
            place::check_not_shared(&self.stores, &request.name, url, &credentials).await?;
        }
        if let StoreUrl::File(path) = url {
            let made = FileStore::new(path.clone(), &DriveNames).prepare().await;
            made.map_err(|error| failure::no_directory(path, &error))?;
        }
        let at_store = |failure| failure::named(failure, &request.name, &url.to_string());
        let mode = work
            .unless_interrupted(failure::TRIED_IN_PART, self.mode_of(url, &request.store, &work))
            .await??;
        if stores::told(mode) < request.weakest {
            return Err(failure::weak_store(&request.store));
        }
        let store = with_heads(reached, mode);
        let made = family::create(&*store, passphrase, mode).await;
        let (unlocked, recovery) = made.map_err(|error| at_store(failure::family(&error)))?;
        let geometry = Geometry::standard(size);
        let (family, device) = (unlocked.family.family, self.registry.device());
        let drive = drive::create(&*store, &unlocked.sealer, family, &request.name, geometry, device).await;
        let drive = drive.map_err(|error| at_store(failure::store(&error)))?;
        self.remember(&request.name, drive, &url.to_string(), &unlocked)?;
        self.activity().note(
            Some(&request.name),
            ActivityKind::Drive,
            format!("Created at {}.", url.readable()),
        );
        Ok(api::Created { size_bytes: Some(size_bytes), ..created(drive, &unlocked.family, recovery) })
    }

    /// How a new family at `url` must change HEADs. `typed` is the address as a person wrote it.
    async fn mode_of(&self, url: &StoreUrl, typed: &str, work: &Work) -> Result<Mode, Failure> {
        if let Some(mode) = stores::untried_mode(url).await {
            return Ok(mode);
        }
        let credentials = self.stores.credentials(url).await?;
        let report =
            trial::of(&self.stores, url, (&credentials, &Meter::default()), Effort::FULL, Some(work)).await?;
        match report.is_usable() {
            true => {
                self.stores.proved(url);
                Ok(report.mode)
            }
            false => Err(failure::unusable_store(typed, &report)),
        }
    }

    /// Adds a store that keeps a copy of what a drive's store has.
    pub async fn add_replica(
        &self,
        name: &str,
        request: api::AddReplica,
        work: Work,
    ) -> Result<api::ReplicaStatus, Failure> {
        let drive = self.get(name)?;
        let url = stores::read(&request.store)?;
        let added =
            self.with_new_login(&url, request.credentials, drive.add_replica(url.clone(), work)).await;
        added.map_err(|failure| failure::named(failure, name, &url.to_string()))
    }

    /// Adds a drive that is already in a store.
    pub async fn add(&self, mut request: api::Add) -> Result<api::Created, Failure> {
        self.check_name(&request.name)?;
        let url = stores::read(&request.store)?;
        let given = request.credentials.take();
        self.with_new_login(&url, given, self.add_from(&url, request)).await
    }

    async fn add_from(&self, url: &StoreUrl, request: api::Add) -> Result<api::Created, Failure> {
        let secret = secret(request.secrets)?;
        let there = self.stores.family_of(url, &Meter::default(), failure::new_family).await;
        let FamilyStore { store, family, .. } =
            there.map_err(|failure| failure::at_new_store(failure, url))?;
        let unlocked = family::unlock_described(&*store, family, secret).await;
        let unlocked =
            unlocked.map_err(|error| failure::at_store(failure::family(&error), &url.to_string()))?;
        let heads = found::drives_here(&store, &unlocked, Some(&request.name)).await?;
        let drive = match (&heads[..], &request.drive) {
            ([only], None) => only.drive,
            (_, asked) => self.choose(&store, &unlocked, &heads, &request.name, asked.as_deref()).await?,
        };
        self.remember(&request.name, drive, &url.to_string(), &unlocked)?;
        self.activity().note(
            Some(&request.name),
            ActivityKind::Drive,
            format!("Added from {}.", url.readable()),
        );
        Ok(created(drive, &unlocked.family, None))
    }

    /// Chooses one of several drives: the one that `asked` names by its name there or its identity; otherwise the one with the name that it
    /// gets here, or the only one that is not a fork.
    async fn choose(
        &self,
        store: &Arc<dyn Store>,
        unlocked: &family::Unlocked,
        heads: &[Head],
        name: &str,
        asked: Option<&str>,
    ) -> Result<Uuid, Failure> {
        use holdall_core::map::{Objects, PageCache};
        let objects = Objects::new(store.clone(), unlocked.sealer.clone(), PageCache::none());
        let mut names = Vec::new();
        let mut whole = Vec::new();
        for head in heads {
            let root =
                objects.root(head.root, Some(head.root_hash)).await.map_err(|error| failure::read(&error))?;
            if root.name == asked.unwrap_or(name) || asked == Some(&head.drive.to_string()) {
                return Ok(head.drive);
            }
            if !holdall_core::fork::is_name_of_fork(&root.name) {
                whole.push(head.drive);
            }
            names.push(root.name);
        }
        // Forks of it, made by other devices, do not make the choice ambiguous.
        if let ([only], None) = (&whole[..], asked) {
            return Ok(*only);
        }
        let named = asked.unwrap_or(name);
        let choose = Action::ChooseDrive { names: names.clone() };
        let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        Err(failure(
            Code::NotFound,
            format!("The store has no drive \"{named}\", but {}.", names.join(", ")),
            "Nothing was changed.",
            choose,
        ))
    }

    /// Creates a separate drive from a version of another.
    pub async fn clone_drive(
        &self,
        name: &str,
        request: api::Clone,
        work: Work,
    ) -> Result<api::Created, Failure> {
        self.check_name(&request.name)?;
        let source = self.get(name)?;
        let (objects, unlocked) = source.objects().await?;
        let label = request.snapshot.as_deref();
        if label.is_none() {
            source.push_if_open(&work).await?;
        }
        let cloned =
            drive::clone(&objects, source.uuid(), label, &request.name, self.registry.device()).await;
        let named = |failure| failure::named(failure, name, &source.store_url());
        let drive = cloned.map_err(|error| named(failure::drive(&error)))?;
        self.remember(&request.name, drive, &source.store_url(), &unlocked)?;
        self.activity().note(Some(&request.name), ActivityKind::Drive, format!("Cloned from {name}."));
        Ok(created(drive, &unlocked.family, None))
    }

    /// Forgets a drive, and deletes its data if the request says so.
    pub async fn remove(&self, name: &str, request: api::Remove) -> Result<api::Removed, Failure> {
        let drive = self.get(name)?;
        let removed = drive.remove(&request).await?;
        self.forget(name);
        let what = match request.delete_data {
            true => "Removed from this computer, and deleted from the store.",
            false => "Removed from this computer. Its data in the store stays.",
        };
        self.activity().note(Some(name), ActivityKind::Drive, what);
        Ok(removed)
    }

    /// A drive is no longer known.
    pub(super) fn forget(&self, name: &str) {
        self.known.lock().remove(name);
    }

    /// Finds what this computer lacks and what a crash has left; removes the latter if `repair` is set.
    pub(super) async fn look_at_computer(&self, repair: bool) -> Result<Vec<api::Finding>, Failure> {
        let known = self.all().iter().map(|drive| drive.for_doctor()).collect::<Vec<_>>();
        let site = self.site.clone();
        let findings = tokio::task::spawn_blocking(move || match repair {
            true => doctor::repair(&site, &known),
            false => doctor::diagnose(&site, &known),
        });
        let findings = findings.await.map_err(|error| failure::local(&io::Error::other(error)))?;
        findings.map_err(|error| error.failure())
    }

    pub(super) fn check_name(&self, name: &str) -> Result<(), Failure> {
        if !is_name(name) {
            let message =
                format!("\"{name}\" cannot be a drive's name: use letters, digits, - _ and ., at most 64.");
            return Err(failure::usage(message));
        }
        if self.folders.has(name) {
            let message = format!("There is already a folder \"{name}\" on this computer.");
            return Err(failure(Code::Exists, message, "Nothing was changed.", "Choose another name."));
        }
        if self.has(name) {
            let message = format!("There is already a drive \"{name}\" on this computer.");
            return Err(failure(Code::Exists, message, "Nothing was changed.", "Choose another name."));
        }
        Ok(())
    }

    fn remember(
        &self,
        name: &str,
        drive: Uuid,
        store: &str,
        unlocked: &family::Unlocked,
    ) -> Result<(), Failure> {
        let config = Config {
            version: 1,
            drive,
            store: store.to_owned(),
            mode: unlocked.family.mode,
            family: Some(unlocked.family.clone()),
            replicas: Vec::new(),
            former: Vec::new(),
            moving_to: None,
            open: None,
            paused: false,
            unsent: false,
            pins: false,
            place: None,
            cache_bytes: None,
            fork_of: None,
        };
        let mut known = self.known.lock();
        // Two names would share one cache and one claim on the drive, and each would take them for its own.
        if let Some(other) = known.values().find(|known| known.uuid() == drive) {
            return Err(failure::known_as(&other.name));
        }
        if known.contains_key(name) || self.folders.has(name) {
            let message = format!("There is already a drive or folder \"{name}\" on this computer.");
            return Err(failure(
                Code::Exists,
                message,
                "The new drive is in its store.",
                "Add it under another name.",
            ));
        }
        self.registry.add(name, &config, &unlocked.key).map_err(|error| failure::local(&error))?;
        known.insert(name.to_owned(), self.known_drive(name, config));
        Ok(())
    }
}

fn created(drive: Uuid, family: &Family, recovery: Option<RecoveryKey>) -> api::Created {
    api::Created {
        uuid: drive.to_string(),
        store_mode: stores::told(family.mode),
        encrypted: family.cipher != Cipher::None,
        size_bytes: None,
        recovery_key: recovery.map(|key| key.to_text()),
    }
}

/// The secret that a request gives to unlock a drive.
pub(super) fn secret(secrets: api::Secrets) -> Result<Option<Secret>, Failure> {
    match (secrets.passphrase, secrets.recovery_key) {
        (_, Some(text)) => match RecoveryKey::from_text(&text) {
            Some(key) => Ok(Some(Secret::Recovery(key))),
            None => Err(failure(
                Code::PassphraseWrong,
                "The recovery key is mistyped: its last group does not match the others.",
                "Nothing was changed.",
                "Compare it group by group.",
            )),
        },
        (Some(passphrase), None) => Ok(Some(Secret::Passphrase(Zeroizing::new(passphrase)))),
        (None, None) => Ok(None),
    }
}

/// Checks a new passphrase. The operator of the store can try passphrases without limit.
pub fn check_passphrase(passphrase: String) -> Result<Zeroizing<String>, Failure> {
    const CHARS_MIN: usize = 8;
    let passphrase = Zeroizing::new(passphrase);
    match passphrase.chars().count() < CHARS_MIN {
        true => Err(failure::short_passphrase(CHARS_MIN)),
        false => Ok(passphrase),
    }
}

/// Checks a size, and returns it in blocks.
pub fn check_size(bytes: u64) -> Result<u64, Failure> {
    if bytes < SIZE_MIN {
        return Err(failure::usage("The size is too small: a drive has at least 16 MiB."));
    }
    if bytes > DRIVE_BYTES_MAX {
        return Err(failure::usage("A drive can have at most 16 TiB."));
    }
    Ok(bytes / BLOCK_BYTES)
}
