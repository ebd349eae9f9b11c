//! The pages for a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Serves the pages and the API to browsers on this computer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeWeb {
    /// At this port of 127.0.0.1; without, at the one that is served already, else at the last one, else at any that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Where a browser gets in.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebAddress {
    /// The address, with an invitation: it is good for one browser.
    pub url: String,
    /// The port of 127.0.0.1.
    pub port: u16,
    /// For how long the invitation is good.
    pub token_lifetime_ms: u64,
}

impl std::fmt::Debug for WebAddress {
    /// Keeps the invitation to itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pages at port {}", self.port)
    }
}
