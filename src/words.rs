//! The wording of errors for people, here and in the daemon.

use crate::api::{Action, Actions};
pub use holdall_api::words::{sentence, unsentenced, why};
use holdall_core::store::url::UrlError;

/// Explains a wrong store address, and gives the remedy.
pub fn address(error: &UrlError) -> (String, Actions) {
    match error {
        UrlError::Scheme { .. } | UrlError::Relative { .. } | UrlError::Malformed { .. } => {
            (sentence(&error.to_string()), "Correct the address.".into())
        }
        UrlError::Secret => (
            "A store's address cannot contain a user or a password.".to_owned(),
            [Action::tell("Leave user and password out of the address."), Action::LogIn { store: None }]
                .into(),
        ),
    }
}
