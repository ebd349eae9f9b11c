//! The drives of a store, for a person who adds one of them: their names are sealed, so listing them needs the passphrase or the key.

use crate::api::{self, Failure, StoreDrive};
use crate::daemon::drives::{Drives, secret};
use crate::daemon::{failure, status, stores};
use holdall_core::drive;
use holdall_core::family::{self, Unlocked};
use holdall_core::fork::is_name_of_fork;
use holdall_core::heads::Head;
use holdall_core::map::{Objects, PageCache};
use holdall_core::store::Store;
use holdall_core::store::connect::with_heads;
use holdall_core::store::meter::Meter;
use std::sync::Arc;

impl Drives {
    /// The drives in a store, forks last. Keeps nothing and changes nothing.
    pub async fn find_drives(&self, request: api::FindDrives) -> Result<Vec<StoreDrive>, Failure> {
        let url = stores::read(&request.store)?;
        let secret = secret(request.secrets)?;
        let credentials = match request.credentials {
            Some(given) => stores::credentials(&url, given)?,
            None => self.stores().credentials(&url).await?,
        };
        let reached = self.stores().reach(&url, &credentials, &Meter::default())?;
        let described = family::describe(&*reached).await;
        let family = described.map_err(|error| failure::at_new_store(failure::new_family(&error), &url))?;
        let store = with_heads(reached, family.mode);
        let unlocked = family::unlock_described(&*store, family, secret).await;
        let unlocked =
            unlocked.map_err(|error| failure::at_store(failure::family(&error), &url.to_string()))?;
        let objects = Objects::new(store.clone(), unlocked.sealer.clone(), PageCache::none());
        let mut found = Vec::new();
        for head in drives_here(&store, &unlocked, None).await? {
            let root = objects.root(head.root, Some(head.root_hash)).await;
            let root = root.map_err(|error| failure::read(&error))?;
            let known = self.all().into_iter().find(|known| known.uuid() == head.drive);
            found.push(StoreDrive {
                uuid: head.drive.to_string(),
                is_fork: is_name_of_fork(&root.name),
                current: status::current(&head, &root, self.device()),
                held: head.is_held(),
                known_as: known.map(|known| known.name.clone()),
                name: root.name,
            });
        }
        found.sort_by(|one, other| (one.is_fork, &one.name).cmp(&(other.is_fork, &other.name)));
        Ok(found)
    }
}

/// The drives of a family in this store, or why it has none. `name` is the name that the wanted drive will get.
pub async fn drives_here(
    store: &Arc<dyn Store>,
    unlocked: &Unlocked,
    name: Option<&str>,
) -> Result<Vec<Head>, Failure> {
    let heads = drive::all_heads(&**store, &unlocked.sealer).await.map_err(|error| failure::read(&error))?;
    let (here, gone): (Vec<_>, Vec<_>) = heads.into_iter().partition(|head| head.state.is_here());
    if !here.is_empty() {
        return Ok(here);
    }
    if gone.iter().any(|head| head.has_moved()) {
        let to = gone.iter().find_map(|head| head.address(&unlocked.sealer));
        return Err(failure::added_where_it_was(to.as_deref(), name));
    }
    Err(failure::family(&family::FamilyError::Unfinished))
}
