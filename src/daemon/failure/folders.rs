//! Errors of folders.

use super::{LET_IN, NOTHING_CHANGED, did_you_mean, failure, is_directory};
use crate::api::{Action, Code, Failure, FolderCommand};
use crate::daemon::folder::remote::ReachError;
use crate::sizes::format_bytes;
use holdall_core::folder::OpenError;
use holdall_core::folder::api::FolderError;
use holdall_core::folder::outbox::Unsettled;
use holdall_core::store::StoreError;
use holdall_core::store::remote::RemoteError;
use holdall_core::store::remote::connect::ConnectError;
use holdall_core::store::url::StoreUrl;

const FILES_SAFE: &str = "Your files on this computer are safe; uploads wait.";
const CLOSED_SAFE: &str = "Nothing was changed. What was saved in the folder is safe on this computer.";
const BY_ITSELF: &str = "Check the connection. Work resumes by itself.";

/// Names the folder and its address in actions that lack them. A directory has no login.
pub fn of_folder(failure: Failure, name: &str, url: &str) -> Failure {
    match failure.code {
        Code::Credentials if is_directory(url) => failure.with_actions(LET_IN),
        _ => failure.about(Some(name), Some(url)),
    }
}

/// No folder of this name; `known` are the names that exist.
pub fn no_folder(name: &str, known: &[String]) -> Failure {
    let message = format!("There is no folder \"{name}\" on this computer.");
    let actions = match known {
        [] => vec![Action::folder(FolderCommand::OpenNew)],
        known => did_you_mean(name, known, Action::folder(FolderCommand::List)),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, actions)
}

/// The name is a drive's.
pub fn is_a_drive(name: &str) -> Failure {
    failure(
        Code::Usage,
        format!("\"{name}\" is a drive, not a folder."),
        NOTHING_CHANGED,
        Action::help(&["drive"]),
    )
}

/// The name is taken.
pub fn name_taken(name: &str) -> Failure {
    failure(
        Code::Exists,
        format!("There is already a drive or folder \"{name}\" on this computer."),
        NOTHING_CHANGED,
        "Choose another name, with --name.",
    )
}

/// The address gives no name.
pub fn no_name(url: &StoreUrl) -> Failure {
    failure(
        Code::Usage,
        format!(
            "The address {} does not end with letters or digits that could name the folder.",
            url.readable()
        ),
        NOTHING_CHANGED,
        "Choose a name, with --name.",
    )
}

/// The folder is known under another name.
pub fn folder_known_as(name: &str, url: &StoreUrl) -> Failure {
    failure(
        Code::Exists,
        format!("The files at {} are already on this computer, as the folder \"{name}\".", url.readable()),
        NOTHING_CHANGED,
        Action::Folder { command: FolderCommand::Open, folder: Some(name.to_owned()) },
    )
}

/// The folder would show files that another one shows.
pub fn overlaps(url: &StoreUrl, other: &str, how: &str) -> Failure {
    failure(
        Code::Exists,
        format!("{} {how} the folder \"{other}\" on this computer.", url.readable()),
        "Nothing was changed. Two folders with the same files would take each other's changes for conflicts.",
        [
            Action::tell("Use that folder, or choose a place outside it."),
            Action::Folder { command: FolderCommand::Status, folder: Some(other.to_owned()) },
        ],
    )
}

/// The folder's files would be where Holdall itself works.
pub fn in_own_place(url: &StoreUrl, what: &str) -> Failure {
    failure(
        Code::Usage,
        format!("{} cannot be opened as a folder: {what}.", url.readable()),
        "Nothing was changed. The folder would wait for itself.",
        "Choose another directory.",
    )
}

/// A mount point inside the files that are mounted.
pub fn mounted_in_itself(url: &StoreUrl) -> Failure {
    failure(
        Code::Usage,
        format!("The folder would be mounted inside its own files, {}.", url.readable()),
        NOTHING_CHANGED,
        "Choose a mount point outside that directory, with --at.",
    )
}

/// The remote of a new folder, or one that has to be connected now.
pub fn reach(error: &ReachError) -> Failure {
    match error {
        ReachError::Login(failure) => failure.clone(),
        ReachError::Remote(ConnectError::Remote(error)) => remote(error),
        ReachError::Remote(ConnectError::Setup { reason }) => failure(
            Code::Usage,
            format!("The remote cannot be reached: {reason}."),
            NOTHING_CHANGED,
            "Check the address, and the credentials that go with it.",
        ),
        ReachError::Remote(ConnectError::IsStore { place }) => failure(
            Code::Usage,
            format!("{place} holds a Holdall store, whose objects are no files."),
            "Nothing was changed. A program that changed one of them would damage the drives in it.",
            [
                Action::tell("Choose another place for the folder, or use the drives in that store."),
                Action::Add { drive: None, store: Some(place.clone()) },
            ],
        ),
    }
}

