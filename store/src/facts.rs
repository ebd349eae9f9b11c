//! A store's statements about itself, apart from its objects. For people and for the probe: no data is safe because of them.

use serde::{Deserialize, Serialize};

/// The known protection of a connection that uses TLS: no client here accepts an older version.
pub const TLS: &str = "at least TLS 1.2";

/// The known facts about a store and the way to it. All of it is best effort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The protocol that protects the connection, as in "at least TLS 1.2"; `None` if none does, or if there is no connection.
    pub tls: Option<String>,
    /// The server's clock when it answered this question, Unix time in ms; HTTP's `Date` gives whole seconds.
    pub date_ms: Option<u64>,
    /// Bytes that can still be stored, if the store says so.
    pub free_bytes: Option<u64>,
    /// Conditional puts are never relied on, however a race ends: WebDAV lets a server check and write in two steps, and a directory may be
    /// on a file system without locks, or move to one.
    pub never_swaps: bool,
    /// Listings come from this computer's own kernel, which leaves nothing out.
    #[serde(default)]
    pub lists_whole: bool,
}
