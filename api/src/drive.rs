//! Requests about a drive as a whole, and their answers.

use super::{DriveStatus, Fork, Holder, StoreCredentials, StoreMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The secrets that unlock a family.
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
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secrets")
    }
}

/// Creates a drive.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Create {
    /// Its name on this device.
    pub name: String,
    /// Where its data is stored.
    pub store: String,
    /// Its size; 1 TiB if left out. A drive takes only the space that its files use, and can be grown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether to encrypt what is stored; this needs a passphrase.
    pub encrypt: bool,
    /// The passphrase.
    #[serde(default)]
    pub secrets: Secrets,
    /// Credentials of the store, to be saved; if left out, the saved ones are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
    /// The weakest store mode to accept.
    #[serde(default = "claim_will_do")]
    pub weakest: StoreMode,
    /// Whether to accept a directory that Syncthing, Dropbox or Nextcloud keeps in sync. Two computers could then take the drive at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_synced_folder: bool,
    /// Whether to accept a place where others have files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
}

/// A drive promises that of two devices that write at once never both win.
pub(crate) fn claim_will_do() -> StoreMode {
    StoreMode::Claim
}

/// Makes an existing drive known on this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// Its name on this device.
    pub name: String,
    /// Where its data is stored.
    pub store: String,
    /// Which of the drives in the store: its name there, or its UUID. If left out, the drive named `name`, or the only one that is no fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// The secrets that unlock it, if it is encrypted.
    #[serde(default)]
    pub secrets: Secrets,
    /// Credentials of the store, to be saved; if left out, the saved ones are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A drive that is now known on this device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Its UUID.
    pub uuid: String,
    /// What the store can do.
    pub store_mode: StoreMode,
    /// Whether the drive is encrypted. If not, anyone who can read the store can read the files.
    pub encrypted: bool,
    /// Its size, if it was created by this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The recovery key, shown only once, when an encrypted drive is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_key: Option<String>,
}

/// Opens a drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// Where to mount it: an absolute path, or one that begins with `~/`. If left out, the last mount point given, or `~/Holdall/NAME`.
    #[serde(default)]
    pub at: Option<String>,
    /// How to attach it.
    #[serde(default)]
    pub attach: AttachMode,
    /// Open it read-only; nothing in the store changes.
    #[serde(default)]
    pub read_only: bool,
    /// The version with this label (read-only).
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Take it even if another device has it. Changes which that device has not uploaded become a fork.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
    /// Take it over only from this holder, which was shown to the user. If another holder has it by now, the request fails with
    /// `held`, which names that holder, and nothing is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take_over_from: Option<TakeOverFrom>,
    /// Open the store's version although it lacks changes that this device has seen (`diverged`). Changes that only this device has are set
    /// aside and kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_aside: bool,
}

/// The holder of a drive, as it was shown to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeOverFrom {
    /// The device's id, a UUID.
    pub device: String,
    /// Its epoch.
    pub epoch: u64,
}

/// How to attach a drive to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachMode {
    /// nbd where the kernel has it, otherwise loop.
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
    /// Whether it was already open as requested. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// The block device.
    pub block_device: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// How it is attached: "nbd" or "loop".
    pub attach: AttachMode,
    /// The writer's generation; 0 for a version opened read-only.
    pub epoch: u64,
    /// The version that was opened.
    pub root: String,
    /// Why it is open read-only although writing was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_because: Option<String>,
    /// Why it was opened without its store. Changes then stay on this computer until the store is back. If another device has written to
    /// the drive by then, both versions are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_because: Option<String>,
    /// The holder from which it was taken over.
    #[serde(default)]
    pub took_over: Option<Holder>,
    /// Its forks that this device has.
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
    /// Its status now.
    #[serde(flatten)]
    pub drive: DriveStatus,
    /// Whether it was already closed. Then nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
}

/// A version that is in the store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Synced {
    /// The name of its root.
    pub root: String,
    /// BLAKE3 of the root object, in hex.
    pub root_hash: String,
    /// The writer's generation.
    pub epoch: u64,
    /// The LSN of the last journal record that it contains.
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
    /// The new passphrase.
    pub new_passphrase: String,
}

impl fmt::Debug for Passphrase {
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a passphrase")
    }
}

/// A recovery key, shown only once.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryKey {
    /// The key. It opens the drive when the passphrase is lost.
    pub recovery_key: String,
    /// Whether the old key could not be revoked, and still opens the drive.
    #[serde(default)]
    pub former_stays: bool,
}

impl fmt::Debug for RecoveryKey {
    /// Shows nothing.
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
    /// Discard changes that are only on this device.
    #[serde(default)]
    pub discard_unsent: bool,
}

/// The result of removing a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// What its store still has of the drive and its family, for people; null where nothing was to be deleted there.
    pub left: Option<String>,
    /// What to do there next.
    pub action: Option<String>,
}

/// Serves a drive over NBD, without attaching it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Serve {
    /// On this Unix socket ...
    #[serde(default)]
    pub socket: Option<String>,
    /// ... or on this TCP address.
    #[serde(default)]
    pub tcp: Option<String>,
    /// Allow addresses beyond loopback: anyone who can reach them can read and write the drive.
    #[serde(default)]
    pub insecure: bool,
}

/// A drive that is being served.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// The NBD URI.
    pub uri: String,
}
