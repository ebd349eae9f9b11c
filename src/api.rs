//! What the daemon and its clients say to each other: JSON over HTTP on a Unix socket.
//!
//! The socket is `daemon.sock` in the runtime directory, which only its owner can enter. `holdall daemon openapi` prints
//! the requests and these types as an OpenAPI document, as GET /v1/openapi.json does.
//!
//! A GET answers with one JSON document. What does something (POST, DELETE) answers with newline-delimited JSON: any
//! number of [`Line::Progress`], then one [`Line::Result`] or [`Line::Error`]. What is refused before it began is a
//! [`Failure`] with its HTTP status.
//!
//! **Closing the connection** of a request does not stop what would be left half done: that goes on to its end. It ends
//! the wait for the store: what is uploaded goes on in the background, what is only read (a check) ends, and what is
//! served by NBD ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

mod limits;
mod pins;
mod replicas;
mod stores;

pub use limits::*;
pub use pins::*;
pub use replicas::*;
pub use stores::*;

/// One line of a POST's answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// How far it is.
    Progress(Progress),
    /// It is done. The value's shape depends on the request.
    Result(serde_json::Value),
    /// It failed.
    Error(Failure),
}

/// How far a long operation is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// What is being done, for people: "Uploading", "Checking objects".
    pub stage: String,
    /// So much of it.
    pub done: u64,
    /// Of so much; 0 where that is not known.
    pub total: u64,
    /// What is counted.
    pub unit: Unit,
}

/// What a progress counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things.
    Items,
}

/// Why a request failed: the cause, what it means for one's data, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable, for programs.
    pub code: Code,
    /// The cause, one sentence.
    pub message: String,
    /// What it means for the data.
    pub consequence: String,
    /// What to do next, with the command where there is one.
    pub action: String,
    /// Who has the drive, where that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<Holder>>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// It did not work.
    Failed,
    /// The request makes no sense.
    Usage,
    /// No such drive, snapshot or store.
    NotFound,
    /// The drive was removed from its store, or has moved to another one.
    Gone,
    /// The name, label or store is taken.
    Exists,
    /// Another device has the drive.
    Held,
    /// The store cannot be reached.
    Offline,
    /// The access key of the store is wrong, or does not allow this.
    Credentials,
    /// The drive is encrypted, and neither its passphrase nor its recovery key was given.
    PassphraseNeeded,
    /// The passphrase or the recovery key is wrong.
    PassphraseWrong,
    /// Something is damaged.
    Corrupt,
    /// The store was written by a later version.
    Newer,
    /// The store keeps a weaker promise than others, and nobody has said that this will do.
    WeakStore,
    /// Changes are only on this computer.
    Unsent,
    /// This device's changes have become a fork.
    Conflict,
    /// Pushing is switched off.
    Paused,
    /// The drive is open, or is not open.
    State,
    /// It takes root's rights.
    Privileges,
    /// The disk or the store is full.
    Full,
    /// The daemon does not run.
    NoDaemon,
    /// It was stopped before it was done.
    Interrupted,
}

impl Code {
    /// Every one.
    pub const ALL: [Code; 21] = [
        Code::Failed,
        Code::Usage,
        Code::NotFound,
        Code::Gone,
        Code::Exists,
        Code::Held,
        Code::Offline,
        Code::Credentials,
        Code::PassphraseNeeded,
        Code::PassphraseWrong,
        Code::Corrupt,
        Code::Newer,
        Code::WeakStore,
        Code::Unsent,
        Code::Conflict,
        Code::Paused,
        Code::State,
        Code::Privileges,
        Code::Full,
        Code::NoDaemon,
        Code::Interrupted,
    ];

    /// The exit code of a command that fails so.
    pub fn exit_code(self) -> u8 {
        match self {
            Code::Failed | Code::Exists | Code::Paused | Code::State | Code::Privileges => 1,
            Code::Conflict | Code::Full | Code::NoDaemon | Code::Newer | Code::WeakStore => 1,
            Code::Usage => 2,
            Code::NotFound | Code::Gone => 3,
            Code::Held => 4,
            Code::Offline => 5,
            Code::Credentials | Code::PassphraseNeeded | Code::PassphraseWrong => 6,
            Code::Corrupt => 7,
            Code::Unsent => 8,
            // As a shell has it for a program that Ctrl-C has ended.
            Code::Interrupted => 130,
        }
    }

    /// The HTTP status of an answer that fails so.
    pub fn http_status(self) -> u16 {
        match self {
            Code::Failed | Code::Corrupt | Code::NoDaemon => 500,
            Code::Usage => 400,
            Code::NotFound => 404,
            Code::Gone => 410,
            Code::Exists | Code::Held | Code::Unsent | Code::Conflict | Code::Paused | Code::State => 409,
            Code::WeakStore => 409,
            Code::Offline | Code::Interrupted => 503,
            Code::Credentials | Code::PassphraseNeeded | Code::PassphraseWrong | Code::Privileges => 403,
            Code::Newer => 422,
            Code::Full => 507,
        }
    }
}

