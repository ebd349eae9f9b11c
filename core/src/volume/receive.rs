//! Getting a drive from another device, on the side that gets it, while the drive is closed here.
//!
//! The blocks that the store lacks come in rounds, into a group beside this device's journal (`journal/import.rs`). At the end the group is
//! sealed together with the grant. [`Receiving::finish`] checks that the grant is for exactly these blocks: its nonce comes from their hash.
//! So once it returns, nothing that the drive's writers were promised exists only on the other device.
//!
//! The drive is opened with [`super::Access::Granted`] once HEAD is the grant. Until then the group is no part of the journal, and it can be
//! discarded.

use super::access::Environment;
use super::assemble::capacity;
use super::{Local, VolumeLimits, handed};
use crate::disk::Disk;
use crate::fence;
use crate::format::FormatError;
use crate::format::head::Head;
use crate::format::id::ObjectKind;
use crate::format::root::{Lineage, Root};
use crate::format::wire::{Reader, Writer};
use crate::grant;
use crate::heads::Device;
use crate::journal::import::{Import, ImportError, ImportPlan};
use crate::journal::{self, Journal, JournalError};
use crate::seal::Sealer;
use crate::units::{Epoch, Lsn};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// Entries of a lineage that a grant may bring: one for each device that had the drive and committed nothing.
const LINEAGE_MAX: usize = 1024;
const MAGIC: &[u8; 8] = b"HLDARRV\x01";

/// Why a drive cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// This device has changes of its own that are not uploaded.
    #[error("{unsent} changes of this computer are not uploaded")]
    Unsent {
        /// Records.
        unsent: u64,
    },
    /// This device's changes are a fork.
    #[error("the changes on this computer are a drive of their own")]
    Forked,
    /// The grant is for another device, drive or version, or not for these blocks.
    #[error("the other computer gave the drive away with other changes than it sent")]
    OtherGrant,
    /// It is not what the other device sends.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The blocks.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The local disk.
    #[error(transparent)]
    Local(#[from] io::Error),
}

/// The end of a hand-over, as the other device sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The grant.
    pub head: Head,
    /// The version that it names.
    pub root: Root,
    /// The journals that the blocks contain beyond that version, oldest first.
    pub lineage: Vec<Lineage>,
}

impl Arrival {
    /// Its bytes.
    pub fn encode(&self, sealer: &Sealer) -> Vec<u8> {
        let head = self.head.encode(sealer);
        let root = self.root.seal(sealer, &self.head.root.name(ObjectKind::Root));
        let mut w = Writer::new();
        w.raw(MAGIC).varint(head.len() as u64).raw(&head).varint(root.len() as u64).raw(&root);
        w.varint(self.lineage.len() as u64);
        for entry in &self.lineage {
            w.raw(entry.journal.as_bytes()).u64(entry.epoch.0).u64(entry.cut.0).u32(entry.crc);
        }
        w.finish()
    }

    /// Reads and checks it: each part proves that it belongs to the family.
    pub fn decode(sealer: &Sealer, bytes: &[u8]) -> Result<Self, FormatError> {
        /// Bytes of one entry.
        const ENTRY_BYTES: usize = 36;
        let mut r = Reader::new(bytes);
        r.magic(MAGIC, "the end of a hand-over")?;
        let len = r.count(1)?;
        let head = Head::decode(sealer, r.raw(len)?)?;
        let len = r.count(1)?;
        let root = Root::open(sealer, &head.root.name(ObjectKind::Root), r.raw(len)?)?;
        let count = r.count(ENTRY_BYTES)?;
        if count > LINEAGE_MAX {
            return Err(FormatError::Invalid("a grant has a history that is too long"));
        }
        let mut lineage = Vec::with_capacity(count);
        for _ in 0..count {
            let journal = Uuid::from_bytes(r.array()?);
            lineage.push(Lineage { journal, epoch: Epoch(r.u64()?), cut: Lsn(r.u64()?), crc: r.u32()? });
        }
        r.end()?;
        Ok(Self { head, root, lineage })
    }
}

/// A drive that is being received.
pub struct Receiving {
    import: Import,
    drive: Uuid,
    device: Uuid,
    sealer: Arc<Sealer>,
    /// What this device remembers of its own journal.
    own: Own,
}

/// A device's own journal.
#[derive(Clone, Copy)]
struct Own {
    journal: Uuid,
    last: Lsn,
    /// Up to here its records are in the version that this device remembers.
    sent: Lsn,
}

