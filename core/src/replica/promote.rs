//! Making a store a replica, and a replica the primary.
//!
//! The device that updates the replica may not know of a promotion: it may still reach the former store and continue. It puts the record of
//! a version, then looks whether the replica has a HEAD, and only then deletes what that version does not need; older versions may need it.
//! A promotion puts HEAD first, and then lists the records again. So there are two cases. The device's look finds the HEAD: nothing is
//! deleted. Or HEAD was put after that look: then the record from before the look is in the listing, and HEAD continues to its version. If
//! a promotion is cut off in between, the next try does the rest, unless another device has committed there by then: it is too late then.

use super::record;
use crate::drive::{self, DriveError};
use crate::fork;
use crate::format::family::{Family, Mode};
use crate::format::head::{self, Head, HeadState};
use crate::format::id::ObjectId;
use crate::map::{self, Objects, ReadError};
use crate::push::{Device, now_ms};
use crate::seal::Sealer;
use crate::store::connect::with_heads;
use crate::store::{Etag, Store, StoreError, When};
use crate::units::Epoch;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

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
) -> Result<Option<(Head, Etag)>, ReplicaError> {
    let name = head::name(drive);
    match replica.get(&name, None).await {
        Ok(found) => match Head::decode(sealer, &found.bytes) {
            Ok(head) => Ok(Some((head, found.etag))),
            Err(error) => Err(ReadError::Format { name, error }.into()),
        },
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
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
    Head::decode(sealer, &bytes).map_err(|error| ReadError::Format { name: name.to_owned(), error })
}

/// The version with which the replica would become the primary: the newest one that is complete there.
///
/// A replica to which the drive has moved, and which it has left again, also has versions from before that. They are old, and the drive
/// lives on elsewhere. Only a version that came later, from a primary of a later epoch, shows that the store is a replica again. If there
/// is none, this is refused. A caller that `accepts_loss` gets the drive as it was when it left: of older versions some objects may be
/// deleted here.
pub async fn candidate(replica: &Objects, drive: Uuid, accepts_loss: bool) -> Result<Head, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let newest = newest(store, sealer, drive).await?;
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

fn order(version: ObjectId) -> (Epoch, u64) {
    (version.epoch, version.seq)
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
    /// Its HEAD. No device holds it.
    pub head: Head,
    /// The former primary's HEAD of the version with which the replica begins.
    pub with: Head,
}

/// Makes the replica's newest version its HEAD, held by no device, in an epoch above all known ones. `replica` is the store with HEADs by
/// the mode of its family there.
pub async fn promote(
    replica: &Objects,
    drive: Uuid,
    promotion: Promotion,
    device: &Device,
) -> Result<Promoted, ReplicaError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let newest = newest(store, sealer, drive).await?;
    let before = head_there(store, sealer, drive).await?;
    let newest = match &before {
        Some((head, etag)) if head.state.is_here() => {
            if let Some(with) = not_gone_on_from(replica, head).await.map_err(unsure)? {
                go_on(replica, (head.clone(), etag.clone()), with, promotion, device).await?;
            }
            return Err(ReplicaError::Already);
        }
        // A store from which the drive was retired is no longer a primary.
        Some((head, _)) => choose(newest, head, sealer, promotion.accepts_loss)?,
        None => newest,
    };
    let primary = put_head(replica, &newest, before, promotion, device).await?;
    let (head, later) = go_on(replica, primary, newest.root, promotion, device).await?;
    Ok(Promoted { head, with: later.unwrap_or(newest) })
}

/// The version with which a primary began, if no device has it open and none has committed since.
async fn not_gone_on_from(replica: &Objects, head: &Head) -> Result<Option<ObjectId>, ReadError> {
    if head.state != HeadState::Released {
        return Ok(None);
    }
    if head.root.epoch < head.epoch {
        return Ok(Some(head.root));
    }
    let root = replica.root(head.root, Some(head.root_hash)).await?;
    Ok(Some(head.parent).filter(|_| fork::is_kept_copy(&root)))
}

/// Moves HEAD from the version `with`, of which `primary` was just made, to a later one whose record is there by now. Returns the final
/// HEAD, and the record's if it is a later one.
///
/// The replica is the primary already, so the next try has to repeat whatever fails here.
async fn go_on(
    replica: &Objects,
    mut primary: (Head, Etag),
    mut with: ObjectId,
    promotion: Promotion,
    device: &Device,
) -> Result<(Head, Option<Head>), ReplicaError> {
    let mut last = None;
    while let Some(later) = later_than(replica, primary.0.drive, with).await.map_err(unsure)? {
        let put = put_head(replica, &later, Some(primary), promotion, device).await;
        primary = put.map_err(|error| match error {
            ReplicaError::Read(error) => unsure(error),
            error => error,
        })?;
        with = later.root;
        last = Some(later);
    }
    Ok((primary.0, last))
}

