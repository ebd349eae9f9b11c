//! What is remembered of pins (`pins.json`): what a person asked for, and the blocks that it was when it was last looked at. With
//! the second nothing pinned is lost between an opening and the first look at the files.
//!
//! The file is this device's, and the drive's by its name here. After a rollback, a fork or a write by another device the
//! blocks are those of another version: some that are kept in vain, some that are missing, until the look that each
//! opening begins with.

use crate::daemon::registry;
use holdall_core::units::BlockRange;
use holdall_core::volume::Pinned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

const NAME: &str = "pins.json";
/// Under this name a file stays that cannot be read.
const DAMAGED: &str = "pins.damaged";
const VERSION: u32 = 1;

/// `pins.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    /// Whether the whole drive is pinned.
    #[serde(default)]
    pub whole: bool,
    /// Paths, relative to the drive's root.
    #[serde(default)]
    pub paths: BTreeSet<String>,
    /// The blocks that they were: first one and number, in order.
    #[serde(default)]
    runs: Vec<(u64, u64)>,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// There are pins, or none.
    Pins(Saved),
    /// What there was is lost, and why.
    Lost(String),
}

impl Saved {
    /// Of these paths and blocks.
    pub fn new(whole: bool, paths: BTreeSet<String>, runs: &[BlockRange]) -> Self {
        let runs = runs.iter().map(|run| (run.start, run.count())).collect();
        Self { version: VERSION, whole, paths, runs }
    }

    /// The blocks.
    pub fn runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().map(|(start, count)| BlockRange { start: *start, end: start.saturating_add(*count) })
    }

    /// What the engine is to keep.
    pub fn pinned(&self) -> Pinned {
        if self.whole { Pinned::whole() } else { Pinned::runs(self.runs()) }
    }

    /// Reads it from a drive's directory. `expected` where there were pins.
    pub fn load(directory: &Path, expected: bool) -> Loaded {
        let read = || -> io::Result<Saved> {
            let saved: Saved = serde_json::from_slice(&std::fs::read(directory.join(NAME))?)?;
            match saved.version {
                VERSION => Ok(saved),
                version => Err(io::Error::new(ErrorKind::InvalidData, format!("it has format {version}"))),
            }
        };
        match read() {
            Ok(saved) => Loaded::Pins(saved),
            Err(error) if error.kind() == ErrorKind::NotFound && !expected => Loaded::Pins(Saved::default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Loaded::Lost("it is gone".into()),
            Err(error) => {
                // For whoever can make sense of it.
                let _ = std::fs::rename(directory.join(NAME), directory.join(DAMAGED));
                Loaded::Lost(error.to_string())
            }
        }
    }

    /// Replaces it: a crash leaves the old one or the new one.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        registry::replace(&directory.join(NAME), &serde_json::to_vec(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_remembered_and_a_file_that_is_damaged_or_gone_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Saved::load(dir.path(), false), Loaded::Pins(Saved::default()));
        assert!(matches!(Saved::load(dir.path(), true), Loaded::Lost(_)));
        let runs = [BlockRange::new(3, 4), BlockRange::new(100, 1)];
        let saved = Saved::new(false, BTreeSet::from(["a/b".to_owned(), ".".to_owned()]), &runs);
        saved.save(dir.path()).unwrap();
        assert_eq!(Saved::load(dir.path(), true), Loaded::Pins(saved.clone()));
        assert_eq!(saved.pinned().as_runs(), runs);
        assert!(Saved::new(true, BTreeSet::new(), &runs).pinned().is_whole());
        for text in ["", "{\"version\":1,\"whole\":tr", "{\"version\":7}", "[]"] {
            std::fs::write(dir.path().join(NAME), text).unwrap();
            assert!(matches!(Saved::load(dir.path(), true), Loaded::Lost(_)), "{text}");
            assert!(!dir.path().join(NAME).exists() && dir.path().join(DAMAGED).exists());
        }
        // Nonsense in a file that parses is no blocks of the drive.
        std::fs::write(dir.path().join(NAME), format!("{{\"version\":1,\"runs\":[[{},9]]}}", u64::MAX))
            .unwrap();
        assert!(matches!(Saved::load(dir.path(), true), Loaded::Pins(_)));
    }
}
