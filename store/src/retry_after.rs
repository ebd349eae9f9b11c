//! Leaves a store alone while it asks for that, whichever work wants to use it.

use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Sends no requests to a store that asked to be left alone. Each caller gets at once the answer that the first one got.
///
/// Requests that are already on their way continue.
pub struct RetryAfter {
    store: Arc<dyn Store>,
    // Held to read or note it.
    told: Mutex<Option<Told>>,
}

/// The store's answer, and how long it holds.
struct Told {
    until: Instant,
    reason: String,
}

impl RetryAfter {
    /// Wraps `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, told: Mutex::default() }
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if let Some(busy) = self.busy() {
            return Err(busy);
        }
        let answer = request.await;
        if let Err(StoreError::Busy { reason, retry_after: Some(after) }) = &answer {
            self.is_told(reason, *after);
        }
        answer
    }

    fn busy(&self) -> Option<StoreError> {
        let told = self.told.lock();
        let told = told.as_ref()?;
        let left = told.until.saturating_duration_since(Instant::now());
        let busy = || StoreError::Busy { reason: told.reason.clone(), retry_after: Some(left) };
        (!left.is_zero()).then(busy)
    }

    fn is_told(&self, reason: &str, after: Duration) {
        let until = Instant::now() + after;
        let mut told = self.told.lock();
        if told.as_ref().is_none_or(|told| told.until < until) {
            *told = Some(Told { until, reason: reason.to_owned() });
        }
    }
}

#[async_trait]
impl Store for RetryAfter {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.ask(self.store.get(name, range)).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.ask(self.store.put(name, body, when)).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.ask(self.store.head(name)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.ask(self.store.list(prefix)).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.ask(self.store.delete(name)).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.ask(self.store.claim(name, nonce)).await
    }

    fn heeds_conditions(&self) -> bool {
        self.store.heeds_conditions()
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.ask(self.store.facts()).await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        self.ask(self.store.top()).await
    }

    fn foreign(&self) -> Vec<String> {
        self.store.foreign()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Asks the first caller to come back later, and counts requests.
    #[derive(Default)]
    struct Busy {
        asked: AtomicU32,
    }

    impl Busy {
        fn say<T>(&self, well: T) -> Result<T, StoreError> {
            match self.asked.fetch_add(1, Relaxed) {
                0 => Err(StoreError::Busy {
                    reason: "too much".into(),
                    retry_after: Some(Duration::from_secs(60)),
                }),
                1 => Err(StoreError::Busy { reason: "locked".into(), retry_after: None }),
                _ => Ok(well),
            }
        }
    }

    #[async_trait]
    impl Store for Busy {
        async fn get(&self, _: &str, _: Option<Range<u64>>) -> Result<Fetched, StoreError> {
            self.say(Fetched { bytes: Bytes::new(), etag: Etag(String::new()) })
        }

        async fn put(&self, _: &str, _: Bytes, _: When) -> Result<Etag, StoreError> {
            self.say(Etag(String::new()))
        }

        async fn head(&self, _: &str) -> Result<u64, StoreError> {
            self.say(0)
        }

        async fn list(&self, _: &str) -> Result<Vec<Listed>, StoreError> {
            self.say(Vec::new())
        }

        async fn delete(&self, _: &str) -> Result<(), StoreError> {
            self.say(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_callers_hear_that_the_store_is_busy() {
        let busy = Arc::new(Busy::default());
        let store = RetryAfter::new(busy.clone());
        assert!(store.put("x", Bytes::new(), When::Always).await.is_err());
        tokio::time::sleep(Duration::from_secs(20)).await;
        let told = [
            store.get("x", None).await.map(drop),
            store.put("x", Bytes::new(), When::Absent).await.map(drop),
            store.head("x").await.map(drop),
            store.list("").await.map(drop),
            store.delete("x").await,
            store.claim("x", 1).await.map(drop),
            store.facts().await.map(drop),
        ];
        for told in told {
            let Err(StoreError::Busy { reason, retry_after: Some(after) }) = told else { panic!("{told:?}") };
            assert_eq!((reason.as_str(), after.as_secs()), ("too much", 40));
        }
        assert_eq!(busy.asked.load(Relaxed), 1);
        tokio::time::sleep(Duration::from_secs(40)).await;
        // A store that names no time is asked whenever the caller likes.
        assert!(store.get("x", None).await.is_err());
        assert!(store.get("x", None).await.is_ok());
        assert_eq!(busy.asked.load(Relaxed), 3);
    }
}
