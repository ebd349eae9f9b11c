//! Replicas: further stores that have what a drive's store has.

use super::{StoreCredentials, StoreMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a replica is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaStatus {
    /// Where it is.
    pub store: String,
    /// How it stands.
    pub state: ReplicaState,
    /// Why, for people; null where there is nothing to say.
    pub reason: Option<String>,
    /// Bytes known to be missing there.
    pub behind_bytes: u64,
    /// The newest version that is there whole.
    pub version: Option<String>,
    /// When that was committed.
    pub committed_at: Option<String>,
}

/// How a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// It has everything that was uploaded.
    UpToDate,
    /// Something is on its way to it.
    Behind,
    /// It cannot be reached or written to; it is tried again.
    Trouble,
    /// The drive is closed: this is what is known of it.
    Closed,
}

/// A replica to add.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddReplica {
    /// Where it is to be.
    pub store: String,
    /// Who asks there, where nobody is logged in yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A replica.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedReplica {
    /// Where it is.
    pub store: String,
}

/// A replica that is to become the drive's store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promote {
    /// Where it is.
    pub store: String,
    /// What was uploaded and is not in the replica may be lost.
    #[serde(default)]
    pub accept_loss: bool,
    /// The weakest promise of a store that will do, where the drive's store now promises more.
    #[serde(default = "super::drive::claim_will_do")]
    pub weakest: StoreMode,
}

/// What a promotion came to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Promoted {
    /// The drive's store from now on.
    pub store: String,
    /// The version that is current now.
    pub root: String,
    /// When it was committed.
    pub committed_at: String,
    /// Whether the former store was told; else other computers may still write there.
    pub former_store_told: bool,
    /// Whether this computer had seen a later version, which the replica does not have.
    pub lost_versions: bool,
}