/// Begins to receive the drive, which is closed here. `root` is the other device's current version. Earlier imports are deleted.
pub async fn receive(
    env: &Environment,
    (drive, device): (Uuid, &Device),
    root: &Root,
    (session, stream, headroom_bytes): (Uuid, Uuid, u64),
    limits: VolumeLimits,
) -> Result<Receiving, ReceiveError> {
    let own = own_journal(env, drive, limits).await?;
    let handed = handed::handed(&*env.state, &*env.journal)?;
    let handed_cut = handed.map_or(0, |handed| handed.cut);
    let cut =
        root.lineage.iter().find(|entry| entry.journal == own.journal).map_or(Lsn(0), |entry| entry.cut);
    let sent = own.sent.max(cut).max(Lsn(handed_cut));
    if own.last > sent {
        return Err(ReceiveError::Unsent { unsent: own.last.0 - sent.0 });
    }
    let size_blocks = root.geometry.size_blocks;
    let plan = ImportPlan { session, stream, journal: own.journal, size_blocks, headroom_bytes };
    let import = Import::begin(env.journal.clone(), plan, &limits.journal).await?;
    Ok(Receiving { import, drive, device: device.id, sealer: env.sealer.clone(), own })
}

/// Finds what was received of a session before this process began.
pub async fn received(
    env: &Environment,
    (drive, device): (Uuid, &Device),
    session: Uuid,
    limits: VolumeLimits,
) -> Result<Option<Receiving>, ReceiveError> {
    let Some(import) = Import::find(env.journal.clone(), Some(session)).await? else { return Ok(None) };
    let own = own_journal(env, drive, limits).await?;
    if own.journal != import.plan().journal || own.last.next() != import.lsn() {
        return Err(ImportError::Stale.into());
    }
    Ok(Some(Receiving { import, drive, device: device.id, sealer: env.sealer.clone(), own }))
}

async fn own_journal(env: &Environment, drive: Uuid, limits: VolumeLimits) -> Result<Own, ReceiveError> {
    let local = match Local::load(&*env.state)? {
        Some(local) => local,
        None => {
            let found = journal::found(&*env.journal)?;
            let journal = match found {
                Some(journal) => journal,
                None => Journal::create(env.journal.clone(), limits.journal, capacity(0)).await?.uuid(),
            };
            let local = Local::new(drive, journal);
            local.save(&*env.state).await?;
            local
        }
    };
    if local.fork.is_some() {
        return Err(ReceiveError::Forked);
    }
    let last = Journal::last_record(&*env.journal, local.journal).await?;
    Ok(Own { journal: local.journal, last, sent: Lsn(local.base.as_ref().map_or(0, |base| base.lsn)) })
}

impl Receiving {
    /// The blocks that came.
    pub fn import(&self) -> &Import {
        &self.import
    }

    /// The same, to add to them.
    pub fn import_mut(&mut self) -> &mut Import {
        &mut self.import
    }

    /// Checks that all of it came, and seals it durably. Ready when the other device may hand the drive over.
    ///
    /// # Errors
    ///
    /// `OtherGrant` if a block is missing or differs, or the grant is for another device. Nothing is sealed then.
    pub async fn finish(&mut self, arrival: &Arrival) -> Result<(), ReceiveError> {
        let Arrival { head, root, lineage } = arrival;
        let plan = *self.import.plan();
        let is_for_this = head.drive == self.drive && root.drive == self.drive && head.device == self.device;
        let delta = self.import.delta().hash(plan.size_blocks, lineage);
        let is_whole = grant::is_grant_of(head, plan.session, &delta)
            && root.geometry.size_blocks == plan.size_blocks
            && lineage.len() <= LINEAGE_MAX;
        if !is_for_this || !is_whole {
            return Err(ReceiveError::OtherGrant);
        }
        // What this device handed over before has to come back with it.
        let Own { journal, last, sent } = self.own;
        let has_own = |entry: &Lineage| entry.journal == journal && entry.cut >= last;
        if last > sent && !root.lineage.iter().chain(lineage).any(has_own) {
            return Err(ReceiveError::Unsent { unsent: last.0 - sent.0 });
        }
        Ok(self.import.finish(&arrival.encode(&self.sealer)).await?)
    }

    /// Deletes what came: the drive is not handed over. Once the other device may have put the grant, only its HEAD shows whether it was.
    pub async fn discard(self) -> Result<(), ReceiveError> {
        Ok(self.import.discard().await?)
    }
}

/// A sealed group that waits for its grant, if there is one.
pub(super) async fn sealed(
    journal: Arc<dyn Disk>,
    sealer: &Sealer,
) -> Result<Option<(Import, Arrival)>, ImportError> {
    let Some(import) = Import::find_sealed(journal).await? else { return Ok(None) };
    let arrival = Arrival::decode(sealer, &import.trailer()?).map_err(|_| ImportError::Damaged)?;
    Ok(Some((import, arrival)))
}

/// The entries of other devices' journals in a lineage that a grant brought.
pub(super) fn of_others(lineage: &[Lineage], root: &Root, own: Uuid) -> Vec<Lineage> {
    let is_new = |entry: &&Lineage| entry.journal != own && !fence::contains(&root.lineage, entry);
    lineage.iter().filter(is_new).copied().collect()
}
