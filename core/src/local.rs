//! A device's knowledge of a drive, apart from its blocks: one small file, replaced atomically.

use crate::disk::Disk;
use crate::fence::{self, Relation};
use crate::format::head::Head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Lineage, Root};
use crate::journal::{self, Journal, JournalError};
use crate::units::{Epoch, Lsn};
use serde::{Deserialize, Serialize};
use std::io;
use uuid::Uuid;

const NAME: &str = "drive.json";
const TEMPORARY: &str = "drive.json.new";
/// The version that this program writes, and the latest that it reads.
const VERSION: u32 = 1;
/// A longer file is not one of ours.
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
    /// The last record that was durable in the journal when this was written. A journal that ends earlier has lost records.
    #[serde(default)]
    pub durable: u64,
    /// Records before this one are not replayed: others have written since, and the blocks of these records were made invalid in the cache.
    pub replay_from: u64,
    /// Generations of the bitmap that may be believed. Two while one replaces the other.
    pub generations: Vec<String>,
    /// The fork that this device's changes have become. Once it is written down, they go nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

/// A fork, as this device remembers it: a drive of its own, to which the journal belongs from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The new drive. Its HEAD may not be there yet.
    pub drive: Uuid,
    /// The drive that it forked from.
    pub of: Uuid,
    /// The drive that the cache's files name: the one that was forked first.
    pub cache: Uuid,
    /// Name of the root that it continues, as far as this device knew then.
    pub base: String,
    /// When the fork was decided, Unix time in ms.
    pub made_ms: u64,
    /// The name of the device that has the other drive.
    pub taken_by: String,
}

impl Fork {
    /// A fork of the drive `of`, which `taken_by` has. It takes the place of that drive, or of the fork `before`.
    pub fn new(of: Uuid, before: Option<&Fork>, base: Option<&Base>, taken_by: &str) -> Self {
        let (drive, made_ms) = (crate::entropy::uuid(), crate::clock::now_ms());
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
    /// The writes that it contains, by journal. None in files of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Vec<KnownLineage>>,
}

/// [`Lineage`], as remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLineage {
    /// The journal.
    pub journal: Uuid,
    /// The epoch in which it committed last.
    pub epoch: u64,
    /// The last record that is contained.
    pub cut: u64,
    /// That record's CRC.
    pub crc: u32,
}

impl From<&Lineage> for KnownLineage {
    fn from(entry: &Lineage) -> Self {
        let Lineage { epoch, journal, cut, crc } = *entry;
        Self { journal, epoch: epoch.0, cut: cut.0, crc }
    }
}

impl From<&KnownLineage> for Lineage {
    fn from(known: &KnownLineage) -> Self {
        let KnownLineage { journal, epoch, cut, crc } = *known;
        Self { epoch: Epoch(epoch), journal, cut: Lsn(cut), crc }
    }
}

impl Local {
    /// The knowledge of a device that has never opened the drive.
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
        // The version first: a later format may have fields that do not parse here, and a journal of another format.
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

/// Whether this device's journal has records that the version it remembers lacks. The store is not asked: a version that was committed and
/// not yet remembered when the power failed counts as unsent.
pub async fn has_unsent(state: &dyn Disk, journal: &dyn Disk) -> Result<bool, JournalError> {
    let Some(local) = Local::load(state)? else { return Ok(journal::found(journal)?.is_some()) };
    let last = Journal::last_record(journal, local.journal).await?;
    Ok(last.0 > local.base.map_or(0, |base| base.lsn))
}

impl Base {
    /// Remembers the version `root`, which `head` names and which contains this device's journal up to `lsn`.
    pub fn new(head: &Head, root: &Root, lsn: Lsn) -> Self {
        let hash = data_encoding::HEXLOWER.encode(&head.root_hash);
        let lineage = Some(root.lineage.iter().map(KnownLineage::from).collect());
        Self { root: head.root.name(ObjectKind::Root), hash, epoch: head.epoch.0, lsn: lsn.0, lineage }
    }

    /// How `root` relates to this version, for the device that writes `journal`.
    pub fn relation(&self, root: &Root, journal: Uuid) -> Relation {
        match self.known_lineage() {
            Some(known) => fence::relation(root, &known, journal),
            None => {
                let wrote_since = |entry: &Lineage| entry.journal != journal && entry.epoch.0 > self.epoch;
                match root.lineage.iter().any(wrote_since) {
                    true => Relation::Foreign,
                    false
                        if root.epoch.0 < self.epoch && self.id().is_none_or(|id| id.epoch > root.epoch) =>
                    {
                        Relation::Diverged
                    }
                    false => Relation::Own,
                }
            }
        }
    }

    /// Whether `root` contains less of this device's `journal` than this version.
    pub fn lacks_own(&self, root: &Root, journal: Uuid) -> bool {
        self.known_lineage().is_some_and(|known| fence::lacks_own(root, &known, journal))
    }

    /// Whether `root` contains all of this version.
    pub fn is_in(&self, root: &Root, journal: Uuid) -> bool {
        self.relation(root, journal) != Relation::Diverged && !self.lacks_own(root, journal)
    }

    fn known_lineage(&self) -> Option<Vec<Lineage>> {
        Some(self.lineage.as_ref()?.iter().map(Lineage::from).collect())
    }

    /// BLAKE3 of the root's object.
    pub fn root_hash(&self) -> Option<[u8; 32]> {
        data_encoding::HEXLOWER.decode(self.hash.as_bytes()).ok()?.try_into().ok()
    }

    /// The version's id.
    pub fn id(&self) -> Option<ObjectId> {
        ObjectId::parse(&self.root).map(|(_, id)| id)
    }
}
