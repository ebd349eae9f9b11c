//! Listings: a walk below the directory of a prefix. A listing that decides something is refreshed first.

use super::beneath::{self, Entry};
use super::patience::Pulse;
use super::{FileStore, kinds, parent_of};
use crate::names::Currency;
use crate::{Listed, StoreError, TOP_MAX};
use std::fs::DirEntry;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Names of some entries of a directory, with a `/` at the end of a directory's name.
pub(super) fn top(root: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<DirEntry>| {
        let entry = entry?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            name.push('/');
        }
        Ok(name)
    };
    std::fs::read_dir(root)?.take(TOP_MAX).map(name).collect()
}

impl FileStore {
    pub(super) fn list_now(&self, prefix: &str, pulse: &Pulse) -> Result<Vec<Listed>, StoreError> {
        self.expect_here(prefix)?;
        let directory = parent_of(prefix);
        let mut found = Vec::new();
        let walked = self.refresh_listing(prefix, directory);
        let walked = walked.and_then(|()| self.walk(directory, pulse, &mut found));
        walked.map_err(|error| self.explain(prefix, &error))?;
        found.retain(|listed| listed.name.starts_with(prefix));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Makes sure that a listing that decides something shows what other computers did before.
    fn refresh_listing(&self, prefix: &str, directory: &str) -> io::Result<()> {
        if self.names.currency(prefix) == Currency::Any || kinds::is_local(self.magic()?) {
            return Ok(());
        }
        match self.directory(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(directory) => match Self::refresh(&directory) {
                // A reader without the right to write takes no turn, and decides nothing.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    Ok(())
                }
                // A full store can still be read.
                Err(_) if self.names.currency(prefix) < Currency::Required => Ok(()),
                refreshed => refreshed,
            },
        }
    }

    fn walk(&self, directory: &str, pulse: &Pulse, found: &mut Vec<Listed>) -> io::Result<()> {
        let at = match self.directory(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            at => at?,
        };
        for Entry { name: leaf, is_directory } in beneath::entries(&at, || pulse.beat())? {
            pulse.beat();
            let name = if directory.is_empty() { leaf.clone() } else { format!("{directory}/{leaf}") };
            if is_directory && self.names.is_claim(&name) {
                found.push(Self::listed_claim(name));
            } else if is_directory {
                self.walk(&name, pulse, found)?;
            } else {
                // An object deleted since then is simply not there.
                match beneath::len(&at, &leaf) {
                    Ok(len) => found.push(Listed { name, len }),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
