//! The task of one replica.

use super::catch_up::{Known, Object};
use super::{Changed, Current, ReplicaError, check_no_primary, prepare, record};
use crate::format::family::{self, Family};
use crate::format::head::{self, Head};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::format::segment;
use crate::map::{self, Objects, ReadError};
use crate::retry::{self, Backoff};
use crate::store::pace::in_background;
use crate::store::{Store, StoreError, immutable};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// Objects in flight: up to 8 MiB each in memory.
const PUTS_AT_ONCE: usize = 4;
/// While the drive is written to, a replica that is away is tried at least this often; otherwise more and more rarely.
const BUSY: Duration = Duration::from_secs(60);

/// A replica of what one engine commits.
pub struct Replica {
    store: Arc<dyn Store>,
    /// Objects of the primary.
    objects: Arc<Objects>,
    /// The description that is in the replica.
    family: Family,
    /// Whether the replica is believed to have the current keys.
    prepared: bool,
    /// The last request to look again that was served.
    asked: u64,
    changed: Changed,
    known: Option<Known>,
    /// The last records that were there: what is known of the replica holds only as long as they are.
    records: Vec<String>,
    /// The replica asks not to be tried before.
    busy_until: Option<Instant>,
    progress: watch::Sender<Progress>,
    /// Objects to delete once a version is here that was committed later.
    doomed: VecDeque<(u64, String)>,
}

/// The progress of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest version that is complete there.
    pub version: Option<ObjectId>,
    /// When that was committed, Unix time in ms.
    pub committed_ms: u64,
    /// Bytes known to be missing.
    pub behind_bytes: u64,
    /// How often HEAD had changed, as [`super::Replicated::commits`] counts, when the replica had everything.
    pub commits: u64,
    /// The state of the replica.
    pub standing: Standing,
}

/// The state of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has looked at it yet.
    #[default]
    Unknown,
    /// It lacks something, which is in flight.
    Behind,
    /// It has the current version.
    UpToDate,
    /// It cannot be written to now, for this reason. It is tried again.
    Trouble(String),
    /// Updating was paused: it keeps what it had.
    Paused,
}

/// The state in which a caller wants a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// It gets what the primary has.
    #[default]
    Kept,
    /// Nothing goes to it, and puts in flight are cut off.
    Paused,
    /// Its task ends.
    Ended,
}

impl Replica {
    /// The replica in `store`, for drives of `family`, of what `objects` reads from the primary.
    pub fn new(store: Arc<dyn Store>, objects: Arc<Objects>, family: Family, changed: Changed) -> Self {
        let progress = watch::Sender::new(Progress::default());
        Self {
            store,
            objects,
            family,
            prepared: false,
            asked: 0,
            changed,
            known: None,
            records: Vec::new(),
            busy_until: None,
            progress,
            doomed: VecDeque::new(),
        }
    }

    /// The progress of this replica.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Keeps the replica up to date as far as that is `wanted`, until the primary's side is dropped and all that it had is here.
    pub async fn run(mut self, mut wanted: watch::Receiver<Wanted>) {
        loop {
            let now = *wanted.borrow_and_update();
            let is_over = tokio::select! { biased;
                changed = wanted.changed() => changed.is_err(),
                () = self.stand(now) => true,
            };
            if is_over {
                return;
            }
        }
    }

