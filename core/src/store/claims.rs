//! HEAD on stores without compare-and-swap: exclusive creation and listings that are current do as well.
//!
//! What others see as the object `head/<drive>` is here a row of *records*, `head/<drive>/<turn>-<seq>-<epoch>-<nonce>`,
//! none of which is ever overwritten. The current one is the last of the highest turn. Who wants to write from now on (an
//! open, a rollback) makes the *claim* of the next turn, `claim/<drive>/<turn>`, which only one can make; claims
//! are never deleted.
//!
//! * To take a turn: make the claim, list the records, put a record of that turn that follows the last one.
//! * To commit: put the next record of one's turn. Then list the claims. Only if there is no higher one it counts.
//!
//! Writer and claimant each put first and look then, so at least one of them sees the other. A writer that sees a
//! higher claim does not know whether the claimant has seen its record. It waits for the claimant's own; if none comes,
//! the claimant is taken for dead, and the writer takes the next turn itself, which the claimant will see should it live.
//! How long that takes is a matter of patience: no clock decides who wins. A claimant that
//! finds itself too late puts the current version once more under its turn, so that nobody waits for it at all. That is still the
//! same version, which is its epoch and its nonce: whoever has committed it goes on from there.
//!
//! Two things are taken for granted. The owner of a turn is one process: two copies of a running one (a virtual machine that
//! was resumed twice) would both put the next record of the same turn, and both count it. And a record is there whole or not at
//! all: where a server has no MOVE (`dav/put.rs`), a writer that dies in the middle of one leaves a HEAD that does not decode.
//!
//! Who makes a family is settled in the same way, by claims and records of what `family.json` is to be (`family`).

use super::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use crate::format::head;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod family;

/// How long a claimant may take to put its record before it is taken for dead.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Claims of the next turn that others may be seen to have made first, before it is tried again later.
const CLAIM_TRIES: u32 = 16;
/// Records behind the current one that are kept, for readers that have listed them.
const RECORDS_KEPT: usize = 32;

/// A store whose HEADs can be swapped, on one whose objects cannot.
pub struct Claims {
    inner: Arc<dyn Store>,
    /// Records that this process has put without knowing yet whether they count. Held for map operations only.
    unconfirmed: Mutex<BTreeSet<u128>>,
    patience: Duration,
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: u64,
    seq: u64,
    /// That of the HEAD.
    epoch: u64,
    nonce: u128,
}

impl Place {
    fn name(&self, drive: &str) -> String {
        let Self { turn, seq, epoch, nonce } = self;
        format!("{drive}/{turn:016x}-{seq:016x}-{epoch:016x}-{nonce:032x}")
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.rsplit('/').next()?.split('-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            // A sign would be taken too.
            let is_plain = part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u128::from_str_radix(part, 16).ok().filter(|_| is_plain)
        };
        let [turn, seq, epoch] = [number(16)? as u64, number(16)? as u64, number(16)? as u64];
        let nonce = number(32)?;
        parts.next().is_none().then_some(Self { turn, seq, epoch, nonce })
    }

    fn etag(&self, drive: &str) -> Etag {
        Etag(self.name(drive))
    }

    /// Whether it is the same HEAD, perhaps handed on to another turn.
    fn has_version_of(&self, other: &Self) -> bool {
        (self.epoch, self.nonce) == (other.epoch, other.nonce)
    }
}

