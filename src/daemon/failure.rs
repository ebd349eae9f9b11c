//! From the engine's errors to what a person reads: the cause, what it means for the data, what to do next. One
//! function for each kind of error, exhaustive, so that a new error cannot go unexplained.

use crate::api::{Code, Failure, Holder, Way};
use crate::daemon::status::time;
use crate::words::{address, why};
use holdall_core::drive::DriveError;
use holdall_core::family::FamilyError;
use holdall_core::format::FormatError;
use holdall_core::journal::JournalError;
use holdall_core::map::ReadError;
use holdall_core::push::{LabelError, PushError};
use holdall_core::store::StoreError;
use holdall_core::store::url::UrlError;
use holdall_core::volume::OpenError;
use std::io;

mod pins;
mod replicas;
mod stores;

pub use pins::*;
pub use replicas::*;
pub use stores::*;

/// The consequence of what was refused.
pub const NOTHING_CHANGED: &str = "Nothing was changed.";
/// What it means that the trial of a store is not waited for.
pub const TRIED_IN_PART: &str =
    "Small objects may be left in the store, under probe/. Nothing else was changed.";
const SAFE_HERE: &str = "Your files are safe on this computer; uploads wait.";

/// Puts the four parts together.
pub fn failure(
    code: Code,
    message: impl Into<String>,
    consequence: &str,
    action: impl Into<String>,
) -> Failure {
    Failure::new(code, message, consequence, action)
}

/// A request that makes no sense.
pub fn usage(message: impl Into<String>) -> Failure {
    failure(Code::Usage, message, NOTHING_CHANGED, "See holdall drive --help.")
}

/// What is to unlock a drive has fewer characters than this.
pub fn short_passphrase(least: usize) -> Failure {
    let message = format!("The passphrase is too short: it has fewer than {least} characters.");
    failure(Code::Usage, message, NOTHING_CHANGED, "Choose one of four or more words that you can remember.")
}

/// A passphrase for a drive that is not to be encrypted.
pub fn unused_passphrase() -> Failure {
    failure(
        Code::Usage,
        "A passphrase was given for a drive that is to be stored without encryption.",
        NOTHING_CHANGED,
        "Leave out the passphrase, or leave out --no-encryption.",
    )
}

/// A request that the API does not know.
pub fn request(message: impl Into<String>) -> Failure {
    failure(Code::Usage, message, NOTHING_CHANGED, "See GET /v1/openapi.json.")
}

/// No such path in the API.
pub fn no_route(path: &str) -> Failure {
    let message = format!("The API has no {path}.");
    failure(Code::NotFound, message, NOTHING_CHANGED, "See GET /v1/openapi.json.")
}

/// The drive has a name here already.
pub fn known_as(name: &str) -> Failure {
    failure(
        Code::Exists,
        format!("This drive is on this computer already, as \u{201c}{name}\u{201d}."),
        "Nothing was changed.",
        format!("Open it by that name: holdall drive open {name}."),
    )
}

/// No such drive.
pub fn no_drive(name: &str) -> Failure {
    let message = format!("There is no drive \"{name}\" on this computer.");
    failure(Code::NotFound, message, NOTHING_CHANGED, "Run holdall drive list, or holdall drive add.")
}

/// A drive that is not in the state that the request needs.
pub fn state(message: impl Into<String>, action: impl Into<String>) -> Failure {
    failure(Code::State, message, NOTHING_CHANGED, action)
}

