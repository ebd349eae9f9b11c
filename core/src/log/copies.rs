//! Copies of log files that other programs have put beside them: a sync tool's conflicted copy, or a backup that was
//! unpacked in place.
//!
//! A file is identified by its log, its sequence number and its records, never by its name alone. If two files have the
//! same sequence number, the one with more records counts. A file whose name is not the log's own counts only if the log is
//! longer with it, as when a sync tool renamed the newer file. Files that do not count are renamed, kept and reported.

use super::record::FileHeader;
use super::recover::{End, find_end, walk};
use super::{Body, Log, LogError, LogFile, Records};
use crate::disk::Disk;
use crate::units::Lsn;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Prefix of the names of copies that are kept and do not count. [`super::aside`] ignores them.
const PREFIX: &str = "aside-copy-of-";

/// A file of the log, and what its header says.
pub(super) type Headed = (Arc<LogFile>, FileHeader);

/// Whether a log gives its files names like this one.
pub(super) fn is_own_name(name: &str) -> bool {
    let digits = name.strip_prefix('j').unwrap_or_default();
    digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The log that `files` form, and those of them that are no part of it. `others` are files without a header.
pub(super) async fn log_of<B: Body>(
    files: Vec<Headed>,
    others: &[Arc<LogFile>],
    uuid: Uuid,
) -> Result<(End, Vec<Arc<LogFile>>), LogError> {
    let own = files.iter().filter(|(file, _)| is_own_name(&file.name)).cloned().collect();
    let without = read::<B>(own, others, uuid).await;
    if files.iter().all(|(file, _)| is_own_name(&file.name)) {
        return without;
    }
    let foreign: Vec<_> = files.iter().filter(|(file, _)| !is_own_name(&file.name)).cloned().collect();
    let with = read::<B>(files, others, uuid).await;
    match (with, without) {
        (Ok(with), Ok(without)) if with.0.last > without.0.last => Ok(with),
        (_, Ok((end, mut copies))) => {
            copies.extend(foreign.into_iter().map(|(file, _)| file));
            Ok((end, copies))
        }
        (with, Err(_)) => with,
    }
}

async fn read<B: Body>(
    files: Vec<Headed>,
    others: &[Arc<LogFile>],
    uuid: Uuid,
) -> Result<(End, Vec<Arc<LogFile>>), LogError> {
    let (files, copies) = one_of_each::<B>(files, uuid).await;
    Ok((find_end::<B>(files, others, uuid).await?, copies))
}

/// For each sequence number, the file with the most records. Second, all other files.
async fn one_of_each<B: Body>(files: Vec<Headed>, uuid: Uuid) -> (Vec<Headed>, Vec<Arc<LogFile>>) {
    let mut by_seq: BTreeMap<u64, Vec<Headed>> = BTreeMap::new();
    for headed in files {
        by_seq.entry(headed.1.seq).or_default().push(headed);
    }
    let (mut kept, mut copies) = (Vec::new(), Vec::new());
    for mut same in by_seq.into_values() {
        let mut best = 0;
        if same.len() > 1 {
            let mut highest = (Lsn(0), false);
            for (at, headed) in same.iter().enumerate() {
                let rank = rank::<B>(headed, uuid).await;
                if rank > highest {
                    (best, highest) = (at, rank);
                }
            }
        }
        kept.push(same.swap_remove(best));
        copies.extend(same.into_iter().map(|(file, _)| file));
    }
    (kept, copies)
}

/// How much a file holds. If two hold the same, the one with the log's own name ranks higher.
async fn rank<B: Body>((file, header): &Headed, uuid: Uuid) -> (Lsn, bool) {
    let last = walk::<B>(file, uuid, header, None).await.map_or(Lsn(0), |walked| walked.last);
    (last, is_own_name(&file.name))
}

/// Renames files that do not count, durably. Returns the new names.
pub(super) async fn set_aside(disk: &dyn Disk, copies: &[Arc<LogFile>]) -> Result<Vec<String>, LogError> {
    let mut names = Vec::new();
    for file in copies {
        let name = format!("{PREFIX}{}-{:08x}", file.name, crate::entropy::u128() as u32);
        tracing::warn!(
            file = file.name,
            name,
            "a copy of a journal file was found: it is kept, and not used"
        );
        disk.rename(&file.name, &name)?;
        names.push(name);
    }
    if !names.is_empty() {
        disk.sync_names().await?;
    }
    Ok(names)
}

impl<R: Records> Log<R> {
    /// Names of copies of its files that were found when it was opened. They are kept and not used.
    pub fn copies(&self) -> &[String] {
        &self.copies
    }
}
