//! Layers in front of a store. A test's layer defines only what it does differently.

use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::store::{Etag, Fetched, Listed, Store, StoreError, When};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[async_trait]
pub trait Layer: Send + Sync + 'static {
    fn store(&self) -> &dyn Store;

    /// Runs before every request.
    async fn reach(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.store().get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.store().put(name, body, when).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.store().list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store().delete(name).await
    }
}

/// A store behind a layer.
pub struct Layered<L>(pub L);

impl<L> Deref for Layered<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

#[async_trait]
impl<L: Layer> Store for Layered<L> {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.0.reach().await?;
        self.0.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.0.reach().await?;
        self.0.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.0.reach().await?;
        self.0.store().head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.0.reach().await?;
        self.0.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.0.reach().await?;
        self.0.delete(name).await
    }
}

/// A store one round trip away, however many requests run at once.
pub fn far(store: Arc<dyn Store>, round_trip: Duration) -> Arc<dyn Store> {
    Arc::new(Layered(Far { store, round_trip }))
}

struct Far {
    store: Arc<dyn Store>,
    round_trip: Duration,
}

#[async_trait]
impl Layer for Far {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        tokio::time::sleep(self.round_trip).await;
        Ok(())
    }
}

/// A link of 100 Mbit/s with a round trip of 50 ms, shared by all requests in flight.
pub struct Narrow {
    store: Arc<dyn Store>,
    bytes_per_ms: u64,
    under_way: AtomicU64,
    sent: AtomicU64,
}

impl Narrow {
    const ROUND_TRIP: Duration = Duration::from_millis(50);
    pub const BYTES_PER_MS: u64 = 12_500;

    pub fn new(store: Arc<dyn Store>) -> Arc<Layered<Self>> {
        Self::of(store, Self::BYTES_PER_MS)
    }

    /// A link with another capacity.
    pub fn of(store: Arc<dyn Store>, bytes_per_ms: u64) -> Arc<Layered<Self>> {
        let (under_way, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Layered(Self { store, bytes_per_ms, under_way, sent }))
    }

    /// The bytes that the link has carried.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    async fn carry(&self, bytes: u64) {
        self.under_way.fetch_add(1, Relaxed);
        let mut left = bytes;
        while left > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let share = (self.bytes_per_ms / self.under_way.load(Relaxed)).min(left);
            self.sent.fetch_add(share, Relaxed);
            left -= share;
        }
        self.under_way.fetch_sub(1, Relaxed);
    }
}

#[async_trait]
impl Layer for Narrow {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        tokio::time::sleep(Self::ROUND_TRIP).await;
        let fetched = self.store.get(name, range).await?;
        self.carry(fetched.bytes.len() as u64).await;
        Ok(fetched)
    }
}

/// The error of a store that cannot be reached.
pub fn away() -> StoreError {
    StoreError::Unreachable { reason: "it is away".into() }
}