/// The store's errors.
pub fn store(error: &StoreError) -> Failure {
    match error {
        StoreError::NotFound { name } => failure(
            Code::Corrupt,
            format!("{name} is missing from the store."),
            "What it held cannot be read; everything else is not affected.",
            "Run holdall drive check NAME. If the store has a backup or versions, bring the object back.",
        ),
        StoreError::Precondition { .. } => failure(
            Code::Held,
            "Another computer changed the drive at the same moment.",
            NOTHING_CHANGED,
            "Try again.",
        ),
        StoreError::Unreachable { reason } => failure(
            Code::Offline,
            format!("The store cannot be reached: {reason}."),
            SAFE_HERE,
            "Check the connection or plug the disk in. Work resumes by itself.",
        ),
        // They come back, and those that do not are told from those that never were by whoever knows that.
        StoreError::NoPlace { place } => failure(
            Code::Offline,
            format!("The store cannot be reached: there is no {place}."),
            SAFE_HERE,
            "If it was deleted, create it again, or bring it back from a backup. Work resumes by itself.",
        ),
        StoreError::Elsewhere { reason } => failure(
            Code::NotFound,
            format!("The store cannot be reached: {reason}."),
            NOTHING_CHANGED,
            "Correct the address.",
        ),
        StoreError::Unfit { reason } => failure(
            Code::Failed,
            format!("The store cannot be used: {reason}."),
            SAFE_HERE,
            "Mount it in another way, or choose another place.",
        ),
        StoreError::Busy { reason, retry_after } => {
            let failure = failure(
                Code::Offline,
                format!("The store is busy: {reason}."),
                SAFE_HERE,
                "Wait a little. Work resumes by itself.",
            );
            let seconds = retry_after.unwrap_or_default().as_secs_f64().ceil() as u32;
            Failure { retry_after_s: Some(seconds), ..failure }
        }
        StoreError::UnknownCredentials { reason } => failure(
            Code::Credentials,
            format!("The store refused the credentials: {reason}."),
            SAFE_HERE,
            "Run holdall store login URL, and give those that are valid.",
        ),
        StoreError::Denied { reason } => failure(
            Code::Credentials,
            format!("The store refused access: {reason}."),
            SAFE_HERE,
            "Give other credentials with holdall store login URL, or have the store allow this.",
        ),
        StoreError::Full { reason } => failure(
            Code::Full,
            format!("The store is full: {reason}."),
            SAFE_HERE,
            "Make room in the store, or have it grow. Work resumes by itself.",
        ),
        StoreError::Damaged { name, reason } => failure(
            Code::Corrupt,
            format!("{name} came back damaged: {reason}."),
            "What it holds cannot be read; everything else is not affected.",
            "Run holdall drive check NAME.",
        ),
    }
}

/// Errors of reading and opening objects.
pub fn read(error: &ReadError) -> Failure {
    match error {
        ReadError::Store(error) => store(error),
        ReadError::Format { name, error: FormatError::Newer { found, known } } => failure(
            Code::Newer,
            format!("{name} has format {found}; this program knows formats up to {known}."),
            NOTHING_CHANGED,
            "Update Holdall on this computer.",
        ),
        ReadError::Format { name, error: FormatError::Unknown } => failure(
            Code::Newer,
            format!("{name} says something that this program does not know."),
            NOTHING_CHANGED,
            "Update Holdall on this computer.",
        ),
        ReadError::Format { name, error: FormatError::Magic { expected } } => failure(
            Code::Corrupt,
            format!(
                "{name} does not begin as {expected} does: this is not a Holdall store, or it is damaged."
            ),
            NOTHING_CHANGED,
            "Check the address of the store.",
        ),
        ReadError::Format {
            name,
            error: error @ (FormatError::Truncated | FormatError::Seal | FormatError::Invalid(_)),
        } => failure(
            Code::Corrupt,
            format!("{name} is damaged: {error}."),
            "What it holds cannot be read; everything else is not affected.",
            "Run holdall drive check NAME. If the store has a backup or versions, bring the object back.",
        ),
    }
}

