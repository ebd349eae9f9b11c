//! A store that is connected as soon as possible: its credentials may be in a keyring that is still locked, or on their way.

use super::{Stores, parse};
use crate::api::words::unsentenced;
use crate::api::{Action, Code, Failure};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::store::meter::Meter;
use holdall_core::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A store that each request tries to connect, until one succeeds.
pub struct Later {
    stores: Arc<Stores>,
    url: String,
    meter: Meter,
    reached: OnceCell<Arc<dyn Store>>,
    // Held to take or replace it.
    keyring: Mutex<Option<Vec<Action>>>,
}

impl Later {
    /// The store at `url`; `meter` counts the requests. Tries nothing yet.
    pub fn new(stores: Arc<Stores>, url: &str, meter: Meter) -> Self {
        Self { stores, url: url.to_owned(), meter, reached: OnceCell::new(), keyring: Mutex::default() }
    }

    /// Whether it was connected, with credentials for it.
    pub fn is_reached(&self) -> bool {
        self.reached.initialized()
    }

    /// The actions that open the keyring, if the last try failed because of it.
    pub fn opens_keyring(&self) -> Option<Vec<Action>> {
        self.keyring.lock().clone()
    }

    async fn reach(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.stores.connect(&parse(&self.url)?, &self.meter).await?)
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.reached.get_or_try_init(|| self.reach()).await.map_err(|failure| {
            let is_keyring = failure.actions.contains(&Action::UnlockKeyring);
            *self.keyring.lock() = is_keyring.then(|| failure.actions.to_vec());
            let reason = unsentenced(&failure.message);
            match failure.code {
                Code::Credentials => StoreError::Denied { reason },
                _ => StoreError::Unreachable { reason },
            }
        })
    }
}

#[async_trait]
impl Store for Later {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.store().await?.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.store().await?.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.store().await?.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.store().await?.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store().await?.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.store().await?.claim(name, nonce).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.store().await?.facts().await
    }

    fn foreign(&self) -> Vec<String> {
        self.reached.get().map(|store| store.foreign()).unwrap_or_default()
    }
}
