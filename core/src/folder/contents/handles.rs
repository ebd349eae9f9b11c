//! The open descriptors of contents, bounded, and what is known of their syncs.

use crate::disk::DiskFile;
use crate::folder::node::Ino;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Contents that are watched until their sync.
const WATCHED_MAX: usize = 256;
/// Contents that are open for writing. One that leaves costs an open at its next write.
const WRITERS_MAX: usize = 32;

/// What is open, and what became of syncs.
#[derive(Default)]
pub(super) struct Handles {
    watched: HashMap<Ino, Watched>,
    /// Contents whose sync failed, and why.
    condemned: HashMap<Ino, String>,
    /// At which change of names a content got its name, if that was in this life.
    named: HashMap<Ino, u64>,
    /// Changes of names so far, and how many of them are durable. What an earlier life did counts as the first.
    names: u64,
    durable_names: u64,
    uses: u64,
}

/// A content that was written, or may be.
pub(super) struct Watched {
    /// Open since before the first write.
    pub witness: Arc<dyn DiskFile>,
    /// Only one sync at a time: the kernel tells a descriptor of a failure once.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    writer: Option<Arc<dyn DiskFile>>,
    /// Something may have been written since the last sync.
    is_written: bool,
    used: u64,
}

/// A content that is no longer watched, and has to be synced before its witness is closed.
pub(super) struct Leaves {
    pub ino: Ino,
    pub witness: Arc<dyn DiskFile>,
    /// See [`Handles::named`].
    pub named: u64,
    /// Others wait until it is known what became of it.
    _turn: OwnedMutexGuard<()>,
}

impl Handles {
    /// What is open of a content.
    pub fn watched(&mut self, ino: Ino) -> Option<&mut Watched> {
        self.uses += 1;
        let watched = self.watched.get_mut(&ino)?;
        watched.used = self.uses;
        Some(watched)
    }

    /// Whether a content is watched.
    pub fn is_watched(&self, ino: Ino) -> bool {
        self.watched.contains_key(&ino)
    }

    /// Watches a content. If that is one too many, another one leaves, and is returned: it has to be synced.
    pub fn watch(&mut self, ino: Ino, witness: Arc<dyn DiskFile>) -> Option<Leaves> {
        self.uses += 1;
        let watched =
            Watched { witness, turn: Arc::default(), writer: None, is_written: false, used: self.uses };
        self.watched.insert(ino, watched);
        if self.watched.len() <= WATCHED_MAX {
            return None;
        }
        let idle = |(ino, watched): (&Ino, &Watched)| {
            let turn = watched.turn.clone().try_lock_owned().ok()?;
            Some((watched.used, *ino, turn))
        };
        let others = self.watched.iter().filter(|(other, _)| **other != ino);
        let (_, oldest, turn) = others.filter_map(idle).min_by_key(|(used, ..)| *used)?;
        let watched = self.watched.remove(&oldest).filter(Watched::may_be_unsynced)?;
        Some(Leaves { ino: oldest, witness: watched.witness, named: self.named(oldest), _turn: turn })
    }

    /// A watched content is open for writing with this descriptor. Closes the oldest one if that is one too many.
    pub fn opened(&mut self, ino: Ino, writer: Arc<dyn DiskFile>) {
        if let Some(watched) = self.watched.get_mut(&ino) {
            watched.writer = Some(writer);
        }
        let writers = || self.watched.iter().filter(|(_, watched)| watched.writer.is_some());
        if writers().count() > WRITERS_MAX
            && let Some((oldest, _)) = writers().min_by_key(|(_, watched)| watched.used)
        {
            self.close(*oldest);
        }
    }

    /// Closes what is open for writing.
    pub fn close(&mut self, ino: Ino) {
        if let Some(watched) = self.watched.get_mut(&ino) {
            watched.is_written |= watched.writer.take().is_some();
        }
    }

    /// Why the content cannot be made durable, if so.
    pub fn condemned(&self, ino: Ino) -> Option<&String> {
        self.condemned.get(&ino)
    }

    /// A sync of the content failed that was `named` then. It is another one if it was begun anew meanwhile.
    pub fn condemn(&mut self, ino: Ino, named: u64, cause: String) {
        if self.named(ino) == named {
            self.condemned.entry(ino).or_insert(cause);
        }
    }

    /// The change of names that gave the content its name.
    pub fn named(&self, ino: Ino) -> u64 {
        self.named.get(&ino).copied().unwrap_or(0)
    }

    /// The change of names that has to be durable for that of the content; `None` if it is.
    pub fn names_to_sync(&self, ino: Ino) -> Option<u64> {
        // Names of an earlier life are durable with the first sync of this one.
        (self.named(ino) >= self.durable_names).then_some(self.names + 1)
    }

    /// Changes of names before this one are durable.
    pub fn names_are_synced(&mut self, before: u64) {
        self.durable_names = self.durable_names.max(before);
    }

    /// The name stands for another content, or for none.
    pub fn forget(&mut self, ino: Ino) {
        self.watched.remove(&ino);
        self.condemned.remove(&ino);
        self.names += 1;
        self.named.insert(ino, self.names);
    }

    /// The inode has no content. What its name stood for is no matter any longer.
    pub fn forget_name(&mut self, ino: Ino) {
        self.named.remove(&ino);
    }
}

impl Watched {
    /// The descriptor for writing.
    pub fn writer(&self) -> Option<Arc<dyn DiskFile>> {
        self.writer.clone()
    }

    /// A program may write to it without a word.
    pub fn may_be_written(&mut self) {
        self.is_written = true;
    }

    /// A sync begins: what is written from here on may be missed.
    pub fn begin_sync(&mut self) {
        self.is_written = false;
    }

    fn may_be_unsynced(&self) -> bool {
        self.is_written || self.writer.is_some()
    }
}
