//! Directories of this computer that are kept in remotes.
//!
//! Everything that is remembered of one lies in its own directory below the state directory (`config`). While the daemon runs, an engine
//! (`holdall_core::watched`) keeps both sides alike; the kernel's events (`events`) only tell it when to look.

use super::failure::{self, failure};
use super::folder::naming::{Overlap, overlap, overlap_of_paths};
use super::folder::remote::{Known as KnownRemote, Place, connect};
use super::folder::{Common, naming};
use super::folders::resolved;
use super::stores;
use crate::api::{Action, ActivityKind, Code, Failure, FolderCommand, FolderStatus, WatchDirectory};
use config::{Config, Directories};
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use holdall_core::watched::local::{mark, unmark};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

mod config;
mod directory;
mod events;
mod status;

pub use directory::Directory;

/// All watched directories, by path.
pub struct WatchedDirectories {
    common: Arc<Common>,
    directories: Directories,
    // Held only for look-ups.
    known: Mutex<BTreeMap<PathBuf, Arc<Directory>>>,
    /// Held while one is added: two that overlap must not both find that they do not.
    adding: tokio::sync::Mutex<()>,
}

impl WatchedDirectories {
    /// Those that are remembered. Nothing is looked at yet.
    pub fn new(common: &Arc<Common>) -> io::Result<Self> {
        let directories = Directories::new(&common.registry.paths().state);
        let mut known = BTreeMap::new();
        for config in directories.list()? {
            let path = PathBuf::from(&config.directory);
            known.insert(path, Directory::new(config, common.clone(), directories.clone()));
        }
        Ok(Self {
            common: common.clone(),
            directories,
            known: Mutex::new(known),
            adding: tokio::sync::Mutex::default(),
        })
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Directory>> {
        self.known.lock().values().cloned().collect()
    }

    /// The status of each.
    pub fn statuses(&self) -> Vec<FolderStatus> {
        self.all().iter().map(|directory| directory.status()).collect()
    }

    /// The one that a request names by its path. `None`: the name is no path.
    pub fn get(&self, name: &str) -> Option<Result<Arc<Directory>, Failure>> {
        let path = Path::new(name);
        if !path.is_absolute() {
            return None;
        }
        let known = self.known.lock();
        // Without a look at the disk first: it may be away.
        let found = known.get(path).or_else(|| known.get(&path.canonicalize().ok()?)).cloned();
        Some(found.ok_or_else(|| {
            failure(
                Code::NotFound,
                format!("{name} is not a watched directory."),
                failure::NOTHING_CHANGED,
                Action::folder(FolderCommand::List),
            )
        }))
    }

    /// Works on all that are remembered.
    pub async fn resume_all(&self) {
        futures_util::future::join_all(self.all().iter().map(|directory| directory.resume())).await;
    }

    /// Ends. What is under way is found by the next daemon.
    pub fn end(&self) {
        self.all().iter().for_each(|directory| directory.stop());
    }

    /// Refuses a remote whose files a watched directory has, here or there.
    pub fn check_free(&self, url: &StoreUrl) -> Result<(), Failure> {
        for directory in self.all() {
            let config = directory.config();
            let here = StoreUrl::File(PathBuf::from(&config.directory));
            let there = stores::parse(&config.url).ok();
            let overlaps = [Some(here), there].into_iter().flatten().find_map(|other| overlap(url, &other));
            if let Some(overlap) = overlaps {
                return Err(overlapping(
                    &url.readable().to_string(),
                    overlap,
                    "watched directory",
                    &config.directory,
                ));
            }
        }
        Ok(())
    }
}

fn overlapping(what: &str, how: Overlap, kind: &str, other: &str) -> Failure {
    let how = match how {
        Overlap::Same => "has the same files as",
        Overlap::Inside => "is inside",
        Overlap::Around => "contains",
    };
    failure(
        Code::Exists,
        format!("{what} {how} the {kind} {other}."),
        "Nothing was changed. Two that share files would take each other's changes for conflicts.",
        [Action::tell("Choose a place outside it."), Action::folder(FolderCommand::List)],
    )
}

impl super::drives::Drives {
    /// Keeps a directory of this computer in a remote.
    pub async fn watch_directory(&self, mut request: WatchDirectory) -> Result<FolderStatus, Failure> {
        let given = request.credentials.take();
        let _adding = self.watched().adding.lock().await;
        let url = resolved(stores::read(request.url.trim())?).await?;
        let StoreUrl::File(path) = resolved(StoreUrl::File(PathBuf::from(&request.directory))).await? else {
            return Err(failure::usage("A watched directory is a directory of this computer."));
        };
        let known = self.watched().known.lock().get(&path).cloned();
        if let Some(known) = known {
            let config = known.config();
            if config.url == url.to_string() && config.two_way == request.two_way {
                return Ok(known.status());
            }
            return Err(failure(
                Code::Exists,
                format!(
                    "{} is watched already, {}, with {}.",
                    path.display(),
                    ways(config.two_way),
                    config.url
                ),
                failure::NOTHING_CHANGED,
                Action::tell(format!(
                    "Run holdall folder unwatch {} first; no file is deleted by that.",
                    path.display()
                )),
            ));
        }
        self.check_directory(&path, &url)?;
        let directory =
            self.with_new_login(&url, given, self.add_directory(&path, &url, request.two_way)).await;
        let directory = directory.map_err(|failure| failure.about(None, Some(&url.to_string())))?;
        directory.resume().await;
        let message = format!("Watched, {}: {}.", ways(request.two_way), url.readable());
        self.activity().note_of_folder(&directory.name, ActivityKind::Folder, message);
        Ok(directory.status())
    }

