//! How a drive is, and what a look at it found.

use super::{AttachMode, Fork, Pin, ReplicaStatus, StoreMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriveState {
    /// Open, and everything is in the store or on its way.
    Ready,
    /// Being opened.
    Connecting,
    /// Uploading.
    Syncing,
    /// Open, but the store cannot be reached.
    Offline,
    /// Pushing is switched off.
    Paused,
    /// Replaying what was written before a crash.
    Recovering,
    /// Only looked at, or held by another device.
    #[serde(rename = "Read-only")]
    ReadOnly,
    /// This device's changes have become a fork.
    Conflict,
    /// A person has to look at it.
    #[serde(rename = "Needs attention")]
    NeedsAttention,
    /// Not open.
    Closed,
}

/// Who has a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The device's name.
    pub name: String,
    /// Its generation.
    pub epoch: u64,
    /// When it last committed, RFC 3339, or null.
    pub last_commit_at: Option<String>,
}

/// Requests to the store since the drive was opened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// GETs.
    pub get: u64,
    /// PUTs.
    pub put: u64,
    /// HEADs.
    pub head: u64,
    /// Listings.
    pub list: u64,
    /// DELETEs.
    pub delete: u64,
}

/// How a drive is. Times are RFC 3339. Figures of a drive that is not open are the last known ones, or 0.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DriveStatus {
    /// Its name on this device.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// Its state.
    pub state: DriveState,
    /// Why it is in that state, for people; null where there is nothing to say.
    pub reason: Option<String>,
    /// Since when.
    pub since: String,
    /// The writer's generation.
    pub epoch: u64,
    /// The current version.
    pub root: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes on this device.
    pub cached_bytes: u64,
    /// Bytes that the cache may take.
    pub cache_limit_bytes: u64,
    /// Bytes of the drive that are not in the store.
    pub dirty_bytes: u64,
    /// Bytes of journal that wait for the store.
    pub unpushed_bytes: u64,
    /// Age of the oldest of them.
    pub oldest_dirty_age_ms: u64,
    /// Bytes of journal in use.
    pub journal_bytes: u64,
    /// Bytes that the journal may take.
    pub journal_limit_bytes: u64,
    /// Bytes that are wanted from the store.
    pub pending_pull_bytes: u64,
    /// Bytes that were fetched for programs that read, and ahead of them, since the drive was opened.
    #[serde(default)]
    pub fetched_bytes: u64,
    /// Of those, the bytes that were read.
    #[serde(default)]
    pub fetched_used_bytes: u64,
    /// Bytes that are always kept on this device.
    pub pinned_bytes: u64,
    /// What that is, and how far it is here.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// The block device.
    pub block_device: Option<String>,
    /// How it is attached.
    pub attach: Option<AttachMode>,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// Where its data lives.
    pub store: String,
    /// What the store can do.
    pub store_mode: StoreMode,
    /// Who has it.
    pub holder: Option<Holder>,
    /// When the last commit was made.
    pub last_commit_at: Option<String>,
    /// Requests to the store.
    pub requests: Requests,
    /// Bytes sent to the store.
    pub sent_bytes: u64,
    /// Bytes received from the store.
    pub received_bytes: u64,
    /// Bytes that files on the drive take, where it is mounted.
    pub used_bytes: u64,
    /// Further stores that have what the first one has.
    #[serde(default)]
    pub replicas: Vec<ReplicaStatus>,
    /// Forks that this device has, until a person decides what becomes of each.
    pub forks: Vec<Fork>,
    /// The daemon's process.
    pub daemon_pid: u32,
}

/// Where the chunks of a drive are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChunkMap {
    /// Bytes that a cell stands for.
    pub cell_bytes: u64,
    /// At most 4,096 cells, in order.
    pub cells: Vec<Cell>,
}

/// What most of a cell is; the more remarkable wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Only in the store (or never written).
    Absent,
    /// On this device.
    Cached,
    /// Always kept on this device, and all here.
    Pinned,
    /// Not in the store yet.
    Dirty,
    /// On its way to the store.
    Uploading,
}

/// What a check found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Whether all is well.
    pub ok: bool,
    /// Objects that were read.
    pub objects: u64,
    /// What is wrong, one sentence each.
    pub errors: Vec<String>,
}

/// What a collection did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// Objects that were deleted.
    pub deleted: u64,
    /// Their bytes.
    pub bytes_freed: u64,
    /// Bytes that are reached.
    pub live_bytes: u64,
    /// Bytes that are not, and are still there.
    pub garbage_bytes: u64,
}
