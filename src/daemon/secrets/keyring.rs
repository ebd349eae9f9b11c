//! The Secret Service: the keyring of the desktop, over D-Bus.
//!
//! Nothing here ever prompts a person: a daemon has no window in which to explain itself. A locked keyring is an error, and the caller
//! decides what follows.

use secret_service::{EncryptionType, SecretService};
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;
use zeroize::Zeroizing;

/// How long it may take to answer: it may have to be started first.
const PATIENCE: Duration = Duration::from_secs(5);
const CONTENT_TYPE: &str = "application/json";

/// Why a keyring is of no use now.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// There is no keyring, or it does not answer.
    #[error("no keyring answers ({0})")]
    Away(String),
    /// It is there, but locked.
    #[error("the keyring is locked")]
    Locked,
    /// It is open, but does not have what was put into it.
    #[error("the keyring no longer has what was put into it")]
    Missing,
}

impl From<secret_service::Error> for KeyringError {
    fn from(error: secret_service::Error) -> Self {
        match error {
            secret_service::Error::Locked => KeyringError::Locked,
            error => KeyringError::Away(error.to_string()),
        }
    }
}

/// Puts `secret` into it as `item`; `label` is what a person sees there.
pub async fn put(item: Uuid, label: &str, secret: &[u8]) -> Result<(), KeyringError> {
    in_time(async {
        let service = connect().await?;
        let collection = service.get_default_collection().await?;
        if collection.is_locked().await? {
            return Err(KeyringError::Locked);
        }
        let item = item.to_string();
        collection.create_item(label, attributes(&item), secret, true, CONTENT_TYPE).await?;
        Ok(())
    })
    .await
}

/// The secret that was put into it as `item`.
pub async fn get(item: Uuid) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    in_time(async {
        let service = connect().await?;
        let item = item.to_string();
        let found = service.search_items(attributes(&item)).await?;
        if let Some(item) = found.unlocked.first() {
            return Ok(Zeroizing::new(item.get_secret().await?));
        }
        // A locked keyring may not even say what it has.
        match found.locked.is_empty() && !service.get_default_collection().await?.is_locked().await? {
            true => Err(KeyringError::Missing),
            false => Err(KeyringError::Locked),
        }
    })
    .await
}

/// Deletes `item` from it.
pub async fn delete(item: Uuid) -> Result<(), KeyringError> {
    in_time(async {
        let service = connect().await?;
        let item = item.to_string();
        let found = service.search_items(attributes(&item)).await?;
        for item in &found.unlocked {
            item.delete().await?;
        }
        if found.locked.is_empty() { Ok(()) } else { Err(KeyringError::Locked) }
    })
    .await
}

/// Whether there is an open keyring.
pub async fn look() -> Result<(), KeyringError> {
    in_time(async {
        let service = connect().await?;
        match service.get_default_collection().await?.is_locked().await? {
            true => Err(KeyringError::Locked),
            false => Ok(()),
        }
    })
    .await
}

fn attributes(item: &str) -> HashMap<&str, &str> {
    HashMap::from([("application", "holdall"), ("login", item)])
}

/// The secret is encrypted on the bus too.
async fn connect() -> Result<SecretService<'static>, secret_service::Error> {
    SecretService::connect(EncryptionType::Dh).await
}

async fn in_time<T>(work: impl Future<Output = Result<T, KeyringError>>) -> Result<T, KeyringError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(KeyringError::Away(format!("no answer in {} s", PATIENCE.as_secs()))),
    }
}
