//! The memory of this device: its identity, and its drives. Small files, each replaced atomically, so that a crash damages none.

use super::activity::Activity;
use holdall_client::paths::{Paths, boot_id};
use holdall_core::family::{Family, Mode};
use holdall_core::push::Device;
use holdall_core::seal::DataKey;
use holdall_core::volume::Fork;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zeroize::Zeroizing;

/// The prefix of directories that are being deleted: no drive has such a name.
const FORGOTTEN: &str = ".forgotten-";

/// A drive that is known here (`config.json`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Version of this structure.
    pub version: u32,
    /// The drive.
    pub drive: Uuid,
    /// Where its data lives.
    pub store: String,
    /// How its family changes HEADs; known without asking the store.
    #[serde(default = "swap")]
    pub mode: Mode,
    /// Its family, as the store last described it: a drive that opens without its store relies on this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Other stores that keep copies of what the first one has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaConfig>,
    /// Stores that the drive has left, and that do not know it yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerStore>,
    /// The replica that is becoming its store. Until the promotion has succeeded or is known to have failed, the drive may live in either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_to: Option<String>,
    /// How it is open, so that the next daemon takes it over.
    #[serde(default)]
    pub open: Option<OpenAs>,
    /// The mount point that the last opening asked for, if that is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PathBuf>,
    /// Whether it was closed with changes that the store lacks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsent: bool,
    /// Whether a person has switched uploading off.
    #[serde(default)]
    pub paused: bool,
    /// Bytes of cache, if a person has set a limit for this drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Whether anything was ever pinned here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pins: bool,
    /// Its origin if it is a fork, until a person has decided about the fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<ForkOf>,
}

/// Where a fork comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForkOf {
    /// The name of the other drive here.
    pub name: String,
    /// The fork, as the engine remembers it.
    pub fork: Fork,
}

/// The only mode that early versions had.
fn swap() -> Mode {
    Mode::Swap
}

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaConfig {
    /// Where it is.
    pub store: String,
    /// How HEADs would change there.
    pub mode: Mode,
}

/// A store that was away when one of its replicas replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerStore {
    /// Where it is.
    pub store: String,
    /// The first epoch of the drive in its new store.
    pub left_at: u64,
    /// Epoch and number of the version with which the drive began there. Any newer version in the former store never reached the new one;
    /// if this is not known, every version counts as newer.
    #[serde(default)]
    pub left_with: (u64, u64),
}

/// How a drive is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenAs {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// How it is attached.
    pub attach: crate::api::AttachMode,
    /// The block device.
    pub block_device: PathBuf,
    /// Its mount.
    #[serde(default)]
    pub mount: LastMount,
}

/// The last known mount of a drive that is remembered as open: no mount outlives the kernel that made it.
///
/// It is recorded before a drive is mounted, and marked as ended after the drive was unmounted. So after a crash in between, a mount that
/// has ended may count as possibly there, but never the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastMount {
    /// Nothing is known: earlier services did not record it.
    #[default]
    Unknown,
    /// It was made while the kernel with this boot id ran.
    Boot(String),
    /// It has ended.
    Ended,
}

impl LastMount {
    /// A mount that is made now.
    pub fn now() -> Self {
        boot_id().map_or(Self::Unknown, Self::Boot)
    }

