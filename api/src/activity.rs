//! What has happened, newest first, across restarts of the daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which rows to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActivity {
    /// Only rows with a lower id than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// How many rows to list; 100 if left out, 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only rows of this drive or folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Only rows of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ActivityKind>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityRow {
    /// Later rows have higher numbers.
    pub id: u64,
    /// When it happened.
    pub at: String,
    /// The drive that it is about.
    pub drive: Option<String>,
    /// The folder that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its kind.
    pub kind: ActivityKind,
    /// What happened, for people.
    pub message: String,
}

/// Kinds of activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// A drive or folder was opened.
    Opened,
    /// A drive or folder was closed.
    Closed,
    /// All changes of a drive are in the store, or files of a folder at the remote.
    Uploaded,
    /// Data that no version of a drive needs was deleted from its store.
    Collected,
    /// A snapshot was taken or deleted.
    Snapshot,
    /// Files were pinned or unpinned, or all of a pin is here now.
    Pin,
    /// Another device took a drive over, and this device's changes became a fork; or both versions of a folder's file are kept.
    Conflict,
    /// The store became unreachable, or reachable again.
    Network,
    /// A drive or folder needs a person's attention.
    Attention,
    /// A drive was added or removed.
    Drive,
    /// A folder was added or forgotten.
    Folder,
    /// Files of a folder were deleted at the remote, so many at once that a person has to confirm it; or a person has decided about them.
    Deletions,
}
