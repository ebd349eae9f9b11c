//! Actions on a terminal: sentences with commands that can be pasted into a shell.

use super::{Action, FolderCommand};

/// A word of a command, ready to be pasted into a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":/._-%+@~".contains(c);
    // The shell would expand a leading ~, and an empty string is no word.
    let is_plain = !word.is_empty() && !word.starts_with('~') && word.chars().all(plain);
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The word, or what the help of the commands shows in its place.
fn or(word: Option<&String>, unknown: &str) -> String {
    word.map_or_else(|| unknown.to_owned(), |word| quoted(word))
}

impl Action {
    /// The commands that do it, in order, ready to be pasted into a shell. None where no command does it, or where it is an option of the
    /// command that failed.
    pub fn commands(&self) -> Vec<String> {
        let of = |drive: &Option<String>| or(drive.as_ref(), "NAME");
        let at = |store: &Option<String>| or(store.as_ref(), "URL");
        let drive = |verb: &str, drive: &Option<String>, rest: &str| {
            let rest = if rest.is_empty() { String::new() } else { format!(" {rest}") };
            vec![format!("holdall drive {verb} {}{rest}", of(drive))]
        };
        let holdall = |rest: &str| vec![format!("holdall {rest}")];
        let promote = |name: &Option<String>, replica: &Option<String>, rest: &str| {
            vec![format!("holdall drive replica promote {} {}{rest}", of(name), at(replica))]
        };
        match self {
            Action::Run { argv, as_root: _ } => {
                vec![argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")]
            }
            Action::Open { drive: name } => drive("open", name, ""),
            Action::OpenReadOnly { drive: name } => drive("open", name, "--read-only"),
            Action::TakeOver { drive: name } => drive("open", name, "--take-over"),
            Action::SetAside { drive: name } => drive("open", name, "--set-aside"),
            Action::Close { drive: name, wait: false } => drive("close", name, ""),
            Action::Close { drive: name, wait: true } => drive("close", name, "--wait"),
            Action::EndServing { drive: name } | Action::Serve { drive: name } => drive("serve", name, ""),
            Action::Check { drive: name } => drive("check", name, ""),
            Action::Resume { drive: name } => drive("resume", name, ""),
            Action::Pause { drive: name } => drive("pause", name, ""),
            Action::Sync { drive: name } => drive("sync", name, ""),
            Action::Forks { drive: name } => drive("forks", name, ""),
            Action::Remove { drive: name } => drive("remove", name, ""),
            Action::DiscardUnsent { drive: name } => drive("remove", name, "--discard-unsent"),
            Action::Add { drive: name, store } => drive("add", name, &format!("--store {}", at(store))),
            Action::Follow { drive: name, to } => {
                let mut commands = drive("remove", name, "");
                commands.extend(drive("add", name, &format!("--store {}", at(to))));
                commands
            }
            Action::Create { drive: name, store } | Action::UseSubdirectory { drive: name, store } => {
                drive("create", name, &format!("--store {}", at(store)))
            }
            Action::ListDrives => holdall("drive list"),
            Action::LogIn { store } => holdall(&format!("store login {}", at(store))),
            Action::ListLogins => holdall("store list"),
            Action::TestStore { store } => holdall(&format!("store test {}", at(store))),
            Action::Status => holdall("status"),
            Action::DriveStatus { drive: name } => drive("status", name, ""),
            Action::Pins { drive: None } => holdall("pins"),
            Action::Pins { drive: name } => holdall(&format!("pins {}", of(name))),
            Action::Unpin { path } => holdall(&format!("unpin {}", quoted(path))),
            Action::UnpinDrive { drive: name } => holdall(&format!("unpin --drive {}", of(name))),
            Action::PinDrive { drive: name } => holdall(&format!("pin --drive {}", of(name))),
            Action::GrowCache { size } => holdall(&format!("limits --cache {}", or(size.as_ref(), "SIZE"))),
            Action::Limits => holdall("limits"),
            Action::Indexers => holdall("limits --indexers full"),
            Action::WaitLonger => holdall("wait --help"),
            Action::Folder { command, folder } => holdall(&folder_command(*command, &of(folder))),
            Action::Snapshots { drive: name } => drive("snapshot list", name, ""),
            Action::Grow { drive: name } => drive("resize", name, "SIZE"),
            Action::Replicas { drive: name } | Action::AwaitReplica { drive: name } => {
                drive("replica status", name, "")
            }
            Action::MoveStore { drive: name, to } => {
                let mut commands = drive("replica add", name, &at(to));
                commands.extend(promote(name, to, ""));
                commands
            }
            Action::Promote { drive: name, replica } | Action::PromoteAgain { drive: name, replica } => {
                promote(name, replica, "")
            }
            Action::PromoteWithLoss { drive: name, replica } => promote(name, replica, " --accept-loss"),
            Action::Doctor => holdall("doctor"),
            Action::Repair => holdall("doctor --repair"),
            Action::Restart => vec!["holdall daemon stop".to_owned(), "holdall status".to_owned()],
            Action::Web => holdall("web"),
            Action::Help { command } => holdall(&format!("{} --help", command.join(" "))),
            Action::Proxy => holdall("limits --proxy http://HOST:PORT"),
            Action::Tell { .. }
            | Action::UnlockKeyring
            | Action::RestoreFamily { .. }
            | Action::DistrustStore { .. }
            | Action::RestoreStore { .. }
            | Action::AskOperator
            | Action::ProxyLogin
            | Action::GiveSecret
            | Action::LeaveOutSecret
            | Action::AcceptWeakStore
            | Action::AcceptLoss
            | Action::AcceptSecond
            | Action::AcceptUnsentLoss
            | Action::AcceptSyncedFolder
            | Action::AcceptOthers
            | Action::KeepUntried
            | Action::AcceptExposure
            | Action::OpenWritable { .. }
            | Action::ChooseDrive { .. }
            | Action::UseKept
            | Action::ChooseMountPoint => Vec::new(),
        }
    }

    /// The action as one or more sentences for a terminal.
    pub fn sentence(&self) -> String {
        let commands: Vec<_> = self.commands().iter().map(|command| format!("`{command}`")).collect();
        let run = commands.join(", then ");
        match self {
            Action::Tell { text } => text.clone(),
            Action::Run { as_root: false, .. } => format!("Run {run}."),
            Action::Run { as_root: true, .. } => format!("As root, run {run}."),
            Action::Open { .. } => format!("Open the drive: run {run}."),
            Action::OpenReadOnly { .. } => format!("To look at the drive, run {run}."),
            Action::TakeOver { .. } => format!("If that computer is gone, run {run}."),
            Action::SetAside { .. } => format!(
                "If the store was restored from a backup on purpose, or a replica that lacked changes was promoted, run {run}: this opens the \
                 store's version, and keeps changes that only this computer has in a separate directory."
            ),
            Action::Close { .. } => format!("Close the drive: run {run}."),
            Action::EndServing { .. } => format!("First stop {run}."),
            Action::Serve { .. } => format!("To use its data, run {run}."),
            Action::Check { .. } => format!("Check the drive: run {run}."),
            Action::Resume { .. } => format!("To continue, run {run}."),
            Action::Pause { .. } => format!("To pause a drive until you resume it, run {run}."),
            Action::Sync { .. } => format!("To upload them, run {run}."),
            Action::Forks { .. } => format!("To see both versions, run {run}."),
            Action::Remove { .. } => format!("To remove the drive from this computer, run {run}."),
            Action::DiscardUnsent { .. } => format!("To delete these changes for good, run {run}."),
            Action::Add { .. } => format!("To use the drive on this computer, run {run}."),
            Action::Follow { .. } => format!("To use the drive from there, run {run}."),
            Action::Create { .. } => format!("To create a drive there, run {run}."),
            Action::ListDrives => format!("To see the drives on this computer, run {run}."),
            Action::LogIn { .. } => format!("Log in: run {run}."),
            Action::ListLogins => format!("To see the stores that you are logged in to, run {run}."),
            Action::TestStore { .. } => format!("To see what the store can do, run {run}."),
            Action::UnlockKeyring => "Unlock the keyring (logging in to the desktop does that).".to_owned(),
            Action::RestoreFamily { store } => format!(
                "This never changes by itself. Check that {} is the right store, and restore family.json there from a backup. If other \
                 people can write to that store, ask who changed it.",
                named(store)
            ),
            Action::DistrustStore { store } => format!(
                "If the drive was created with encryption, do not use this store: somebody has changed family.json at {}. If it was \
                 created with --no-encryption, leave the passphrase out.",
                named(store)
            ),
            Action::RestoreStore { store } => format!(
                "If the store was emptied, restore it from a backup. If it was moved, move it back to {}.",
                named(store)
            ),
            Action::AskOperator => {
                "Ask the operator of the store what has changed there, or in front of it.".to_owned()
            }
            Action::Status => format!("To see the status of all drives, run {run}."),
            Action::DriveStatus { .. } => format!("To see the drive's status, run {run}."),
            Action::Pins { .. } => format!("To see what is pinned, run {run}."),
            Action::Unpin { .. } | Action::UnpinDrive { .. } => format!("To unpin it, run {run}."),
            Action::PinDrive { .. } => format!("Pin the whole drive ({run}), or pin less."),
            Action::GrowCache { .. } => format!("To give the cache more space, run {run}."),
            Action::Limits => format!("To see all limits, run {run}."),
            Action::Indexers => format!("To let it run at full speed, run {run}."),
            Action::WaitLonger => format!("Wait longer, or for a smaller part: see {run}."),
            Action::Folder { command, .. } => folder_sentence(*command, &run),
            Action::Snapshots { .. } => format!("To see the drive's snapshots, run {run}."),
            Action::Grow { .. } => format!("Delete files, or make the drive larger: run {run}."),
            Action::Replicas { .. } => format!("To see the drive's replicas, run {run}."),
            Action::AwaitReplica { .. } => {
                format!("Open the drive, and wait until {run} shows that the replica is up to date.")
            }
            Action::MoveStore { .. } => format!(
                "To write again, move the drive to a new directory, which needs no locks and may be next to this one. First close the \
                 drive on every computer. Then, on one computer only, run {run}. On the others, remove the drive and add it from the \
                 new directory."
            ),
            Action::Promote { .. } => {
                format!("If the drive has a replica, you can switch to it: run {run}.")
            }
            Action::PromoteAgain { .. } => format!("Once the replica answers, run {run} again."),
            Action::PromoteWithLoss { .. } => format!("If the drive's store is lost for good, run {run}."),
            Action::Doctor => format!("To see what is wrong, run {run}."),
            Action::Repair => format!("Run {run}."),
            Action::Restart => format!("Restart the background service: run {run}."),
            Action::Web => format!("Run {run}, and open the address that it prints."),
            Action::Help { .. } => format!("See {run}."),
            Action::Proxy => format!("Correct the proxy's address: run {run}."),
            Action::ProxyLogin => {
                "Leave user and password out of the address, and give them in a file: --proxy-login-file FILE.".to_owned()
            }
            Action::GiveSecret => {
                "Give the passphrase with --passphrase-file, or the recovery key with --recovery-key-file."
                    .to_owned()
            }
            Action::LeaveOutSecret => "Leave out the passphrase, or leave out --no-encryption.".to_owned(),
            Action::AcceptWeakStore => {
                "Give --yes if one computer at a time is enough, or use another store.".to_owned()
            }
            Action::AcceptLoss => "If that store is lost for good, add --accept-loss.".to_owned(),
            Action::AcceptSecond => {
                "To use the replica anyway, as a second drive, add --accept-loss.".to_owned()
            }
            Action::AcceptUnsentLoss => "To remove the drive anyway, add --discard-unsent.".to_owned(),
            Action::AcceptSyncedFolder => {
                "If only one computer will ever use the drive, add --in-synced-folder.".to_owned()
            }
            Action::UseSubdirectory { .. } => format!("Give the drive a directory of its own: run {run}."),
            Action::AcceptOthers => {
                "To store the drive beside them anyway, add --beside-other-files.".to_owned()
            }
            Action::KeepUntried => "To save the credentials without testing them, add --no-check.".to_owned(),
            Action::AcceptExposure => "Use a loopback address, or add --insecure.".to_owned(),
            Action::OpenWritable { .. } => "Then open it without --read-only.".to_owned(),
            Action::ChooseDrive { names } => format!(
                "Choose one with --drive, followed by one of {}.",
                names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
            ),
            Action::UseKept => "Leave out --credentials-file to use the saved ones.".to_owned(),
            Action::ChooseMountPoint => "Choose where to mount the drive, with --at.".to_owned(),
        }
    }
}

/// A command on a folder, without `holdall`.
fn folder_command(command: FolderCommand, name: &str) -> String {
    let verb = match command {
        FolderCommand::List => return "folder list".to_owned(),
        FolderCommand::OpenNew => return "folder open URL".to_owned(),
        FolderCommand::DiscardUnsent => return format!("folder forget {name} --discard-unsent"),
        FolderCommand::Open => "open",
        FolderCommand::Close => "close",
        FolderCommand::Status => "status",
        FolderCommand::Sync => "sync",
        FolderCommand::Queue => "queue",
        FolderCommand::Resume => "resume",
        FolderCommand::Conflicts => "conflicts",
        FolderCommand::Deletions => "deletions",
        FolderCommand::Forget => "forget",
    };
    format!("folder {verb} {name}")
}

fn folder_sentence(command: FolderCommand, run: &str) -> String {
    match command {
        FolderCommand::List => format!("To see the folders on this computer, run {run}."),
        FolderCommand::Open => format!("Open the folder: run {run}."),
        FolderCommand::OpenNew => format!("To open the files at an address as a folder, run {run}."),
        FolderCommand::Close => format!("Close the folder: run {run}."),
        FolderCommand::Status => format!("To see the folder's status, run {run}."),
        FolderCommand::Sync => format!("To upload them, run {run}."),
        FolderCommand::Queue => format!("To see what waits for upload, run {run}."),
        FolderCommand::Resume => format!("To continue, run {run}."),
        FolderCommand::Conflicts => format!("To see both versions, run {run}."),
        FolderCommand::Deletions => format!("To see these files, run {run}."),
        FolderCommand::Forget => format!("To remove the folder from this computer, run {run}."),
        FolderCommand::DiscardUnsent => {
            format!("To delete what is only on this computer for good, run {run}.")
        }
    }
}

/// A store's name in a sentence.
fn named(store: &Option<String>) -> &str {
    store.as_deref().unwrap_or("its address")
}
