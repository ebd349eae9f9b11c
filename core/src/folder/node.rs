//! The words of a folder: inodes, places, and how a file or directory differs from what the remote has.

use crate::store::remote::{Kind, Meta, Name, Time, Version};
use std::fmt;

/// The number of a file or directory of a folder. It stays the same for as long as the folder is known on this device, also while its name
/// changes, and is never given to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u32);

impl Ino {
    /// The folder's top directory.
    pub const ROOT: Ino = Ino(1);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The directory.
    pub parent: Ino,
    /// The name there.
    pub name: Name,
}

impl Place {
    /// The place of `name` in `parent`.
    pub fn new(parent: Ino, name: Name) -> Self {
        Self { parent, name }
    }
}

/// What the remote has under a name, as far as this device knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// Which version of it.
    pub version: Version,
    /// What it has beside its bytes; `None` if only a listing was seen that does not show it.
    pub meta: Option<Meta>,
    /// Whether the account may change it.
    pub is_writable: bool,
}

/// A file or directory that differs from the remote, or is the directory of one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// What the remote has of it. `None`: nothing.
    pub remote: Option<Known>,
    /// Where it is here. `None`: it was removed.
    pub local: Option<Place>,
    /// Bytes that the remote does not have. `None`: its bytes are those of `remote`.
    pub content: Option<ContentHere>,
    /// What it has beside its bytes, where the remote has something else.
    pub meta: Option<MetaHere>,
    /// A program may have written to it without a word: it is, or was until the last crash, open for writing by passthrough.
    pub may_be_written: bool,
    /// An action at the remote that was begun, and whose outcome is not known yet.
    pub intent: Option<Intent>,
    /// When it began to differ, Unix time in ms. For people.
    pub since_ms: u64,
}

/// Bytes of a file that are not in the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentHere {
    /// Raised with every change, so that an upload can tell whether it sent the latest.
    pub generation: u64,
    /// Length in bytes.
    pub len: u64,
    /// When they were written.
    pub mtime: Time,
    /// Bytes that were never written here are those of this version. `None`: all bytes are here.
    pub base: Option<Version>,
}

/// Attributes that are not in the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaHere {
    /// Raised with every change.
    pub generation: u64,
    /// All of them.
    pub meta: Meta,
}

/// An action at the remote that was begun. It may have taken effect although its answer never came: the log knows it before the remote does,
/// so that what it left is never taken for another program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Where it goes.
    pub at: Place,
    /// What it brings there.
    pub brings: Brings,
}

/// What an action brings to its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brings {
    /// A new directory.
    Directory,
    /// A file's bytes.
    Content {
        /// Their generation.
        generation: u64,
        /// The generation of the attributes that go with them.
        meta: u64,
        /// How many bytes.
        len: u64,
        /// Their BLAKE3.
        digest: [u8; 32],
        /// The remote's words for continuing the upload; empty if it cannot be continued.
        resume: Vec<u8>,
    },
    /// The file or directory that the remote has elsewhere; whether it stays there too.
    Relocated {
        /// Whether it was copied.
        is_copied: bool,
    },
    /// Attributes of that generation.
    Meta(u64),
}

impl Node {
    /// A file or directory that is as in the remote.
    pub fn as_remote(known: Known) -> Self {
        Self {
            kind: known.kind,
            local: Some(known.place.clone()),
            remote: Some(known),
            content: None,
            meta: None,
            may_be_written: false,
            intent: None,
            since_ms: 0,
        }
    }

    /// One that was just made here.
    pub fn made(kind: Kind, place: Place, meta: Meta, now_ms: u64) -> Self {
        let content = (kind == Kind::File).then(|| ContentHere {
            generation: 1,
            len: 0,
            mtime: meta.mtime.unwrap_or(Time(0)),
            base: None,
        });
        Self {
            kind,
            remote: None,
            local: Some(place),
            content,
            meta: Some(MetaHere { generation: 1, meta }),
            may_be_written: false,
            intent: None,
            since_ms: now_ms,
        }
    }

    /// Whether anything has to be done at the remote.
    pub fn differs(&self) -> bool {
        let at = self.remote.as_ref().map(|known| &known.place);
        at != self.local.as_ref() || self.content.is_some() || self.meta.is_some() || self.intent.is_some()
    }

    /// The generation of bytes that change now: later than any that is here or on its way.
    pub fn next_generation(&self) -> u64 {
        let here = self.content.as_ref().map_or(0, |here| here.generation);
        let sent = match self.intent.as_ref().map(|intent| &intent.brings) {
            Some(Brings::Content { generation, .. }) => *generation,
            _ => 0,
        };
        here.max(sent) + 1
    }

    /// Whether it is at the same place here and in the remote.
    pub fn is_in_place(&self) -> bool {
        self.local.is_some() && self.local.as_ref() == self.remote.as_ref().map(|known| &known.place)
    }

    /// What it has beside its bytes, as programs see it here. `None`: the remote has to be asked.
    pub fn meta_here(&self) -> Option<&Meta> {
        match &self.meta {
            Some(here) => Some(&here.meta),
            None => self.remote.as_ref()?.meta.as_ref(),
        }
    }

    /// Its length in bytes, as far as it was told.
    pub fn len_bytes(&self) -> u64 {
        match (&self.content, &self.remote) {
            (Some(here), _) => here.len,
            (None, Some(known)) => known.version.len,
            (None, None) => 0,
        }
    }
}
