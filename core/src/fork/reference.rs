//! The refs of forks: they hold the version that a fork is to begin with until its HEAD does.
//!
//! Every try to begin a fork puts the same ref: its name and its bytes follow from the fork and the version. So whoever
//! finds one knows whose it is, and it can go as soon as that fork has a HEAD, or is given up.

use super::{ForkError, Point};
use crate::drive::{self, DriveError};
use crate::format::head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::map::{Objects, ReadError};
use crate::push::{Device, Reference, ReferenceKind};
use crate::store::{Store, StoreError, When, immutable};
use crate::volume::Fork;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Puts the ref of a fork that is to begin at `point`. It is taken away only where the keeper does not keep the version any more, and
/// so never will again: a delete of an earlier try that comes late takes away nothing that a later one relies on. So the name
/// follows from the keeper, too.
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
        // Of an earlier try, perhaps by this device under another name. It must be there, since nothing else holds the version.
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

/// Whether a version stays in the store, now that there is a ref to it.
///
/// For a version that no drive keeps the ref comes too late if a collection has listed refs already and is about to
/// delete. That is not waited for: without the ref the next collection would delete all of it.
async fn is_held(objects: &Objects, fork: &Fork, point: &Point) -> Result<bool, DriveError> {
    let root = point.id;
    let Some(keeper) = point.keeper else {
        drive::last_here(objects, fork.of).await?;
        return Ok(is_whole(objects, root, &point.root).await?);
    };
    let (head, _, now) = match keeper == fork.of {
        true => drive::last_here(objects, keeper).await?,
        // Of a fork that has moved to another store nothing is kept in this one; and when a drive is removed it is looked only once what
        // others need.
        false => {
            drive::last_here(objects, fork.of).await?;
            drive::current(objects, keeper).await?
        }
    };
    match head.state.is_here() {
        true => Ok(drive::keeps(&head, &now, root)),
        // It has moved since.
        false => Ok(is_whole(objects, root, &point.root).await?),
    }
}

/// Whether nothing is missing of a version.
pub(super) async fn is_whole(objects: &Objects, id: ObjectId, root: &Root) -> Result<bool, ReadError> {
    let mut needed = BTreeSet::from([(ObjectKind::Root, id)]);
    match crate::push::reach(objects, root, &mut needed).await {
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

/// What the names of a fork's refs begin with.
fn references_of(fork: Uuid) -> String {
    format!("ref/{}-", fork.simple())
}

/// Takes the refs of a fork away that is given up, or has a HEAD.
pub async fn forget(store: &dyn Store, fork: Uuid) -> Result<(), StoreError> {
    for listed in store.list(&references_of(fork)).await? {
        store.delete(&listed.name).await?;
    }
    Ok(())
}

/// Takes away the refs of all forks that have a HEAD: what they held is held by that, for as long as it is needed.
pub(crate) async fn forget_begun(store: &dyn Store) -> Result<(), StoreError> {
    let forks = store.list("ref/").await?.into_iter().filter_map(|listed| {
        let fork = Uuid::try_parse(listed.name.strip_prefix("ref/")?.split_once('-')?.0).ok()?;
        Some((fork, listed.name))
    });
    let forks: Vec<_> = forks.collect();
    if forks.is_empty() {
        return Ok(());
    }
    let heads = store.list("head/").await?;
    for (fork, name) in forks {
        if heads.iter().any(|listed| listed.name == head::name(fork)) {
            store.delete(&name).await?;
        }
    }
    Ok(())
}
