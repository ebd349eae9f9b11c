//! What a promotion decides. Pure: it says what would be lost, and how the replica is to become the primary.
//!
//! The daemon asks the stores, and performs what is decided here.

use super::{Promotion, ReplicaError};
use crate::drive::DriveError;
use crate::fence::{self, Relation};
use crate::format::head::Head;
use crate::format::id::ObjectId;
use crate::format::root::{Root, Snapshot};
use crate::heads::kept;
use crate::local::Base;
use crate::units::Epoch;
use uuid::Uuid;

/// If a store cannot be asked, its replica begins this many epochs beyond what this device has seen of the store: each opening that this
/// device has not seen took one epoch, and a version of the replica must not be mistaken for one of theirs.
const EPOCHS_UNSEEN: u64 = 1 << 20;

/// The state of the drive's present store.
#[derive(Clone, Copy, Debug)]
pub enum Former<'a> {
    /// It has this HEAD.
    There(&'a Head),
    /// The drive has already left it: for the replica, or because a person says so.
    Retired,
    /// It cannot be reached.
    Away,
}

/// What a promotion would lose, as far as this device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// This device has seen a version that the replica lacks.
    pub newer_here: bool,
    /// The present store has a version that the replica lacks, or may have one.
    pub newer_there: bool,
}

impl Loss {
    /// Whether a person has to accept it.
    pub fn is_any(self) -> bool {
        self.newer_here || self.newer_there
    }
}

/// The place of a version in its drive's history.
pub fn order(version: ObjectId) -> (Epoch, u64) {
    (version.epoch, version.seq)
}

/// Whether the version that this device remembers is not in the replica, whose newest one `newest` names. Another drive's version is the
/// fork that this device has in the drive's place. If the replica was promoted before, its present content says more.
pub fn is_newer_here(drive: Uuid, base: Option<&Base>, newest: &Head) -> bool {
    let remembered = base.and_then(Base::id);
    remembered.is_some_and(|id| id.drive != drive || order(id) > order(newest.root))
}

/// Whether the present store has a version that the replica lacks. If it cannot be asked, another device that had the drive last may have
/// uploaded more than the replica got.
pub fn is_newer_there(former: Former, newest: &Head, device: Uuid) -> bool {
    match former {
        Former::There(head) => order(head.root) > order(newest.root),
        Former::Away => newest.device != device,
        Former::Retired => false,
    }
}

/// How the replica becomes the primary: above all epochs that this device knows, and all that others may know. `seen` is the epoch that this
/// device remembers.
pub fn promotion(former: Former, newest: &Head, seen: Epoch, accepts_loss: bool) -> Promotion {
    let above = match former {
        Former::There(head) => Epoch(head.epoch.max(seen).0 + 1),
        // Other devices may know of epochs in which nothing was committed.
        Former::Away | Former::Retired => Epoch(seen.max(newest.epoch).0 + EPOCHS_UNSEEN),
    };
    Promotion { above, is_away: matches!(former, Former::Away), accepts_loss }
}

/// Whether the present store may have been retired, or may be retired later, although retiring it failed.
pub fn may_be_retired(error: &DriveError) -> bool {
    matches!(error, DriveError::Read(_))
}

/// Whether the drive stays in its present store, because the promotion failed for good. If the drive may live in the replica, also because
/// of an earlier try that `was_moving` it, it must not live in its present store as well.
pub fn stays(error: &ReplicaError, was_moving: bool) -> bool {
    !matches!(error, ReplicaError::Unsure(_)) && !was_moving
}

