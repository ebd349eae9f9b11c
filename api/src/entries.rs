//! The contents of a directory of a drive or folder, and how much of it is on this device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which directory to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDirectory {
    /// Its path relative to the root of the drive or folder; the root is "." or empty.
    #[serde(default)]
    pub path: String,
}

/// One entry of a directory. Directories below it are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryEntry {
    /// Its name. Bytes that are not UTF-8 are shown as U+FFFD.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// Bytes of a file; 0 for a directory, because its contents are not read.
    pub bytes: u64,
    /// How many of these bytes are on this device.
    pub local_bytes: u64,
    /// Its state. A directory is `always_keep` where all of it is pinned, `partly` where something below it is, otherwise `null`, because its
    /// contents are not read.
    pub state: Option<EntryState>,
    /// The pin that keeps it: a path relative to the drive's root, or "" for the whole drive.
    pub pinned_by: Option<String>,
}

/// The kinds of entries. Others, such as links and sockets, are not listed: they have nothing that could be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A file.
    File,
}

/// How much of an entry is on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// None of it is here.
    OnlineOnly,
    /// All of it is here, and can be evicted when space is needed.
    Available,
    /// It is pinned.
    AlwaysKeep,
    /// Some of it is here, or pinned.
    Partly,
    /// It is here, and its changes are not uploaded yet.
    Waiting,
    /// Two programs have changed it: both versions are kept until a person has settled it.
    Conflict,
}
