//! The support report: what a helper needs to see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Texts about this computer's drives, without secrets: names of drives and devices, addresses of stores without logins, versions, states,
/// and the end of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostics {
    /// The texts.
    pub files: Vec<DiagnosticFile>,
}

/// One text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticFile {
    /// The name of the text.
    pub name: String,
    /// Its contents.
    pub text: String,
}
