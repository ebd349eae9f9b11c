//! Opening a ledger: its log is read from the first record that is still there to the last.
//!
//! A torn end is dropped, as after any crash. Damage before it, or records that contradict each other, stop everything: what is changed here
//! exists nowhere else, so nothing may be concluded from a part of it.

use super::boot::Boot;
use super::files::LogFiles;
use super::parts::{Assembly, Part};
use super::record::{FILE_BYTES, LIMITS, StepRecord, Steps};
use super::requests::Requests;
use super::{Ledger, LedgerError, State, compact, highest_in};
use crate::disk::Disk;
use crate::folder::node::Ino;
use crate::folder::step::Step;
use crate::folder::tree::Tree;
use crate::log::{self, Log, LogError, Place, Record, Recovered};
use crate::units::Lsn;
use parking_lot::RwLock;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

/// Records that are read at once.
const WINDOW_BYTES: u64 = 8 << 20;

impl Ledger {
    /// Opens the ledger of a folder in `disk`, or begins one.
    pub async fn open(disk: Arc<dyn Disk>, folder: Uuid) -> Result<Arc<Self>, LedgerError> {
        let files: Arc<dyn Disk> = Arc::new(LogFiles(disk.clone()));
        let boot = disk.boot();
        let last = Boot::load(&*disk).map_err(unreadable)?;
        let was_cut = boot.is_none() || last != boot.map(|boot| Boot { folder, boot });
        let mut state = State {
            tree: Tree::default(),
            requests: Requests::default(),
            highest: Ino(0),
            used_bytes: 0,
            compact_at_bytes: compact::BYTES_MIN,
        };
        // Beginning a log removes what is there, and records before the first file would not be missed.
        if let Some(name) = log::is_not_of(&*files, folder).map_err(unreadable)? {
            let reason = format!("its file {name} is another folder's, or its beginning cannot be read");
            return Err(LedgerError::Damaged(reason));
        }
        let log = match Log::open_with(files.clone(), LIMITS, folder, Steps, ()).await {
            Ok((log, recovered)) => {
                replay(&log, recovered, &mut state).await?;
                log
            }
            Err(LogError::Missing) => Log::create_as(files, LIMITS, folder, Steps, ()).await?,
            Err(error) => return Err(error.into()),
        };
        state.used_bytes = log.space().used_bytes;
        let tidy_wanted = Arc::new(Notify::new());
        if state.used_bytes >= FILE_BYTES {
            tidy_wanted.notify_one();
        }
        let (changes, _) = watch::channel(0);
        let state = RwLock::new(state);
        let (tidying, is_closed) = Default::default();
        let ledger = Arc::new(Self {
            disk,
            folder,
            log,
            state,
            changes,
            tidy_wanted,
            tidying,
            is_closed,
            boot,
            was_cut,
        });
        let tidying = compact::keep_tidy(Arc::downgrade(&ledger), ledger.tidy_wanted.clone());
        *ledger.tidying.lock() = Some(tokio::spawn(tidying));
        Ok(ledger)
    }
}

async fn replay(log: &Log<Steps>, recovered: Recovered, state: &mut State) -> Result<(), LedgerError> {
    let Recovered { first, last } = recovered;
    let (mut next, mut is_whole) = (first, first == Lsn(1));
    let mut assembly = Assembly::default();
    while next <= last {
        let records = log.records(next, last, WINDOW_BYTES).await?;
        let Some(end) = records.last() else { break };
        next = end.lsn.next();
        for record in records {
            match record.operation {
                StepRecord::Step { len } => replay_step(&record, len, None, &mut assembly, state)?,
                StepRecord::Part { len, part } => {
                    replay_step(&record, len, Some(part), &mut assembly, state)?;
                }
                StepRecord::Compacted { from } => is_whole |= from >= first,
            }
        }
        tokio::task::yield_now().await;
    }
    match is_whole {
        true => Ok(()),
        false => Err(LedgerError::Damaged(format!("the records before {first} are not there"))),
    }
}

fn replay_step(
    record: &Record<StepRecord>,
    len: u64,
    part: Option<Part>,
    assembly: &mut Assembly,
    state: &mut State,
) -> Result<(), LedgerError> {
    let damaged =
        |reason: &dyn Display| LedgerError::Damaged(format!("record {} does not fit: {reason}", record.lsn));
    let step = step_of(record, len)?;
    // Also a number that only a part without the others names must not be given again.
    state.highest = state.highest.max(highest_in(&step));
    let whole =
        assembly.take(step, part).map_err(|_| damaged(&"it is part of a change that is not there"))?;
    match whole {
        Some(step) => {
            state.requests.note(step.request, step.made);
            state.tree.replay(&step).map_err(|error| damaged(&error))
        }
        None => Ok(()),
    }
}

fn step_of(record: &Record<StepRecord>, len: u64) -> Result<Step, LedgerError> {
    let mut data = vec![0; len as usize];
    if let Place::Data { file, offset } = &record.place {
        file.read(&mut data, *offset).map_err(unreadable)?;
    }
    let unreadable = |error| LedgerError::Damaged(format!("record {} has no meaning: {error}", record.lsn));
    Step::decode(&data).map_err(unreadable)
}

fn unreadable(error: io::Error) -> LedgerError {
    LedgerError::Failed(error.to_string())
}
