//! A daemon's record of an attached drive, for the next daemon and for the doctor: a small file for each drive in the state directory,
//! replaced atomically.
//!
//! It is written before anything is made and removed after everything is gone, so that whatever a crash leaves belongs to a drive with a
//! record. The kernel is asked what is really there; the record says only what the kernel does not know: the intention, and that we
//! created the mount point. It survives a reboot, so that such a directory is removed even then.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The format's version.
const VERSION: u32 = 1;

/// The record of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The format's version.
    version: u32,
    /// The drive.
    pub uuid: Uuid,
    /// Its name, for people.
    pub name: String,
    /// Its mount point, now or soon.
    #[serde(default)]
    pub mountpoint: Option<PathBuf>,
    /// Whether we created the mount point, and must remove it.
    #[serde(default)]
    pub made: bool,
    /// The mode that the mount point had before it was closed to everybody, and must get back.
    #[serde(default)]
    pub mode: Option<u32>,
}

impl Record {
    /// The record of a drive that is not mounted.
    pub(super) fn new(uuid: Uuid, name: &str) -> Self {
        Record { version: VERSION, uuid, name: name.to_owned(), mountpoint: None, made: false, mode: None }
    }

    /// Writes it in place of an earlier one.
    pub(super) fn save(&self, directory: &Path) -> io::Result<()> {
        let (path, fresh) = (path(directory, self.uuid), directory.join(format!("{}.new", self.uuid)));
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    }

    /// The drive's record, if there is a readable one.
    pub(super) fn load(directory: &Path, uuid: Uuid) -> Option<Self> {
        let record: Self = serde_json::from_slice(&std::fs::read(path(directory, uuid)).ok()?).ok()?;
        (record.uuid == uuid && record.version <= VERSION).then_some(record)
    }

    /// All readable records.
    pub(super) fn all(directory: &Path) -> io::Result<Vec<Self>> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if path.extension().is_some_and(|extension| extension == "json")
                && let Some(uuid) = stem.and_then(|stem| stem.parse().ok())
            {
                records.extend(Self::load(directory, uuid));
            }
        }
        records.sort_by_key(|record| record.uuid);
        Ok(records)
    }

    /// Removes the drive's record; a missing record is no error.
    pub(super) fn remove(directory: &Path, uuid: Uuid) -> io::Result<()> {
        match std::fs::remove_file(path(directory, uuid)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn path(directory: &Path, uuid: Uuid) -> PathBuf {
    directory.join(format!("{uuid}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_counts_and_other_files_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let mut record = Record::new(Uuid::from_u128(1), "photos");
        record.save(at).unwrap();
        record.mountpoint = Some("/home/a/Holdall/photos".into());
        record.save(at).unwrap();
        std::fs::write(at.join(format!("{}.json", Uuid::from_u128(2))), "torn").unwrap();
        assert_eq!(Record::all(at).unwrap(), [record.clone()]);
        assert_eq!(Record::load(at, record.uuid), Some(record.clone()));
        Record::remove(at, record.uuid).unwrap();
        Record::remove(at, record.uuid).unwrap();
        assert_eq!(Record::all(at).unwrap(), []);
    }
}
