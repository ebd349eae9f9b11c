//! What a store tells about itself beside its objects. For people and for the probe: nothing is safe because of it.

use serde::{Deserialize, Serialize};

/// What is known of TLS where there is some: no client here takes an older one.
pub const TLS: &str = "at least TLS 1.2";

/// What is known of a store and the way to it. All of it is best effort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The protocol that protects the connection, as in "at least TLS 1.2"; none where nothing does or there is no connection.
    pub tls: Option<String>,
    /// The server's clock when it answered this question, Unix time in ms; whole seconds by HTTP's `Date`.
    pub date_ms: Option<u64>,
    /// Bytes that may still be stored, where the store says so.
    pub free_bytes: Option<u64>,
    /// Conditional puts are never relied upon, however a race ends: the protocol lets a server check and write in two
    /// steps. So it is with WebDAV.
    pub never_swaps: bool,
    /// Listings come from this computer's own kernel, which leaves out nothing.
    #[serde(default)]
    pub lists_whole: bool,
}
