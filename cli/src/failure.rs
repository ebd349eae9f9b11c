//! How a command fails, and what it says then.

pub use crate::api::words::{sentence, why};
use crate::api::{Action, Actions, Code, Failure};
pub use holdall_client::failure::NOTHING_DONE;
use holdall_client::paths::PathsError;
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

impl From<Failure> for CliError {
    fn from(failure: Failure) -> CliError {
        CliError::Failed(failure)
    }
}

impl From<PathsError> for CliError {
    fn from(error: PathsError) -> CliError {
        CliError::Failed(error.into())
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
