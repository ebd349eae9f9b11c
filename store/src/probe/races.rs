//! Many racers want the same thing at once, again and again under fresh names.
//!
//! All racers of a round ask at the same moment, half of them over each connection. The probe counts the answers that say "won"; a racer
//! without a clear answer counts for nothing. Afterwards the object must hold the winner's own bytes: this exposes a store that says "no"
//! and writes all the same.

use super::{Area, Race};
use crate::{Store, StoreError, When};
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};

/// How often, and how many at once.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Rounds.
    pub rounds: u32,
    /// How many racers ask at once in each round.
    pub ways: u32,
}

/// Rounds added for those without a winner. The winner's answer may have been lost: with only two rounds, one lost answer must not make a
/// store look unreliable.
const SPARE_ROUNDS: u32 = 2;

impl Course {
    /// The next round, if there is one, after rounds with these numbers of winners.
    fn next(self, winners: &[u32]) -> Option<u32> {
        let round = winners.len() as u32;
        let unclear = winners.iter().filter(|winners| **winners == 0).count() as u32;
        (round < self.rounds + unclear.min(SPARE_ROUNDS)).then_some(round)
    }
}

impl Area<'_> {
    /// Which racer creates a new object?
    pub(super) async fn race_absent(&self, course: Course) -> Result<Race, StoreError> {
        self.race_puts(course, |round| async move { Ok((self.name("new", round), When::Absent)) }).await
    }

    /// Which racer replaces one version of an object?
    pub(super) async fn race_matches(&self, course: Course) -> Result<Race, StoreError> {
        let begin = |round| async move {
            let name = self.name("old", round);
            let etag = self.put(0, &name, &Bytes::from_static(b"the version to replace")).await?;
            Ok((name, When::Matches(etag)))
        };
        self.race_puts(course, begin).await
    }

    /// `begin` prepares the object of a round.
    async fn race_puts<F>(&self, course: Course, begin: impl Fn(u32) -> F) -> Result<Race, StoreError>
    where
        F: Future<Output = Result<(String, When), StoreError>>,
    {
        let mut begun = try_join_all((0..course.rounds).map(&begin)).await?;
        let (mut winners, mut last) = (Vec::new(), Vec::new());
        while let Some(round) = course.next(&winners) {
            if round as usize == begun.len() {
                begun.push(begin(round).await?);
            }
            let (name, when) = &begun[round as usize];
            let racers = (0..course.ways).map(|way| self.one_way(way).put(name, body(way), when.clone()));
            let answers = join_all(racers).await;
            let won: Vec<u32> =
                (0..).zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(way, _)| way).collect();
            // Refused or missing access says nothing about races.
            if let Some(error) = all_failed(&answers) {
                return Err(error);
            }
            winners.push(won.len() as u32);
            last.push(won.first().copied());
        }
        let held = try_join_all(begun.iter().map(|(name, _)| self.held(name))).await?;
        let overwritten = winners
            .iter()
            .zip(&last)
            .zip(&held)
            .any(|((winners, winner), held)| *winners == 1 && *held != winner.map(body));
        Ok(Race { ways: course.ways, winners, overwritten })
    }

    /// Which racer gets a claim?
    pub(super) async fn race_claims(&self, course: Course) -> Result<Race, StoreError> {
        let mut winners = Vec::new();
        while let Some(round) = course.next(&winners) {
            let name = self.name("claim", round);
            let nonce = |way: u32| u128::from(way) + 1;
            let racers = (0..course.ways).map(|way| self.one_way(way).claim(&name, nonce(way)));
            let answers = join_all(racers).await;
            if let Some(error) = all_failed(&answers) {
                return Err(error);
            }
            winners.push(answers.iter().filter(|answer| **answer == Ok(true)).count() as u32);
        }
        Ok(Race { ways: course.ways, winners, overwritten: false })
    }

    fn one_way(&self, way: u32) -> &dyn Store {
        self.connections[way as usize % 2]
    }

    async fn held(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        match self.get(1, name, None).await {
            Err(StoreError::NotFound { .. }) => Ok(None),
            fetched => fetched.map(|fetched| Some(fetched.bytes)),
        }
    }
}

/// The body of a racer's put.
fn body(way: u32) -> Bytes {
    // Long enough to catch a server that writes it in pieces.
    format!("{way:08x}").repeat(40).into()
}

/// The error, if no racer got an answer at all.
fn all_failed<T>(answers: &[Result<T, StoreError>]) -> Option<StoreError> {
    let failed = |answer: &Result<T, StoreError>| match answer {
        Err(StoreError::Precondition { .. } | StoreError::Busy { .. }) | Ok(_) => None,
        Err(error) => Some(error.clone()),
    };
    let failed: Vec<_> = answers.iter().filter_map(failed).collect();
    if failed.len() == answers.len() { failed.into_iter().next() } else { None }
}
