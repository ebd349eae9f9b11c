//! The outbox: brings to the remote what was changed here.
//!
//! A file that was closed rests for a while, and is then recorded as it is (`quiet`, `written`). The runner (`run`) asks the planner what to do
//! next, and lets several actions be under way (`lanes`). Each of them (`act`) is known to the log before the remote learns of it. If it did
//! not go as planned, what the remote has now (`look`) says what came of it, and all that remembers the file follows (`finish`). The desk
//! (`desk`) knows what failed and when it is tried again.

use super::api::FolderError;
use super::node::Ino;
use super::shared::Shared;
use crate::disk::Disk;
use crate::store::remote::Time;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use tokio::task::JoinHandle;
use works::Works;

mod act;
mod bytes;
mod close;
pub(crate) mod conflicts;
mod desk;
mod expand;
pub(crate) mod failure;
mod finish;
mod keep;
mod lanes;
mod look;
mod queue;
mod quiet;
mod run;
mod works;
mod written;

/// What happens to a file of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It comes in its turn.
    Waiting,
    /// It is under way.
    Uploading,
    /// A program still has it open for writing, or mapped.
    InUse,
    /// Its last try failed, for this reason; it is tried again at that time (Unix time in ms), or never by itself.
    Failed {
        /// Why, for people.
        reason: String,
        /// When it is tried again.
        again_ms: Option<u64>,
    },
}

/// What is done for a file at the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Its bytes are uploaded.
    Upload,
    /// A directory is made.
    MakeDirectory,
    /// It is moved.
    Move,
    /// It is removed.
    Remove,
    /// Its attributes are set.
    Attributes,
    /// It comes from the remote to a watched directory.
    Download,
}

/// A file or directory that differs from the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// Its path here; where it was removed, the remote's.
    pub path: String,
    /// What is done.
    pub kind: QueueKind,
    /// Bytes to be uploaded.
    pub bytes: u64,
    /// Bytes of these that were sent.
    pub sent: u64,
    /// How far it is.
    pub state: QueueState,
    /// When it began to differ, Unix time in ms.
    pub since_ms: u64,
}

/// The outbox in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Files and directories that wait for their turn.
    pub waiting: u64,
    /// Those under way.
    pub uploading: u64,
    /// Those whose last try failed.
    pub failed: u64,
    /// Those that programs still write to.
    pub in_use: u64,
    /// Bytes that are not in the remote.
    pub bytes: u64,
    /// The first of them: under way, failed, then the oldest.
    pub items: Vec<QueueItem>,
    /// When something was uploaded last, Unix time in ms.
    pub last_uploaded_ms: Option<u64>,
    /// Why nothing can be uploaded now: the remote cannot be reached, refuses access, is full.
    pub trouble: Option<String>,
}

/// Two programs have changed a file: both versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path that theirs has.
    pub path: String,
    /// The path that ours has.
    pub kept_as: String,
    /// When it was found, Unix time in ms.
    pub at_ms: u64,
    /// Length of ours, in bytes.
    pub our_len: u64,
    /// Length of theirs, in bytes.
    pub their_len: u64,
    /// When theirs was written, Unix time in ms, where the remote says so.
    pub their_time_ms: Option<u64>,
}

/// How a conflict is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Ours takes the name, theirs goes.
    Mine,
    /// Theirs stays, ours goes.
    Theirs,
    /// Both stay, each under its name.
    Both,
}

/// Why not everything is in the remote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    /// Uploads are paused.
    #[error("uploads are paused: {0}")]
    Paused(String),
    /// Files could not be uploaded.
    #[error("{count} files could not be uploaded, first {path}: {reason}")]
    Failed {
        /// How many.
        count: u64,
        /// The path of the first.
        path: String,
        /// Why.
        reason: String,
    },
    /// The folder was closed.
    #[error("the folder was closed")]
    Closed,
}

/// Uploads.
pub struct Outbox {
    works: Arc<Works>,
    // Held to take it, once.
    runner: Mutex<Option<JoinHandle<()>>>,
}

impl Outbox {
    /// Starts, with the conflicts that `disk` remembers. Files that programs may have written to before a crash are looked at.
    pub(super) fn start(shared: Arc<Shared>, disk: Arc<dyn Disk>) -> io::Result<Arc<Self>> {
        let works = Works::new(shared, disk)?;
        let written = works.shared.ledger.read(|tree| {
            tree.nodes().filter(|(_, node)| node.may_be_written).map(|(ino, _)| ino).collect::<Vec<_>>()
        });
        let now = works.now();
        works.tell(|desk| written.into_iter().for_each(|ino| desk.quiet.released(ino, now)));
        if let Some(why) = &works.shared.read_only {
            works.tell(|desk| desk.paused = Some(why.clone()));
        }
        let runner = Mutex::new(Some(tokio::spawn(run::run(works.clone()))));
        Ok(Arc::new(Self { works, runner }))
    }

    /// The last program that had the file open for writing has closed it. Must not wait.
    pub(super) fn released(&self, ino: Ino) {
        let now = self.works.now();
        self.works.tell(|desk| desk.quiet.released(ino, now));
    }

    /// Makes durable what was written to a file so far, and records it: for fsync, and before the file replaces another one. The record
    /// itself is durable after the ledger's next sync.
    pub(super) async fn note_written(&self, ino: Ino) -> Result<(), FolderError> {
        self.works.note_written(ino, false).await?;
        self.works.desk.lock().quiet.synced(ino);
        Ok(())
    }

    /// A program sets the time of a content's last write.
    pub(super) async fn note_touched(&self, ino: Ino, mtime: Time) -> Result<(), FolderError> {
        self.works.note_touched(ino, mtime).await
    }

    /// Pauses uploads, for a reason that people are told, or goes on. Actions that are under way end.
    pub fn set_paused(&self, why: Option<String>) {
        let why = why.or_else(|| self.works.shared.read_only.clone());
        self.works.tell(|desk| desk.paused = why);
    }

    /// What differs, with at most `most` items.
    pub fn queue(&self, most: usize) -> Queue {
        self.works.queue(most)
    }

    /// Ready when all that was changed before the call is in the remote. Failures that wait for another try are tried at once. Files that
    /// programs have open for writing are not waited for: they count as failed.
    pub async fn settle(&self) -> Result<(), Unsettled> {
        self.works.settle().await
    }

    /// Conflicts that nobody has settled.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.works.conflicts().into_iter().map(|(_, conflict)| conflict).collect()
    }

    /// Settles a conflict, by the path that either version has.
    pub async fn keep(&self, path: &str, keep: Keep) -> Result<(), FolderError> {
        self.works.keep(path, keep).await
    }

    /// Makes durable and records all that programs have written. To be called after [`stop`](Self::stop).
    pub(super) async fn record_all(&self) -> Result<(), FolderError> {
        self.works.record_all().await
    }

    /// Ends what is under way, without waiting for the remote. What was begun is found by its intent after the next start.
    pub async fn stop(&self) {
        self.works.stopped.send_replace(true);
        let runner = self.runner.lock().take();
        if let Some(runner) = runner
            && let Err(error) = runner.await
        {
            tracing::error!(%error, "uploads ended by a mistake of Holdall's");
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.works.stopped.send_replace(true);
    }
}
