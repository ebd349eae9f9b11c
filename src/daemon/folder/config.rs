//! What is remembered of a folder: `config.json` in its directory, replaced atomically.
//!
//! Everything of a folder lies in that one directory of the state directory, cached files too: a file moves between the cache and the files
//! that wait for upload by a rename. A directory whose `config.json` is missing or cannot be read may hold changes that exist nowhere else,
//! so it is shown, and never removed without being asked.

use super::figures::Last;
use crate::daemon::registry::{private_directory, replace, sync_directory};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const NAME: &str = "config.json";
const VERSION: u32 = 1;
/// The directories of folders that were forgotten begin like this.
const FORGOTTEN: &str = ".forgotten-";

/// What is remembered of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The version of this format.
    pub version: u32,
    /// The folder's identity on this device.
    pub uuid: Uuid,
    /// Its name on this device.
    pub name: String,
    /// Where its files are.
    pub url: String,
    /// Where a person last asked to have it mounted, if that is not the default.
    #[serde(default)]
    pub at: Option<PathBuf>,
    /// Nothing is written to it.
    #[serde(default)]
    pub read_only: bool,
    /// Every file is served by the daemon.
    #[serde(default)]
    pub no_passthrough: bool,
    /// It is meant to be open: the next daemon opens it again.
    #[serde(default)]
    pub is_open: bool,
    /// How much of the local disk its cache may take, if a person has set a limit for this folder, in bytes.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
    /// A person has paused its uploads.
    #[serde(default)]
    pub paused: bool,
    /// It may have changes that are not at the remote. Set before anything can be written, and cleared once all of it was seen there.
    #[serde(default)]
    pub unsent: bool,
    /// The directory that it is mounted on, or may be: recorded before it is mounted.
    #[serde(default)]
    pub mount: Option<MountRecord>,
    /// Its figures when it was last closed.
    #[serde(default)]
    pub last: Last,
}

/// A directory that a folder is mounted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Holdall has created it, and removes it after unmounting.
    pub made: bool,
    /// The mode that it has while nothing is mounted on it.
    pub mode: Option<u32>,
}

impl Config {
    /// A folder that was never open.
    pub fn new(uuid: Uuid, name: &str, url: &str) -> Self {
        Self {
            version: VERSION,
            uuid,
            name: name.to_owned(),
            url: url.to_owned(),
            at: None,
            read_only: false,
            no_passthrough: false,
            is_open: false,
            cache_bytes: None,
            paused: false,
            unsent: false,
            mount: None,
            last: Last::default(),
        }
    }
}

/// The directory of all folders.
#[derive(Clone, Debug)]
pub struct Directories(PathBuf);

/// A folder's directory, with its configuration or what is wrong with it.
pub type Found = (Uuid, io::Result<Config>);