impl Claims {
    /// Swaps HEADs on `inner` by claims.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, unconfirmed: Mutex::default(), patience: PATIENCE }
    }

    /// With another patience than half a minute, for tests in real time.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The records of a drive, the current one last.
    async fn records(&self, drive: &str) -> Result<Vec<Place>, StoreError> {
        let listed = self.inner.list(&format!("{drive}/")).await?;
        let mut places: Vec<_> = listed.iter().filter_map(|listed| Place::parse(&listed.name)).collect();
        places.sort_unstable();
        Ok(places)
    }

    async fn current(&self, drive: &str) -> Result<Option<Place>, StoreError> {
        Ok(self.records(drive).await?.pop())
    }

    /// The highest turn that is claimed.
    async fn highest_claim(&self, drive: &str) -> Result<u64, StoreError> {
        let prefix = format!("{}/", claims_of(drive));
        let listed = self.inner.list(&prefix).await?;
        let turn = |listed: &Listed| {
            let name = listed.name.strip_prefix(&prefix)?;
            u64::from_str_radix(name.split('/').next()?, 16).ok()
        };
        Ok(listed.iter().filter_map(turn).max().unwrap_or(0))
    }

    /// Claims the next turn that is free.
    async fn claim_next(&self, drive: &str, nonce: u128) -> Result<u64, StoreError> {
        for tried in 1..=CLAIM_TRIES {
            let turn = self.highest_claim(drive).await?.checked_add(1).ok_or_else(|| no_turn(drive))?;
            if self.inner.claim(&format!("{}/{turn:016x}", claims_of(drive)), nonce).await? {
                return Ok(turn);
            }
            // Others are as quick; a listing that is late may take a moment.
            if tried >= CLAIM_TRIES / 2 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        let reason = format!("the next turn of {drive} is claimed, and is not listed");
        Err(StoreError::Busy { reason, retry_after: None })
    }

    async fn read(&self, drive: &str) -> Result<Fetched, StoreError> {
        let mut gone = None;
        loop {
            let missing = || StoreError::NotFound { name: drive.to_owned() };
            let place = self.current(drive).await?.ok_or_else(missing)?;
            let bytes = match self.inner.get(&place.name(drive), None).await {
                // It was followed by so many others since the listing that it is gone.
                Err(StoreError::NotFound { .. }) if gone != Some(place) => {
                    gone = Some(place);
                    continue;
                }
                Err(StoreError::NotFound { .. }) => {
                    let reason = format!("{} is listed, and is not there", place.name(drive));
                    return Err(StoreError::Unreachable { reason });
                }
                fetched => fetched?.bytes,
            };
            if !self.unconfirmed.lock().contains(&place.nonce) {
                return Ok(Fetched { bytes, etag: place.etag(drive) });
            }
            // Ours, and its put or what follows it got no answer.
            match self.confirm(drive, place, &bytes).await {
                Ok(etag) => return Ok(Fetched { bytes, etag }),
                Err(StoreError::Precondition { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn swap(&self, drive: &str, body: Bytes, expected: &Etag) -> Result<Etag, StoreError> {
        let lost = || StoreError::Precondition { name: drive.to_owned() };
        let (epoch, nonce) = peek(drive, &body)?;
        let before = Place::parse(&expected.0).ok_or_else(lost)?;
        let current = self.current(drive).await?.ok_or_else(lost)?;
        if current.nonce == nonce {
            return self.confirm(drive, current, &body).await;
        }
        if !current.has_version_of(&before) {
            return Err(lost());
        }
        let place = if before.epoch == epoch {
            Place { seq: current.seq.checked_add(1).ok_or_else(|| no_turn(drive))?, nonce, ..current }
        } else {
            let turn = self.claim_next(drive, nonce).await?;
            let current = self.current(drive).await?;
            if !current.is_some_and(|current| current.has_version_of(&before)) {
                self.hand_on(drive, turn, current).await;
                return Err(lost());
            }
            Place { turn, seq: 0, epoch, nonce }
        };
        self.unconfirmed.lock().insert(nonce);
        self.put_record(drive, place, &body).await?;
        self.confirm(drive, place, &body).await
    }

    /// Gives a turn that is of no use here to the current version, as its next record: whoever put that would wait for
    /// ours. If this fails, it waits.
    async fn hand_on(&self, drive: &str, turn: u64, current: Option<Place>) {
        let Some(current) = current.filter(|current| current.turn < turn) else { return };
        let name = current.name(drive);
        // Twice: what is damaged on its way must not become the current version, and what is in it only a family's key checks.
        let (first, second) = (self.inner.get(&name, None).await, self.inner.get(&name, None).await);
        let (Ok(first), Ok(second)) = (first, second) else { return };
        if first.bytes == second.bytes {
            let _ = self.put_record(drive, Place { turn, seq: 0, ..current }, &first.bytes).await;
        }
    }

    /// Puts a record; one that is there already is an earlier try of the same.
    async fn put_record(&self, drive: &str, place: Place, body: &Bytes) -> Result<(), StoreError> {
        let name = place.name(drive);
        match self.inner.put(&name, body.clone(), When::Absent).await {
            Err(StoreError::Precondition { .. }) if self.inner.get(&name, None).await?.bytes == *body => {
                Ok(())
            }
            put => put.map(drop),
        }
    }

    /// Finds out whether a record counts that is there.
    async fn confirm(&self, drive: &str, mut place: Place, body: &Bytes) -> Result<Etag, StoreError> {
        let deadline = Instant::now() + self.patience;
        loop {
            if self.highest_claim(drive).await? <= place.turn {
                self.unconfirmed.lock().remove(&place.nonce);
                self.tidy(drive, place).await;
                return Ok(place.etag(drive));
            }
            match self.current(drive).await? {
                Some(current) if current == place => {}
                // It was handed on to a higher turn.
                Some(current) if current.nonce == place.nonce => {
                    place = current;
                    continue;
                }
                _ => {
                    self.unconfirmed.lock().remove(&place.nonce);
                    return Err(StoreError::Precondition { name: drive.to_owned() });
                }
            }
            if Instant::now() < deadline {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            // Whoever made that claim has died before it put a record.
            let turn = self.claim_next(drive, crate::entropy::u128()).await?;
            if self.current(drive).await? == Some(place) {
                place = Place { turn, seq: 0, ..place };
                self.put_record(drive, place, body).await?;
            }
        }
    }

    /// Deletes records that are long past. One that stays does no harm.
    async fn tidy(&self, drive: &str, place: Place) {
        if !place.seq.is_multiple_of(RECORDS_KEPT as u64) {
            return;
        }
        let Ok(records) = self.records(drive).await else { return };
        let past = records.iter().rev().filter(|record| **record < place).skip(RECORDS_KEPT);
        for record in past {
            if self.inner.delete(&record.name(drive)).await.is_err() {
                return;
            }
        }
    }

    /// The first record of a drive, whose name nobody else knows.
    async fn create(&self, drive: &str, body: &Bytes) -> Result<Etag, StoreError> {
        let (epoch, nonce) = peek(drive, body)?;
        let place = Place { turn: 0, seq: 0, epoch, nonce };
        match self.current(drive).await? {
            Some(current) if current != place => {
                return Err(StoreError::Precondition { name: drive.to_owned() });
            }
            _ => self.put_record(drive, place, body).await?,
        }
        Ok(place.etag(drive))
    }
}

fn no_turn(drive: &str) -> StoreError {
    StoreError::Damaged { name: drive.to_owned(), reason: "its claims have come to the last number".into() }
}

fn claims_of(drive: &str) -> String {
    drive.replacen("head/", "claim/", 1)
}

/// Whether it is the name of a HEAD.
fn is_head(name: &str) -> bool {
    name.strip_prefix("head/").is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
}

fn peek(name: &str, body: &[u8]) -> Result<(u64, u128), StoreError> {
    head::peek(body)
        .map(|(epoch, nonce)| (epoch.0, nonce))
        .ok_or_else(|| StoreError::Damaged { name: name.to_owned(), reason: "it is no HEAD".into() })
}

#[async_trait]
impl Store for Claims {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        if is_head(name) { self.read(name).await } else { self.inner.get(name, range).await }
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        match when {
            When::Matches(expected) if is_head(name) => self.swap(name, body, &expected).await,
            When::Absent if is_head(name) => self.create(name, &body).await,
            When::Absent if name == crate::format::family::NAME => self.make_family(body).await,
            when => self.inner.put(name, body, when).await,
        }
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        if is_head(name) {
            return Ok(self.read(name).await?.bytes.len() as u64);
        }
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let listed = self.inner.list(prefix).await?;
        if !prefix.starts_with("head/") {
            return Ok(listed);
        }
        // One line for each drive, whatever records it has.
        let mut drives: BTreeMap<String, u64> = BTreeMap::new();
        for listed in listed {
            let drive = listed.name.rsplit_once('/').map_or(listed.name.as_str(), |(drive, _)| drive);
            drives.insert(drive.to_owned(), listed.len);
        }
        Ok(drives.into_iter().map(|(name, len)| Listed { name, len }).collect())
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.inner.claim(name, nonce).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::format::head::{Head, HeadState};
    use crate::format::id::ObjectId;
    use crate::seal::{Cipher, DataKey, Sealer};
    use crate::sim::store::{SimStore, StoreFaults};
    use crate::units::Epoch;
    use uuid::Uuid;

    const DRIVE: Uuid = Uuid::from_u128(1);

    fn body(epoch: u64, nonce: u128) -> Bytes {
        let head = Head {
            drive: DRIVE,
            epoch: Epoch(epoch),
            nonce,
            device: Uuid::nil(),
            device_name: String::new(),
            state: HeadState::Held,
            written_ms: 0,
            root: ObjectId::NONE,
            root_hash: [0; 32],
            parent: ObjectId::NONE,
            moved_to: Vec::new(),
        };
        head.encode(&Sealer::new(Cipher::None, &DataKey([1; 32].into()))).into()
    }

    fn store() -> SimStore {
        SimStore::new(1, StoreFaults::default()).without_swap()
    }

    /// One process.
    fn process(store: &SimStore) -> Claims {
        Claims::new(Arc::new(store.clone()))
    }

    async fn nonce(store: &SimStore) -> u128 {
        let head = process(store).get(&head::name(DRIVE), None).await.expect("there is a HEAD");
        peek("", &head.bytes).expect("it is a HEAD").1
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_who_take_a_drive_at_once_one_wins() {
        let (store, name) = (store(), head::name(DRIVE));
        process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
        let (a, b) = (process(&store), process(&store));
        let seen = a.get(&name, None).await.unwrap().etag;
        let take = |process: Claims, nonce| {
            let (name, seen) = (name.clone(), seen.clone());
            async move { process.put(&name, body(1, nonce), When::Matches(seen)).await }
        };
        let (a, b) = tokio::join!(take(a, 2), take(b, 3));
        let winner = if a.is_ok() { 2 } else { 3 };
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        assert_eq!(nonce(&store).await, winner);
    }

    #[tokio::test(start_paused = true)]
    async fn who_loses_does_not_hold_up_who_wins() {
        for seed in 0..200 {
            let faults = StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() };
            let (store, name) = (SimStore::new(seed, faults).without_swap(), head::name(DRIVE));
            process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
            let seen = process(&store).get(&name, None).await.unwrap().etag;
            let begun = Instant::now();
            let take =
                async |nonce| process(&store).put(&name, body(1, nonce), When::Matches(seen.clone())).await;
            let (a, b) = tokio::join!(take(2), take(3));
            let winner = if a.is_ok() { 2 } else { 3 };
            assert!(a.is_ok() != b.is_ok(), "seed {seed}: {a:?} {b:?}");
            assert_eq!(nonce(&store).await, winner, "seed {seed}");
            assert!(begun.elapsed() < 4 * LOOK_EVERY, "seed {seed}: {:?}", begun.elapsed());
            // The winner goes on, whatever turn it has ended up with: who lost may have handed it on since.
            let held = a.or(b).unwrap();
            process(&store).put(&name, body(1, 4), When::Matches(held)).await.unwrap();
            assert_eq!(nonce(&store).await, 4, "seed {seed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_was_overtaken_commits_no_more() {
        let (store, name) = (store(), head::name(DRIVE));
        let old = process(&store);
        old.put(&name, body(0, 1), When::Absent).await.unwrap();
        let seen = old.get(&name, None).await.unwrap().etag;
        let held = old.put(&name, body(1, 2), When::Matches(seen.clone())).await.unwrap();
        let held = old.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
        let new = process(&store).put(&name, body(2, 4), When::Matches(held.clone())).await.unwrap();
        let late = old.put(&name, body(1, 5), When::Matches(held)).await;
        assert!(matches!(late, Err(StoreError::Precondition { .. })), "{late:?}");
        assert!(matches!(
            process(&store).put(&name, body(3, 6), When::Matches(seen)).await,
            Err(StoreError::Precondition { .. })
        ));
        assert_eq!(nonce(&store).await, 4);
        process(&store).put(&name, body(2, 7), When::Matches(new)).await.unwrap();
        assert_eq!(nonce(&store).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claimant_that_died_holds_nobody_up_for_long() {
        let (store, name) = (store(), head::name(DRIVE));
        let writer = process(&store);
        writer.put(&name, body(0, 1), When::Absent).await.unwrap();
        let seen = writer.get(&name, None).await.unwrap().etag;
        let held = writer.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
        process(&store).claim_next(&name, 99).await.unwrap();
        let begun = Instant::now();
        let held = writer.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
        assert!(begun.elapsed() >= PATIENCE, "it was given its time");
        assert_eq!(nonce(&store).await, 3);
        let begun = Instant::now();
        writer.put(&name, body(1, 4), When::Matches(held)).await.unwrap();
        assert!(begun.elapsed() < LOOK_EVERY, "once is enough");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_lost_is_not_taken_for_a_commit_that_was_overtaken() {
        let (store, name) = (store(), head::name(DRIVE));
        let old = process(&store);
        old.put(&name, body(0, 1), When::Absent).await.unwrap();
        let seen = old.get(&name, None).await.unwrap().etag;
        let held = old.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
        // The record is put, and what should follow is not.
        let place = Place::parse(&held.0).unwrap();
        let next = Place { seq: place.seq + 1, nonce: 3, ..place };
        old.unconfirmed.lock().insert(3);
        old.put_record(&name, next, &body(1, 3)).await.unwrap();
        // Meanwhile another device takes the drive, from the version before: it has listed the records earlier.
        let turn = process(&store).claim_next(&name, 9).await.unwrap();
        let other = Place { turn, seq: 0, epoch: 2, nonce: 9 };
        process(&store).put_record(&name, other, &body(2, 9)).await.unwrap();
        let now = old.get(&name, None).await.unwrap();
        assert_eq!(peek("", &now.bytes).unwrap().1, 9, "who looks sees that it was fenced");
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_shows_one_head_for_each_drive_and_old_records_go() {
        let (store, name) = (store(), head::name(DRIVE));
        let writer = process(&store);
        let mut held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
        for commit in 0..200 {
            held = writer.put(&name, body(1, 2 + commit), When::Matches(held)).await.unwrap();
        }
        let listed = writer.list("head/").await.unwrap();
        assert_eq!(listed.iter().map(|listed| listed.name.clone()).collect::<Vec<_>>(), [name]);
        assert!(store.names().len() < 3 * RECORDS_KEPT, "{} objects", store.names().len());
    }
}
