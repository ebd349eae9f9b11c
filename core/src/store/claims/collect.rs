//! Deletes claims and records that are long past, and finds out listings that leave out names.
//!
//! Some servers list a limited number of names (750 and 200 were reported) and do not mention the rest. A drive would reach such a limit,
//! because each opening makes a claim. So no listing that decides something ever grows long, and a name that must exist is looked up by
//! itself if a listing lacks it.
//!
//! **Which claims are deleted.** Those below the turn that a record follows, once that record counts. The highest claim stays, and so do
//! the claim of that record and the claim of the one that it follows. Nobody needs the others: a device whose turn is lower has lost,
//! whether its claim is still there or not. It may have stopped at any step, for an hour or for a year:
//! * Before its claim: it draws its turn above all that it has listed. Then it lists the records, sees one of a higher turn, and stops. Its
//!   claim is below all that count, even if another device had once made the very same claim.
//! * Between its claim and its record: its record is below the last one, and never becomes the current one.
//! * Between its record and its listing of the claims: it misses its own claim, and then finds that the last record is not its own.
//!
//! In each case it is the *record* of the higher turn that turns the device away, so a record is deleted only with more than
//! [`RECORDS_KEPT`] above it. One collection may delete its claims in any order, and a power cut in the middle leaves some of them: they
//! mean what they meant before, and the next opening deletes them. A record that is taken back (`Claims::take_back`) makes the one that it
//! follows the last one again. That is why the claim of that turn stays: without it the next device would have to take a turn far above.
//!
//! The order cannot protect against a store that is restored from a backup between such a listing and its deletes: a record listed as past
//! may be the last one of the backup. So the deletes follow their listing at once.
//!
//! A listing that is late shows claims that are gone or lacks the newest. The former are below all that count. If it lacks the device's own
//! newest claim, that claim is found by its name, and nothing is decided. If it lacks another device's, no rule here helps, and the probe
//! refuses such stores.
//!
//! **Which listings are cut off.** None with [`NAMES_MAX`] names or fewer: the probe refuses a server that lists fewer than 240. A longer
//! one is shortened before it decides anything, and then listed again: such servers show the oldest names first, most of these are long
//! past, and deleting them makes space for the rest. So even a drive that reached the limit under an older version, or with a key that may
//! not delete, opens again, at its last version. Claims between the turn that a record follows and its own turn may then be deleted too:
//! the record is there, so they have lost.
//!
//! If nothing may be deleted, or a server lists even fewer names, there is a second check: what this device has just put or claimed must be
//! listed, as the newest names are the first to be left out. If such a name is missing from the listing and found by itself, the error is
//! "busy", and never that another device has the drive. A record that was put in the meantime is taken back if another one turns out to lie
//! between it and the one that it was to follow.

use super::{Claims, Place, claims_of, is_head, names};
use crate::planted::{self, Bug};
use crate::store::StoreError;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Records to keep behind the current one, for readers that have listed them.
pub(super) const RECORDS_KEPT: usize = 16;
/// More claims or records than a drive ever has: another [`RECORDS_KEPT`] may come before the next collection, and a few in races. Every
/// usable server lists far more, so a listing with this many names is whole.
const NAMES_MAX: usize = 2 * RECORDS_KEPT + 8;
/// The most claims that one opening deletes, besides those that must make space, so that the opening does not take long.
const CLAIMS_COLLECTED_MAX: usize = 64;
/// When to ask again with credentials that may not delete: a person may have changed the rights.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// Deletes at once.
const DELETES_AT_ONCE: usize = 16;
/// The most listings of one kind in one swap. Each but the last makes space for more names, so this is enough for thousands.
const LISTINGS_MAX: u32 = 64;

/// A listing of a drive's records.
pub(super) struct Shown {
    /// The records, the last one last.
    pub records: Vec<Place>,
    /// Whether an earlier listing left out existing records.
    pub left_out: bool,
    /// Whether this one is complete.
    pub is_whole: bool,
}

impl Claims {
    /// The current record, from a listing that is not suspiciously long.
    pub(super) async fn latest(&self, drive: &str) -> Result<Option<Place>, StoreError> {
        let mut records = self.records(drive).await?;
        for _ in 0..LISTINGS_MAX {
            // A device that may not delete takes the listing as it is.
            if records.len() <= NAMES_MAX || self.make_way(past(drive, &records)).await.is_err() {
                break;
            }
            records = self.records(drive).await?;
        }
        Ok(records.pop())
    }