/// Errors of a remote.
pub fn remote(error: &RemoteError) -> Failure {
    let said = |code, action: &str| {
        failure(code, crate::api::words::sentence(&error.to_string()), FILES_SAFE, action)
    };
    match error {
        RemoteError::NotFound(path) if path.is_root() => failure(
            Code::NotFound,
            "There is nothing at this address.",
            NOTHING_CHANGED,
            "Create the directory or collection there, or correct the address.",
        ),
        RemoteError::NotFound(_) => {
            said(Code::NotFound, "It may have been removed or renamed by another program.")
        }
        RemoteError::Changed(_) => said(Code::Conflict, "Try again: both versions are kept."),
        RemoteError::NotEmpty(_) => said(Code::State, "Remove what is in it first."),
        RemoteError::Locked { .. } => {
            said(Code::State, "Wait until it is unlocked. It is tried again by itself.")
        }
        RemoteError::Forbidden { .. } => {
            said(Code::Credentials, "Ask the owner of the server for permission.")
        }
        RemoteError::TooLarge(_) => said(Code::Failed, "Keep the file elsewhere, or split it."),
        RemoteError::BadName { .. } => said(Code::Failed, "Rename the file."),
        RemoteError::Archived(_) => said(Code::Failed, "Restore it at the provider, then read it again."),
        RemoteError::Unsupported(_) => said(Code::Failed, "Use a server that can, or do it in another way."),
        RemoteError::Local(_) => said(Code::Failed, "Check this computer's disk, and free space on it."),
        RemoteError::Store(error) => at_remote(error),
    }
}

/// What a remote says of itself, and not of a file.
fn at_remote(error: &StoreError) -> Failure {
    match error {
        StoreError::Unreachable { reason } => {
            failure(Code::Offline, format!("The remote cannot be reached: {reason}."), FILES_SAFE, BY_ITSELF)
        }
        StoreError::NoPlace { place } => failure(
            Code::NotFound,
            format!("The remote cannot be reached: there is no {place}."),
            FILES_SAFE,
            "Create it, plug in its disk, or correct the address.",
        ),
        StoreError::Elsewhere { reason } => failure(
            Code::NotFound,
            format!("The remote cannot be reached: {reason}."),
            NOTHING_CHANGED,
            "Correct the address.",
        ),
        StoreError::Unfit { reason } => failure(
            Code::Failed,
            format!("The remote cannot be used: {reason}."),
            FILES_SAFE,
            "Mount it in another way, or choose another place.",
        ),
        StoreError::Busy { reason, .. } => failure(
            Code::Offline,
            format!("The remote is busy: {reason}."),
            FILES_SAFE,
            "Wait a little. Work resumes by itself.",
        ),
        StoreError::UnknownCredentials { reason } => failure(
            Code::Credentials,
            format!("The remote refused the credentials: {reason}."),
            FILES_SAFE,
            Action::LogIn { store: None },
        ),
        StoreError::Denied { reason } => failure(
            Code::Credentials,
            format!("The remote refused access: {reason}."),
            FILES_SAFE,
            [
                Action::tell("Log in with other credentials, or grant this access at the remote."),
                Action::LogIn { store: None },
            ],
        ),
        StoreError::Full { reason } => failure(
            Code::Full,
            format!("The remote is full: {reason}."),
            FILES_SAFE,
            "Free space there, or enlarge it. Work resumes by itself.",
        ),
        // Each is about one object, and is seldom what a folder is told.
        StoreError::NotFound { .. } | StoreError::Precondition { .. } | StoreError::Damaged { .. } => {
            failure(
                Code::Failed,
                format!("The remote gave no useful answer: {error}."),
                FILES_SAFE,
                "Try again.",
            )
        }
    }
}

/// Errors of opening a folder's files on this computer.
pub fn open_folder(error: &OpenError) -> Failure {
    match error {
        OpenError::Ledger(_) => failure(
            Code::Corrupt,
            format!("What is remembered of the folder cannot be read: {error}."),
            "Nothing was changed or deleted. Changes that are not uploaded yet are still in the folder's directory on this computer.",
            [Action::Doctor, Action::tell("If its disk is in order, restore the directory from a backup.")],
        ),
        OpenError::Local(reason) => failure(
            Code::Failed,
            format!("The folder's files on this computer cannot be used: {reason}."),
            "Nothing was changed.",
            "Check the disk and the free space on it, then try again.",
        ),
    }
}

