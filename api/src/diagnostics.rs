//! What somebody who is asked for help wants to see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Texts about this computer's drives, without secrets: names of drives and devices, addresses of stores without who logs in
/// there, versions, states, and the end of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostics {
    /// Each as a text.
    pub files: Vec<DiagnosticFile>,
}

/// One text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticFile {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub text: String,
}
