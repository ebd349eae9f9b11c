//! Forks keep the changes of a device after another one has taken its drive.
//!
//! A fork is a drive of its own in the same family. It begins with the last version that the journal's changes build on, and the journal
//! is pushed on top of that. Both versions are kept, and nothing is merged. A crash between any two of these steps is safe:
//!
//! 1. `drive.json` names the fork, durably. Before that there is no fork, and the journal is what it was. After that the journal is pushed
//!    nowhere else, so no change ever gets into two forks.
//! 2. A ref is put that holds the version with which the fork begins. Then the other drive's HEAD is read again. The fork begins with a
//!    version only if that drive still keeps it; or, for the version that this device remembers, if no object of it is missing.
//!
//!    A device that takes a drive over keeps the version that was current then, as a snapshot. Several devices may begin forks with it.
//!    If the drive no longer keeps it, a fork that began with it may still keep it as its fork point. Then that fork's HEAD is read again.
//!    That is as safe: a collection by the other drive deletes only objects that it has found unreached twice, and each time it lists refs
//!    first and HEADs after them. If the first look did not find the version in the fork, the fork had dropped it by then, and a drive
//!    never keeps again what it has dropped. So if the new ref is put before refs are listed the second time, that listing shows it. If it
//!    is put later, the fork's HEAD is read later still, and shows that the version is no longer kept.
//! 3. The fork's first root is put, then its HEAD. That root keeps the version with which it begins as a snapshot of its own. All of this
//!    can be repeated after a crash: any HEAD that is there then is the fork's.
//! 4. The ref is deleted: the fork's HEAD holds the version now. Then the journal is pushed to the fork as to any drive, and the fork's
//!    commits free the journal's space.
//!
//! A fork can be taken over like any drive, even before its device knows that its HEAD is there. Then that device's changes become a
//! fork of the fork.

use crate::clock::now_ms;
use crate::drive::{self, DriveError};
use crate::fence::Relation;
use crate::format::head::Head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Root, Snapshot};
use crate::heads::{self, Author, Device, Once, Swap, kept, transition};
use crate::journal::{Journal, JournalError};
use crate::local::{Base, Fork};
use crate::map::{self, Objects, ReadError};
use crate::store::{Etag, StoreError};
use crate::units::{Epoch, Lsn};
use std::cmp::Reverse;
use uuid::Uuid;

mod reference;

pub use crate::heads::kept::{is_for_absent, is_fork_point, is_reserved, shown};
pub use reference::forget as forget_references;
pub(crate) use reference::{forget_begun, is_whole, new_reference, without_head};

/// Stands between the name of the drive and that of the device whose fork it is.
const BETWEEN: &str = " (fork from ";

/// Why a fork cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// No version that the changes build on is kept any longer.
    #[error("the version that the changes build on is gone from the store")]
    Gone,
    /// The other drive changed meanwhile.
    #[error("the other computer changed the drive at the same moment")]
    Raced,
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store failed, or an object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for ForkError {
    fn from(error: StoreError) -> Self {
        ForkError::Read(error.into())
    }
}

/// The store error that stands for [`ForkError::Raced`]: it is tried again.
pub(crate) fn raced() -> StoreError {
    let reason = "another computer is changing the drive".to_owned();
    StoreError::Busy { reason, retry_after: None }
}

/// Where a fork begins.
struct Point {
    /// The drive that keeps the version: the one that is forked, or a fork. None if no drive keeps it in this store: the drive has moved,
    /// or keeps only other versions.
    keeper: Option<Uuid>,
    id: ObjectId,
    hash: [u8; 32],
    root: Root,
}

/// How much of a journal a version contains: the last record, and the CRC of that record itself.
pub(crate) fn contained(root: &Root, journal: &Journal) -> (Lsn, u32) {
    let own = root.lineage.iter().find(|lineage| lineage.journal == journal.uuid());
    own.map_or((Lsn(0), 0), |own| (own.cut, own.crc))
}

/// The journal that is to become a fork, and all that decides where the fork begins.
pub(crate) struct Branch<'a> {
    /// The changes.
    pub journal: &'a Journal,
    /// The version that is remembered, and the epoch in which the device has the other drive.
    pub base: &'a Base,
    /// The version to begin with must contain all records up to here.
    pub least: Lsn,
    /// The device.
    pub device: &'a Device,
}

