//! All folders that this device knows.
//!
//! A name is one drive's or one folder's. Whoever adds a drive or folder looks at both maps while it holds the drives', in that order.

use super::drives::Drives;
use super::failure::{self, failure};
use super::folder::config::{Config, Directories};
use super::folder::naming::{Overlap, name_of, overlap, overlap_of_paths};
use super::folder::open::Wishes;
use super::folder::remote::{Known as KnownRemote, Place, connect};
use super::folder::{Common, Folder, Known, status};
use super::registry::{Registry, is_name};
use super::status::now_ms;
use super::stores::{self, Stores};
use crate::api::{ActivityKind, Code, Failure, FolderOpened, FolderStatus, ForgetFolder, OpenFolder};
use crate::attach::Site;
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a directory may take to be resolved: a person waits for it.
const PATIENCE: Duration = Duration::from_secs(8);

/// A folder whose configuration cannot be read.
struct Damaged {
    uuid: Uuid,
    failure: Failure,
    /// When that was found, Unix time in ms.
    at_ms: u64,
}

/// The folders.
pub struct Folders {
    pub(super) common: Arc<Common>,
    known: Arc<Known>,
    // Held to read it, or to take one out.
    damaged: Mutex<BTreeMap<String, Damaged>>,
    /// Held while a folder is added: two that overlap must not both find that they do not.
    adding: tokio::sync::Mutex<()>,
}

impl Folders {
    /// The remembered folders, all closed.
    pub fn new(registry: &Arc<Registry>, stores: &Arc<Stores>, site: &Site) -> io::Result<Self> {
        let directories = Directories::new(&registry.paths().state);
        if let Err(error) = directories.finish_forgetting() {
            tracing::warn!(%error, "files of a forgotten folder cannot be deleted yet");
        }
        let known: Arc<Known> = Arc::default();
        let common = Arc::new(Common {
            registry: registry.clone(),
            stores: stores.clone(),
            site: site.clone(),
            directories: directories.clone(),
            known: Arc::downgrade(&known),
        });
        let counted = Arc::downgrade(&known);
        stores.limits().count_caches(move |but_for| {
            let known = counted.upgrade().map(|known| known.lock().values().cloned().collect::<Vec<_>>());
            let others = known.into_iter().flatten().filter(|folder| folder.uuid != but_for);
            others.fold((0, 0), |(closed, open), folder| match folder.closed_cache_bytes() {
                Some(bytes) => (closed + bytes, open),
                None => (closed, open + 1),
            })
        });
        let mut damaged = BTreeMap::new();
        for (uuid, config) in directories.list()? {
            match config {
                Ok(config) if !known.lock().contains_key(&config.name) => {
                    known.lock().insert(config.name.clone(), Folder::new(config, common.clone()));
                }
                Ok(config) => {
                    let why = format!(
                        "another folder is named {}, too: {}",
                        config.name,
                        directories.of(uuid).display()
                    );
                    damaged.insert(name_of_damaged(uuid), Damaged::new(uuid, &why, false));
                }
                Err(error) => {
                    tracing::error!(folder = %uuid, %error, "the folder's configuration cannot be read");
                    let why = match error.kind() {
                        ErrorKind::NotFound => {
                            format!("{} is missing", directories.of(uuid).join("config.json").display())
                        }
                        _ => error.to_string(),
                    };
                    let is_newer = error.kind() == ErrorKind::Unsupported;
                    damaged.insert(name_of_damaged(uuid), Damaged::new(uuid, &why, is_newer));
                }
            }
        }
        Ok(Self { common, known, damaged: Mutex::new(damaged), adding: tokio::sync::Mutex::default() })
    }

    /// All folders.
    pub fn all(&self) -> Vec<Arc<Folder>> {
        self.known.lock().values().cloned().collect()
    }

    /// Whether a folder has this name.
    pub fn has(&self, name: &str) -> bool {
        self.known.lock().contains_key(name) || self.damaged.lock().contains_key(name)
    }

    /// The folder whose files are at this address.
    fn at(&self, url: &StoreUrl) -> Option<Arc<Folder>> {
        let is_there = |folder: &Arc<Folder>| {
            stores::parse(&folder.url()).is_ok_and(|theirs| overlap(url, &theirs) == Some(Overlap::Same))
        };
        self.all().into_iter().find(is_there)
    }

    fn names(&self) -> Vec<String> {
        self.known.lock().keys().chain(self.damaged.lock().keys()).cloned().collect()
    }

    /// A folder by name.
    pub fn get(&self, name: &str) -> Result<Arc<Folder>, Failure> {
        let known = self.known.lock().get(name).cloned();
        if let Some(folder) = known {
            return Ok(folder);
        }
        let failure = self.damaged.lock().get(name).map(|damaged| damaged.failure.clone());
        Err(failure.map_or_else(
            || failure::no_folder(name, &self.names()),
            |failure| failure.about(Some(name), None),
        ))
    }

