//! What has happened, newest first, over restarts of the daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which rows to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActivity {
    /// Only rows before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// At most so many; without, 100. 1,000 is the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only of this drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ActivityKind>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityRow {
    /// Later ones have higher numbers.
    pub id: u64,
    /// When.
    pub at: String,
    /// The drive that it is about.
    pub drive: Option<String>,
    /// What it is.
    pub kind: ActivityKind,
    /// What happened, for people.
    pub message: String,
}

/// Kinds of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// A drive was opened.
    Opened,
    /// A drive was closed.
    Closed,
    /// All changes of a drive are in the store.
    Uploaded,
    /// What no version of a drive needs was deleted from its store.
    Collected,
    /// A snapshot was taken, or is kept no more.
    Snapshot,
    /// Something is always kept here, or no more, or all of it is here.
    Pin,
    /// Another device has taken a drive over, and this one's changes are a fork.
    Conflict,
    /// The store went away, or came back.
    Network,
    /// A drive needs a person.
    Attention,
    /// A drive was added, or removed.
    Drive,
}
