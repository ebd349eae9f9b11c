//! The push task: one batch after another.

use super::commit::Committer;
use super::interrupt::Interrupted;
use super::lanes::Lanes;
use super::pack::{Batch, Packed};
use super::pause::Pause;
use super::policy::{self, Decision, Facts};
use super::requests::{Asked, Queue, Request};
use super::{Committed, LabelError, Parts, PushError, PushState, Remembers, hold, take};
use crate::clock::now_ms;
use crate::drive;
use crate::fence;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{BoxRef, Lineage, Snapshot, TailSegment};
use crate::format::segment::{Directory, SegmentBuilder};
use crate::format::usage::{self, Usage};
use crate::heads::kept;
use crate::journal::Journal;
use crate::local::Inherits;
use crate::map::Map;
use crate::planted::{self, Bug};
use crate::retry::{self, Backoff};
use crate::store::Etag;
use crate::units::Lsn;
use crate::volume::VolumeLimits;
use data_encoding::HEXLOWER;
use futures_util::FutureExt;
use futures_util::stream::{self, FuturesOrdered, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

pub(super) struct Task {
    pub(super) journal: Arc<Journal>,
    pub(super) map: Arc<Map>,
    pub(super) committer: Committer,
    pub(super) publish: watch::Sender<PushState>,
    pub(super) pause: Pause,
    pub(super) interrupted: Interrupted,
    pub(super) committed: Lsn,
    /// Own CRC of the record `committed`.
    pub(super) committed_crc: u32,
    limits: VolumeLimits,
    /// Whether HEAD names this opening. If the store was away at the opening, not before it has answered.
    pub(super) is_taken: bool,
    /// How far the dirty set is frozen, while batches of it are being pushed.
    pub(super) frozen: Option<Lsn>,
    /// Whether nobody waits for the current push.
    pub(super) gives_way: bool,
    /// When data was first seen to wait.
    waiting_since: Option<Instant>,
    // Shared by the puts that are under way; held only for arithmetic.
    lanes: Mutex<Lanes>,
    /// When a failed checkpoint is tried again.
    checkpoint_again: Option<(Instant, Backoff)>,
    /// Bytes that the pages of a checkpoint reach, until they are announced.
    pages_reached_bytes: Option<u64>,
    pub(super) remembers: Arc<dyn Remembers>,
    /// What the journal contains of other devices' journals, until a commit says so.
    inherits: Option<Inherits>,
}

impl Task {
    pub fn new(
        parts: Parts,
        publish: watch::Sender<PushState>,
        pause: Pause,
        interrupted: Interrupted,
        again: Arc<Notify>,
    ) -> Self {
        let objects = parts.map.objects().clone();
        let is_taken = parts.etag.is_some();
        // Without an etag, HEAD is read before it is swapped.
        let head = (parts.head, parts.etag.unwrap_or(Etag(String::new())));
        Self {
            journal: parts.journal,
            map: parts.map,
            committer: Committer::new(objects, parts.device, head, parts.root, (publish.clone(), again)),
            publish,
            pause,
            interrupted,
            committed: parts.committed,
            committed_crc: parts.committed_crc,
            limits: parts.limits,
            is_taken,
            frozen: None,
            gives_way: false,
            waiting_since: None,
            lanes: Mutex::default(),
            checkpoint_again: None,
            pages_reached_bytes: None,
            remembers: parts.remembers,
            inherits: parts.inherits,
        }
    }

    pub async fn run(mut self, mut queue: Queue) {
        if !self.is_taken {
            let Some(taken) = take::first(&mut self, &mut queue).await else { return };
            if let Err(error) = taken {
                return self.give_up(queue, error).await;
            }
        }
        loop {
            let asked = match self.next(&mut queue).await {
                Next::Request(asked) => self.serve(asked, &mut queue).await,
                Next::Batch => {
                    self.gives_way = true;
                    let pushed = self.push_batch().await;
                    self.gives_way = false;
                    match pushed {
                        // A request has cut it off.
                        Err(PushError::Paused) => Ok(()),
                        pushed => self.unless_fenced(pushed).await,
                    }
                }
                Next::Checkpoint => {
                    let made = self.try_checkpoint().await;
                    self.unless_fenced(made).await
                }
                Next::Closed => return,
            };
            if let Err(error) = asked.or_else(unless_forked) {
                return self.give_up(queue, error).await;
            }
        }
    }

    async fn give_up(self, queue: Queue, error: PushError) {
        tracing::error!(%error, "pushing has stopped");
        self.publish.send_modify(|state| {
            (state.pushing, state.batch_journal_bytes) = (false, 0);
            state.stopped = Some(error.clone());
        });
        queue.refuse_all(error).await;
    }

    async fn next(&mut self, queue: &mut Queue) -> Next {
        loop {
            // Requests first: if one has cut off a batch, that batch is still due and would be cut off again.
            if let Some(asked) = queue.next_now() {
                return Next::Request(asked);
            }
            let decision = policy::decide(&self.facts());
            let wait = match decision {
                Decision::Push => return Next::Batch,
                Decision::Wait(time) => time,
                // Writes are not announced one by one: checking once a second costs next to nothing.
                Decision::Idle => Duration::from_secs(1),
            };
            if self.checkpoint_again.is_some() && self.is_checkpoint_due() {
                return Next::Checkpoint;
            }
            tokio::select! { biased;
                asked = queue.next() => return asked.map_or(Next::Closed, Next::Request),
                () = self.pause.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn waits_since(&mut self, since: Option<Instant>) {
        self.waiting_since = since;
        self.publish.send_if_modified(|state| std::mem::replace(&mut state.waiting_since, since) != since);
    }

    pub(super) fn facts(&mut self) -> Facts {
        let since = (self.unsent_bytes() > 0).then(|| self.waiting_since.unwrap_or_else(Instant::now));
        self.waits_since(since);
        self.facts_since(since)
    }

    fn unsent_bytes(&self) -> u64 {
        let is_some = self.journal.appended() > self.committed;
        if is_some { self.journal.bytes_after(self.committed) } else { 0 }
    }

    /// The same, with data that has waited since then.
    fn facts_since(&self, since: Option<Instant>) -> Facts {
        let unsent_bytes = self.unsent_bytes();
        Facts {
            unsent_bytes,
            oldest_age: since.map_or_else(Default::default, |since| since.elapsed()),
            journal_per_mille: if unsent_bytes > 0 { self.journal.space().per_mille() } else { 0 },
            paused: self.pause.is_on(),
            batch_bytes: self.limits.batch_bytes,
            burst: self.journal.burst(),
        }
    }

    /// Waits until a batch is due.
    pub(super) async fn batch_is_due(&self) {
        let mut since = self.waiting_since;
        loop {
            since = (self.unsent_bytes() > 0).then(|| since.unwrap_or_else(Instant::now));
            match policy::decide(&self.facts_since(since)) {
                Decision::Push => return,
                Decision::Wait(time) => tokio::time::sleep(time).await,
                Decision::Idle => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    async fn serve(&mut self, asked: Asked, queue: &mut Queue) -> Result<(), PushError> {
        let Asked { request, waits: _until_answered } = asked;
        match request {
            Request::Sync(reply) => {
                let pushed = self.push_all(queue).await;
                let result = self.unless_fenced(pushed).await;
                let again = match result {
                    // The caller wants the data in the store, wherever it goes now.
                    Err(PushError::Forked(_)) => self.push_all(queue).await,
                    _ => Ok(()),
                };
                let again = self.unless_fenced(again).await;
                answer(reply, result.map(|()| self.current()))?;
                fatal(&again).map_or(Ok(()), Err)
            }
            Request::Snapshot(label, reply) => {
                let result = self.snapshot(label, queue).await;
                let result = self.unless_fenced(result).await;
                answer(reply, result)
            }
            Request::DropSnapshot(label, reply) => {
                let result = self.drop_snapshot(&label).await;
                let result = self.unless_fenced(result).await;
                answer(reply, result)
            }
            Request::Collect { wanted, stops, reply } => self.collect_for(wanted, stops, reply).await,
            Request::Checkpoint(reply) => {
                let made = self.try_checkpoint().await;
                let result = self.unless_fenced(made).await;
                answer(reply, result)
            }
            Request::HandOver { orders, reply } => hold::serve(self, queue, orders, reply).await,
            Request::Release(reply) => {
                let result = match self.committer.release().await {
                    // Another device has the drive, and everything here is in the store.
                    Err(PushError::Fenced(_)) if self.journal.appended() <= self.committed => Ok(()),
                    result => self.unless_fenced(result).await,
                };
                answer(reply, result)
            }
        }
    }

    fn current(&self) -> Committed {
        let head = self.committer.head();
        Committed {
            root: head.root.name(ObjectKind::Root),
            root_hash: HEXLOWER.encode(&head.root_hash),
            epoch: head.epoch.0,
            lsn: self.committed.0,
        }
    }

    /// Pushes everything that is appended now. Collects in between if the store is full and a collection was requested.
    async fn push_all(&mut self, queue: &mut Queue) -> Result<(), PushError> {
        let target = self.journal.appended();
        while self.committed < target {
            if self.pause.is_on() {
                return Err(PushError::Paused);
            }
            match self.push_batch().await {
                Err(PushError::Paused) => self.collect_in_between(queue).await?,
                pushed => pushed?,
            }
        }
        Ok(())
    }

    /// Serves the collection that cut off the push, if that is what cut it off.
    async fn collect_in_between(&mut self, queue: &mut Queue) -> Result<(), PushError> {
        match queue.collection() {
            Some(Asked { request: Request::Collect { wanted, stops, reply }, waits: _until_answered }) => {
                self.collect_for(wanted, stops, reply).await
            }
            _ => Err(PushError::Paused),
        }
    }

    /// Pushes the next batch of the frozen set. Freezes first if nothing is frozen.
    pub(super) async fn push_batch(&mut self) -> Result<(), PushError> {
        let frozen = *self.frozen.get_or_insert_with(|| self.journal.freeze());
        // Only records that are durable here may go to the store: otherwise a power cut could take back a record that the
        // store has, and its LSN would be given to another.
        self.journal.flush().await?;
        let records = self.journal.records(self.committed.next(), frozen, self.limits.batch_bytes).await?;
        let (cut, crc) =
            records.last().map_or((frozen, self.committed_crc), |record| (record.lsn, record.crc));
        let mut batch = Batch::new(&records, &self.committer.root().geometry);
        drop(records);
        let total = batch.data_bytes;
        let journal_bytes =
            self.journal.bytes_after(self.committed).saturating_sub(self.journal.bytes_after(cut));
        self.publish.send_modify(|state| {
            (state.pushing, state.batch, state.batch_journal_bytes) = (true, (0, total), journal_bytes);
        });
        let resized = batch.resized;
        let segments = self.put_segments(&mut batch).await;
        let cut_off = |state: &mut PushState| (state.pushing, state.batch_journal_bytes) = (false, 0);
        let segments = segments.inspect_err(|_| self.publish.send_modify(cut_off))?;
        let journal = self.journal.uuid();
        let epoch = self.committer.head().epoch;
        let tail: Vec<_> = segments.iter().map(|(segment, _)| *segment).collect();
        let inherited = self.inherited(cut);
        self.committer
            .commit(move |root| {
                root.lineage = fence::inherit(&root.lineage, &inherited);
                root.lineage = fence::extend(&root.lineage, Lineage { epoch, journal, cut, crc });
                root.tail.extend(tail);
                root.geometry.size_blocks = resized.unwrap_or(root.geometry.size_blocks);
            })
            .await?;
        // The map first: once the blocks no longer count as dirty they may be evicted, and are then read through the map.
        self.map.commit(&segments);
        (self.committed, self.committed_crc) = (cut, crc);
        self.inherits.take_if(|inherits| Lsn(inherits.lsn) <= cut);
        if cut >= frozen {
            self.journal.thaw();
            self.frozen = None;
        }
        self.waits_since((self.journal.appended() > cut).then(Instant::now));
        self.announce();
        match self.is_checkpoint_due() {
            true => self.try_checkpoint().await,
            false => Ok(()),
        }
    }

    /// The entries of other devices' journals that a version with this device's journal up to `cut` contains too.
    fn inherited(&self, cut: Lsn) -> Vec<Lineage> {
        match &self.inherits {
            Some(inherits) if Lsn(inherits.lsn) <= cut && !planted::has(Bug::FirstCommitWithoutLineage) => {
                inherits.lineage.iter().map(Lineage::from).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let is_time = self.checkpoint_again.as_ref().is_none_or(|(time, _)| *time <= Instant::now());
        is_time && self.map.wants_checkpoint(self.limits.tail_segments) && !self.pause.is_on()
    }

    /// A checkpoint is housekeeping: if pages cannot be read now, the tail only gets longer. It is tried again even if
    /// nothing more is written: otherwise nothing would notice that the store has come back.
    async fn try_checkpoint(&mut self) -> Result<(), PushError> {
        match self.checkpoint().await {
            Err(PushError::Read(error)) => {
                tracing::warn!(%error, "the map's pages cannot be read; its checkpoint waits");
                self.publish
                    .send_modify(|state| (state.trouble, state.is_full) = (Some(error.to_string()), false));
                let before = self.checkpoint_again.take();
                let mut backoff = before.map_or_else(Backoff::unwatched, |(_, backoff)| backoff);
                let time = Instant::now() + backoff.next(retry::hint(&error));
                self.checkpoint_again = Some((time, backoff));
                Ok(())
            }
            result => result,
        }
    }

    /// Between two segments: a burst of writes has the disk and the processors to itself while the journal has space,
    /// unless someone waits for the upload.
    async fn give_way(&self) {
        while self.gives_way
            && let Some(burst) = self.journal.burst()
            && self.journal.space().per_mille() < policy::JOURNAL_FULL
        {
            tokio::time::sleep(burst).await;
        }
    }

    /// Puts the segments of a batch, in order: the next ones are sealed while others are being uploaded. All of them are in
    /// the store when this returns, so a root that is written then names no missing segment. If sealing fails, or pushing
    /// is switched off while someone waits, the puts under way are dropped: no root has named those segments, and a
    /// collection deletes the ones that arrive.
    async fn put_segments(&self, batch: &mut Batch) -> Result<Vec<(TailSegment, Directory)>, PushError> {
        let mut puts = FuturesOrdered::new();
        let mut done = Vec::new();
        loop {
            let sealing = self.seal_next(batch);
            tokio::pin!(sealing);
            let next = loop {
                tokio::select! { biased;
                    next = &mut sealing => break next?,
                    Some(put) = puts.next(), if !puts.is_empty() => done.push(put?),
                }
            };
            let Some(packed) = next else { break };
            while puts.len() >= self.lanes.lock().at_once() {
                done.extend(puts.next().await.transpose()?);
            }
            puts.push_back(self.put_unless_paused(packed).boxed());
        }
        done.extend(puts.try_collect::<Vec<_>>().await?);
        Ok(done)
    }

    async fn put_unless_paused(&self, packed: Packed) -> Result<(TailSegment, Directory), PushError> {
        // Nothing is being tried, so there is no trouble.
        let cut_off = || self.committer.no_trouble();
        tokio::select! { biased;
            put = self.pause.unless_on(|| self.put(packed.clone()), cut_off) => Ok(self.was_put(put?)),
            () = self.until_room_is_made() => Err(PushError::Paused),
        }
    }

    /// Waits until the store is full and a collection has been requested.
    async fn until_room_is_made(&self) {
        self.pause.until_collection().await;
        // The sender is this task's own.
        let _ = self.publish.subscribe().wait_for(|state| state.is_full).await;
    }

    async fn seal_next(&self, batch: &mut Batch) -> Result<Option<Packed>, PushError> {
        self.give_way().await;
        let (objects, geometry) = (self.committer.objects(), self.committer.root().geometry);
        batch.next(self.committer.namer(), objects.sealer(), &geometry).await
    }

    pub(super) async fn put_all(&self, packed: Vec<Packed>) -> Vec<(TailSegment, Directory)> {
        let puts: Vec<_> = packed.into_iter().map(|packed| self.put_one(packed).boxed()).collect();
        let at_once = self.lanes.lock().at_once();
        stream::iter(puts).buffered(at_once).collect().await
    }

    async fn put_one(&self, packed: Packed) -> (TailSegment, Directory) {
        let put = self.put(packed).await;
        self.was_put(put)
    }

    async fn put(&self, packed: Packed) -> Put {
        let lanes = self.lanes.lock().at_once();
        // A store that was away says nothing about the link: only a busy store counts as a refusal.
        let mut refused_at = lanes;
        let busy = || refused_at = self.lanes.lock().refused(refused_at);
        let (packed, took) = self.committer.put_segment(packed, busy).await;
        Put { packed, took, lanes }
    }

    fn was_put(&self, Put { packed, took, lanes }: Put) -> (TailSegment, Directory) {
        self.lanes.lock().ended(packed.body.len() as u64, took, lanes);
        self.publish.send_modify(|state| {
            state.batch.0 = (state.batch.0 + packed.data_bytes).min(state.batch.1);
            state.put_bytes += packed.data_bytes;
        });
        self.committer.objects().remember_directory(packed.tail(), &packed.body);
        (packed.tail(), packed.directory)
    }

    /// Announces the commit that was just made.
    pub(super) fn announce(&mut self) {
        self.remembers.committed(self.committer.head(), self.committer.root());
        let (head, committed) = (self.committer.head(), self.committed);
        let tail = self.map.tail_bytes();
        self.publish.send_modify(|state| {
            state.stored.tail_reached_bytes = tail.map(|tail| tail.reached);
            state.stored.tail_covers_bytes = tail.map_or(0, |tail| tail.covered);
            if let Some(bytes) = self.pages_reached_bytes.take() {
                state.stored.pages_reached_bytes = Some(bytes);
            }
            (state.committed, state.answered) = (committed, Some(Instant::now()));
            state.root = head.root;
            state.root_hash = head.root_hash;
            state.epoch = head.epoch;
            state.committed_ms = now_ms();
            (state.pushing, state.batch_journal_bytes) = (false, 0);
            state.stopped = None;
        });
    }

    /// The usage table as of the last checkpoint.
    pub(super) async fn usage(&self) -> Result<BTreeMap<ObjectId, Usage>, PushError> {
        match self.committer.root().usage {
            Some(place) => Ok(self.committer.objects().usage(place).await?),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Merges the tail into map pages, in a commit of its own.
    pub(super) async fn checkpoint(&mut self) -> Result<(), PushError> {
        let checkpoint = self.map.checkpoint().await?;
        let usage = checkpoint.usage(self.usage().await?);
        let geometry = self.committer.root().geometry;
        let sealer = self.committer.objects().sealer().clone();
        let mut places = self.map.pages();
        let (pages, empty): (Vec<_>, Vec<_>) =
            checkpoint.pages.iter().partition(|page| !page.runs.is_empty());
        places.retain(|index, _| empty.iter().all(|page| page.index != *index));
        let mut pages = pages.into_iter().peekable();
        let mut usage_place = None;
        while usage_place.is_none() {
            let id = self.committer.namer().next();
            let mut builder = SegmentBuilder::map(&sealer, id.name(ObjectKind::Segment));
            while let Some(page) = pages.next_if(|_| (builder.body_len() as u64) < geometry.segment_bytes) {
                builder.page(page.index, &page.encode(geometry.page_range(page.index).start));
                tokio::task::yield_now().await;
            }
            if pages.peek().is_none() {
                builder.usage(&usage::encode(&usage));
            }
            let (packed, _) = self.committer.put_segment(Packed::new(id, builder, 0), || ()).await;
            let object_len = packed.body.len() as u64;
            let Directory::Map(entries) = packed.directory else {
                panic!("a map segment has a map's directory")
            };
            for entry in entries {
                let (offset, stored_len) = (entry.offset, entry.stored_len);
                let place = BoxRef { object: packed.id, object_len, offset, stored_len };
                self.committer.objects().remember_sealed(place, &packed.body);
                match entry.index {
                    Some(index) => drop(places.insert(index, place)),
                    None => usage_place = Some(place),
                }
            }
        }
        let pages = places.clone();
        self.committer
            .commit(|root| (root.pages, root.tail, root.usage) = (pages, Vec::new(), usage_place))
            .await?;
        self.map.adopt(checkpoint, &places);
        self.pages_reached_bytes = Some(usage.values().map(|usage| usage.reached).sum());
        self.checkpoint_again = None;
        self.announce();
        Ok(())
    }

    async fn snapshot(&mut self, label: String, queue: &mut Queue) -> Result<Snapshot, PushError> {
        if kept::is_reserved(&label) {
            return Err(LabelError::Reserved(label).into());
        }
        if self.committer.root().snapshots.iter().any(|snapshot| snapshot.label == label) {
            return Err(LabelError::Taken(label).into());
        }
        self.push_all(queue).await?;
        let head = self.committer.head();
        let size_blocks = self.committer.root().geometry.size_blocks;
        let (root, root_hash, taken_ms) = (head.root, head.root_hash, now_ms());
        let snapshot = Snapshot { label, root, root_hash, taken_ms, size_blocks };
        let kept = snapshot.clone();
        self.committer.commit(|root| root.snapshots.push(kept)).await?;
        self.announce();
        Ok(snapshot)
    }

    async fn drop_snapshot(&mut self, label: &str) -> Result<(), PushError> {
        let Ok(found) = drive::snapshot(self.committer.root(), label) else {
            return Err(LabelError::Missing(label.to_owned()).into());
        };
        let label = found.label.clone();
        self.committer.commit(move |root| root.snapshots.retain(|snapshot| snapshot.label != label)).await?;
        self.announce();
        Ok(())
    }
}

/// A segment that is in the store.
struct Put {
    packed: Packed,
    took: Duration,
    /// Most puts that were under way, including this one.
    lanes: usize,
}

enum Next {
    Request(Asked),
    Batch,
    /// A checkpoint that failed before.
    Checkpoint,
    Closed,
}

/// Answers, and returns an error that ends pushing for good.
pub(super) fn answer<T>(
    reply: oneshot::Sender<Result<T, PushError>>,
    result: Result<T, PushError>,
) -> Result<(), PushError> {
    let fatal = fatal(&result);
    // The caller may be gone.
    let _ = reply.send(result);
    fatal.map_or(Ok(()), Err)
}

/// The error that ends pushing for good, if it is one.
fn fatal<T>(result: &Result<T, PushError>) -> Option<PushError> {
    match result {
        Err(
            PushError::Paused
            | PushError::OnHold
            | PushError::CutOff
            | PushError::Label(_)
            | PushError::Forked(_),
        )
        | Ok(_) => None,
        // A failed read ends only the request: pushing itself reads nothing.
        Err(PushError::Read(_)) => None,
        Err(error) => Some(error.clone()),
    }
}

/// A drive that became a fork continues.
pub(super) fn unless_forked(error: PushError) -> Result<(), PushError> {
    if let PushError::Forked(_) = error { Ok(()) } else { Err(error) }
}
