//! Journals that are no longer used: their files are kept under other names. Nothing here reads, reuses or deletes them
//! again, but a person can still look at what is in them.

use super::copies::is_own_name;
use super::files;
use super::record::{FILE_HEADER_BYTES, FileHeader};
use crate::disk::Disk;
use std::collections::BTreeSet;
use std::io;
use uuid::Uuid;

const PREFIX: &str = "aside-";

/// The names in the journal's directory, without those that were set aside.
pub(super) fn names(disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut names = disk.list()?;
    names.retain(|name| !name.starts_with(PREFIX));
    names.sort();
    Ok(names)
}

/// The only journal with files in `disk`; `None` if there is none, or more than one.
pub fn found(disk: &dyn Disk) -> io::Result<Option<Uuid>> {
    let uuids: BTreeSet<_> = with_header(disk)?.into_iter().map(|(_, journal)| journal).collect();
    Ok(uuids.first().copied().filter(|_| uuids.len() == 1))
}

/// A file with a log's own name that is neither spare nor begins as one of the log `uuid` does. A header is written as a whole, so none of
/// these is left of a crash.
pub(crate) fn is_not_of(disk: &dyn Disk, uuid: Uuid) -> io::Result<Option<String>> {
    for name in names(disk)?.into_iter().filter(|name| is_own_name(name)) {
        let file = disk.open_to_read(&name)?;
        let mut begin = vec![0; file.len()?.min(FILE_HEADER_BYTES) as usize];
        file.read_at(&mut begin, 0)?;
        let is_spare = begin.iter().all(|byte| *byte == 0);
        if !is_spare && FileHeader::decode(&begin).is_none_or(|header| header.log != uuid) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether files of the journal `uuid` were set aside.
pub fn is_aside(disk: &dyn Disk, uuid: Uuid) -> io::Result<bool> {
    let prefix = format!("{PREFIX}{}-", uuid.simple());
    Ok(disk.list()?.iter().any(|name| name.starts_with(&prefix)))
}

/// Renames every journal file durably, which sets it aside. Returns how many there were.
pub async fn set_aside(disk: &dyn Disk) -> io::Result<usize> {
    let files = with_header(disk)?;
    for (name, journal) in &files {
        let (journal, unique) = (journal.simple(), crate::entropy::u128() as u32);
        disk.rename(name, &format!("{PREFIX}{journal}-{name}-{unique:08x}"))?;
    }
    disk.sync_names().await?;
    Ok(files.len())
}

fn with_header(disk: &dyn Disk) -> io::Result<Vec<(String, Uuid)>> {
    let mut found = Vec::new();
    for name in names(disk)? {
        if let Some(header) = files::read_header(&*disk.open(&name, false)?)? {
            found.push((name, header.log));
        }
    }
    Ok(found)
}
