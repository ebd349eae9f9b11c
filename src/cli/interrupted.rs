//! What Ctrl-C leaves behind, for each command: closing the connection cancels what has not been committed.

use crate::api::{Progress, Unit};
use crate::cli::args::Command;
use crate::cli::args::drive::{DriveCommand, ReplicaCommand, SnapshotCommand};
use crate::cli::args::store::StoreCommand;
use crate::cli::failure::NOTHING_DONE;
use crate::cli::output::Output;
use crate::cli::progress::{Phase, Reporter};
use crate::sizes::format_bytes;

/// What shells add to a signal's number to make an exit code of it.
const SIGNAL_BASE: i32 = 128;

/// Says what was and what was not done, and returns the exit code.
pub fn tell(command: &Command, signal: i32, progress: &Reporter, output: Output) -> u8 {
    let at = progress.last().map(|last| format!(" at: {}", how_far(&last))).unwrap_or_default();
    let (consequence, action) = match (progress.phase(), command) {
        // It runs until it is interrupted, so an interruption is how it ends well.
        (Phase::Serving, _) => return 0,
        (Phase::Preparing, Command::Events) => return exit_code(signal),
        (Phase::Preparing, _) => (NOTHING_DONE, ""),
        (Phase::Requested, command) => left(command),
    };
    output.interrupted(&format!("Interrupted{at}."), consequence, action);
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

const SEE_LIST: &str = "Run `holdall drive list` to see whether it is there.";
const SEE_STATUS: &str = "Run `holdall status` to see how things are.";

/// What it means, and what to do.
fn left(command: &Command) -> (&'static str, &'static str) {
    let command = match command {
        Command::Drive(command) => command,
        Command::Store(StoreCommand::Login(_) | StoreCommand::Logout { .. }) => {
            return ("It may have been done already.", "Run `holdall store list` to see.");
        }
        Command::Store(StoreCommand::List) => return (NOTHING_DONE, ""),
        Command::Store(StoreCommand::Test { .. }) => {
            return ("Small objects of the test may be left in the store, under probe/.", "");
        }
        Command::Pin(pin) if pin.dry_run || pin.status => return (NOTHING_DONE, ""),
        Command::Pin(_) => {
            return (
                "What was pinned by then stays so, and what is missing of it is downloaded in the background.",
                "Run `holdall pins` to see how far it is.",
            );
        }
        Command::Unpin(_) => return ("It may have been done already.", "Run `holdall pins` to see."),
        Command::Pins { .. } => return (NOTHING_DONE, ""),
        Command::Evict(_) => {
            return ("Some of it may be out of the cache already. It is in the store.", SEE_STATUS);
        }
        Command::Wait(_) => {
            return ("What was downloaded is here, until the room is needed. Nothing is pinned.", "");
        }
        Command::Activity(_) | Command::Diagnostics { .. } => return (NOTHING_DONE, ""),
        Command::Web(_) => {
            return ("The pages may be served already.", "Run `holdall web` again for an address.");
        }
        Command::Limits(_) => return ("They may have been changed already.", "Run `holdall limits` to see."),
        Command::Doctor { .. } => {
            return ("Some of it may have been repaired already.", "Run `holdall doctor` to see.");
        }
        Command::Daemon { .. } => {
            return ("It may still be stopping.", "Run `holdall daemon status` to see.");
        }
        Command::Status | Command::Events | Command::Completions { .. } | Command::Man { .. } => {
            return (NOTHING_DONE, "");
        }
    };
    match command {
        DriveCommand::Create(_) | DriveCommand::Add(_) | DriveCommand::Clone { .. } => (
            "The drive is there only if its last step had been done; an unfinished one is no drive.",
            SEE_LIST,
        ),
        DriveCommand::Open(_) => ("The drive is not opened, unless its last step had been done.", SEE_STATUS),
        DriveCommand::Close { wait: true, .. } => (
            "The drive may be closed already. What waits to be uploaded is safe on this computer.",
            SEE_STATUS,
        ),
        DriveCommand::Close { wait: false, .. } => ("The drive may be closed already.", SEE_STATUS),
        DriveCommand::Sync(_) => {
            ("What was uploaded stays. The rest is safe on this computer and is uploaded later.", SEE_STATUS)
        }
        DriveCommand::List | DriveCommand::Status { .. } | DriveCommand::Map(_) | DriveCommand::Queue(_) => {
            (NOTHING_DONE, "")
        }
        DriveCommand::Check(_) => ("Nothing was changed; the check is not complete.", ""),
        DriveCommand::Gc(_) => {
            ("What was deleted was not needed by any version. The rest can be deleted later.", "")
        }
        DriveCommand::UploadNow(_)
        | DriveCommand::Pause(_)
        | DriveCommand::Resume(_)
        | DriveCommand::Resize { .. } => ("It may have been done already.", SEE_STATUS),
        DriveCommand::Snapshot(SnapshotCommand::List(_)) => (NOTHING_DONE, ""),
        DriveCommand::Snapshot(SnapshotCommand::Create { .. } | SnapshotCommand::Delete { .. }) => (
            "It may have been done already. The drive itself is unchanged.",
            "Run `holdall drive snapshot list NAME` to see.",
        ),
        DriveCommand::Replica(ReplicaCommand::Status(_)) => (NOTHING_DONE, ""),
        DriveCommand::Replica(ReplicaCommand::Add { .. }) => (
            "It may have been added already. What is missing there is copied while the drive is open.",
            "Run `holdall drive replica status NAME` to see.",
        ),
        DriveCommand::Replica(ReplicaCommand::Remove { .. }) => (
            "It may have been done already. What the replica has stays there.",
            "Run `holdall drive replica status NAME` to see.",
        ),
        DriveCommand::Replica(ReplicaCommand::Promote { .. }) => (
            "The drive is either in its former store or in the replica. Nothing was deleted in either.",
            "Run the command again: it goes on where it was cut off.",
        ),
        DriveCommand::Rollback { .. } => {
            ("The drive is either as it was, or wholly as the snapshot.", SEE_STATUS)
        }
        DriveCommand::Forks { command: None, .. } => (NOTHING_DONE, ""),
        DriveCommand::Forks { command: Some(_), .. } => (
            "It may have been done already. The drive itself is unchanged.",
            "Run `holdall drive forks NAME` to see.",
        ),
        DriveCommand::Passphrase { .. } => {
            ("The passphrase is either the old or the new one.", "Run the command again to be sure.")
        }
        DriveCommand::RecoveryKey { .. } => (
            "The recovery key may be another one already, which nobody has seen. The passphrase stays good.",
            "Run the command again for one that you know.",
        ),
        DriveCommand::Remove { delete_data: true, .. } => (
            "Some of the drive's data may have been deleted already.",
            "Run the command again to delete the rest.",
        ),
        DriveCommand::Remove { delete_data: false, .. } => {
            ("The drive may be removed already. Its data in the store stays.", SEE_LIST)
        }
        DriveCommand::Serve(_) => ("The drive was not served.", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Arguments;
    use clap::Parser;

    #[test]
    fn of_replicas_it_says_what_is_true_of_each_command() {
        let words = |line: &str| {
            let arguments = Arguments::parse_from(line.split(' '));
            left(&arguments.command)
        };
        let (consequence, action) = words("holdall drive replica promote d file:///s");
        assert!(consequence.contains("Nothing was deleted") && action.contains("again"), "{consequence}");
        assert!(words("holdall drive replica remove d file:///s").0.contains("stays there"));
        assert!(words("holdall drive replica add d file:///s").0.contains("copied while"));
    }
}