/// Errors of an open folder.
pub fn folder(error: &FolderError) -> Failure {
    let said = |code, consequence: &str, action: &str| {
        failure(code, crate::api::words::sentence(&error.to_string()), consequence, action)
    };
    let refused = |code, action: &str| said(code, NOTHING_CHANGED, action);
    match error {
        FolderError::NotFound => refused(Code::NotFound, "Check the path: it is relative to the folder."),
        FolderError::Exists => refused(Code::Exists, "Rename or remove it, then try again."),
        FolderError::NotDirectory | FolderError::IsDirectory | FolderError::Invalid(_) => {
            refused(Code::Usage, "Check the path.")
        }
        FolderError::NotEmpty => refused(Code::State, "Remove what is in it first."),
        FolderError::Stale => said(Code::Conflict, FILES_SAFE, "Try again: both versions are kept."),
        FolderError::ReadOnly(_) => {
            refused(Code::State, "Open the folder for writing, or ask for permission at the server.")
        }
        FolderError::Forbidden(_) => {
            refused(Code::Credentials, "Ask the owner of the server for permission.")
        }
        FolderError::Locked => said(Code::State, FILES_SAFE, "Wait until it is unlocked, then try again."),
        FolderError::NoSpace => said(Code::Full, FILES_SAFE, "Free space on this computer's disk."),
        FolderError::OverQuota => {
            said(Code::Full, FILES_SAFE, "Free space at the server, or enlarge the quota.")
        }
        FolderError::TooLarge => refused(Code::Failed, "Keep the file elsewhere, or split it."),
        FolderError::BadName(_) | FolderError::NameTooLong => refused(Code::Usage, "Choose another name."),
        FolderError::Unsupported(_) => refused(Code::Failed, "Do it in another way."),
        FolderError::NoAttribute | FolderError::AttributeTooLong => {
            refused(Code::Failed, "Choose another attribute.")
        }
        FolderError::BadHandle => refused(Code::State, "Open the file again."),
        FolderError::Unavailable(_) => said(Code::Offline, FILES_SAFE, BY_ITSELF),
        FolderError::Closed => {
            failure(Code::State, "The folder is closed.", CLOSED_SAFE, Action::folder(FolderCommand::Open))
        }
        FolderError::Local(_) => {
            said(Code::Failed, CLOSED_SAFE, "Check this computer's disk, and free space on it.")
        }
    }
}

/// Why not everything is at the remote.
pub fn unsettled(error: &Unsettled, dirty_bytes: u64) -> Failure {
    let queue = Action::folder(FolderCommand::Queue);
    match error {
        Unsettled::Paused(why) => failure(
            Code::Unsent,
            format!("Uploads are paused ({why}), and some changes are only on this computer."),
            "They are safe here, and are uploaded once uploads continue.",
            Action::folder(FolderCommand::Resume),
        ),
        Unsettled::Failed { count, path, reason } => failure(
            Code::Unsent,
            // The reason may be a sentence, or several.
            match (count, reason.trim_end_matches('.')) {
                (1, reason) => format!("{path} could not be uploaded: {reason}."),
                (count, reason) => {
                    format!("{count} files could not be uploaded, among them {path}: {reason}.")
                }
            },
            &format!(
                "{} safe on this computer. They are tried again by themselves where that can help.",
                match dirty_bytes {
                    0 => "They are".to_owned(),
                    bytes => format!("Changes of {} are", format_bytes(bytes)),
                }
            ),
            queue,
        ),
        Unsettled::Closed => failure(
            Code::State,
            "The folder was closed or opened again meanwhile.",
            "What was not uploaded is safe on this computer, and is uploaded in the background.",
            Action::folder(FolderCommand::Status),
        ),
    }
}

/// No conflict has this path.
pub fn no_conflict(path: &str) -> Failure {
    failure(
        Code::NotFound,
        format!("\"{path}\" is not a file in conflict."),
        NOTHING_CHANGED,
        [Action::tell("Paths are relative to the folder."), Action::folder(FolderCommand::Conflicts)],
    )
}

/// No deletions are held.
pub fn no_held_deletions() -> Failure {
    failure(
        Code::State,
        "No deletions are waiting for a decision.",
        NOTHING_CHANGED,
        Action::folder(FolderCommand::Status),
    )
}

/// The folder is not open.
pub fn folder_closed() -> Failure {
    failure(Code::State, "The folder is not open.", NOTHING_CHANGED, Action::folder(FolderCommand::Open))
}

/// The folder's configuration cannot be read.
pub fn damaged_folder(why: &str, is_newer: bool) -> Failure {
    let code = if is_newer { Code::Newer } else { Code::Corrupt };
    let action = match is_newer {
        true => "Update Holdall on this computer.",
        false => {
            "Restore the file from a backup and restart the background service, or forget the folder with --discard-unsent."
        }
    };
    failure(
        code,
        crate::api::words::sentence(why),
        "Nothing is deleted. Changes that are not uploaded yet may be in the folder's directory on this computer.",
        action,
    )
}

/// The remote of a new folder gave no useful answer: its address may be wrong, so hints on addresses are added.
pub fn at_new_folder(failure: Failure, name: &str, url: &StoreUrl) -> Failure {
    super::at_new_store(of_folder(failure, name, &url.to_string()), url)
}
