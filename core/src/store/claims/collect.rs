//! Claims and records that are long past are deleted, and listings that leave out names are found out.
//!
//! Some servers list so many names (750 and 200 were reported) and say nothing of the rest. A drive would come to that: each opening makes
//! a claim. So no listing that decides ever grows long, and what is known to be there is looked for by its own name where a listing lacks it.
//!
//! **Which claims go.** Those below the turn that a record follows, once that record counts. The highest claim stays, and so do the claim
//! and the record that it follows. Nobody needs the others: a device whose turn is lower has lost, whether its claim is still there or not.
//! It may have stopped at any step, for an hour or for a year:
//! * Before its claim: it draws that above all that it has listed. Then it lists the records, sees one of a higher turn, and gives up. The
//!   claim that it has made is below all that counts, also if another device had once made the very same.
//! * Between its claim and its record: its record is below the last one, and is never the current one.
//! * Between its record and its listing of the claims: it misses its own claim and looks for the last record, which is not its own.
//!
//! In each case it is the *record* of the higher turn that turns it away, so a record is deleted only when there are [`RECORDS_KEPT`] above it.
//! Claims of one collection may go in any order, and a power cut in the middle leaves some of them: they mean what they meant before, and the
//! next opening deletes them. A record that is taken back (`Claims::swap`) makes the one that it follows the last again. That is why the claim of
//! that turn stays: without it the next device would have to go far above.
//!
//! What the order cannot help is a store that is restored from a backup between such a listing and its deletes: what was past may be the last
//! record of the backup, as it was before. The deletes follow their listing at once.
//!
//! A listing that lags behind shows claims that are gone or lacks the newest. Shown ones are below all that counts. A newest one that is
//! lacking is one's own, and is there by its name: then nothing is decided. If it is another's, no rule here helps, and the probe refuses such stores.
//!
//! **Which listings are cut off.** None of [`NAMES_MAX`] names or fewer is: the probe refuses a server that lists fewer than 240. A longer one is made
//! shorter before anything is decided by it, and listed again: what is shown first is the oldest, most of it is long past, and it makes way for
//! the rest. So a drive that came to the limit in other hands opens again, at its last version. Of claims also those between the turn
//! that a record follows and its own turn may go then: the record is there, so they have lost.
//!
//! Where nothing may be deleted, or a server lists even less, there is a second look: what this device has just put or claimed must be listed, as the
//! newest names are the first to be left out. If it is not, and is there by its name, the store is told to be busy, never that another device has
//! the drive. A record that was put meanwhile is taken back where another one turns out to lie between it and the one that it was to follow.

use super::{Claims, Place, claims_of, is_head, names};
use crate::planted::{self, Bug};
use crate::store::StoreError;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Records behind the current one that are kept, for readers that have listed them.
pub(super) const RECORDS_KEPT: usize = 16;
/// More than a drive ever has of claims or of records: as many again come before the next collection, and some may have come in races. Every
/// usable server lists far more, so a listing of so few is whole.
const NAMES_MAX: usize = 2 * RECORDS_KEPT + 8;
/// Claims that one opening deletes at most, beside those that must make way: nobody waits long for it.
const CLAIMS_COLLECTED_MAX: usize = 64;
/// Credentials that may not delete are tried again after this: a person may have given others.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// Deletes at once.
const DELETES_AT_ONCE: usize = 16;
/// Listings of one kind in one swap. Each but the last makes way for more names, so this is enough for thousands.
const LISTINGS_MAX: u32 = 64;

/// What a listing shows of a drive's records.
pub(super) struct Shown {
    /// The records, the last one last.
    pub records: Vec<Place>,
    /// Whether an earlier listing has left out what is there.
    pub left_out: bool,
    /// Whether it shows what it has to show, by now.
    pub is_whole: bool,
}

impl Claims {
    /// The current record, from a listing that is not suspiciously long.
    pub(super) async fn latest(&self, drive: &str) -> Result<Option<Place>, StoreError> {
        let mut records = self.records(drive).await?;
        for _ in 0..LISTINGS_MAX {
            // Who may not delete takes what is shown.
            if records.len() <= NAMES_MAX || self.make_way(past(drive, &records)).await.is_err() {
                break;
            }
            records = self.records(drive).await?;
        }
        Ok(records.pop())
    }

    /// The records of a drive, of which `own` is known to have been there.
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

    /// The turns that are claimed, of which `turn` is known to have been. Those below `below` are past, but for `follows`.
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

    /// Whether a turn is claimed, by the claim's own name.
    pub(super) async fn is_claimed(&self, drive: &str, turn: u64) -> Result<bool, StoreError> {
        let name = names::claim(&claims_of(drive), turn);
        // A collection or a directory, with a nonce in it; else an object.
        let inside = self.inner.list(&format!("{name}/")).await?;
        if inside.is_empty() { self.is_there(&name).await } else { Ok(true) }
    }

    pub(super) async fn is_there(&self, name: &str) -> Result<bool, StoreError> {
        match self.inner.head(name).await {
            Err(StoreError::NotFound { .. }) => Ok(false),
            there => there.map(|_| true),
        }
    }

    /// Deletes what is past once `place` counts, which follows a record of the turn `follows`. What stays does no harm.
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

    /// Deletes these names. An error if there are none, or one cannot be deleted.
    async fn make_way(&self, mut names: Vec<String>) -> Result<(), StoreError> {
        let was_refused = self.refused_at.lock().is_some_and(|at| at.elapsed() < ASK_AGAIN);
        let may_delete = !was_refused && !planted::has(Bug::NothingMakesWay);
        // One first: who may not delete is not asked to for each name.
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

/// Records of a listing that are long past: so many are above them.
fn past(drive: &str, records: &[Place]) -> Vec<String> {
    let past = records.len().saturating_sub(RECORDS_KEPT + 1);
    records[..past].iter().map(|record| record.name(drive)).collect()
}

/// The claims of turns below that one. Turn 0 needs none.
fn past_claims(drive: &str, claimed: &BTreeSet<u64>, below: u64) -> Vec<String> {
    let claims = claims_of(drive);
    claimed
        .iter()
        .filter(|turn| (1..below).contains(*turn))
        .map(|turn| names::claim(&claims, *turn))
        .collect()
}

/// Nothing can be decided by a listing that leaves out names.
pub(super) fn leaves_out(drive: &str) -> StoreError {
    let reason = format!("its listings leave out names of {drive} that are there");
    StoreError::Busy { reason, retry_after: None }
}
