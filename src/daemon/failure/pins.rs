//! Errors of pinning, of evicting files from the cache, and of waiting for them.

use super::{NOTHING_CHANGED, failure, read, state};
use crate::api::{Action, Actions, Code, Failure, FolderCommand, Pin};
use crate::daemon::drive::{ScanError, words};
use crate::scanner::Unscannable;
use crate::sizes::{format_bytes, format_duration};
use holdall_core::pull::PullError;
use std::time::Duration;

/// The consequence of no longer waiting for a file.
pub const NOT_ENOUGH: &str = "Downloaded data stays until the space is needed. Nothing is pinned.";

/// The path is on no open drive.
pub fn on_no_drive(path: &str, mounted: &[String]) -> Failure {
    let action: Actions = match mounted {
        [] => Action::Open { drive: None }.into(),
        mounted => format!("Open drives and folders are mounted at {}.", mounted.join(", ")).into(),
    };
    failure(
        Code::NotFound,
        format!("{path} is not on an open drive or in an open folder."),
        NOTHING_CHANGED,
        action,
    )
}

/// The path is on a drive that was open when the service ended.
pub fn not_taken_up(name: &str) -> Failure {
    let message = format!("The drive {name} is being reopened after a restart.");
    let status = Action::DriveStatus { drive: Some(name.to_owned()) };
    state(message, [Action::tell("Try again in a moment."), status])
}

/// The path is in a folder that was open when the service ended.
pub fn folder_not_taken_up(name: &str) -> Failure {
    let message = format!("The folder {name} is being reopened after a restart.");
    let status = Action::Folder { command: FolderCommand::Status, folder: Some(name.to_owned()) };
    state(message, [Action::tell("Try again in a moment."), status])
}

/// The drive is not mounted, so its files cannot be named.
pub fn not_mounted(name: &str) -> Failure {
    state(format!("The drive {name} is not mounted."), Action::Open { drive: Some(name.to_owned()) })
}

/// The path cannot be scanned.
pub fn unscannable(path: &str, error: &ScanError) -> Failure {
    let (code, actions): (_, Actions) = match error {
        ScanError::Unscannable(Unscannable::Missing) => (Code::NotFound, "Check the path.".into()),
        ScanError::Unscannable(Unscannable::Link | Unscannable::Elsewhere | Unscannable::Special) => {
            (Code::Usage, "Give another path.".into())
        }
        ScanError::Unscannable(Unscannable::Failed(_)) => (Code::Failed, "Check its permissions.".into()),
        ScanError::TooMany => (Code::Usage, Action::PinDrive { drive: None }.into()),
        ScanError::Gone(_) => {
            (Code::Failed, [Action::tell("Try again."), Action::DriveStatus { drive: None }].into())
        }
    };
    failure(code, format!("{path} cannot be used: {}.", words(error)), NOTHING_CHANGED, actions)
}

/// A version of a drive cannot be scanned.
pub fn uncomparable(name: &str, error: &ScanError) -> Failure {
    let (why, action) = match error {
        ScanError::TooMany => {
            ("it has too many files".to_owned(), "Open both versions, and compare what you look for.")
        }
        error => (words(error), "Try again."),
    };
    failure(Code::Failed, format!("{name} cannot be compared: {why}."), NOTHING_CHANGED, action)
}

/// Downloading a pin makes no progress.
pub fn pin_stuck(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_else(|| "the drive was closed".to_owned());
    failure(
        Code::Failed,
        format!("Not all of it could be downloaded: {reason}."),
        "The pin stays, and downloaded data is kept.",
        Action::Pins { drive: Some(pin.drive.clone()) },
    )
}

/// The store of a pin is away.
pub fn pin_offline(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_default();
    failure(
        Code::Offline,
        format!("The store cannot be reached: {reason}."),
        "The pin stays. Missing data is downloaded once the store is back.",
        "Check the connection. Work resumes by itself.",
    )
}

/// The pin's drive has its downloads switched off.
pub fn pin_paused(pin: &Pin) -> Failure {
    let reason = pin.reason.clone().unwrap_or_default();
    failure(
        Code::Paused,
        format!("Downloads are switched off: {reason}."),
        "The pin stays. Missing data is downloaded once downloads are on again.",
        Action::Resume { drive: Some(pin.drive.clone()) },
    )
}

/// Waiting while the store is away.
pub fn wait_offline(trouble: &str) -> Failure {
    failure(
        Code::Offline,
        format!("The store cannot be reached: {trouble}."),
        "Downloaded data is here. Nothing is pinned.",
        "Check the connection, then wait again.",
    )
}

