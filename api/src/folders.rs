//! Folders: the files of a bucket prefix, a WebDAV collection or a directory, mounted as they are. One object is one file.

use super::{Advice, ByKind, DriveState, StoreCredentials};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Opens a folder: one that this device knows, or the files at an address.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenFolder {
    /// The address of its files, or the name or address of a folder that this device knows.
    pub folder: String,
    /// The name that it gets on this device. If left out, a new folder is named after the last part of its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where to mount it: an absolute path, or one that begins with `~/`. If left out, the last mount point given, or `~/Holdall/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Open it read-only; nothing at the remote changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Serve every file by the daemon, also those that the kernel could read and write by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_passthrough: bool,
    /// Credentials of the remote, to be saved; if left out, the saved ones are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// Where the files of a folder are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FolderKind {
    /// Objects below a prefix of an S3 bucket.
    S3,
    /// A WebDAV collection.
    Dav,
    /// A directory of this computer.
    File,
}

/// The status of a folder. Times are RFC 3339. Figures of a folder that is not open are the last known ones, or 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FolderStatus {
    /// Its name on this device.
    pub name: String,
    /// Its UUID on this device.
    pub uuid: String,
    /// The address of its files.
    pub url: String,
    /// Where its files are.
    pub kind: FolderKind,
    /// Its state.
    pub state: DriveState,
    /// The reason for the state, for people; null if there is nothing to say.
    pub reason: Option<String>,
    /// What to do about it, where the state does not say it.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// The time since when it has been in this state.
    pub since: String,
    /// Whether a person has paused its uploads.
    #[serde(default)]
    pub paused: bool,
    /// Whether uploads and downloads wait for credentials, new ones or any.
    #[serde(default)]
    pub needs_login: bool,
    /// Whether it is closed while changes that only this device has are still being uploaded.
    #[serde(default)]
    pub draining: bool,
    /// Whether this device may have changes that are not at the remote.
    #[serde(default)]
    pub unsent: bool,
    /// Where it is mounted; null while it is not.
    pub mountpoint: Option<String>,
    /// Whether nothing can be written: it was opened so, or the account may not write.
    pub read_only: bool,
    /// Whether the kernel reads and writes files that are wholly here by itself.
    pub passthrough: Passthrough,
    /// Files and directories that are known.
    pub known_files: u64,
    /// Bytes on this device that the remote has too.
    pub cached_bytes: u64,
    /// Bytes on this device that the remote does not have.
    pub dirty_bytes: u64,
    /// What waits for upload, in numbers.
    pub queue: FolderQueueCounts,
    /// Conflicts that wait for a person's decision.
    pub conflicts: u64,
    /// Files that were deleted at the remote, so many at once that a person has to confirm it. They stay here until then.
    pub held_deletions: u64,
    /// Bytes that are pinned on this device.
    pub pinned_bytes: u64,
    /// Requests to the remote since the folder was opened, including those for opening it.
    pub requests: ByKind,
    /// Bytes of bodies sent with its requests.
    pub sent_bytes: u64,
    /// Bytes of bodies received for its requests.
    pub received_bytes: u64,
    /// When something was uploaded last.
    pub last_uploaded_at: Option<String>,
    /// The daemon's process.
    pub daemon_pid: u32,
    /// What a watched directory has; null for a folder that is mounted. A watched directory is named by its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchedDirectory>,
}

/// A directory of this computer that is kept in a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedDirectory {
    /// Where it is.
    pub directory: String,
    /// Whether changes of the remote come here, too.
    pub two_way: bool,
    /// Files that cannot be synchronized, here or at the remote, because of their names or kinds.
    pub left_out: u64,
    /// The paths of the first.
    pub left_out_paths: Vec<String>,
    /// Files that were changed at the remote, and that a directory which is kept one way leaves alone.
    pub changed_at_remote: u64,
    /// Held deletions of files that are gone here, and stay at the remote.
    pub held_at_remote: u64,
    /// Why the kernel does not tell of changes, so that the directory is looked at every minute; null if it does.
    pub no_events_because: Option<String>,
}

/// Watches a directory of this computer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchDirectory {
    /// The directory: an absolute path.
    pub directory: String,
    /// The address of the remote that it is kept in.
    pub url: String,
    /// Bring changes of the remote here, too.
    #[serde(default)]
    pub two_way: bool,
    /// Credentials of the remote, to be saved; if left out, the saved ones are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// Whether the kernel reads and writes files that are wholly on this device by itself, at the speed of the local disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Passthrough {
    /// Whether it does.
    pub on: bool,
    /// Why not, for people; null if it does, and while the folder is not mounted.
    pub why: Option<String>,
}

