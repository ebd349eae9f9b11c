//! What all parts of an open folder work on.

use super::api::{FolderError, Stale};
use super::contents::Contents;
use super::entries::Entries;
use super::inodes::Inodes;
use super::leaving::Leaving;
use super::ledger::Ledger;
use super::local_copy::LocalCopy;
use super::node::{Ino, Node, Place};
use super::opens::Opens;
use super::overlay::Overlays;
use super::turns::Turns;
use crate::store::remote::{Remote, RemotePath, Time};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// The parts of an open folder.
pub(super) struct Shared {
    /// The files at the remote.
    pub remote: Arc<dyn Remote>,
    /// What differs from the remote.
    pub ledger: Arc<Ledger>,
    /// Bytes that the remote does not have.
    pub contents: Contents,
    /// Which bytes of these are still a version's of the remote.
    pub overlays: Overlays,
    /// Files up to this length are brought here as a whole before a program may write to them.
    pub whole_up_to: u64,
    /// Bytes of the remote's versions that are here.
    pub copy: Arc<LocalCopy>,
    /// What the remote has, as far as it was listed.
    pub entries: Arc<Entries>,
    /// The numbers of names in the remote.
    pub inodes: Arc<Inodes>,
    /// Where the remote has what.
    pub paths: Arc<Paths>,
    /// What programs have open.
    pub opens: Opens,
    /// One turn at a time for each inode.
    pub turns: Turns,
    /// Contents that are removed when the log knows it durably.
    pub leaving: Leaving,
    /// Tells the front end what to forget.
    pub stale: mpsc::UnboundedSender<Stale>,
    /// Stands for this device in names that no other device makes.
    pub device: u32,
    /// The name of this device, for names of conflicts.
    pub device_name: String,
    /// Why nothing may be written, if so.
    pub read_only: Option<String>,
    /// When the folder was opened: the time of its top directory, of which the remote has none.
    pub opened: Time,
}

/// Knows where the remote has the files that are read, and is told which versions it no longer has.
pub(super) struct Gone {
    pub paths: Arc<Paths>,
    pub gone: mpsc::UnboundedSender<Ino>,
}

/// Where the remote has the files, for what reads and changes them there.
pub(super) struct Paths {
    pub ledger: Arc<Ledger>,
    /// Set while the folder is opened.
    pub inodes: OnceLock<Arc<Inodes>>,
}

impl Paths {
    /// The remote's place of an inode; `None` if it has none there, and for the root.
    pub fn place_of(&self, ino: Ino) -> Option<Place> {
        match self
            .ledger
            .read(|tree| tree.node(ino).map(|node| node.remote.as_ref().map(|known| known.place.clone())))
        {
            Some(place) => place,
            None => self.inodes.get()?.place(ino).ok()?,
        }
    }

    /// The remote's path of an inode.
    pub fn path_of(&self, ino: Ino) -> Option<RemotePath> {
        let (mut names, mut at) = (Vec::new(), ino);
        while at != Ino::ROOT {
            let place = self.place_of(at)?;
            names.push(place.name);
            // A damaged table may lead in a circle.
            if names.len() > DEPTH_MAX {
                return None;
            }
            at = place.parent;
        }
        Some(names.iter().rev().fold(RemotePath::root(), |path, name| path.join(name)))
    }
}

/// Directories below each other that are followed.
pub(super) const DEPTH_MAX: usize = 4096;

impl Shared {
    /// Looks a node up.
    pub fn node(&self, ino: Ino) -> Option<Node> {
        self.ledger.read(|tree| tree.node(ino).cloned())
    }

    /// Fails if nothing may be written.
    pub fn check_writable(&self) -> Result<(), FolderError> {
        match &self.read_only {
            Some(why) => Err(FolderError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }
}