/// The fork's HEAD and current version. If there are none yet, the first ones are made.
pub(crate) async fn begin(
    objects: &Objects,
    fork: &Fork,
    branch: &Branch<'_>,
) -> Result<(Head, Etag, Root), ForkError> {
    // This comes first: once the fork has a HEAD, the other drive may have dropped the version.
    match current(objects, fork).await {
        Err(ForkError::Read(error)) if error.is_missing() => {}
        found => return found,
    }
    let point = point(objects, fork.of, branch).await?;
    publish(objects, fork, point, branch).await
}

async fn current(objects: &Objects, fork: &Fork) -> Result<(Head, Etag, Root), ForkError> {
    drive::current(objects, fork.drive).await.map_err(no_version)
}

/// Whether the store has a version with which a fork of the drive `of` can begin.
pub(crate) async fn can_begin(objects: &Objects, of: Uuid, branch: &Branch<'_>) -> Result<(), ForkError> {
    point(objects, of, branch).await.map(drop)
}

/// The latest version of the drive `of` that the journal continues and that is still kept; or the one that this device remembers, if no
/// object of it is missing.
async fn point(objects: &Objects, of: Uuid, branch: &Branch<'_>) -> Result<Point, ForkError> {
    let (head, _, root) = match drive::last_here(objects, of).await {
        // This is not the store in which the drive was.
        Err(DriveError::Read(error)) if error.is_missing() => return Err(ForkError::Gone),
        found => found.map_err(no_version)?,
    };
    let kept = root.snapshots.iter().map(|kept| kept.root).chain([head.root, head.parent]);
    // A drive that has moved to another store keeps nothing in this one: collections of other drives ignore it.
    let keeper = head.state.is_here().then_some(of);
    let mut candidates: Vec<_> = kept.map(|id| (keeper, id)).collect();
    let remembered = branch.base.id().filter(|id| candidates.iter().all(|(_, kept)| kept != id));
    candidates.extend(remembered.map(|id| (None, id)));
    match latest(objects, candidates, branch).await? {
        Some(point) => Ok(point),
        None => {
            let kept = kept_by_forks(objects, &head).await?;
            latest(objects, kept, branch).await?.ok_or(ForkError::Gone)
        }
    }
}

/// The latest of these versions that is in the store and that the journal continues. Each comes with the drive that keeps it.
async fn latest(
    objects: &Objects,
    mut candidates: Vec<(Option<Uuid>, ObjectId)>,
    branch: &Branch<'_>,
) -> Result<Option<Point>, ForkError> {
    let base = branch.base;
    // Likely versions first, so that few roots are read. The root itself decides.
    let is_likely = |id: &ObjectId| id.epoch.0 == base.epoch || base.id() == Some(*id);
    candidates.sort_by_key(|(_, id)| Reverse((is_likely(id), id.epoch, id.seq)));
    for (keeper, id) in candidates.into_iter().filter(|(_, id)| *id != ObjectId::NONE) {
        let name = id.name(ObjectKind::Root);
        let open = |object: &[u8]| Root::open(objects.sealer(), &name, object);
        let (root, object) = match map::read(objects.store().as_ref(), &name, None, open).await {
            Err(error) if error.is_missing() => continue,
            read => read?,
        };
        if !goes_on_from(branch, &root, id)? {
            continue;
        }
        if keeper.is_none() && !reference::is_whole(objects, id, &root).await? {
            continue;
        }
        let hash = *blake3::hash(&object.bytes).as_bytes();
        return Ok(Some(Point { keeper, id, hash, root }));
    }
    Ok(None)
}

/// Whether a journal continues the version `root`: this device remembers all that others have written to it, and the journal holds all
/// records that the version lacks.
fn goes_on_from(branch: &Branch<'_>, root: &Root, id: ObjectId) -> Result<bool, JournalError> {
    let Branch { journal, base, least, .. } = *branch;
    let is_own = match base.lineage {
        Some(_) => base.relation(root, journal.uuid()) == Relation::Own,
        // An earlier program remembered only the epoch. In that epoch no other device committed.
        None => id.epoch.0 == base.epoch || base.id() == Some(id),
    };
    let (cut, crc) = contained(root, journal);
    let is_there = journal.first() <= cut.next() && cut <= journal.appended() && cut >= least;
    // The CRC covers all records up to the cut: a copy of this device's files may have written others.
    Ok(is_own && is_there && journal.crc_of(cut)?.is_none_or(|own| own == crc || cut == Lsn(0)))
}

