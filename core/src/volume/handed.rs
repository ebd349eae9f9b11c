//! The note that a drive was handed over, and what a later opening makes of it.
//!
//! It is in `drive.json`, and once more beside the journal: without it, a device that has lost `drive.json` would find a journal with pending
//! records and upload them, on top of what the other device has written. The copy is written first and deleted last, so if either says that
//! the drive was handed over, it was, or the note was being written. In any case HEAD decides what has become of it
//! ([`crate::grant::standing`]).

use super::Local;
use super::access::OpenError;
use crate::disk::Disk;
use crate::format::head::Head;
use crate::format::root::Root;
use crate::grant::{self, Standing};
use crate::journal;
use crate::local::Handed;
use crate::planted::{self, Bug};
use std::io;
use uuid::Uuid;

const NAME: &str = "handed";
const TEMPORARY: &str = "handed.new";
/// A longer file is not one of ours.
const BYTES_MAX: u64 = 1 << 16;

/// The hand-over that this device's files of a drive say was made, if any. HEAD shows what has become of it.
pub fn handed(state: &dyn Disk, journal: &dyn Disk) -> io::Result<Option<Handed>> {
    load(Local::load(state)?.as_ref(), journal)
}

/// The same, for a `drive.json` that was read.
pub(super) fn load(local: Option<&Local>, journal: &dyn Disk) -> io::Result<Option<Handed>> {
    // Once the changes are a fork, they go there.
    if local.is_some_and(|local| local.fork.is_some()) {
        return Ok(None);
    }
    if let Some(handed) = local.and_then(|local| local.handed.clone()) {
        return Ok(Some(handed));
    }
    let used = match local {
        Some(local) => Some(local.journal),
        None => journal::found(journal)?,
    };
    Ok(read(journal)?.filter(|handed| Some(handed.journal) == used))
}

fn read(journal: &dyn Disk) -> io::Result<Option<Handed>> {
    let file = match journal.open(NAME, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.len()?;
    if len > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the note of a hand-over is damaged"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
}

/// Writes the copy beside the journal, durably.
pub(super) async fn note(journal: &dyn Disk, handed: &Handed) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(handed).expect("a structure of plain fields becomes JSON");
    let file = journal.open(TEMPORARY, true)?;
    file.set_len(0)?;
    file.write_at(&bytes, 0)?;
    file.sync().await?;
    journal.rename(TEMPORARY, NAME)?;
    journal.sync_names().await
}

/// Deletes the copy. `drive.json` no longer says that the drive was handed over.
pub(super) async fn forget(journal: &dyn Disk) -> io::Result<()> {
    match journal.remove(NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => {
            removed?;
            journal.sync_names().await
        }
    }
}

/// How a drive that was handed over is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reopening {
    /// As any other: the hand-over is history.
    Usual,
    /// Over the device that has it.
    Back,
}

/// Decides that, by HEAD and the version that it names.
pub(super) fn judge(
    handed: &Handed,
    found: (&Head, &Root),
    local: Option<&Local>,
    own: Uuid,
    takes_back: bool,
) -> Result<Reopening, OpenError> {
    let base = local.and_then(|local| local.base.as_ref());
    match grant::standing(handed, found, base, (handed.journal, own)) {
        Standing::TakenBack => Ok(Reopening::Usual),
        Standing::Contained | Standing::Overtaken if takes_back => {
            Err(OpenError::Continued { by: found.1.device_name.clone() })
        }
        Standing::Contained | Standing::Overtaken => Ok(Reopening::Usual),
        Standing::Undecided | Standing::Granted if takes_back => Ok(Reopening::Back),
        Standing::Undecided | Standing::Granted if planted::has(Bug::HandedJournalReplayed) => {
            Ok(Reopening::Back)
        }
        standing @ (Standing::Undecided | Standing::Granted) => Err(OpenError::HandedOver {
            to: handed.to,
            to_name: handed.to_name.clone(),
            session: handed.session,
            is_decided: standing == Standing::Granted,
        }),
    }
}
