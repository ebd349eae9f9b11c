//! Which notifications a person wants: all except those that were switched off. Kept in a file in the user's configuration.

use crate::autostart;
use holdall_gui::notices::Kind;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The user's choice.
pub struct Wishes {
    /// `None` without a home directory: then nothing is remembered.
    file: Option<PathBuf>,
    // Held while it changes together with its file.
    saved: Mutex<Saved>,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Saved {
    /// Kinds that are switched off.
    #[serde(default)]
    silent: BTreeSet<Kind>,
}

impl Wishes {
    /// This user's choice. A file that cannot be read counts as empty: then everything is shown.
    pub fn from_environment() -> Wishes {
        let directory = autostart::configuration(|variable| std::env::var_os(variable));
        Wishes::load(directory.map(|directory| directory.join("holdall/app.json")))
    }

    fn load(file: Option<PathBuf>) -> Wishes {
        let text = file.as_ref().and_then(|file| fs::read(file).ok());
        let saved = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Wishes { file, saved: Mutex::new(saved) }
    }

    /// Whether to show notices of the kind.
    pub fn are_wanted(&self, kind: Kind) -> bool {
        !self.saved.lock().silent.contains(&kind)
    }

    /// The same for all kinds.
    pub fn all(&self) -> BTreeMap<Kind, bool> {
        Kind::ALL.into_iter().map(|kind| (kind, self.are_wanted(kind))).collect()
    }

    /// Switches notices of a kind on or off.
    pub fn set(&self, kind: Kind, on: bool) -> io::Result<()> {
        let mut saved = self.saved.lock();
        let mut next = saved.clone();
        match on {
            true => next.silent.remove(&kind),
            false => next.silent.insert(kind),
        };
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        fs::create_dir_all(file.parent().expect("it was joined to a directory"))?;
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(&next)?)?;
        fs::rename(new, file)?;
        *saved = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_switched_off_stay_off() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/app.json");
        let load = || Wishes::load(Some(file.clone()));
        assert!(load().all().values().all(|wanted| *wanted));
        load().set(Kind::Network, false).unwrap();
        load().set(Kind::PinComplete, false).unwrap();
        load().set(Kind::PinComplete, true).unwrap();
        let now = load();
        assert!(!now.are_wanted(Kind::Network) && now.are_wanted(Kind::PinComplete));
        fs::write(&file, "{").unwrap();
        assert!(load().are_wanted(Kind::Network), "what needs a person is shown rather than lost");
        assert!(Wishes::load(None).set(Kind::Network, false).is_err());
    }
}