impl Directories {
    /// In the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self(state.join("folders"))
    }

    /// The directory of one folder.
    pub fn of(&self, folder: Uuid) -> PathBuf {
        self.0.join(folder.to_string())
    }

    /// All folders, damaged ones too.
    pub fn list(&self) -> io::Result<Vec<Found>> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let Ok(folder) = Uuid::try_parse(&name) else { continue };
            match self.load(folder) {
                // The power failed before the folder was known.
                Err(error) if error.kind() == ErrorKind::NotFound && self.is_empty(folder) => {}
                config => found.push((folder, config)),
            }
        }
        Ok(found)
    }

    fn is_empty(&self, folder: Uuid) -> bool {
        std::fs::read_dir(self.of(folder)).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn load(&self, folder: Uuid) -> io::Result<Config> {
        let path = self.of(folder).join(NAME);
        let error = |kind, why: String| io::Error::new(kind, format!("{} {why}", path.display()));
        let damaged = |why| error(ErrorKind::InvalidData, why);
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)
            .map_err(|error| damaged(format!("is damaged: {error}")))?;
        // Before the rest, which a later version may write in another way.
        if value["version"].as_u64().is_some_and(|version| version > VERSION.into()) {
            return Err(error(
                ErrorKind::Unsupported,
                "was written by a later version of Holdall".to_owned(),
            ));
        }
        let config: Config =
            serde_json::from_value(value).map_err(|error| damaged(format!("is damaged: {error}")))?;
        match config.uuid == folder {
            true => Ok(config),
            false => Err(damaged("belongs to another folder".to_owned())),
        }
    }

    /// Remembers a new folder. The names of the directories are synced too, or a power cut would lose everything in them.
    pub fn add(&self, config: &Config) -> io::Result<()> {
        let directory = self.of(config.uuid);
        private_directory(&directory)?;
        for holder in directory.ancestors().skip(1).take(2) {
            sync_directory(holder)?;
        }
        self.save(config)
    }

    /// Remembers a change.
    pub fn save(&self, config: &Config) -> io::Result<()> {
        replace(&self.of(config.uuid).join(NAME), &serde_json::to_vec_pretty(config)?)
    }

    /// Forgets a folder, with all its files here. One rename decides it: [`Directories::finish_forgetting`] deletes what a crash leaves.
    pub fn forget(&self, folder: Uuid) -> io::Result<()> {
        let forgotten = self.0.join(format!("{FORGOTTEN}{folder}"));
        std::fs::rename(self.of(folder), &forgotten)?;
        sync_directory(&self.0)?;
        if let Err(error) = std::fs::remove_dir_all(&forgotten) {
            tracing::warn!(%folder, %error, "files of a forgotten folder are left; they are deleted later");
        }
        Ok(())
    }

    /// Deletes the remaining files of folders that were forgotten.
    pub fn finish_forgetting(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(FORGOTTEN) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories() -> (tempfile::TempDir, Directories) {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::new(dir.path());
        (dir, directories)
    }

    #[test]
    fn a_folder_is_remembered_and_forgotten() {
        let (_dir, directories) = directories();
        assert!(directories.list().unwrap().is_empty());
        let mut config = Config::new(Uuid::from_u128(1), "photos", "file:///photos");
        directories.add(&config).unwrap();
        config.unsent = true;
        directories.save(&config).unwrap();
        let listed = directories.list().unwrap();
        assert_eq!(listed[0].1.as_ref().unwrap(), &config);
        directories.forget(config.uuid).unwrap();
        assert!(directories.list().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_configuration_is_listed_and_stays() {
        let (_dir, directories) = directories();
        let folder = Uuid::from_u128(2);
        let path = directories.of(folder).join(NAME);
        for (text, why) in [
            ("{\"version\": 1, \"na", "damaged"),
            ("{\"version\": 2, \"uuid\": 7}", "later version"),
            (
                &serde_json::to_string(&Config::new(Uuid::from_u128(3), "x", "file:///x")).unwrap(),
                "another folder",
            ),
        ] {
            private_directory(&directories.of(folder)).unwrap();
            std::fs::write(&path, text).unwrap();
            let listed = directories.list().unwrap();
            let error = listed[0].1.as_ref().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        // With files, but without a configuration, something was lost.
        std::fs::rename(&path, path.with_file_name("ops.log")).unwrap();
        assert!(directories.list().unwrap()[0].1.is_err());
        // Without either, nothing was.
        std::fs::remove_file(path.with_file_name("ops.log")).unwrap();
        assert!(directories.list().unwrap().is_empty());
    }

    #[test]
    fn the_next_start_deletes_a_half_forgotten_folder() {
        let (dir, directories) = directories();
        let config = Config::new(Uuid::from_u128(4), "x", "file:///x");
        directories.add(&config).unwrap();
        // The state after a power cut right after the rename.
        let forgotten = dir.path().join("folders").join(format!("{FORGOTTEN}{}", config.uuid));
        std::fs::rename(directories.of(config.uuid), &forgotten).unwrap();
        assert!(directories.list().unwrap().is_empty());
        directories.finish_forgetting().unwrap();
        assert!(!forgotten.exists());
    }
}
