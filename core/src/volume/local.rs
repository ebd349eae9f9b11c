//! What a device remembers of a drive, apart from its blocks: one small file, replaced atomically.

use crate::disk::Disk;
use crate::format::id::{ObjectId, ObjectKind};
use serde::{Deserialize, Serialize};
use std::io;
use uuid::Uuid;

const NAME: &str = "drive.json";
const TEMPORARY: &str = "drive.json.new";
/// The version that this program writes, and the latest that it reads.
const VERSION: u32 = 1;
/// A file that is longer is none of ours.
const BYTES_MAX: u64 = 1 << 20;

/// `drive.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// Version of this structure.
    pub version: u32,
    /// The drive.
    pub drive: Uuid,
    /// Its journal on this device.
    pub journal: Uuid,
    /// The version that the cache's valid blocks belong to, together with the journal. `None` before the first open.
    pub base: Option<Base>,
    /// The last record that was durable in the journal when this was written: one that ends before has lost some.
    #[serde(default)]
    pub durable: u64,
    /// Records before this one are not replayed: others have written since, and what the records wrote was made
    /// invalid in the cache.
    pub replay_from: u64,
    /// Generations of the bitmap that may be believed. Two while one replaces the other.
    pub generations: Vec<String>,
    /// The fork that this device's changes have become. Once it is written down they go nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

/// A fork, as this device remembers it: a drive of its own that its journal belongs to from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The new drive. Its HEAD may not be there yet.
    pub drive: Uuid,
    /// The drive that it forked from.
    pub of: Uuid,
    /// The drive that the cache's files name: the one in whose place the fork began.
    pub cache: Uuid,
    /// Name of the root that it goes on from, as far as this device knew then.
    pub base: String,
    /// When that was found out, Unix time in ms.
    pub made_ms: u64,
    /// The name of the device that has the other drive.
    pub taken_by: String,
}

impl Fork {
    /// A fork of the drive `of`, which `taken_by` has, in the place of that drive or of the fork `before`.
    pub fn new(of: Uuid, before: Option<&Fork>, base: Option<&Base>, taken_by: &str) -> Self {
        let (drive, made_ms) = (crate::entropy::uuid(), crate::push::now_ms());
        let cache = before.map_or(of, |before| before.cache);
        let base = base.map(|base| base.root.clone()).unwrap_or_default();
        Self { drive, of, cache, base, made_ms, taken_by: taken_by.to_owned() }
    }
}

/// A version, as remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Name of the root.
    pub root: String,
    /// BLAKE3 of its object, in hex.
    pub hash: String,
    /// The epoch of the HEAD that named it.
    pub epoch: u64,
    /// The last record of this device's journal that it contains.
    pub lsn: u64,
}

impl Local {
    /// What a device knows that has never opened the drive.
    pub fn new(drive: Uuid, journal: Uuid) -> Self {
        Self {
            version: VERSION,
            drive,
            journal,
            base: None,
            durable: 0,
            replay_from: 0,
            generations: Vec::new(),
            fork: None,
        }
    }

    /// Reads it; `None` where there is none.
    pub fn load(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let file = match disk.open(NAME, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let len = file.len()?;
        if len > BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "drive.json is damaged"));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0)?;
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // The version first: a later one may have fields that do not parse here, and a journal of another format.
        match serde_json::from_slice(&bytes)? {
            Versioned { version } if version > VERSION => {
                let reason = format!(
                    "drive.json has format {version}, which is newer than this program knows ({VERSION}); \
                     nothing was changed, and a newer program can open the drive"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, reason))
            }
            Versioned { .. } => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        }
    }

    /// Replaces it: a crash leaves the old one or the new one.
    pub async fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(self).expect("a structure of plain fields becomes JSON");
        let file = disk.open(TEMPORARY, true)?;
        file.set_len(0)?;
        file.write_at(&bytes, 0)?;
        file.sync().await?;
        disk.rename(TEMPORARY, NAME)?;
        disk.sync_names().await
    }

    /// The generations as numbers.
    pub fn generation_numbers(&self) -> Vec<u128> {
        self.generations.iter().filter_map(|text| u128::from_str_radix(text, 16).ok()).collect()
    }
}

impl Base {
    /// Remembers a version.
    pub fn new(root: ObjectId, hash: &[u8; 32], epoch: u64, lsn: u64) -> Self {
        let hash = data_encoding::HEXLOWER.encode(hash);
        Self { root: root.name(ObjectKind::Root), hash, epoch, lsn }
    }

    /// The version's id.
    pub fn id(&self) -> Option<ObjectId> {
        ObjectId::parse(&self.root).map(|(_, id)| id)
    }
}
