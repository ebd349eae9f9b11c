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

/// Serves the pages and the API to browsers of other computers, which sign in with a password.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenWeb {
    /// The address and port of this computer, such as `0.0.0.0:8443`.
    pub address: String,
    /// The password. It is kept as a hash.
    pub password: String,
    /// Files of the certificate and its key; without, the daemon makes a certificate of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateFiles>,
    /// Without TLS, for a proxy on this computer: only at an address of loopback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_the_clear: bool,
}

/// Where a certificate is, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate, with those that it was signed by.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for ListenWeb {
    /// Keeps the password to itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pages at {}", self.address)
    }
}

/// Where browsers of other computers find the pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListeningWeb {
    /// The address, by this computer's name where it listens at all of its addresses.
    pub url: String,
    /// SHA-256 of the certificate, as browsers show it; null without TLS.
    pub fingerprint: Option<String>,
    /// Whether no authority has signed the certificate, so that browsers warn.
    pub is_own_certificate: bool,
}
