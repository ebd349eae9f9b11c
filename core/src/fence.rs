//! The right to write. Pure: says what a HEAD means for the device that read it.
//!
//! After a compare-and-swap without an answer, the swap was applied, or it was not, or another device was faster. The HEAD itself shows
//! which: every write of it carries a random nonce.

use crate::format::head::{Head, HeadState};
use crate::format::root::{Lineage, Root};
use crate::planted::{self, Bug};
use crate::units::{Epoch, Lsn};
use uuid::Uuid;

/// What the current HEAD says of a swap from `before` to `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was applied.
    Applied,
    /// It was not applied: the HEAD is still `before`. The swap may be tried again.
    NotApplied,
    /// Another HEAD is there: the swap can no longer be applied.
    Overtaken,
}

/// The device that took the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Its name.
    pub device_name: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether the drive was removed.
    pub removed: bool,
}

impl Fence {
    /// The device that made the HEAD `now`.
    pub fn by(now: &Head) -> Self {
        let (device_name, removed) = (now.device_name.clone(), now.state == HeadState::Removed);
        Self { device_name, epoch: now.epoch, removed }
    }
}

/// Judges a swap by the current HEAD. `before` is `None` if there was no HEAD.
pub fn judge(now: &Head, before: Option<&Head>, after: &Head) -> Verdict {
    if now.nonce == after.nonce {
        Verdict::Applied
    } else if before.is_some_and(|before| now.nonce == before.nonce) {
        Verdict::NotApplied
    } else {
        Verdict::Overtaken
    }
}

/// How a journal's records relate to the history of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// Records up to here are in the version. Later ones continue it: nobody else has written since.
    Continues(Lsn),
    /// Records up to here are in the version, but others have written since: later ones are a fork.
    Forked(Lsn),
}

/// How the journal relates to `root`.
pub fn descent(root: &Root, journal: Uuid) -> Descent {
    let own = root.lineage.iter().find(|lineage| lineage.journal == journal);
    let last = root.lineage.iter().max_by_key(|lineage| lineage.epoch);
    match (own, last) {
        (Some(own), Some(last)) if own == last => Descent::Continues(own.cut),
        (Some(own), _) if planted::has(Bug::ForkTakenForContinuation) => Descent::Continues(own.cut),
        (Some(own), _) => Descent::Forked(own.cut),
        (None, None) => Descent::Continues(Lsn(0)),
        (None, Some(_)) => Descent::Forked(Lsn(0)),
    }
}

/// How a version relates to one that a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Only this device's journal has written since, if any has.
    Own,
    /// It contains all that the known version has of other journals, and others have written since.
    Foreign,
    /// It lacks something that the known version contains: it is older, or both come from a third version.
    Diverged,
}

/// How `root` relates to the version whose lineage is `known`, for the device that writes `journal`.
///
/// Epochs alone do not show this: after a store was restored from a backup, or two copies of it were merged, two versions may have the same
/// epoch. A version contains another one if it contains as much of every journal.
///
/// Of the device's own journal `root` may contain *less*. The device has to judge that, since it may still have those records
/// ([`lacks_own`]).
pub fn relation(root: &Root, known: &[Lineage], journal: Uuid) -> Relation {
    if planted::has(Bug::EqualEpochsNotToldApart) {
        let highest = known.iter().map(|known| known.epoch).max().unwrap_or(Epoch(0));
        let is_new = |entry: &Lineage| entry.journal != journal && entry.epoch > highest;
        return if root.lineage.iter().any(is_new) { Relation::Foreign } else { Relation::Own };
    }
    let find = |entries: &[Lineage], journal| entries.iter().find(|entry| entry.journal == journal).copied();
    let is_lacking = |known: &Lineage| match find(&root.lineage, known.journal) {
        None => known.journal != journal,
        Some(found) if found.cut == known.cut => found.crc != known.crc,
        // More of a journal that was committed earlier is another history of that journal.
        Some(found) => known.journal != journal && (found.cut < known.cut || found.epoch < known.epoch),
    };
    if known.iter().any(is_lacking) {
        return Relation::Diverged;
    }
    let others = root.lineage.iter().filter(|entry| entry.journal != journal);
    let has = |entry: &Lineage| find(known, entry.journal).is_some_and(|known| known.cut == entry.cut);
    match { others }.all(has) {
        true => Relation::Own,
        false => Relation::Foreign,
    }
}

/// Whether `root` contains less of `journal` than the version whose lineage is `known`.
pub fn lacks_own(root: &Root, known: &[Lineage], journal: Uuid) -> bool {
    let cut = |entries: &[Lineage]| {
        entries.iter().find(|entry| entry.journal == journal).map_or(Lsn(0), |entry| entry.cut)
    };
    cut(&root.lineage) < cut(known)
}

/// The lineage of a version that adds the records of `entry`. One entry for each journal is enough: it names the last record that is
/// contained, and the highest epoch shows who wrote last.
pub fn extend(lineage: &[Lineage], entry: Lineage) -> Vec<Lineage> {
    let others = lineage.iter().filter(|lineage| lineage.journal != entry.journal).copied();
    others.chain([entry]).collect()
}

