//! Turns the engine's errors into what a person reads: the cause, what it means for the data, what to do next. One function for each kind
//! of error, exhaustive, so that no new error stays unexplained.

use crate::api::words::why;
use crate::api::{Action, Actions, Code, Failure, Holder};
use crate::daemon::status::time;
use holdall_client::failure::address;
use holdall_client::nearest::nearest;
use holdall_core::drive::DriveError;
use holdall_core::family::FamilyError;
use holdall_core::journal::JournalError;
use holdall_core::map::{FormatError, ReadError};
use holdall_core::push::{LabelError, PushError};
use holdall_core::store::StoreError;
use holdall_core::store::url::UrlError;
use holdall_core::volume::OpenError;
use std::io;

mod folders;
mod pins;
mod replicas;
mod stores;

pub use folders::*;
pub use pins::*;
pub use replicas::*;
pub use stores::*;

/// The consequence of a refused request.
pub const NOTHING_CHANGED: &str = "Nothing was changed.";
/// The consequence of interrupting the trial of a store.
pub const TRIED_IN_PART: &str =
    "Small objects may be left in the store, under probe/. Nothing else was changed.";
/// How to restore a damaged object.
const BRING_BACK: &str = "If the store has a backup or versions, restore the object from there.";
const SAFE_HERE: &str = "Your files are safe on this computer; uploads wait.";

/// Puts the four parts together.
pub fn failure(
    code: Code,
    message: impl Into<String>,
    consequence: &str,
    actions: impl Into<Actions>,
) -> Failure {
    Failure::new(code, message, consequence, actions)
}

/// A request that makes no sense.
pub fn usage(message: impl Into<String>) -> Failure {
    failure(Code::Usage, message, NOTHING_CHANGED, Action::help(&["drive"]))
}

/// A new passphrase has fewer characters than this.
pub fn short_passphrase(least: usize) -> Failure {
    let message = format!("The passphrase is too short: it has fewer than {least} characters.");
    failure(Code::Usage, message, NOTHING_CHANGED, "Choose one of four or more words that you can remember.")
}