/// The fork points that other drives of the family keep, each with its drive. The drive of `head` may have dropped them.
async fn kept_by_forks(objects: &Objects, head: &Head) -> Result<Vec<(Option<Uuid>, ObjectId)>, ReadError> {
    let mut kept = Vec::new();
    for other in drive::heads(objects.store().as_ref(), objects.sealer()).await? {
        if other.drive == head.drive {
            continue;
        }
        let root = match objects.root(other.root, Some(other.root_hash)).await {
            // That drive's version is gone as well.
            Err(error) if error.is_missing() => continue,
            root => root?,
        };
        let points = root.snapshots.iter().filter(|own| kept::is_fork_point(&own.label));
        kept.extend(points.map(|kept| (Some(other.drive), kept.root)));
    }
    Ok(kept)
}

/// The epoch of a fork's first version.
fn first_epoch(base: &Base) -> Epoch {
    Epoch(base.epoch + 1)
}

/// Makes the fork's first version and its HEAD, which its device holds.
async fn publish(
    objects: &Objects,
    fork: &Fork,
    point: Point,
    branch: &Branch<'_>,
) -> Result<(Head, Etag, Root), ForkError> {
    let (store, device, epoch) = (objects.store().as_ref(), branch.device, first_epoch(branch.base));
    let reference = reference::hold(objects, fork, &point, device).await?;
    let Point { id, hash, root: base, .. } = point;
    let common = Snapshot {
        label: kept::fork_point(device.id),
        root: id,
        root_hash: hash,
        taken_ms: fork.made_ms,
        size_blocks: base.geometry.size_blocks,
    };
    let root = Root {
        drive: fork.drive,
        name: name(&base.name, &device.name, fork.made_ms),
        epoch,
        seq: 0,
        parent: id,
        committed_ms: now_ms(),
        device: device.id,
        device_name: device.name.clone(),
        snapshots: vec![common],
        condemned: Vec::new(),
        ..base
    };
    let version = heads::put_root(store, objects.sealer(), &root).await?;
    // Every try has the same nonce: a put that arrives late makes no other HEAD beside the first, on any store.
    let author = Author { nonce: fork.drive.as_u128(), ..Author::new(device) };
    let head = transition::publish(fork.drive, epoch, version, true, author);
    match heads::swap(store, objects.sealer(), None, head, &mut Once).await {
        Swap::Applied(..) | Swap::Lost(_) => {}
        // Without HEAD nothing else holds the version: the ref stays.
        Swap::Refused(error) | Swap::Unknown(error) => return Err(error.into()),
    }
    // An earlier try may have put a HEAD that names another root.
    let found = current(objects, fork).await?;
    // If it stays, the fork holds everything that it holds, and the next collection deletes it.
    let _ = store.delete(&reference).await;
    Ok(found)
}

/// The name of a fork in the store: "work (fork from laptop, 2026-11-20)". A fork of a fork does not get both suffixes.
pub fn name(of: &str, device_name: &str, made_ms: u64) -> String {
    let of = of.split(BETWEEN).next().unwrap_or(of);
    let (year, month, day) = date(made_ms);
    format!("{of}{BETWEEN}{device_name}, {year:04}-{month:02}-{day:02})")
}

/// Whether the name may be one that [`name`] made.
pub fn is_name_of_fork(name: &str) -> bool {
    name.contains(BETWEEN)
}

/// Year, month and day in UTC of a Unix time in ms, by the proleptic Gregorian calendar.
pub(crate) fn date(ms: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut days = ms / 86_400_000;
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) && year < 9999 {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in months {
        if days < length || month == 12 {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// The drive was removed, or its current version is not in the store.
fn no_version(error: DriveError) -> ForkError {
    match error {
        DriveError::Read(error) => ForkError::Read(error),
        DriveError::Raced => ForkError::Raced,
        DriveError::Removed
        | DriveError::Moved { .. }
        | DriveError::Held { .. }
        | DriveError::Unfinished
        | DriveError::NoSnapshot { .. } => ForkError::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_named_after_drive_device_and_day() {
        let day = 86_400_000;
        assert_eq!(name("work", "laptop", 0), "work (fork from laptop, 1970-01-01)");
        assert_eq!(name("work", "laptop", 20_777 * day + 5), "work (fork from laptop, 2026-11-20)");
        assert_eq!(name("w", "a", 11_016 * day), "w (fork from a, 2000-02-29)");
        assert_eq!(name("w", "a", 11_322 * day - 1), "w (fork from a, 2000-12-30)");
        let twice = name(&name("work", "laptop", 0), "desk", day);
        assert_eq!(twice, "work (fork from desk, 1970-01-02)");
    }
}
