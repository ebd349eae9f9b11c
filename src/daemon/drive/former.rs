//! The store that a drive had before one of its replicas took its place.
//!
//! It has to be told, or another computer that only knows its address would go on committing there. One that was away at
//! the promotion is told once it is back: that is written down together with the drive's new address, and tried for as long as
//! it takes.

use super::Drive;
use crate::api::{Code, Failure};
use crate::daemon::failure;
use crate::daemon::registry::FormerStore;
use holdall_core::drive::{self as core_drive, DriveError};
use holdall_core::family::Unlocked;
use holdall_core::format::head::Head;
use holdall_core::map::{Objects, PageCache};
use holdall_core::replica;
use holdall_core::retry::Backoff;
use holdall_core::units::Epoch;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the drive's store may take to be asked for its newest version before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the store that a drive has so far stands.
pub(super) enum Former {
    /// It has this HEAD.
    There(Arc<Objects>, Box<Head>),
    /// It was given up before.
    Retired,
    /// It cannot be reached.
    Away,
}

impl Drive {
    /// The drive in its present store. One that cannot be reached counts as lost; one that answers and does not give the drive, because
    /// its account was closed, say, or its bucket emptied, where a person says so. Whatever else is wrong with it, or with us, is told.
    pub(super) async fn former(&self, is_given_up: bool) -> Result<Former, Failure> {
        let asked = async {
            let (objects, _) = self.objects().await?;
            match core_drive::current(&objects, self.uuid()).await {
                Ok((head, _, _)) => Ok(Former::There(objects, Box::new(head))),
                Err(DriveError::Removed | DriveError::Moved { .. }) => Ok(Former::Retired),
                Err(error) => Err(failure::drive(&error)),
            }
        };
        let Ok(answered) = tokio::time::timeout(PATIENCE, asked).await else { return Ok(Former::Away) };
        answered.or_else(|failure| match failure.code {
            Code::Offline => Ok(Former::Away),
            Code::Credentials | Code::NotFound | Code::Corrupt if is_given_up => Ok(Former::Away),
            Code::Credentials | Code::NotFound | Code::Corrupt => Err(failure::store_does_not_give(failure)),
            _ => Err(failure),
        })
    }

    /// Begins to tell the stores that the drive has left, unless that is being done.
    pub fn tell_former_stores(self: &Arc<Self>) {
        let some = !self.config.lock().former.is_empty();
        if some && !self.telling.swap(true, Ordering::SeqCst) {
            let drive = self.clone();
            tokio::spawn(async move { drive.tell_until_told().await });
        }
    }

    /// Tells them, however long they are away.
    async fn tell_until_told(self: Arc<Self>) {
        let mut backoff = Backoff::unwatched();
        loop {
            let former = self.config.lock().former.clone();
            for store in former {
                if let Err(failure) = self.tell(&store).await {
                    tracing::info!(
                        drive = self.name,
                        store = store.store,
                        message = failure.message,
                        "a former store cannot be told yet that the drive has moved"
                    );
                }
            }
            if self.has_told_all() {
                return;
            }
            tokio::time::sleep(backoff.next(None)).await;
        }
    }

    /// Whether nothing is left to tell, or nobody to tell it. What is promoted from now on is told by another task.
    fn has_told_all(self: &Arc<Self>) -> bool {
        let is_known = self
            .known
            .upgrade()
            .is_some_and(|known| known.lock().get(&self.name).is_some_and(|drive| Arc::ptr_eq(drive, self)));
        let config = self.config.lock();
        let done = config.former.is_empty() || !is_known;
        if done {
            self.telling.store(false, Ordering::SeqCst);
        }
        done
    }

    /// Tells the store at `url` now, if it is one that the drive has left.
    pub(super) async fn tell_if_former(&self, url: &str) -> Result<(), Failure> {
        let left = self.config.lock().former.iter().find(|former| former.store == url).cloned();
        match left {
            Some(former) => self.tell(&former).await,
            None => Ok(()),
        }
    }

    /// Tells all of them now, before nobody is left here who knows of it.
    pub(super) async fn tell_all_former(&self) -> Result<(), Failure> {
        let former = self.config.lock().former.clone();
        for former in former {
            let why = match tokio::time::timeout(PATIENCE, self.tell(&former)).await {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure.message,
                Err(_) => "It does not answer.".to_owned(),
            };
            return Err(failure::former_store_untold(&self.name, &former.store, &self.store_url(), &why));
        }
        Ok(())
    }

    async fn tell(&self, former: &FormerStore) -> Result<(), Failure> {
        let key = self.registry.key(&self.name).map_err(|error| failure::local(&error))?;
        let there = self.stores.family(&former.store, &self.meter()).await?;
        let unlocked = Unlocked::with_key(there.family, key);
        let objects = Objects::new(there.store, unlocked.sealer.clone(), PageCache::none());
        let (now, device) = (self.store_url(), self.registry.device());
        let left_at = Epoch(former.left_at);
        let told = replica::retire_former(&objects, self.uuid(), left_at, &now, device).await;
        let told = told.map_err(|error| failure::drive(&error))?;
        tracing::info!(
            drive = self.name,
            store = former.store,
            told,
            "a former store knows that the drive has moved"
        );
        self.remember(|config| config.former.retain(|left| left != former))
    }
}