/// Errors of families.
pub fn family(error: &FamilyError) -> Failure {
    match error {
        FamilyError::Exists => failure(
            Code::Exists,
            "The store holds a drive already.",
            NOTHING_CHANGED,
            "Use holdall drive add to use it here, or choose another address.",
        ),
        FamilyError::Unfinished => failure(
            Code::Corrupt,
            "The store holds the beginning of a drive that was never finished.",
            "There is no data in it.",
            "If another computer is creating a drive there, wait for it. Else create the drive again with the same \
             passphrase; or delete what is at that address, or choose another.",
        ),
        FamilyError::None => failure(
            Code::NotFound,
            "The store holds no drive.",
            NOTHING_CHANGED,
            "Check the address, or use holdall drive create.",
        ),
        FamilyError::SecretNeeded => failure(
            Code::PassphraseNeeded,
            "The drive is encrypted, and neither its passphrase nor its recovery key was given.",
            NOTHING_CHANGED,
            "Give its passphrase with --passphrase-file, or its recovery key with --recovery-key-file.",
        ),
        FamilyError::WrongSecret => failure(
            Code::PassphraseWrong,
            "The passphrase or recovery key is wrong.",
            NOTHING_CHANGED,
            "Try again. Without one of the two nobody can read the drive.",
        ),
        FamilyError::SecretUnused => failure(
            Code::State,
            "The store says that this drive is not encrypted, and a passphrase or recovery key was given.",
            "Nothing was written. Files on such a drive could be read by anyone who can read the store.",
            "If the drive was made with encryption, do not use this store: somebody has changed family.json at URL. If it was made with \
             --no-encryption, leave the passphrase out.",
        ),
        FamilyError::Changed(difference) => failure(
            Code::Corrupt,
            format!("The store has changed what it says of the drive: {difference}."),
            "Nothing was written. Your files are safe on this computer, and uploads wait.",
            "That never changes by itself. Check that URL is the right store, and bring back family.json there from a backup; \
             if somebody else can write to that store, ask who did.",
        )
        .by(Way::Emptied),
        FamilyError::NotEncrypted => failure(
            Code::State,
            "The drive is not encrypted, so that it has no passphrase.",
            NOTHING_CHANGED,
            "To encrypt, create a new drive and copy the files.",
        ),
        FamilyError::Read(error) => read(error),
    }
}

fn held(holder: Holder, name: &str) -> Failure {
    let failure = failure(
        Code::Held,
        format!("{} has the drive open (epoch {}).", holder.name, holder.epoch),
        NOTHING_CHANGED,
        format!(
            "Close it there, or look at it with holdall drive open {name} --read-only. If that computer is gone: \
             holdall drive open {name} --take-over."
        ),
    );
    Failure { holder: Some(Box::new(holder)), ..failure }
}

/// Errors of opening a drive.
pub fn open(error: &OpenError, name: &str) -> Failure {
    // A fork's has blanks and brackets.
    let name = quoted(name);
    match error {
        OpenError::Held { device_name, epoch, written_ms } => {
            let last_commit_at = Some(time(*written_ms));
            held(Holder { name: device_name.clone(), epoch: epoch.0, last_commit_at }, &name)
        }
        OpenError::Removed { unsent: 0 } => removed(&name),
        OpenError::Removed { unsent } => failure(
            Code::Unsent,
            format!("The drive was removed from its store, and {unsent} changes are only on this computer."),
            "They cannot be uploaded any more. They are kept in this computer's files of the drive.",
            format!("To give them up run holdall drive remove {name} --discard-unsent."),
        )
        .by(Way::GiveUp),
        OpenError::Moved { to } => moved(to.as_deref(), &name),
        OpenError::Forked { unsent, .. } => failure(
            Code::Conflict,
            format!(
                "Another computer has written to the drive, and {unsent} changes are only on this computer."
            ),
            "Both versions are kept: theirs in the store, yours on this computer.",
            format!("Run holdall drive forks {name}."),
        ),
        OpenError::NoForkPoint { unsent } => failure(
            Code::Diverged,
            format!("The version that {unsent} changes of this computer build on is gone from the store."),
            "They cannot be uploaded. They are kept in this computer's files of the drive.",
            format!(
                "If the store has a backup that is newer, bring it back. To give the changes up run holdall drive remove {name} \
                 --discard-unsent."
            ),
        )
        .by(Way::GiveUp),
        OpenError::RolledBack { found, known, unsent } => diverged(
            format!(
                "The store's version of the drive (epoch {found}) lacks changes that this computer has seen there (epoch {known})."
            ),
            *unsent,
            &name,
        ),
        OpenError::CopyWrote => failure(
            Code::Diverged,
            "A copy of this computer's files, such as one that was restored from a backup, has written to the drive. Whether its version \
             contains all that was uploaded from here cannot be told."
                .to_owned(),
            "Nothing was changed. Everything that was written here was uploaded before.",
            format!(
                "If the store was restored by mistake, bring it back as it was. Else run holdall drive open {name} --set-aside: it opens \
                 the store's version, and keeps this computer's files of the drive in a directory of its own."
            ),
        ),
        OpenError::NotSeen => failure(
            Code::Offline,
            "The version of the drive that this computer saw last is not its own, so it cannot open the drive alone.",
            SAFE_HERE,
            "Connect to the network, then open it again.",
        ),
        OpenError::Store(error) => store(error),
        OpenError::Read(error) => read(error),
        OpenError::Journal(error) => journal(error),
        OpenError::Local(error) => local(error),
    }
}

