//! Many who want the same thing at once, over and over under fresh names.
//!
//! All of a round ask at the same moment, half of them over each connection. What is counted is who was told that
//! it won; who got no clear answer counts for nothing. Afterwards the object must hold the winner's own bytes: a
//! store that says "no" and writes all the same is found out.

use super::{Area, Race};
use crate::store::{Store, StoreError, When};
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};

/// How often, and how many at once.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Rounds.
    pub rounds: u32,
    /// How many ask at once in each.
    pub ways: u32,
}

impl Area<'_> {
    /// Who creates an object that is not there?
    pub(super) async fn race_absent(&self, course: Course) -> Result<Race, StoreError> {
        let names: Vec<_> = (0..course.rounds).map(|round| self.name("new", round)).collect();
        let whens = vec![When::Absent; names.len()];
        self.race_puts(course, names, whens).await
    }

    /// Who replaces one version of an object?
    pub(super) async fn race_matches(&self, course: Course) -> Result<Race, StoreError> {
        let names: Vec<_> = (0..course.rounds).map(|round| self.name("old", round)).collect();
        let first = Bytes::from_static(b"the version to replace");
        let puts = names.iter().map(|name| self.put(0, name, &first));
        let whens = try_join_all(puts).await?.into_iter().map(When::Matches).collect();
        self.race_puts(course, names, whens).await
    }

    async fn race_puts(
        &self,
        course: Course,
        names: Vec<String>,
        whens: Vec<When>,
    ) -> Result<Race, StoreError> {
        let (mut winners, mut last) = (Vec::new(), Vec::new());
        for (name, when) in names.iter().zip(&whens) {
            let racers = (0..course.ways).map(|way| self.one_way(way).put(name, body(way), when.clone()));
            let answers = join_all(racers).await;
            let won: Vec<u32> =
                (0..).zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(way, _)| way).collect();
            // Access that is refused or is not there says nothing about races.
            if let Some(error) = all_failed(&answers) {
                return Err(error);
            }
            winners.push(won.len() as u32);
            last.push(won.first().copied());
        }
        let held = try_join_all(names.iter().map(|name| self.held(name))).await?;
        let overwritten = winners
            .iter()
            .zip(&last)
            .zip(&held)
            .any(|((winners, winner), held)| *winners == 1 && *held != winner.map(body));
        Ok(Race { ways: course.ways, winners, overwritten })
    }

    /// Who gets a claim?
    pub(super) async fn race_claims(&self, course: Course) -> Result<Race, StoreError> {
        let mut winners = Vec::new();
        for round in 0..course.rounds {
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

/// What a racer puts.
fn body(way: u32) -> Bytes {
    // As long as a HEAD: a server that writes it in pieces is to be caught at it.
    format!("{way:08x}").repeat(40).into()
}

/// The error, where nobody was answered at all.
fn all_failed<T>(answers: &[Result<T, StoreError>]) -> Option<StoreError> {
    let failed = |answer: &Result<T, StoreError>| match answer {
        Err(StoreError::Precondition { .. } | StoreError::Busy { .. }) | Ok(_) => None,
        Err(error) => Some(error.clone()),
    };
    let failed: Vec<_> = answers.iter().filter_map(failed).collect();
    if failed.len() == answers.len() { failed.into_iter().next() } else { None }
}
