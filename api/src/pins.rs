//! What is always kept on this device, what is not any more, and waiting for enough of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Always keeps files here: those at and below paths, or a whole drive. Files that come later below a path follow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinPaths {
    /// Absolute paths on mounted drives ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// ... or the name of a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Only tell what it would be.
    #[serde(default)]
    pub dry_run: bool,
    /// Only tell how far it is here, whether it could be kept or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub look: bool,
    /// Wait until all of it is here. Who goes away before ends the wait, and not the pin.
    #[serde(default)]
    pub wait: bool,
}

/// Names files that are pinned, or that are to be taken out of the cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedPaths {
    /// Absolute paths on mounted drives ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// ... or the name of a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

/// What is always kept on this device: a path, or a whole drive. Figures of a drive that is closed are the last known ones, or 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// The drive's name on this device.
    pub drive: String,
    /// Relative to the drive's root, which is "."; null for the whole drive.
    pub path: Option<String>,
    /// Where that is now; null while the drive is not mounted.
    pub at: Option<String>,
    /// How it is.
    pub state: PinState,
    /// Why it is so, for people; null where there is nothing to say.
    pub reason: Option<String>,
    /// Files of which all is here. Those of a whole drive are not counted.
    pub files_ready: u64,
    /// Files.
    pub files_total: u64,
    /// Bytes that they take on the drive.
    pub bytes: u64,
    /// Bytes of them that are here.
    pub ready_bytes: u64,
    /// Files and directories below the path that cannot be read, and are not kept.
    pub unreadable: u64,
}

impl Pin {
    /// Whether all of it is here.
    pub fn is_ready(&self) -> bool {
        self.state == PinState::AlwaysKeep
    }
}

/// How a pin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PinState {
    /// All of it is here, and stays.
    #[serde(rename = "Always keep")]
    AlwaysKeep,
    /// It is being looked at, or on its way.
    Syncing,
    /// Some of it is missing, and the store cannot be reached.
    Offline,
    /// Some of it is missing, and downloads are switched off.
    Paused,
    /// Something keeps it from being kept.
    Error,
    /// The drive is not open. What is here of it stays.
    Closed,
}

/// What was taken out of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evicted {
    /// Bytes of the local disk that are free now.
    pub bytes_freed: u64,
    /// Bytes that stayed: changes that are not uploaded yet, metadata, and what is always kept here.
    pub stayed_bytes: u64,
}

/// Waits until enough of a file, or of all below a directory, is here. It is pulled from the beginning meanwhile, and not pinned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFor {
    /// An absolute path on a mounted drive.
    pub path: String,
    /// How much of it is enough.
    #[serde(default = "all_of_it")]
    pub percent: u8,
    /// For how long at most; without, for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

fn all_of_it() -> u8 {
    100
}

/// Enough of it is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// The drive's name on this device.
    pub drive: String,
    /// Bytes that the files take on the drive.
    pub bytes: u64,
    /// Bytes of them that are here.
    pub ready_bytes: u64,
}
