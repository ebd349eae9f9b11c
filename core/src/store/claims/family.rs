//! The maker of a family: `family.json` is the one immutable object whose name everybody knows.
//!
//! If only claims are exclusive, two devices that put `family.json` at the same time might both believe that they made it, and continue
//! with different keys. So this is settled first, as for a HEAD: a device that wants to make a family claims the next turn, and puts a
//! record of the future `family.json`, unless there is one already. A record counts only if nobody has claimed a later turn, and every
//! later claimant finds it. So at most one body is ever put as `family.json`, by its maker, however late and however often.
//!
//! A maker that dies before its record holds up nobody: the next one claims the next turn, and if the first one lives after all, it sees
//! that claim and loses. A maker that dies after its record leaves a family that is never finished, since nobody else has its key.

use super::Claims;
use super::names::Place;
use crate::format::family::NAME;
use crate::store::names::FAMILY_CLAIMS as AREA;
use crate::store::{Etag, StoreError, When};
use bytes::Bytes;

impl Claims {
    /// Puts `family.json`, if this body is to be the family's. The same body may be put again.
    pub(super) async fn make_family(&self, body: Bytes) -> Result<Etag, StoreError> {
        let lost = || StoreError::Precondition { name: NAME.to_owned() };
        match self.inner.get(NAME, None).await {
            Ok(found) if found.bytes == body => return Ok(found.etag),
            Ok(_) => return Err(lost()),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let settled = self.settle_family(&body).await;
        settled.map_err(|error| match error {
            StoreError::Precondition { .. } => lost(),
            error => error,
        })?;
        match self.inner.put(NAME, body.clone(), When::Absent).await {
            Ok(_) | Err(StoreError::Precondition { .. }) => {}
            Err(error) => return Err(error),
        }
        // If claims are not exclusive either, another maker may have been faster.
        let found = self.inner.get(NAME, None).await?;
        if found.bytes == body { Ok(found.etag) } else { Err(lost()) }
    }

    /// Makes this body the family's, or finds that another body is.
    async fn settle_family(&self, body: &Bytes) -> Result<(), StoreError> {
        // Every body contains a random identity, so this shows whose body it is, and its maker can continue what it began.
        let hash = *blake3::hash(body).as_bytes();
        let nonce = u128::from_be_bytes(*hash.first_chunk().expect("a hash is longer"));
        let lost = || StoreError::Precondition { name: NAME.to_owned() };
        let place = match self.current(AREA).await? {
            Some(current) if current.nonce != nonce => return Err(lost()),
            Some(current) => current,
            None => {
                let turn = self.claim_next(AREA, nonce, false).await?;
                match self.current(AREA).await? {
                    Some(current) if current.nonce != nonce => {
                        self.hand_on(AREA, turn, Some(current)).await;
                        return Err(lost());
                    }
                    // The record of an earlier try.
                    Some(current) => current,
                    None => {
                        let place = Place { turn, seq: 0, epoch: 0, nonce };
                        self.put_record(AREA, place, body).await?;
                        place
                    }
                }
            }
        };
        self.confirm(AREA, place, body).await.map(drop)
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::sim::store::{SimStore, StoreFaults};
    use crate::store::Store;
    use std::sync::Arc;
    use std::time::Duration;

    fn store(seed: u64) -> SimStore {
        let faults = StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() };
        SimStore::new(seed, faults).without_swap()
    }

    /// One process that makes a family with this body.
    async fn make(store: &SimStore, body: &'static str) -> Result<Etag, StoreError> {
        let process = Claims::new(Arc::new(store.clone()));
        process.put(NAME, Bytes::from_static(body.as_bytes()), When::Absent).await
    }

    async fn made(store: &SimStore) -> Option<Bytes> {
        store.get(NAME, None).await.ok().map(|found| found.bytes)
    }

    fn is_lost(made: &Result<Etag, StoreError>) -> bool {
        matches!(made, Err(StoreError::Precondition { name }) if name == NAME)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_two_simultaneous_family_makers_wins() {
        for seed in 0..200 {
            let store = store(seed);
            let (a, b) = tokio::join!(make(&store, "a"), make(&store, "b"));
            assert!(a.is_ok() && is_lost(&b) || is_lost(&a) && b.is_ok(), "seed {seed}: {a:?} {b:?}");
            let winner = if a.is_ok() { "a" } else { "b" };
            assert_eq!(made(&store).await.as_deref(), Some(winner.as_bytes()), "seed {seed}");
            assert!(is_lost(&make(&store, "c").await), "seed {seed}");
            assert!(make(&store, winner).await.is_ok(), "seed {seed}: its maker may ask again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_maker_that_dies_with_its_claim_holds_up_nobody() {
        let store = store(1);
        Claims::new(Arc::new(store.clone())).claim_next(AREA, 9, false).await.unwrap();
        make(&store, "b").await.unwrap();
        assert_eq!(made(&store).await.as_deref(), Some(&b"b"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_returning_maker_continues_or_has_lost() {
        let (mut held_up, mut overtaken, mut done) = (0, 0, 0);
        for seed in 0..300 {
            let store = store(seed);
            let cut = Duration::from_millis(seed % 150);
            let first = tokio::time::timeout(cut, make(&store, "a")).await;
            let second = make(&store, "b").await;
            let back = make(&store, "a").await;
            assert!(second.is_ok() && is_lost(&back) || is_lost(&second) && back.is_ok(), "seed {seed}");
            assert!(first.is_err() || back.is_ok(), "seed {seed}: it had made it");
            let winner = if second.is_ok() { "b" } else { "a" };
            assert_eq!(made(&store).await.as_deref(), Some(winner.as_bytes()), "seed {seed}");
            match (first.is_ok(), second.is_ok()) {
                (true, _) => done += 1,
                (false, true) => overtaken += 1,
                (false, false) => held_up += 1,
            }
        }
        assert!(held_up > 0 && overtaken > 0 && done > 0, "{held_up} {overtaken} {done}");
    }

    /// The late maker claims, and finds no record; then it sleeps until another one has made the family.
    #[tokio::test(start_paused = true)]
    async fn a_maker_taken_for_dead_changes_nothing_on_waking() {
        let store = store(1);
        let late = Claims::new(Arc::new(store.clone()));
        let turn = late.claim_next(AREA, 9, false).await.unwrap();
        make(&store, "b").await.unwrap();
        let body = Bytes::from_static(b"a");
        let place = Place { turn, seq: 0, epoch: 0, nonce: 9 };
        late.put_record(AREA, place, &body).await.unwrap();
        assert!(matches!(late.confirm(AREA, place, &body).await, Err(StoreError::Precondition { .. })));
        assert!(make(&store, "b").await.is_ok());
    }
}
