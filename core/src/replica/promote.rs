//! Making a store a replica, and a replica the primary.
//!
//! The device that updates the replica may not know of a promotion: it may still reach the former store and continue. It puts the record of
//! a version, then looks whether the replica has a HEAD, and only then deletes what that version does not need; older versions may need it.
//! A promotion puts a *provisional* HEAD first, and then lists the records again. So there are two cases. The device's look finds the HEAD:
//! nothing is deleted. Or HEAD was put after that look: then the record from before the look is in the listing, and HEAD continues to its
//! version. Only then does an ordinary HEAD follow the provisional one. If a promotion is cut off in between, the next try does the rest,
//! or the next opening by any device. Until then nothing else may follow, so nobody commits to a version that is not the newest one.
//!
//! Earlier programs put an ordinary HEAD at once. If no device has opened the drive since, and there is a later record, a promotion makes that
//! HEAD provisional and goes on.

use super::plan::{contains, order};
use super::record;
use crate::drive::{self, DriveError};
use crate::format::family::{Family, Mode};
use crate::format::head::{Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::heads::{self, Author, Device, Once, Swap, Version, kept, transition};
use crate::map::{self, Objects, ReadError};
use crate::seal::Sealer;
use crate::store::connect::with_heads;
use crate::store::{Etag, Store, StoreError, When};
use crate::units::Epoch;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// How often other devices may be faster before a promotion leaves the rest to them.
const OVERTAKEN_MAX: u32 = 8;
/// How often records may be tidied away between a listing and a read.
const LISTINGS_MAX: u32 = 8;

/// Why a store cannot be a replica, or become the primary.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// It holds other drives.
    #[error("the store holds other drives already")]
    OtherFamily,
    /// It never had a complete version of this drive.
    #[error("the store has no complete version of the drive")]
    Nothing,
    /// It is a primary itself: it was promoted, or was one from the start.
    #[error("the store is the drive's own, and no replica")]
    Already,
    /// The drive was here, and has left or was removed after the replica got its version.
    #[error(transparent)]
    Left(DriveError),
    /// The answer was lost: it may have become the primary, or may still do so.
    #[error("it is not known whether the replica took it: {0}")]
    Unsure(StoreError),
    /// The store failed, or an object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for ReplicaError {
    fn from(error: StoreError) -> Self {
        ReplicaError::Read(error.into())
    }
}

/// Prepares `replica` for drives of `family`, whose HEADs will change there by its own `mode`: copies the family's description, and its
/// wrapped keys as they are now. Also called after keys have changed. If another of the family's drives has its HEAD in `replica`, the keys
/// there are not touched: its passphrase may have been changed there since. Returns the description that is there.
pub async fn prepare(
    primary: &dyn Store,
    replica: &Arc<dyn Store>,
    family: &Family,
    sealer: &Sealer,
) -> Result<Family, ReplicaError> {
    let name = crate::format::family::NAME;
    let there = match replica.get(name, None).await {
        Ok(found) => {
            let found = Family::decode(&found.bytes);
            let found = found.map_err(|error| ReadError::Format { name: name.to_owned(), error })?;
            if (found.family, found.cipher) != (family.family, family.cipher) {
                return Err(ReplicaError::OtherFamily);
            }
            found
        }
        Err(StoreError::NotFound { .. }) => {
            replica.put(name, Bytes::from(family.encode()), When::Absent).await?;
            family.clone()
        }
        Err(error) => return Err(error.into()),
    };
    let names = |listed: Vec<crate::store::Listed>| listed.into_iter().map(|listed| listed.name);
    let wanted: BTreeSet<_> = names(primary.list("keys/").await?).collect();
    let present: BTreeSet<_> = names(replica.list("keys/").await?).collect();
    if wanted == present || is_primary(replica, there.mode, sealer).await? {
        return Ok(there);
    }
    for key in wanted.difference(&present) {
        let body = primary.get(key, None).await?.bytes;
        replica.put(key, body, When::Always).await?;
    }
    // A passphrase that no longer opens the primary must not open the replica.
    for key in present.difference(&wanted).filter(|_| !wanted.is_empty()) {
        replica.delete(key).await?;
    }
    Ok(there)
}

