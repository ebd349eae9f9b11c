//! How a command fails, and what it says then.

use crate::api::{Action, Actions, Code, Failure};
use crate::paths::PathsError;
pub use crate::words::{sentence, why};
use std::io;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum CliError {
    /// It failed, here or in the daemon.
    Failed(Failure),
    /// It did its work and printed the result, but the result is bad news.
    BadNews(Code),
    /// Nobody reads its output any longer: for `holdall events | head -1` that is no error.
    ReaderLeft,
}

impl CliError {
    /// A failure. `consequence` says what it means for the person's data, `action` what to do.
    pub fn new(
        code: Code,
        message: impl Into<String>,
        consequence: impl Into<String>,
        actions: impl Into<Actions>,
    ) -> CliError {
        CliError::Failed(Failure::new(code, message, consequence, actions))
    }

    /// The command line makes no sense, or lacks something that cannot be asked for.
    pub fn usage(message: impl Into<String>, actions: impl Into<Actions>) -> CliError {
        CliError::new(Code::Usage, message, NOTHING_DONE, actions)
    }
}

/// The consequence of an early failure.
pub const NOTHING_DONE: &str = "Nothing was done.";

impl From<PathsError> for CliError {
    fn from(error: PathsError) -> CliError {
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
        CliError::new(code, message, NOTHING_DONE, actions)
    }
}

/// Standard output failed.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::ReaderLeft,
            _ => CliError::new(
                Code::Failed,
                format!("Cannot print the result: {}.", why(&error)),
                "The command may have taken effect.",
                Action::Status,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_who_left_is_no_failure() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(error, CliError::ReaderLeft));
    }
}
