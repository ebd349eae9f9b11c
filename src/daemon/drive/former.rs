//! The store that a drive had before one of its replicas took its place.
//!
//! It must learn of the promotion, or another computer that knows only its address would continue to commit there. A store that was away at
//! the promotion learns of it once it is back: the task is written down together with the drive's new address, and tried until it succeeds.

use super::Drive;
use crate::api::{ActivityKind, Code, Failure};
use crate::daemon::failure;
use crate::daemon::registry::FormerStore;
use holdall_core::drive::{self as core_drive, DriveError};
use holdall_core::heads::Head;
use holdall_core::map::{Objects, PageCache};
use holdall_core::replica::{self, Left, Told, plan};
use holdall_core::retry::Backoff;
use holdall_core::store::Etag;
use holdall_core::units::Epoch;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long the drive's store is asked for its newest version before it counts as lost: a lost answer is no answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The state of the drive's present store.
pub(super) enum Former {
    /// It has this HEAD.
    There(Arc<Objects>, Box<Head>, Etag),
    /// The drive has already left it: for the replica, or because a person says so.
    Retired,
    /// It cannot be reached.
    Away,
}

impl Former {
    /// The facts that decide about a promotion.
    pub(super) fn facts(&self) -> plan::Former<'_> {
        match self {
            Former::There(_, head, _) => plan::Former::There(head),
            Former::Retired => plan::Former::Retired,
            Former::Away => plan::Former::Away,
        }
    }
}

/// How often one task tries to tell a former store while others change its HEAD.
const TELL_TRIES: u32 = 8;

impl Drive {
    /// The drive in its present store. A store that cannot be reached counts as lost. A store that answers but does not give the drive (its
    /// account was closed, say, or its bucket emptied) counts as lost only if a person says so. Any other fault, in the store or here, is
    /// an error.
    ///
    /// A store that says that the drive has moved to `replica` counts as retired. If the drive moved elsewhere or was removed, it would
    /// live in two places: the store counts as retired only if a person says so.
    ///
    /// A store that asks for patience is there, and counts as lost only if a person says so.
    pub(super) async fn former(&self, replica: &str, is_given_up: bool) -> Result<Former, Failure> {
        let ask = || async {
            let (objects, _) = self.objects().await?;
            match core_drive::current(&objects, self.uuid()).await {
                Ok((head, etag, _)) => Ok(Former::There(objects, Box::new(head), etag)),
                Err(DriveError::Moved { to: Some(to) }) if to == replica => Ok(Former::Retired),
                Err(DriveError::Removed | DriveError::Moved { .. }) if is_given_up => Ok(Former::Retired),
                Err(error @ (DriveError::Removed | DriveError::Moved { .. })) => {
                    Err(failure::lives_elsewhere(failure::drive(&error)))
                }
                Err(error) => Err(failure::drive(&error)),
            }
        };
        let Some(answered) = until_answered(PATIENCE, ask).await else { return Ok(Former::Away) };
        answered.or_else(|failure| match failure.code {
            Code::Offline if failure.retry_after_s.is_some() && !is_given_up => {
                Err(failure::store_is_not_lost(failure))
            }
            Code::Offline => Ok(Former::Away),
            Code::Credentials | Code::NotFound | Code::Corrupt if is_given_up => Ok(Former::Away),
            Code::Credentials | Code::NotFound | Code::Corrupt => Err(failure::store_does_not_give(failure)),
            _ => Err(failure),
        })
    }

    /// Starts telling the stores that the drive has left, unless a task already does.
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
            let mut busy = None;
            for store in former {
                if let Err(failure) = self.tell(&store).await {
                    busy = busy.max(failure.retry_after());
                    tracing::info!(
                        drive = self.name,
                        store = store.store,
                        message = failure.message,
                        "a former store cannot be marked as moved yet"
                    );
                }
            }
            if self.has_told_all() {
                return;
            }
            tokio::time::sleep(backoff.next(busy)).await;
        }
    }

    /// Whether nothing is left to tell, or the drive is no longer known here. Another task tells a store that is left from now on.
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

    /// Tells all of them now, before this computer forgets the drive and with it these stores.
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
        let (store, unlocked) = self.unlock_at(&former.store, None).await?;
        let objects = Objects::new(store, unlocked.sealer.clone(), PageCache::none());
        let (now, device) = (self.store_url(), self.registry.device());
        let (epoch, seq) = former.left_with;
        let left = Left { at: Epoch(former.left_at), with: (Epoch(epoch), seq) };
        let mut tries = 0;
        let told = loop {
            tries += 1;
            match replica::retire_former(&objects, self.uuid(), left, &now, device).await {
                // Another task of this daemon, or another computer, tells it at the same time. The next look finds the result.
                Err(DriveError::Raced) if tries < TELL_TRIES => {}
                told => break told.map_err(|error| failure::drive(&error))?,
            }
        };
        tracing::info!(drive = self.name, store = former.store, ?told, "a former store is marked as moved");
        if let Told::Now { left_behind: Some(name) } = told {
            self.note(
                ActivityKind::Conflict,
                format!(
                    "The former store {} is back. It has changes that never reached {now}. Nothing is lost: they are there as \u{201c}{name}\u{201d}. \
                     To look at them, add that drive from there.",
                    former.store
                ),
            );
        }
        self.remember(|config| config.former.retain(|left| left != former))
    }
}

