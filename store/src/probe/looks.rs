//! Checks how soon one connection sees the other's changes, one after another.

use super::{Area, Names, Refusals, Seen};
use crate::{Etag, StoreError, When};
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;

/// More than the smallest number at which a server is known to stop (200). An owner whose decisions hang on a listing keeps it far shorter
/// than this, so a server that stops at a higher number does no harm there.
const NAMES_PUT: u32 = 240;
/// The objects are so small that all the time goes into round trips.
const PUTS_AT_ONCE: usize = 32;
/// Long enough to find out a server that sends round lengths.
const RANGED_BYTES: usize = 20_000;

impl Area<'_> {
    /// Does connection `b` see at once what connection `a` does?
    pub(super) async fn see(&self, round: u32, a: usize, b: usize) -> Result<Seen, StoreError> {
        let name = self.name("seen", round);
        let [first, second] = [b"one".as_slice(), b"another one"].map(Bytes::from_static);
        self.put(a, &name, &first).await?;
        let head = async { Ok(self.patiently(|| self.connections[b].head(&name)).await.ok()) };
        let (shown, len, listed) =
            tokio::try_join!(self.shows(b, &name, &first), head, self.lists(b, &name))?;
        let created = shown && len == Some(first.len() as u64);
        self.put(a, &name, &second).await?;
        let replaced = self.shows(b, &name, &second).await?;
        if !self.delete(a, &name).await? {
            return Ok(Seen { created, replaced, listed, deleted: false });
        }
        let gone = async { Ok(matches!(self.get(b, &name, None).await, Err(StoreError::NotFound { .. }))) };
        let (deleted, still_listed) = tokio::try_join!(gone, self.lists(b, &name))?;
        let listed = listed && !still_listed;
        Ok(Seen { created, replaced, listed, deleted })
    }

    async fn shows(&self, connection: usize, name: &str, body: &Bytes) -> Result<bool, StoreError> {
        match self.get(connection, name, None).await {
            Err(StoreError::NotFound { .. } | StoreError::Damaged { .. }) => Ok(false),
            fetched => Ok(fetched?.bytes == *body),
        }
    }

    /// Whether a listing shows `name`, or something in it.
    async fn lists(&self, connection: usize, name: &str) -> Result<bool, StoreError> {
        let listed = self.patiently(|| self.connections[connection].list(&self.id)).await?;
        let is_it = |found: &str| {
            found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        Ok(listed.iter().any(|listed| is_it(&listed.name)))
    }

    /// Does the store refuse what it must refuse, and do what it should do?
    pub(super) async fn refuse(&self, swaps: bool) -> Result<Refusals, StoreError> {
        let ((absent, matches), claim) = tokio::try_join!(self.refuse_put(swaps), self.refuse_claim())?;
        Ok(Refusals { absent, matches, claim })
    }

    async fn refuse_put(&self, swaps: bool) -> Result<(bool, bool), StoreError> {
        let name = self.name("refused", 0);
        let [first, second, third] = [b"one".as_slice(), b"another", b"a third one"].map(Bytes::from_static);
        let [a, b] = self.connections;
        let old = self.put(0, &name, &first).await?;
        let refused = |put: Result<Etag, StoreError>| match put {
            Err(StoreError::Precondition { .. }) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        let mut absent = refused(b.put(&name, second.clone(), When::Absent).await)?;
        absent &= self.shows(0, &name, &first).await?;
        if !b.heeds_conditions() {
            return Ok((false, false));
        }
        let mut matches = false;
        if swaps && absent {
            let next = b.put(&name, second.clone(), When::Matches(old.clone())).await;
            let next_holds = !refused(next)?;
            let stale_is_refused = refused(a.put(&name, third, When::Matches(old)).await)?;
            matches = next_holds && stale_is_refused && self.shows(0, &name, &second).await?;
        }
        Ok((absent, matches))
    }

    async fn refuse_claim(&self) -> Result<bool, StoreError> {
        let name = self.name("claim", u32::MAX);
        let [a, b] = self.connections;
        let own = a.claim(&name, 1).await?;
        let others = b.claim(&name, 2).await?;
        let again = a.claim(&name, 1).await?;
        Ok(own && !others && again && self.lists(1, &name).await?)
    }

    /// Does a listing show everything? Some servers stop at 750 or 200 names and do not say so.
    pub(super) async fn names(&self) -> Result<Names, StoreError> {
        let names: Vec<_> = (0..NAMES_PUT).map(|number| self.name("listed", number)).collect();
        let body = Bytes::from_static(b"x");
        let put = |name: String| {
            let body = body.clone();
            async move { self.put(0, &name, &body).await.map(drop) }
        };
        let puts = stream::iter(names.clone()).map(put).buffer_unordered(PUTS_AT_ONCE);
        puts.try_collect::<()>().await?;
        let prefix = format!("{}-listed-", self.id);
        let listed = self.patiently(|| self.connections[1].list(&prefix)).await?;
        let listed: BTreeSet<_> = listed.into_iter().map(|listed| listed.name).collect();
        let shown = names.iter().filter(|name| listed.contains(*name)).count();
        Ok(Names { put: NAMES_PUT, shown: shown as u32 })
    }

    /// Are parts of an object exactly the ones asked for?
    pub(super) async fn ranges(&self) -> Result<bool, StoreError> {
        let name = self.name("ranged", 0);
        // No two places look alike.
        let body: Bytes = (0..RANGED_BYTES as u16 / 2).flat_map(u16::to_le_bytes).collect::<Vec<_>>().into();
        self.put(0, &name, &body).await?;
        let len = body.len() as u64;
        let ranges = [0..1, 4095..8193, len - 1..len, 0..len];
        let gets = ranges.iter().map(|range| self.get(1, &name, Some(range.clone())));
        let parts = match try_join_all(gets).await {
            Err(StoreError::Damaged { .. }) => return Ok(false),
            parts => parts?,
        };
        let exact = |(range, part): (&std::ops::Range<u64>, &crate::Fetched)| {
            part.bytes == body[range.start as usize..range.end as usize]
        };
        Ok(ranges.iter().zip(&parts).all(exact))
    }
}