    /// May be cut off anywhere: the next run finds out what is missing.
    async fn stand(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Kept => in_background(self.follow()).await,
            Wanted::Paused => {
                self.progress.send_modify(|progress| progress.standing = Standing::Paused);
                // Objects that are passed on meanwhile would only fill the memory.
                while self.changed.offers.recv().await.is_some() {}
            }
            Wanted::Ended => {}
        }
    }

    async fn follow(&mut self) {
        let mut backoff = Backoff::unwatched();
        if let Some(busy_until) = self.busy_until {
            // The replica asked for this time before `wanted` changed.
            let least = busy_until.saturating_duration_since(Instant::now());
            let commits = self.changed.current.borrow().commits;
            self.wait((least, least), commits).await;
        }
        loop {
            let current = self.changed.current.borrow_and_update().clone();
            if std::mem::replace(&mut self.asked, current.asked) != current.asked {
                (self.prepared, backoff) = (false, Backoff::unwatched());
            }
            let error = match self.keep_up(&current, &mut backoff).await {
                Ok(true) => continue,
                Ok(false) => return,
                Err(error) => error,
            };
            let reason = error.to_string();
            tracing::warn!(error = reason, "a replica lags behind; trying again");
            self.progress.send_modify(|progress| progress.standing = Standing::Trouble(reason));
            // While it is away the keys may change, even by another device.
            self.prepared = false;
            let hint = match &error {
                ReplicaError::Read(error) => retry::hint(error),
                _ => None,
            };
            self.busy_until = hint.map(|hint| Instant::now() + hint);
            self.wait((backoff.next(hint), hint.unwrap_or_default()), current.commits).await;
        }
    }

    /// Brings all that is missing, and what is passed on until HEAD changes. False once it can no longer change.
    async fn keep_up(&mut self, current: &Current, backoff: &mut Backoff) -> Result<bool, ReplicaError> {
        // All that was put before HEAD changed has been passed on by now.
        while let Ok(offer) = self.changed.offers.try_recv() {
            self.take(offer).await?;
        }
        self.catch_up(current).await?;
        *backoff = Backoff::unwatched();
        loop {
            tokio::select! { biased;
                changed = self.changed.current.changed() => return Ok(changed.is_ok()),
                Some(offer) = self.changed.offers.recv() => self.take(offer).await?,
            }
        }
    }

    /// Waits for the next try. If nothing happens, it waits for `time`; with more to bring than after `commits` commits, for [`BUSY`] at
    /// most; and after a request to look again only for `least`, which the replica asked for. Objects that are passed on meanwhile would
    /// only fill the memory.
    async fn wait(&mut self, (time, least): (Duration, Duration), commits: u64) {
        let begun = Instant::now();
        let (mut time, mut alone) = (time, false);
        loop {
            tokio::select! { biased;
                changed = self.changed.current.changed(), if !alone => {
                    alone = changed.is_err();
                    let current = self.changed.current.borrow();
                    if current.asked != self.asked {
                        time = least;
                    } else if current.commits != commits {
                        time = time.min(BUSY.max(least));
                    }
                }
                Some(_) = self.changed.offers.recv() => {}
                () = tokio::time::sleep_until(begun + time) => return,
            }
        }
    }

    /// Puts objects that were passed on, several at once if there are more. An object whose put fails is fetched later. An error means that
    /// the replica takes nothing now.
    async fn take(&mut self, first: (String, Bytes)) -> Result<(), StoreError> {
        let mut offers = vec![first];
        while let (true, Ok(offer)) = (offers.len() < PUTS_AT_ONCE, self.changed.offers.try_recv()) {
            offers.push(offer);
        }
        let behind: u64 = offers.iter().map(|(_, body)| body.len() as u64).sum();
        self.progress.send_modify(|progress| {
            (progress.standing, progress.behind_bytes) = (Standing::Behind, behind);
        });
        let puts = offers.into_iter().filter_map(|(name, body)| {
            let object = ObjectId::parse(&name)?;
            if self.known.as_ref().is_some_and(|known| known.has(&object)) {
                return None;
            }
            let store = self.store.clone();
            Some(async move { (object, immutable::put(&*store, &name, body).await) }.boxed())
        });
        let done: Vec<_> =
            stream::iter(puts.collect::<Vec<_>>()).buffer_unordered(PUTS_AT_ONCE).collect().await;
        let mut failed = Ok(());
        for (object, put) in done {
            match (put, &mut self.known) {
                (Ok(_), Some(known)) => known.gained(object),
                (Err(error), _) if error.is_transient() => failed = Err(error),
                (Ok(_), None) | (Err(_), _) => {}
            }
        }
        failed
    }

    /// Notes which records must still be there next time: the last two. One alone does not show whether the objects were still there when
    /// it was put. The last two are never tidied away before newer ones exist.
    fn remember(&mut self, records: &[String], put: &str, is_there: bool) {
        self.records = records.to_vec();
        if is_there && !records.iter().any(|record| record == put) {
            self.records.push(put.to_owned());
        }
        self.records.sort_unstable();
        self.records.drain(..self.records.len().saturating_sub(2));
    }

    /// Forgets all that was known of the replica.
    fn forget(&mut self) {
        (self.prepared, self.known) = (false, None);
        self.records.clear();
    }

    /// Brings what the current version needs and is missing, then its record. Then deletes what was deleted from the primary before that
    /// version.
    async fn catch_up(&mut self, current: &Current) -> Result<(), ReplicaError> {
        while let Ok(deleted) = self.changed.deleted.try_recv() {
            self.doomed.push_back(deleted);
        }
        let Some(head) = &current.head else { return Ok(()) };
        let head = self.decode(head)?;
        let mut left =
            check_no_primary(&self.store, self.family.mode, self.objects.sealer(), head.drive).await?;
        let records = record::names(&*self.store, head.drive).await?;
        // If a record is gone, so is everything else: somebody has emptied the store, or made it again.
        if self.records.iter().any(|record| !records.contains(record)) {
            self.forget();
        }
        let mut is_believed = true;
        if !self.prepared {
            // If even the family is missing, the objects of a recorded version may be missing too.
            if let Err(error) = self.store.head(family::NAME).await {
                if !matches!(error, StoreError::NotFound { .. }) {
                    return Err(error.into());
                }
                is_believed = false;
                self.forget();
            }
            let (primary, sealer) = (self.objects.store().as_ref(), self.objects.sealer());
            self.family = prepare(primary, &self.store, &self.family, sealer).await?;
            // The description there decides the mode, and by that the store may be a primary after all.
            left = check_no_primary(&self.store, self.family.mode, self.objects.sealer(), head.drive).await?;
            self.prepared = true;
        }
        let (name, last) = (record::name(&head), records.last());
        let sealer = self.objects.sealer().clone();
        // If the drive has left this primary too, all that it brings is from before that, and has to count all the same.
        let left = left.filter(|left| *left < head.epoch);
        let counts = |record: &[u8]| record::counts(&sealer, left, &name, record);
        let is_recorded =
            is_believed && last == Some(&name) && counts(&self.store.get(&name, None).await?.bytes);
        if !is_recorded || self.known.is_some() {
            self.bring(&head).await?;
            // It may have taken hours.
            check_no_primary(&self.store, self.family.mode, &sealer, head.drive).await?;
            if !is_recorded && last.is_none_or(|last| *last <= name) {
                let record = Bytes::from(head.encode(&sealer));
                // Another device's record of this version may name another holder; both lead to the version that is complete here. A record
                // from before the drive lived here itself is overwritten: it does not say that this is a replica again.
                immutable::put_over_damage(&*self.store, &name, record, counts).await?;
                if last.is_none() || left.is_some() {
                    // It is the first to count. Until now, collections of other drives there could delete what both drives need.
                    self.known = None;
                    self.bring(&head).await?;
                }
            }
            record::tidy(&*self.store, &records).await;
        }
        self.remember(&records, &name, is_recorded || last.is_none_or(|last| *last <= name));
        self.progress.send_replace(Progress {
            version: Some(head.root),
            committed_ms: head.written_ms,
            behind_bytes: 0,
            commits: current.commits,
            standing: Standing::UpToDate,
        });
        // If another device has brought a later version, that device decides what to delete.
        if last.is_none_or(|last| *last <= name) && !self.doomed.is_empty() {
            check_no_primary(&self.store, self.family.mode, &sealer, head.drive).await?;
            self.delete(head.drive, current.commits).await?;
        }
        Ok(())
    }

    fn decode(&self, head: &Bytes) -> Result<Head, ReadError> {
        let decoded = Head::decode(self.objects.sealer(), head);
        decoded.map_err(|error| ReadError::Format { name: "HEAD".into(), error })
    }

    async fn bring(&mut self, head: &Head) -> Result<(), ReadError> {
        let known = match self.known.take() {
            Some(known) => known,
            None => Known::list(&*self.store).await?,
        };
        let known = self.known.insert(known);
        let root = self.objects.root(head.root, Some(head.root_hash)).await?;
        let missing = known.missing(&self.objects, head.root, &root).await?;
        let behind = missing.bytes();
        self.progress.send_modify(|progress| {
            (progress.standing, progress.behind_bytes) = (Standing::Behind, behind);
        });
        // Segments first: a root that is there names nothing that is missing.
        let (roots, segments): (Vec<_>, Vec<_>) =
            missing.objects.iter().partition(|((kind, _), _)| *kind == ObjectKind::Root);
        for part in [segments, roots] {
            let copies: Vec<_> = part
                .into_iter()
                .map(|(object, len)| copy(&self.store, &self.objects, &self.progress, *object, *len).boxed())
                .collect();
            let mut copies = stream::iter(copies).buffer_unordered(PUTS_AT_ONCE);
            while let Some(copied) = copies.next().await {
                // Copies that are done are not repeated if another one fails.
                known.gained(copied?);
            }
        }
        if let Some(known) = &mut self.known {
            known.caught_up(missing);
        }
        Ok(())
    }

    /// Deletes what was deleted from the primary before HEAD changed to the version that is here.
    async fn delete(&mut self, drive: Uuid, commits: u64) -> Result<(), ReadError> {
        if self.doomed.is_empty() || self.others_are_here(drive).await? {
            return Ok(());
        }
        while let Some((_, name)) = self.doomed.front().filter(|(before, _)| *before < commits) {
            self.store.delete(name).await?;
            if let (Some(known), Some(object)) = (&mut self.known, ObjectId::parse(name)) {
                known.lost(&object);
            }
            self.doomed.pop_front();
        }
        Ok(())
    }

    /// Whether another drive of the family, such as a clone or a fork, is here too, in a replica or in its own store (this one may have
    /// been a primary). It may need more here than it needs at the primary. Then nothing is deleted.
    async fn others_are_here(&self, drive: Uuid) -> Result<bool, ReadError> {
        for (all, own) in [(record::ALL, record::prefix(drive)), (head::ALL, head::name(drive))] {
            let listed = self.store.list(all).await?;
            if listed.iter().any(|listed| !listed.name.starts_with(&own)) {
                return Ok(true);
            }
        }
        // A reader has a version open, or a drive is being made of one.
        Ok(!self.store.list("ref/").await?.is_empty())
    }
}

/// Copies an object of `len` bytes (0 if that is not known) after opening every part of it: an object that was damaged on its way must not
/// count as a copy. Returns the object. The remains of a broken put under its name are overwritten.
async fn copy(
    store: &Arc<dyn Store>,
    objects: &Arc<Objects>,
    progress: &watch::Sender<Progress>,
    object: Object,
    len: u64,
) -> Result<Object, ReadError> {
    let name = object.1.name(object.0);
    let open = |body: &[u8]| match object.0 {
        ObjectKind::Root => Root::open(objects.sealer(), &name, body).map(drop),
        ObjectKind::Segment => segment::verify(objects.sealer(), &name, body),
    };
    let body = map::read(objects.store().as_ref(), &name, None, open).await?.1.bytes;
    if len > 0 && body.len() as u64 != len {
        let reason = format!("it has {} bytes of {len}", body.len());
        return Err(StoreError::Damaged { name, reason }.into());
    }
    immutable::put_over_damage(&**store, &name, body, |body| open(body).is_ok()).await?;
    progress.send_modify(|progress| progress.behind_bytes = progress.behind_bytes.saturating_sub(len));
    Ok(object)
}
