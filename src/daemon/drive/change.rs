//! Changing a drive as a whole: its size, its passphrase, whether this computer knows it.

use super::Drive;
use super::lock::lock_if_there;
use super::opened::{OpenDrive, grow};
use crate::api::{self, Action, Failure};
use crate::daemon::{drives, failure, largest};
use holdall_core::drive::DriveError;
use holdall_core::family::Unlocked;
use holdall_core::map::Objects;
use holdall_core::store::Store;
use holdall_core::{drive, family, fork};
use std::sync::Arc;
use tokio::sync::MutexGuard;

/// How a person discards changes that exist only here.
const UNSENT_OR_ELSE: Option<Action> = Some(Action::AcceptUnsentLoss);

impl Drive {
    /// Grows the drive, mounted or not.
    pub async fn resize(self: &Arc<Self>, size_bytes: u64) -> Result<(), Failure> {
        let size = drives::check_size(size_bytes)?;
        largest::check(&self.registry.paths().cache, size_bytes)?;
        let mut open = self.open.lock().await;
        if let Some(open) = &mut *open {
            open.check_writable(&self.name)?;
            return open.grow(size).await;
        }
        drop(open);
        self.with_volume(async |volume| grow(volume, size).await).await?;
        // Nobody will open the drive only to upload this.
        self.upload_in_background();
        Ok(())
    }

    /// Changes what unlocks the family.
    pub async fn change_passphrase(&self, passphrase: String) -> Result<(), Failure> {
        let passphrase = drives::check_passphrase(passphrase)?;
        let (store, unlocked) = self.unlock_ours().await?;
        let changed = family::change_passphrase(&*store, &unlocked, passphrase).await;
        changed.map_err(|error| failure::family(&error))?;
        self.share_keys().await;
        Ok(())
    }

    /// Makes another recovery key for the family and shows it once. The former key no longer opens the family.
    pub async fn new_recovery_key(self: &Arc<Self>) -> Result<api::RecoveryKey, Failure> {
        let (store, unlocked) = self.unlock_ours().await?;
        let made = family::new_recovery_key(&*store, &unlocked).await;
        let (key, former) = made.map_err(|error| failure::family(&error))?;
        if let Err(error) = &former {
            tracing::warn!(drive = self.name, %error, "the old recovery key could not be deleted");
        }
        // A replica must not delay a key that is shown only once.
        let drive = self.clone();
        tokio::spawn(async move { drive.share_keys().await });
        Ok(api::RecoveryKey { recovery_key: key.to_text(), former_stays: former.is_err() })
    }

    /// The store and the keys, if the drive is still there: another family may have taken its place, whose keys are not ours to replace.
    async fn unlock_ours(&self) -> Result<(Arc<dyn Store>, Unlocked), Failure> {
        self.current().await?;
        self.unlock().await
    }

    /// Forgets the drive here. A removal that a power cut has interrupted is finished when it is asked for again.
    pub async fn remove(self: &Arc<Self>, request: &api::Remove) -> Result<api::Removed, Failure> {
        let mut open = self.open.lock().await;
        let was_draining = self.finish_draining(&mut open, request.discard_unsent, UNSENT_OR_ELSE).await?;
        let removed = self.remove_locked(&open, request).await;
        drop(open);
        if removed.is_err() && was_draining {
            self.upload_in_background();
        }
        removed
    }

    /// Puts down a drive that was closed and is still being uploaded. Refuses if some of its changes are only on this computer, unless they
    /// are discarded. Returns whether there was anything to put down.
    pub(super) async fn finish_draining(
        self: &Arc<Self>,
        open: &mut MutexGuard<'_, Option<OpenDrive>>,
        discard_unsent: bool,
        or_else: Option<Action>,
    ) -> Result<bool, Failure> {
        let Some(opened) = open.as_ref().filter(|opened| opened.draining) else { return Ok(false) };
        if !discard_unsent && opened.volume.has_unsent() {
            return Err(self.only_here(opened.volume.status().unpushed_bytes, or_else));
        }
        self.finish(open).await;
        Ok(true)
    }

