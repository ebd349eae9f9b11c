//! The status of a drive, and the results of checks.

use super::{Action, Actions, AttachMode, Fork, Pin, ReplicaStatus, Step, StoreMode};
use crate::sizes::format_bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a drive or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriveState {
    /// Open, and everything is in the store or at the remote, or on its way.
    Ready,
    /// Being opened.
    Connecting,
    /// Uploading.
    Syncing,
    /// Open, but the store cannot be reached.
    Offline,
    /// Uploads and background downloads are paused.
    Paused,
    /// Replaying the writes from before a crash.
    Recovering,
    /// Open read-only, or held by another device.
    #[serde(rename = "Read-only")]
    ReadOnly,
    /// This device's changes have become a fork, or both versions of a folder's file are kept.
    Conflict,
    /// A person has to act.
    #[serde(rename = "Needs attention")]
    NeedsAttention,
    /// Not open.
    Closed,
}

/// The device that has a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The device's id, a UUID.
    pub device: String,
    /// The device's name.
    pub name: String,
    /// Its epoch, the writer's generation.
    pub epoch: u64,
    /// When it last committed, RFC 3339, or null.
    pub last_commit_at: Option<String>,
}

/// One figure for each kind of request to the store or remote, since the drive or folder was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByKind {
    /// GETs.
    pub get: u64,
    /// PUTs, and WebDAV's MOVEs and MKCOLs.
    pub put: u64,
    /// HEADs.
    pub head: u64,
    /// Listings: each page of a bucket, each collection.
    pub list: u64,
    /// DELETEs.
    pub delete: u64,
}

/// The status of a drive. Times are RFC 3339. Figures of a drive that is not open are the last known ones, or 0.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DriveStatus {
    /// Its name on this device.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its state.
    pub state: DriveState,
    /// The reason for the state, for people; null if there is nothing to say.
    pub reason: Option<String>,
    /// What to do about it, where the state does not say it.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// The time since when it has been in this state.
    pub since: String,
    /// Whether a person has paused its uploads and background downloads.
    #[serde(default)]
    pub paused: bool,
    /// Whether uploads and downloads wait for credentials, new ones or any.
    #[serde(default)]
    pub needs_login: bool,
    /// Whether it is closed while changes that only this device has are still being uploaded automatically, as far as its state
    /// allows.
    #[serde(default)]
    pub draining: bool,
    /// The writer's generation.
    pub epoch: u64,
    /// The current version.
    pub root: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes on this device.
    pub cached_bytes: u64,
    /// Bytes that were saved here and are only in the journal yet. Together with the cache they are about what is here.
    #[serde(default)]
    pub unapplied_bytes: u64,
    /// The most bytes the cache may take.
    pub cache_limit_bytes: u64,
    /// Bytes of the drive that are not in the store.
    pub dirty_bytes: u64,
    /// Bytes that wait for upload, as the one total. It falls while they are uploaded.
    pub unpushed_bytes: u64,
    /// Whether they have been counted. If not, `unpushed_bytes` is 1 and stands for any number.
    #[serde(default = "counted")]
    pub unpushed_is_known: bool,
    /// Bytes of the drive in the batch that is being uploaded; 0 if there is none.
    #[serde(default)]
    pub batch_bytes: u64,
    /// How many of these bytes the store has received.
    #[serde(default)]
    pub batch_done_bytes: u64,
    /// Bytes of the drive that the store has received since the drive was opened.
    #[serde(default)]
    pub uploaded_bytes: u64,
    /// The garbage collection that is running in its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collecting: Option<Collecting>,
    /// What the cache holds.
    #[serde(default)]
    pub cache: CacheSplit,
    /// Age of the oldest change that is not in the store.
    pub oldest_dirty_age_ms: u64,
    /// Bytes of journal in use.
    pub journal_bytes: u64,
    /// The most bytes the journal may take.
    pub journal_limit_bytes: u64,
    /// Bytes that are requested from the store.
    pub pending_pull_bytes: u64,
    /// How many of these bytes are only prefetched, because they were read first when the drive was opened before. This can be stopped.
    #[serde(default)]
    pub prefetch_bytes: u64,
    /// Whether names of files and directories are missing here: without the store, some directories cannot be listed.
    #[serde(default)]
    pub lacks_metadata: bool,
    /// Bytes fetched for programs that read, including readahead, since the drive was opened.
    #[serde(default)]
    pub fetched_bytes: u64,
    /// How many of these bytes were read.
    #[serde(default)]
    pub fetched_used_bytes: u64,
    /// Bytes that are pinned on this device.
    pub pinned_bytes: u64,
    /// What is pinned, and how much of it is here.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// The block device.
    pub block_device: Option<String>,
    /// How it is attached.
    pub attach: Option<AttachMode>,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// Where its data is stored.
    pub store: String,
    /// The HTTP proxy through which the store is reached, as host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// What the store can do.
    pub store_mode: StoreMode,
    /// The device that has it.
    pub holder: Option<Holder>,
    /// When the last commit was made.
    pub last_commit_at: Option<String>,
    /// Requests to its stores since the drive was opened, including those for opening it.
    pub requests: ByKind,
    /// Bytes of bodies sent with its requests.
    pub sent_bytes: u64,
    /// Bytes of bodies received for its requests.
    pub received_bytes: u64,
    /// The bytes sent, by kind of request.
    #[serde(default)]
    pub sent_by_kind: ByKind,
    /// The bytes received, by kind of request.
    #[serde(default)]
    pub received_by_kind: ByKind,
    /// Bytes that files on the drive take, where it is mounted.
    pub used_bytes: u64,
    /// Additional stores that have a copy of what the store has.
    #[serde(default)]
    pub replicas: Vec<ReplicaStatus>,
    /// Forks that this device has, until a person decides about each.
    pub forks: Vec<Fork>,
    /// The daemon's process.
    pub daemon_pid: u32,
}

