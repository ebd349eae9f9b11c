//! A device's knowledge of a drive, apart from its blocks: one small file, replaced atomically.

use crate::disk::Disk;
use crate::fence::{self, Relation};
use crate::format::head::{self, Head};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Lineage, Root};
use crate::journal::{self, Journal, JournalError};
use crate::units::{Epoch, Lsn};
use serde::{Deserialize, Serialize};
use std::io;
use uuid::Uuid;

const NAME: &str = "drive.json";
const TEMPORARY: &str = "drive.json.new";
/// The version of most files, which earlier programs read too.
const VERSION: u32 = 1;
/// The version of a file that says something of a hand-over, and the latest that this program reads. An earlier program would replay a journal
/// that was handed over: it has to refuse the file.
const VERSION_HANDED: u32 = 2;
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
    /// Set once this device has given the drive to another one: it writes no more until it takes the drive back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<Handed>,
    /// Set from the moment in which this device gets a drive from another one until a commit says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherits: Option<Inherits>,
}

/// A hand-over to another device, as the device remembers it that had the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// The session.
    pub session: Uuid,
    /// The device that gets the drive.
    pub to: Uuid,
    /// Its name, for people.
    pub to_name: String,
    /// The last record of this device's journal: the other device has everything up to it.
    pub cut: u64,
    /// That record's CRC.
    pub crc: u32,
    /// The journal.
    pub journal: Uuid,
    /// The epoch that the other device gets.
    pub epoch: u64,
    /// The nonce of the HEAD that the grant replaces, in hex.
    pub before: String,
    /// The grant: the bytes of the HEAD that names the other device, in hex.
    pub head: String,
}

impl Handed {
    /// The nonce of the HEAD that the grant replaces.
    pub fn before(&self) -> Option<u128> {
        u128::from_str_radix(&self.before, 16).ok()
    }

    /// The grant's bytes.
    pub fn head_bytes(&self) -> Option<Vec<u8>> {
        data_encoding::HEXLOWER.decode(self.head.as_bytes()).ok()
    }

    /// The grant's nonce.
    pub fn nonce(&self) -> Option<u128> {
        head::peek(&self.head_bytes()?).map(|(_, nonce)| nonce)
    }
}

/// The origin of a group of records that another device handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherits {
    /// The grant's nonce, in hex.
    pub nonce: String,
    /// The group's place in this device's journal. A version that contains it contains what `lineage` says.
    pub lsn: u64,
    /// The journals of the devices that had the drive before and did not commit all of it, oldest first.
    pub lineage: Vec<KnownLineage>,
}

impl Inherits {
    /// Whether `head` is the grant that this came with.
    pub fn is_of(&self, head: &Head) -> bool {
        u128::from_str_radix(&self.nonce, 16) == Ok(head.nonce)
    }

    /// Whether a version says all of this.
    pub fn is_in(&self, root: &Root) -> bool {
        let has = |known: &KnownLineage| {
            root.lineage.iter().any(|entry| entry.journal == known.journal && entry.cut.0 >= known.cut)
        };
        self.lineage.iter().all(has)
    }
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
            handed: None,
            inherits: None,
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
            Versioned { version } if version > VERSION_HANDED => {
                let reason = format!(
                    "drive.json has format {version}, which is newer than this program knows ({VERSION_HANDED}); \
                     nothing was changed, and a newer program can open the drive"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, reason))
            }
            Versioned { .. } => {
                let local: Self = serde_json::from_slice(&bytes)?;
                Ok(Some(Self { version: local.needed_version(), ..local }))
            }
        }
    }

    /// Replaces it: a crash leaves the old one or the new one.
    pub async fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        let version = self.needed_version();
        let bytes = serde_json::to_vec_pretty(&Self { version, ..self.clone() })
            .expect("a structure of plain fields becomes JSON");
        let file = disk.open(TEMPORARY, true)?;
        file.set_len(0)?;
        file.write_at(&bytes, 0)?;
        file.sync().await?;
        disk.rename(TEMPORARY, NAME)?;
        disk.sync_names().await
    }

    /// The earliest version whose readers know all of it.
    fn needed_version(&self) -> u32 {
        if self.handed.is_some() || self.inherits.is_some() { VERSION_HANDED } else { VERSION }
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