    /// The status of every folder, damaged ones too, by name.
    pub fn statuses(&self) -> Vec<FolderStatus> {
        let mut statuses: Vec<_> = self.all().iter().map(|folder| folder.status()).collect();
        let damaged = self.damaged.lock();
        statuses.extend(damaged.iter().map(|(name, damaged)| {
            status::damaged(damaged.uuid, name, damaged.failure.clone(), damaged.at_ms)
        }));
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
        statuses
    }

    /// Takes over what a former daemon had open, and uploads what it has left.
    pub async fn resume_all(&self) {
        futures_util::future::join_all(self.all().iter().map(|folder| folder.resume())).await;
    }

    /// Ends with all folders.
    pub async fn end(&self) {
        futures_util::future::join_all(self.all().iter().map(|folder| folder.end())).await;
    }

    /// Removes what a damaged folder has here.
    async fn forget_damaged(&self, name: &str, request: &ForgetFolder) -> Result<(), Failure> {
        let found = self.damaged.lock().get(name).map(|damaged| (damaged.uuid, damaged.failure.clone()));
        let Some((uuid, failure)) = found else { return Err(failure::no_folder(name, &self.names())) };
        if !request.discard_unsent {
            return Err(failure.about(Some(name), None));
        }
        let directories = self.common.directories.clone();
        let work = tokio::task::spawn_blocking(move || directories.forget(uuid));
        work.await.map_err(io::Error::other).flatten().map_err(|error| failure::local(&error))?;
        self.damaged.lock().remove(name);
        Ok(())
    }
}

impl Damaged {
    fn new(uuid: Uuid, why: &str, is_newer: bool) -> Self {
        Self { uuid, failure: failure::damaged_folder(why, is_newer), at_ms: now_ms() }
    }
}

/// A damaged folder does not say its name.
fn name_of_damaged(uuid: Uuid) -> String {
    format!("folder-{}", &uuid.simple().to_string()[..8])
}

/// What a request to open a folder means.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
enum Meant {
    /// A folder that is known.
    Known(Arc<Folder>),
    /// A new one, with its name.
    New(StoreUrl, String),
}

impl Drives {
    /// Opens a folder that is known, or makes one known.
    pub async fn open_folder(&self, mut request: OpenFolder) -> Result<FolderOpened, Failure> {
        let wishes = Wishes::of(&request)?;
        let given = request.credentials.take();
        let adding = self.folders().adding.lock().await;
        let (folder, url) = match self.meant(&request).await? {
            Meant::Known(folder) => {
                drop(adding);
                let url = stores::parse(&folder.url())?;
                return self
                    .with_new_login(&url, given, async {
                        let opened = folder.open(&wishes).await;
                        opened.map_err(|failure| folder.named(failure))
                    })
                    .await;
            }
            Meant::New(url, name) => {
                let added = self.with_new_login(&url, given, self.add_folder(&url, &name, &wishes)).await;
                let added = added.map_err(|failure| failure::at_new_folder(failure, &name, &url))?;
                (added, url)
            }
        };
        drop(adding);
        let opened = folder.open(&wishes).await;
        match opened {
            Ok(opened) => {
                let message = format!("Added: the files at {}.", url.readable());
                self.activity().note_of_folder(&folder.name, ActivityKind::Folder, message);
                Ok(opened)
            }
            Err(failure) => {
                // Nothing was written to it, so nothing of it is kept.
                let forget = ForgetFolder { discard_unsent: true };
                if let Err(failure) = folder.forget(&forget).await {
                    tracing::warn!(
                        folder = folder.name,
                        message = failure.message,
                        "it stays, although it could not be opened"
                    );
                }
                Err(folder.named(failure))
            }
        }
    }

    /// Finds what a request means, and refuses what cannot be a folder.
    async fn meant(&self, request: &OpenFolder) -> Result<Meant, Failure> {
        let given = request.folder.trim();
        let folders = self.folders();
        if folders.has(given) {
            let folder = folders.get(given)?;
            let url = stores::parse(&folder.url())?;
            return same_name(folder, request.name.as_deref(), &url);
        }
        if is_name(given) {
            return Err(match self.get(given) {
                Ok(_) => failure::is_a_drive(given),
                Err(_) => failure::no_folder(given, &folders.names()),
            });
        }
        let url = stores::read(given)?;
        // Before the directory is looked at: its disk may be away.
        if let Some(folder) = folders.at(&url) {
            return same_name(folder, request.name.as_deref(), &url);
        }
        let url = resolved(url).await?;
        for known in folders.all() {
            let Ok(theirs) = stores::parse(&known.url()) else { continue };
            match overlap(&url, &theirs) {
                None => {}
                Some(Overlap::Same) => return same_name(known, request.name.as_deref(), &url),
                Some(Overlap::Inside) => return Err(failure::overlaps(&url, &known.name, "is inside")),
                Some(Overlap::Around) => return Err(failure::overlaps(&url, &known.name, "contains")),
            }
        }
        self.check_place(&url)?;
        self.watched().check_free(&url)?;
        let name = match &request.name {
            Some(name) => name.clone(),
            None => name_of(&url).ok_or_else(|| failure::no_name(&url))?,
        };
        if !is_name(&name) {
            return Err(failure::usage(format!(
                "\"{name}\" cannot be a folder's name: use letters, digits, - _ and ., at most 64."
            ))
            .with_actions("Choose another name, with --name."));
        }
        match folders.has(&name) || self.has(&name) {
            true => Err(failure::name_taken(&name)),
            false => Ok(Meant::New(url, name)),
        }
    }