/// How far a running garbage collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collecting {
    /// What it is doing.
    pub stage: CollectingStage,
    /// Objects of this stage that are done.
    pub done: u64,
    /// Objects of this stage in total; 0 while not known.
    pub total: u64,
}

/// The stages of a garbage collection, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollectingStage {
    /// Finding the data that no version of the drive needs.
    Looking,
    /// Deleting that data.
    Deleting,
    /// Moving data that is needed out of objects that are mostly garbage.
    Repacking,
}

/// What to do about the state of a drive or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// What the state means for the data; null where the state says it.
    pub consequence: Option<String>,
    /// What to do, for people at a terminal: the sentences of `actions`.
    pub action: String,
    /// What to do, as data.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// The same actions for people at a page.
    #[serde(default)]
    pub on_screen: Vec<Step>,
}

impl Advice {
    /// Advice with a consequence for the data and the actions.
    pub fn new(consequence: Option<String>, actions: impl Into<Actions>, on_screen: Vec<Step>) -> Self {
        let actions = actions.into();
        Self { consequence, action: actions.sentences(), actions: actions.0, on_screen }
    }
}

/// The default for answers of daemons from before there was an uncounted amount.
fn counted() -> bool {
    true
}

impl DriveStatus {
    /// Sets the amount that is left to upload: this many bytes, or 0 if it was not counted.
    pub fn set_unsent(&mut self, counted: u64) {
        (self.unpushed_bytes, self.unpushed_is_known) = (counted.max(1), counted > 0);
    }

    /// What waits for upload, for people: its size, or "some changes" if it was not counted.
    pub fn unsent(&self) -> String {
        if self.unpushed_is_known { format_bytes(self.unpushed_bytes) } else { "some changes".to_owned() }
    }

    /// About how many bytes are on this computer: data that was just overwritten counts twice.
    pub fn local_bytes(&self) -> u64 {
        let most = if self.used_bytes > 0 { self.used_bytes.max(self.cached_bytes) } else { u64::MAX };
        (self.cached_bytes + self.unapplied_bytes).min(most)
    }
}

/// The contents of a drive's cache. The four add up to `cached_bytes`; bytes that belong to several count for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSplit {
    /// Changes that are not in the store yet; they stay.
    pub dirty_bytes: u64,
    /// Pinned data.
    pub pinned_bytes: u64,
    /// Directories and names of files; they stay, so that listings need no store.
    pub metadata_bytes: u64,
    /// Data that the store has too; it is evicted when space is needed.
    pub evictable_bytes: u64,
}

/// An object that waits for upload, or is being uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// Its kind.
    pub kind: QueuedKind,
    /// Its size in bytes. Changes that are not packed yet count as many bytes as in the journal.
    pub bytes: u64,
    /// How often it was tried; 0 for changes that are not packed yet.
    pub tries: u32,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When it is tried again; null while it is being tried, and before its turn.
    pub next_try_at: Option<String>,
}

/// Kinds of objects to upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuedKind {
    /// A part of the drive's data, packed.
    Segment,
    /// The object that makes the parts a version.
    Root,
    /// The object that makes that version the current one.
    Head,
    /// Changes that are not packed yet.
    Changes,
}

/// Where the chunks of a drive are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChunkMap {
    /// Bytes of the drive for each cell.
    pub cell_bytes: u64,
    /// At most 4,096 cells, in order. A cell shows the most remarkable state of anything in it, however little of it is in that state.
    pub cells: Vec<Cell>,
    /// The true bytes in each state.
    pub bytes: CellBytes,
}

/// The bytes in each state of a [`Cell`]. Each block is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellBytes {
    /// Only in the store. Free space is not counted, if it is known what files use.
    pub absent: u64,
    /// On this device.
    pub cached: u64,
    /// On this device, and pinned.
    pub pinned: u64,
    /// Not in the store yet.
    pub dirty: u64,
    /// On its way to the store.
    pub uploading: u64,
    /// Not accepted by the store (it is safe on this device), or returned damaged.
    pub failed: u64,
    /// On this device, but empty: it takes no space.
    pub empty: u64,
}

impl CellBytes {
    /// The bytes in a state.
    pub fn of(&self, state: Cell) -> u64 {
        match state {
            Cell::Absent => self.absent,
            Cell::Cached => self.cached,
            Cell::Pinned => self.pinned,
            Cell::Dirty => self.dirty,
            Cell::Uploading => self.uploading,
            Cell::Failed => self.failed,
            Cell::Empty => self.empty,
        }
    }
}

/// The state of a cell. If several apply, the most remarkable one is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Only in the store.
    Absent,
    /// On this device.
    Cached,
    /// Some of it is pinned, and all of that is here.
    Pinned,
    /// Not in the store yet.
    Dirty,
    /// On its way to the store.
    Uploading,
    /// The store did not accept it (it is safe on this device), or returned damaged data. Holdall tries again.
    Failed,
    /// On this device, but empty: it takes no space.
    Empty,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Whether all is well.
    pub ok: bool,
    /// Objects that were read.
    pub objects: u64,
    /// The problems, one sentence each.
    pub errors: Vec<String>,
    /// Names of objects in the store that do not belong to Holdall. They do no harm.
    #[serde(default)]
    pub foreign: Vec<String>,
}

/// The result of a garbage collection.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// Objects that were deleted.
    pub deleted: u64,
    /// Their bytes.
    pub bytes_freed: u64,
    /// Bytes that are in use.
    pub live_bytes: u64,
    /// Bytes that are not in use and are still there.
    pub garbage_bytes: u64,
}
