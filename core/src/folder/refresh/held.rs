//! Deletions that are held: the directories whose missing names are not believed to be gone.

use crate::disk::Disk;
use crate::folder::entries::Row;
use crate::folder::node::Ino;
use crate::folder::open_folder::Held;
use crate::folder::small_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

const NAME: &str = "held.json";
const VERSION: u32 = 1;
/// Paths that people are shown.
const PATHS_MAX: usize = 100;

/// The held directories. Which of their names are missing, the entries know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeldDirectories {
    version: u32,
    at_ms: u64,
    directories: BTreeMap<u32, Missing>,
}

/// What is missing in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Missing {
    /// Files, also those below directories that are not held themselves.
    pub count: u64,
    /// The paths of the first.
    pub paths: Vec<String>,
    /// What was seen last before this generation of the directory is what is missing, and what people are shown: what is missed later is
    /// not among it.
    #[serde(default = "all")]
    pub before: u64,
    /// A directory that is held itself is missing, or lies below one that is.
    #[serde(skip)]
    pub has_held: bool,
}

fn all() -> u64 {
    u64::MAX
}

impl Missing {
    /// Whether a row of the directory is among what is missing.
    pub fn has(&self, row: &Row) -> bool {
        row.seen.0 < self.before
    }
}

impl HeldDirectories {
    /// Those that are remembered.
    pub fn load(disk: &dyn Disk) -> io::Result<Self> {
        let none = Self { version: VERSION, at_ms: 0, directories: BTreeMap::new() };
        let held: Self = small_file::load(disk, NAME)?.unwrap_or(none);
        match held.version {
            VERSION => Ok(held),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{NAME} was written by a newer program, which can open the folder; nothing was changed"
                ),
            )),
        }
    }

    /// Replaces the file.
    pub async fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        small_file::save(disk, NAME, self).await
    }

    /// Holds what is missing in a directory. Returns whether that changes anything.
    pub fn hold(&mut self, directory: Ino, missing: Missing, now_ms: u64) -> bool {
        if self.directories.is_empty() {
            self.at_ms = now_ms;
        }
        // The same files: that another listing misses them too changes nothing.
        let is_same = |before: &Missing| (before.count, &before.paths) == (missing.count, &missing.paths);
        if self.directories.get(&directory.0).is_some_and(is_same) {
            return false;
        }
        self.directories.insert(directory.0, missing);
        true
    }

    /// Nothing is missing in a directory any longer. Returns whether something was.
    pub fn release(&mut self, directory: Ino) -> bool {
        self.directories.remove(&directory.0).is_some()
    }

    /// Replaces what is missing in a directory by what is missing in each of these.
    pub fn split(&mut self, directory: Ino, into: Vec<(Ino, Missing)>) {
        self.directories.remove(&directory.0);
        self.directories.extend(into.into_iter().map(|(ino, missing)| (ino.0, missing)));
    }

    /// Whether the directory's missing names are held.
    pub fn has(&self, directory: Ino) -> bool {
        self.directories.contains_key(&directory.0)
    }

    /// What is missing in a directory.
    pub fn missing(&self, directory: Ino) -> Option<Missing> {
        self.directories.get(&directory.0).cloned()
    }

    /// The directories, with what is missing in them.
    pub fn all(&self) -> Vec<(Ino, Missing)> {
        self.directories.iter().map(|(ino, missing)| (Ino(*ino), missing.clone())).collect()
    }

    /// How many directories there are.
    pub fn len(&self) -> usize {
        self.directories.len()
    }

    /// What people are shown.
    pub fn summary(&self) -> Held {
        let paths = self.directories.values().flat_map(|missing| &missing.paths);
        Held {
            count: self.directories.values().map(|missing| missing.count).sum(),
            paths: paths.take(PATHS_MAX).cloned().collect(),
            at_ms: self.at_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::disk::{DiskFaults, SimDisk};

    const DIRECTORY: Ino = Ino(7);

    fn missing(count: u64, before: u64) -> Missing {
        Missing { count, before, ..Missing::default() }
    }

    #[tokio::test]
    async fn what_people_were_shown_stays_what_it_was_until_more_is_missing() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let mut held = HeldDirectories::load(&disk).unwrap();
        assert!(held.hold(DIRECTORY, missing(30, 4), 99));
        assert!(!held.hold(DIRECTORY, missing(30, 5), 100), "the same files");
        assert_eq!(held.missing(DIRECTORY).unwrap().before, 4);
        assert!(held.hold(DIRECTORY, missing(31, 6), 101));
        held.save(&disk).await.unwrap();
        disk.power_cut();
        let held = HeldDirectories::load(&disk).unwrap();
        assert_eq!(held.missing(DIRECTORY).unwrap().before, 6);
        assert_eq!((held.summary().count, held.summary().at_ms), (31, 99));
    }

    #[test]
    fn a_file_of_before_generations_is_read() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let text = br#"{"version":1,"at_ms":5,"directories":{"7":{"count":3,"paths":["a"]}}}"#;
        disk.open(NAME, true).unwrap().write_at(text, 0).unwrap();
        let held = HeldDirectories::load(&disk).unwrap();
        assert_eq!(
            held.missing(DIRECTORY).unwrap(),
            Missing { paths: vec!["a".into()], ..missing(3, u64::MAX) }
        );
    }
}
