//! What this device knows: itself, and its drives. Small files, each replaced atomically, that survive everything.

use crate::paths::Paths;
use holdall_core::format::family::Mode;
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
    /// Further stores that have what the first one has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaConfig>,
    /// What is open, so that the next daemon takes it up again.
    #[serde(default)]
    pub open: Option<OpenAs>,
    /// Whether a person has switched uploading off.
    #[serde(default)]
    pub paused: bool,
    /// What it is a fork of, until a person has decided what becomes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<ForkOf>,
}

/// Where a fork comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForkOf {
    /// What the other drive is called here.
    pub name: String,
    /// The fork, as the engine remembers it.
    pub fork: Fork,
}

/// What there was before there were others.
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

/// How a drive is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenAs {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// How it is attached.
    pub attach: crate::api::AttachMode,
    /// The block device.
    pub block_device: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    nonce: Uuid,
}

/// The files.
pub struct Registry {
    paths: Paths,
    device: Device,
}

impl Registry {
    /// Reads who this device is, or decides it.
    ///
    /// The identity hangs on the machine's own id: a home directory that is copied to another machine with the
    /// identity in it becomes another device, or two would write as one.
    pub fn open(paths: Paths) -> io::Result<Self> {
        private_directory(&paths.state)?;
        private_directory(&paths.cache)?;
        let file = paths.state.join("device.json");
        let identity = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice::<Identity>(&bytes)?,
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
        Ok(Self { paths, device: Device { id: id.into_uuid(), name } })
    }

    /// Who this device is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Where things are.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Where a drive's files are.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.paths.state.join("drives").join(name)
    }

    /// Where a drive's cache is. By identity: a drive that is forgotten and added again finds it.
    pub fn cache_directory(&self, drive: Uuid) -> PathBuf {
        self.paths.cache.join(drive.simple().to_string())
    }

    /// All drives that are known. One whose configuration is damaged keeps no other from being used.
    pub fn list(&self) -> io::Result<BTreeMap<String, io::Result<Config>>> {
        let mut drives = BTreeMap::new();
        let entries = match std::fs::read_dir(self.paths.state.join("drives")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(drives),
            entries => entries?,
        };
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            match std::fs::read(self.directory(&name).join("config.json")) {
                Ok(bytes) => {
                    let config = serde_json::from_slice(&bytes).map_err(io::Error::from);
                    drives.insert(name, config);
                }
                // A drive that was being added when the power went.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => drop(drives.insert(name, Err(error))),
            }
        }
        Ok(drives)
    }

    /// Remembers a drive and its key. The key first: a drive is known once its configuration is there. The names of the
    /// directories are durable too, or a power cut would take all of it away.
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

    /// The drive that has a name; none where it is free, or its configuration is damaged.
    pub fn uuid_of(&self, name: &str) -> Option<Uuid> {
        let bytes = std::fs::read(self.directory(name).join("config.json")).ok()?;
        serde_json::from_slice::<Config>(&bytes).ok().map(|config| config.drive)
    }

    /// Gives a drive another name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.directory(from), self.directory(to));
        if to.exists() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&from, &to)?;
        sync_directory(to.parent().expect("a drive's directory lies in another"))
    }

    /// Forgets a drive: its configuration first, so that a crash leaves files, never half a drive.
    pub fn forget(&self, name: &str, drive: Uuid) -> io::Result<()> {
        let directory = self.directory(name);
        std::fs::remove_file(directory.join("config.json"))?;
        sync_directory(&directory)?;
        std::fs::remove_dir_all(&directory)?;
        match std::fs::remove_dir_all(self.cache_directory(drive)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether a name can be a drive's: it becomes a directory, and part of commands.
pub fn is_name(name: &str) -> bool {
    let fits = (1..=64).contains(&name.len());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    fits && plain && !name.starts_with(['.', '-'])
}

/// Makes a directory that only its owner can enter.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file that is for its owner only: a crash leaves the old one or the new one, whole.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // One that a crash has left is made anew: its mode may be another.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    sync_directory(path.parent().expect("a file lies in a directory"))
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
