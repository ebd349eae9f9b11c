//! Counts the requests to a store by kind, and the bytes of bodies by kind and direction, as they go over the wire.
//!
//! Stores that speak HTTP count each request that they send, since one put or one listing may take several. For all other stores the calls
//! are counted ([`Meter::on`]).

use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::{Range, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The requests to one or several stores. Clones count together.
#[derive(Clone, Default)]
pub struct Meter(Arc<Counts>);

/// The kinds of requests: those that providers charge alike are one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Get,
    /// Creates or replaces an object.
    Put,
    /// Asks for an object's metadata.
    Head,
    /// Lists: one page of a bucket, or one collection.
    List,
    /// Deletes.
    Delete,
}

/// A request on its way. It counts once this is dropped, unless it was never sent.
#[must_use]
pub struct OnItsWay {
    meter: Meter,
    kind: Kind,
    unsent: bool,
}

impl OnItsWay {
    /// There was no connection to send it on, so it cost nothing.
    pub fn was_not_sent(mut self) {
        self.unsent = true;
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.unsent {
            self.meter.count(self.kind);
        }
    }
}

/// A store whose calls are counted. It is below every layer that turns one call into several.
struct Metered {
    inner: Arc<dyn Store>,
    meter: Meter,
}

/// One count for each kind of request, in the order of [`Kind`].
type Count = [AtomicU64; 5];

#[derive(Default)]
struct Counts {
    requests: Count,
    sent: Count,
    received: Count,
}

/// A figure for each kind of request: how many there were, or the bytes of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByKind {
    /// GETs, ranged or not.
    pub get: u64,
    /// PUTs, and WebDAV's MOVEs and MKCOLs.
    pub put: u64,
    /// HEADs.
    pub head: u64,
    /// Listings: each page of a bucket, each collection.
    pub list: u64,
    /// DELETEs.
    pub delete: u64,
}

impl ByKind {
    /// The sum over all kinds.
    pub fn total(&self) -> u64 {
        self.get + self.put + self.head + self.list + self.delete
    }

    fn of(count: &Count) -> Self {
        let [get, put, head, list, delete] = count.each_ref().map(|count| count.load(Relaxed));
        Self { get, put, head, list, delete }
    }
}

/// The increase since `before`.
impl Sub for ByKind {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            get: self.get - before.get,
            put: self.put - before.put,
            head: self.head - before.head,
            list: self.list - before.list,
            delete: self.delete - before.delete,
        }
    }
}

impl Meter {
    /// Counts the calls of `store`, which does not count by itself.
    pub fn on(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Metered { inner: store, meter: self.clone() })
    }

    /// A request is being sent.
    pub fn sending(&self, kind: Kind) -> OnItsWay {
        OnItsWay { meter: self.clone(), kind, unsent: false }
    }

    /// `bytes` bytes of such a request's body were sent.
    pub fn sent(&self, kind: Kind, bytes: usize) {
        self.0.sent[kind as usize].fetch_add(bytes as u64, Relaxed);
    }

    /// `bytes` bytes of the answer's body have arrived.
    pub fn received(&self, kind: Kind, bytes: usize) {
        self.0.received[kind as usize].fetch_add(bytes as u64, Relaxed);
    }

    fn count(&self, kind: Kind) {
        self.0.requests[kind as usize].fetch_add(1, Relaxed);
    }

    /// Requests so far.
    pub fn requests(&self) -> ByKind {
        ByKind::of(&self.0.requests)
    }

    /// Bytes of bodies sent so far.
    pub fn sent_bytes(&self) -> ByKind {
        ByKind::of(&self.0.sent)
    }

    /// Bytes of bodies received so far.
    pub fn received_bytes(&self) -> ByKind {
        ByKind::of(&self.0.received)
    }
}

#[async_trait]
impl Store for Metered {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.meter.count(Kind::Get);
        let fetched = self.inner.get(name, range).await?;
        self.meter.received(Kind::Get, fetched.bytes.len());
        Ok(fetched)
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.meter.count(Kind::Put);
        self.meter.sent(Kind::Put, body.len());
        self.inner.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.meter.count(Kind::Head);
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.meter.count(Kind::List);
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.meter.count(Kind::Delete);
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.meter.count(Kind::Put);
        self.inner.claim(name, nonce).await
    }

    fn heeds_conditions(&self) -> bool {
        self.inner.heeds_conditions()
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        self.meter.count(Kind::List);
        self.inner.top().await
    }

    fn foreign(&self) -> Vec<String> {
        self.inner.foreign()
    }
}
