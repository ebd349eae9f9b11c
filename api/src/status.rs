//! How a drive is, and what a look at it found.

use super::{Action, Actions, AttachMode, Fork, Pin, ReplicaStatus, Step, StoreMode};
use crate::sizes::format_bytes;
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
    /// The device's id, a UUID.
    pub device: String,
    /// The device's name.
    pub name: String,
    /// Its generation.
    pub epoch: u64,
    /// When it last committed, RFC 3339, or null.
    pub last_commit_at: Option<String>,
}

/// A figure for each kind of request to the store since the drive was opened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
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
    /// What to do about it, where that is more than its state says.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// Since when.
    pub since: String,
    /// Whether a person has switched uploads and background downloads of it off.
    #[serde(default)]
    pub paused: bool,
    /// Whether other credentials help, or any: uploads and downloads wait for them.
    #[serde(default)]
    pub needs_login: bool,
    /// Whether it is closed, and what only this device has goes on being uploaded without anybody's doing, as far as its state lets it.
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
    /// Bytes that were saved here and are in the journal alone yet. With those of the cache they are about what is here.
    #[serde(default)]
    pub unapplied_bytes: u64,
    /// Bytes that the cache may take.
    pub cache_limit_bytes: u64,
    /// Bytes of the drive that are not in the store.
    pub dirty_bytes: u64,
    /// Bytes that wait for upload: the one figure of that. It falls as they are uploaded.
    pub unpushed_bytes: u64,
    /// Whether somebody has counted them: else `unpushed_bytes` is 1 and stands for whatever there may be.
    #[serde(default = "counted")]
    pub unpushed_is_known: bool,
    /// Bytes of the drive in the batch that is being uploaded; 0 where none is.
    #[serde(default)]
    pub batch_bytes: u64,
    /// Of those, the bytes that the store has taken.
    #[serde(default)]
    pub batch_done_bytes: u64,
    /// Bytes of the drive that the store has taken since the drive was opened.
    #[serde(default)]
    pub uploaded_bytes: u64,
    /// The collection of garbage in its store that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collecting: Option<Collecting>,
    /// What the cache holds.
    #[serde(default)]
    pub cache: CacheSplit,
    /// Age of the oldest of them.
    pub oldest_dirty_age_ms: u64,
    /// Bytes of journal in use.
    pub journal_bytes: u64,
    /// Bytes that the journal may take.
    pub journal_limit_bytes: u64,
    /// Bytes that are wanted from the store.
    pub pending_pull_bytes: u64,
    /// Of those, what is fetched ahead only because it was read first at the last openings. It can be stopped.
    #[serde(default)]
    pub prefetch_bytes: u64,
    /// Whether names of files and folders are missing here: without the store some folders cannot be listed.
    #[serde(default)]
    pub lacks_metadata: bool,
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
    /// The HTTP proxy through which the store is asked, as host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// What the store can do.
    pub store_mode: StoreMode,
    /// Who has it.
    pub holder: Option<Holder>,
    /// When the last commit was made.
    pub last_commit_at: Option<String>,
    /// Requests to its stores since the drive was opened, with those that the opening took.
    pub requests: ByKind,
    /// Bytes of bodies sent with its requests.
    pub sent_bytes: u64,
    /// Bytes of bodies received for its requests.
    pub received_bytes: u64,
    /// Those that were sent, by kind of request.
    #[serde(default)]
    pub sent_by_kind: ByKind,
    /// Those that were received, by kind of request.
    #[serde(default)]
    pub received_by_kind: ByKind,
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

/// How far a collection of garbage is that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collecting {
    /// What is being done.
    pub stage: CollectingStage,
    /// Objects of this stage that are done.
    pub done: u64,
    /// How many there are; 0 where nobody knows yet.
    pub total: u64,
}

/// What a collection of garbage does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollectingStage {
    /// It finds what no version of the drive needs.
    Looking,
    /// It deletes that.
    Deleting,
    /// It moves what is needed out of objects that are mostly garbage.
    Repacking,
}

/// What to do about the state of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// What has happened means this for the data; null where the state says it.
    pub consequence: Option<String>,
    /// What to do, for people at a terminal: the sentences of `actions`.
    pub action: String,
    /// What to do, as data.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// The actions for people at a page.
    #[serde(default)]
    pub on_screen: Vec<Step>,
}

impl Advice {
    /// What happened means this for the data, and asks for that.
    pub fn new(consequence: Option<String>, actions: impl Into<Actions>, on_screen: Vec<Step>) -> Self {
        let actions = actions.into();
        Self { consequence, action: actions.sentences(), actions: actions.0, on_screen }
    }
}

/// What was told before there was anything that nobody has counted.
fn counted() -> bool {
    true
}

impl DriveStatus {
    /// Something is left to upload: so many bytes, or 0 where nobody has counted them.
    pub fn set_unsent(&mut self, counted: u64) {
        (self.unpushed_bytes, self.unpushed_is_known) = (counted.max(1), counted > 0);
    }

    /// What waits for upload, for people: its size, or something that nobody has counted.
    pub fn unsent(&self) -> String {
        if self.unpushed_is_known { format_bytes(self.unpushed_bytes) } else { "some changes".to_owned() }
    }

    /// Bytes that are on this computer, about: what was rewritten a moment ago counts twice.
    pub fn local_bytes(&self) -> u64 {
        let most = if self.used_bytes > 0 { self.used_bytes.max(self.cached_bytes) } else { u64::MAX };
        (self.cached_bytes + self.unapplied_bytes).min(most)
    }
}

/// What the cache of a drive holds. The four make `cached_bytes`; what is several of them counts for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSplit {
    /// Changes that are not in the store yet: they stay.
    pub dirty_bytes: u64,
    /// What is always kept on this device.
    pub pinned_bytes: u64,
    /// Folders and names of files: they stay, so that listings need no store.
    pub metadata_bytes: u64,
    /// The store has it too: it goes when the room is needed.
    pub evictable_bytes: u64,
}

/// An object that waits to be uploaded, or is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// What it is.
    pub kind: QueuedKind,
    /// Its bytes. What is not packed yet is counted as the journal has it.
    pub bytes: u64,
    /// How often it was tried; 0 for what is not packed yet.
    pub tries: u32,
    /// Why the store did not take it, the last time.
    pub last_error: Option<String>,
    /// When it is tried again; null while it is being tried, and for what waits for its turn.
    pub next_try_at: Option<String>,
}

/// What waits to be uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuedKind {
    /// A part of the drive's data, packed.
    Segment,
    /// What makes the parts a version.
    Root,
    /// What makes that version the current one.
    Head,
    /// Changes that are not packed yet.
    Changes,
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
    /// Only in the store.
    Absent,
    /// On this device.
    Cached,
    /// Something in it is always kept on this device, and all of that is here.
    Pinned,
    /// Not in the store yet.
    Dirty,
    /// On its way to the store.
    Uploading,
    /// The store did not take it, which is safe on this device, or what it gave was damaged. It is tried again.
    Failed,
    /// On this device, and nothing is in it: it takes no room.
    Empty,
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
    /// Names of objects in the store that are not Holdall's. They do no harm.
    #[serde(default)]
    pub foreign: Vec<String>,
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
