//! The refs of forks: they hold the version that a fork is to begin with until its HEAD does.
//!
//! Every try to begin a fork puts the same ref: its name and its bytes follow from the fork and the version. So whoever
//! finds one knows whose it is, and it can go as soon as that fork has a HEAD, or is given up.

use super::ForkError;
use crate::drive::{self, DriveError};
use crate::format::head;
use crate::format::id::ObjectId;
use crate::map::Objects;
use crate::push::{Device, Reference, ReferenceKind};
use crate::store::{Store, StoreError, When, immutable};
use crate::volume::Fork;
use uuid::Uuid;

/// Puts the ref of a fork that is to begin with the version `root`, which the drive `keeper` keeps. It is taken away only where that drive
/// does not keep the version any more, and so never will again: a delete of an earlier try that comes late takes away nothing that a later
/// one relies on. So the name follows from the keeper, too.
pub(super) async fn hold(
    objects: &Objects,
    fork: &Fork,
    (keeper, root): (Uuid, ObjectId),
    device: &Device,
) -> Result<String, ForkError> {
    let store = objects.store().as_ref();
    let is_of_itself = keeper == fork.of;
    let unique = root.unique ^ if is_of_itself { 0 } else { keeper.as_u128() };
    let name = format!("{}{unique:032x}", references_of(fork.drive));
    let reference = Reference::new(fork.of, root, ReferenceKind::Fork, device, fork.made_ms);
    let body = reference.encode();
    match store.put(&name, body.clone(), When::Absent).await {
        // Of an earlier try, perhaps by this device under another name. It must be there, since nothing else holds the version.
        Err(StoreError::Precondition { .. }) => drop(immutable::holds(store, &name, &body).await?),
        put => drop(put?),
    }
    let now = match is_of_itself {
        true => drive::last_here(objects, keeper).await,
        // Of a fork that has moved to another store nothing is kept in this one; and when a drive is removed it is looked only once what
        // others need.
        false => match drive::last_here(objects, fork.of).await {
            Ok(_) => drive::current(objects, keeper).await,
            gone => gone,
        },
    };
    match now {
        Ok((head, _, now)) if drive::keeps(&head, &now, root) => return Ok(name),
        Ok(_) | Err(DriveError::Removed | DriveError::Moved { .. }) => {}
        Err(error) => return Err(super::no_version(error)),
    }
    store.delete(&name).await?;
    Err(ForkError::Raced)
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