/// Whether any drive of the family has its HEAD in `replica`. A HEAD that cannot be read counts.
async fn is_primary(replica: &Arc<dyn Store>, mode: Mode, sealer: &Sealer) -> Result<bool, ReplicaError> {
    match drive::heads(&*with_heads(replica.clone(), mode), sealer).await {
        Ok(heads) => Ok(!heads.is_empty()),
        Err(ReadError::Format { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a store in which the drive has a HEAD of its own: it was promoted, or is the primary of others. A replica's worker must not put
/// or delete anything there. If the drive was there and is no longer, returns the epoch of the HEAD that says so.
pub async fn check_no_primary(
    replica: &Arc<dyn Store>,
    mode: Mode,
    sealer: &Sealer,
    drive: Uuid,
) -> Result<Option<Epoch>, ReplicaError> {
    match head_there(&*with_heads(replica.clone(), mode), sealer, drive).await? {
        Some((head, _)) if head.state.is_here() => Err(ReplicaError::Already),
        head => Ok(head.map(|(head, _)| head.epoch)),
    }
}

/// The HEAD that the drive has or had in the replica. `replica` is that store with HEADs by the mode of its family.
async fn head_there(
    replica: &dyn Store,
    sealer: &Sealer,
    drive: Uuid,
) -> Result<Option<(Head, Etag)>, ReadError> {
    match heads::read(replica, sealer, drive).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The primary's HEAD of the newest version of a drive that is complete in the replica.
pub async fn newest(replica: &dyn Store, sealer: &Sealer, drive: Uuid) -> Result<Head, ReplicaError> {
    let names = record::names(replica, drive).await?;
    let name = names.last().ok_or(ReplicaError::Nothing)?;
    Ok(read(replica, sealer, name).await?)
}

/// The same for each drive that has a replica here.
pub(crate) async fn newest_of_all(
    replica: &dyn Store,
    sealer: &Sealer,
) -> Result<(Vec<String>, Vec<Head>), ReadError> {
    let (records, newest) = record::newest_of_all(replica).await?;
    let mut heads = Vec::new();
    for mut name in newest {
        let head = loop {
            match read(replica, sealer, &name).await {
                // It was tidied away, because there are later ones by now.
                Err(error) if error.is_missing() => match record::newest_after(replica, &name).await? {
                    Some(later) => name = later,
                    None => return Err(error),
                },
                read => break read?,
            }
        };
        heads.push(head);
    }
    Ok((records, heads))
}

async fn read(replica: &dyn Store, sealer: &Sealer, name: &str) -> Result<Head, ReadError> {
    let bytes = replica.get(name, None).await?.bytes;
    record::decode(sealer, name, &bytes).map_err(|error| ReadError::Format { name: name.to_owned(), error })
}

/// The newest version with which a replica can become the primary, as [`newest`]. A caller that `accepts_loss` gets an older one if the newest
/// is lost: if its record or its root is damaged, or is listed and cannot be found.
async fn newest_usable(replica: &Objects, drive: Uuid, accepts_loss: bool) -> Result<Head, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    if !accepts_loss {
        return newest(store, sealer, drive).await;
    }
    let mut first = None;
    for name in record::names(store, drive).await?.iter().rev() {
        let record = read(store, sealer, name).await;
        let root = match &record {
            Ok(record) => replica.root(record.root, Some(record.root_hash)).await.err(),
            Err(_) => None,
        };
        match (record, root) {
            (Ok(record), None) => return Ok(record),
            (Err(error), _) | (Ok(_), Some(error)) if error.is_transient() => return Err(error.into()),
            (Ok(record), Some(error)) => {
                tracing::error!(%error, "a version of a replica is lost");
                first.get_or_insert(Ok(record));
            }
            (Err(error), _) => {
                tracing::error!(%error, "a record of a replica is lost");
                first.get_or_insert(Err(ReplicaError::Read(error)));
            }
        }
    }
    // If none is usable, the newest one is what the caller asked for.
    first.unwrap_or(Err(ReplicaError::Nothing))
}

/// The version with which the replica would become the primary: the newest one that is complete there.
///
/// A replica to which the drive has moved, and which it has left again, also has versions from before that. They are old, and the drive
/// lives on elsewhere. Only a version that came later, from a primary of a later epoch, shows that the store is a replica again. If there
/// is none, this is refused. A caller that `accepts_loss` gets the drive as it was when it left: of older versions some objects may be
/// deleted here. Such a caller also gets an older version if the newest one is lost.
pub async fn candidate(replica: &Objects, drive: Uuid, accepts_loss: bool) -> Result<Head, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let newest = newest_usable(replica, drive, accepts_loss).await?;
    match head_there(store, sealer, drive).await? {
        Some((head, _)) => choose(newest, &head, sealer, accepts_loss),
        None => Ok(newest),
    }
}

fn choose(newest: Head, there: &Head, sealer: &Sealer, accepts_loss: bool) -> Result<Head, ReplicaError> {
    match drive::check_here(there, sealer) {
        Err(gone) if newest.epoch <= there.epoch => match there.state {
            _ if !accepts_loss => Err(ReplicaError::Left(gone)),
            HeadState::Moved if order(there.root) > order(newest.root) => Ok(there.clone()),
            _ => Ok(newest),
        },
        _ => Ok(newest),
    }
}

/// How a replica is to become the primary.
#[derive(Clone, Copy, Debug)]
pub struct Promotion {
    /// Its epoch there is higher than this one.
    pub above: Epoch,
    /// The former store cannot be asked, and another device may have the drive there. Then the version that this other device continues is
    /// kept. So its changes that are not uploaded can become a fork here, should that store never come back.
    pub is_away: bool,
    /// Also if the drive may live on elsewhere: see [`candidate`].
    pub accepts_loss: bool,
}

/// A replica that has become the primary.
#[derive(Clone, Debug)]
pub struct Promoted {
    /// Its HEAD.
    pub head: Head,
    /// The version with which the replica begins, as the former primary named it.
    pub with: ObjectId,
}

/// Makes the replica's newest version its HEAD, held by no device, in an epoch above all known ones. `replica` is the store with HEADs by
/// the mode of its family there. Continues a promotion that was cut off.
pub async fn promote(
    replica: &Objects,
    drive: Uuid,
    promotion: Promotion,
    device: &Device,
) -> Result<Promoted, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let before = head_there(store, sealer, drive).await?;
    let primary = match before {
        Some(there) if there.0.is_provisional() => there,
        before => begin(replica, (drive, before), promotion, device).await?,
    };
    finish(replica, primary, promotion, device).await.map_err(now_unsure)
}

/// Puts the first provisional HEAD, over the HEAD `before`.
async fn begin(
    replica: &Objects,
    (drive, before): (Uuid, Option<(Head, Etag)>),
    promotion: Promotion,
    device: &Device,
) -> Result<(Head, Etag), ReplicaError> {
    let newest = newest_usable(replica, drive, promotion.accepts_loss).await?;
    let first = match before {
        Some(there) if there.0.state.is_here() => return take_up(replica, there).await.map_err(now_unsure),
        // A store from which the drive was retired is no longer a primary.
        Some((ref head, _)) => choose(newest, head, replica.sealer(), promotion.accepts_loss)?,
        None => newest,
    };
    let root = replica.root(first.root, Some(first.root_hash)).await?;
    match put_head(replica, (&first, &root), before, promotion, device).await {
        // It may be the one of an earlier try, which arrived late.
        Err(ReplicaError::Already) => provisional_there(replica, drive).await.map_err(now_unsure),
        put => put,
    }
}

/// The HEAD of a store that is a primary, if its promotion is not finished.
async fn provisional_there(replica: &Objects, drive: Uuid) -> Result<(Head, Etag), ReplicaError> {
    let there = head_there(replica.store().as_ref(), replica.sealer(), drive).await?;
    there.filter(|(head, _)| head.is_provisional()).ok_or(ReplicaError::Already)
}

/// Takes a promotion up again that an earlier program ended, or that was cut off there, if a later version has reached the replica and no
/// device has opened the drive since.
async fn take_up(replica: &Objects, (head, etag): (Head, Etag)) -> Result<(Head, Etag), ReplicaError> {
    let with = begun_with_and_closed(replica, &head).await?.ok_or(ReplicaError::Already)?;
    later_than(replica, (head.drive, with), &[], false).await?.ok_or(ReplicaError::Already)?;
    let next = transition::take_up(&head).map_err(|_| ReplicaError::Already)?;
    swap(replica, Some(&(head, etag)), next).await
}

/// The version with which a primary began, if no device has it open and none has changed it since.
async fn begun_with_and_closed(replica: &Objects, head: &Head) -> Result<Option<ObjectId>, ReadError> {
    if head.state != HeadState::Released {
        return Ok(None);
    }
    if head.root.epoch < head.epoch {
        return Ok(Some(head.root));
    }
    let root = replica.root(head.root, Some(head.root_hash)).await?;
    if !kept::is_kept_copy(&root) {
        return Ok(None);
    }
    let parent = replica.root(head.parent, None).await?;
    Ok((parent.name == root.name).then_some(head.parent))
}

/// The HEAD of a replica that has become the primary, and the newest version of the former primary that it is known to contain: `NONE` if
/// nothing is known.
///
/// Another device may have ended the promotion, and written since. A record may have come too late for that.
pub async fn promoted_with(replica: &Objects, drive: Uuid) -> Result<Promoted, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let (head, _, root) = match drive::current(replica, drive).await {
        Ok(current) => current,
        Err(DriveError::Read(error)) => return Err(error.into()),
        Err(gone) => return Err(ReplicaError::Left(gone)),
    };
    for name in record::names(store, drive).await?.iter().rev() {
        let version = match read(store, sealer, name).await {
            Ok(record) => record,
            Err(error) if error.is_transient() => return Err(error.into()),
            // It was tidied away, or says nothing.
            Err(_) => continue,
        };
        if head.root == version.root {
            return Ok(Promoted { head, with: version.root });
        }
        match replica.root(version.root, Some(version.root_hash)).await {
            Ok(other) if contains(&root, &other) => {
                return Ok(Promoted { head, with: version.root });
            }
            Err(error) if error.is_transient() => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(Promoted { head, with: ObjectId::NONE })
}

/// Ends a promotion that was cut off, for a device that opens the drive. It does not know whether another device has the drive in the former
/// store, so the version that such a device continues is kept.
pub(crate) async fn finish_interrupted(
    replica: &Objects,
    primary: (Head, Etag),
    device: &Device,
) -> Result<(Head, Etag), ReplicaError> {
    let promotion = Promotion { above: primary.0.epoch, is_away: true, accepts_loss: false };
    go_on(replica, primary, promotion, device).await.map(|(primary, _)| primary)
}

/// Moves HEAD from the version with which a promotion has begun to the newest one whose record is there by now, and ends the promotion.
///
/// As long as HEAD is provisional, nobody else does anything else with it. So whatever is cut off here, the next promotion or the next
/// opening does the rest.
async fn finish(
    replica: &Objects,
    primary: (Head, Etag),
    promotion: Promotion,
    device: &Device,
) -> Result<Promoted, ReplicaError> {
    let ((head, _), with) = go_on(replica, primary, promotion, device).await?;
    Ok(Promoted { head, with })
}

async fn go_on(
    replica: &Objects,
    mut primary: (Head, Etag),
    promotion: Promotion,
    device: &Device,
) -> Result<((Head, Etag), ObjectId), ReplicaError> {
    let drive = primary.0.drive;
    for _ in 0..OVERTAKEN_MAX {
        match go_on_from(replica, primary, promotion, device).await {
            // Another HEAD is there: another device does the same at this moment, and may be cut off.
            Err(ReplicaError::Already) => primary = provisional_there(replica, drive).await?,
            done => return done,
        }
    }
    Err(ReplicaError::Already)
}

async fn go_on_from(
    replica: &Objects,
    mut primary: (Head, Etag),
    promotion: Promotion,
    device: &Device,
) -> Result<((Head, Etag), ObjectId), ReplicaError> {
    let (mut with, mut lost) = (begun_with(&primary.0), Vec::new());
    while let Some(later) =
        later_than(replica, (primary.0.drive, with), &lost, promotion.accepts_loss).await?
    {
        let root = match replica.root(later.root, Some(later.root_hash)).await {
            Err(error) if promotion.accepts_loss && !error.is_transient() => {
                tracing::error!(%error, "the newest version of a replica is lost: it is left out");
                lost.push(later.root);
                continue;
            }
            root => root?,
        };
        with = later.root;
        primary = put_head(replica, (&later, &root), Some(primary), promotion, device).await?;
    }
    let next = transition::finish(&primary.0, Author::new(device)).map_err(|_| ReplicaError::Already)?;
    Ok((swap(replica, Some(&primary), next).await?, with))
}

/// The version with which a promotion that is not finished has begun. HEAD names that version itself, or a copy that was made in the same
/// epoch.
fn begun_with(provisional: &Head) -> ObjectId {
    match provisional.root.epoch < provisional.epoch {
        true => provisional.root,
        false => provisional.parent,
    }
}

/// The newest version in the replica that is later than the version `than`, without those that are `lost`. A record that cannot be read does
/// not count: the device that put it does not believe it is there either, and deletes nothing because of it.
///
/// A record that is listed and not found is an error, unless the caller `accepts_loss`: the store may just be slow to show it.
async fn later_than(
    replica: &Objects,
    (drive, than): (Uuid, ObjectId),
    lost: &[ObjectId],
    accepts_loss: bool,
) -> Result<Option<Head>, ReadError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let than = record::name_of(drive, than);
    let mut names = record::names(store, drive).await?;
    let mut listings = 1;
    while let Some(name) = names.pop().filter(|name| *name > than) {
        let decode = |bytes: &[u8]| record::decode(sealer, &name, bytes);
        match map::read(store, &name, None, decode).await {
            Ok((head, _)) if lost.contains(&head.root) => {}
            Ok((head, _)) => return Ok(Some(head)),
            Err(ReadError::Format { .. }) => {}
            Err(error) if error.is_missing() && accepts_loss => {
                tracing::error!(%error, "the record of a later version is lost: it is left out");
            }
            Err(error) if error.is_missing() && listings < LISTINGS_MAX => {
                names = record::names(store, drive).await?;
                if names.contains(&name) {
                    return Err(error);
                }
                // It was tidied away: there are later ones by now.
                listings += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// After the first HEAD was put, the replica is the primary: the next try has to repeat whatever fails.
fn now_unsure(error: ReplicaError) -> ReplicaError {
    match error {
        ReplicaError::Read(error) => ReplicaError::Unsure(heads::as_store_error(error)),
        error => error,
    }
}

/// Puts a HEAD over the HEAD `before`. It makes the version of the record `newest`, whose root can be read, the current one, until the promotion
/// ends.
async fn put_head(
    replica: &Objects,
    (newest, root): (&Head, &Root),
    before: Option<(Head, Etag)>,
    promotion: Promotion,
    device: &Device,
) -> Result<(Head, Etag), ReplicaError> {
    let epoch = transition::promoted_epoch(before.as_ref().map(|(head, _)| head), newest, promotion.above);
    let may_depose = promotion.is_away && newest.state == HeadState::Held && newest.device != device.id;
    let kept = may_depose.then(|| kept::root_of_taker(newest, root, epoch, device, None)).flatten();
    let version = match kept {
        Some(kept) => heads::put_root(replica.store().as_ref(), replica.sealer(), &kept).await?,
        None => Version::of(newest),
    };
    let known = before.as_ref().map(|(head, _)| head);
    let next = transition::promote(known, newest, (epoch, version), Author::new(device));
    let next = next.map_err(|_| ReplicaError::Already)?;
    swap(replica, before.as_ref(), next).await
}

async fn swap(
    replica: &Objects,
    before: Option<&(Head, Etag)>,
    next: Head,
) -> Result<(Head, Etag), ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let before = before.map(|(head, etag)| (head, etag));
    match heads::swap(store, sealer, before, next, &mut Once).await {
        Swap::Applied(head, etag) => Ok((head, etag)),
        Swap::Lost(now) => match drive::check_here(&now, sealer) {
            Ok(()) => Err(ReplicaError::Already),
            // Another device may have finished this promotion before the drive left this store again. So nothing is taken back.
            Err(gone) => {
                Err(ReplicaError::Unsure(StoreError::Busy { reason: gone.to_string(), retry_after: None }))
            }
        },
        // On a store without compare-and-swap, the same HEAD in another turn is no proof: a device that came too late may have passed it on
        // to a turn below ours.
        Swap::Unknown(error) => Err(ReplicaError::Unsure(error)),
        Swap::Refused(error) => Err(error.into()),
    }
}

/// A store that the drive has left while that store was away.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The epoch with which the drive began in its new store.
    pub at: Epoch,
    /// Epoch and number of the version with which the drive began there.
    pub with: (Epoch, u64),
}

/// The outcome of telling a former store.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// There is nothing to tell: another device may have done it.
    Already,
    /// It knows now.
    Now {
        /// The name there of the drive that has the newest version, if the new store lacks that version.
        left_behind: Option<String>,
    },
}

/// Tells the drive's former store, which was away when a replica of it was promoted, that the drive has moved `to` another store. The drive
/// continues there from the version that it `left` with. A device that has the drive open here is fenced, and its changes that are not
/// uploaded become a fork. A version that was uploaded here and did not reach the replica becomes a drive of its own here.
///
/// Another device may have told the store already. The drive may even live here again by now, if this store became a replica of the new one
/// and was promoted: then it has a record of a version that is not older than the promotion.
pub async fn retire_former(
    objects: &Objects,
    drive: Uuid,
    left: Left,
    to: &str,
    device: &Device,
) -> Result<Told, DriveError> {
    let records = record::names(objects.store().as_ref(), drive).await?;
    // A copy that the promotion made, to keep the version for another device, has the epoch before the one in which it was finished.
    if records.iter().filter_map(|name| record::epoch(name)).any(|epoch| epoch.0 + 1 >= left.at.0) {
        return Ok(Told::Already);
    }
    let there = match drive::head(objects, drive).await {
        Err(DriveError::Removed | DriveError::Moved { .. }) => return Ok(Told::Already),
        head => head?,
    };
    // This store was itself promoted before, and that was cut off.
    let (head, etag) = match there.0.is_provisional() {
        true => finish_interrupted(objects, there, device).await.map_err(unfinished)?,
        false => there,
    };
    let left_behind = match (head.root.epoch, head.root.seq) > left.with {
        true => match objects.root(head.root, Some(head.root_hash)).await {
            Ok(root) => Some(drive::set_apart(objects, &head, &root, device).await?),
            Err(error) if error.is_transient() => return Err(error.into()),
            // That it is not found is no proof that it is gone: the store may be slow to show it.
            Err(error) if error.is_missing() && is_listed(objects, head.root).await? => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::error!(%error, "what a former store has that the new one lacks cannot be read");
                None
            }
        },
        false => None,
    };
    // If a device commits first, this fails, and the next try looks again.
    drive::retire_over_others(objects, (&head, etag), to, device).await?;
    Ok(Told::Now { left_behind })
}

/// Whether the store lists the root of a version.
async fn is_listed(objects: &Objects, version: ObjectId) -> Result<bool, StoreError> {
    let name = version.name(ObjectKind::Root);
    Ok(objects.store().list("root/").await?.iter().any(|listed| listed.name == name))
}

/// Why a former store cannot be told: its own promotion cannot be finished.
fn unfinished(error: ReplicaError) -> DriveError {
    match error {
        ReplicaError::Read(error) => error.into(),
        ReplicaError::Unsure(error) => error.into(),
        ReplicaError::Left(gone) => gone,
        ReplicaError::OtherFamily | ReplicaError::Nothing | ReplicaError::Already => DriveError::Raced,
    }
}
