//! How Holdall identifies itself to a store. Never printed: [`std::fmt::Debug`] leaves every secret out.

use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// The credentials for one store. Written as JSON: `{"kind": "s3", "access_key": ..., "secret_key": ...}`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Credentials {
    /// No login: directories, and servers that ask for none.
    #[default]
    None,
    /// A static pair for S3.
    S3 {
        /// The public half.
        access_key: String,
        /// The secret half.
        secret_key: Zeroizing<String>,
        /// Only for temporary credentials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_token: Option<Zeroizing<String>>,
    },
    /// A profile in the user's own `~/.aws` files, read again whenever they change.
    S3Profile {
        /// Its name.
        profile: String,
    },
    /// A user and a password, for Basic or Digest, as the server asks.
    Password {
        /// The user's name.
        user: String,
        /// The password, or an app password.
        password: Zeroizing<String>,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        token: Zeroizing<String>,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "no credentials",
            Credentials::S3 { .. } => "an S3 key pair",
            Credentials::S3Profile { .. } => "an S3 profile",
            Credentials::Password { .. } => "a user and a password",
            Credentials::Bearer { .. } => "a bearer token",
        })
    }
}
