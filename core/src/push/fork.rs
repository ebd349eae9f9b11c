//! A fenced writer continues as a fork, in place: the blocks that it serves stay the same, and its commits go to another
//! HEAD.

use super::PushError;
use super::commit::Committer;
use super::task::Task;
use crate::fence::Fence;
use crate::fork::{self, Branch, ForkError};
use crate::format::head::Head;
use crate::format::root::Root;
use crate::local::{Base, Fork};
use crate::map::{Map, ReadError};
use crate::planted::{self, Bug};
use crate::retry::Backoff;
use crate::store::Etag;

impl Task {
    /// If a result says "fenced", makes a fork and says "forked".
    pub(super) async fn unless_fenced<T>(&mut self, result: Result<T, PushError>) -> Result<T, PushError> {
        let Err(PushError::Fenced(fence)) = result else { return result };
        self.become_fork(&fence).await?;
        Err(PushError::Forked(fence))
    }

    /// Continues as a fork. Returns when the fork's HEAD is in the store, however long the store is away.
    async fn become_fork(&mut self, fence: &Fence) -> Result<(), PushError> {
        let fenced = || PushError::Fenced(fence.clone());
        let Some(base) = self.remembers.base().filter(|_| !fence.removed) else { return Err(fenced()) };
        let before = self.publish.borrow().fork.clone();
        let of = self.committer.head().drive;
        let mut fork = Fork::new(of, before.as_ref(), Some(&base), &fence.device_name);
        tracing::warn!(by = fence.device_name, drive = %fork.drive, "the drive was taken over; a fork begins");
        self.publish.send_modify(|state| state.pushing = false);
        // From here on the changes go to the fork or nowhere.
        self.remembers.forked(fork.clone()).await;
        let mut backoff = Backoff::new();
        let (head, etag, root, map) = loop {
            let error = match self.begin_fork(&fork, &base).await {
                // The fork's HEAD was put without an answer, and another device has taken the fork since.
                Ok((head, ..)) if head.device != self.committer.device().id => {
                    fork = Fork::new(fork.drive, Some(&fork), Some(&base), &head.device_name);
                    tracing::warn!(by = head.device_name, drive = %fork.drive, "the fork was taken over; it is forked");
                    self.remembers.forked(fork.clone()).await;
                    continue;
                }
                Ok(begun) => break begun,
                Err(ForkError::Journal(error)) => return Err(error.into()),
                Err(ForkError::Read(ReadError::Store(error))) if error.is_transient() => error,
                Err(ForkError::Raced) => fork::raced(),
                Err(error @ (ForkError::Gone | ForkError::Read(_))) => {
                    tracing::error!(%error, "no fork can be made; the changes stay in the journal");
                    return Err(fenced());
                }
            };
            self.committer.wait(&mut backoff, &error).await;
        };
        self.committer.no_trouble();
        (self.committed, self.committed_crc) = match planted::has(Bug::ForkWithoutItsJournal) {
            false => fork::contained(&root, &self.journal),
            true => (self.journal.appended(), 0),
        };
        if let Some(map) = map {
            self.map.rebase(map);
        }
        let (objects, device) = (self.committer.objects().clone(), self.committer.device().clone());
        let telling = (self.publish.clone(), self.committer.again().clone());
        self.committer = Committer::new(objects, device, (head, etag), root, telling);
        if self.frozen.is_some_and(|frozen| self.committed >= frozen) {
            self.journal.thaw();
            self.frozen = None;
        }
        self.publish.send_modify(|state| state.fork = Some(fork));
        self.announce();
        Ok(())
    }

    /// The fork's HEAD and its root, and its map if that is not the current one. The fork may begin with a commit that this
    /// writer never heard of.
    async fn begin_fork(
        &self,
        fork: &Fork,
        base: &Base,
    ) -> Result<(Head, Etag, Root, Option<Map>), ForkError> {
        let objects = self.committer.objects();
        let (journal, device) = (&self.journal, self.committer.device());
        let branch = Branch { journal, base, least: self.committed, device };
        let (head, etag, root) = fork::begin(objects, fork, &branch).await?;
        // The map itself decides: after a take that failed, the committer has a root that the map has not followed.
        let is_at_hand =
            self.map.is_loaded() && root.pages == self.map.pages() && root.tail == self.map.tail();
        let map = match is_at_hand {
            true => None,
            false => Some(Map::open(objects.clone(), &root).await?),
        };
        Ok((head, etag, root, map))
    }
}
