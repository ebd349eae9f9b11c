//! What to do about a failure, as data: which command, on which drive, at which store.
//!
//! The code that finds a failure names the actions. The command line shows them as sentences with commands that can be pasted into a shell
//! ([`Actions`] does that), and the pages as sentences with links (`holdall_gui::advice`). Nothing ever searches a text for a drive's name,
//! so no other word can be taken for one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod words;

pub use words::quoted;

/// One thing to do. A field that is null was not known where the failure was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Sentences that fit a terminal and a page.
    Tell {
        /// The sentences.
        text: String,
    },
    /// Run a command of the system.
    Run {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Whether it needs root's rights.
        as_root: bool,
    },
    /// Open the drive.
    Open {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Open the drive read-only.
    OpenReadOnly {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Take the drive over from a computer that is gone.
    TakeOver {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Open the store's version, and set aside the changes that only this computer has.
    SetAside {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Close the drive.
    Close {
        /// The drive's name.
        drive: Option<String>,
        /// Wait until everything is uploaded.
        wait: bool,
    },
    /// End the program that serves the drive.
    EndServing {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Serve the drive as a block device: it holds another file system.
    Serve {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Check the drive's objects.
    Check {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Resume uploads and downloads.
    Resume {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Pause one drive instead of all drives.
    Pause {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Upload what is only on this computer.
    Sync {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Look at both versions of the drive.
    Forks {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Remove the drive from this computer.
    Remove {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Remove the drive from this computer, with changes that exist nowhere else.
    DiscardUnsent {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Add the drive that is at a store.
    Add {
        /// The name that it will have here.
        drive: Option<String>,
        /// The store's address.
        store: Option<String>,
    },
    /// Use the drive from the store to which it has moved.
    Follow {
        /// The drive's name.
        drive: Option<String>,
        /// The new store's address.
        to: Option<String>,
    },
    /// Create a drive at a store.
    Create {
        /// The name that it will have.
        drive: Option<String>,
        /// The store's address.
        store: Option<String>,
    },
    /// See the drives of this computer.
    ListDrives,
    /// Give credentials for a store.
    LogIn {
        /// The store's address.
        store: Option<String>,
    },
    /// See which credentials are kept.
    ListLogins,
    /// Test a store.
    TestStore {
        /// The store's address.
        store: Option<String>,
    },
    /// Unlock the keyring.
    UnlockKeyring,
    /// Check that the store is the right one, and restore its family.json from a backup.
    RestoreFamily {
        /// The store's address.
        store: Option<String>,
    },
    /// Do not use a store that says that the drive is not encrypted.
    DistrustStore {
        /// The store's address.
        store: Option<String>,
    },
    /// Restore the store's contents.
    RestoreStore {
        /// The store's address.
        store: Option<String>,
    },
    /// Ask the operator of the store.
    AskOperator,
    /// See the status of everything.
    Status,
    /// See the status of a drive.
    DriveStatus {
        /// The drive's name.
        drive: Option<String>,
    },
    /// See what is always kept on this computer.
    Pins {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Stop keeping a path on this computer.
    Unpin {
        /// The path.
        path: String,
    },
    /// Stop keeping the whole drive on this computer.
    UnpinDrive {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Keep the whole drive on this computer.
    PinDrive {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Give the cache more space.
    GrowCache {
        /// The least size, as the command line takes it; null where that is not known.
        size: Option<String>,
    },
    /// See the limits.
    Limits,
    /// Let programs that read many files run at full speed.
    Indexers,
    /// Wait longer for a file, or for less of it.
    WaitLonger,
    /// Do something with a folder.
    Folder {
        /// What to do.
        command: FolderCommand,
        /// The folder's name.
        folder: Option<String>,
    },
    /// See the snapshots.
    Snapshots {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Make the drive larger.
    Grow {
        /// The drive's name.
        drive: Option<String>,
    },
    /// See the replicas.
    Replicas {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Open the drive and wait until its replica is up to date.
    AwaitReplica {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Move the drive to a directory that needs no locks.
    MoveStore {
        /// The drive's name.
        drive: Option<String>,
        /// The new directory's address.
        to: Option<String>,
    },
    /// Make a replica the drive's store.
    Promote {
        /// The drive's name.
        drive: Option<String>,
        /// The replica's address.
        replica: Option<String>,
    },
    /// The same again, once the replica answers.
    PromoteAgain {
        /// The drive's name.
        drive: Option<String>,
        /// The replica's address.
        replica: Option<String>,
    },
    /// The same, where the drive's store is lost for good, along with what the replica lacks.
    PromoteWithLoss {
        /// The drive's name.
        drive: Option<String>,
        /// The replica's address.
        replica: Option<String>,
    },
    /// Look for problems on this computer.
    Doctor,
    /// Remove what is left over on this computer.
    Repair,
    /// Start the background service again.
    Restart,
    /// Open the address of the pages.
    Web,
    /// Read how to use a command.
    Help {
        /// The words after `holdall`.
        command: Vec<String>,
    },
    /// Set a proxy by its address.
    Proxy,
    /// Keep a proxy's user and password apart from its address.
    ProxyLogin,
    /// Give the drive's passphrase or its recovery key.
    GiveSecret,
    /// Leave out the passphrase: the drive is not encrypted.
    LeaveOutSecret,
    /// Accept a store that is for one computer at a time.
    AcceptWeakStore,
    /// Accept a replica without what it lacks.
    AcceptLoss,
    /// Use the replica as a second drive, next to the original.
    AcceptSecond,
    /// Allow this request to discard changes that exist nowhere else.
    AcceptUnsentLoss,
    /// Use a folder that other software keeps in sync, on one computer only.
    AcceptSyncedFolder,
    /// Create the drive in a directory of its own, below a place with other people's files.
    UseSubdirectory {
        /// The drive's name.
        drive: Option<String>,
        /// The address of that directory.
        store: Option<String>,
    },
    /// Create the drive next to other people's files.
    AcceptOthers,
    /// Keep credentials without testing them.
    KeepUntried,
    /// Let other computers reach what is served.
    AcceptExposure,
    /// Open the drive for writing.
    OpenWritable {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Say which of a store's drives is meant.
    ChooseDrive {
        /// Their names.
        names: Vec<String>,
    },
    /// Use the saved credentials.
    UseKept,
    /// Say where to mount.
    ChooseMountPoint,
}

/// What to do with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FolderCommand {
    /// See the folders of this computer.
    List,
    /// Open it.
    Open,
    /// Open the files at an address as a folder.
    OpenNew,
    /// Close it.
    Close,
    /// See its status.
    Status,
    /// Upload what is only on this computer.
    Sync,
    /// See what waits for upload.
    Queue,
    /// Resume uploads.
    Resume,
    /// See conflicts.
    Conflicts,
    /// See deletions that are held.
    Deletions,
    /// Remove it from this computer.
    Forget,
    /// Remove it from this computer, with files and changes that exist nowhere else.
    DiscardUnsent,
}

impl FolderCommand {
    /// Every command.
    pub const ALL: [FolderCommand; 12] = [
        FolderCommand::List,
        FolderCommand::Open,
        FolderCommand::OpenNew,
        FolderCommand::Close,
        FolderCommand::Status,
        FolderCommand::Sync,
        FolderCommand::Queue,
        FolderCommand::Resume,
        FolderCommand::Conflicts,
        FolderCommand::Deletions,
        FolderCommand::Forget,
        FolderCommand::DiscardUnsent,
    ];
}

/// The field of an action that names the drive.
macro_rules! of_drive {
    ($action:expr) => {
        match $action {
            Action::Open { drive, .. }
            | Action::OpenReadOnly { drive, .. }
            | Action::TakeOver { drive, .. }
            | Action::SetAside { drive, .. }
            | Action::Close { drive, .. }
            | Action::EndServing { drive, .. }
            | Action::Serve { drive, .. }
            | Action::Check { drive, .. }
            | Action::Resume { drive, .. }
            | Action::Pause { drive, .. }
            | Action::Sync { drive, .. }
            | Action::Forks { drive, .. }
            | Action::Remove { drive, .. }
            | Action::DiscardUnsent { drive, .. }
            | Action::Add { drive, .. }
            | Action::Follow { drive, .. }
            | Action::Create { drive, .. }
            | Action::UseSubdirectory { drive, .. }
            | Action::DriveStatus { drive, .. }
            | Action::Pins { drive, .. }
            | Action::UnpinDrive { drive, .. }
            | Action::PinDrive { drive, .. }
            | Action::Snapshots { drive, .. }
            | Action::Grow { drive, .. }
            | Action::Replicas { drive, .. }
            | Action::AwaitReplica { drive, .. }
            | Action::MoveStore { drive, .. }
            | Action::Promote { drive, .. }
            | Action::PromoteAgain { drive, .. }
            | Action::PromoteWithLoss { drive, .. }
            | Action::OpenWritable { drive, .. } => Some(drive),
            Action::Tell { .. }
            | Action::Run { .. }
            | Action::Folder { .. }
            | Action::ListDrives { .. }
            | Action::LogIn { .. }
            | Action::ListLogins { .. }
            | Action::TestStore { .. }
            | Action::UnlockKeyring { .. }
            | Action::RestoreFamily { .. }
            | Action::DistrustStore { .. }
            | Action::RestoreStore { .. }
            | Action::AskOperator { .. }
            | Action::Status { .. }
            | Action::Unpin { .. }
            | Action::GrowCache { .. }
            | Action::Limits { .. }
            | Action::Indexers { .. }
            | Action::WaitLonger { .. }
            | Action::Doctor { .. }
            | Action::Repair { .. }
            | Action::Restart { .. }
            | Action::Web { .. }
            | Action::Help { .. }
            | Action::Proxy { .. }
            | Action::ProxyLogin { .. }
            | Action::GiveSecret { .. }
            | Action::LeaveOutSecret { .. }
            | Action::AcceptWeakStore { .. }
            | Action::AcceptLoss { .. }
            | Action::AcceptSecond { .. }
            | Action::AcceptUnsentLoss { .. }
            | Action::AcceptSyncedFolder { .. }
            | Action::AcceptOthers { .. }
            | Action::KeepUntried { .. }
            | Action::AcceptExposure { .. }
            | Action::ChooseDrive { .. }
            | Action::UseKept { .. }
            | Action::ChooseMountPoint { .. } => None,
        }
    };
}

/// The field of an action that names the store.
macro_rules! of_store {
    ($action:expr) => {
        match $action {
            Action::Add { store, .. }
            | Action::Create { store, .. }
            | Action::UseSubdirectory { store, .. }
            | Action::LogIn { store, .. }
            | Action::TestStore { store, .. }
            | Action::RestoreFamily { store, .. }
            | Action::DistrustStore { store, .. }
            | Action::RestoreStore { store, .. } => Some(store),
            Action::Tell { .. }
            | Action::Run { .. }
            | Action::Folder { .. }
            | Action::Open { .. }
            | Action::OpenReadOnly { .. }
            | Action::TakeOver { .. }
            | Action::SetAside { .. }
            | Action::Close { .. }
            | Action::EndServing { .. }
            | Action::Serve { .. }
            | Action::Check { .. }
            | Action::Resume { .. }
            | Action::Pause { .. }
            | Action::Sync { .. }
            | Action::Forks { .. }
            | Action::Remove { .. }
            | Action::DiscardUnsent { .. }
            | Action::Follow { .. }
            | Action::ListDrives { .. }
            | Action::ListLogins { .. }
            | Action::UnlockKeyring { .. }
            | Action::AskOperator { .. }
            | Action::Status { .. }
            | Action::DriveStatus { .. }
            | Action::Pins { .. }
            | Action::Unpin { .. }
            | Action::UnpinDrive { .. }
            | Action::PinDrive { .. }
            | Action::GrowCache { .. }
            | Action::Limits { .. }
            | Action::Indexers { .. }
            | Action::WaitLonger { .. }
            | Action::Snapshots { .. }
            | Action::Grow { .. }
            | Action::Replicas { .. }
            | Action::AwaitReplica { .. }
            | Action::MoveStore { .. }
            | Action::Promote { .. }
            | Action::PromoteAgain { .. }
            | Action::PromoteWithLoss { .. }
            | Action::Doctor { .. }
            | Action::Repair { .. }
            | Action::Restart { .. }
            | Action::Web { .. }
            | Action::Help { .. }
            | Action::Proxy { .. }
            | Action::ProxyLogin { .. }
            | Action::GiveSecret { .. }
            | Action::LeaveOutSecret { .. }
            | Action::AcceptWeakStore { .. }
            | Action::AcceptLoss { .. }
            | Action::AcceptSecond { .. }
            | Action::AcceptUnsentLoss { .. }
            | Action::AcceptSyncedFolder { .. }
            | Action::AcceptOthers { .. }
            | Action::KeepUntried { .. }
            | Action::AcceptExposure { .. }
            | Action::OpenWritable { .. }
            | Action::ChooseDrive { .. }
            | Action::UseKept { .. }
            | Action::ChooseMountPoint { .. } => None,
        }
    };
}

impl Action {
    /// A text.
    pub fn tell(text: impl Into<String>) -> Self {
        Action::Tell { text: text.into() }
    }

    /// A command of the system.
    pub fn run(argv: &[&str]) -> Self {
        Action::Run { argv: argv.iter().map(|&word| word.to_owned()).collect(), as_root: false }
    }

    /// A command of the system that needs root's rights.
    pub fn run_as_root(argv: &[&str]) -> Self {
        Action::Run { argv: argv.iter().map(|&word| word.to_owned()).collect(), as_root: true }
    }

    /// Help on a command.
    pub fn help(command: &[&str]) -> Self {
        Action::Help { command: command.iter().map(|&word| word.to_owned()).collect() }
    }

    /// Something to do with a folder whose name is filled in later.
    pub fn folder(command: FolderCommand) -> Self {
        Action::Folder { command, folder: None }
    }

    /// One sample of every kind of action, for code that has to know them all.
    pub fn samples() -> Vec<Self> {
        let mut samples = vec![
            Action::Tell { text: "Try again.".to_owned() },
            Action::Run { argv: vec!["mkdir".to_owned(), "/it's".to_owned()], as_root: true },
            Action::Run { argv: vec!["mkdir".to_owned(), "/it's".to_owned()], as_root: false },
            Action::Open { drive: None },
            Action::OpenReadOnly { drive: None },
            Action::TakeOver { drive: None },
            Action::SetAside { drive: None },
            Action::Close { drive: None, wait: true },
            Action::EndServing { drive: None },
            Action::Serve { drive: None },
            Action::Check { drive: None },
            Action::Resume { drive: None },
            Action::Pause { drive: None },
            Action::Sync { drive: None },
            Action::Forks { drive: None },
            Action::Remove { drive: None },
            Action::DiscardUnsent { drive: None },
            Action::Add { drive: None, store: None },
            Action::Follow { drive: None, to: Some("s3://new".to_owned()) },
            Action::Create { drive: None, store: None },
            Action::ListDrives,
            Action::LogIn { store: None },
            Action::ListLogins,
            Action::TestStore { store: None },
            Action::UnlockKeyring,
            Action::RestoreFamily { store: None },
            Action::DistrustStore { store: None },
            Action::RestoreStore { store: None },
            Action::AskOperator,
            Action::Status,
            Action::DriveStatus { drive: None },
            Action::Pins { drive: None },
            Action::Unpin { path: "/it's $HOME".to_owned() },
            Action::UnpinDrive { drive: None },
            Action::PinDrive { drive: None },
            Action::GrowCache { size: Some("4 GiB".to_owned()) },
            Action::Limits,
            Action::Indexers,
            Action::WaitLonger,
            Action::Snapshots { drive: None },
            Action::Grow { drive: None },
            Action::Replicas { drive: None },
            Action::AwaitReplica { drive: None },
            Action::MoveStore { drive: None, to: Some("s3://new".to_owned()) },
            Action::Promote { drive: None, replica: None },
            Action::PromoteAgain { drive: None, replica: None },
            Action::PromoteWithLoss { drive: None, replica: None },
            Action::Doctor,
            Action::Repair,
            Action::Restart,
            Action::Web,
            Action::Help { command: vec!["drive".to_owned()] },
            Action::Proxy,
            Action::ProxyLogin,
            Action::GiveSecret,
            Action::LeaveOutSecret,
            Action::AcceptWeakStore,
            Action::AcceptLoss,
            Action::AcceptSecond,
            Action::AcceptUnsentLoss,
            Action::AcceptSyncedFolder,
            Action::UseSubdirectory { drive: None, store: None },
            Action::AcceptOthers,
            Action::KeepUntried,
            Action::AcceptExposure,
            Action::OpenWritable { drive: None },
            Action::ChooseDrive { names: vec!["a b".to_owned()] },
            Action::UseKept,
            Action::ChooseMountPoint,
        ];
        samples.extend(FolderCommand::ALL.map(Action::folder));
        samples
    }

    /// The drive that the action is about, where that is known.
    pub fn drive(&self) -> Option<&str> {
        of_drive!(self).and_then(|drive| drive.as_deref())
    }

    /// Fills in the drive or folder and the store, where they were not known.
    pub fn about(mut self, drive: Option<&str>, store: Option<&str>) -> Self {
        let known = |field: &mut Option<String>, value: Option<&str>| {
            *field = field.take().or_else(|| value.map(str::to_owned));
        };
        if let Some(field) = of_drive!(&mut self) {
            known(field, drive);
        }
        if let Action::Folder { folder, .. } = &mut self {
            known(folder, drive);
        }
        if let Some(field) = of_store!(&mut self) {
            known(field, store);
        }
        self
    }
}

/// What to do, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions(pub Vec<Action>);

impl Actions {
    /// As sentences for a terminal.
    pub fn sentences(&self) -> String {
        let sentences: Vec<_> = self.0.iter().map(Action::sentence).collect();
        sentences.join(" ")
    }
}

impl From<&str> for Actions {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Actions {
    fn from(text: String) -> Self {
        if text.is_empty() { Actions::default() } else { Action::Tell { text }.into() }
    }
}

impl From<Action> for Actions {
    fn from(action: Action) -> Self {
        Actions(vec![action])
    }
}

impl From<Vec<Action>> for Actions {
    fn from(actions: Vec<Action>) -> Self {
        Actions(actions)
    }
}

impl From<Box<[Action]>> for Actions {
    fn from(actions: Box<[Action]>) -> Self {
        Actions(actions.into_vec())
    }
}

impl<const N: usize> From<[Action; N]> for Actions {
    fn from(actions: [Action; N]) -> Self {
        Actions(actions.into())
    }
}

/// An action on a page: a sentence, and where a link leads or which command can be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What to do.
    pub text: String,
    /// The page on which to do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Screen>,
    /// The command that does it, where no page can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "screen", rename_all = "snake_case")]
pub enum Screen {
    /// All drives.
    Drives,
    /// One drive.
    Drive {
        /// Its name.
        name: String,
    },
    /// The files that are kept offline.
    Keep {
        /// The drive's name.
        name: Option<String>,
    },
    /// Adding a drive.
    Add,
    /// Two versions of a drive.
    Forks,
    /// Settings.
    Settings,
}
