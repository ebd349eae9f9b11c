//! Versions of a drive other than the current one, and the drives made from them.

use crate::AttachMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fork: this device's state of a drive, with all its changes, from when another device took the drive over. It is a drive of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fork {
    /// Its name, such as "work (fork from laptop, 2026-11-20)".
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// The device whose changes it has.
    pub device: String,
    /// The device that took the drive over.
    pub taken_by: String,
    /// When the takeover was noticed.
    pub made_at: String,
    /// The version that it is based on.
    pub base: String,
    /// Journal records that are not uploaded.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The size of the block device in the fork; 0 if unknown.
    #[serde(default)]
    pub size_bytes: u64,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// Whether it is still mounted in the drive's place, because programs use it. Closing the drive separates it.
    pub in_place: bool,
}

/// The version of a drive in its store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The device that wrote it.
    pub device: String,
    /// Whether this is that device.
    #[serde(default)]
    pub this_device: bool,
    /// When it was uploaded.
    pub committed_at: String,
    /// The size of the block device.
    pub size_bytes: u64,
}

/// Makes a fork an ordinary drive of this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Keep {
    /// The name that the drive will have.
    pub name: String,
}

/// Compares a fork with its drive's current version.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// How to attach the versions that are not open.
    #[serde(default)]
    pub attach: AttachMode,
}

/// The differences between two versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// The differences, in order of their paths. A directory that only one version has stands for everything in it.
    pub differences: Vec<Difference>,
    /// How many differences are not listed.
    pub more: u64,
    /// Directories, in both versions together, that cannot be read: their contents are not compared.
    pub unreadable: u64,
}

/// A file or a directory that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its path, relative to the root of the drive.
    pub path: String,
    /// The fork's version; null if it has none.
    pub fork: Option<VersionOfFile>,
    /// The current version's; null if it has none.
    pub current: Option<VersionOfFile>,
}

/// A file or a directory in one of the versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionOfFile {
    /// Its kind.
    pub kind: FileKind,
    /// Files in a directory; 1 for a file.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was last modified.
    pub modified_at: String,
}

/// Kinds of files in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe or a device.
    Other,
}

/// Names a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
}

/// Which snapshots to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSnapshots {
    /// Whether to list also the versions that are kept only for computers which may have unsent changes on top of them.
    #[serde(default)]
    pub all: bool,
}

/// A version that is kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its label.
    pub label: String,
    /// The name of its root.
    pub root: String,
    /// When it was taken.
    pub taken_at: String,
    /// The size of the drive at that time.
    pub size_bytes: u64,
}

/// Creates a drive from a version of another one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clone {
    /// The new drive's name.
    pub name: String,
    /// The version; if left out, the current one.
    #[serde(default)]
    pub snapshot: Option<String>,
}
