//! What is shown of a folder while it is not open, and since when it has been in its state.

use crate::api::DriveState;
use crate::daemon::status::now_ms;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The last figures of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// Files and directories that were known.
    #[serde(default)]
    pub known_files: u64,
    /// Bytes here that the remote has too.
    #[serde(default)]
    pub cached_bytes: u64,
    /// Bytes here that the remote does not have.
    #[serde(default)]
    pub dirty_bytes: u64,
    /// Bytes of pinned files.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// Conflicts that nobody has settled.
    #[serde(default)]
    pub conflicts: u64,
    /// Deletions that are held.
    #[serde(default)]
    pub held_deletions: u64,
    /// When something was uploaded last, Unix time in ms.
    #[serde(default)]
    pub last_uploaded_ms: Option<u64>,
}

/// The figures, and the age of the state.
pub struct Figures {
    // Held to read or set them.
    last: Mutex<Last>,
    since: Mutex<Option<(DriveState, u64)>>,
}

impl Figures {
    /// With what is remembered.
    pub fn new(last: Last) -> Self {
        Self { last: Mutex::new(last), since: Mutex::default() }
    }

    /// The last ones.
    pub fn last(&self) -> Last {
        self.last.lock().clone()
    }

    /// Keeps them.
    pub fn keep(&self, last: Last) {
        *self.last.lock() = last;
    }

    /// Since when the folder has been in this state, Unix time in ms.
    pub fn since_ms(&self, state: DriveState) -> u64 {
        let mut since = self.since.lock();
        match *since {
            Some((known, at)) if known == state => at,
            _ => {
                let now = now_ms();
                *since = Some((state, now));
                now
            }
        }
    }
}
