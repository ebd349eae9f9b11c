//! HEAD on stores without compare-and-swap: exclusive creation and listings that are current are enough.
//!
//! The object `head/<drive>` that callers see is here a series of *records*, `head/<drive>/<turn>-<seq>-<epoch>-<nonce>`, none of which is
//! ever overwritten. The current record is the last one of the highest turn. A device that wants to write from now on (an open, a rollback)
//! makes the *claim* of a turn above all others, `claim/<drive>/<turn>`, which only one device can make. Claims and records that are long
//! past are deleted (`collect`).
//!
//! * To take a turn: make the claim, list the records, put a record of that turn that follows the last one.
//! * To commit: put the next record of your own turn. Then list the claims, and the records. The record counts only if no higher claim or
//!   record exists, and only if the record that it follows is still there: the store may have been restored from a backup in between.
//!
//! The writer and the claimant each put first and look then, so at least one of them sees the other. A writer that sees a higher claim does
//! not know whether the claimant has seen its record. It waits for the claimant's own record. If none comes, the writer takes the claimant
//! for dead and takes the next turn itself; a claimant that lives after all will see that turn. How long this takes is a matter of
//! patience: no clock decides who wins. A claimant that finds itself too late puts the current version again under its own turn, so that
//! nobody has to wait for it. The version stays the same, because epoch and nonce make the version: the device that committed it continues
//! from there.
//!
//! If somebody has deleted the claims, the records still show which turns were taken. A record counts only while the claim of its turn is
//! listed, and the claim of the turn that it follows. A device that misses one of them takes another turn with the same version, as after a
//! claimant that has died. That turn is far above all known ones, and so above every turn whose claim was deleted before its record was
//! put: a record that is still put under such a turn is not the last one. A record whose own claim is gone yields to one that lies between
//! it and the one that it follows.
//!
//! Two things are taken for granted. The owner of a turn is one process: two copies of a running one (a virtual machine that was resumed
//! twice) would both put the next record of the same turn, and both would count it. And a record exists whole or not at all: on a server
//! without MOVE (`dav/put.rs`), a writer that dies in the middle of a put leaves a HEAD that does not decode.
//!
//! The maker of a family is settled in the same way, by claims and by records of the future `family.json` (`family`).

use super::{Etag, Facts, Fetched, Listed, Store, StoreError, When, immutable};
use crate::format::head;
use async_trait::async_trait;
use bytes::Bytes;
use collect::{Shown, leaves_out};
use names::NUMBER_MAX;
pub(super) use names::{Place, claimed};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod collect;
mod family;
mod names;

/// How long a claimant may take to put its record before it counts as dead.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look for that record in the meantime.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often other devices may be first to claim the next turn before the caller has to try again later.
const CLAIM_TRIES: u32 = 16;
/// As many names as every usable server lists: the probe puts more (`probe/looks.rs`).
const LISTED_SURELY: usize = 200;
/// How often claims may be missing in one swap before the store's listings count as late. Then the caller tries again later.
const MISSED_MAX: u32 = 4;
/// The next turn is drawn from this many.
const TURNS_DRAWN: u64 = 1 << 20;
/// After a turn whose claim was deleted, the next one is this much higher: more than all turns that may be claimed without being known.
const TURNS_LEFT_OUT: u64 = 1 << 32;

/// A store whose HEADs can be swapped, on top of one whose objects cannot.
pub struct Claims {
    inner: Arc<dyn Store>,
    /// Records that this process has put and that may not count yet, by their nonces, each with the record that it follows. Held only for
    /// map operations.
    unconfirmed: Mutex<BTreeMap<u128, Followed>>,
    patience: Duration,
    /// When a delete was last refused. Held for a moment only.
    refused_at: Mutex<Option<Instant>>,
}

/// The record that a record follows which does not count yet.
#[derive(Clone, Copy)]
struct Followed {
    record: Place,
    /// Whether a listing after the put has shown it below the new record.
    is_seen: bool,
}

