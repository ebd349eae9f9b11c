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

/// Objects on their way at once: up to 8 MiB each in memory.
const PUTS_AT_ONCE: usize = 4;
/// While the drive is written to, a replica that is away is tried at least so often; while it is not, more and more rarely.
const BUSY: Duration = Duration::from_secs(60);

/// A replica of what one engine commits.
pub struct Replica {
    store: Arc<dyn Store>,
    /// Of the primary.
    objects: Arc<Objects>,
    /// As it is on the replica.
    family: Family,
    /// Whether it has the keys as they are now, as far as is known.
    prepared: bool,
    /// What was last asked for.
    asked: u64,
    changed: Changed,
    known: Option<Known>,
    /// The last records that were there: what is known holds only as long as they are.
    records: Vec<String>,
    /// The replica asks not to be asked before.
    busy_until: Option<Instant>,
    progress: watch::Sender<Progress>,
    /// What is to be deleted once a version is here that was committed later.
    doomed: VecDeque<(u64, String)>,
}

/// How far a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest version that is there whole.
    pub version: Option<ObjectId>,
    /// When that was committed, Unix time in ms.
    pub committed_ms: u64,
    /// Bytes known to be missing.
    pub behind_bytes: u64,
    /// How often HEAD had changed, as [`super::Replicated::commits`] counts, when it had all.
    pub commits: u64,
    /// How it stands.
    pub standing: Standing,
}

/// How a replica stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It was not looked at yet.
    #[default]
    Unknown,
    /// It lacks something, which is on its way.
    Behind,
    /// It has the current version.
    UpToDate,
    /// It cannot be written to now, for this reason; it is tried again.
    Trouble(String),
    /// It has what it had when that was wanted.
    Paused,
}