/// Files and directories that differ from the remote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderQueueCounts {
    /// Those that wait for their turn.
    pub waiting: u64,
    /// Those under way.
    pub uploading: u64,
    /// Those whose last try failed.
    pub failed: u64,
    /// Those that programs still write to. They are uploaded after the last program has closed them.
    pub in_use: u64,
}

impl FolderQueueCounts {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.waiting + self.uploading + self.failed + self.in_use
    }
}

/// The upload queue of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderQueue {
    /// All of it in numbers.
    #[serde(flatten)]
    pub counts: FolderQueueCounts,
    /// Bytes that are not at the remote.
    pub bytes: u64,
    /// Why nothing can be uploaded now; null if it can.
    pub trouble: Option<String>,
    /// At most 1,000 of them: first those under way, then failed ones, then the oldest.
    pub items: Vec<FolderQueued>,
}

/// A file or directory that differs from the remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderQueued {
    /// Its path in the folder. If it was removed here, the path that it has at the remote.
    pub path: String,
    /// What is done at the remote.
    pub change: FolderChange,
    /// Bytes to upload.
    pub bytes: u64,
    /// How many of them were sent.
    pub sent_bytes: u64,
    /// How far it is.
    pub state: FolderQueuedState,
    /// Why the last try failed, or who still uses it.
    pub reason: Option<String>,
    /// When it is tried again by itself; null if that is not known, or needs a person.
    pub next_try_at: Option<String>,
    /// When it began to differ.
    pub since: String,
}

/// What is done at the remote for a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FolderChange {
    /// Its bytes are uploaded.
    Upload,
    /// A directory is made.
    MakeDirectory,
    /// It is moved.
    Move,
    /// It is removed.
    Remove,
    /// Its attributes are set.
    Attributes,
    /// It comes from the remote to a watched directory.
    Download,
}

/// How far the upload of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FolderQueuedState {
    /// It waits for its turn.
    Waiting,
    /// It is under way.
    Uploading,
    /// A program still writes to it.
    InUse,
    /// The last try failed.
    Failed,
}

/// Two programs have changed a file, one here and one at the remote. Both versions are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderConflict {
    /// The path of the remote's version.
    pub path: String,
    /// The path under which this device's version is kept.
    pub kept_as: String,
    /// When it was found.
    pub at: String,
    /// Length of this device's version, in bytes.
    pub our_bytes: u64,
    /// Length of the remote's version, in bytes.
    pub their_bytes: u64,
    /// When the remote's version was written, where the remote says so.
    pub their_time: Option<String>,
}

/// Settles a conflict.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepVersion {
    /// The path in the folder that either version has.
    pub path: String,
    /// Which one is kept.
    pub keep: WhichVersion,
}

/// The versions of a file in conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhichVersion {
    /// This device's takes the name, and the remote's is deleted.
    Mine,
    /// The remote's stays, and this device's is deleted.
    Theirs,
    /// Both stay, each under its name.
    Both,
}

/// Files that were deleted at the remote, so many at once that a person has to confirm it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDeletions {
    /// How many there are.
    pub count: u64,
    /// The paths of the first.
    pub paths: Vec<String>,
    /// When they were found; null if there are none.
    pub at: Option<String>,
}

/// What came of held deletions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletionsSettled {
    /// Files that are gone here too.
    pub removed: u64,
    /// Files that are uploaded again.
    pub restored: u64,
    /// Files that cannot be restored, because not all of their bytes are here.
    pub lost: u64,
}

/// An open folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FolderOpened {
    /// Its status now.
    #[serde(flatten)]
    pub folder: FolderStatus,
    /// Whether it was already open as requested. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// Why the remote could not be reached. Files that are here can be used, and changes are uploaded once it is back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_because: Option<String>,
    /// Why it is read-only although writing was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_because: Option<String>,
}

/// A closed folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FolderClosed {
    /// Its status now.
    #[serde(flatten)]
    pub folder: FolderStatus,
    /// Whether it was already closed. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
}

/// Forgets a folder: its files on this device are deleted, and nothing at the remote changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetFolder {
    /// Discard changes that are only on this device, conflicts that nobody has settled, and files whose deletion is held.
    #[serde(default)]
    pub discard_unsent: bool,
}
