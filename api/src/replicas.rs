//! Replicas: additional stores that have a copy of what a drive's store has.

use super::{StoreCredentials, StoreMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaStatus {
    /// The address of its store.
    pub store: String,
    /// Its state.
    pub state: ReplicaState,
    /// The reason, for people; null if there is nothing to say.
    pub reason: Option<String>,
    /// Bytes known to be missing there.
    pub behind_bytes: u64,
    /// The newest version that is there completely.
    pub version: Option<String>,
    /// When that version was committed.
    pub committed_at: Option<String>,
}

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// It has everything that was uploaded.
    UpToDate,
    /// Data is still being copied to it.
    Behind,
    /// It cannot be reached or written to; Holdall keeps trying.
    Trouble,
    /// The drive is closed: this is the last known status.
    Closed,
}

/// A replica to add.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddReplica {
    /// The address of its store.
    pub store: String,
    /// Credentials of the store, if none are saved yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A replica.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedReplica {
    /// The address of its store.
    pub store: String,
}

/// Makes a replica the drive's store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promote {
    /// The address of the replica's store.
    pub store: String,
    /// Accept the loss of data that was uploaded but is not in the replica.
    #[serde(default)]
    pub accept_loss: bool,
    /// The weakest store mode to accept, where the drive's store now guarantees more.
    #[serde(default = "super::drive::claim_will_do")]
    pub weakest: StoreMode,
}

/// The result of a promotion.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Promoted {
    /// The drive's store from now on.
    pub store: String,
    /// The version that is now current.
    pub root: String,
    /// When it was committed.
    pub committed_at: String,
    /// Whether the former store was retired; if not, other computers may still write there.
    pub former_store_told: bool,
    /// Whether this computer had seen a later version that the replica lacks.
    pub lost_versions: bool,
}
