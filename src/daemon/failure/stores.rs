//! Errors of stores before a drive is on them: addresses, credentials, and what stores can do.

use super::{NOTHING_CHANGED, SAFE_HERE, failure, family, store};
use crate::api::words::why;
use crate::api::{Action, Actions, Code, Failure};
use crate::daemon::secrets::SecretsError;
use crate::daemon::secrets::keyring::KeyringError;
use holdall_core::family::FamilyError;
use holdall_core::map::ReadError;
use holdall_core::store::StoreError;
use holdall_core::store::probe::{Report, Rights};
use holdall_core::store::url::StoreUrl;
use std::io;
use std::path::Path;

/// The remedy for a directory that cannot be read or written.
pub const LET_IN: &str =
    "Give this user permission to read and write in the directory, or mount its disk for writing.";

/// Names the store in actions that lack it. A directory has no login.
pub fn at_store(failure: Failure, url: &str) -> Failure {
    match failure.code {
        Code::Credentials if is_directory(url) => failure.with_actions(LET_IN),
        _ => failure.about(None, Some(url)),
    }
}

/// Whether a store is a directory.
pub fn is_directory(url: &str) -> bool {
    url.starts_with("file:")
}

/// The same for a store without a known drive. If it gave no useful answer, its address may be wrong, so hints on addresses are added.
pub fn at_new_store(failure: Failure, url: &StoreUrl) -> Failure {
    let mut failure = at_store(failure, &url.to_string());
    if failure.code == Code::Offline && url.is_plain_http() {
        failure = failure.and(Action::tell("If the server speaks TLS, its address begins with https://."));
    }
    if failure.code == Code::Offline && matches!(url, StoreUrl::Dav(_)) {
        failure = failure
            .and(Action::tell("The address of a Nextcloud is davs://HOST/remote.php/dav/files/USER/."));
    }
    failure
}

/// Errors of a store without a known drive: a missing place there is not away, but was never created, or has another address.
pub fn new_store(error: &StoreError) -> Failure {
    match error {
        StoreError::NoPlace { place } => failure(
            Code::NotFound,
            format!("There is no {place}."),
            NOTHING_CHANGED,
            "Create it, or correct the address.",
        ),
        StoreError::Unfit { reason } => failure(
            Code::Failed,
            format!("This place cannot hold a drive: {reason}."),
            NOTHING_CHANGED,
            "Choose a directory on another file system, or mount this one in another way.",
        ),
        StoreError::Unreachable { .. } => Failure { consequence: NOTHING_CHANGED.to_owned(), ..store(error) }
            .with_actions("Check the address and the connection, and try again."),
        error => store(error),
    }
}

/// A store's directory that cannot be created. Only its last part is ever created: a missing parent is a disk that is not mounted, or a
/// mistake in the address.
pub fn no_directory(path: &Path, error: &io::Error) -> Failure {
    match (error.kind(), path.parent()) {
        (io::ErrorKind::NotFound, Some(parent)) => missing_directory(parent),
        _ => useless_directory(path, error),
    }
}

/// A tool keeps the directory in sync with other computers.
pub fn synced_directory(path: &Path, tool: &str) -> Failure {
    failure(
        Code::WeakStore,
        format!("{} is in a folder that {tool} keeps in sync.", path.display()),
        "Nothing was changed. Each computer has its own copy of the folder, so two computers could open the drive at the same time, and the \
         drive would lack files of one of them.",
        [
            Action::tell("Choose a directory outside that folder, a WebDAV server or an S3 bucket."),
            Action::AcceptSyncedFolder,
        ],
    )
}

/// The same as a warning, for a drive that is used all the same.
pub fn synced_warning(url: &StoreUrl, tool: &str) -> String {
    format!(
        "{} is in a folder that {tool} keeps in sync. Use the drive on one computer only, or move it to another store: two \
         computers could open it at the same time there.",
        url.readable()
    )
}

/// The place of a new drive has other files.
pub fn among_others(name: &str, url: &StoreUrl, others: &[String], instead: &StoreUrl) -> Failure {
    const NAMED: usize = 3;
    let named = others.iter().take(NAMED).map(|name| name.trim_end_matches('/'));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if others.len() > NAMED { " and more" } else { "" };
    failure(
        Code::Exists,
        format!("{} contains other files: {named}{more}.", url.readable()),
        "Nothing was changed. A drive would put many files beside them, and somebody who tidies up could delete the drive.",
        [
            Action::UseSubdirectory { drive: Some(name.to_owned()), store: Some(instead.given()) },
            Action::AcceptOthers,
        ],
    )
}

/// A store's directory cannot be accessed.
pub fn no_store_directory(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => missing_directory(path),
        _ => useless_directory(path, error),
    }
}

fn missing_directory(path: &Path) -> Failure {
    let path = path.display().to_string();
    let actions = [
        Action::tell("Correct the address, mount the disk that belongs there, or create the directory."),
        Action::run(&["mkdir", "-p", &path]),
    ];
    failure(Code::NotFound, format!("The directory {path} does not exist."), NOTHING_CHANGED, actions)
}

fn useless_directory(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::TimedOut => failure(
            Code::Offline,
            format!("The directory {path} does not answer."),
            NOTHING_CHANGED,
            "Check that its disk or server is connected, and try again.",
        ),
        _ => failure(
            Code::Failed,
            format!("The directory {path} cannot be used: {}.", why(error)),
            NOTHING_CHANGED,
            "Check the address, and that you have permission to write there.",
        ),
    }
}

