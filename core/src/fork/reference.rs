//! The refs of forks: a ref holds the version with which a fork is to begin until the fork's HEAD does.
//!
//! Every try to begin a fork with the same version puts the same ref: its name follows from the fork, the version and the version's keeper.
//! So anyone who finds a ref knows whose it is. It can be deleted as soon as that fork has a HEAD, or is abandoned.

use super::{ForkError, Point};
use crate::drive::{self, DriveError};
use crate::format::head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::heads::Device;
use crate::local::Fork;
use crate::map::{Objects, ReadError};
use crate::reach::{Reference, ReferenceKind, reach};
use crate::store::{Store, StoreError, When, immutable};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Puts the ref of a fork that is to begin at `point`. Until the fork has a HEAD, the ref is deleted only if the version is lost for good:
/// its keeper no longer keeps it and never will again, or, without a keeper, an object of it is missing. So a delete of an earlier try that
/// arrives late deletes nothing that a later try relies on. That is also why the name depends on the keeper.
pub(super) async fn hold(
    objects: &Objects,
    fork: &Fork,
    point: &Point,
    device: &Device,
) -> Result<String, ForkError> {
    let (store, root) = (objects.store().as_ref(), point.id);
    let salt = match point.keeper {
        Some(keeper) if keeper == fork.of => 0,
        Some(keeper) => keeper.as_u128(),
        None => fork.drive.as_u128(),
    };
    let name = format!("{}{:032x}", references_of(fork.drive), root.unique ^ salt);
    let reference = Reference::new(fork.of, root, ReferenceKind::Fork, device, fork.made_ms);
    let body = reference.encode();
    match store.put(&name, body.clone(), When::Absent).await {
        // An earlier try put it, perhaps while this device had another name. It must be there: nothing else holds the version.
        Err(StoreError::Precondition { .. }) => drop(immutable::holds(store, &name, &body).await?),
        put => drop(put?),
    }
    match is_held(objects, fork, point).await {
        Ok(true) => return Ok(name),
        Ok(false) | Err(DriveError::Removed | DriveError::Moved { .. }) => {}
        Err(error) => return Err(super::no_version(error)),
    }
    store.delete(&name).await?;
    Err(ForkError::Raced)
}

/// Whether a version stays in the store, now that a ref holds it.
///
/// If no drive keeps the version, the ref comes too late for a collection that has listed refs already and is about to delete. There is no
/// point in waiting for that: without the ref the next collection would delete the whole version.
async fn is_held(objects: &Objects, fork: &Fork, point: &Point) -> Result<bool, DriveError> {
    let root = point.id;
    let Some(keeper) = point.keeper else {
        drive::last_here(objects, fork.of).await?;
        return Ok(is_whole(objects, root, &point.root).await?);
    };
    let (head, _, now) = match keeper == fork.of {
        true => drive::last_here(objects, keeper).await?,
        // A keeper that has moved to another store keeps nothing in this one. And the removal of a drive looks only once at what others
        // need, so the ref is in time only if the drive has not been removed yet.
        false => {
            drive::last_here(objects, fork.of).await?;
            drive::current(objects, keeper).await?
        }
    };
    match head.state.is_here() {
        true => Ok(drive::keeps(&head, &now, root)),
        // It has moved in the meantime.
        false => Ok(is_whole(objects, root, &point.root).await?),
    }
}

/// Whether no object of a version is missing.
pub(crate) async fn is_whole(objects: &Objects, id: ObjectId, root: &Root) -> Result<bool, ReadError> {
    let mut needed = BTreeSet::from([(ObjectKind::Root, id)]);
    match reach(objects, root, &mut needed).await {
        Err(error) if error.is_missing() => return Ok(false),
        reached => reached?,
    }
    let mut there = BTreeSet::new();
    for prefix in ["seg/", "root/"] {
        let listed = objects.store().list(prefix).await?;
        there.extend(listed.iter().filter_map(|listed| ObjectId::parse(&listed.name)));
    }
    Ok(needed.is_subset(&there))
}

/// The beginning of the names of the refs of a fork, or of another drive that begins with a version of an earlier one.
fn references_of(fork: Uuid) -> String {
    format!("ref/{}-", fork.simple())
}

/// The name of a new ref that holds a version until the drive `begun` with it has a HEAD.
pub(crate) fn new_reference(begun: Uuid) -> String {
    format!("{}{:032x}", references_of(begun), crate::entropy::u128())
}

/// Deletes the refs of a fork that is abandoned, or has a HEAD.
pub async fn forget(store: &dyn Store, fork: Uuid) -> Result<(), StoreError> {
    for listed in store.list(&references_of(fork)).await? {
        store.delete(&listed.name).await?;
    }
    Ok(())
}

/// Deletes the refs of all forks that have a HEAD: it holds what they held, for as long as that is needed.
pub(crate) async fn forget_begun(store: &dyn Store) -> Result<(), StoreError> {
    for (_, name) in begun(store).await?.0 {
        store.delete(&name).await?;
    }
    Ok(())
}

/// The refs of forks and clones that have no HEAD, each with the drive that it was put for.
pub(crate) async fn without_head(store: &dyn Store) -> Result<Vec<(Uuid, String)>, StoreError> {
    Ok(begun(store).await?.1)
}

/// The refs of forks and clones: of those that have a HEAD, and of those that have none.
async fn begun(store: &dyn Store) -> Result<(Vec<(Uuid, String)>, Vec<(Uuid, String)>), StoreError> {
    let references = store.list("ref/").await?.into_iter().filter_map(|listed| {
        let fork = Uuid::try_parse(listed.name.strip_prefix("ref/")?.split_once('-')?.0).ok()?;
        Some((fork, listed.name))
    });
    let references: Vec<_> = references.collect();
    if references.is_empty() {
        return Ok(Default::default());
    }
    let heads = store.list("head/").await?;
    let has_head = |(fork, _): &(Uuid, String)| heads.iter().any(|listed| listed.name == head::name(*fork));
    Ok(references.into_iter().partition(has_head))
}