    /// Whether programs may still use it.
    pub fn may_be_there(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Boot(boot) => boot_id().is_none_or(|now| now == *boot),
            Self::Ended => false,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Identity {
    nonce: Uuid,
}

/// The files of this device.
pub struct Registry {
    paths: Paths,
    device: Device,
    activity: Activity,
}

fn damaged(identity: &Path, error: &serde_json::Error) -> io::Error {
    let file = identity.display();
    io::Error::new(
        ErrorKind::InvalidData,
        format!(
            "{file} is damaged ({error}). Restore it from a backup, or delete it: then this computer counts as a new one, \
             and takes over the drives that it had open"
        ),
    )
}

impl Registry {
    /// Reads this device's identity, or creates it.
    ///
    /// The identity depends on the machine's own id: a home directory that is copied to another machine, with the identity in it, becomes
    /// another device. Otherwise two devices would write as one.
    pub fn open(paths: Paths) -> io::Result<Self> {
        private_directory(&paths.state)?;
        private_directory(&paths.cache)?;
        let file = paths.state.join("device.json");
        let identity = match std::fs::read(&file) {
            Ok(bytes) => {
                serde_json::from_slice::<Identity>(&bytes).map_err(|error| damaged(&file, &error))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let identity = Identity { nonce: Uuid::new_v4() };
                replace(&file, &serde_json::to_vec_pretty(&identity)?)?;
                identity
            }
            Err(error) => return Err(error),
        };
        let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
        let hash = blake3::hash(&[identity.nonce.as_bytes(), &machine[..]].concat());
        let id = uuid::Builder::from_random_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"));
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = if name.trim().is_empty() { "this computer".to_owned() } else { name.trim().to_owned() };
        let activity = Activity::load(&paths.state);
        Ok(Self { paths, device: Device { id: id.into_uuid(), name }, activity })
    }

    /// This device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The record of what has happened.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The paths of this installation.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The directory of a drive's files.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.paths.state.join("drives").join(name)
    }

    /// The directory of a drive's cache. By identity: a drive that is forgotten and added again finds it.
    pub fn cache_directory(&self, drive: Uuid) -> PathBuf {
        self.paths.cache.join(drive.simple().to_string())
    }

    /// All known drives. A damaged configuration does not affect other drives.
    pub fn list(&self) -> io::Result<BTreeMap<String, io::Result<Config>>> {
        let mut drives = BTreeMap::new();
        let entries = match std::fs::read_dir(self.paths.state.join("drives")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(drives),
            entries => entries?,
        };
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with(FORGOTTEN) {
                continue;
            }
            match std::fs::read(self.directory(&name).join("config.json")) {
                Ok(bytes) => {
                    let config = serde_json::from_slice(&bytes).map_err(io::Error::from);
                    drives.insert(name, config);
                }
                // The power failed while the drive was being added.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => drop(drives.insert(name, Err(error))),
            }
        }
        Ok(drives)
    }

    /// Remembers a drive and its key. The key first: a drive is known once its configuration exists. The names of the directories are
    /// synced too, or a power cut would lose everything in them.
    pub fn add(&self, name: &str, config: &Config, key: &DataKey) -> io::Result<()> {
        let directory = self.directory(name);
        private_directory(&directory)?;
        for holder in directory.ancestors().skip(1).take(2) {
            sync_directory(holder)?;
        }
        let text = Zeroizing::new(data_encoding::HEXLOWER.encode(&*key.0));
        replace(&directory.join("key"), text.as_bytes())?;
        self.save(name, config)
    }

    /// Remembers a change.
    pub fn save(&self, name: &str, config: &Config) -> io::Result<()> {
        replace(&self.directory(name).join("config.json"), &serde_json::to_vec_pretty(config)?)
    }

    /// A drive's data key.
    pub fn key(&self, name: &str) -> io::Result<DataKey> {
        let text = Zeroizing::new(std::fs::read(self.directory(name).join("key"))?);
        let damaged = || io::Error::new(ErrorKind::InvalidData, "the key file is damaged");
        let bytes = Zeroizing::new(data_encoding::HEXLOWER.decode(&text).map_err(|_| damaged())?);
        Ok(DataKey(Zeroizing::new(<[u8; 32]>::try_from(&bytes[..]).map_err(|_| damaged())?)))
    }

    /// The drive with this name; `None` if the name is free or the drive's configuration is damaged.
    pub fn uuid_of(&self, name: &str) -> Option<Uuid> {
        let bytes = std::fs::read(self.directory(name).join("config.json")).ok()?;
        serde_json::from_slice::<Config>(&bytes).ok().map(|config| config.drive)
    }

    /// Renames a drive.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.directory(from), self.directory(to));
        if to.exists() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&from, &to)?;
        sync_directory(to.parent().expect("a drive's directory lies in another"))
    }

    /// Forgets a drive, with all its files here. One rename decides it: [`Registry::finish_forgetting`] deletes what a crash leaves of the
    /// rest.
    pub fn forget(&self, name: &str, drive: Uuid) -> io::Result<()> {
        let drives = self.paths.state.join("drives");
        let unique = Uuid::new_v4().simple();
        let forgotten = drives.join(format!("{FORGOTTEN}{}-{unique}", drive.simple()));
        std::fs::rename(self.directory(name), &forgotten)?;
        sync_directory(&drives)?;
        if let Err(error) = self.delete_forgotten(&forgotten, drive) {
            tracing::warn!(drive = name, %error, "files of a removed drive are left; they are deleted later");
        }
        Ok(())
    }

    /// Deletes the remaining files of drives that were forgotten.
    pub fn finish_forgetting(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(self.paths.state.join("drives")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let drive = name.strip_prefix(FORGOTTEN).and_then(|rest| rest.split('-').next()?.parse().ok());
            if let Some(drive) = drive {
                self.delete_forgotten(&entry.path(), drive)?;
            }
        }
        Ok(())
    }

    /// The cache first: afterwards nothing names it any longer. Earlier versions let a drive have two names here, which share the cache.
    fn delete_forgotten(&self, directory: &Path, drive: Uuid) -> io::Result<()> {
        let is_used = self.list()?.into_values().flatten().any(|config| config.drive == drive);
        if !is_used
            && let Err(error) = std::fs::remove_dir_all(self.cache_directory(drive))
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        std::fs::remove_dir_all(directory)
    }
}

