//! Directories of this computer, for choosing one on a page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which directory to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDirectories {
    /// An absolute path, or one that begins with `~/`; the user's home directory if empty.
    #[serde(default)]
    pub path: String,
}

/// The directories in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Directories {
    /// The directory listed: the requested one, or the nearest one above it that exists.
    pub path: String,
    /// The directory above it; null at the top.
    pub parent: Option<String>,
    /// Names of the directories in it, sorted. They may contain any character but a slash.
    pub names: Vec<String>,
    /// How many directories are not named: those beyond the longest list, and those whose names are not UTF-8.
    pub left_out: u64,
    /// Whether a directory can be created in it.
    pub writable: bool,
}

/// Creates a directory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDirectory {
    /// The absolute path of the directory above the new one.
    pub parent: String,
    /// The new directory's name, one part of a path.
    pub name: String,
}
