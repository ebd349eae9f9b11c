//! The pages for a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Serves the pages and the API to browsers on this computer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeWeb {
    /// At this port of 127.0.0.1. If left out: at the port in use, otherwise the last one used, otherwise any free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Where a browser signs in.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebAddress {
    /// The address, with an invitation for one browser.
    pub url: String,
    /// The port of 127.0.0.1.
    pub port: u16,
    /// How long the invitation is valid.
    pub token_lifetime_ms: u64,
}

impl std::fmt::Debug for WebAddress {
    /// Does not show the invitation.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pages at port {}", self.port)
    }
}

/// Serves the pages and the API to browsers on other computers, which sign in with a password.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenWeb {
    /// The address and port of this computer, such as `0.0.0.0:8443`.
    pub address: String,
    /// The password. Only its hash is stored.
    pub password: String,
    /// The files with the certificate and its key; if left out, the daemon makes its own certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateFiles>,
    /// Serve without TLS, for a proxy on this computer: only on a loopback address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_the_clear: bool,
}

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate, followed by the chain that signed it.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for ListenWeb {
    /// Does not show the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pages at {}", self.address)
    }
}

/// Where browsers on other computers find the pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListeningWeb {
    /// The address, with this computer's name if it listens on all of its addresses.
    pub url: String,
    /// SHA-256 of the certificate, as browsers show it; null without TLS.
    pub fingerprint: Option<String>,
    /// Whether no authority has signed the certificate, so that browsers warn.
    pub is_own_certificate: bool,
}
