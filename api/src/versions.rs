//! Versions of a drive beside the current one, and what drives are made of them.

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

/// Names a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
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
