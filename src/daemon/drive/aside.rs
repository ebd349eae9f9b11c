//! Changes of this computer that the store lacks, once a person has decided that the store's version counts: they move to a directory of
//! their own, are kept there, and are no longer used.

use super::Drive;
use super::lock::lock;
use crate::api::{Action, Code, Failure};
use crate::daemon::failure::{self, failure};
use crate::daemon::registry::sync_directory;
use std::io;
use std::path::{Path, PathBuf};

/// How the name of such a directory begins.
const ASIDE: &str = "set-aside-";
/// The name of such a directory until all files are in it. Its existence is the decision: the next opening of the drive finishes the move.
const UNFINISHED: &str = "set-aside.unfinished";
/// The files that move there.
const FILES: [&str; 3] = ["journal", "drive.json", "seen"];

impl Drive {
    /// Sets this computer's files of the drive aside. Returns the directory that they are in.
    pub(super) fn set_files_aside(&self) -> Result<PathBuf, Failure> {
        let directory = self.registry.directory(&self.name);
        let _lock = lock(&directory)?;
        let begun = begin(&directory).and_then(|()| finish(&directory));
        let aside = begun.map_err(|error| failure::local(&error))?.unwrap_or(directory);
        self.remember(|config| config.unsent = false)?;
        tracing::warn!(drive = self.name, directory = %aside.display(), "changes that only this computer has were set aside");
        Ok(aside)
    }

    /// Refuses while changes that exist only on this computer are set aside; `or_else` is how a person discards them.
    pub(super) fn check_nothing_aside(&self, or_else: Option<Action>) -> Result<(), Failure> {
        let directory = self.registry.directory(&self.name);
        let entries = std::fs::read_dir(&directory).map_err(|error| failure::local(&error))?;
        let aside = entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(ASIDE));
        match aside {
            None => Ok(()),
            Some(aside) => Err(failure(
                Code::Unsent,
                format!(
                    "This computer has changes of {} that the store does not have. They were set aside in {}.",
                    self.name,
                    aside.path().display()
                ),
                "Nothing was changed. Removing the drive would delete them.",
                [
                    Some(Action::tell("Move that directory elsewhere if you may still need the changes.")),
                    or_else,
                ]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
            )),
        }
    }
}

fn begin(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory.join(UNFINISHED)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(directory),
    }
}

/// Finishes what a power cut has interrupted. The caller holds the drive's lock. Returns the directory of the files, if any had to be
/// moved.
pub(super) fn finish(directory: &Path) -> io::Result<Option<PathBuf>> {
    let unfinished = directory.join(UNFINISHED);
    if !unfinished.is_dir() {
        return Ok(None);
    }
    for name in FILES {
        match std::fs::rename(directory.join(name), unfinished.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_directory(&unfinished)?;
    sync_directory(directory)?;
    let aside = directory.join(format!("{ASIDE}{}", crate::daemon::status::now_ms()));
    std::fs::rename(&unfinished, &aside)?;
    sync_directory(directory)?;
    Ok(Some(aside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_opening_finishes_what_a_power_cut_interrupted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::create_dir(path.join("journal")).unwrap();
        std::fs::write(path.join("drive.json"), "{}").unwrap();
        std::fs::write(path.join("config.json"), "{}").unwrap();
        assert_eq!(finish(path).unwrap(), None, "nobody has decided anything");
        begin(path).unwrap();
        std::fs::rename(path.join("journal"), path.join(UNFINISHED).join("journal")).unwrap();
        let aside = finish(path).unwrap().unwrap();
        assert!(aside.join("journal").is_dir() && aside.join("drive.json").is_file());
        let mut left: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [path.join("config.json"), aside]);
    }
}