/// Whether a name can be a drive's: it becomes a directory, and part of commands.
pub fn is_name(name: &str) -> bool {
    let fits = (1..=64).contains(&name.len());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    fits && plain && !name.starts_with(['.', '-'])
}

/// Creates a directory that only its owner can enter.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file that only its owner may read: after a crash, the file is the complete old one or the complete new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // A file that a crash has left is created again: its mode may differ.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, path)) {
        // It is useless, and takes space on a disk that may be full.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    sync_directory(path.parent().expect("a file lies in a directory"))
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_may_be_there_until_its_end_is_known() {
        let noted = |mount: &str| {
            let open = format!(r#"{{"mountpoint":"/m","attach":"loop","block_device":"/dev/loop0"{mount}}}"#);
            serde_json::from_str::<OpenAs>(&open).unwrap().mount
        };
        // Earlier services did not record it.
        assert!(noted("").may_be_there());
        assert!(LastMount::now().may_be_there());
        let again: LastMount =
            serde_json::from_slice(&serde_json::to_vec(&LastMount::now()).unwrap()).unwrap();
        assert!(matches!(again, LastMount::Boot(_)) && again == LastMount::now());
        assert!(!noted(r#","mount":{"boot":"f6a1c2f0-0000-4000-8000-000000000000"}"#).may_be_there());
        assert!(!noted(r#","mount":"ended""#).may_be_there());
    }

    #[test]
    fn the_next_start_deletes_a_half_forgotten_drive() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().join("state"),
            cache: dir.path().join("cache"),
            runtime: dir.path().join("runtime"),
        };
        let registry = Registry::open(paths).unwrap();
        let (drive, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let config = Config {
            version: 1,
            drive,
            store: "file:///s".to_owned(),
            mode: Mode::Swap,
            family: None,
            replicas: Vec::new(),
            former: Vec::new(),
            moving_to: None,
            open: None,
            paused: false,
            unsent: false,
            pins: false,
            place: None,
            cache_bytes: None,
            fork_of: None,
        };
        let key = DataKey([1; 32].into());
        registry.add("d", &config, &key).unwrap();
        registry.add("e", &Config { drive: other, ..config.clone() }, &key).unwrap();
        for drive in [drive, other] {
            private_directory(&registry.cache_directory(drive)).unwrap();
        }
        // The state after a power cut right after the rename.
        let drives = registry.paths().state.join("drives");
        let forgotten = drives.join(format!("{FORGOTTEN}{}-x", drive.simple()));
        std::fs::rename(registry.directory("d"), &forgotten).unwrap();
        assert_eq!(registry.list().unwrap().into_keys().collect::<Vec<_>>(), ["e"]);
        registry.finish_forgetting().unwrap();
        assert!(!forgotten.exists() && !registry.cache_directory(drive).exists());
        assert!(registry.cache_directory(other).exists() && registry.directory("e").exists());
        registry.forget("e", other).unwrap();
        assert_eq!(std::fs::read_dir(drives).unwrap().count(), 0);
        assert!(!registry.cache_directory(other).exists());

        // The same drive under two names, as earlier versions allowed.
        registry.add("f", &config, &key).unwrap();
        registry.add("g", &config, &key).unwrap();
        private_directory(&registry.cache_directory(drive)).unwrap();
        registry.forget("g", drive).unwrap();
        assert!(registry.cache_directory(drive).exists(), "the other name's drive uses it");
        registry.forget("f", drive).unwrap();
        assert!(!registry.cache_directory(drive).exists());
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        replace(&path, b"old").unwrap();
        // A directory in its place stands in for a disk that refuses the rename.
        let blocked = dir.path().join("blocked.json");
        std::fs::create_dir_all(blocked.join("x")).unwrap();
        replace(&blocked, b"new").unwrap_err();
        assert!(!dir.path().join("blocked.new").exists(), "no rest is left on a disk that may be full");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
}
