//! What can this store do? The probe finds out by doing it, over two connections, before any data is written.
//!
//! Everything happens under fresh names, `probe/<id>-...`, which are deleted afterwards if possible. The verdict follows from what the
//! store did, never from what it claims to be. A fair race proves nothing: a store starts as [`Mode::Swap`], and everything seen can only
//! demote it.
//!
//! The cost, with `r` for a round trip: [`Effort::FULL`] about 820 requests of up to 20 kB in about 50 r (5 s at 100 ms), [`Effort::QUICK`]
//! about 75 in about 14 r, or 100 in about 17 r if claims must race too. `core/tests/engine/probe.rs` counts both.

use crate::names::is_hex;
use crate::retry::{self, Backoff};
use crate::{Etag, Facts, Fetched, Store, StoreError, When};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use races::Course;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;
use tokio::time::Instant;

mod looks;
mod races;
mod report;
mod verdict;

pub use report::{Mode, Names, Race, Races, Refusals, Report, Rights, Seen};
pub use verdict::{Findings, judge};

/// The beginning of all probes' names.
pub const AREA: &str = "probe/";
/// Stands in the names of claims after the probe's own part.
const CLAIM: &str = "-claim-";
/// Tries of a request that may be repeated.
const TRIES: u32 = 4;
/// Deletes at once at the end.
const DELETES_AT_ONCE: usize = 32;

/// How thorough a probe is.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Round trips to time.
    latency_tries: u32,
    /// How often one connection looks for what the other did.
    looks: u32,
    course: Course,
    /// Whether everything happens at once, without the steps that a working swap makes unnecessary.
    hurry: bool,
}

impl Effort {
    /// For a store that is created or tested.
    pub const FULL: Self =
        Self { latency_tries: 5, looks: 4, course: Course { rounds: 5, ways: 12 }, hurry: false };
    /// For each opening of what is in the store.
    pub const QUICK: Self =
        Self { latency_tries: 3, looks: 1, course: Course { rounds: 2, ways: 6 }, hurry: true };
}

/// Finds out what a store can do, over two connections that share nothing. `now_ms` returns this computer's Unix time in ms.
///
/// An error means that no verdict was possible, as when the store cannot be reached: nothing is known then.
pub async fn probe(
    connections: [&dyn Store; 2],
    effort: Effort,
    now_ms: &(dyn Fn() -> u64 + Sync),
) -> Result<Report, StoreError> {
    let id = format!("{AREA}{:032x}", crate::entropy::u128());
    let area = Area { connections, id, made: Mutex::default() };
    let report = area.probe(effort, now_ms).await;
    area.clean_up().await;
    report
}

/// Whether `name` is a claim made by a probe: on some stores claims are no objects.
pub fn is_claim(name: &str) -> bool {
    let own = name.strip_prefix(AREA).filter(|own| !own.contains('/'));
    own.is_some_and(|own| own.contains(CLAIM))
}