/// A passphrase for a drive that will not be encrypted.
pub fn unused_passphrase() -> Failure {
    failure(
        Code::Usage,
        "You gave a passphrase for a drive without encryption.",
        NOTHING_CHANGED,
        Action::LeaveOutSecret,
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

/// The drive already has a name here.
pub fn known_as(name: &str) -> Failure {
    failure(
        Code::Exists,
        format!("This drive is already on this computer, as \u{201c}{name}\u{201d}."),
        NOTHING_CHANGED,
        Action::Open { drive: Some(name.to_owned()) },
    )
}

/// No drive of this name; `known` are the names that exist.
pub fn no_drive(name: &str, known: &[String]) -> Failure {
    let message = format!("There is no drive \"{name}\" on this computer.");
    let actions = match known {
        [] => vec![Action::Create { drive: None, store: None }, Action::Add { drive: None, store: None }],
        known => did_you_mean(name, known, Action::ListDrives),
    };
    failure(Code::NotFound, message, NOTHING_CHANGED, actions)
}

/// No snapshot with this label; `known` are the labels that exist.
pub fn no_snapshot(label: &str, known: &[String]) -> Failure {
    let message = format!("There is no snapshot \"{label}\".");
    let actions = did_you_mean(label, known, Action::Snapshots { drive: None });
    failure(Code::NotFound, message, NOTHING_CHANGED, actions)
}

/// No fork of this name; `known` are the names that exist.
pub fn no_fork(drive: &str, fork: &str, known: &[String]) -> Failure {
    let message = format!("{drive} has no fork \"{fork}\" on this computer.");
    let actions = did_you_mean(fork, known, Action::Forks { drive: Some(drive.to_owned()) });
    failure(Code::NotFound, message, NOTHING_CHANGED, actions)
}

/// The name that was probably meant, if one is near, and where all of them are listed.
fn did_you_mean(typed: &str, known: &[String], list: Action) -> Vec<Action> {
    let meant = nearest(typed, known).map(|near| Action::tell(format!("Did you mean \"{near}\"?")));
    meant.into_iter().chain([list]).collect()
}

/// A drive that is not in the state that the request needs.
pub fn state(message: impl Into<String>, actions: impl Into<Actions>) -> Failure {
    failure(Code::State, message, NOTHING_CHANGED, actions)
}

/// The store's errors.
pub fn store(error: &StoreError) -> Failure {
    match error {
        StoreError::NotFound { name } => failure(
            Code::Corrupt,
            format!("{name} is missing from the store."),
            "The data in it cannot be read; everything else is not affected.",
            [Action::Check { drive: None }, Action::tell(BRING_BACK)],
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
            "Check the connection, or plug in the disk. Work resumes by itself.",
        ),
        // A missing place may come back. Callers that know that it never existed report it differently.
        StoreError::NoPlace { place } => failure(
            Code::Offline,
            format!("The store cannot be reached: there is no {place}."),
            SAFE_HERE,
            "If it was deleted, create it again, or restore it from a backup. Work resumes by itself.",
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
            let seconds = retry_after.unwrap_or_default().as_secs_f64().ceil() as u16;
            Failure { retry_after_s: Some(seconds), ..failure }
        }
        StoreError::UnknownCredentials { reason } => failure(
            Code::Credentials,
            format!("The store refused the credentials: {reason}."),
            SAFE_HERE,
            Action::LogIn { store: None },
        ),
        StoreError::Denied { reason } => failure(
            Code::Credentials,
            format!("The store refused access: {reason}."),
            SAFE_HERE,
            [
                Action::tell("Log in with other credentials, or grant this access in the store."),
                Action::LogIn { store: None },
            ],
        ),
        StoreError::Full { reason } => failure(
            Code::Full,
            format!("The store is full: {reason}."),
            SAFE_HERE,
            "Free space in the store, or enlarge it. Work resumes by itself.",
        ),
        StoreError::Damaged { name, reason } => failure(
            Code::Corrupt,
            format!("{name} came back damaged: {reason}."),
            "The data in it cannot be read; everything else is not affected.",
            Action::Check { drive: None },
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
            format!("{name} contains something that this program does not know."),
            NOTHING_CHANGED,
            "Update Holdall on this computer.",
        ),
        ReadError::Format { name, error: FormatError::Magic { expected } } => failure(
            Code::Corrupt,
            format!("{name} does not begin like {expected}: this is not a Holdall store, or it is damaged."),
            NOTHING_CHANGED,
            "Check the address of the store.",
        ),
        ReadError::Format {
            name,
            error: error @ (FormatError::Truncated | FormatError::Seal | FormatError::Invalid(_)),
        } => failure(
            Code::Corrupt,
            format!("{name} is damaged: {error}."),
            "The data in it cannot be read; everything else is not affected.",
            [Action::Check { drive: None }, Action::tell(BRING_BACK)],
        ),
        ReadError::Gone { file } => failure(
            Code::NotFound,
            format!("{file} was changed or removed by another program."),
            NOTHING_CHANGED,
            "Open the file again.",
        ),
        ReadError::Remote(error) => failure(
            Code::Failed,
            format!("A file could not be read: {error}."),
            NOTHING_CHANGED,
            "Try again later.",
        ),
    }
}

/// Errors of families.
pub fn family(error: &FamilyError) -> Failure {
    match error {
        FamilyError::Exists => failure(
            Code::Exists,
            "The store already holds a drive.",
            NOTHING_CHANGED,
            [Action::Add { drive: None, store: None }, Action::tell("Or choose another address.")],
        ),
        FamilyError::Left => failure(
            Code::Exists,
            "The store holds the remains of a drive that was removed: its keys, and a note that it was removed.",
            NOTHING_CHANGED,
            "Create the drive with the passphrase of the removed one (without a passphrase, if that had none). Or choose another \
             address, or delete everything at this one if no computer needs it.",
        ),
        FamilyError::Unfinished => failure(
            Code::Corrupt,
            "The store holds the beginning of a drive that was never finished.",
            "There is no data in it.",
            "If another computer is creating a drive there, wait for it. If not, create the drive again with the same \
             passphrase, delete everything at that address, or choose another.",
        ),
        FamilyError::None => failure(
            Code::NotFound,
            "The store holds no drive.",
            NOTHING_CHANGED,
            [Action::tell("Check the address."), Action::Create { drive: None, store: None }],
        ),
        FamilyError::SecretNeeded => failure(
            Code::PassphraseNeeded,
            "The drive is encrypted, and neither its passphrase nor its recovery key was given.",
            NOTHING_CHANGED,
            Action::GiveSecret,
        ),
        FamilyError::WrongSecret => failure(
            Code::PassphraseWrong,
            "The passphrase or recovery key is wrong.",
            NOTHING_CHANGED,
            "Try again. Without one of the two, nobody can read the drive.",
        ),
        FamilyError::SecretUnused => failure(
            Code::State,
            "The store says that this drive is not encrypted, but you gave a passphrase or recovery key.",
            "Nothing was written. Files on such a drive could be read by anyone who can read the store.",
            Action::DistrustStore { store: None },
        ),
        FamilyError::Changed(difference) => failure(
            Code::Corrupt,
            format!("The store's description of the drive has changed: {difference}."),
            "Nothing was written. Your files are safe on this computer, and uploads wait.",
            Action::RestoreFamily { store: None },
        ),
        FamilyError::NotEncrypted => failure(
            Code::State,
            "The drive is not encrypted, so it has no passphrase.",
            NOTHING_CHANGED,
            "To encrypt your files, create a new drive with encryption and copy them there.",
        ),
        FamilyError::Read(error) => read(error),
    }
}

fn held(holder: Holder, name: &str) -> Failure {
    let failure = failure(
        Code::Held,
        format!("{} has the drive open (epoch {}).", holder.name, holder.epoch),
        NOTHING_CHANGED,
        [
            Action::tell("Close it there."),
            Action::OpenReadOnly { drive: Some(name.to_owned()) },
            Action::TakeOver { drive: Some(name.to_owned()) },
        ],
    );
    Failure { holder: Some(Box::new(holder)), ..failure }
}

/// Errors of opening a drive.
pub fn open(error: &OpenError, name: &str) -> Failure {
    match error {
        OpenError::Held { device, device_name, epoch, written_ms } => {
            let (device, last_commit_at) = (device.to_string(), Some(time(*written_ms)));
            held(Holder { device, name: device_name.clone(), epoch: epoch.0, last_commit_at }, name)
        }
        OpenError::Removed { unsent: 0 } => removed(Some(name)),
        OpenError::Removed { unsent } => failure(
            Code::Unsent,
            format!("The drive was removed from its store, and {unsent} changes are only on this computer."),
            "They can no longer be uploaded. They are kept in this computer's files of the drive.",
            Action::DiscardUnsent { drive: Some(name.to_owned()) },
        ),
        OpenError::Moved { to } => moved(to.as_deref(), Some(name)),
        OpenError::Forked { unsent, .. } => failure(
            Code::Conflict,
            format!(
                "Another computer has written to the drive, and {unsent} changes are only on this computer."
            ),
            "Both versions are kept: theirs in the store, yours on this computer.",
            Action::Forks { drive: Some(name.to_owned()) },
        ),
        OpenError::NoForkPoint { unsent } => failure(
            Code::Diverged,
            format!("The version that {unsent} changes of this computer build on is gone from the store."),
            "They cannot be uploaded. They are kept in this computer's files of the drive.",
            [
                Action::tell("If there is a newer backup of the store, restore it."),
                Action::DiscardUnsent { drive: Some(name.to_owned()) },
            ],
        ),
        OpenError::RolledBack { found, known, unsent } => diverged(
            format!(
                "The store's version of the drive (epoch {found}) lacks changes that this computer has seen there (epoch {known})."
            ),
            *unsent,
            name,
        ),
        OpenError::CopyWrote => failure(
            Code::Diverged,
            "A copy of this computer's files, such as one that was restored from a backup, has written to the drive. Holdall cannot tell \
             whether that version contains everything that was uploaded from here.",
            "Nothing was changed. Everything that was written on this computer had been uploaded before.",
            [
                Action::tell("If the store was restored by mistake, put its newer state back."),
                Action::SetAside { drive: Some(name.to_owned()) },
            ],
        ),
        OpenError::HandedOver { to_name, is_decided: true, .. } => failure(
            Code::Held,
            format!("The drive has moved to {to_name}."),
            "Nothing is lost: that computer has everything that was written here, and it is kept here until it is uploaded.",
            Action::tell(format!("Open the drive on {to_name}, or move it back from there.")),
        ),
        OpenError::HandedOver { to_name, .. } => failure(
            Code::Held,
            format!("The drive is moving to {to_name}, and the store has not confirmed that yet."),
            "Nothing is lost: both computers have everything that was written here. Neither writes until the store answers.",
            "Connect to the network, then open it again.",
        ),
        OpenError::Continued { by } => failure(
            Code::Conflict,
            format!("{by} has uploaded changes since the drive moved there."),
            "Everything that was written on this computer is in the store.",
            "Open the drive as usual, without taking it back.",
        ),
        OpenError::NotGranted => failure(
            Code::Conflict,
            "The drive was not moved to this computer.",
            NOTHING_CHANGED,
            "Move it from the computer that has it open.",
        ),
        OpenError::Import(error) => failure(
            Code::Corrupt,
            format!("The changes that another computer sent with the drive cannot be used: {error}."),
            "That computer still has them. Nothing was changed here.",
            "Take the drive back on that computer, then move it again.",
        ),
        OpenError::NotSeen => failure(
            Code::Offline,
            "The last version of the drive that this computer knows was written by another computer, so it cannot open the drive without the store.",
            SAFE_HERE,
            "Connect to the network, then open it again.",
        ),
        OpenError::Head(invalid) => drive(&invalid.clone().into()),
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
        1 => " One change is only on this computer, and is kept there.".to_owned(),
        unsent => format!(" {unsent} changes are only on this computer, and are kept there."),
    };
    failure(
        Code::Diverged,
        message,
        &format!("Nothing was changed.{unsent}"),
        [
            Action::tell("If the store lost changes by mistake, restore it as it was."),
            Action::SetAside { drive: Some(name.to_owned()) },
        ],
    )
}

fn removed(name: Option<&str>) -> Failure {
    failure(
        Code::Gone,
        "The drive was removed from its store.",
        "Its data in the store is gone.",
        Action::Remove { drive: name.map(str::to_owned) },
    )
}

/// The drive now lives in another store, whose address may be known.
fn moved(to: Option<&str>, name: Option<&str>) -> Failure {
    let action = Action::Follow { drive: name.map(str::to_owned), to: to.map(str::to_owned) };
    let message = match to {
        Some(to) => format!("The drive was moved to another store: {to}."),
        None => "The drive was moved to another store.".to_owned(),
    };
    failure(Code::Gone, message, "Its data is there. Nothing was changed.", action)
}

/// The same, for a drive that was to be added from its former store.
pub fn added_where_it_was(to: Option<&str>, name: Option<&str>) -> Failure {
    // The given address is the one that the drive has left.
    match to {
        Some(to) => {
            let add = Action::Add { drive: name.map(str::to_owned), store: Some(to.to_owned()) };
            moved(Some(to), name).with_actions(add)
        }
        None => moved(None, name).with_actions("Add it from the store that it was moved to."),
    }
}

/// Errors of the journal.
pub fn journal(error: &JournalError) -> Failure {
    match error {
        JournalError::Damaged { .. } => failure(
            Code::Corrupt,
            format!("The local journal is damaged: {error}."),
            "Changes that were not uploaded may be lost, from that record on. Nothing is uploaded or deleted.",
            "Check the disk of this computer. The uploaded version can be opened on another one.",
        ),
        JournalError::CutShort { .. } | JournalError::Missing => failure(
            Code::Corrupt,
            format!("The local journal is damaged: {error}."),
            "Changes that were not uploaded may be lost. Nothing is uploaded or deleted.",
            "If you have a backup of the file, restore it. The uploaded version can be opened on another computer.",
        ),
        JournalError::NoRoom(reason) => failure(
            Code::Full,
            format!("The local disk has no space for the journal: {reason}."),
            "Files that were saved before are not affected.",
            "Free space on the local disk, then try again.",
        ),
        JournalError::Full => failure(
            Code::Full,
            "The local journal is full.",
            "Nothing is lost; new writes wait.",
            "Let uploads catch up, or free space on the local disk.",
        ),
        JournalError::Failed(reason) | JournalError::Io(reason) => failure(
            Code::Failed,
            format!("The local disk failed: {reason}."),
            "Files that were saved before are not affected. New changes are refused.",
            "Check the local disk and its free space, then close and open the drive.",
        ),
    }
}

/// Errors of this computer's files.
pub fn local(error: &io::Error) -> Failure {
    let (code, action) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Code::Full, "Free space on the local disk.")
        }
        // The file exists, but is not what was written.
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => (
            Code::Corrupt,
            "Check the local disk, and restore the file if you have a backup. The uploaded version can be opened on another computer.",
        ),
        io::ErrorKind::FileTooLarge => (
            Code::Failed,
            "The drive is larger than a file can be on the local disk. Move Holdall's cache to XFS or Btrfs, or use the drive on another computer.",
        ),
        _ => (Code::Failed, "Check the local disk and its permissions."),
    };
    let message = format!("This computer's files of the drive cannot be used: {}.", why(error));
    failure(code, message, "Nothing was changed, here or in the store.", action)
}

