//! One pull: it looks blocks up in the source and fetches the parts that hold them, each once for all who want it.

use super::single_flight::landed;
use super::sink::{Fetched, Sink};
use super::source::{Content, Source};
use super::tries::Persistence;
use super::{PullError, Puller, cache_failed};
use crate::store::pace::is_background;
use crate::units::BlockRange;
use futures_util::stream::{FuturesUnordered, StreamExt};

/// Whether another caller was fetching some of the wanted parts and has ended. That the blocks are here then says nothing
/// about the store: they may have been written meanwhile.
pub(super) struct Waited(pub bool);

impl<S: Source> Puller<S> {
    /// Fetches the missing blocks of `range` for one reader, past a cache that has no space for them.
    pub async fn fetch_past_cache(&self, range: BlockRange) -> Result<Fetched, PullError> {
        let fetched = Fetched::default();
        for run in self.missing(range) {
            self.pull_until_done(run, &fetched, Persistence::Always).await?;
        }
        Ok(fetched)
    }

    pub(super) async fn pull(&self, blocks: BlockRange, sink: &impl Sink) -> Result<Waited, PullError> {
        let _stays = self.cache.begin_pull(blocks);
        loop {
            let found = self.source.look_up(blocks).await?;
            match self.pull_found(&found, sink).await {
                // A collection has moved the blocks since they were looked up.
                Err(PullError::Read(error))
                    if error.is_missing() && self.source.look_up(blocks).await? != found => {}
                // The other caller did not get some of the blocks.
                Ok(Waited(true)) if !self.missing(blocks).is_empty() => {}
                result => return result,
            }
        }
    }

    async fn pull_found(
        &self,
        found: &[(BlockRange, Content<S::Part>)],
        sink: &impl Sink,
    ) -> Result<Waited, PullError> {
        let mut parts: Vec<S::Part> = Vec::new();
        for (run, content) in found {
            match content {
                Content::Zero => sink.zero(*run).map_err(cache_failed)?,
                Content::Part(part) if parts.last() != Some(part) => parts.push(*part),
                Content::Part(_) => {}
            }
        }
        parts.sort_unstable();
        parts.dedup();
        let (flight, parts, theirs) = match sink.is_everybodys() {
            true => {
                let (flight, ours, theirs) = self.flights.begin(parts, is_background());
                (Some(flight), ours, theirs)
            }
            false => (None, parts, Vec::new()),
        };
        let fetched = self.fetch_all(self.source.requests(parts), sink).await;
        // Before waiting for others: they may wait for these parts.
        drop(flight);
        let waited = Waited(!theirs.is_empty());
        futures_util::future::join_all(theirs.into_iter().map(landed)).await;
        fetched.map(|()| waited)
    }

    /// Fetches all requests of a job, some at once. A reader that waits for one part waits for no other request than the
    /// one that makes space for its own: data that was written in scattered places needs a request for each part.
    async fn fetch_all(&self, mut waiting: Vec<Vec<S::Part>>, sink: &impl Sink) -> Result<(), PullError> {
        /// Ranged requests of one job at once.
        const REQUESTS: usize = 8;
        let mut underway = FuturesUnordered::new();
        let mut lost = None;
        loop {
            while underway.len() < REQUESTS && !waiting.is_empty() {
                let next = waiting.remove(self.most_urgent(&waiting));
                underway.push(async {
                    let fetched = self.fetch(&next, sink).await;
                    (next, fetched)
                });
            }
            let Some((parts, fetched)) = underway.next().await else { break };
            lost = lost.or(fetched?);
            if self.is_awaited(&parts) {
                self.ended.send_modify(|count| *count += 1);
            }
        }
        lost.map_or(Ok(()), Err)
    }

    /// The first waiting request that a reader waits for; otherwise the first.
    fn most_urgent(&self, requests: &[Vec<S::Part>]) -> usize {
        requests.iter().position(|parts| self.is_awaited(parts)).unwrap_or(0)
    }

    fn is_awaited(&self, parts: &[S::Part]) -> bool {
        let queue = self.queue.lock();
        parts.iter().any(|part| queue.is_awaited(self.source.blocks_of(part)))
    }

    /// Fetches the parts of one request. A damaged part does not keep the others from coming: the answer holds the damage.
    /// An error means that the request may succeed if it is tried again.
    async fn fetch(&self, parts: &[S::Part], sink: &impl Sink) -> Result<Option<PullError>, PullError> {
        let lost = match self.fetch_at_once(parts, sink).await {
            Ok(()) => return Ok(None),
            // The other parts are of the same version.
            Err(PullError::Read(error)) if error.is_gone() => return Err(error.into()),
            Err(PullError::Read(error)) if !error.is_transient() && !error.is_missing() => error.into(),
            Err(error) => return Err(error),
        };
        if let [_] = parts {
            return Ok(Some(lost));
        }
        for part in parts {
            match self.fetch_at_once(&[*part], sink).await {
                Err(PullError::Read(error)) if error.is_transient() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Some(lost))
    }

    async fn fetch_at_once(&self, parts: &[S::Part], sink: &impl Sink) -> Result<(), PullError> {
        let opened = self.source.fetch(parts).await?;
        self.is_well();
        for (part, data) in parts.iter().zip(opened) {
            self.fill(part, &data, sink).await?;
        }
        Ok(())
    }

    /// Fills the blocks that the source still takes from this part: others of its blocks may have been committed since. The
    /// chunk is protected from eviction, so a block that was written since is not absent.
    async fn fill(&self, part: &S::Part, data: &[u8], sink: &impl Sink) -> Result<(), PullError> {
        let blocks = self.source.blocks_of(part);
        for (run, content) in self.source.look_up(blocks).await? {
            if content == Content::Part(*part) {
                let from = ((run.start - blocks.start) * crate::units::BLOCK_BYTES) as usize;
                let bytes = &data[from..from + run.byte_len() as usize];
                sink.data(run, bytes).map_err(cache_failed)?;
            }
        }
        Ok(())
    }
}
