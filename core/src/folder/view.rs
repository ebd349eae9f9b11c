//! What programs see: what the remote has, with what was changed here laid over it.

use super::api::{Attributes, FolderError};
use super::entries::{Lookup, Row};
use super::node::{Ino, Known, Node, Place};
use super::shared::Shared;
use super::tree::{Child, Tree};
use crate::store::remote::{Kind, Meta, Name, Time, Version};

/// What a name stands for.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
pub(super) enum Seen {
    /// Something that differs from the remote, or lies above something that does.
    Node(Ino),
    /// What the remote has.
    Row(Ino, Row),
    /// Nothing.
    Nothing,
    /// The directory was never listed.
    Unknown,
}

/// The number of no file.
const NOBODY: Ino = Ino(0);

/// Whether the remote's entry of a name is hidden: another file has the name, or none, or an upload that nobody wants any longer may have
/// brought it.
pub(super) fn hides(tree: &Tree, place: &Place) -> bool {
    !matches!(tree.child(place), Child::AsRemote) || tree.is_intended(place, NOBODY)
}

impl Shared {
    /// What a name stands for, without asking the remote.
    pub fn see(&self, place: &Place) -> Result<Seen, FolderError> {
        let (child, is_intended, is_only_here) = self.ledger.read(|tree| {
            let is_only_here = tree.node(place.parent).is_some_and(|node| node.remote.is_none());
            (tree.child(place), tree.is_intended(place, NOBODY), is_only_here)
        });
        match child {
            Child::Here(ino) => return Ok(Seen::Node(ino)),
            Child::Hidden => return Ok(Seen::Nothing),
            Child::AsRemote if is_intended || is_only_here => return Ok(Seen::Nothing),
            Child::AsRemote => {}
        }
        match self.entries.lookup(place.parent, &place.name) {
            Lookup::Row(row) => Ok(Seen::Row(self.inodes.number(place.parent, &place.name)?, row)),
            Lookup::Absent => Ok(Seen::Nothing),
            Lookup::Unknown => Ok(Seen::Unknown),
        }
    }

    /// The remote's entry of an inode, as it was seen last.
    pub fn row_of(&self, ino: Ino) -> Result<Option<(Place, Row)>, FolderError> {
        let Some(place) = self.inodes.place(ino)? else { return Ok(None) };
        Ok(self.entries.get(place.parent, &place.name).map(|row| (place, row)))
    }

    /// What the remote has of an inode, as far as it is known.
    pub fn known_of(&self, ino: Ino) -> Result<Option<Known>, FolderError> {
        if let Some(node) = self.node(ino) {
            return Ok(node.remote);
        }
        let known = |(place, row): (Place, Row)| Known {
            place,
            kind: row.entry.kind,
            version: row.entry.version,
            meta: row.entry.meta,
            is_writable: row.entry.is_writable,
        };
        Ok(self.row_of(ino)?.map(known))
    }

    /// The inode as a node: the one that the log knows, or one that is as in the remote.
    pub fn node_or_remote(&self, ino: Ino) -> Result<Node, FolderError> {
        match self.node(ino) {
            Some(node) => Ok(node),
            None => self.known_of(ino)?.map(Node::as_remote).ok_or(FolderError::NotFound),
        }
    }

    /// What an inode is.
    pub fn kind_of(&self, ino: Ino) -> Result<Kind, FolderError> {
        match ino {
            Ino::ROOT => Ok(Kind::Directory),
            ino => Ok(self.node_or_remote(ino)?.kind),
        }
    }

    /// Where an inode is here; `None` if it has no name, and for the root.
    pub fn place_here(&self, ino: Ino) -> Result<Option<Place>, FolderError> {
        match self.ledger.read(|tree| tree.node(ino).map(|node| node.local.clone())) {
            Some(place) => Ok(place),
            None => Ok(self.inodes.place(ino)?),
        }
    }

    /// The path of an inode here, for people. Without a name, it is that of its number.
    pub fn path_here(&self, ino: Ino) -> String {
        let (mut names, mut at) = (Vec::new(), ino);
        while at != Ino::ROOT && names.len() < super::shared::DEPTH_MAX {
            match self.place_here(at) {
                Ok(Some(place)) => {
                    at = place.parent;
                    names.push(place.name);
                }
                _ => return format!("file {ino}"),
            }
        }
        names.iter().rev().map(Name::as_str).collect::<Vec<_>>().join("/")
    }

    /// What `stat` shows, as far as it is known here.
    pub fn attributes_of(&self, ino: Ino) -> Result<Attributes, FolderError> {
        if ino == Ino::ROOT {
            return Ok(attributes(ino, Kind::Directory, 0, self.opened, None));
        }
        if self.contents.has(ino) {
            // A program may write to it without a word: the local disk alone knows.
            let stat = match self.contents.stat(ino) {
                Ok(stat) => Some(stat),
                // It has just been given to the cache.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            if let Some(stat) = stat {
                let meta = match self.node(ino) {
                    Some(node) => node.meta_here().cloned(),
                    None => None,
                };
                return Ok(attributes(ino, Kind::File, stat.len, stat.mtime, meta.as_ref()));
            }
        }
        if let Some(version) = self.opens.version(ino) {
            let meta =
                self.known_of(ino)?.filter(|known| known.version == version).and_then(|known| known.meta);
            let mtime = mtime_of(&version, meta.as_ref());
            return Ok(attributes(ino, Kind::File, version.len, mtime, meta.as_ref()));
        }
        Ok(attributes_of_node(ino, &self.node_or_remote(ino)?))
    }
}

/// What `stat` shows of an entry of the remote.
pub(super) fn attributes_of_row(ino: Ino, row: &Row) -> Attributes {
    let meta = row.entry.meta.as_ref();
    attributes(ino, row.entry.kind, row.entry.version.len, mtime_of(&row.entry.version, meta), meta)
}

fn attributes_of_node(ino: Ino, node: &Node) -> Attributes {
    let meta = node.meta_here();
    let mtime = match (&node.content, &node.meta, &node.remote) {
        (Some(content), _, _) => content.mtime,
        (None, _, Some(known)) => mtime_of(&known.version, meta),
        (None, _, None) => meta.and_then(|meta| meta.mtime).unwrap_or(Time(0)),
    };
    attributes(ino, node.kind, node.len_bytes(), mtime, meta)
}

/// The time of the last change of a version's bytes: the one that a program set, or else the server's.
pub(super) fn mtime_of(version: &Version, meta: Option<&Meta>) -> Time {
    meta.and_then(|meta| meta.mtime).or(version.written).unwrap_or(Time(0))
}

fn attributes(ino: Ino, kind: Kind, len: u64, mtime: Time, meta: Option<&Meta>) -> Attributes {
    let mode = match (kind, meta.and_then(|meta| meta.mode)) {
        (Kind::Link, _) => 0o777,
        (_, Some(mode)) => mode & 0o7777,
        (Kind::Directory, None) => 0o755,
        (Kind::File, None) => 0o644,
    };
    let len = match (kind, meta.and_then(|meta| meta.link.as_ref())) {
        (Kind::Directory, _) => 0,
        (Kind::Link, Some(target)) => target.len() as u64,
        _ => len,
    };
    Attributes { ino, kind, len, mode, mtime, ctime: mtime, is_steady: false }
}