/// Names the drive and its store in actions that lack them: errors of the layers below know neither.
pub fn named(failure: Failure, name: &str, url: &str) -> Failure {
    at_store(failure.about(Some(name), None), url)
}

/// The drive continues as a fork here.
pub fn forked(taken_by: &str, name: Option<&str>) -> Failure {
    failure(
        Code::Conflict,
        format!("{taken_by} has taken the drive over. Your changes continue as a fork."),
        "Both versions are kept: nothing is merged, and nothing is lost.",
        Action::Forks { drive: name.map(str::to_owned) },
    )
}

/// Errors of pushing.
pub fn push(error: &PushError) -> Failure {
    match error {
        PushError::Fenced(fence) if fence.removed => failure(
            Code::Conflict,
            format!("{} has removed the drive.", fence.device_name),
            "Changes that were not uploaded are kept on this computer.",
            "Copy what you need to another drive.",
        ),
        PushError::Fenced(fence) => failure(
            Code::Conflict,
            format!("{} has taken the drive over (epoch {}).", fence.device_name, fence.epoch),
            "Changes that were not uploaded are kept on this computer. Nothing more is uploaded.",
            "Copy what you need to another drive.",
        ),
        PushError::Forked(fence) => forked(&fence.device_name, None),
        PushError::Journal(error) => journal(error),
        PushError::Read(error) => read(error),
        PushError::Head(invalid) => drive(&invalid.clone().into()),
        PushError::Paused => {
            failure(Code::Paused, "Uploading is paused.", SAFE_HERE, Action::Resume { drive: None })
        }
        PushError::OnHold => failure(
            Code::State,
            "The drive is being moved to another computer.",
            SAFE_HERE,
            "Wait until it has moved, or cancel that.",
        ),
        PushError::HandedOver { to } => failure(
            Code::Held,
            format!("The drive has moved to {to}."),
            "That computer has everything that was written here.",
            Action::tell(format!("Open the drive on {to}.")),
        ),
        PushError::CutOff => failure(
            Code::Interrupted,
            "The cleanup was stopped, or interrupted by another command.",
            "No version of the drive has lost anything: only data that no version needs was deleted.",
            "Start it again, or wait: it continues by itself later.",
        ),
        PushError::Closed => state("The drive was closed in the meantime.", "Open it again."),
        PushError::Label(error) => label(error),
    }
}