/// The same as [`new_store`], for errors about its family.
pub fn new_family(error: &FamilyError) -> Failure {
    match error {
        FamilyError::Read(ReadError::Store(error)) => new_store(error),
        error => family(error),
    }
}

/// The same for a drive that is known here. If its store no longer holds any family, it has lost the drive, or the address leads elsewhere
/// now; nothing is put there again, since that could come between the drive and what is left of it.
pub fn known_family(error: &FamilyError) -> Failure {
    match error {
        FamilyError::None => failure(
            Code::NotFound,
            "The store no longer has any data of this drive.",
            "Your files on this computer are safe, and are not uploaded.",
            [Action::RestoreStore { store: None }, Action::Promote { drive: None, replica: None }],
        ),
        error => family(error),
    }
}

/// There is no login for a store that requires one.
pub fn no_login(url: &str) -> Failure {
    failure(
        Code::Credentials,
        format!("There are no credentials for {url} on this computer."),
        "Nothing was changed. Your files on this computer are safe.",
        Action::LogIn { store: Some(url.to_owned()) },
    )
}

/// The store cannot make sure by itself that a drive has one writer.
pub fn weak_store(url: &str) -> Failure {
    failure(
        Code::WeakStore,
        format!("{url} cannot stop two computers from opening a drive at the same time."),
        "Nothing was changed. A drive on it is for one computer at a time: close it on one before you open it on another.",
        Action::AcceptWeakStore,
    )
}

/// No drive can be in the store, according to a trial.
pub fn unusable_store(url: &str, report: &Report) -> Failure {
    let test = Action::TestStore { store: None };
    let (code, actions) = match report.rights {
        Rights { read: true, write: true, list: true, delete: _ } => {
            (Code::Failed, [Action::tell("Choose another store."), test])
        }
        _ => (Code::Credentials, [Action::LogIn { store: None }, test]),
    };
    let message = format!("{url} cannot hold a drive: {}.", report.reasons.join("; "));
    at_store(failure(code, message, NOTHING_CHANGED, actions), url)
}

/// The store no longer does what a drive on it relies on.
pub fn store_demoted(name: &str, why: &str) -> Failure {
    failure(
        Code::WeakStore,
        format!(
            "The store no longer protects {name} against two computers that write at the same time: {why}."
        ),
        "If two computers write at the same time, one could overwrite the other. Nothing is uploaded; your files on this computer are safe.",
        [
            Action::AskOperator,
            Action::OpenReadOnly { drive: Some(name.to_owned()) },
            Action::TestStore { store: None },
        ],
    )
}

/// Other computers may change the directory of a drive that relies on this computer's locks.
pub fn shared_directory(name: &str, path: &Path) -> Failure {
    let new = StoreUrl::File(format!("{}-new", path.display()).into());
    failure(
        Code::WeakStore,
        format!(
            "{} is on a network or FUSE file system, where locks may not work between computers. {name} relies on locks.",
            path.display()
        ),
        "If two computers write at the same time, one could overwrite the other. Nothing is uploaded; your files on this computer are safe.",
        Action::MoveStore { drive: Some(name.to_owned()), to: Some(new.to_string()) },
    )
}

/// How to open a keyring, or do without it.
fn unlock() -> Actions {
    let otherwise = Action::tell("Or log in again.");
    [Action::UnlockKeyring, otherwise, Action::LogIn { store: None }].into()
}

/// Errors of keeping credentials.
pub fn secrets(error: &SecretsError) -> Failure {
    match error {
        SecretsError::Keyring { store, error: KeyringError::Locked } => failure(
            Code::Credentials,
            format!("The keyring is locked, and it holds the credentials for {store}."),
            SAFE_HERE,
            unlock(),
        ),
        SecretsError::Keyring { store, error: KeyringError::Away(reason) } => failure(
            Code::Credentials,
            format!("The credentials for {store} are in the keyring, which does not answer: {reason}."),
            SAFE_HERE,
            unlock(),
        ),
        SecretsError::Keyring { store, error: KeyringError::Missing } => failure(
            Code::Credentials,
            format!("The keyring no longer has the credentials for {store}."),
            SAFE_HERE,
            Action::LogIn { store: None },
        ),
        SecretsError::Local(error) => failure(
            Code::Failed,
            format!("Credentials cannot be read or saved: {}.", why(error)),
            NOTHING_CHANGED,
            "Check the local disk, and the permissions of the state directory.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall_core::store::probe::{Mode, Races, Refusals, Seen};

    #[test]
    fn only_missing_rights_are_a_matter_of_credentials() {
        let report = |write, listed| Report {
            mode: Mode::None,
            reasons: vec!["listings are late".to_owned()],
            latency_us: 0,
            tls: None,
            clock_ahead_ms: None,
            free_bytes: None,
            rights: Rights { read: true, write, list: true, delete: true },
            ranges_exact: true,
            seen: Seen { created: true, replaced: true, listed, deleted: true },
            refused: Refusals::default(),
            races: Races::default(),
            names: None,
        };
        let failure = unusable_store("s3://b", &report(false, true));
        assert_eq!(failure.code, Code::Credentials);
        let failure = unusable_store("s3://b", &report(true, false));
        assert_eq!(failure.code, Code::Failed);
        assert!(failure.message.contains("listings are late") && failure.action.contains("s3://b"));
    }
}