    /// The records of a drive; `own` is known to have existed.
    pub(super) async fn records_with(&self, drive: &str, own: Place) -> Result<Shown, StoreError> {
        let mut left_out = false;
        for _ in 0..LISTINGS_MAX {
            let records = self.records(drive).await?;
            if records.contains(&own) || !self.is_there(&own.name(drive)).await? {
                return Ok(Shown { records, left_out, is_whole: true });
            }
            left_out = true;
            if self.make_way(past(drive, &records)).await.is_err() {
                return Ok(Shown { records, left_out, is_whole: false });
            }
        }
        Ok(Shown { records: Vec::new(), left_out, is_whole: false })
    }

    /// The claimed turns; `turn` is known to have been claimed. Turns below `below` are past, except `follows`.
    pub(super) async fn claimed_with(
        &self,
        drive: &str,
        turn: u64,
        (below, follows): (u64, u64),
    ) -> Result<BTreeSet<u64>, StoreError> {
        for _ in 0..LISTINGS_MAX {
            let claimed = self.claimed(drive).await?;
            let is_shown = claimed.contains(&turn) || !self.is_claimed(drive, turn).await?;
            if is_shown && claimed.len() <= NAMES_MAX {
                return Ok(claimed);
            }
            let mut past = past_claims(drive, &claimed, below);
            past.retain(|name| *name != names::claim(&claims_of(drive), follows));
            if self.make_way(past).await.is_err() {
                return if is_shown { Ok(claimed) } else { Err(leaves_out(drive)) };
            }
        }
        Err(leaves_out(drive))
    }

    /// Whether a turn is claimed, found by the claim's own name.
    pub(super) async fn is_claimed(&self, drive: &str, turn: u64) -> Result<bool, StoreError> {
        let name = names::claim(&claims_of(drive), turn);
        // A claim is a collection or directory with a nonce in it, or else an object.
        let inside = self.inner.list(&format!("{name}/")).await?;
        if inside.is_empty() { self.is_there(&name).await } else { Ok(true) }
    }

    pub(super) async fn is_there(&self, name: &str) -> Result<bool, StoreError> {
        match self.inner.head(name).await {
            Err(StoreError::NotFound { .. }) => Ok(false),
            there => there.map(|_| true),
        }
    }

    /// Deletes past claims and records once `place` counts; it follows a record of the turn `follows`. Leftovers do no harm.
    pub(super) async fn collect(&self, drive: &str, place: Place, follows: u64, claimed: &BTreeSet<u64>) {
        if !place.seq.is_multiple_of(RECORDS_KEPT as u64) {
            return;
        }
        if is_head(drive) {
            let mut past = past_claims(drive, claimed, follows.min(place.turn));
            past.truncate(CLAIMS_COLLECTED_MAX);
            if !past.is_empty() && self.make_way(past).await.is_err() {
                return;
            }
        }
        let Ok(mut records) = self.records(drive).await else { return };
        records.retain(|record| *record <= place);
        let _ = self.make_way(past(drive, &records)).await;
    }

    /// Deletes these names. An error if there are none, or if one cannot be deleted.
    async fn make_way(&self, mut names: Vec<String>) -> Result<(), StoreError> {
        let was_refused = self.refused_at.lock().is_some_and(|at| at.elapsed() < ASK_AGAIN);
        let may_delete = !was_refused && !planted::has(Bug::NothingMakesWay);
        // One first, so that a device that may not delete is not refused once per name.
        let first = names.pop().filter(|_| may_delete).ok_or_else(|| leaves_out("what is in the store"))?;
        let deleted = self.inner.delete(&first).await;
        if matches!(deleted, Err(StoreError::Denied { .. })) {
            *self.refused_at.lock() = Some(Instant::now());
        }
        deleted?;
        let deletes = stream::iter(names).map(|name| async move { self.inner.delete(&name).await });
        deletes.buffer_unordered(DELETES_AT_ONCE).try_collect::<()>().await
    }
}

/// Records of a listing that are long past: more than [`RECORDS_KEPT`] are above them.
fn past(drive: &str, records: &[Place]) -> Vec<String> {
    let past = records.len().saturating_sub(RECORDS_KEPT + 1);
    records[..past].iter().map(|record| record.name(drive)).collect()
}

/// The claims of turns below `below`. Turn 0 needs none.
fn past_claims(drive: &str, claimed: &BTreeSet<u64>, below: u64) -> Vec<String> {
    let claims = claims_of(drive);
    claimed
        .iter()
        .filter(|turn| (1..below).contains(*turn))
        .map(|turn| names::claim(&claims, *turn))
        .collect()
}

/// A listing that leaves out names cannot decide anything.
pub(super) fn leaves_out(drive: &str) -> StoreError {
    let reason = format!("its listings leave out names of {drive} that are there");
    StoreError::Busy { reason, retry_after: None }
}
