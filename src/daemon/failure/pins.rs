//! Errors of pinning, of taking files out of the cache, and of waiting for them.

use super::{NOTHING_CHANGED, failure, read, state};
use crate::api::{Code, Failure, Pin, Way};
use crate::daemon::drive::{ScanError, words};
use crate::scanner::Unscannable;
use crate::sizes::{format_bytes, format_duration};
use holdall_core::pull::PullError;
use std::time::Duration;

/// What it means that nobody waits for a file any more.
pub const NOT_ENOUGH: &str = "What was downloaded is here, until the room is needed. Nothing is pinned.";
const WAIT_LONGER: &str = "Wait longer, or for less of it: holdall wait --help.";

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
        .by(Way::Wait)
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
    let failure = failure(code, format!("{path} cannot be used: {}.", words(error)), NOTHING_CHANGED, action);
    if matches!(error, ScanError::TooMany) { failure.by(Way::Less) } else { failure }
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

/// Waiting for a file that could not even be looked at by the time that was given.
pub fn wait_too_early(path: &str, timeout: Duration) -> Failure {
    failure(
        Code::Failed,
        format!(
            "After {} {path} could not be looked at yet: names of files on the drive are still to come.",
            format_duration(timeout)
        ),
        NOT_ENOUGH,
        WAIT_LONGER,
    )
}

/// Waiting for a file of which not enough has come by the time that was given.
pub fn wait_too_late(path: &str, timeout: Duration, here: u64, enough: u64) -> Failure {
    failure(
        Code::Failed,
        format!(
            "After {} {} of the first {} of {path} were here.",
            format_duration(timeout),
            format_bytes(here),
            format_bytes(enough)
        ),
        NOT_ENOUGH,
        WAIT_LONGER,
    )
}

/// A folder whose names are still to come from a store that is away.
pub fn folder_offline(path: &str, trouble: &str) -> Failure {
    failure(
        Code::Offline,
        format!("Not all that is in {path} is known here, and the store cannot be reached: {trouble}."),
        "What the folder holds is safe in the store, and other folders can be looked into.",
        "Check the connection. The folder can be looked into once the store is back.",
    )
}

/// A folder whose names are still to come, or a drive that has much to do.
pub fn folder_late(path: &str, after: Duration) -> Failure {
    failure(
        Code::Failed,
        format!(
            "What is in {path} could not be told within {}: names of files are still being downloaded, or the drive has much to do.",
            format_duration(after)
        ),
        NOTHING_CHANGED,
        "Try again in a moment. holdall drive status says how the drive is.",
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
        PullError::NoRoom(_) => failure(
            Code::Failed,
            "Not all of it could be downloaded: there is no room for it in the cache.",
            "What was downloaded is here.",
            "Give the cache more room (holdall limits --cache), or unpin something.",
        ),
        PullError::Cache(_) | PullError::Away => failure(
            Code::Failed,
            format!("Not all of it could be downloaded: {error}."),
            "What was downloaded is here.",
            "Check the room on the local disk (holdall doctor), and that the store is whole (holdall drive check).",
        ),
    }
}
