//! The state after Ctrl-C, for each command: closing the connection cancels whatever was not committed.

use crate::api::{Action, Actions, Progress, Unit};
use crate::args::Command;
use crate::args::device::DeviceCommand;
use crate::args::drive::{DriveCommand, ForkCommand, ReplicaCommand, SnapshotCommand};
use crate::args::folder::FolderCommand;
use crate::args::store::StoreCommand;
use crate::failure::NOTHING_DONE;
use crate::output::Output;
use crate::progress::{Phase, Reporter};
use crate::sizes::format_bytes;

/// Shells add this to a signal's number to make an exit code.
const SIGNAL_BASE: i32 = 128;

/// Says what was done and what was not, and returns the exit code.
pub fn tell(command: &Command, signal: i32, progress: &Reporter, output: Output) -> u8 {
    let at = progress.last().map(|last| format!(" at: {}", how_far(&last))).unwrap_or_default();
    let (consequence, actions) = match (progress.phase(), command) {
        // A command that runs until it is interrupted ends well this way.
        (Phase::Serving, _) => return 0,
        (Phase::Preparing, Command::Events) => return exit_code(signal),
        (Phase::Preparing, _) => nothing_done(),
        (Phase::Requested, command) => left(command),
    };
    output.interrupted(&format!("Interrupted{at}."), consequence, actions);
    exit_code(signal)
}

fn exit_code(signal: i32) -> u8 {
    (SIGNAL_BASE + signal) as u8
}

fn how_far(progress: &Progress) -> String {
    let Progress { stage, done, total, unit } = progress;
    let amount = |number: u64| match unit {
        Unit::Bytes => format_bytes(number),
        Unit::Items => number.to_string(),
    };
    match total {
        0 => format!("{stage}, {}", amount(*done)),
        total => format!("{stage}, {} of {}", amount(*done), amount(*total)),
    }
}

const SEE_LIST: Action = Action::ListDrives;
const SEE_STATUS: Action = Action::Status;
const DONE_ALREADY: &str = "The change may already have taken effect.";

fn nothing_done() -> (&'static str, Actions) {
    (NOTHING_DONE, Actions::default())
}

/// The same for a folder.
fn left_of_folder(command: &FolderCommand) -> (&'static str, Actions) {
    match command {
        FolderCommand::Open(_) => {
            ("The folder is not open, unless the last step was finished.", SEE_STATUS.into())
        }
        FolderCommand::Close(close) if close.wait => (
            "The folder may be closed already. Pending uploads are safe on this computer.",
            SEE_STATUS.into(),
        ),
        FolderCommand::Close(_) => ("The folder may be closed already.", SEE_STATUS.into()),
        FolderCommand::Sync(_) => (
            "Uploaded changes are at the remote. The rest is safe on this computer and is uploaded later.",
            SEE_STATUS.into(),
        ),
        FolderCommand::List
        | FolderCommand::Status { .. }
        | FolderCommand::Queue(_)
        | FolderCommand::Conflicts { command: None, .. }
        | FolderCommand::Deletions { command: None, .. } => nothing_done(),
        FolderCommand::Pause(_)
        | FolderCommand::Resume(_)
        | FolderCommand::Conflicts { command: Some(_), .. }
        | FolderCommand::Deletions { command: Some(_), .. }
        | FolderCommand::Watch(_)
        | FolderCommand::Unwatch { .. }
        | FolderCommand::Forget { .. } => (DONE_ALREADY, SEE_STATUS.into()),
    }
}