/// The store's version does not contain what this computer knows of the drive.
fn diverged(message: String, unsent: u64, name: &str) -> Failure {
    let unsent = match unsent {
        0 => String::new(),
        1 => " One change is only on this computer, and stays there.".to_owned(),
        unsent => format!(" {unsent} changes are only on this computer, and stay there."),
    };
    failure(
        Code::Diverged,
        message,
        &format!("Nothing was changed.{unsent}"),
        format!(
            "If the store lost changes by mistake, bring it back as it was. If it was restored from a backup on purpose, or a replica that \
             lacked changes was promoted, run holdall drive open {name} --set-aside: it opens the store's version, and keeps what \
             only this computer has in a directory of its own."
        ),
    )
}

fn removed(name: &str) -> Failure {
    failure(
        Code::Gone,
        "The drive was removed from its store.",
        "Its data in the store is gone.",
        format!("Run holdall drive remove {name} to forget it here."),
    )
}

/// A drive that lives in another store now, whose address is known if it was said.
fn moved(to: Option<&str>, name: &str) -> Failure {
    let action = format!("Run holdall drive remove {name}, then holdall drive add {name} --store URL.");
    let message = match to {
        Some(to) => format!("The drive was moved to another store: {to}."),
        None => "The drive was moved to another store.".to_owned(),
    };
    let failure = failure(Code::Gone, message, "Its data is there. Nothing was changed.", action);
    match to {
        Some(to) => at_store(failure, to),
        None => failure,
    }
}

/// The same, where it was to be added from the store that it was in.
pub fn added_where_it_was(to: Option<&str>, name: &str) -> Failure {
    let action = with_address(&format!("Run holdall drive add {name} --store URL."), to.unwrap_or("URL"));
    Failure { action, ..moved(to, name) }
}

/// Errors of the journal.
pub fn journal(error: &JournalError) -> Failure {
    match error {
        JournalError::Damaged { .. } => failure(
            Code::Corrupt,
            format!("The local journal is damaged: {error}."),
            "Changes that were not uploaded may be lost from that record on. Nothing is uploaded or deleted.",
            "Check the disk of this computer. The uploaded version can be opened on another one.",
        ),
        JournalError::CutShort { .. } | JournalError::Missing => failure(
            Code::Corrupt,
            format!("The local journal is damaged: {error}."),
            "Changes that were not uploaded may be lost. Nothing is uploaded or deleted.",
            "Bring the file back if there is a backup. The uploaded version can be opened on another computer.",
        ),
        JournalError::NoRoom(reason) => failure(
            Code::Full,
            format!("The local disk has no room for the journal: {reason}."),
            "What was saved before is not affected.",
            "Make room on the local disk, then try again.",
        ),
        JournalError::Full => failure(
            Code::Full,
            "The local journal is full.",
            "Nothing is lost; new writes wait.",
            "Let uploads catch up, or make room on the local disk.",
        ),
        JournalError::Failed(reason) | JournalError::Io(reason) => failure(
            Code::Failed,
            format!("The local disk failed: {reason}."),
            "What was saved before is not affected. Nothing more is accepted.",
            "Check the local disk and free space, then close and open the drive.",
        ),
    }
}

