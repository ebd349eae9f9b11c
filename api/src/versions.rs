//! Versions of a drive beside the current one, and what drives are made of them.

use crate::AttachMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fork: what this device had of a drive when another one took it over, with all changes on top. A drive of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fork {
    /// What it is called: "work (fork from laptop, 2026-11-20)".
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// The device whose changes it has.
    pub device: String,
    /// The device that took the drive over.
    pub taken_by: String,
    /// When that was found out.
    pub made_at: String,
    /// The version that it goes on from.
    pub base: String,
    /// Changes that are not uploaded.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The size of the block device, as the fork has it; 0 where that is not known.
    #[serde(default)]
    pub size_bytes: u64,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// Whether it is still mounted as the drive was, since programs use it. Closing the drive sets it apart.
    pub in_place: bool,
}

/// The version of a drive that its store has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The device that has written it.
    pub device: String,
    /// Whether that is this one.
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
    /// What to call it.
    pub name: String,
}

/// Compares a fork with its drive's current version.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// How what is closed is attached for it.
    #[serde(default)]
    pub attach: AttachMode,
}

/// What differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// By their paths, in order. A directory that only one version has stands for all that is in it.
    pub differences: Vec<Difference>,
    /// How many more there are.
    pub more: u64,
    /// Directories that may not be read, in both versions together: what is in them is not compared.
    pub unreadable: u64,
}

/// A file or a directory that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its path, relative to the root of the drive.
    pub path: String,
    /// As the fork has it; null where it has none.
    pub fork: Option<VersionOfFile>,
    /// As the current version has it; null where it has none.
    pub current: Option<VersionOfFile>,
}

/// How a version has a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionOfFile {
    /// What it is.
    pub kind: FileKind,
    /// Files in a directory; 1 for a file.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was modified last.
    pub modified_at: String,
}

/// What is in a version.
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
    /// Name of its root.
    pub root: String,
    /// When it was taken.
    pub taken_at: String,
    /// Size of the drive then.
    pub size_bytes: u64,
}

/// Makes a drive from a version of another.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clone {
    /// The new drive's name.
    pub name: String,
    /// The version; without, the current one.
    #[serde(default)]
    pub snapshot: Option<String>,
}
