//! Making a store a replica, and a replica the primary.

use super::record;
use crate::drive::{self, DriveError};
use crate::fork;
use crate::format::family::{Family, Mode};
use crate::format::head::{self, Head, HeadState};
use crate::map::{Objects, ReadError};
use crate::push::{Device, now_ms};
use crate::seal::Sealer;
use crate::store::connect::with_heads;
use crate::store::{Store, StoreError, When};
use crate::units::Epoch;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// Why a store cannot be a replica, or become the primary.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// It holds something else.
    #[error("the store holds other drives already")]
    OtherFamily,
    /// It never had a version of this drive whole.
    #[error("the store has no complete version of the drive")]
    Nothing,
    /// It is a primary itself: it was promoted, or was one from the beginning.
    #[error("the store is the drive's own, and no replica")]
    Already,
    /// The store failed, or an object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for ReplicaError {
    fn from(error: StoreError) -> Self {
        ReplicaError::Read(error.into())
    }
}

/// Readies `replica` for drives of `family`, whose HEADs will change there as its own `mode` says: brings the family's
/// description, and its wrapped keys as they are now. Also called when keys have changed.
/// Returns the description that is there.
pub async fn prepare(
    primary: &dyn Store,
    replica: &dyn Store,
    family: &Family,
) -> Result<Family, ReplicaError> {
    let name = crate::format::family::NAME;
    let there = match replica.get(name, None).await {
        Ok(found) => {
            let found = Family::decode(&found.bytes);
            let found = found.map_err(|error| ReadError::Format { name: name.to_owned(), error })?;
            if found.family != family.family {
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
    for key in wanted.difference(&present) {
        let body = primary.get(key, None).await?.bytes;
        replica.put(key, body, When::Always).await?;
    }
    // A passphrase that opens nothing at the primary any more opens nothing here.
    for key in present.difference(&wanted).filter(|_| !wanted.is_empty()) {
        replica.delete(key).await?;
    }
    Ok(there)
}

/// Refuses a store in which the drive has a HEAD of its own: it was promoted, or is the primary of others. Nothing may be
/// put or deleted there on a replica's behalf.
pub async fn check_no_primary(
    replica: &Arc<dyn Store>,
    mode: Mode,
    sealer: &Sealer,
    drive: Uuid,
) -> Result<(), ReplicaError> {
    let name = head::name(drive);
    match with_heads(replica.clone(), mode).get(&name, None).await {
        Ok(found) => match Head::decode(sealer, &found.bytes) {
            Ok(head) if !head.state.is_here() => Ok(()),
            Ok(_) => Err(ReplicaError::Already),
            Err(error) => Err(ReadError::Format { name, error }.into()),
        },
        Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The primary's HEAD of the newest version of a drive that the replica has whole.
pub async fn newest(replica: &dyn Store, sealer: &Sealer, drive: Uuid) -> Result<Head, ReplicaError> {
    let names = record::names(replica, drive).await?;
    let name = names.last().ok_or(ReplicaError::Nothing)?;
    Ok(read(replica, sealer, name).await?)
}

/// The same of each drive that has a replica here.
pub(crate) async fn newest_of_all(replica: &dyn Store, sealer: &Sealer) -> Result<Vec<Head>, ReadError> {
    let mut newest = Vec::new();
    for name in record::newest_of_all(replica).await? {
        newest.push(read(replica, sealer, &name).await?);
    }
    Ok(newest)
}

async fn read(replica: &dyn Store, sealer: &Sealer, name: &str) -> Result<Head, ReadError> {
    let bytes = replica.get(name, None).await?.bytes;
    Head::decode(sealer, &bytes).map_err(|error| ReadError::Format { name: name.to_owned(), error })
}

/// Makes the replica's newest version its HEAD, in an epoch above all that is known, held by nobody. `replica` is the store
/// with HEADs as its family there says. If the former store `is_away`, another device may have the drive there: then that version
/// is kept, since what that device has not uploaded goes on from it, and becomes a fork here should that store never come back.
pub async fn promote(
    replica: &Objects,
    drive: Uuid,
    above: Epoch,
    is_away: bool,
    device: &Device,
) -> Result<Head, ReplicaError> {
    let store = replica.store().as_ref();
    let newest = newest(store, replica.sealer(), drive).await?;
    // It is what its record says, and can be read.
    let version = replica.root(newest.root, Some(newest.root_hash)).await?;
    let name = head::name(drive);
    let before = match store.get(&name, None).await {
        Ok(found) => {
            let head = Head::decode(replica.sealer(), &found.bytes)
                .map_err(|error| ReadError::Format { name: name.clone(), error })?;
            // One that was retired is a primary no more.
            if head.state.is_here() {
                return Err(ReplicaError::Already);
            }
            Some((head.epoch, found.etag))
        }
        Err(StoreError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let known = before.as_ref().map_or(Epoch(0), |(epoch, _)| *epoch);
    let epoch = Epoch(known.max(newest.epoch).max(above).0 + 1);
    let may_depose = is_away && newest.state == HeadState::Held && newest.device != device.id;
    let (root, root_hash, parent) = match may_depose {
        true => fork::keep_deposed(replica, &newest, version, epoch, device).await?.1,
        false => (newest.root, newest.root_hash, newest.parent),
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
        ..newest
    };
    let when = before.map_or(When::Absent, |(_, etag)| When::Matches(etag));
    let put = store.put(&name, Bytes::from(head.encode(replica.sealer())), when).await;
    if let Err(error) = put {
        // The answer may have been lost.
        let found = store.get(&name, None).await?.bytes;
        if found[..] != head.encode(replica.sealer())[..] {
            return Err(error.into());
        }
    }
    Ok(head)
}

/// Tells the drive's former store, which was away when a replica of it was promoted, that the drive has moved `to` where it
/// has had no epoch below `left_at`. Whoever goes on here is fenced, and what only that device has becomes a fork.
///
/// Returns whether it had to be told: another device may have done it. It may even have become the drive's store again since,
/// by way of having been a replica of the new one: then it has a record of a version that is not older than `left_at`.
pub async fn retire_former(
    objects: &Objects,
    drive: Uuid,
    left_at: Epoch,
    to: &str,
    device: &Device,
) -> Result<bool, DriveError> {
    let records = record::names(objects.store().as_ref(), drive).await?;
    if records.iter().filter_map(|name| record::epoch(name)).any(|epoch| epoch >= left_at) {
        return Ok(false);
    }
    match drive::retire_over_others(objects, drive, to, device).await {
        Err(DriveError::Removed | DriveError::Moved { .. }) => Ok(false),
        told => told.map(|()| true),
    }
}
