//! What the daemon and its clients say to each other: JSON over HTTP on a Unix socket.
//!
//! The socket is `daemon.sock` in the runtime directory, which only its owner can enter. `holdall daemon openapi` prints
//! the requests and these types as an OpenAPI document, as GET /v1/openapi.json does.
//!
//! A GET answers with one JSON document. What does something (POST, DELETE) answers with newline-delimited JSON: any
//! number of [`Line::Progress`], then one [`Line::Result`] or [`Line::Error`]. What is refused before it began is a
//! [`Failure`] with its HTTP status.
//!
//! **Closing the connection** of a request does not stop what would be left half done: that goes on to its end. It ends
//! the wait for the store: what is uploaded goes on in the background, what is only read (a check) ends, and what is
//! served by NBD ends.

// They panic where nobody can be told, such as a log on a disk that is full.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

mod action;
mod activity;
mod diagnostics;
mod directories;
mod drive;
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
pub use diagnostics::*;
pub use directories::*;
pub use drive::*;
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
    /// How far it is.
    Progress(Progress),
    /// It is done. The value's shape depends on the request.
    Result(serde_json::Value),
    /// It failed.
    Error(Failure),
}

/// How far a long operation is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// What is being done, for people: "Uploading", "Checking objects".
    pub stage: String,
    /// So much of it.
    pub done: u64,
    /// Of so much; 0 where that is not known.
    pub total: u64,
    /// What is counted.
    pub unit: Unit,
}

/// What a progress counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things.
    Items,
}

/// Why a request failed: the cause, what it means for one's data, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable, for programs.
    pub code: Code,
    /// The cause, one sentence.
    pub message: String,
    /// What it means for the data.
    pub consequence: String,
    /// What to do next, for people at a terminal: the sentences of `actions`.
    pub action: String,
    // A slice: what most functions may answer with is to stay small.
    /// What to do next, as data.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub actions: Box<[Action]>,
    /// Who has the drive, where that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<Holder>>,
    /// The actions for people at a page.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub on_screen: Box<[Step]>,
    /// For how many seconds a busy store wants to be left alone, where that is the cause; 0 where it does not say. Known
    /// to the daemon alone.
    #[serde(skip)]
    pub retry_after_s: Option<u16>,
}

impl Failure {
    /// Of nobody who has the drive.
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

    /// The same, of a drive and a store: what lies below knows neither.
    pub fn about(mut self, drive: Option<&str>, store: Option<&str>) -> Self {
        let actions = std::mem::take(&mut self.actions);
        let actions: Vec<_> =
            actions.into_vec().into_iter().map(|action| action.about(drive, store)).collect();
        self.with_actions(actions)
    }

    /// For how long a busy store wants to be left alone, where that is the cause; zero where it does not say.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_s.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// It did not work.
    Failed,
    /// The request makes no sense.
    Usage,
    /// No such drive, snapshot or store.
    NotFound,
    /// The drive was removed from its store, or has moved to another one.
    Gone,
    /// The name, label or store is taken.
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
    /// The store's version of the drive does not contain what this device has seen there.
    Diverged,
    /// The store was written by a later version.
    Newer,
    /// The store keeps a weaker promise than others, and nobody has said that this will do.
    WeakStore,
    /// Changes are only on this computer.
    Unsent,
    /// This device's changes have become a fork.
    Conflict,
    /// Pushing is switched off.
    Paused,
    /// The drive is open, or is not open.
    State,
    /// It takes root's rights.
    Privileges,
    /// The disk or the store is full.
    Full,
    /// The daemon does not run.
    NoDaemon,
    /// It was stopped before it was done.
    Interrupted,
    /// A browser asks that was not invited, or not for a long time.
    Session,
    /// A page asks that is none of Holdall's.
    Foreign,
}

impl Code {
    /// Every one.
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

    /// The exit code of a command that fails so.
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
            // As a shell has it for a program that Ctrl-C has ended.
            Code::Interrupted => 130,
        }
    }

    /// The HTTP status of an answer that fails so.
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
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_ms: u64,
}

/// The daemon ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// Drives that stay mounted without it. Programs that use them wait for the next daemon; so does what looks at all disks (sync, losetup).
    #[serde(default)]
    pub left: Vec<LeftMounted>,
}

/// A drive that stays mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftMounted {
    /// Its name.
    pub name: String,
    /// Where.
    pub mountpoint: String,
}

/// A result that says nothing but that it is done.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// What a look at the system found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// How many problems there are, and with what, for people.
    #[serde(default)]
    pub summary: String,
    /// What was looked at: problems first.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What.
    pub subject: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// How it is, for people.
    pub detail: String,
    /// What fixes it, where something does, for people at a terminal: the sentences of `actions`.
    pub action: Option<String>,
    /// What fixes it, as data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// The actions for people at a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_screen: Vec<Step>,
    /// Whether a repair has just mended it.
    #[serde(default)]
    pub repaired: bool,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A drive's status, at most four times a second for each drive, and only when it changed.
    Drive(Box<DriveStatus>),
    /// A drive is no longer known.
    Removed {
        /// Its name.
        name: String,
    },
    /// A new row of what has happened.
    Activity(ActivityRow),
    /// Something that a person should know.
    Notice {
        /// The drive.
        name: String,
        /// What happened.
        message: String,
    },
}

impl Finding {
    /// What was looked at, how that is, and what fixes it.
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
