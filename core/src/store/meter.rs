//! Counts what is asked of a store: requests by kind, and bytes each way.

use super::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What has been asked of one or several stores. Clones count together.
#[derive(Clone, Default)]
pub struct Meter(Arc<Counts>);

/// A store that is counted: as requests reach it, so below whatever makes several of one.
struct Metered {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
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

impl Requests {
    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.get + self.put + self.head + self.list + self.delete
    }
}

impl Meter {
    /// Counts what is asked of `store`.
    pub fn on(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Metered { inner: store, counts: self.0.clone() })
    }

    /// Requests so far.
    pub fn requests(&self) -> Requests {
        let Counts { get, put, head, list, delete, .. } = &*self.0;
        let [get, put, head, list, delete] = [get, put, head, list, delete].map(|count| count.load(Relaxed));
        Requests { get, put, head, list, delete }
    }

    /// Bytes of bodies sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.0.sent.load(Relaxed)
    }

    /// Bytes of bodies received so far.
    pub fn received_bytes(&self) -> u64 {
        self.0.received.load(Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive;
    use crate::format::root::Geometry;
    use crate::push::Device;
    use crate::seal::{Cipher, DataKey, Sealer};
    use crate::sim::store::{SimStore, StoreFaults};
    use crate::store::connect::with_heads;
    use crate::store::probe::Mode;
    use uuid::Uuid;

    #[tokio::test]
    async fn a_head_that_is_claimed_costs_what_the_store_was_asked_for() {
        let sealer = Sealer::new(Cipher::None, &DataKey([7; 32].into()));
        let device = Device { id: Uuid::from_u128(1), name: "here".to_owned() };
        let mut asked = Vec::new();
        for mode in [Mode::Swap, Mode::Claim] {
            let (there, meter) = (SimStore::new(1, StoreFaults::default()), Meter::default());
            let store = with_heads(meter.on(Arc::new(there.clone())), mode);
            let geometry = Geometry::standard(1 << 20);
            let drive = drive::create(&*store, &sealer, Uuid::from_u128(9), "d", geometry, &device);
            let drive = drive.await.unwrap();
            store.get(&crate::format::head::name(drive), None).await.unwrap();
            assert_eq!(meter.requests().total(), there.requests());
            asked.push(meter.requests());
        }
        assert!(asked[1].list > 0 && asked[0].list == 0, "{asked:?}");
    }
}