/// Errors of snapshots' labels.
pub fn label(error: &LabelError) -> Failure {
    match error {
        LabelError::Taken(label) => failure(
            Code::Exists,
            format!("There is already a snapshot \"{label}\"."),
            NOTHING_CHANGED,
            "Choose another label.",
        ),
        LabelError::Missing(label) => no_snapshot(label, &[]),
        LabelError::Reserved(label) => failure(
            Code::Usage,
            format!("The label \"{label}\" is reserved for Holdall."),
            NOTHING_CHANGED,
            "Choose another label.",
        ),
    }
}

/// Errors of operations on a closed drive.
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
        DriveError::Unfinished => failure(
            Code::State,
            "The drive's move to this store was interrupted.",
            NOTHING_CHANGED,
            "Open the drive: this finishes the move. Then try again.",
        ),
        DriveError::Removed => removed(None),
        DriveError::Moved { to } => moved(to.as_deref(), None),
        DriveError::NoSnapshot { label, known } => no_snapshot(label, known),
        DriveError::Read(error) => read(error),
    }
}

/// Errors of store addresses.
pub fn url(error: &UrlError) -> Failure {
    let (message, actions) = address(error);
    failure(Code::Usage, message, NOTHING_CHANGED, actions)
}
/// A fork in the drive's place that programs may still use.
pub fn fork_in_place(name: &str, at: &str) -> Failure {
    state(
        format!("The fork is still open in the place of {name}, at {at}."),
        [
            Action::tell("Use it there, or close it first."),
            Action::Close { drive: Some(name.to_owned()), wait: false },
        ],
    )
}
