//! The ledger: the tree of what differs from the remote, and the log of operations that makes it survive.
//!
//! * **One order.** A change is computed, made in the tree and appended to the log under one lock. So the log's order is the order of the
//!   changes, and each record holds the true states of its inodes at its place in that order.
//! * **Nothing is half made.** If the record cannot be written, the tree takes the change back before anybody sees it.
//! * **Any end of the log will do.** Replay keeps the last state of each inode. So what is replayed from any record on is the true tree,
//!   restricted to the inodes that these records name. Compaction rests on that: it appends the state of every inode once more, in its turn
//!   among other changes, and frees the files before (`compact`).
//!
//! The log is [`crate::log`]; this is its user.

use super::node::{Ino, Node};
use super::step::Step;
use super::tree::{Contradiction, Tree};
use crate::disk::Disk;
use crate::log::{Log, LogError};
use crate::units::Lsn;
use boot::Boot;
use parking_lot::{Mutex, RwLock};
use parts::{Part, Sizes};
use record::{StepRecord, Steps};
use requests::Requests;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

mod boot;
mod compact;
mod files;
mod open;
mod parts;
mod record;
mod requests;
#[cfg(test)]
mod tests;

/// States of one change, at most.
pub const STATES_MAX: usize = parts::PARTS_MAX as usize * super::step::STATES_MAX;

/// Why a change could not be recorded. Then it has not been made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The local disk has no space for the record.
    #[error("the local disk is full")]
    NoSpace,
    /// The local disk failed. Nothing more is accepted.
    #[error("the log of changes cannot be written: {0}")]
    Failed(String),
    /// Records that were durable are damaged, or contradict each other.
    #[error(
        "the log of changes is damaged: {0}. Nothing was uploaded or deleted because of that, and the log is left as it is. Files that were \
         changed on this computer and are not uploaded are still in the folder's directory of local files, each under the name here-<number>. \
         Restore the folder's local directory from a backup, or copy these files elsewhere and set the folder up again"
    )]
    Damaged(String),
    /// The change is longer than what is recorded at once.
    #[error("the change touches {files} files at once, which is more than Holdall can record")]
    TooLarge {
        /// How many files.
        files: usize,
    },
    /// The change does not fit what is recorded already: a fault of this program.
    #[error("a change was refused because it contradicts what is recorded: {0}")]
    Refused(String),
}

/// An open ledger.
pub struct Ledger {
    disk: Arc<dyn Disk>,
    folder: Uuid,
    log: Arc<Log<Steps>>,
    // A lock and not a message: a lookup must not cost a task switch. It is held for writing while a record is copied to the page cache.
    state: RwLock<State>,
    changes: watch::Sender<u64>,
    /// Wakes the task that compacts and keeps spare files, and ends it once the ledger is gone.
    tidy_wanted: Arc<Notify>,
    // Held to put the task here or to take it out.
    tidying: Mutex<Option<JoinHandle<()>>>,
    is_closed: AtomicBool,
    /// This run of the computer, as far as it is known.
    boot: Option<Uuid>,
    was_cut: bool,
}

struct State {
    tree: Tree,
    /// What the kernel may ask for again.
    requests: Requests,
    /// The highest number that any record has named.
    highest: Ino,
    /// Bytes of the log's files when they were looked at last.
    used_bytes: u64,
    /// The log is compacted when its files have this many bytes.
    compact_at_bytes: u64,
}

impl Ledger {
    /// Looks at the tree. Must not wait, and must not call the ledger.
    pub fn read<T>(&self, look: impl FnOnce(&Tree) -> T) -> T {
        look(&self.state.read().tree)
    }

    /// Computes a step from the tree, and makes it. When it returns, the step survives the death of this process; after [`sync`](Self::sync),
    /// a power cut too. Must not wait, and must not call the ledger.
    ///
    /// # Errors
    ///
    /// That of `change`, or the step could not be recorded; then the tree is as before.
    pub fn change<T, E: From<LedgerError>>(
        &self,
        change: impl FnOnce(&Tree) -> Result<(Step, T), E>,
    ) -> Result<T, E> {
        let state = &mut *self.state.write();
        let (step, answer) = change(&state.tree)?;
        self.make(state, step)?;
        Ok(answer)
    }

