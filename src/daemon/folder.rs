//! One folder that is known here, and the requests to it.
//!
//! Everything of it lies in its own directory below the state directory (`config`). While it is open, an engine (`holdall_core::folder`) joins
//! what is there with the remote (`remote`), and a FUSE mount shows it (`mount`). A folder that is closed keeps its engine until all of its
//! changes are at the remote.

use super::failure;
use super::limits::Waits;
use super::registry::Registry;
use super::stores::Stores;
use crate::api::{ActivityKind, Failure, FolderCommand, Passthrough};
use crate::attach::Site;
use condition::Phase;
use config::{Config, Directories};
use holdall_core::folder::Folder as Engine;
use parking_lot::{Mutex, RwLock};
use remote::Reached;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use tokio::sync::watch;
use uuid::Uuid;

mod close;
pub mod condition;
pub mod config;
mod directory;
mod engine;
mod enough;
mod figures;
mod forget;
mod keeping;
mod mount;
pub mod naming;
pub mod open;
mod outside;
mod passthrough;
mod pause;
mod pins;
pub mod queue;
mod registering;
pub mod remote;
mod resume;
mod room;
mod settle;
pub mod status;
mod sync;
mod watching;

/// The folders by name. Held only for look-ups.
pub type Known = Mutex<BTreeMap<String, Arc<Folder>>>;

/// What all folders share.
pub struct Common {
    /// This device.
    pub registry: Arc<Registry>,
    /// Credentials, and limits.
    pub stores: Arc<Stores>,
    /// What has root's rights, and the keeper.
    pub site: Site,
    /// The directories of folders.
    pub directories: Directories,
    /// All folders.
    pub known: Weak<Known>,
}

/// A folder.
pub struct Folder {
    pub(super) name: String,
    pub(super) uuid: Uuid,
    common: Arc<Common>,
    // Held for reading and changing a few fields.
    config: Mutex<Config>,
    /// Held while it is opened, closed or forgotten.
    open: tokio::sync::Mutex<Option<OpenFolder>>,
    /// The engine of the open folder, for callers that only look.
    live: RwLock<Option<Live>>,
    // Held to read or set it.
    phase: Mutex<Phase>,
    figures: figures::Figures,
    /// What can be listed again. Open for as long as the folder is known: the database cannot be opened twice.
    database: Mutex<Option<sled::Db>>,
}

/// An open folder.
struct OpenFolder {
    live: Live,
    mount: Option<mount::Mount>,
    read_only: bool,
    no_passthrough: bool,
    /// It is unmounted, and a task uploads the rest.
    draining: bool,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// The engine of a folder, its remote and its mount.
#[derive(Clone)]
struct Live {
    engine: Arc<Engine>,
    remote: Arc<Reached>,
    /// Counts the requests to the remote.
    meter: holdall_core::store::meter::Meter,
    /// Why nothing may be written.
    read_only: Option<String>,
    passthrough: Passthrough,
    /// Why files are served although they could pass through.
    registering: registering::Trouble,
    /// Becomes true when the engine is put down.
    down: watch::Sender<bool>,
}

impl Folder {
    /// A folder that is closed.
    pub fn new(config: Config, common: Arc<Common>) -> Arc<Self> {
        Arc::new(Self {
            name: config.name.clone(),
            uuid: config.uuid,
            common,
            figures: figures::Figures::new(config.last.clone()),
            config: Mutex::new(config),
            open: tokio::sync::Mutex::new(None),
            live: RwLock::new(None),
            phase: Mutex::new(Phase::Closed),
            database: Mutex::default(),
        })
    }

    /// Where its files are.
    pub fn url(&self) -> String {
        self.config.lock().url.clone()
    }

    /// Where it is mounted, or is while it is taken down.
    pub fn mountpoint(&self) -> Option<PathBuf> {
        self.config.lock().mount.as_ref().map(|mount| mount.path.clone())
    }

    /// Where it is mounted, if it is open.
    pub fn mounted_at(&self) -> Option<PathBuf> {
        let is_open = matches!(&*self.phase.lock(), Phase::Open);
        is_open.then(|| self.mountpoint()).flatten()
    }

    /// Where it will be mounted, while it is being opened again.
    pub fn waits_at(&self) -> Option<PathBuf> {
        let is_coming = matches!(&*self.phase.lock(), Phase::Connecting | Phase::Closed);
        (is_coming && self.config.lock().is_open).then(|| self.mountpoint()).flatten()
    }

    /// Its directory on this device.
    fn directory(&self) -> PathBuf {
        self.common.directories.of(self.uuid)
    }

    /// Whether it is still a folder of this device: it may have been forgotten while the caller waited.
    fn is_known(self: &Arc<Self>) -> bool {
        let known = self.common.known.upgrade();
        known
            .is_some_and(|known| known.lock().get(&self.name).is_some_and(|folder| Arc::ptr_eq(folder, self)))
    }

    fn check_known(self: &Arc<Self>) -> Result<(), Failure> {
        if self.is_known() { Ok(()) } else { Err(failure::no_folder(&self.name, &[])) }
    }

    /// The engine, for an operation that needs one.
    fn live(&self) -> Result<Live, Failure> {
        self.live.read().clone().ok_or_else(failure::folder_closed)
    }

    /// Records an event of the folder.
    fn note(&self, kind: ActivityKind, message: impl Into<String>) {
        self.common.registry.activity().note_of_folder(&self.name, kind, message);
    }

    fn set_phase(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Changes what is remembered: first on the disk, then in memory. If the disk does not accept it, both stay as they were.
    fn remember(&self, change: impl FnOnce(&mut Config)) -> Result<(), Failure> {
        let mut config = self.config.lock();
        let mut changed = config.clone();
        change(&mut changed);
        if changed == *config {
            return Ok(());
        }
        self.common.directories.save(&changed).map_err(|error| failure::local(&error))?;
        *config = changed;
        Ok(())
    }

    /// A failure of the folder, with its name and address.
    pub fn named(&self, failure: Failure) -> Failure {
        failure::of_folder(failure, &self.name, &self.url())
    }

    /// An action on the folder.
    fn action(&self, command: FolderCommand) -> crate::api::Action {
        crate::api::Action::Folder { command, folder: Some(self.name.clone()) }
    }

    /// Why uploads are off: a person or the limits have switched them off.
    fn pause(&self) -> Option<&'static str> {
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
}
