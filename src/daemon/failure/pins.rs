//! Errors of pinning, of taking files out of the cache, and of waiting for them.

use super::{NOTHING_CHANGED, failure, read, state};
use crate::api::{Code, Failure, Pin};
use crate::daemon::drive::{ScanError, words};
use crate::scanner::Unscannable;
use holdall_core::pull::PullError;

/// A path on no drive that is open.
pub fn on_no_drive(path: &str, mounted: &[String]) -> Failure {
    let action = match mounted {
        [] => "Open the drive first: holdall drive open NAME.".to_owned(),
        mounted => format!("Open drives are mounted at {}.", mounted.join(", ")),
    };
    failure(Code::NotFound, format!("{path} is on no open drive."), NOTHING_CHANGED, action)
}

/// A path on a drive that was open when the service ended.
pub fn not_taken_up(name: &str) -> Failure {
    let action = format!("Try again in a moment. holdall drive status \"{name}\" says what it waits for.");
    state(format!("The drive {name} was open when the service ended, and is being taken up again."), action)
}

/// A drive whose files cannot be named.
pub fn not_mounted(name: &str) -> Failure {
    state(format!("The drive {name} is not mounted."), format!("Run holdall drive open {name}."))
}

/// A path that cannot be looked at.
pub fn unscannable(path: &str, error: &ScanError) -> Failure {
    let (code, action) = match error {
        ScanError::Unscannable(Unscannable::Missing) => (Code::NotFound, "Check the path."),
        ScanError::Unscannable(Unscannable::Link | Unscannable::Elsewhere | Unscannable::Special) => {
            (Code::Usage, "Give another path.")
        }
        ScanError::Unscannable(Unscannable::Failed(_)) => (Code::Failed, "Check who may read it."),
        ScanError::TooMany => (Code::Usage, "Run holdall pin --drive NAME, or pin less."),
        ScanError::Gone(_) => (Code::Failed, "Try again. Run holdall status to see how the drive is."),
    };
    failure(code, format!("{path} cannot be used: {}.", words(error)), NOTHING_CHANGED, action)
}

/// A pin that does not get on.
pub fn pin_stuck(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_else(|| "the drive was closed".to_owned());
    failure(
        Code::Failed,
        format!("Not all of it could be downloaded: {reason}."),
        "The pin stays, and what is here of it is kept.",
        format!("Run holdall pins {} to see how it is.", pin.drive),
    )
}

/// A pin whose store is away.
pub fn pin_offline(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_default();
    failure(
        Code::Offline,
        format!("The store cannot be reached: {reason}."),
        "The pin stays. What is missing is downloaded once the store is back.",
        "Check the connection. Work resumes by itself.",
    )
}

/// A pin of a drive that downloads nothing.
pub fn pin_paused(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_default();
    failure(
        Code::Paused,
        format!("Downloads are switched off: {reason}."),
        "The pin stays. What is missing is downloaded once they are on again.",
        format!("Run holdall drive resume {}.", pin.drive),
    )
}

/// Waiting for a store that is away.
pub fn wait_offline(trouble: &str) -> Failure {
    failure(
        Code::Offline,
        format!("The store cannot be reached: {trouble}."),
        "What was downloaded is here. Nothing is pinned.",
        "Check the connection, then wait again.",
    )
}

/// Waiting for a drive that downloads nothing.
pub fn wait_paused(name: &str, why: &str) -> Failure {
    failure(
        Code::Paused,
        format!("Downloads are switched off: {why}."),
        NOTHING_CHANGED,
        format!("Run holdall drive resume {name}, then wait again."),
    )
}

/// A path that is not pinned, but perhaps one above it.
pub fn not_pinned(path: &str, by: Option<String>) -> Failure {
    let (message, action) = match by {
        Some(by) => (
            format!("{path} is kept because {by} is pinned."),
            format!("Run holdall unpin '{by}', or move it elsewhere."),
        ),
        None => (format!("{path} is not pinned."), "Run holdall pins to see what is.".to_owned()),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, action)
}

/// A drive that is not pinned as a whole.
pub fn not_pinned_whole(name: &str, has_paths: bool) -> Failure {
    let message = match has_paths {
        true => format!("The drive {name} is not pinned as a whole; paths on it are."),
        false => format!("Nothing of the drive {name} is pinned."),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, format!("Run holdall pins {name} to see what is."))
}

/// What is pinned is to be taken out of the cache.
pub fn evict_pinned(name: &str, path: Option<&str>) -> Failure {
    let (message, action) = match path {
        Some(path) => (format!("{path} is pinned."), format!("Unpin it first: holdall unpin '{path}'.")),
        None => {
            (format!("The drive {name} is pinned."), format!("Unpin it first: holdall unpin --drive {name}."))
        }
    };
    failure(Code::State, message, NOTHING_CHANGED, action)
}

/// Errors of pulling.
pub fn pull(error: &PullError) -> Failure {
    match error {
        PullError::Read(error) => read(error),
        PullError::Cache(reason) => failure(
            Code::Failed,
            format!("Not all of it could be downloaded: {reason}."),
            "What was downloaded is here.",
            "Check the room on the local disk (holdall doctor), and that the store is whole (holdall drive check).",
        ),
    }
}