    /// Refuses directories and remotes that something of Holdall's has already.
    fn check_directory(&self, path: &Path, url: &StoreUrl) -> Result<(), Failure> {
        let shown = path.display().to_string();
        for other in self.watched().all() {
            let other = other.config().directory;
            if let Some(how) = overlap_of_paths(path, Path::new(&other)) {
                return Err(overlapping(&shown, how, "watched directory", &other));
            }
        }
        for folder in self.folders().all() {
            let Ok(theirs) = stores::parse(&folder.url()) else { continue };
            let here = StoreUrl::File(path.to_owned());
            if let Some(how) = naming::overlap(&here, &theirs) {
                return Err(overlapping(&shown, how, "folder", &folder.name));
            }
            if let Some(how) = naming::overlap(url, &theirs) {
                return Err(overlapping(&url.readable().to_string(), how, "folder", &folder.name));
            }
        }
        if let Some(how) = overlap(&StoreUrl::File(path.to_owned()), url) {
            return Err(overlapping(&shown, how, "remote", &url.readable().to_string()));
        }
        self.check_place(&StoreUrl::File(path.to_owned()))?;
        self.check_place(url)?;
        self.watched().check_free(url)
    }

    async fn add_directory(
        &self,
        path: &Path,
        url: &StoreUrl,
        two_way: bool,
    ) -> Result<Arc<Directory>, Failure> {
        let watched = self.watched();
        let common = watched.common.clone();
        let place = Place {
            url: url.clone(),
            stores: common.stores.clone(),
            device: common.registry.device().id,
            read_only: false,
            meter: Meter::default(),
        };
        let connected = Box::pin(connect(&place, None)).await.map_err(|error| failure::reach(&error))?;
        if let Some(why) = &connected.remote.facts().read_only {
            return Err(failure(
                Code::Usage,
                format!("Nothing can be written at {}: {why}.", url.readable()),
                "Nothing was changed. A watched directory needs a remote that takes its files.",
                "Log in with an account that may write, or choose another place.",
            ));
        }
        let remote = KnownRemote { facts: connected.remote.facts().clone(), root: connected.root.clone() };
        let config = Config::new(Uuid::new_v4(), path, url, two_way);
        let (directories, path) = (watched.directories.clone(), path.to_owned());
        let work = {
            let (config, path, directories) = (config.clone(), path.clone(), directories.clone());
            move || {
                mark(&path, config.uuid)?;
                directories.add(&config)?;
                remote.save(&directories.of(config.uuid))
            }
        };
        let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
        done.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => failure(
                Code::Exists,
                format!("The directory has a mark already: {error}."),
                "Nothing was changed. Another account or computer may watch it.",
                "If nothing watches it any more, remove its .holdall-folder, and try again.",
            ),
            _ => failure::local(&error),
        })?;
        let directory = Directory::new(config, common, directories);
        watched.known.lock().insert(path, directory.clone());
        Ok(directory)
    }

    /// Stops watching a directory. Its files stay, here and at the remote.
    pub async fn unwatch_directory(&self, name: &str) -> Result<(), Failure> {
        let _adding = self.watched().adding.lock().await;
        let directory = match self.watched().get(name) {
            Some(directory) => directory?,
            None => {
                return Err(failure::usage(format!("\"{name}\" is not the path of a watched directory.")));
            }
        };
        directory.stop_and_wait().await;
        let (config, directories) = (directory.config(), self.watched().directories.clone());
        let work = move || {
            directories.forget(config.uuid)?;
            // A directory that is away keeps its mark.
            if let Err(error) = unmark(Path::new(&config.directory), config.uuid) {
                tracing::warn!(directory = config.directory, %error, "the mark of a directory stays");
            }
            Ok(())
        };
        let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
        done.map_err(|error: io::Error| failure::local(&error))?;
        self.watched().known.lock().remove(Path::new(&directory.name));
        let message = "No longer watched. Its files stay, here and at the remote.";
        self.activity().note_of_folder(&directory.name, ActivityKind::Folder, message);
        Ok(())
    }
}

fn ways(two_way: bool) -> &'static str {
    if two_way { "both ways" } else { "one way" }
}
