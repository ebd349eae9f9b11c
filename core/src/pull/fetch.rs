//! One pull: blocks are looked up in the map, the frames that hold them fetched, each once for all who want it, and opened.

use super::flights::landed;
use super::sink::{Fetched, Sink};
use super::tries::Persistence;
use super::{PullError, Puller, cache_failed};
use crate::map::{self, Content, Frame};
use crate::store::pace::is_background;
use crate::units::BlockRange;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::ops::Range;

/// Whether somebody else was fetching some of what was wanted, and has ended. That it is here then is no news of the store: it may
/// have been written meanwhile.
pub(super) struct Waited(pub bool);

impl Puller {
    /// Fetches what is missing of `range` for one reader, past a cache that has no room for it.
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
            let found = self.map.look_up(blocks).await?;
            match self.pull_found(&found, sink).await {
                // A collection has moved the blocks since they were looked up.
                Err(PullError::Read(error))
                    if error.is_missing() && self.map.look_up(blocks).await? != found => {}
                // Whoever was fetching some of it has not got it.
                Ok(Waited(true)) if !self.missing(blocks).is_empty() => {}
                result => return result,
            }
        }
    }

    async fn pull_found(
        &self,
        found: &[(BlockRange, Content)],
        sink: &impl Sink,
    ) -> Result<Waited, PullError> {
        let mut frames: Vec<Frame> = Vec::new();
        for (run, content) in found {
            match content {
                Content::Zero => sink.zero(*run).map_err(cache_failed)?,
                Content::Frame(frame) if frames.last() != Some(frame) => frames.push(*frame),
                Content::Frame(_) => {}
            }
        }
        frames.sort_unstable();
        frames.dedup();
        let (flight, frames, theirs) = match sink.is_everybodys() {
            true => {
                let (flight, ours, theirs) = self.flights.begin(frames, is_background());
                (Some(flight), ours, theirs)
            }
            false => (None, frames, Vec::new()),
        };
        let fetched = self.fetch_all(requests(frames), sink).await;
        // Before others are waited for: they may wait for these.
        drop(flight);
        let waited = Waited(!theirs.is_empty());
        futures_util::future::join_all(theirs.into_iter().map(landed)).await;
        fetched.map(|()| waited)
    }

    /// Fetches what a job takes, some requests at once. A reader that waits for a part of it waits for no more of the others than the one
    /// that makes room for its own: data that was written here and there has a request for each frame.
    async fn fetch_all(&self, mut waiting: Vec<Vec<Frame>>, sink: &impl Sink) -> Result<(), PullError> {
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
            let Some((frames, fetched)) = underway.next().await else { break };
            lost = lost.or(fetched?);
            if self.is_awaited(&frames) {
                self.ended.send_modify(|count| *count += 1);
            }
        }
        lost.map_or(Ok(()), Err)
    }

    /// Of requests that wait, the first that a reader waits for; else the first.
    fn most_urgent(&self, requests: &[Vec<Frame>]) -> usize {
        requests.iter().position(|frames| self.is_awaited(frames)).unwrap_or(0)
    }

    fn is_awaited(&self, frames: &[Frame]) -> bool {
        let queue = self.queue.lock();
        frames.iter().any(|frame| queue.is_awaited(frame.blocks))
    }

    /// Fetches frames that lie side by side in one segment, in one ranged request. What of them is damaged keeps nothing else from coming:
    /// that is what the answer holds, and whatever may come if it is asked for again is an error.
    async fn fetch(&self, frames: &[Frame], sink: &impl Sink) -> Result<Option<PullError>, PullError> {
        let lost = match self.fetch_at_once(frames, sink).await {
            Ok(()) => return Ok(None),
            Err(PullError::Read(error)) if !error.is_transient() && !error.is_missing() => error.into(),
            Err(error) => return Err(error),
        };
        if let [_] = frames {
            return Ok(Some(lost));
        }
        for frame in frames {
            match self.fetch_at_once(&[*frame], sink).await {
                Err(PullError::Read(error)) if error.is_transient() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Some(lost))
    }

    async fn fetch_at_once(&self, frames: &[Frame], sink: &impl Sink) -> Result<(), PullError> {
        let objects = self.map.objects();
        let range = extent(frames);
        let name = frames[0].segment.name(crate::format::id::ObjectKind::Segment);
        let open = |body: &[u8]| {
            let open = |frame: &Frame| {
                let at = (u64::from(frame.offset) - range.start) as usize;
                objects.open_frame(frame, body.get(at..at + frame.stored_len as usize).unwrap_or_default())
            };
            frames.iter().map(open).collect::<Result<Vec<_>, _>>()
        };
        let (opened, _) = map::read(objects.store().as_ref(), &name, Some(range.clone()), open).await?;
        self.is_well();
        for (frame, data) in frames.iter().zip(opened) {
            self.fill(frame, &data, sink).await?;
        }
        Ok(())
    }

    /// Fills from a frame what the map still takes from it: other blocks of it may have been committed since. The
    /// chunk is protected from eviction, so a block that was written since is not absent.
    async fn fill(&self, frame: &Frame, data: &[u8], sink: &impl Sink) -> Result<(), PullError> {
        for (run, content) in self.map.look_up(frame.blocks).await? {
            if content == Content::Frame(*frame) {
                let from = ((run.start - frame.blocks.start) * crate::units::BLOCK_BYTES) as usize;
                let bytes = &data[from..from + run.byte_len() as usize];
                sink.data(run, bytes).map_err(cache_failed)?;
            }
        }
        Ok(())
    }
}

/// Frames, in order, grouped so that each group is one ranged request: same segment, side by side or nearly.
fn requests(frames: Vec<Frame>) -> Vec<Vec<Frame>> {
    /// Fetching so many bytes for nothing is cheaper than another request.
    const GAP_BYTES: u64 = 16 << 10;
    /// One request carries at most so much, so that it can be spread and retried.
    const REQUEST_BYTES_MAX: u64 = 1 << 20;
    let mut groups: Vec<Vec<Frame>> = Vec::new();
    for frame in frames {
        if let Some(group) = groups.last_mut() {
            let extent = extent(group);
            let end = u64::from(frame.offset) + u64::from(frame.stored_len);
            let near = u64::from(frame.offset) <= extent.end + GAP_BYTES;
            if group[0].segment == frame.segment && near && end - extent.start <= REQUEST_BYTES_MAX {
                group.push(frame);
                continue;
            }
        }
        groups.push(vec![frame]);
    }
    groups
}

fn extent(frames: &[Frame]) -> Range<u64> {
    let start = frames.iter().map(|frame| u64::from(frame.offset)).min().unwrap_or(0);
    let end =
        frames.iter().map(|frame| u64::from(frame.offset) + u64::from(frame.stored_len)).max().unwrap_or(0);
    start..end
}