    /// Removes it for a caller that holds the lock: nobody can open the drive from then on until it is gone.
    pub(super) async fn remove_locked(
        self: &Arc<Self>,
        open: &Option<OpenDrive>,
        request: &api::Remove,
    ) -> Result<api::Removed, Failure> {
        if open.is_some() {
            let action = Action::Close { drive: Some(self.name.clone()), wait: true };
            return Err(failure::state("The drive is open.", action));
        }
        self.check_closed(open)?;
        if !request.discard_unsent {
            self.check_nothing_aside(UNSENT_OR_ELSE)?;
            match request.delete_data {
                true => self.check_nothing_unsent(UNSENT_OR_ELSE).await?,
                false => self.check_leaves_nothing_unsent(UNSENT_OR_ELSE).await?,
            }
        }
        // Until it is forgotten, nobody opens it: not in this process or another, not under this name or another.
        let _locks = (
            lock_if_there(&self.registry.directory(&self.name))?,
            lock_if_there(&self.registry.cache_directory(self.uuid()))?,
        );
        let told = self.tell_all_former().await;
        if !request.discard_unsent {
            told?;
        }
        self.let_go_at_last().await;
        let mut removed = api::Removed::default();
        if request.delete_data {
            let (objects, _) = self.objects().await?;
            match drive::remove(&objects, self.uuid(), self.registry.device()).await {
                // A fork that the store does not know.
                Err(DriveError::Read(error))
                    if error.is_missing() && self.config.lock().fork_of.is_some() =>
                {
                    let forgotten = fork::forget_references(objects.store().as_ref(), self.uuid()).await;
                    forgotten.map_err(|error| failure::store(&error))?;
                }
                removed => drop(removed.map_err(|error| failure::drive(&error))?),
            }
            removed = left_behind(&objects, &self.store_url()).await;
        }
        self.registry.forget(&self.name, self.uuid()).map_err(|error| failure::local(&error))?;
        Ok(removed)
    }
}

/// The objects that the store still has after a drive's data was deleted. This is for display: if the store does not answer now, the data
/// was deleted all the same.
async fn left_behind(objects: &Objects, url: &str) -> api::Removed {
    let store = objects.store().as_ref();
    let (Ok(all), Ok(here), Ok(keys)) = (
        drive::all_heads(store, objects.sealer()).await,
        drive::heads(store, objects.sealer()).await,
        store.list("keys/").await,
    ) else {
        return api::Removed::default();
    };
    left_words(all.len() - here.len().min(all.len()), here.len(), keys.len(), url)
}

/// The same in words. Pure.
fn left_words(removed: usize, here: usize, keys: usize, url: &str) -> api::Removed {
    if here > 0 {
        let others = if here == 1 { "another drive".to_owned() } else { format!("{here} other drives") };
        let left = format!("At {url}: {others}, with all data.");
        return api::Removed { left: Some(left), action: None };
    }
    let note = match removed {
        0 | 1 => "a note that the drive was removed".to_owned(),
        _ => format!("notes that {removed} drives were removed"),
    };
    let (keys, passphrase) = match keys {
        0 => ("", ""),
        _ => (", the wrapped keys", " with the same passphrase"),
    };
    let left = format!("At {url}: family.json{keys}, and {note}, so that other computers notice.");
    let action = format!(
        "You can create a new drive there{passphrase}. To free all space, delete everything at that address once no other \
         computer has the drive."
    );
    api::Removed { left: Some(left), action: Some(action) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_exactly_what_a_removed_drive_leaves() {
        let words = |removed, here, keys| {
            let told = left_words(removed, here, keys, "file:///s");
            (told.left.unwrap(), told.action)
        };
        let (left, action) = words(1, 0, 2);
        assert_eq!(
            left,
            "At file:///s: family.json, the wrapped keys, and a note that the drive was removed, so that other computers notice."
        );
        assert!(action.unwrap().starts_with("You can create a new drive there with the same passphrase. "));
        let (left, action) = words(2, 0, 0);
        assert!(
            left.starts_with("At file:///s: family.json, and notes that 2 drives were removed"),
            "{left}"
        );
        assert!(action.unwrap().starts_with("You can create a new drive there. "));
        assert_eq!(words(1, 2, 2), ("At file:///s: 2 other drives, with all data.".to_owned(), None));
    }
}
