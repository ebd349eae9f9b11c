//! Forks: what becomes of a device's changes when another one has taken its drive.
//!
//! A fork is a drive of its own in the same family: the last version that the journal's changes build on, and the
//! journal on top. Both versions are kept, and nothing is merged. The order makes it safe at every step:
//! 1. `drive.json` names the fork, durably. Until then there is none, and the journal is what it was; from then on the
//!    journal goes nowhere else, so that no change is ever pushed into two forks.
//! 2. A ref holds the version that the fork begins with, and the other drive's HEAD is read again: only a version that
//!    it still keeps is gone on from, or the remembered one, if nothing of it is missing. Who takes a drive over keeps the version that was current then, as a snapshot. Several devices
//!    may go on from the same one. Where the drive no longer keeps it, a fork that began with it does, as its fork point, and then it is
//!    the fork's HEAD that is read again. That is as good, since a collection by the other drive deletes
//!    only what it has found unreached twice, listing refs and then HEADs each time. If it did not see the version in the fork the
//!    first time, the fork had let go of it by then. The ref either is there before refs are listed the second time, and is seen; or the
//!    fork's HEAD is read behind that, and shows that the version is not kept any more.
//! 3. The fork's first root is put, then its HEAD. It keeps the version where the two part as a snapshot of its own.
//!    All of this may be done again after a crash: whatever HEAD is there then is the fork's.
//! 4. The ref is taken away: the fork's HEAD holds the version now. Then the journal is pushed to the fork as to any
//!    drive, and its space is freed by the fork's commits.
//!
//! A fork can be taken over like any drive, also before its device knows that its HEAD is there. Then what that device
//! has is a fork of the fork.

use crate::drive::{self, DriveError};
use crate::fence::Relation;
use crate::format::head::{self, Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Root, Snapshot};
use crate::journal::{Journal, JournalError};
use crate::map::{self, Objects, ReadError};
use crate::push::{Device, now_ms};
use crate::store::{Etag, StoreError, When, immutable};
use crate::units::{Epoch, Lsn};
use crate::volume::{Base, Fork};
use bytes::Bytes;
use std::cmp::Reverse;
use uuid::Uuid;

mod kept;
mod reference;

pub(crate) use kept::{deposed_at, is_kept_copy, labels, no_longer_needed, root_of_taker};
pub use kept::{is_for_absent, is_fork_point, is_reserved, shown};
pub use reference::forget as forget_references;
pub(crate) use reference::forget_begun;

/// Between the name of the drive and that of the device whose fork it is.
const BETWEEN: &str = " (fork from ";

/// Why a fork cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// No version that the changes build on is kept any more.
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

/// What the store is said to do where [`ForkError::Raced`] is to be tried again.
pub(crate) fn raced() -> StoreError {
    let reason = "another computer is changing the drive".to_owned();
    StoreError::Busy { reason, retry_after: None }
}

/// Where a fork begins.
struct Point {
    /// The drive that keeps the version: the one that it forks from, or another fork of that. None where nobody keeps it:
    /// the drive's version does not descend from it.
    keeper: Option<Uuid>,
    id: ObjectId,
    hash: [u8; 32],
    root: Root,
}

/// How much of a journal a version contains: the last record, and its own CRC.
pub(crate) fn contained(root: &Root, journal: &Journal) -> (Lsn, u32) {
    let own = root.lineage.iter().find(|lineage| lineage.journal == journal.uuid());
    own.map_or((Lsn(0), 0), |own| (own.cut, own.crc))
}

/// What wants to become a fork.
pub(crate) struct Branch<'a> {
    /// Its changes.
    pub journal: &'a Journal,
    /// The version that is remembered, and the epoch in which its device has the other drive.
    pub base: &'a Base,
    /// The version to begin with must contain all records up to here.
    pub least: Lsn,
    /// Its device.
    pub device: &'a Device,
}

