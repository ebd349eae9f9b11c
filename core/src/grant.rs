//! The grant: the HEAD that gives a drive to another device. Pure.
//!
//! Its bytes are fixed by the session. The nonce follows from all that both devices have agreed on, so either of them may put it, and each
//! tells by the nonce alone whether the swap was applied (`fence::judge`). A grant names the version that HEAD names. The other device
//! has the blocks that are newer, the *delta*, and commits them first.

use crate::fence::Relation;
use crate::format::head::Head;
use crate::format::root::{Lineage, Root};
use crate::heads::transition::{self, Invalid};
use crate::heads::{Author, Device};
use crate::local::{Base, Handed};
use crate::planted::{self, Bug};
use crate::runs::{Run, RunMap};
use crate::units::{BLOCK_BYTES, BlockRange, Epoch, Lsn};
use std::collections::BTreeMap;
use uuid::Uuid;

/// All that a grant's HEAD says apart from the version.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The session in which the drive is handed over.
    pub session: Uuid,
    /// The device that gets it.
    pub to: Device,
    /// When the session began, Unix time in ms.
    pub written_ms: u64,
}

impl Grant {
    /// The HEAD that follows `before` and gives the drive to the other device. `delta` is the hash of the blocks that it has beyond the
    /// version that `before` names ([`Delta::hash`]).
    ///
    /// # Errors
    ///
    /// HEAD allows no such change: the drive was removed or has moved, or a promotion is not finished.
    pub fn head(&self, before: &Head, delta: &[u8; 32]) -> Result<Head, Invalid> {
        let epoch = Epoch(before.epoch.0 + 1);
        let nonce = match planted::has(Bug::GrantWithFreshNonce) {
            false => self.nonce(before.drive, epoch, &before.root_hash, delta),
            true => crate::entropy::u128(),
        };
        transition::grant(before, Author { device: &self.to, nonce, written_ms: self.written_ms })
    }

    /// The nonce of that HEAD: the first 16 bytes of a hash of everything that the devices agree on.
    pub fn nonce(&self, drive: Uuid, epoch: Epoch, root_hash: &[u8; 32], delta: &[u8; 32]) -> u128 {
        nonce_of(self.session, (drive, epoch), self.to.id, root_hash, delta)
    }
}

fn nonce_of(
    session: Uuid,
    (drive, epoch): (Uuid, Epoch),
    to: Uuid,
    root: &[u8; 32],
    delta: &[u8; 32],
) -> u128 {
    let mut hasher = blake3::Hasher::new_derive_key("holdall grant v1");
    hasher.update(session.as_bytes()).update(drive.as_bytes()).update(&epoch.0.to_le_bytes());
    hasher.update(to.as_bytes()).update(root).update(delta);
    u128::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("32 bytes have 16"))
}

/// Whether `head` is the grant of this session for exactly this delta. The device that gets the drive checks this before it acknowledges
/// the last blocks: a block that is missing or differs gives another nonce.
pub fn is_grant_of(head: &Head, session: Uuid, delta: &[u8; 32]) -> bool {
    head.is_held()
        && head.nonce == nonce_of(session, (head.drive, head.epoch), head.device, &head.root_hash, delta)
}

/// The content of a delta, without the data: both devices keep it in memory, about 40 bytes for each block, and compare its hash.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    data: BTreeMap<u64, [u8; 16]>,
    zeros: RunMap<Zeros>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Zeros;

impl Run for Zeros {
    fn skip(&self, _blocks: u64) -> Self {
        Zeros
    }
}

impl Delta {
    /// Whole blocks of data from block `first` on. A later content of a block replaces an earlier one.
    pub fn data(&mut self, first: u64, data: &[u8]) {
        let blocks = BlockRange::new(first, data.len() as u64 / BLOCK_BYTES);
        self.zeros.remove(blocks);
        for (block, content) in blocks.iter().zip(data.chunks(BLOCK_BYTES as usize)) {
            let hash = blake3::hash(content);
            self.data.insert(block, *hash.as_bytes().first_chunk().expect("32 bytes have 16"));
        }
    }

    /// A run of zeros.
    pub fn zero(&mut self, run: BlockRange) {
        let covered: Vec<u64> =
            self.data.range(run.start..run.end.max(run.start)).map(|(block, _)| *block).collect();
        for block in covered {
            self.data.remove(&block);
        }
        self.zeros.join(run, Zeros);
    }

    /// Blocks with data.
    pub fn data_blocks(&self) -> u64 {
        self.data.len() as u64
    }

    /// Runs of zeros.
    pub fn zero_runs(&self) -> usize {
        self.zeros.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.zeros.is_empty()
    }

    /// The hash of the delta of a drive of `size_blocks` blocks that contains what `lineage` says. The order in which the blocks came does
    /// not matter.
    pub fn hash(&self, size_blocks: u64, lineage: &[Lineage]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("holdall delta v1");
        hasher.update(&size_blocks.to_le_bytes()).update(&(lineage.len() as u64).to_le_bytes());
        for entry in lineage {
            hasher.update(entry.journal.as_bytes()).update(&entry.epoch.0.to_le_bytes());
            hasher.update(&entry.cut.0.to_le_bytes()).update(&entry.crc.to_le_bytes());
        }
        hasher.update(&(self.data.len() as u64).to_le_bytes());
        for (block, hash) in &self.data {
            hasher.update(&block.to_le_bytes()).update(hash);
        }
        for (run, _) in self.zeros.iter() {
            hasher.update(&run.start.to_le_bytes()).update(&run.end.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// What has become of a drive that this device handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store's version contains all that this device had: its journal is needed no longer.
    Contained,
    /// This device has taken the drive back.
    TakenBack,
    /// HEAD is still the one from before: the swap was not applied, and may be under way.
    Undecided,
    /// The other device has the drive and has committed nothing yet.
    Granted,
    /// Another device has written, without what this device had. That is a fork.
    Overtaken,
}

/// Judges a drive that was handed over by its HEAD and the version that this names. `base` is what this device, `own`, remembers.
pub fn standing(
    handed: &Handed,
    (head, root): (&Head, &Root),
    base: Option<&Base>,
    (journal, own): (Uuid, Uuid),
) -> Standing {
    let cut = Lsn(handed.cut);
    let entry = root.lineage.iter().find(|entry| entry.journal == journal);
    let is_same = |entry: &Lineage| entry.cut > cut || entry.cut == cut && entry.crc == handed.crc;
    if Some(head.nonce) == handed.before() {
        Standing::Undecided
    } else if entry.is_some_and(is_same) {
        Standing::Contained
    } else if head.device == own && head.epoch.0 > handed.epoch {
        Standing::TakenBack
    } else if Some(head.nonce) == handed.nonce()
        || base.is_some_and(|base| base.relation(root, journal) == Relation::Own)
    {
        Standing::Granted
    } else {
        Standing::Overtaken
    }
}

#[cfg(test)]
mod tests;
