//! What stands before a store in a test, and says only what it does differently.

use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::store::{Etag, Fetched, Listed, Store, StoreError, When};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
pub trait Layer: Send + Sync + 'static {
    fn store(&self) -> &dyn Store;

    /// What every request meets first.
    async fn reach(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.store().get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.store().put(name, body, when).await
    }
}

/// The store as it is behind a layer.
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
        self.0.store().list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.0.reach().await?;
        self.0.store().delete(name).await
    }
}

/// A store that is a round trip away, however much is asked at once.
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

/// What a store that cannot be reached answers.
pub fn away() -> StoreError {
    StoreError::Unreachable { reason: "it is away".into() }
}
