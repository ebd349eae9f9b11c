//! The remembered pins (`pins.json`): the paths that a person asked for, and their blocks as of the last scan. With the blocks, nothing
//! pinned is evicted between an opening and the first scan of the files.
//!
//! The file belongs to this device and to the drive's name here. After a rollback, a fork or a write by another device, the blocks are
//! those of another version: some are kept in vain and some are missing, until the scan that each opening begins with.

use crate::daemon::registry;
use holdall_core::units::BlockRange;
use holdall_core::volume::Pinned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

const NAME: &str = "pins.json";
/// A file that cannot be read is kept under this name.
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
    /// The blocks of the paths: first block and number of blocks, in order.
    #[serde(default)]
    runs: Vec<(u64, u64)>,
}

/// The result of loading.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The pins, possibly none.
    Pins(Saved),
    /// The pins are lost, and why.
    Lost(String),
}

impl Saved {
    /// Pins of these paths and blocks.
    pub fn new(whole: bool, paths: BTreeSet<String>, runs: &[BlockRange]) -> Self {
        let runs = runs.iter().map(|run| (run.start, run.count())).collect();
        Self { version: VERSION, whole, paths, runs }
    }

    /// The blocks.
    pub fn runs(&self) -> impl Iterator<Item = BlockRange> {
        self.runs.iter().map(|(start, count)| BlockRange { start: *start, end: start.saturating_add(*count) })
    }

    /// The blocks that the engine must keep.
    pub fn pinned(&self) -> Pinned {
        if self.whole { Pinned::whole() } else { Pinned::runs(self.runs()) }
    }

    /// Reads it from a drive's directory. `expected` if there were pins.
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
                // Kept for somebody who can make sense of it.
                let _ = std::fs::rename(directory.join(NAME), directory.join(DAMAGED));
                Loaded::Lost(error.to_string())
            }
        }
    }

    /// Replaces it: after a crash, the file is the old one or the new one.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        registry::replace(&directory.join(NAME), &serde_json::to_vec(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_pins_and_reports_a_damaged_or_missing_file() {
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
        // Nonsense in a file that parses names no blocks of the drive.
        std::fs::write(dir.path().join(NAME), format!("{{\"version\":1,\"runs\":[[{},9]]}}", u64::MAX))
            .unwrap();
        assert!(matches!(Saved::load(dir.path(), true), Loaded::Pins(_)));
    }
}