/// What is wanted of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// That it has what the primary has.
    #[default]
    Kept,
    /// That nothing goes to it; what is on its way is cut off.
    Paused,
    /// That its task ends.
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

    /// How far it is.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Keeps the replica up with the primary, as far as it is `wanted`, until the primary's side is dropped and everything it had is here.
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

    /// May be cut off anywhere: whatever was begun is found out anew.
    async fn stand(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Kept => in_background(self.follow()).await,
            Wanted::Paused => {
                self.progress.send_modify(|progress| progress.standing = Standing::Paused);
                // What is handed on meanwhile would only fill the memory.
                while self.changed.offers.recv().await.is_some() {}
            }
            Wanted::Ended => {}
        }
    }

    async fn follow(&mut self) {
        let mut backoff = Backoff::unwatched();
        if let Some(busy_until) = self.busy_until {
            // It was asked for before what was wanted changed.
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
            // While it is away the keys may change, also by another device.
            self.prepared = false;
            let hint = match &error {
                ReplicaError::Read(error) => retry::hint(error),
                _ => None,
            };
            self.busy_until = hint.map(|hint| Instant::now() + hint);
            self.wait((backoff.next(hint), hint.unwrap_or_default()), current.commits).await;
        }
    }

    /// Brings all that there is, and what is handed on until HEAD changes. False once that cannot change any more.
    async fn keep_up(&mut self, current: &Current, backoff: &mut Backoff) -> Result<bool, ReplicaError> {
        // What was put before HEAD changed has all been handed on by now.
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

    /// Waits for the next try: for `time` where nothing happens, no longer than [`BUSY`] where there is more to bring than
    /// after so many `commits`, and only for `least`, which the replica asked for, once somebody asks. What is handed on meanwhile would
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

    /// Puts objects that were handed on, as many at once as there are. One that fails is fetched later; the error is of a replica
    /// that takes nothing now.
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

    /// Which records are to be there the next time: the last two, since of one alone it is not known whether what it tells of was
    /// still there when it was put. None of as few is tidied away before others have come.
    fn remember(&mut self, records: &[String], put: &str, is_there: bool) {
        self.records = records.to_vec();
        if is_there && !records.iter().any(|record| record == put) {
            self.records.push(put.to_owned());
        }
        self.records.sort_unstable();
        self.records.drain(..self.records.len().saturating_sub(2));
    }

    /// What is known of the replica is not so any more.
    fn forget(&mut self) {
        (self.prepared, self.known) = (false, None);
        self.records.clear();
    }

    /// Brings what the current version needs and is not there, then its record, and then deletes what was deleted before it.
    async fn catch_up(&mut self, current: &Current) -> Result<(), ReplicaError> {
        while let Ok(deleted) = self.changed.deleted.try_recv() {
            self.doomed.push_back(deleted);
        }
        let Some(head) = &current.head else { return Ok(()) };
        let head = self.decode(head)?;
        let mut left =
            check_no_primary(&self.store, self.family.mode, self.objects.sealer(), head.drive).await?;
        let records = record::names(&*self.store, head.drive).await?;
        // A record that is gone went with all else: somebody has emptied the store, or made it anew.
        if self.records.iter().any(|record| !records.contains(record)) {
            self.forget();
        }
        let mut is_believed = true;
        if !self.prepared {
            // Where even that is missing, so may be what a record that is there tells of.
            if let Err(error) = self.store.head(family::NAME).await {
                if !matches!(error, StoreError::NotFound { .. }) {
                    return Err(error.into());
                }
                is_believed = false;
                self.forget();
            }
            let (primary, sealer) = (self.objects.store().as_ref(), self.objects.sealer());
            self.family = prepare(primary, &self.store, &self.family, sealer).await?;
            // As that says it is, it may be a primary after all.
            left = check_no_primary(&self.store, self.family.mode, self.objects.sealer(), head.drive).await?;
            self.prepared = true;
        }
        let (name, last) = (record::name(&head), records.last());
        let sealer = self.objects.sealer().clone();
        // What this primary brings is from before that too, if it is one that the drive has left itself.
        let left = left.filter(|left| *left < head.epoch);
        let counts = |record: &[u8]| record::counts(&sealer, left, record);
        let is_recorded =
            is_believed && last == Some(&name) && counts(&self.store.get(&name, None).await?.bytes);
        if !is_recorded || self.known.is_some() {
            self.bring(&head).await?;
            // It may have taken hours.
            check_no_primary(&self.store, self.family.mode, &sealer, head.drive).await?;
            if !is_recorded && last.is_none_or(|last| *last <= name) {
                let record = Bytes::from(head.encode(&sealer));
                // Another device's record of this version may say otherwise who holds it; either one leads to what is here whole. One
                // from before the drive was here itself is put over: it does not say that this is a replica once more.
                immutable::put_over_damage(&*self.store, &name, record, counts).await?;
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
        // Where another device has brought a later version, what to delete is for it to say.
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
        // Segments first: a root that is there names nothing that is not.
        let (roots, segments): (Vec<_>, Vec<_>) =
            missing.objects.iter().partition(|((kind, _), _)| *kind == ObjectKind::Root);
        for part in [segments, roots] {
            let copies: Vec<_> = part
                .into_iter()
                .map(|(object, len)| copy(&self.store, &self.objects, &self.progress, *object, *len).boxed())
                .collect();
            let mut copies = stream::iter(copies).buffer_unordered(PUTS_AT_ONCE);
            while let Some(copied) = copies.next().await {
                // What is done is not done again, should another one fail.
                known.gained(copied?);
            }
        }
        if let Some(known) = &mut self.known {
            known.caught_up(missing);
        }
        Ok(())
    }

    /// Deletes what was deleted from the primary before HEAD changed to what is here now.
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

    /// Whether another drive of the family, such as a clone or a fork, is here too, as in a replica or as in its own store (this
    /// one may have been a primary): what it needs here may be more than what it needs at the primary. Then nothing is deleted.
    async fn others_are_here(&self, drive: Uuid) -> Result<bool, ReadError> {
        for (all, own) in [(record::ALL, record::prefix(drive)), (head::ALL, head::name(drive))] {
            let listed = self.store.list(all).await?;
            if listed.iter().any(|listed| !listed.name.starts_with(&own)) {
                return Ok(true);
            }
        }
        // Somebody looks at a version, or makes a drive of it.
        Ok(!self.store.list("ref/").await?.is_empty())
    }
}

/// Copies an object of `len` bytes, where that is known, after every part of it was opened: what is damaged on its way must not be
/// taken for a copy. Returns what it was. What a broken put has left under its name is put over.
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
