//! What is in a folder of a drive, and how far it is on this device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which folder to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFolder {
    /// Relative to the root of the drive, which is "." or nothing.
    #[serde(default)]
    pub path: String,
}

/// What is in a folder: one level of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderEntry {
    /// Its name. What is not UTF-8 in it is shown as U+FFFD.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes that a file takes on the drive. Of a folder 0: what is below it is not looked at.
    pub bytes: u64,
    /// Bytes of them that are on this device.
    pub local_bytes: u64,
    /// How it is. Of a folder it is `always_keep` where all of it is pinned, `partly` where something below it is, else
    /// `null`: what is below it is not looked at.
    pub state: Option<EntryState>,
    /// The pin that keeps it: a path relative to the drive's root, or "" for the whole drive.
    pub pinned_by: Option<String>,
}

/// What is in folders. Other things, such as links and sockets, are not listed: nothing of theirs can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File,
}

/// How far something is on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// None of it is here.
    OnlineOnly,
    /// All of it is here, and may go when the room is needed.
    Available,
    /// It is pinned.
    AlwaysKeep,
    /// Some of it is here, or pinned.
    Partly,
}