    fn make(&self, state: &mut State, step: Step) -> Result<(), LedgerError> {
        // The log's files may belong to the next opening.
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(LedgerError::Failed("the folder was closed".into()));
        }
        state.tree.check(&step).map_err(|error: Contradiction| LedgerError::Refused(error.to_string()))?;
        let adopted = state.tree.adopt(step);
        // What changes nothing needs no record, unless it tells that a request was answered.
        if adopted.step.request == 0 && adopted.step.states == adopted.undo.states {
            return Ok(());
        }
        if let Err(error) = self.append(&adopted.step) {
            state.tree.apply(&adopted.undo);
            return Err(error);
        }
        state.requests.note(adopted.step.request, adopted.step.made);
        state.highest = state.highest.max(highest_in(&adopted.step));
        self.note_use(state);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Appends the records of a step. The caller holds the lock of the state, so that nothing comes between them.
    fn append(&self, step: &Step) -> Result<(), LedgerError> {
        self.append_divided(step, Sizes::OF_RECORDS)
    }

    fn append_divided(&self, step: &Step, sizes: Sizes) -> Result<(), LedgerError> {
        let files = step.states.len();
        // All of it is checked before any of it is appended.
        let parts = parts::divided(step, sizes).map_err(|_| LedgerError::TooLarge { files })?;
        let count = parts.len() as u32;
        for (index, data) in (0..).zip(&parts) {
            let len = data.len() as u64;
            let record = match count {
                1 => StepRecord::Step { len },
                _ => StepRecord::Part { len, part: Part { index, count } },
            };
            self.append_record(record, data)?;
        }
        Ok(())
    }

    fn append_record(&self, record: StepRecord, data: &[u8]) -> Result<Lsn, LedgerError> {
        let appended = self.log.writer().append(record, data);
        match appended {
            // Records came faster than files for them. This one cannot wait for the task that makes them.
            Err(LogError::Full) => {
                self.log.grow()?;
                Ok(self.log.writer().append(record, data)?)
            }
            appended => Ok(appended?),
        }
    }

    /// Wakes the task that tidies up if another file was begun.
    fn note_use(&self, state: &mut State) {
        let used = self.log.space().used_bytes;
        if used / record::FILE_BYTES != state.used_bytes / record::FILE_BYTES {
            self.tidy_wanted.notify_one();
        }
        state.used_bytes = used;
    }

    /// What a request of the kernel has made, if a step answered it before: then it is not done again.
    pub fn answer(&self, request: u64) -> Option<Option<Ino>> {
        self.state.read().requests.answer(request)
    }

    /// The kernel counts its requests anew: what was answered so far counts no longer.
    pub fn forget_requests(&self) -> Result<(), LedgerError> {
        let state = &mut *self.state.write();
        match state.requests.is_empty() {
            true => Ok(()),
            false => self.make(state, Step { request: requests::FORGETS, ..Step::default() }),
        }
    }

    /// Makes durable what was changed before the call.
    pub async fn sync(&self) -> Result<(), LedgerError> {
        self.log.flush().await?;
        Ok(())
    }

    /// Makes everything durable, and ends what runs in the background. Nothing is changed from here on. The ledger must be closed before it is
    /// opened again in the same process.
    pub async fn close(&self) -> Result<(), LedgerError> {
        {
            let _no_change = self.state.write();
            self.is_closed.store(true, Ordering::SeqCst);
        }
        self.tidy_wanted.notify_one();
        let tidying = self.tidying.lock().take();
        if let Some(tidying) = tidying {
            let _ = tidying.await;
        }
        self.sync().await
    }

    /// Counts changes, for those that wait for the next one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The highest number that it has ever named, as far as it is known.
    pub fn highest_ino(&self) -> Ino {
        self.state.read().highest
    }

    /// Whether what was not synced may be lost since [`recovered`](Self::recovered) was called last: the computer was started anew, or
    /// nobody knows.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// What a cut may have left was looked at, and all that came of it is durable. From here on only another start of the computer counts
    /// as a cut.
    pub async fn recovered(&self) -> io::Result<()> {
        match (self.was_cut, self.boot) {
            (true, Some(boot)) => Boot { folder: self.folder, boot }.save(&*self.disk).await,
            _ => Ok(()),
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.tidy_wanted.notify_one();
    }
}

/// The highest number that a step names, also as a directory.
fn highest_in(step: &Step) -> Ino {
    let directories = |node: &Node| super::tree::directories_of(node).max();
    let named = step
        .states
        .iter()
        .map(|(ino, node)| node.as_ref().and_then(directories).map_or(*ino, |other| other.max(*ino)));
    named.max().unwrap_or(Ino(0))
}

impl From<LogError> for LedgerError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Full | LogError::DiskFull(_) => LedgerError::NoSpace,
            LogError::Failed(reason) | LogError::Io(reason) => LedgerError::Failed(reason),
            LogError::Damaged { lsn, durable } => LedgerError::Damaged(format!(
                "record {lsn} cannot be read, although everything up to {durable} had been made durable"
            )),
            LogError::CutShort { name } => {
                LedgerError::Damaged(format!("another program has cut its file {name} short"))
            }
            LogError::Missing => LedgerError::Damaged("its files are not there".into()),
        }
    }
}