/// Whether the version `root` of a primary contains all that people have in the version `other`: its data, and their snapshots.
pub(super) fn contains(root: &Root, other: &Root) -> bool {
    let is_there = |kept: &Snapshot| {
        kept::is_reserved(&kept.label) || root.snapshots.iter().any(|own| own.root == kept.root)
    };
    // No journal may have less in it.
    fence::relation(root, &other.lineage, Uuid::nil()) != Relation::Diverged
        && other.snapshots.iter().all(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::head::HeadState;
    use crate::format::id::ObjectKind;
    use crate::format::root::Lineage;
    use crate::store::StoreError;
    use crate::units::Lsn;

    const DRIVE: Uuid = Uuid::from_u128(1);
    const ME: Uuid = Uuid::from_u128(2);
    const OTHER: Uuid = Uuid::from_u128(3);

    fn version(drive: Uuid, epoch: u64, seq: u64) -> ObjectId {
        ObjectId { drive, epoch: Epoch(epoch), seq, unique: 0 }
    }

    fn head(device: Uuid, epoch: u64, root: ObjectId) -> Head {
        Head {
            drive: DRIVE,
            epoch: Epoch(epoch),
            nonce: 0,
            device,
            device_name: String::new(),
            state: HeadState::Released,
            written_ms: 0,
            root,
            root_hash: [0; 32],
            parent: ObjectId::NONE,
            moved_to: Vec::new(),
        }
    }

    fn base(root: ObjectId) -> Base {
        let (root, hash) = (root.name(ObjectKind::Root), String::new());
        Base { root, hash, epoch: 1, lsn: 0, lineage: None }
    }

    #[test]
    fn a_promotion_loses_what_the_replica_lacks() {
        let newest = head(ME, 3, version(DRIVE, 3, 5));
        for (remembered, is_newer) in [
            (version(DRIVE, 3, 4), false),
            (version(DRIVE, 3, 5), false),
            (version(DRIVE, 3, 6), true),
            (version(DRIVE, 4, 0), true),
            (version(OTHER, 1, 0), true),
        ] {
            assert_eq!(is_newer_here(DRIVE, Some(&base(remembered)), &newest), is_newer, "{remembered:?}");
        }
        assert!(!is_newer_here(DRIVE, None, &newest));

        let (same, later) = (head(OTHER, 9, newest.root), head(OTHER, 4, version(DRIVE, 3, 6)));
        assert!(!is_newer_there(Former::There(&same), &newest, ME));
        assert!(is_newer_there(Former::There(&later), &newest, ME));
        assert!(!is_newer_there(Former::Away, &newest, ME), "this device wrote the last version");
        assert!(is_newer_there(Former::Away, &newest, OTHER));
        assert!(!is_newer_there(Former::Retired, &newest, OTHER));
    }

    #[test]
    fn a_primary_begins_above_all_epochs_that_anyone_may_know() {
        let newest = head(ME, 3, version(DRIVE, 3, 5));
        let there = head(ME, 6, newest.root);
        let above = |former, seen| promotion(former, &newest, Epoch(seen), false).above.0;
        assert_eq!((above(Former::There(&there), 4), above(Former::There(&there), 9)), (7, 10));
        assert_eq!((above(Former::Away, 1), above(Former::Retired, 9)), (3 + (1 << 20), 9 + (1 << 20)));
        let promotion = |former| promotion(former, &newest, Epoch(0), true);
        assert!(promotion(Former::Away).is_away && promotion(Former::Away).accepts_loss);
        assert!(!promotion(Former::Retired).is_away && !promotion(Former::There(&there)).is_away);
    }

    #[test]
    fn a_drive_stays_only_if_it_lives_nowhere_else() {
        let lost = || StoreError::Unreachable { reason: String::new() };
        assert!(may_be_retired(&DriveError::from(lost())) && !may_be_retired(&DriveError::Raced));
        for (error, was_moving, stays_there) in [
            (ReplicaError::Nothing, false, true),
            (ReplicaError::Nothing, true, false),
            (ReplicaError::from(lost()), false, true),
            (ReplicaError::Unsure(lost()), false, false),
            (ReplicaError::Unsure(lost()), true, false),
        ] {
            assert_eq!(stays(&error, was_moving), stays_there, "{error:?} {was_moving}");
        }
    }

    #[test]
    fn a_version_contains_data_and_snapshots() {
        let entry = |journal, epoch, cut| Lineage { epoch: Epoch(epoch), journal, cut: Lsn(cut), crc: 1 };
        let root =
            |lineage: &[Lineage]| Root { lineage: lineage.to_vec(), ..crate::format::root::tests::root() };
        let first = root(&[entry(ME, 1, 10)]);
        let second = root(&[entry(ME, 1, 20)]);
        let others = root(&[entry(ME, 1, 10), entry(OTHER, 2, 5)]);
        assert!(contains(&first, &first) && contains(&second, &first) && contains(&others, &first));
        assert!(!contains(&first, &second) && !contains(&others, &second) && !contains(&second, &others));
        let snapshot = |label: &str, seq| Snapshot {
            label: label.to_owned(),
            root: version(DRIVE, 1, seq),
            root_hash: [0; 32],
            taken_ms: 0,
            size_blocks: 0,
        };
        let with = |snapshots: &[(&str, u64)]| Root {
            snapshots: snapshots.iter().map(|(label, seq)| snapshot(label, *seq)).collect(),
            ..first.clone()
        };
        assert!(contains(&with(&[("a", 1), ("b", 2)]), &with(&[("b", 2)])));
        assert!(!contains(&with(&[("a", 1)]), &with(&[("a", 1), ("b", 2)])));
        // A device that takes the drive leaves out what was kept for itself.
        assert!(contains(&with(&[]), &with(&[("before hand-over 2", 1)])));
    }
}
