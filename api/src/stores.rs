//! Stores, and who logs in to them.

use crate::{Secrets, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a store can do for several devices that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreMode {
    /// It can do neither of these: a drive on it is for one device at a time.
    None,
    /// It gives a name to one only, which does as well with some more requests.
    Claim,
    /// It compares and swaps: of devices that write at once never two win.
    Swap,
}

/// Credentials of a store.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreCredentials {
    /// A key pair for S3.
    S3 {
        /// The access key.
        access_key: String,
        /// The secret key.
        secret_key: String,
        /// The session token of temporary credentials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_token: Option<String>,
    },
    /// A profile in the user's own `~/.aws` files, read anew whenever it is needed.
    S3Profile {
        /// Its name.
        profile: String,
    },
    /// A user and a password for WebDAV.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A bearer token for WebDAV.
    Bearer {
        /// The token.
        token: String,
    },
}

impl fmt::Debug for StoreCredentials {
    /// Says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("credentials")
    }
}

/// Keeps credentials for a store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogIn {
    /// The store: a bucket with all its prefixes, or a WebDAV collection with all that is below it.
    pub store: String,
    /// The credentials.
    pub credentials: StoreCredentials,
    /// Keep them without trying them.
    #[serde(default)]
    pub unchecked: bool,
    /// Keep them in a file, even where there is a keyring.
    #[serde(default)]
    pub no_keyring: bool,
}

/// Credentials that are kept. They are never told.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreLogin {
    /// What they are for.
    pub store: String,
    /// The user, or what the access key begins with.
    pub user: String,
    /// Where they are.
    pub kept: KeptIn,
    /// Drives of this device that use them.
    pub drives: Vec<String>,
}

/// Where credentials are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptIn {
    /// In the keyring of the desktop (Secret Service).
    Keyring,
    /// In a file that only its owner can read.
    File,
}

/// Forgets the credentials for a store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogOut {
    /// The store.
    pub store: String,
}

/// Tries what a store can do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestStore {
    /// The store.
    pub store: String,
    /// With these credentials; without, with those that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// What a store can do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreTested {
    /// The store.
    pub store: String,
    /// What it can do for several devices.
    pub store_mode: StoreMode,
    /// Whether a drive can be there at all.
    pub usable: bool,
    /// What was tried.
    pub findings: Vec<StoreFinding>,
    /// Why it is not a better mode, and what else one should know.
    pub reasons: Vec<String>,
    /// Whether there is a drive already.
    pub has_drive: bool,
    /// Names of some files that others have there; none where there is a drive.
    pub others: Vec<String>,
    /// A place in it for a drive alone, where others have files.
    pub instead: Option<String>,
}

/// One thing that was tried.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreFinding {
    /// What, for people.
    pub subject: String,
    /// Whether it is so.
    pub ok: bool,
    /// How it went, for people.
    pub detail: String,
}

/// Asks which drives a store has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FindDrives {
    /// The store.
    pub store: String,
    /// What unlocks them, if they are encrypted: their names are sealed too.
    #[serde(default)]
    pub secrets: Secrets,
    /// With these credentials, which are not kept; without, with those that are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A drive that a store has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreDrive {
    /// Its identity.
    pub uuid: String,
    /// Its name there.
    pub name: String,
    /// Whether it is what a device had of another drive when that was taken over.
    pub is_fork: bool,
    /// Its current version, and the device that has written it.
    pub current: Version,
    /// Whether that device still has it open.
    pub held: bool,
    /// What it is called on this device, where it is known.
    pub known_as: Option<String>,
}