/// Whether a lineage has this entry, or a later one of the same journal.
pub fn contains(lineage: &[Lineage], entry: &Lineage) -> bool {
    lineage.iter().any(|own| own.journal == entry.journal && own.cut >= entry.cut)
}

/// The lineage with entries that another device handed over, as far as it does not have them or later ones already.
pub fn inherit(lineage: &[Lineage], entries: &[Lineage]) -> Vec<Lineage> {
    entries.iter().fold(lineage.to_vec(), |lineage, entry| match contains(&lineage, entry) {
        true => lineage,
        false => extend(&lineage, *entry),
    })
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
    fn only_the_own_nonce_counts() {
        let (before, after) = (head(1, 10), head(1, 11));
        assert_eq!(judge(&after, Some(&before), &after), Verdict::Applied);
        assert_eq!(judge(&before, Some(&before), &after), Verdict::NotApplied);
        assert_eq!(judge(&head(2, 12), Some(&before), &after), Verdict::Overtaken);
        // The same epoch with a foreign nonce: a copy of this machine.
        assert_eq!(judge(&head(1, 12), Some(&before), &after), Verdict::Overtaken);
        assert_eq!(judge(&after, None, &after), Verdict::Applied);
        assert_eq!(judge(&before, None, &after), Verdict::Overtaken);
        let fence = Fence { device_name: "device 2".into(), epoch: Epoch(2), removed: false };
        assert_eq!(Fence::by(&head(2, 12)), fence);
    }

    const MINE: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);
    const THIRD: Uuid = Uuid::from_u128(3);

    fn entry(journal: Uuid, epoch: u64, cut: u64) -> Lineage {
        // A journal that went another way has another CRC at the same place.
        Lineage { epoch: Epoch(epoch), journal, cut: Lsn(cut), crc: cut as u32 }
    }

    fn root(lineage: &[Lineage]) -> Root {
        Root { lineage: lineage.to_vec(), ..crate::format::root::tests::root() }
    }

    #[test]
    fn a_journal_continues_only_where_it_wrote_last() {
        let first = extend(&[], entry(MINE, 1, 10));
        let second = extend(&first, entry(MINE, 3, 20));
        assert_eq!(second, [entry(MINE, 3, 20)], "one entry for each journal");
        let third = extend(&second, entry(OTHER, 4, 5));
        assert_eq!(descent(&root(&second), MINE), Descent::Continues(Lsn(20)));
        assert_eq!(descent(&root(&third), MINE), Descent::Forked(Lsn(20)));
        assert_eq!(descent(&root(&third), OTHER), Descent::Continues(Lsn(5)));
        assert_eq!(descent(&root(&[]), MINE), Descent::Continues(Lsn(0)));
        assert_eq!(descent(&root(&first), OTHER), Descent::Forked(Lsn(0)));
        let same_epoch = [entry(MINE, 4, 20), entry(OTHER, 4, 5)];
        assert_eq!(descent(&root(&same_epoch), MINE), Descent::Forked(Lsn(20)), "who was last is not known");
    }

    #[test]
    fn versions_are_compared_by_their_lineage() {
        use Relation::{Diverged, Foreign, Own};
        let other_crc = |entry: Lineage| Lineage { crc: 77, ..entry };
        let known = [entry(OTHER, 2, 5), entry(MINE, 3, 10)];
        let [theirs, mine] = known;
        let cases: [(&str, &[Lineage], Relation); 14] = [
            ("the same", &known, Own),
            ("in another order", &[mine, theirs], Own),
            ("own commits since", &[theirs, entry(MINE, 4, 20)], Own),
            ("own commits are missing", &[theirs, entry(MINE, 1, 4)], Own),
            ("all own commits are missing", &[theirs], Own),
            ("others wrote since", &[entry(OTHER, 4, 9), mine], Foreign),
            ("a third one wrote since", &[theirs, mine, entry(THIRD, 4, 1)], Foreign),
            ("a third one wrote in the same epoch", &[theirs, mine, entry(THIRD, 3, 1)], Foreign),
            ("older than what others wrote", &[entry(OTHER, 1, 3), mine], Diverged),
            ("without what others wrote", &[mine, entry(THIRD, 9, 9)], Diverged),
            ("the same, and the others committed it earlier", &[entry(OTHER, 1, 5), mine], Own),
            ("others went another way and further", &[entry(OTHER, 1, 9), mine], Diverged),
            ("others went another way", &[other_crc(theirs), mine], Diverged),
            ("a copy of this device went another way", &[theirs, other_crc(mine)], Diverged),
        ];
        for (case, lineage, expected) in cases {
            assert_eq!(relation(&root(lineage), &known, MINE), expected, "{case}");
        }
        assert!(lacks_own(&root(&[theirs]), &known, MINE));
        assert!(!lacks_own(&root(&known), &known, MINE));
    }
}
