//! The messages between the daemon and its clients: JSON over HTTP on a Unix socket.
//!
//! The socket is `daemon.sock` in the runtime directory, which only its owner can enter. `holdall daemon openapi` prints the requests and
//! these types as an OpenAPI document, as GET /v1/openapi.json does.
//!
//! A GET answers with one JSON document. A request that acts (POST, DELETE) answers with newline-delimited JSON: any number of
//! [`Line::Progress`], then one [`Line::Result`] or [`Line::Error`]. A request that is refused before it began gets a [`Failure`] with its
//! HTTP status.
//!
//! **Closing the connection** of a request does not stop work that would be left half done: it continues to its end. Only waiting for the
//! store ends: uploads continue in the background, and work that only reads (a check) and serving over NBD end.

// print! panics where it cannot write, for example to a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

mod action;
mod activity;
mod devices;
mod diagnostics;
mod directories;
mod drive;
mod entries;
mod folders;
mod limits;
mod pins;
mod replicas;
pub mod sizes;
mod status;
mod stores;
mod versions;
mod web;
pub mod words;

pub use action::*;
pub use activity::*;
pub use devices::*;
pub use diagnostics::*;
pub use directories::*;
pub use drive::*;
pub use entries::*;
pub use folders::*;
pub use limits::*;
pub use pins::*;
pub use replicas::*;
pub use status::*;
pub use stores::*;
pub use versions::*;
pub use web::*;

/// One line of a POST's answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// How far the work is.
    Progress(Progress),
    /// The work is done. The shape of the value depends on the request.
    Result(serde_json::Value),
    /// The work failed.
    Error(Failure),
}

/// How far a long operation is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The current work, for people: "Uploading", "Checking objects".
    pub stage: String,
    /// How much of it is done.
    pub done: u64,
    /// How much there is in total; 0 where that is not known.
    pub total: u64,
    /// What is counted.
    pub unit: Unit,
}

/// The unit of a progress figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things.
    Items,
}

/// Why a request failed: the cause, what it means for the user's data, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable, for programs.
    pub code: Code,
    /// The cause, as one sentence.
    pub message: String,
    /// What it means for the data.
    pub consequence: String,
    /// What to do next, for people at a terminal: the sentences of `actions`.
    pub action: String,
    // A boxed slice keeps the error type of most functions small.
    /// What to do next, as data.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub actions: Box<[Action]>,
    /// The device that has the drive, where that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<Holder>>,
    /// The same actions for people at a page.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub on_screen: Box<[Step]>,
    /// For how many seconds a busy store asks not to be called, where that is the cause; 0 where it gives no time. Only the daemon sees
    /// this.
    #[serde(skip)]
    pub retry_after_s: Option<u16>,
}

impl Failure {
    /// A failure without a holder.
    pub fn new(
        code: Code,
        message: impl Into<String>,
        consequence: impl Into<String>,
        actions: impl Into<Actions>,
    ) -> Self {
        let failure = Self {
            code,
            message: message.into(),
            consequence: consequence.into(),
            action: String::new(),
            actions: Box::default(),
            holder: None,
            on_screen: Box::default(),
            retry_after_s: None,
        };
        failure.with_actions(actions)
    }

    /// The same, with other actions.
    pub fn with_actions(self, actions: impl Into<Actions>) -> Self {
        let actions = actions.into();
        Self { action: actions.sentences(), actions: actions.0.into(), on_screen: Box::default(), ..self }
    }

    /// The same, with one more action.
    pub fn and(mut self, action: Action) -> Self {
        let mut actions = std::mem::take(&mut self.actions).into_vec();
        actions.push(action);
        self.with_actions(actions)
    }

    /// The same, with the drive and the store filled in: lower layers know neither.
    pub fn about(mut self, drive: Option<&str>, store: Option<&str>) -> Self {
        let actions = std::mem::take(&mut self.actions);
        let actions: Vec<_> =
            actions.into_vec().into_iter().map(|action| action.about(drive, store)).collect();
        self.with_actions(actions)
    }

