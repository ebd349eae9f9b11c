//! Stores, and their credentials.

use crate::{Secrets, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How well a store protects a drive that several devices use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreMode {
    /// It can do neither of the following: a drive on it is for one device at a time.
    None,
    /// It gives a name to only one device, which is as safe but takes a few more requests.
    Claim,
    /// It compares and swaps: of devices that write at once, only one wins.
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
    /// A profile in the user's own `~/.aws` files, read again whenever it is needed.
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
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("credentials")
    }
}

/// Saves credentials for a store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogIn {
    /// The store: a bucket with all its prefixes, or a WebDAV collection with everything below it.
    pub store: String,
    /// The credentials.
    pub credentials: StoreCredentials,
    /// Save them without testing them.
    #[serde(default)]
    pub unchecked: bool,
    /// Save them in a file, even where there is a keyring.
    #[serde(default)]
    pub no_keyring: bool,
}

/// Credentials that are saved. They are never shown.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreLogin {
    /// The store that they are for.
    pub store: String,
    /// The user, or the beginning of the access key.
    pub user: String,
    /// Where they are saved.
    pub kept: KeptIn,
    /// Drives of this device that use them.
    pub drives: Vec<String>,
    /// Folders of this device that use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// Where credentials are saved.
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

/// Tests what a store can do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestStore {
    /// The store.
    pub store: String,
    /// The credentials to use; if left out, the saved ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// The result of testing a store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreTested {
    /// The store.
    pub store: String,
    /// How well it protects a drive that several devices use.
    pub store_mode: StoreMode,
    /// Whether it can hold a drive at all.
    pub usable: bool,
    /// The tests and their results.
    pub findings: Vec<StoreFinding>,
    /// Why the mode is not better, and what else to know.
    pub reasons: Vec<String>,
    /// Whether there is a drive in it already.
    pub has_drive: bool,
    /// Names of some other files that are there; none where there is a drive.
    pub others: Vec<String>,
    /// A place in it for the drive alone, where other files are in the store.
    pub instead: Option<String>,
}

/// One test.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreFinding {
    /// What was tested, for people.
    pub subject: String,
    /// Whether the test passed.
    pub ok: bool,
    /// How it went, for people.
    pub detail: String,
}

/// Asks which drives a store has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FindDrives {
    /// The store.
    pub store: String,
    /// The secrets that unlock them, if they are encrypted: their names are encrypted too.
    #[serde(default)]
    pub secrets: Secrets,
    /// The credentials to use, which are not saved; if left out, the saved ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<StoreCredentials>,
}

/// A drive in a store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoreDrive {
    /// Its UUID.
    pub uuid: String,
    /// Its name there.
    pub name: String,
    /// Whether it is a fork: what a device had of another drive when that drive was taken over.
    pub is_fork: bool,
    /// Its current version, and the device that wrote it.
    pub current: Version,
    /// Whether that device still has it open.
    pub held: bool,
    /// Its name on this device, if it is known here.
    pub known_as: Option<String>,
}