/// The fork's HEAD and current version: those that are there, or the first ones.
pub(crate) async fn begin(
    objects: &Objects,
    fork: &Fork,
    branch: &Branch<'_>,
) -> Result<(Head, Etag, Root), ForkError> {
    // Looked for first: once it is there, the other drive need not keep anything for it any more.
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

/// Whether there is a version in the store that a fork of the drive `of` can begin with.
pub(crate) async fn can_begin(objects: &Objects, of: Uuid, branch: &Branch<'_>) -> Result<(), ForkError> {
    point(objects, of, branch).await.map(drop)
}

/// The latest version of the drive `of` that the journal goes on from and that is still kept, or is the one that this device
/// remembers and nothing of it is missing.
async fn point(objects: &Objects, of: Uuid, branch: &Branch<'_>) -> Result<Point, ForkError> {
    let (head, _, root) = match drive::last_here(objects, of).await {
        // The store is another one than that in which the drive was.
        Err(DriveError::Read(error)) if error.is_missing() => return Err(ForkError::Gone),
        found => found.map_err(no_version)?,
    };
    let kept = root.snapshots.iter().map(|kept| kept.root).chain([head.root, head.parent]);
    // Of a drive that has moved to another store nothing is kept in this one: collections of other drives pass it over.
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

/// Of these versions, each with the drive that keeps it, the latest that is there and that the journal goes on from.
async fn latest(
    objects: &Objects,
    mut candidates: Vec<(Option<Uuid>, ObjectId)>,
    branch: &Branch<'_>,
) -> Result<Option<Point>, ForkError> {
    let base = branch.base;
    // First those that are likely, so that few roots are read. The root itself decides.
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

/// Whether a journal goes on from the version `root`: the others' part of it is what this device remembers, and the journal
/// holds all records that its own part lacks.
fn goes_on_from(branch: &Branch<'_>, root: &Root, id: ObjectId) -> Result<bool, JournalError> {
    let Branch { journal, base, least, .. } = *branch;
    let is_own = match base.lineage {
        Some(_) => base.relation(root, journal.uuid()) == Relation::Own,
        // Of a program that remembered only the epoch, in which it was the only one to commit.
        None => id.epoch.0 == base.epoch || base.id() == Some(id),
    };
    let (cut, crc) = contained(root, journal);
    let is_there = journal.first() <= cut.next() && cut <= journal.appended() && cut >= least;
    // The CRC stands for all records up to the cut: a copy of this device's files may have gone another way.
    Ok(is_own && is_there && journal.crc_of(cut)?.is_none_or(|own| own == crc || cut == Lsn(0)))
}

/// What forks of the drive of `head` keep as what they began with, each with the fork. The drive may have let go of it.
async fn kept_by_forks(objects: &Objects, head: &Head) -> Result<Vec<(Option<Uuid>, ObjectId)>, ReadError> {
    let mut kept = Vec::new();
    for other in drive::heads(objects.store().as_ref(), objects.sealer()).await? {
        if other.drive == head.drive {
            continue;
        }
        let root = match objects.root(other.root, Some(other.root_hash)).await {
            // That drive cannot be had either.
            Err(error) if error.is_missing() => continue,
            root => root?,
        };
        let points = root.snapshots.iter().filter(|kept| kept::is_fork_point(&kept.label));
        kept.extend(points.map(|kept| (Some(other.drive), kept.root)));
    }
    Ok(kept)
}

/// The epoch of a fork's first version.
fn first_epoch(base: &Base) -> Epoch {
    Epoch(base.epoch + 1)
}

/// Makes the fork's first version and its HEAD, held by its device.
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
    let (id, root_hash) = drive::put_root(store, objects.sealer(), &root).await?;
    let head = Head {
        drive: fork.drive,
        epoch,
        // The same at every try: of two, one that comes late is not another HEAD beside the first, on no store.
        nonce: fork.drive.as_u128(),
        device: device.id,
        device_name: device.name.clone(),
        state: HeadState::Held,
        written_ms: now_ms(),
        root: id,
        root_hash,
        parent: root.parent,
        moved_to: Vec::new(),
    };
    let name = head::name(fork.drive);
    let body = Bytes::from(head.encode(objects.sealer()));
    let put = match store.put(&name, body.clone(), When::Absent).await {
        // Of an earlier try, which names another root. What is there decides, below; only that something is there is asked here.
        Err(StoreError::Precondition { .. }) => immutable::holds(store, &name, &body).await.map(drop),
        put => put.map(drop),
    };
    let found = match current(objects, fork).await {
        // The answer to the put tells more than that there is nothing yet.
        Err(ForkError::Read(error)) if error.is_missing() => {
            return Err(put.err().map_or(error, ReadError::from).into());
        }
        found => found?,
    };
    // One that stays keeps no more than the fork does, and the next collection takes it away.
    let _ = store.delete(&reference).await;
    Ok(found)
}

/// What a fork is called in the store: "work (fork from laptop, 2026-11-20)". A fork of a fork is not named after both.
pub fn name(of: &str, device_name: &str, made_ms: u64) -> String {
    let of = of.split(BETWEEN).next().unwrap_or(of);
    let (year, month, day) = date(made_ms);
    format!("{of}{BETWEEN}{device_name}, {year:04}-{month:02}-{day:02})")
}

/// Whether [`name`] may have made it.
pub fn is_name_of_fork(name: &str) -> bool {
    name.contains(BETWEEN)
}

/// Year, month and day in UTC of a Unix time in ms, by the proleptic Gregorian calendar.
fn date(ms: u64) -> (u64, u64, u64) {
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

/// A drive that was removed, or whose current version cannot be had.
fn no_version(error: DriveError) -> ForkError {
    match error {
        DriveError::Read(error) => ForkError::Read(error),
        DriveError::Raced => ForkError::Raced,
        DriveError::Removed
        | DriveError::Moved { .. }
        | DriveError::Held { .. }
        | DriveError::NoSnapshot(_) => ForkError::Gone,
    }
}

/// Whether who wrote `head` may still have changes on top of the version that it names: another device, or an opening that this one does not remember (a copy of its files may).
pub(crate) fn deposes(head: &Head, device: &Device, base: Option<&Base>) -> bool {
    let remembered = base.is_some_and(|base| base.epoch == head.epoch.0);
    head.state == HeadState::Held && (head.device != device.id || !remembered)
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