    /// For how long a busy store asks not to be called, where that is the cause; zero where it gives no time.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_s.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request failed.
    Failed,
    /// The request makes no sense.
    Usage,
    /// No such drive, snapshot or store.
    NotFound,
    /// The drive was removed from its store, or has moved to another one.
    Gone,
    /// The name, label or store exists already.
    Exists,
    /// Another device has the drive.
    Held,
    /// The store cannot be reached.
    Offline,
    /// The access key of the store is wrong, or does not allow this.
    Credentials,
    /// The drive is encrypted, and neither its passphrase nor its recovery key was given.
    PassphraseNeeded,
    /// The passphrase or the recovery key is wrong.
    PassphraseWrong,
    /// Something is damaged.
    Corrupt,
    /// The store's version of the drive lacks changes that this device has seen there.
    Diverged,
    /// A later version of Holdall wrote to the store.
    Newer,
    /// The store gives a weaker guarantee than others, and the request does not accept that.
    WeakStore,
    /// Changes are only on this computer.
    Unsent,
    /// This device's changes have become a fork.
    Conflict,
    /// Uploads and downloads are paused.
    Paused,
    /// The drive is open, or is not open; the request needs the opposite.
    State,
    /// The request needs root's rights.
    Privileges,
    /// The disk or the store is full.
    Full,
    /// The daemon is not running.
    NoDaemon,
    /// The request was stopped before it was done.
    Interrupted,
    /// The browser is not signed in, or its sign-in has expired.
    Session,
    /// The request comes from a page that is not Holdall's.
    Foreign,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 24] = [
        Code::Failed,
        Code::Usage,
        Code::NotFound,
        Code::Gone,
        Code::Exists,
        Code::Held,
        Code::Offline,
        Code::Credentials,
        Code::PassphraseNeeded,
        Code::PassphraseWrong,
        Code::Corrupt,
        Code::Diverged,
        Code::Newer,
        Code::WeakStore,
        Code::Unsent,
        Code::Conflict,
        Code::Paused,
        Code::State,
        Code::Privileges,
        Code::Full,
        Code::NoDaemon,
        Code::Interrupted,
        Code::Session,
        Code::Foreign,
    ];

    /// The exit code of a command that fails with it.
    pub fn exit_code(self) -> u8 {
        match self {
            Code::Failed | Code::Exists | Code::Paused | Code::State | Code::Privileges => 1,
            Code::Conflict | Code::Full | Code::NoDaemon | Code::Newer | Code::WeakStore => 1,
            Code::Session | Code::Foreign => 1,
            Code::Usage => 2,
            Code::NotFound | Code::Gone => 3,
            Code::Held => 4,
            Code::Offline => 5,
            Code::Credentials | Code::PassphraseNeeded | Code::PassphraseWrong => 6,
            Code::Corrupt | Code::Diverged => 7,
            Code::Unsent => 8,
            // As a shell reports a program that Ctrl-C ended.
            Code::Interrupted => 130,
        }
    }

    /// The HTTP status of an answer that fails with it.
    pub fn http_status(self) -> u16 {
        match self {
            Code::Failed | Code::Corrupt | Code::NoDaemon => 500,
            Code::Usage => 400,
            Code::NotFound => 404,
            Code::Gone => 410,
            Code::Exists | Code::Held | Code::Unsent | Code::Conflict | Code::Paused | Code::State => 409,
            Code::WeakStore | Code::Diverged => 409,
            Code::Offline | Code::Interrupted => 503,
            Code::Session => 401,
            Code::Credentials | Code::PassphraseNeeded | Code::PassphraseWrong | Code::Privileges => 403,
            Code::Foreign => 403,
            Code::Newer => 422,
            Code::Full => 507,
        }
    }
}

/// The daemon.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// How long it has been running.
    pub uptime_ms: u64,
}

/// The daemon is stopping.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// Drives that stay mounted without the daemon. Programs that use them wait for the next daemon; so do programs that look at all disks
    /// (sync, losetup).
    #[serde(default)]
    pub left: Vec<LeftMounted>,
}

/// A drive that stays mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftMounted {
    /// Its name.
    pub name: String,
    /// Where it is mounted.
    pub mountpoint: String,
}

/// A result with nothing to report but success.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// The result of looking for problems on this computer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Whether there are no problems.
    pub ok: bool,
    /// How many problems there are, and where, for people.
    #[serde(default)]
    pub summary: String,
    /// Everything that was checked, problems first.
    pub findings: Vec<Finding>,
}

/// One thing that was checked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was checked.
    pub subject: String,
    /// Whether it is in order.
    pub ok: bool,
    /// How it is, for people.
    pub detail: String,
    /// How to fix it, if it can be fixed, for people at a terminal: the sentences of `actions`.
    pub action: Option<String>,
    /// How to fix it, as data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// The same actions for people at a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_screen: Vec<Step>,
    /// Whether a repair has just fixed it.
    #[serde(default)]
    pub repaired: bool,
}

/// An event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A drive's status. It comes only when it changed, and at most four times a second for each drive.
    Drive(Box<DriveStatus>),
    /// A folder's status. It comes only when it changed, and at most four times a second for each folder.
    Folder(Box<FolderStatus>),
    /// A drive or folder is no longer known on this device.
    Removed {
        /// Its name.
        name: String,
    },
    /// A new row of the activity.
    Activity(ActivityRow),
    /// Something that a person should know.
    Notice {
        /// The drive or folder.
        name: String,
        /// What happened.
        message: String,
    },
}

impl Finding {
    /// A finding: what was checked, how it is, and how to fix it.
    pub fn new(
        subject: impl Into<String>,
        ok: bool,
        detail: impl Into<String>,
        actions: impl Into<Actions>,
    ) -> Self {
        let finding = Self {
            subject: subject.into(),
            ok,
            detail: detail.into(),
            action: None,
            actions: Vec::new(),
            on_screen: Vec::new(),
            repaired: false,
        };
        finding.with_actions(actions)
    }

    /// The same, with other actions.
    pub fn with_actions(self, actions: impl Into<Actions>) -> Self {
        let actions = actions.into();
        let action = (!actions.0.is_empty()).then(|| actions.sentences());
        Self { action, actions: actions.0, ..self }
    }
}