/// Asks, and repeats for up to `patience` while there is no answer or the store wants to be asked a little later. `None` if there was no
/// answer in all that time.
async fn until_answered<T, F>(patience: Duration, ask: impl Fn() -> F) -> Option<Result<T, Failure>>
where
    F: Future<Output = Result<T, Failure>>,
{
    let (end, mut backoff) = (Instant::now() + patience, Backoff::new());
    let mut busy = None;
    loop {
        let failure = match tokio::time::timeout_at(end, ask()).await {
            Ok(Err(failure)) if failure.code == Code::Offline => failure,
            Ok(answered) => return Some(answered),
            // A store that has asked for patience is there.
            Err(_) => return busy.map(Err),
        };
        if failure.retry_after_s.is_some() {
            busy = Some(failure.clone());
        }
        let again = Instant::now() + backoff.next(failure.retry_after());
        if again >= end {
            return Some(Err(failure));
        }
        tokio::time::sleep_until(again).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall_core::store::StoreError;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    /// Asks until all of these answers were given; returns when each was given.
    async fn ask(answers: &[Result<u8, StoreError>]) -> (Option<Result<u8, Code>>, Vec<u64>) {
        let (begun, asked) = (Instant::now(), Mutex::new(Vec::new()));
        let answered = until_answered(PATIENCE, || async {
            let mut asked = asked.lock().unwrap();
            asked.push(begun.elapsed().as_secs());
            let answer = answers.get(asked.len() - 1).unwrap_or_else(|| answers.last().unwrap());
            answer.clone().map_err(|error| failure::store(&error))
        })
        .await;
        (answered.map(|answered| answered.map_err(|failure| failure.code)), asked.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_lost_only_after_repeated_asking() {
        let lost = || Err(StoreError::Unreachable { reason: "the answer was lost".into() });
        let busy = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            Err(StoreError::Busy { reason: "slow down".into(), retry_after })
        };
        let (answered, asked) = ask(&[lost(), lost(), Ok(7)]).await;
        assert_eq!((answered, asked.len()), (Some(Ok(7)), 3));
        let (answered, asked) = ask(&[busy(5), Ok(7)]).await;
        assert!(answered == Some(Ok(7)) && asked[1] >= 5, "{asked:?}");
        let (answered, asked) = ask(&[lost()]).await;
        assert_eq!(answered, Some(Err(Code::Offline)));
        assert!(asked.len() > 3 && *asked.last().unwrap() >= PATIENCE.as_secs() / 3, "{asked:?}");
        // The store wants to be asked after the patience has ended.
        let (answered, asked) = ask(&[busy(60), Ok(7)]).await;
        assert_eq!((answered, asked.len()), (Some(Err(Code::Offline)), 1));
        let (answered, asked) = ask(&[Err(StoreError::Denied { reason: "no".into() })]).await;
        assert_eq!((answered, asked.len()), (Some(Err(Code::Credentials)), 1));
        let silent = until_answered(PATIENCE, std::future::pending::<Result<u8, Failure>>).await;
        assert!(silent.is_none());
        // A store that has asked for patience, and is slow then, is not lost either.
        let asked = AtomicU32::new(0);
        let slow = until_answered(PATIENCE, || async {
            if asked.fetch_add(1, Ordering::Relaxed) > 0 {
                return std::future::pending().await;
            }
            busy(5).map_err(|error| failure::store(&error))
        });
        assert!(matches!(slow.await, Some(Err(failure)) if failure.retry_after_s == Some(5)));
    }
}
