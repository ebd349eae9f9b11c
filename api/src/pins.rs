//! Keeping files on this device, no longer keeping them, and waiting for enough of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Always keeps files on this device: those at and below paths, or a whole drive or folder. Files that are added below a path later are kept too.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinPaths {
    /// Absolute paths on mounted drives and folders ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// ... or the name of a drive or folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Only report what would be pinned.
    #[serde(default)]
    pub dry_run: bool,
    /// Only report how much of it is here, whether it could be pinned or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub look: bool,
    /// Wait until all of it is here. A client that disconnects earlier ends the wait, but not the pin.
    #[serde(default)]
    pub wait: bool,
}

/// Names files to unpin, or to remove from the cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedPaths {
    /// Absolute paths on mounted drives and folders ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// ... or the name of a drive or folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

/// What is always kept on this device: a path, or a whole drive or folder. Figures of a closed one are the last known ones, or 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// The name of the drive or folder on this device.
    pub drive: String,
    /// Its path relative to the drive's root, which is "."; null for the whole drive.
    pub path: Option<String>,
    /// Where that path is mounted now; null while the drive is not mounted.
    pub at: Option<String>,
    /// Its state.
    pub state: PinState,
    /// The reason for the state, for people; null if there is nothing to say.
    pub reason: Option<String>,
    /// Files that are here completely. Files of a whole drive are not counted.
    pub files_ready: u64,
    /// All files.
    pub files_total: u64,
    /// Bytes that these files take on the drive.
    pub bytes: u64,
    /// How many of these bytes are here.
    pub ready_bytes: u64,
    /// Files and directories below the path that cannot be read, and so are not kept.
    pub unreadable: u64,
}

impl Pin {
    /// Whether all of it is here.
    pub fn is_ready(&self) -> bool {
        self.state == PinState::AlwaysKeep
    }
}

/// The state of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PinState {
    /// All of it is here, and stays.
    #[serde(rename = "Always keep")]
    AlwaysKeep,
    /// It is being examined, or downloaded.
    Syncing,
    /// Some of it is missing, and the store cannot be reached.
    Offline,
    /// Some of it is missing, and downloads are paused.
    Paused,
    /// Something prevents keeping it.
    Error,
    /// The drive is not open. The parts that are here stay.
    Closed,
}

/// The result of removing files from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evicted {
    /// Bytes freed on the local disk.
    pub bytes_freed: u64,
    /// Bytes that stayed: changes that are not uploaded yet, metadata, and pinned files.
    pub stayed_bytes: u64,
}

/// Waits until enough of a file, or of everything below a directory, is here. Meanwhile it is pulled from the beginning, but not pinned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFor {
    /// An absolute path on a mounted drive.
    pub path: String,
    /// How much of it is enough, in percent.
    #[serde(default = "all_of_it")]
    pub percent: u8,
    /// For how long at most; if left out, for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

fn all_of_it() -> u8 {
    100
}

/// The result once enough of it is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// The drive's name on this device.
    pub drive: String,
    /// Bytes that the files take on the drive.
    pub bytes: u64,
    /// How many of these bytes are here.
    pub ready_bytes: u64,
}
