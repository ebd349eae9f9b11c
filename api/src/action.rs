//! What to do about a failure, as data: which command, on which drive, at which store.
//!
//! Whoever finds a failure names the actions. The command line renders them as sentences with commands that can be pasted into a
//! shell ([`Actions`] does), and the pages as sentences with links (`holdall_gui::advice`). A drive's name is never looked for in
//! a text, so no name can be taken for one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod words;

pub use words::quoted;

/// One thing to do. A field that is null was not known where the failure was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Sentences that are right on a terminal and on a page.
    Tell {
        /// They.
        text: String,
    },
    /// Run a command of the system.
    Run {
        /// Its words.
        argv: Vec<String>,
        /// Whether it takes root's rights.
        as_root: bool,
    },
    /// Open the drive.
    Open {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Open the drive only to look at it.
    OpenReadOnly {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Take the drive over from a computer that is gone.
    TakeOver {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Open the store's version, and set aside what only this computer has.
    SetAside {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Close the drive.
    Close {
        /// The drive's name.
        drive: Option<String>,
        /// Until everything is uploaded.
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
    /// Pause one drive instead of all.
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
    /// Remove the drive from this computer with changes that are nowhere else.
    DiscardUnsent {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Use the drive that is at a store.
    Add {
        /// The name that it is to have here.
        drive: Option<String>,
        /// The store's address.
        store: Option<String>,
    },
    /// Use the drive at the store that it has moved to.
    Follow {
        /// The drive's name.
        drive: Option<String>,
        /// The new store's address.
        to: Option<String>,
    },
    /// Create a drive at a store.
    Create {
        /// The name that it is to have.
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
    /// Compare the store with what it should be, and bring back what it says of the drive.
    RestoreFamily {
        /// The store's address.
        store: Option<String>,
    },
    /// Do not use a store that says that the drive is not encrypted.
    DistrustStore {
        /// The store's address.
        store: Option<String>,
    },
    /// Bring back what the store had.
    RestoreStore {
        /// The store's address.
        store: Option<String>,
    },
    /// Ask who runs the store.
    AskOperator,
    /// See how everything is.
    Status,
    /// See how a drive is.
    DriveStatus {
        /// The drive's name.
        drive: Option<String>,
    },
    /// See what is always kept here.
    Pins {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Keep a path no longer.
    Unpin {
        /// The path.
        path: String,
    },
    /// Keep the drive as a whole no longer.
    UnpinDrive {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Keep the drive as a whole.
    PinDrive {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Give the cache more space.
    GrowCache {
        /// At least so much, as the command line takes it; null where that is not known.
        size: Option<String>,
    },
    /// See the limits.
    Limits,
    /// Let programs that read much run at full speed.
    Indexers,
    /// Wait longer for a file, or for less of it.
    WaitLonger,
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
    /// Open the drive until its replica is up to date.
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
    /// The same, where the drive's store is lost for good with what the replica lacks.
    PromoteWithLoss {
        /// The drive's name.
        drive: Option<String>,
        /// The replica's address.
        replica: Option<String>,
    },
    /// Look for problems of this computer.
    Doctor,
    /// Take down what is left on this computer.
    Repair,
    /// Start the background service again.
    Restart,
    /// Open the pages' address.
    Web,
    /// Read how a command is used.
    Help {
        /// Its words behind `holdall`.
        command: Vec<String>,
    },
    /// Set a proxy by its address.
    Proxy,
    /// Keep a proxy's user and password apart from its address.
    ProxyLogin,
    /// Give the drive's passphrase or its recovery key.
    GiveSecret,
    /// Leave the passphrase out of a drive that is not encrypted.
    LeaveOutSecret,
    /// Use a store that is for one computer at a time.
    AcceptWeakStore,
    /// Use a replica without what it lacks.
    AcceptLoss,
    /// Use a replica beside the drive, as a second one.
    AcceptSecond,
    /// Give changes up that are nowhere else, in this request.
    AcceptUnsentLoss,
    /// Use a folder that is kept in sync, on one computer alone.
    AcceptSyncedFolder,
    /// Make the drive in a directory of its own, below a place where others have files.
    UseSubdirectory {
        /// The drive's name.
        drive: Option<String>,
        /// That directory's address.
        store: Option<String>,
    },
    /// Make the drive beside files of others.
    AcceptOthers,
    /// Keep credentials that were not tried.
    KeepUntried,
    /// Let others reach what is served.
    AcceptExposure,
    /// Open the drive for writing.
    OpenWritable {
        /// The drive's name.
        drive: Option<String>,
    },
    /// Say which of several drives of a store.
    ChooseDrive {
        /// Their names.
        names: Vec<String>,
    },
    /// Use the credentials that are kept.
    UseKept,
    /// Say where to mount.
    ChooseMountPoint,
}

/// The field of an action that says which drive is meant.
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

/// The field of an action that says which store is meant.
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
    /// Words.
    pub fn tell(text: impl Into<String>) -> Self {
        Action::Tell { text: text.into() }
    }

    /// A command of the system.
    pub fn run(argv: &[&str]) -> Self {
        Action::Run { argv: argv.iter().map(|&word| word.to_owned()).collect(), as_root: false }
    }

    /// A command of the system that takes root's rights.
    pub fn run_as_root(argv: &[&str]) -> Self {
        Action::Run { argv: argv.iter().map(|&word| word.to_owned()).collect(), as_root: true }
    }

    /// Help on a command.
    pub fn help(command: &[&str]) -> Self {
        Action::Help { command: command.iter().map(|&word| word.to_owned()).collect() }
    }

    /// Every kind of action, for whoever has to know them all.
    pub fn samples() -> Vec<Self> {
        vec![
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
        ]
    }

    /// The drive that is meant, where that is known.
    pub fn drive(&self) -> Option<&str> {
        of_drive!(self).and_then(|drive| drive.as_deref())
    }

    /// Says which drive and which store are meant, where that was not known.
    pub fn about(mut self, drive: Option<&str>, store: Option<&str>) -> Self {
        let known = |field: &mut Option<String>, value: Option<&str>| {
            *field = field.take().or_else(|| value.map(str::to_owned));
        };
        if let Some(field) = of_drive!(&mut self) {
            known(field, drive);
        }
        if let Some(field) = of_store!(&mut self) {
            known(field, store);
        }
        self
    }
}

/// What to do, one after the other.
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
    /// Where that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Screen>,
    /// What does it, where no page can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "screen", rename_all = "snake_case")]
pub enum Screen {
    /// All drives.
    Drives,
    /// A drive's.
    Drive {
        /// Its name.
        name: String,
    },
    /// What is kept offline.
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
