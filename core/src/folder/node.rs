//! The words of a folder: inodes, places, and what the remote is known to have.

use crate::store::remote::{Kind, Meta, Name, Version};
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
