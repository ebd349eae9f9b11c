//! Who may write. Pure: what a HEAD that was read means for the one who read it.
//!
//! A compare-and-swap whose answer was lost has been applied, or not, or someone else was faster. The HEAD itself
//! tells: every write of it carries a random nonce.

use crate::format::head::{Head, HeadState};
use crate::format::root::{Lineage, Root};
use crate::planted::{self, Bug};
use crate::units::{Epoch, Lsn};
use uuid::Uuid;

/// What has become of a swap from `before` to `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It was applied.
    Applied,
    /// It was not: the HEAD is still the one before. It may be tried again.
    NotApplied,
    /// Another device has the drive now.
    Fenced(Fence),
}

/// Who took the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Its name.
    pub device_name: String,
    /// Its generation.
    pub epoch: Epoch,
    /// Whether the drive was removed altogether.
    pub removed: bool,
}

/// Judges a swap by the HEAD that is there now.
pub fn judge(now: &Head, before: &Head, after: &Head) -> Swap {
    if now.nonce == after.nonce {
        Swap::Applied
    } else if now.nonce == before.nonce {
        Swap::NotApplied
    } else {
        let (device_name, removed) = (now.device_name.clone(), now.state == HeadState::Removed);
        Swap::Fenced(Fence { device_name, epoch: now.epoch, removed })
    }
}

/// What the records of a journal are to the history of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// Records up to here are in the version. What lies beyond continues it: nobody else wrote since.
    Continues(Lsn),
    /// Records up to here are in the version, but others wrote since: what lies beyond is a fork.
    Forked(Lsn),
}

/// How the journal stands to `root`.
pub fn descent(root: &Root, journal: Uuid) -> Descent {
    let own = root.lineage.iter().find(|lineage| lineage.journal == journal);
    let last = root.lineage.iter().max_by_key(|lineage| lineage.epoch);
    match (own, last) {
        (Some(own), Some(last)) if own.epoch == last.epoch => Descent::Continues(own.cut),
        (Some(own), _) if planted::has(Bug::ForkTakenForContinuation) => Descent::Continues(own.cut),
        (Some(own), _) => Descent::Forked(own.cut),
        (None, None) => Descent::Continues(Lsn(0)),
        (None, Some(_)) => Descent::Forked(Lsn(0)),
    }
}

/// Whether others than `journal` have written to `root` since the epoch in which that was last known to go on from it.
pub fn wrote_since(root: &Root, journal: Uuid, epoch: u64) -> bool {
    root.lineage.iter().any(|lineage| lineage.journal != journal && lineage.epoch.0 > epoch)
}

/// The lineage of a version that adds the records that `entry` tells of. One entry for each journal
/// says all there is to know: the last of it that is contained, and who wrote last.
pub fn extend(lineage: &[Lineage], entry: Lineage) -> Vec<Lineage> {
    let others = lineage.iter().filter(|lineage| lineage.journal != entry.journal).copied();
    others.chain([entry]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::id::ObjectId;

    fn head(epoch: u64, nonce: u128) -> Head {
        Head {
            drive: Uuid::nil(),
            epoch: Epoch(epoch),
            nonce,
            device: Uuid::nil(),
            device_name: format!("device {epoch}"),
            state: HeadState::Held,
            written_ms: 0,
            root: ObjectId::NONE,
            root_hash: [0; 32],
            parent: ObjectId::NONE,
            moved_to: Vec::new(),
        }
    }

    #[test]
    fn only_ones_own_nonce_counts() {
        let (before, after) = (head(1, 10), head(1, 11));
        assert_eq!(judge(&after, &before, &after), Swap::Applied);
        assert_eq!(judge(&before, &before, &after), Swap::NotApplied);
        let fence = Fence { device_name: "device 2".into(), epoch: Epoch(2), removed: false };
        assert_eq!(judge(&head(2, 12), &before, &after), Swap::Fenced(fence));
        // The same epoch with a foreign nonce: a copy of this machine.
        assert!(matches!(judge(&head(1, 12), &before, &after), Swap::Fenced(_)));
    }

    #[test]
    fn a_journal_continues_only_where_nobody_wrote_since() {
        let (mine, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let entry = |epoch, journal, cut| Lineage { epoch: Epoch(epoch), journal, cut: Lsn(cut), crc: 0 };
        let first = extend(&[], entry(1, mine, 10));
        let second = extend(&first, entry(3, mine, 20));
        assert_eq!(second, [entry(3, mine, 20)]);
        let third = extend(&second, entry(4, other, 5));
        let descent = |lineage: &[Lineage], journal| {
            let own = lineage.iter().find(|l| l.journal == journal).copied();
            (own, lineage.iter().max_by_key(|l| l.epoch).copied())
        };
        assert_eq!(descent(&second, mine).0, descent(&second, mine).1);
        assert_ne!(descent(&third, mine).0, descent(&third, mine).1);
    }
}
