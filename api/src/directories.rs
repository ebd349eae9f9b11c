//! Directories of this computer, for whoever chooses one on a page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which directory to look into.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDirectories {
    /// An absolute path, or one that begins with `~/`; nothing is the user's home.
    #[serde(default)]
    pub path: String,
}

/// What directories are in one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Directories {
    /// Which was looked into: the one that was asked for, or the nearest above it that is there.
    pub path: String,
    /// What it lies in; null at the top.
    pub parent: Option<String>,
    /// Names of directories in it, in order. They may hold any character but a slash.
    pub names: Vec<String>,
    /// Directories that are not named: those beyond the longest list, and those whose names are not UTF-8.
    pub left_out: u64,
    /// Whether one can be created in it.
    pub writable: bool,
}

/// Creates a directory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDirectory {
    /// The absolute path of the directory that it is to lie in.
    pub parent: String,
    /// Its name there, one part of a path.
    pub name: String,
}