/// The daemon.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_ms: u64,
}

/// A result that says nothing but that it is done.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// What unlocks a family.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Secrets {
    /// The passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
    /// The recovery key, as it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_key: Option<String>,
}

impl fmt::Debug for Secrets {
    /// Says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secrets")
    }
}

/// Makes a drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Create {
    /// Its name on this device.
    pub name: String,
    /// Where its data lives.
    pub store: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether what is stored is encrypted; then a passphrase is needed.
    pub encrypt: bool,
    /// The passphrase.
    #[serde(default)]
    pub secrets: Secrets,
    /// Credentials of the store, to be kept; without, those that are kept already are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
    /// The weakest promise of a store that will do.
    #[serde(default = "claim_will_do")]
    pub weakest: StoreMode,
}

/// Of two devices that write at once never two win, which is what a drive promises.
fn claim_will_do() -> StoreMode {
    StoreMode::Claim
}

/// Makes a drive that exists already known on this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// Its name on this device.
    pub name: String,
    /// Where its data lives.
    pub store: String,
    /// What unlocks it, if it is encrypted.
    #[serde(default)]
    pub secrets: Secrets,
    /// Credentials of the store, to be kept; without, those that are kept already are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A drive that is known now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Its identity.
    pub uuid: String,
    /// What the store can do.
    pub store_mode: StoreMode,
    /// The recovery key, told once, when an encrypted drive is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_key: Option<String>,
}

/// Opens a drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// Where to mount it; without, `~/Holdall/NAME`.
    #[serde(default)]
    pub at: Option<String>,
    /// How to attach it.
    #[serde(default)]
    pub attach: AttachMode,
    /// Only look; nothing in the store changes.
    #[serde(default)]
    pub read_only: bool,
    /// The version under this label (only to look at).
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Take it even if another device has it. What that one has not uploaded becomes a fork.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
}

/// How the kernel gets at a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachMode {
    /// nbd where the kernel has it, else loop.
    #[default]
    Auto,
    /// The kernel's NBD client.
    Nbd,
    /// A loop device over a one-file FUSE disk.
    Loop,
}

/// An open drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Opened {
    /// The block device.
    pub block_device: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// How it is attached: "nbd" or "loop".
    pub attach: AttachMode,
    /// The writer's generation; 0 for a version that is only looked at.
    pub epoch: u64,
    /// The version that was opened.
    pub root: String,
    /// Why it is open only to look at, where writing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_because: Option<String>,
    /// Why it was opened without its store: what is written stays on this computer until the store is back. If another
    /// device has written to the drive by then, both versions are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_because: Option<String>,
    /// Who had it, where it was taken over.
    #[serde(default)]
    pub took_over: Option<Holder>,
    /// Forks of it that this device has.
    #[serde(default)]
    pub forks: Vec<Fork>,
}

/// Closes a drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Close {
    /// Wait until everything is in the store.
    #[serde(default)]
    pub wait: bool,
}

/// A version that is in the store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Synced {
    /// Name of its root.
    pub root: String,
    /// BLAKE3 of the root object, in hex.
    pub root_hash: String,
    /// The writer's generation.
    pub epoch: u64,
    /// The last journal record that it contains.
    pub lsn: u64,
}

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
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// Whether it is still mounted as the drive was, since programs use it. Closing the drive sets it apart.
    pub in_place: bool,
}

/// Makes a fork an ordinary drive of this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Keep {
    /// What to call it.
    pub name: String,
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

/// Grows a drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Resize {
    /// The new size.
    pub size_bytes: u64,
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

/// Changes the passphrase.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Passphrase {
    /// The new one.
    pub new_passphrase: String,
}

impl fmt::Debug for Passphrase {
    /// Says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a passphrase")
    }
}

/// Removes a drive from this device.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Remove {
    /// Delete its data in the store too.
    #[serde(default)]
    pub delete_data: bool,
    /// Give up changes that are only on this device.
    #[serde(default)]
    pub discard_unsent: bool,
}

/// Serves a drive by NBD, without attaching it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Serve {
    /// On this Unix socket ...
    #[serde(default)]
    pub socket: Option<String>,
    /// ... or on this TCP address.
    #[serde(default)]
    pub tcp: Option<String>,
    /// Allow addresses beyond loopback: whoever reaches them can read and write the drive.
    #[serde(default)]
    pub insecure: bool,
}

/// A drive that is being served.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Where: an NBD URI.
    pub uri: String,
}

/// What a look at the system found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// What was looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What.
    pub subject: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// How it is, for people.
    pub detail: String,
    /// What mends it, where something does.
    pub action: Option<String>,
    /// Whether a repair has just mended it.
    #[serde(default)]
    pub repaired: bool,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A drive's status, at most four times a second for each drive, and only when it changed.
    Drive(Box<DriveStatus>),
    /// A drive is no longer known.
    Removed {
        /// Its name.
        name: String,
    },
    /// Something that a person should know.
    Notice {
        /// The drive.
        name: String,
        /// What happened.
        message: String,
    },
}
