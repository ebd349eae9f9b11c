//! Taking a drive that was opened while its store was away.
//!
//! Until the store answers, HEAD is what this device saw last, and nothing is pushed. Then HEAD is read. If it is still the
//! same, or the changes since are this device's own or change no data, it is swapped to the next epoch, and pushing begins.
//! Otherwise another device has the drive or has written to it, and the data written here meanwhile is a fork.

use super::PushError;
use super::requests::Queue;
use super::task::{Task, unless_forked};
use crate::fence::{Fence, Relation};
use crate::format::head::{Head, HeadState};
use crate::format::root::Root;
use crate::local::Base;
use crate::map::{Map, ReadError};
use crate::planted::{self, Bug};
use crate::replica::{self, ReplicaError};
use crate::retry::Backoff;
use crate::store::{Etag, StoreError};

/// Takes the drive, however long the store is away. Requests wait meanwhile. Returns `None` once the drive is closed.
pub(super) async fn first(task: &mut Task, queue: &mut Queue) -> Option<Result<(), PushError>> {
    let taken = {
        let mut taking = std::pin::pin!(task.take());
        loop {
            tokio::select! { biased;
                is_open = queue.grows() => if !is_open { return None },
                taken = &mut taking => break taken,
            }
        }
    };
    // These requests were for the drive, which another device has now.
    let _ = taken.as_ref().inspect_err(|error| queue.refuse(error));
    Some(taken.or_else(unless_forked))
}

impl Task {
    async fn take(&mut self) -> Result<(), PushError> {
        let taken = self.try_take().await;
        let taken = self.unless_fenced(taken).await;
        self.is_taken = true;
        self.publish.send_modify(|state| state.is_taken = true);
        taken
    }

    async fn try_take(&mut self) -> Result<(), PushError> {
        let mut backoff = Backoff::new();
        let map = loop {
            let (now, etag) = self.committer.read_head().await;
            if now.is_provisional() {
                self.finish_promotion((now, etag), &mut backoff).await?;
                continue;
            }
            let (root, map) = self.read_version(&now).await?;
            if let Some(own) = root.lineage.iter().find(|lineage| lineage.journal == self.journal.uuid()) {
                (self.committed, self.committed_crc) = (own.cut, own.crc);
            }
            let (epoch, base) = (now.epoch, self.remembers.base());
            self.committer.go_on_from((now, etag), root);
            match self.committer.take(base.as_ref()).await {
                // A commit in the same epoch came in between: one that an earlier process of this device had under way, or
                // another device's. HEAD, which is read again, says which.
                Err(PushError::Fenced(fence)) if fence.epoch == epoch && !fence.removed => {}
                taken => break taken.map(|()| map)?,
            }
        };
        self.map.rebase(map);
        // Data that turned out to be in the store already is not dirty.
        let frozen = self.journal.freeze();
        match frozen <= self.committed {
            true => self.journal.thaw(),
            false => self.frozen = Some(frozen),
        }
        self.announce();
        Ok(())
    }

    /// Finishes a promotion of the store that was cut off, or waits. Then HEAD is to be read again.
    async fn finish_promotion(&self, primary: (Head, Etag), backoff: &mut Backoff) -> Result<(), PushError> {
        let (objects, device) = (self.committer.objects(), self.committer.device());
        let error = match replica::finish_interrupted(objects, primary, device).await {
            Err(ReplicaError::Unsure(error)) => error,
            Err(ReplicaError::Read(ReadError::Store(error))) if error.is_transient() => error,
            Err(ReplicaError::Read(error)) => return Err(error.into()),
            Ok(_) => return Ok(()),
            // Another device was faster, or the store shows something else each time.
            Err(error) => StoreError::Busy { reason: error.to_string(), retry_after: None },
        };
        self.committer.wait(backoff, &error).await;
        Ok(())
    }

    /// The version that HEAD names and its map, however long the store is away; `Fenced` if this device may not continue
    /// from it.
    async fn read_version(&self, now: &Head) -> Result<(Root, Map), PushError> {
        let mut backoff = Backoff::new();
        loop {
            let found = match self.found(now).await {
                Ok(Some(root)) => self.open_map(&root).await.map(|map| (root, map)),
                Ok(None) => {
                    return Err(PushError::Fenced(Fence::by(now)));
                }
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => return Ok(found),
                Err(ReadError::Store(error)) if error.is_transient() => {
                    self.committer.wait(&mut backoff, &error).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn open_map(&self, root: &Root) -> Result<Map, ReadError> {
        Map::open(self.committer.objects().clone(), root).await
    }

    /// The version that HEAD names now, if this device may continue from it.
    async fn found(&self, now: &Head) -> Result<Option<Root>, ReadError> {
        let seen = self.committer.head();
        if now.nonce == seen.nonce || planted::has(Bug::TakenWithoutLooking) {
            return Ok(Some(self.committer.root().clone()));
        }
        let is_others = match now.state {
            HeadState::Removed | HeadState::Moved => true,
            HeadState::Held => now.device != self.committer.device().id,
            HeadState::Released => false,
        };
        if is_others {
            return Ok(None);
        }
        let root = self.committer.objects().root(now.root, Some(now.root_hash)).await?;
        Ok(self.continues(&root).then_some(root))
    }

    /// Whether no other device has written since this one last did, so that its journal continues from `root`.
    fn continues(&self, root: &Root) -> bool {
        let journal = self.journal.uuid();
        let is_own = |base: Base| base.relation(root, journal) == Relation::Own;
        if !self.remembers.base().is_some_and(is_own) {
            return false;
        }
        match root.lineage.iter().find(|lineage| lineage.journal == journal) {
            None => self.committed.0 == 0,
            Some(own) => {
                let is_same = |crc: Option<u32>| crc.is_none_or(|crc| crc == own.crc);
                (self.committed..=self.journal.appended()).contains(&own.cut)
                    && self.journal.crc_of(own.cut).is_ok_and(is_same)
            }
        }
    }
}