    /// Refuses places that are Holdall's own: its files, its mounts, and the stores of known drives.
    pub(super) fn check_place(&self, url: &StoreUrl) -> Result<(), Failure> {
        for (drive, store) in self.addresses() {
            let Ok(store) = stores::parse(&store) else { continue };
            if matches!(overlap(url, &store), Some(Overlap::Same | Overlap::Inside)) {
                return Err(failure::in_own_place(url, &format!("it is the store of the drive \"{drive}\"")));
            }
        }
        let StoreUrl::File(path) = url else { return Ok(()) };
        let paths = self.paths();
        let own = [
            (&paths.state, "Holdall keeps its own files there"),
            (&paths.cache, "Holdall keeps its cache there"),
        ];
        for (directory, what) in own {
            let directory = directory.canonicalize().unwrap_or_else(|_| directory.clone());
            if overlap_of_paths(path, &directory).is_some() {
                return Err(failure::in_own_place(url, what));
            }
        }
        for mount in self.own_mounts() {
            if overlap_of_paths(path, &mount).is_some() {
                let what = format!("{} is a drive or folder of this computer", mount.display());
                return Err(failure::in_own_place(url, &what));
            }
        }
        Ok(())
    }

    /// Connects the remote of a new folder, and remembers the folder. Nothing is mounted yet.
    async fn add_folder(&self, url: &StoreUrl, name: &str, wishes: &Wishes) -> Result<Arc<Folder>, Failure> {
        let common = self.folders().common.clone();
        let place = Place {
            url: url.clone(),
            stores: common.stores.clone(),
            device: common.registry.device().id,
            read_only: wishes.read_only,
            meter: Meter::default(),
        };
        let connected = Box::pin(connect(&place, None)).await.map_err(|error| failure::reach(&error))?;
        let known = KnownRemote { facts: connected.remote.facts().clone(), root: connected.root.clone() };
        let mut config = Config::new(Uuid::new_v4(), name, &url.to_string());
        config.at.clone_from(&wishes.at);
        let local = |error: io::Error| failure::local(&error);
        let added = self.with_free_name(name, || {
            common.directories.add(&config)?;
            known.save(&common.directories.of(config.uuid))?;
            let folder = Folder::new(config.clone(), common.clone());
            self.folders().known.lock().insert(name.to_owned(), folder.clone());
            Ok(folder)
        });
        match added {
            None => Err(failure::name_taken(name)),
            Some(added) => added.map_err(local),
        }
    }

    /// Forgets a folder.
    pub async fn forget_folder(&self, name: &str, request: ForgetFolder) -> Result<(), Failure> {
        let known = self.folders().known.lock().get(name).cloned();
        let Some(folder) = known else { return self.folders().forget_damaged(name, &request).await };
        folder.forget(&request).await.map_err(|failure| folder.named(failure))?;
        let message = "Forgotten on this computer. Its files at the remote stay.";
        self.activity().note_of_folder(name, ActivityKind::Folder, message);
        Ok(())
    }
}

/// The known folder, unless the request wants another name for it.
fn same_name(folder: Arc<Folder>, asked: Option<&str>, url: &StoreUrl) -> Result<Meant, Failure> {
    match asked {
        Some(name) if name != folder.name => Err(failure::folder_known_as(&folder.name, url)),
        _ => Ok(Meant::Known(folder)),
    }
}

/// A directory without symbolic links, so that one directory is known by one path.
pub(super) async fn resolved(url: StoreUrl) -> Result<StoreUrl, Failure> {
    let StoreUrl::File(path) = url else { return Ok(url) };
    let looked = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || canonical(&path))
    };
    let refused = |error: &io::Error| match error.kind() {
        ErrorKind::NotFound => failure(
            Code::NotFound,
            format!("There is no directory {}.", path.display()),
            failure::NOTHING_CHANGED,
            "Create it, or correct the address.",
        ),
        _ => failure::no_store_directory(&path, error),
    };
    match tokio::time::timeout(PATIENCE, looked).await {
        Ok(Ok(Ok(path))) => Ok(StoreUrl::File(path)),
        Ok(Ok(Err(error))) => Err(refused(&error)),
        Ok(Err(error)) => Err(failure::local(&io::Error::other(error))),
        Err(_) => Err(refused(&ErrorKind::TimedOut.into())),
    }
}

/// The path without links.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = path.canonicalize()?;
    match path.is_dir() {
        true => Ok(path),
        false => Err(ErrorKind::NotADirectory.into()),
    }
}
