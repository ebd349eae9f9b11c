//! What is asked of a drive as a whole, and what is answered.

use super::{DriveStatus, Fork, Holder, StoreCredentials, StoreMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Its size; without, 1 TiB. A drive takes only the space that its files use, and can be grown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
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
    /// Whether a directory will do that Syncthing, Dropbox or Nextcloud keeps in sync. Two computers may then both take the drive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_synced_folder: bool,
    /// Whether a place will do where others have files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
}

/// Of two devices that write at once never two win, which is what a drive promises.
pub(crate) fn claim_will_do() -> StoreMode {
    StoreMode::Claim
}

/// Makes a drive that exists already known on this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// Its name on this device.
    pub name: String,
    /// Where its data lives.
    pub store: String,
    /// Which of the drives in the store: its name there, or its identity. Without, the one that has the name `name`, or the
    /// only one that is no fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
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
    /// Whether the drive is encrypted. If not, anyone who can read the store can read the files.
    pub encrypted: bool,
    /// Its size, where it was made now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The recovery key, told once, when an encrypted drive is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_key: Option<String>,
}

/// Opens a drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// Where to mount it: an absolute path, or one that begins with `~/`; without, where that was said last,
    /// or `~/Holdall/NAME`.
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
    /// The holder from which a person agreed to take the drive. If it is another one by now, nothing is taken, and the failure (`held`)
    /// names that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take_over_from: Option<TakeOverFrom>,
    /// Open the store's version although it lacks changes that this device has seen (`diverged`). What only this device has is set
    /// aside, and kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_aside: bool,
}

/// The holder of a drive as a person has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeOverFrom {
    /// The device's id, a UUID.
    pub device: String,
    /// Its epoch.
    pub epoch: u64,
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
    /// Whether it was open before, as asked for. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
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

/// A closed drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// How it is now.
    #[serde(flatten)]
    pub drive: DriveStatus,
    /// Whether it was closed before. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
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

/// Grows a drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Resize {
    /// The new size.
    pub size_bytes: u64,
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

/// A recovery key, told once.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryKey {
    /// It opens the drive when the passphrase is lost.
    pub recovery_key: String,
    /// Whether the former one could not be taken away, and still opens it.
    #[serde(default)]
    pub former_stays: bool,
}

impl fmt::Debug for RecoveryKey {
    /// Says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a recovery key")
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

/// What became of a drive that was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// What its store still has of it and of its family, for people; null where nothing was to be deleted there.
    pub left: Option<String>,
    /// What to do there next.
    pub action: Option<String>,
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