/// Errors of this computer's files.
pub fn local(error: &io::Error) -> Failure {
    let (code, action) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Code::Full, "Make room on the local disk.")
        }
        // What is there, and cannot be what was written.
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => (
            Code::Corrupt,
            "Check the local disk, and bring the file back if there is a backup. The uploaded version can be opened on another computer.",
        ),
        io::ErrorKind::FileTooLarge => (
            Code::Failed,
            "The drive is larger than a file can be on the local disk. Keep Holdall's cache on XFS or Btrfs, or use the drive on another computer.",
        ),
        _ => (Code::Failed, "Check the local disk and its permissions."),
    };
    let message = format!("This computer's files of the drive cannot be used: {}.", why(error));
    failure(code, message, "Nothing was changed, here or in the store.", action)
}

/// Names the drive in an action that says NAME, and its store in one that says URL: the errors of what lies below know
/// neither.
pub fn named(failure: Failure, name: &str, url: &str) -> Failure {
    let failure = Failure { action: failure.action.replace("NAME", &quoted(name)), ..failure };
    at_store(failure, url)
}

/// A drive that goes on as a fork here.
pub fn forked(taken_by: &str, name: &str) -> Failure {
    failure(
        Code::Conflict,
        format!("{taken_by} has taken the drive over. Your changes go on as a fork."),
        "Both versions are kept: nothing is merged, and nothing is lost.",
        format!("Run holdall drive forks {}.", quoted(name)),
    )
}

/// Errors of pushing.
pub fn push(error: &PushError) -> Failure {
    match error {
        PushError::Fenced(fence) if fence.removed => failure(
            Code::Conflict,
            format!("{} has removed the drive.", fence.device_name),
            "What was not uploaded is kept on this computer.",
            "Copy what you need to another drive.",
        ),
        PushError::Fenced(fence) => failure(
            Code::Conflict,
            format!("{} has taken the drive over (epoch {}).", fence.device_name, fence.epoch),
            "What was not uploaded is kept on this computer. Nothing more is uploaded.",
            "Copy what you need to another drive.",
        ),
        PushError::Forked(fence) => forked(&fence.device_name, "NAME"),
        PushError::Journal(error) => journal(error),
        PushError::Read(error) => read(error),
        PushError::Paused => {
            failure(Code::Paused, "Uploading is paused.", SAFE_HERE, "Run holdall drive resume NAME.")
        }
        PushError::Closed => state("The drive was closed meanwhile.", "Open it again."),
        PushError::Label(error) => label(error),
    }
}

/// Errors of snapshots' labels.
pub fn label(error: &LabelError) -> Failure {
    match error {
        LabelError::Taken(label) => failure(
            Code::Exists,
            format!("There is a snapshot \"{label}\" already."),
            NOTHING_CHANGED,
            "Choose another label.",
        ),
        LabelError::Missing(label) => drive(&DriveError::NoSnapshot(label.clone())),
        LabelError::Reserved(label) => failure(
            Code::Usage,
            format!("\"{label}\" is a label that Holdall gives itself."),
            NOTHING_CHANGED,
            "Choose another label.",
        ),
    }
}

/// Errors of what is done to a closed drive.
pub fn drive(error: &DriveError) -> Failure {
    match error {
        DriveError::Held { device_name, epoch } => failure(
            Code::Held,
            format!("{device_name} has the drive open (epoch {epoch})."),
            NOTHING_CHANGED,
            "Close it there first.",
        ),
        DriveError::Raced => failure(
            Code::Held,
            "Another computer changed the drive at the same moment.",
            NOTHING_CHANGED,
            "Try again.",
        ),
        DriveError::Removed => removed("NAME"),
        DriveError::Moved { to } => moved(to.as_deref(), "NAME"),
        DriveError::NoSnapshot(label) => failure(
            Code::NotFound,
            format!("There is no snapshot \"{label}\"."),
            NOTHING_CHANGED,
            "Run holdall drive snapshot list NAME.",
        ),
        DriveError::Read(error) => read(error),
    }
}

/// Errors of store addresses.
pub fn url(error: &UrlError) -> Failure {
    let (message, action) = address(error);
    failure(Code::Usage, message, NOTHING_CHANGED, action)
}
