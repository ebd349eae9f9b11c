//! Counts what is asked of a store: requests by kind, and bytes each way.

use super::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A store that is counted.
pub struct Metered {
    inner: Arc<dyn Store>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    get: AtomicU64,
    put: AtomicU64,
    head: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Requests since the drive was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// GETs, ranged or not.
    pub get: u64,
    /// PUTs, and claims.
    pub put: u64,
    /// HEADs.
    pub head: u64,
    /// Listings.
    pub list: u64,
    /// DELETEs.
    pub delete: u64,
}

impl Metered {
    /// Counts the requests to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, counts: Counts::default() }
    }

    /// Requests so far.
    pub fn requests(&self) -> Requests {
        let Counts { get, put, head, list, delete, .. } = &self.counts;
        let [get, put, head, list, delete] = [get, put, head, list, delete].map(|count| count.load(Relaxed));
        Requests { get, put, head, list, delete }
    }

    /// Bytes of bodies sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.counts.sent.load(Relaxed)
    }

    /// Bytes of bodies received so far.
    pub fn received_bytes(&self) -> u64 {
        self.counts.received.load(Relaxed)
    }
}

#[async_trait]
impl Store for Metered {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.counts.get.fetch_add(1, Relaxed);
        let fetched = self.inner.get(name, range).await?;
        self.counts.received.fetch_add(fetched.bytes.len() as u64, Relaxed);
        Ok(fetched)
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.counts.put.fetch_add(1, Relaxed);
        self.counts.sent.fetch_add(body.len() as u64, Relaxed);
        self.inner.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.counts.head.fetch_add(1, Relaxed);
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.counts.list.fetch_add(1, Relaxed);
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.counts.delete.fetch_add(1, Relaxed);
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.counts.put.fetch_add(1, Relaxed);
        self.inner.claim(name, nonce).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }
}