/// Whether `name` is one that a probe writes: `probe/<id>-<what>-<number>`, perhaps followed by the nonce inside a claim.
pub fn is_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(AREA) else { return false };
    let (own, nonce) = rest.split_once('/').map_or((rest, None), |(own, nonce)| (own, Some(nonce)));
    let mut parts = own.split('-');
    let id = parts.next().is_some_and(|id| is_hex(id, 32));
    let what =
        parts.next().is_some_and(|what| !what.is_empty() && what.bytes().all(|b| b.is_ascii_lowercase()));
    let number = parts.next().is_some_and(|number| {
        number.len() <= 10 && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    let of_claim = nonce.is_none_or(|nonce| is_hex(nonce, 32) && is_claim(&format!("{AREA}{own}")));
    id && what && number && parts.next().is_none() && of_claim
}

/// The objects and claims of probes in a store now, both of those under way and of those that were cut off. Objects that others put there
/// are not included.
pub async fn left_behind(store: &dyn Store) -> Result<BTreeSet<String>, StoreError> {
    let listed = store.list(AREA).await?;
    // A claim that is a collection is listed by its contents.
    let own = |name: &str| {
        let own = name.strip_prefix(AREA)?.split('/').next()?;
        let (id, _) = own.split_once('-')?;
        is_hex(id, 32).then(|| own.to_owned())
    };
    Ok(listed.iter().filter_map(|listed| own(&listed.name)).map(|own| format!("{AREA}{own}")).collect())
}

/// The part of the store where a probe takes place.
struct Area<'a> {
    connections: [&'a dyn Store; 2],
    id: String,
    /// Names that may exist. Held to add a name.
    made: Mutex<Vec<String>>,
}

impl Area<'_> {
    async fn probe(&self, effort: Effort, now_ms: &(dyn Fn() -> u64 + Sync)) -> Result<Report, StoreError> {
        let before_ms = now_ms();
        let facts = self.patiently(|| self.connections[0].facts()).await?;
        let middle_ms = before_ms / 2 + now_ms() / 2;
        let (rights, latency) = if effort.hurry {
            tokio::join!(self.rights(), self.latency(effort.latency_tries))
        } else {
            (self.rights().await, self.latency(effort.latency_tries).await)
        };
        let mut report = Report {
            mode: Mode::None,
            reasons: Vec::new(),
            latency_us: latency_us(latency)?,
            tls: facts.tls.clone(),
            clock_ahead_ms: facts.date_ms.map(|date| date as i64 - middle_ms as i64),
            free_bytes: facts.free_bytes,
            rights: rights?,
            ranges_exact: false,
            seen: Seen::default(),
            refused: Refusals::default(),
            races: Races::default(),
            names: None,
        };
        let Rights { read, write, list, delete } = report.rights;
        if read && write && list {
            self.look(effort, &facts, &mut report).await?;
            // Skip this if the names could never be deleted.
            if delete && !effort.hurry && !facts.lists_whole {
                report.names = Some(self.names().await?);
            }
        }
        let Report { rights, ranges_exact, seen, refused, names, .. } = report;
        let conditions = self.are_conditions_heeded();
        let races = &report.races;
        let found = Findings { rights, facts: &facts, conditions, ranges_exact, seen, refused, races, names };
        (report.mode, report.reasons) = judge(&found);
        Ok(report)
    }

    async fn look(&self, effort: Effort, facts: &Facts, report: &mut Report) -> Result<(), StoreError> {
        let swaps = !facts.never_swaps;
        let looks = async {
            let see = (0..effort.looks).map(|look| {
                let (a, b) = (look as usize % 2, 1 - look as usize % 2);
                self.see(look, a, b)
            });
            let seen = futures_util::future::try_join_all(see);
            tokio::try_join!(seen, self.refuse(swaps), self.ranges())
        };
        let races = self.races(effort, swaps);
        let ((seen, refused, ranges_exact), races) =
            if effort.hurry { tokio::try_join!(looks, races)? } else { (looks.await?, races.await?) };
        report.seen = Seen::always(&seen);
        (report.refused, report.ranges_exact, report.races) = (refused, ranges_exact, races);
        Ok(())
    }

    fn are_conditions_heeded(&self) -> bool {
        self.connections.iter().all(|connection| connection.heeds_conditions())
    }

    async fn races(&self, effort: Effort, swaps: bool) -> Result<Races, StoreError> {
        let course = effort.course;
        let mut races = Races::default();
        if swaps || !effort.hurry {
            races.absent = Some(self.race_absent(course).await?);
        }
        // The server has just said that it supports no conditions.
        if !self.are_conditions_heeded() {
            return Ok(races);
        }
        if swaps {
            races.matches = Some(self.race_matches(course).await?);
        }
        let is_fair = |race: &Option<Race>| {
            race.as_ref().is_some_and(|race| race.winners.iter().all(|winners| *winners == 1))
        };
        if !(effort.hurry && is_fair(&races.absent) && is_fair(&races.matches)) {
            races.claim = Some(self.race_claims(course).await?);
        }
        Ok(races)
    }

    /// The rights of the credentials.
    async fn rights(&self) -> Result<Rights, StoreError> {
        let name = self.name("rights", 0);
        let body = Bytes::from_static(b"may I?");
        // Some servers say this also about credentials that they know and that lack the right.
        let mut unknown = None;
        let mut allowed = |done: Result<(), StoreError>| match done {
            Err(error @ StoreError::UnknownCredentials { .. }) => {
                unknown.get_or_insert(error);
                Ok(false)
            }
            done => allowed(done),
        };
        let write = allowed(self.put(0, &name, &body).await.map(drop))?;
        let read = match self.get(1, &name, None).await {
            // Nothing was stored, or it shows up late. Only the right to read matters here.
            Err(StoreError::NotFound { .. }) => true,
            got => allowed(got.map(drop))?,
        };
        let list = allowed(self.patiently(|| self.connections[0].list(&self.id)).await.map(drop))?;
        let delete = write && self.delete(0, &name).await?;
        match unknown {
            Some(error) if !(read || write || list) => Err(error),
            _ => Ok(Rights { read, write, list, delete }),
        }
    }

    /// The shortest of some round trips.
    async fn latency(&self, tries: u32) -> Result<Duration, StoreError> {
        let name = self.name("latency", 0);
        let mut shortest = Duration::MAX;
        for _ in 0..tries {
            let timed = || async {
                let begun = Instant::now();
                match self.connections[0].head(&name).await {
                    Ok(_) | Err(StoreError::NotFound { .. }) => Ok(begun.elapsed()),
                    Err(error) => Err(error),
                }
            };
            shortest = shortest.min(self.patiently(timed).await?);
        }
        Ok(shortest)
    }

    /// A fresh name.
    fn name(&self, what: &str, number: u32) -> String {
        let name = format!("{}-{what}-{number}", self.id);
        self.made.lock().push(name.clone());
        name
    }

    async fn put(&self, connection: usize, name: &str, body: &Bytes) -> Result<Etag, StoreError> {
        self.patiently(|| self.connections[connection].put(name, body.clone(), When::Always)).await
    }

    async fn get(
        &self,
        connection: usize,
        name: &str,
        range: Option<Range<u64>>,
    ) -> Result<Fetched, StoreError> {
        self.patiently(|| self.connections[connection].get(name, range.clone())).await
    }

    /// Whether the delete was allowed.
    async fn delete(&self, connection: usize, name: &str) -> Result<bool, StoreError> {
        allowed(self.patiently(|| self.connections[connection].delete(name)).await)
    }

    /// Asks again if the store was busy or an answer was lost. For requests that may be repeated.
    async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut backoff = Backoff::new();
        loop {
            let done = ask().await;
            let again = done.as_ref().err();
            match again.and_then(|error| retry::while_waited_for(&mut backoff, TRIES, error)) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return done,
            }
        }
    }

    /// Deletes the probe's objects. Those that cannot be deleted stay: they are small, and nothing reads them.
    async fn clean_up(&self) {
        let made = std::mem::take(&mut *self.made.lock());
        let delete = |name: String| async move { drop(self.connections[0].delete(&name).await) };
        stream::iter(made).for_each_concurrent(DELETES_AT_ONCE, delete).await;
    }
}

/// In microseconds; 0 for credentials that may not look.
fn latency_us(latency: Result<Duration, StoreError>) -> Result<u64, StoreError> {
    match latency {
        Err(StoreError::Denied { .. }) => Ok(0),
        latency => Ok(latency?.as_micros() as u64),
    }
}

/// Whether the request was allowed.
fn allowed(done: Result<(), StoreError>) -> Result<bool, StoreError> {
    match done {
        Err(StoreError::Denied { .. }) => Ok(false),
        done => done.map(|()| true),
    }
}
