//! What is remembered of a watched directory: `watched/<uuid>/config.json` in the state directory, replaced atomically. Its table and what is
//! known of its remote lie beside it.

use crate::daemon::registry::{private_directory, replace, sync_directory};
use holdall_core::store::url::StoreUrl;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const NAME: &str = "config.json";
const VERSION: u32 = 1;
const FORGOTTEN: &str = ".forgotten-";

/// What is remembered of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The version of this format.
    pub version: u32,
    /// The directory's identity, which its marker has, too.
    pub uuid: Uuid,
    /// Where it is.
    pub directory: String,
    /// Where its files are kept.
    pub url: String,
    /// Changes of the remote come here, too.
    #[serde(default)]
    pub two_way: bool,
    /// A person has paused it.
    #[serde(default)]
    pub paused: bool,
}

impl Config {
    /// A directory that was never looked at.
    pub fn new(uuid: Uuid, directory: &Path, url: &StoreUrl, two_way: bool) -> Self {
        let directory = directory.display().to_string();
        Self { version: VERSION, uuid, directory, url: url.to_string(), two_way, paused: false }
    }
}

/// Where all of it is.
#[derive(Clone, Debug)]
pub struct Directories(PathBuf);

impl Directories {
    /// In the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self(state.join("watched"))
    }

    /// The state of one directory.
    pub fn of(&self, uuid: Uuid) -> PathBuf {
        self.0.join(uuid.to_string())
    }

    /// All that can be read. One that cannot is left as it is, and said in the log.
    pub fn list(&self) -> io::Result<Vec<Config>> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with(FORGOTTEN) {
                if let Err(error) = std::fs::remove_dir_all(self.0.join(&name)) {
                    tracing::warn!(%error, "what is left of a watched directory cannot be deleted yet");
                }
                continue;
            }
            let Ok(uuid) = Uuid::try_parse(&name) else { continue };
            match self.load(uuid) {
                Ok(config) => found.push(config),
                Err(error) => {
                    tracing::error!(%uuid, %error, "a watched directory's configuration cannot be read")
                }
            }
        }
        Ok(found)
    }

    fn load(&self, uuid: Uuid) -> io::Result<Config> {
        let config: Config = serde_json::from_slice(&std::fs::read(self.of(uuid).join(NAME))?)?;
        match config.uuid == uuid && config.version == VERSION {
            true => Ok(config),
            false => Err(io::Error::new(
                ErrorKind::InvalidData,
                "it is another directory's, or of a later version",
            )),
        }
    }

    /// Remembers a new one.
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

    /// Forgets one. One rename decides it.
    pub fn forget(&self, uuid: Uuid) -> io::Result<()> {
        let forgotten = self.0.join(format!("{FORGOTTEN}{uuid}"));
        std::fs::rename(self.of(uuid), &forgotten)?;
        sync_directory(&self.0)?;
        std::fs::remove_dir_all(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_directory_is_remembered_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::new(dir.path());
        assert!(directories.list().unwrap().is_empty());
        let url = StoreUrl::parse("s3://bucket/photos").unwrap();
        let mut config = Config::new(Uuid::from_u128(7), Path::new("/home/ann/photos"), &url, true);
        directories.add(&config).unwrap();
        config.paused = true;
        directories.save(&config).unwrap();
        assert_eq!(directories.list().unwrap(), [config.clone()]);
        directories.forget(config.uuid).unwrap();
        assert!(directories.list().unwrap().is_empty());
    }
}