/// Waiting while the drive has its downloads switched off.
pub fn wait_paused(name: &str, why: &str) -> Failure {
    failure(
        Code::Paused,
        format!("Downloads are switched off: {why}."),
        NOTHING_CHANGED,
        [Action::Resume { drive: Some(name.to_owned()) }, Action::tell("Then wait again.")],
    )
}

/// The time is over before the file could even be scanned.
pub fn wait_too_early(path: &str, timeout: Duration) -> Failure {
    failure(
        Code::Failed,
        format!(
            "{path} could not be read within {}: file names of the drive are still being downloaded.",
            format_duration(timeout)
        ),
        NOT_ENOUGH,
        Action::WaitLonger,
    )
}

/// The time is over before enough of the file is here.
pub fn wait_too_late(path: &str, timeout: Duration, here: u64, enough: u64) -> Failure {
    failure(
        Code::Failed,
        format!(
            "After {}, only {} of the first {} of {path} was here.",
            format_duration(timeout),
            format_bytes(here),
            format_bytes(enough)
        ),
        NOT_ENOUGH,
        Action::WaitLonger,
    )
}

/// The entries of the directory are still to come, and the store is away.
pub fn directory_offline(path: &str, trouble: &str) -> Failure {
    failure(
        Code::Offline,
        format!(
            "{path} cannot be listed completely: not all of its file names are on this computer, and the store cannot be reached: {trouble}."
        ),
        "The folder's files are safe in the store, and you can use other folders.",
        "Check the connection. The folder can be listed once the store is back.",
    )
}

/// The entries of the directory are still to come, or the drive is busy.
pub fn directory_late(path: &str, after: Duration) -> Failure {
    failure(
        Code::Failed,
        format!(
            "{path} could not be listed within {}: file names are still being downloaded, or the drive is busy.",
            format_duration(after)
        ),
        NOTHING_CHANGED,
        [Action::tell("Try again in a moment."), Action::DriveStatus { drive: None }],
    )
}

/// The path is not pinned, but perhaps one above it is.
pub fn not_pinned(path: &str, by: Option<String>) -> Failure {
    let (message, actions): (_, Actions) = match by {
        Some(by) => (
            format!("{path} is kept because {by} is pinned."),
            [Action::Unpin { path: by }, Action::tell("Or move it elsewhere.")].into(),
        ),
        None => (format!("{path} is not pinned."), Action::Pins { drive: None }.into()),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, actions)
}

/// The drive is not pinned as a whole.
pub fn not_pinned_whole(name: &str, has_paths: bool) -> Failure {
    let message = match has_paths {
        true => format!("The drive {name} is not pinned as a whole; some paths on it are pinned."),
        false => format!("Nothing of the drive {name} is pinned."),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, Action::Pins { drive: Some(name.to_owned()) })
}

/// The folder is not pinned as a whole.
pub fn folder_not_pinned(name: &str, has_paths: bool) -> Failure {
    let message = match has_paths {
        true => format!("The folder {name} is not pinned as a whole; some paths in it are pinned."),
        false => format!("Nothing of the folder {name} is pinned."),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, Action::Pins { drive: Some(name.to_owned()) })
}

/// The file or folder to be evicted is pinned: by this path, or as a whole.
pub fn folder_evict_pinned(name: &str, path: &str, shown: &str) -> Failure {
    match path {
        "" => failure(
            Code::State,
            format!("The folder {name} is pinned."),
            NOTHING_CHANGED,
            Action::UnpinDrive { drive: Some(name.to_owned()) },
        ),
        _ => evict_pinned(name, Some(shown)),
    }
}

/// The file or drive to be evicted is pinned.
pub fn evict_pinned(name: &str, path: Option<&str>) -> Failure {
    let (message, action) = match path {
        Some(path) => (format!("{path} is pinned."), Action::Unpin { path: path.to_owned() }),
        None => (format!("The drive {name} is pinned."), Action::UnpinDrive { drive: Some(name.to_owned()) }),
    };
    failure(Code::State, message, NOTHING_CHANGED, action)
}

/// Errors of pulling.
pub fn pull(error: &PullError) -> Failure {
    match error {
        PullError::Read(error) => read(error),
        PullError::CacheFull(_) => failure(
            Code::Failed,
            "Not all of it could be downloaded: the cache has no space for it.",
            "Downloaded data is here.",
            [Action::GrowCache { size: None }, Action::tell("Or keep less offline.")],
        ),
        PullError::Cache(_) | PullError::Away => failure(
            Code::Failed,
            format!("Not all of it could be downloaded: {error}."),
            "Downloaded data is here.",
            [
                Action::tell("Check that the local disk has free space."),
                Action::Doctor,
                Action::Check { drive: None },
            ],
        ),
    }
}