impl Claims {
    /// Swaps HEADs on `inner` by claims.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, unconfirmed: Mutex::default(), patience: PATIENCE, refused_at: Mutex::default() }
    }

    /// With another patience than half a minute, for tests in real time.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The records of a drive, the current one last.
    async fn records(&self, drive: &str) -> Result<Vec<Place>, StoreError> {
        let listed = self.inner.list(&format!("{drive}/")).await?;
        let mut places: Vec<_> =
            listed.iter().filter_map(|listed| Place::parse(drive, &listed.name)).collect();
        places.sort_unstable();
        Ok(places)
    }

    async fn current(&self, drive: &str) -> Result<Option<Place>, StoreError> {
        Ok(self.records(drive).await?.pop())
    }

    /// The claimed turns. The first one needs no claim: nobody else knows the drive then.
    async fn claimed(&self, drive: &str) -> Result<BTreeSet<u64>, StoreError> {
        let claims = claims_of(drive);
        let listed = self.inner.list(&format!("{claims}/")).await?;
        let turns = listed.iter().filter_map(|listed| names::claimed(&claims, &listed.name));
        Ok(turns.chain([0]).collect())
    }

    /// Claims a turn above all others; far above if claims `are_missing`.
    async fn claim_next(&self, drive: &str, nonce: u128, are_missing: bool) -> Result<u64, StoreError> {
        for tried in 1..=CLAIM_TRIES {
            // In this order: a record appears only after its claim.
            let recorded = self.current(drive).await?.map_or(0, |current| current.turn);
            let claimed = self.claimed_with(drive, recorded, (recorded, recorded)).await?;
            let highest = claimed.last().map_or(recorded, |claimed| recorded.max(*claimed));
            let are_missing = are_missing || !claimed.contains(&recorded);
            let left_out = if are_missing { TURNS_LEFT_OUT } else { 0 };
            // Drawn at random: a deleted claim can be made again, and even then two devices do not get the same turn.
            let step = 1 + crate::entropy::u128() as u64 % TURNS_DRAWN;
            let turn = highest + left_out + step;
            if turn > NUMBER_MAX {
                return Err(no_turn(drive));
            }
            if self.inner.claim(&names::claim(&claims_of(drive), turn), nonce).await? {
                return Ok(turn);
            }
            // First, other devices may just be quicker. Then the listing may be late: give it a moment.
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
            let place = self.latest(drive).await?.ok_or_else(missing)?;
            let bytes = match self.inner.get(&place.name(drive), None).await {
                // So many records have followed it since the listing that it was deleted.
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
            if !self.unconfirmed.lock().contains_key(&place.nonce) {
                return Ok(Fetched { bytes, etag: etag(drive, place) });
            }
            // This record is our own, and its put or a later request got no answer. To confirm it may put it again: bytes damaged on their
            // way must not become the current version.
            let again = self.inner.get(&place.name(drive), None).await?.bytes;
            if again != bytes {
                continue;
            }
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
        let before = Place::parse(drive, &expected.0).ok_or_else(lost)?;
        let mut current = self.latest(drive).await?;
        if current < Some(before) {
            // The store was restored, or its listing leaves out records.
            let Shown { records, is_whole, .. } = self.records_with(drive, before).await?;
            if !is_whole {
                return Err(leaves_out(drive));
            }
            current = records.last().copied();
        }
        let current = current.ok_or_else(lost)?;
        if current.nonce == nonce {
            return self.confirm(drive, current, &body).await.map_err(unsure);
        }
        if !current.has_version_of(&before) {
            return Err(lost());
        }
        let (place, followed) = if before.epoch == epoch {
            let seq = Some(current.seq + 1).filter(|seq| *seq <= NUMBER_MAX);
            (Place { seq: seq.ok_or_else(|| no_turn(drive))?, nonce, ..current }, current)
        } else {
            let turn = self.claim_next(drive, nonce, false).await?;
            let current = self.latest(drive).await?;
            // A record above this turn would hide the one put under it.
            let followed = current.filter(|current| current.has_version_of(&before) && current.turn < turn);
            let Some(followed) = followed else {
                self.hand_on(drive, turn, current).await;
                return Err(lost());
            };
            (Place { turn, seq: 0, epoch, nonce }, followed)
        };
        self.unconfirmed.lock().insert(nonce, Followed { record: followed, is_seen: false });
        self.put_record(drive, place, &body).await?;
        self.confirm(drive, place, &body).await.map_err(unsure)
    }

    /// The last record, once `place` was put. Checks, unless this is known already, that `place` follows the record that it was to follow.
    /// If the claim of its turn is gone, nothing kept others from putting a record between the two, and that one counts.
    async fn last_after(
        &self,
        drive: &str,
        place: Place,
        is_claimed: bool,
    ) -> Result<Option<Place>, StoreError> {
        let Shown { records, left_out, is_whole } = self.records_with(drive, place).await?;
        let followed = self.unconfirmed.lock().get(&place.nonce).copied();
        let Some(Followed { record: followed, is_seen }) = followed else {
            return if is_whole { Ok(records.last().copied()) } else { Err(leaves_out(drive)) };
        };
        if !is_whole {
            if !is_seen {
                self.take_back(drive, place).await?;
            }
            return Err(leaves_out(drive));
        }
        let is_followed_one = |record: &Place| *record < place && record.has_version_of(&followed);
        // A copy of this very version is not another record: it may have been handed on to another turn.
        let is_other = |record: &Place| *record < place && record.nonce != place.nonce;
        let beneath = records.iter().rfind(|record| is_followed_one(record) || is_other(record));
        let is_next = beneath.is_some_and(is_followed_one);
        let is_followed = if left_out || !is_claimed {
            // By now the listing shows whether another record lies between the two.
            is_next
        } else if is_seen {
            true
        } else {
            records.iter().any(is_followed_one) || self.is_there(&followed.name(drive)).await?
        };
        if !is_followed {
            self.take_back(drive, place).await?;
            return Err(StoreError::Precondition { name: drive.to_owned() });
        }
        self.unconfirmed.lock().entry(place.nonce).and_modify(|followed| followed.is_seen = true);
        Ok(records.last().copied())
    }

    /// Deletes a record that was put a moment ago, because the record that it follows is gone or is not the last one. Either the store was
    /// restored from a backup in between, and has nothing of what the record names; or its listing had left out records of others.
    async fn take_back(&self, drive: &str, place: Place) -> Result<(), StoreError> {
        self.inner.delete(&place.name(drive)).await?;
        self.unconfirmed.lock().remove(&place.nonce);
        Ok(())
    }

    /// Puts the current version again, as the next record, under a turn that is of no other use here: the writer of that version would wait
    /// for a record of this turn. If this fails, that writer waits.
    async fn hand_on(&self, drive: &str, turn: u64, current: Option<Place>) {
        let Some(current) = current.filter(|current| current.turn < turn) else { return };
        let name = current.name(drive);
        // Read twice: bytes damaged on their way must not become the current version, and only a family's key can check the content.
        let (first, second) = (self.inner.get(&name, None).await, self.inner.get(&name, None).await);
        let (Ok(first), Ok(second)) = (first, second) else { return };
        if first.bytes == second.bytes {
            let _ = self.put_record(drive, Place { turn, seq: 0, ..current }, &first.bytes).await;
        }
    }

    async fn put_record(&self, drive: &str, place: Place, body: &Bytes) -> Result<(), StoreError> {
        immutable::put(&*self.inner, &place.name(drive), body.clone()).await
    }

    /// Finds out whether an existing record counts.
    async fn confirm(&self, drive: &str, mut place: Place, body: &Bytes) -> Result<Etag, StoreError> {
        let deadline = Instant::now() + self.patience;
        let mut missed = 0;
        loop {
            let followed = self.unconfirmed.lock().get(&place.nonce).map(|followed| followed.record);
            let follows = followed.map_or(place.turn, |followed| followed.turn);
            let claimed = self.claimed_with(drive, place.turn, (place.turn, follows)).await?;
            let is_left_out = place.turn.saturating_sub(follows) > TURNS_LEFT_OUT;
            let is_claimed = async |turn| Ok(claimed.contains(&turn) || self.is_claimed(drive, turn).await?);
            let is_own_there = claimed.contains(&place.turn);
            let are_there = is_own_there && (is_left_out || is_claimed(follows).await?);
            // In this order: either this sees a record whose claim was deleted, or that record's writer sees this one.
            match self.last_after(drive, place, is_own_there).await? {
                Some(last) if last == place => {}
                // It was handed on to a higher turn.
                Some(last) if last.nonce == place.nonce => {
                    place = last;
                    continue;
                }
                _ => {
                    self.unconfirmed.lock().remove(&place.nonce);
                    return Err(StoreError::Precondition { name: drive.to_owned() });
                }
            }
            if are_there && claimed.last() == Some(&place.turn) {
                self.unconfirmed.lock().remove(&place.nonce);
                self.collect(drive, place, follows, &claimed).await;
                return Ok(etag(drive, place));
            }
            if are_there && Instant::now() < deadline {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            missed += u32::from(!are_there);
            if missed > MISSED_MAX {
                let reason = format!("claims of {drive} that were just made are not listed");
                return Err(StoreError::Busy { reason, retry_after: None });
            }
            // The maker of that claim died before it put a record; or somebody has deleted claims.
            let turn = self.claim_next(drive, crate::entropy::u128(), !are_there).await?;
            if self.current(drive).await? == Some(place) {
                let followed = Followed { record: place, is_seen: false };
                self.unconfirmed.lock().entry(place.nonce).and_modify(|known| *known = followed);
                place = Place { turn, seq: 0, ..place };
                self.put_record(drive, place, body).await?;
            }
        }
    }

    /// The first record of a drive, whose name nobody else knows yet.
    async fn create(&self, drive: &str, body: &Bytes) -> Result<Etag, StoreError> {
        let (epoch, nonce) = peek(drive, body)?;
        let place = Place { turn: 0, seq: 0, epoch, nonce };
        match self.current(drive).await? {
            Some(current) if current != place => {
                return Err(StoreError::Precondition { name: drive.to_owned() });
            }
            _ => self.put_record(drive, place, body).await?,
        }
        Ok(etag(drive, place))
    }
}

fn etag(drive: &str, place: Place) -> Etag {
    Etag(place.name(drive))
}

fn no_turn(drive: &str) -> StoreError {
    StoreError::Damaged { name: drive.to_owned(), reason: "its claims have come to the last number".into() }
}

fn claims_of(drive: &str) -> String {
    drive.replacen("head/", "claim/", 1)
}

/// Whether the names of several drives may begin with `prefix`.
fn is_part_of_drive(prefix: &str) -> bool {
    prefix.strip_prefix("head/").is_some_and(|part| part.len() < 32 && !part.contains('/'))
}

/// An error of a request after the put: the record is there, whatever the store refuses now.
fn unsure(error: StoreError) -> StoreError {
    match error.was_refused() {
        true => StoreError::Unreachable { reason: error.to_string() },
        false => error,
    }
}

/// Whether `name` is a HEAD.
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
        if !prefix.starts_with("head/") {
            return self.inner.list(prefix).await;
        }
        // One line for each drive, however many records it has.
        let mut drives: BTreeMap<String, u64> = BTreeMap::new();
        let mut waiting = vec![prefix.to_owned()];
        while let Some(prefix) = waiting.pop() {
            let listed = self.inner.list(&prefix).await?;
            if listed.len() >= LISTED_SURELY && is_part_of_drive(&prefix) {
                // A server may leave out some of this many, and a drive that no listing shows would be deleted as garbage.
                waiting.extend("0123456789abcdef".chars().map(|digit| format!("{prefix}{digit}")));
            }
            for listed in listed {
                let Some((drive, _)) = listed.name.rsplit_once('/') else { continue };
                if Place::parse(drive, &listed.name).is_some() {
                    drives.insert(drive.to_owned(), listed.len);
                }
            }
        }
        Ok(drives.into_iter().map(|(name, len)| Listed { name, len }).collect())
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.inner.claim(name, nonce).await
    }

    fn heeds_conditions(&self) -> bool {
        self.inner.heeds_conditions()
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }

    fn foreign(&self) -> Vec<String> {
        self.inner.foreign()
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests;