/// The newest version in the replica that is later than the version `than`. A record that cannot be read does not count: the device that
/// put it does not believe it is there either, and deletes nothing because of it.
async fn later_than(replica: &Objects, drive: Uuid, than: ObjectId) -> Result<Option<Head>, ReadError> {
    let (store, sealer) = (replica.store().as_ref(), replica.sealer());
    let than = record::name_of(drive, than);
    for name in record::names(store, drive).await?.iter().rev().take_while(|name| **name > than) {
        let decode = |bytes: &[u8]| Head::decode(sealer, bytes);
        match map::read(store, name, None, decode).await {
            Ok((head, _)) => return Ok(Some(head)),
            Err(ReadError::Format { .. }) => {}
            // It was tidied away: there is a later one.
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn unsure(error: ReadError) -> ReplicaError {
    ReplicaError::Unsure(match error {
        ReadError::Store(error) => error,
        ReadError::Format { name, error } => StoreError::Damaged { name, reason: error.to_string() },
    })
}

/// Puts a HEAD over the HEAD `before`. It makes the version of the record `newest` the current one.
async fn put_head(
    replica: &Objects,
    newest: &Head,
    before: Option<(Head, Etag)>,
    promotion: Promotion,
    device: &Device,
) -> Result<(Head, Etag), ReplicaError> {
    let store = replica.store().as_ref();
    // The version is what its record says, and can be read.
    let version = replica.root(newest.root, Some(newest.root_hash)).await?;
    let known = before.as_ref().map_or(Epoch(0), |(head, _)| head.epoch);
    let epoch = Epoch(known.max(newest.epoch).max(promotion.above).0 + 1);
    let may_depose = promotion.is_away && newest.state == HeadState::Held && newest.device != device.id;
    let kept = may_depose.then(|| fork::root_of_taker(newest, &version, epoch, device, None)).flatten();
    let (root, root_hash, parent) = match kept {
        Some(kept) => {
            let (id, hash) = drive::put_root(store, replica.sealer(), &kept).await?;
            (id, hash, newest.root)
        }
        None => (newest.root, newest.root_hash, newest.parent),
    };
    let head = Head {
        epoch,
        root,
        root_hash,
        parent,
        nonce: crate::entropy::u128(),
        device: device.id,
        device_name: device.name.clone(),
        state: HeadState::Released,
        written_ms: now_ms(),
        moved_to: Vec::new(),
        ..newest.clone()
    };
    let name = head::name(newest.drive);
    let version_of = |head: &Head| (head.epoch, head.nonce);
    let old = before.as_ref().map(|(head, _)| version_of(head));
    let when = before.map_or(When::Absent, |(_, etag)| When::Matches(etag));
    let encoded = Bytes::from(head.encode(replica.sealer()));
    let error = match store.put(&name, encoded.clone(), when).await {
        Ok(etag) => return Ok((head, etag)),
        Err(error) => error,
    };
    match store.get(&name, None).await {
        // The answer was lost.
        Ok(found) if found.bytes == encoded => Ok((head, found.etag)),
        // Another HEAD is there now, so the put cannot be applied later. The same HEAD under another etag is no proof: on a store without
        // compare-and-swap a device that came too late may have passed it on to a turn below ours.
        Ok(found) if old.is_none() || head::peek(&found.bytes) != old => {
            match Head::decode(replica.sealer(), &found.bytes) {
                Ok(head) if !head.state.is_here() => Err(error.into()),
                Ok(_) | Err(_) => Err(ReplicaError::Already),
            }
        }
        Ok(_) | Err(StoreError::NotFound { .. }) if error.was_refused() => Err(error.into()),
        Ok(_) | Err(_) => Err(ReplicaError::Unsure(error)),
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
    if records.iter().filter_map(|name| record::epoch(name)).any(|epoch| epoch >= left.at) {
        return Ok(Told::Already);
    }
    let (head, etag) = match drive::head(objects, drive).await {
        Err(DriveError::Removed | DriveError::Moved { .. }) => return Ok(Told::Already),
        head => head?,
    };
    let left_behind = match (head.root.epoch, head.root.seq) > left.with {
        true => match objects.root(head.root, Some(head.root_hash)).await {
            Ok(root) => Some(drive::set_apart(objects, &head, &root, device).await?),
            Err(error) if error.is_transient() => return Err(error.into()),
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