/// The consequence, and what to do.
fn left(command: &Command) -> (&'static str, Actions) {
    let command = match command {
        Command::Drive(command) => command,
        Command::Folder(command) => return left_of_folder(command),
        Command::Open(_) | Command::Close(_) | Command::Ls { .. } => {
            unreachable!("short forms are written out first")
        }
        Command::Device(DeviceCommand::Name { new: None } | DeviceCommand::List) => return nothing_done(),
        Command::Device(DeviceCommand::Pair(_)) => {
            return (
                "The pairing ends within 15 seconds, unless both computers had confirmed it.",
                "See the paired devices: holdall device list.".into(),
            );
        }
        Command::Device(
            DeviceCommand::Name { new: Some(_) }
            | DeviceCommand::Unpair { .. }
            | DeviceCommand::Listen { .. },
        ) => return (DONE_ALREADY, "See the paired devices: holdall device list.".into()),
        Command::Store(StoreCommand::Login(_) | StoreCommand::Logout { .. }) => {
            return (DONE_ALREADY, Action::ListLogins.into());
        }
        Command::Store(StoreCommand::List) => return nothing_done(),
        Command::Store(StoreCommand::Test { .. }) => {
            return (
                "Small objects from the test may be left in the store, under probe/.",
                Actions::default(),
            );
        }
        Command::Pin(pin) if pin.dry_run || pin.status => return nothing_done(),
        Command::Pin(_) => {
            return (
                "Files that were pinned already stay pinned, and missing files are downloaded in the background.",
                Action::Pins { drive: None }.into(),
            );
        }
        Command::Unpin(_) => return (DONE_ALREADY, Action::Pins { drive: None }.into()),
        Command::Pins { .. } => return nothing_done(),
        Command::Evict(_) => {
            return (
                "Some space may have been freed already. The files are in the store.",
                SEE_STATUS.into(),
            );
        }
        Command::Wait(_) => {
            return (
                "Downloaded data stays until the space is needed. Nothing is pinned.",
                Actions::default(),
            );
        }
        Command::Activity(_) | Command::Diagnostics { .. } => return nothing_done(),
        Command::Web(_) => {
            return ("The pages may be served already.", Action::Web.into());
        }
        Command::Limits(_) => return ("The limits may have been changed already.", Action::Limits.into()),
        Command::Doctor { repair: false } => return nothing_done(),
        Command::Doctor { repair: true } => {
            return ("Some problems may have been fixed already.", Action::Doctor.into());
        }
        Command::Daemon { .. } => {
            return (
                "The background service may still be stopping.",
                Action::run(&["holdall", "daemon", "status"]).into(),
            );
        }
        Command::Status | Command::Events | Command::Completions { .. } | Command::Man { .. } => {
            return nothing_done();
        }
    };
    match command {
        DriveCommand::Create(_) | DriveCommand::Add(_) | DriveCommand::Clone { .. } => (
            "The drive exists only if the last step was finished; otherwise nothing usable is left.",
            SEE_LIST.into(),
        ),
        DriveCommand::Open(_) => {
            ("The drive is not open, unless the last step was finished.", SEE_STATUS.into())
        }
        DriveCommand::Close(close) if close.wait => {
            ("The drive may be closed already. Pending uploads are safe on this computer.", SEE_STATUS.into())
        }
        DriveCommand::Close(_) => ("The drive may be closed already.", SEE_STATUS.into()),
        DriveCommand::Sync(_) => (
            "Uploaded changes stay in the store. The rest is safe on this computer and is uploaded later.",
            SEE_STATUS.into(),
        ),
        DriveCommand::List | DriveCommand::Status { .. } | DriveCommand::Map(_) | DriveCommand::Queue(_) => {
            nothing_done()
        }
        DriveCommand::Check(_) => ("Nothing was changed; the check is not complete.", Actions::default()),
        DriveCommand::Gc { .. } => (
            "Only data that no version needs was deleted. The rest can be deleted later.",
            Actions::default(),
        ),
        DriveCommand::UploadNow(_)
        | DriveCommand::StopPrefetch(_)
        | DriveCommand::Pause(_)
        | DriveCommand::Resume(_)
        | DriveCommand::Resize { .. } => (DONE_ALREADY, SEE_STATUS.into()),
        DriveCommand::Snapshot(SnapshotCommand::List { .. }) => nothing_done(),
        DriveCommand::Snapshot(
            SnapshotCommand::Create { drive, .. } | SnapshotCommand::Delete { drive, .. },
        ) => (
            "The change may already have taken effect. The drive itself is unchanged.",
            Action::Snapshots { drive: Some(drive.name.clone()) }.into(),
        ),
        DriveCommand::Replica(ReplicaCommand::Status(_)) => nothing_done(),
        DriveCommand::Replica(ReplicaCommand::Add { drive, .. }) => (
            "The replica may have been added already. The rest is copied while the drive is open.",
            Action::Replicas { drive: Some(drive.name.clone()) }.into(),
        ),
        DriveCommand::Replica(ReplicaCommand::Remove { drive, .. }) => (
            "The change may already have taken effect. The replica's data stays there.",
            Action::Replicas { drive: Some(drive.name.clone()) }.into(),
        ),
        DriveCommand::Replica(ReplicaCommand::Promote { .. }) => (
            "The drive is either in its former store or in the replica. Nothing was deleted in either.",
            "Run the command again: it continues where it was interrupted.".into(),
        ),
        DriveCommand::Rollback { .. } => {
            ("The drive is either unchanged, or completely restored to the snapshot.", SEE_STATUS.into())
        }
        DriveCommand::Forks { command: None | Some(ForkCommand::Compare { .. }), .. } => nothing_done(),
        DriveCommand::Forks { drive, command: Some(_), .. } => (
            "The change may already have taken effect. The drive itself is unchanged.",
            Action::Forks { drive: Some(drive.name.clone()) }.into(),
        ),
        DriveCommand::Passphrase { .. } => {
            ("The passphrase is either the old or the new one.", "Run the command again to be sure.".into())
        }
        DriveCommand::RecoveryKey { .. } => (
            "The drive may already have a new recovery key, which was not shown. The passphrase still works.",
            "Run the command again for a recovery key that you can write down.".into(),
        ),
        DriveCommand::Remove { delete_data: true, .. } => (
            "Some of the drive's data may have been deleted already.",
            "Run the command again to delete the rest.".into(),
        ),
        DriveCommand::Remove { delete_data: false, .. } => {
            ("The drive may be removed already. Its data in the store stays.", SEE_LIST.into())
        }
        DriveCommand::Serve(_) => ("The drive was not served.", Actions::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::Parser;

    #[test]
    fn each_replica_command_gets_its_own_consequence() {
        let words = |line: &str| {
            let arguments = Arguments::parse_from(line.split(' '));
            left(&arguments.command)
        };
        let (consequence, action) = words("holdall drive replica promote d file:///s");
        assert!(
            consequence.contains("Nothing was deleted") && action.sentences().contains("again"),
            "{consequence}"
        );
        assert!(words("holdall drive replica remove d file:///s").0.contains("stays there"));
        assert!(words("holdall drive replica add d file:///s").0.contains("copied while"));
    }

    #[test]
    fn names_the_drive_of_the_command() {
        let arguments =
            Arguments::parse_from(["holdall", "drive", "forks", "it's NAME", "discard", "--yes", "f"]);
        let (_, actions) = left(&arguments.command);
        assert_eq!(actions.sentences(), r"To see both versions, run `holdall drive forks 'it'\''s NAME'`.");
    }
}
