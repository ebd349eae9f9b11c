//! The words for what goes wrong before the daemon answers, or because of what it answers.

use crate::api::words::sentence;
use crate::api::{Action, Actions, Code, Failure};
use crate::paths::PathsError;
use holdall_address::UrlError;

/// The consequence of an early failure.
pub const NOTHING_DONE: &str = "Nothing was done.";

impl From<PathsError> for Failure {
    fn from(error: PathsError) -> Failure {
        let message = sentence(&error.to_string());
        let (code, actions): (_, Actions) = match error {
            PathsError::Relative { variable, .. } => {
                (Code::Usage, format!("Set {variable} to a path that begins with /.").into())
            }
            PathsError::NoHome { variable } => (Code::Usage, format!("Set HOME or {variable}.").into()),
            PathsError::NotPrivate { path } => {
                let path = path.display().to_string();
                let actions = [
                    Action::tell("See who owns it."),
                    Action::run(&["ls", "-ld", &path]),
                    Action::tell("If it is yours, remove write permission for others."),
                    Action::run(&["chmod", "go-w", &path]),
                    Action::tell("If not, set HOLDALL_RUNTIME_DIR to a directory of your own."),
                ];
                (Code::Privileges, actions.into())
            }
            PathsError::Unusable { .. } => {
                (Code::Failed, "Check that you may write there, and that the disk is not full.".into())
            }
        };
        Failure::new(code, message, NOTHING_DONE, actions)
    }
}

/// The daemon ended before it answered.
pub fn stopped(how: &str) -> Failure {
    Failure::new(
        Code::NoDaemon,
        format!("The background service stopped before it answered ({how})."),
        "Your changes are safe on this computer. The command may or may not have taken effect.",
        [Action::Status, Action::tell("This also starts the background service again.")],
    )
}

/// The daemon speaks another version of the contract.
pub fn not_understood(why: &str) -> Failure {
    Failure::new(
        Code::Failed,
        format!("This version of holdall does not understand the background service's answer: {why}."),
        "Your data is not affected. The command may have taken effect.",
        [
            Action::tell("If Holdall was updated, the old version of the service is still running."),
            Action::Restart,
        ],
    )
}

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
