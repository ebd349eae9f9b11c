//! Putting objects whose names stand for exactly these bytes.
//!
//! "The name is taken" may be the answer to the caller's own put: something on the way tried again, or an earlier try took effect and its
//! answer was lost. The answer may also be wrong. So the object is read, whatever the answer says.

use crate::{Store, StoreError, When};
use bytes::Bytes;

/// Damage on the way does not happen twice in the same form.
const LOOKS: u32 = 2;

/// Puts the object. Putting it again is no error.
pub async fn put(store: &(impl Store + ?Sized), name: &str, body: Bytes) -> Result<(), StoreError> {
    match store.put(name, body.clone(), When::Absent).await {
        Err(StoreError::Precondition { .. }) => {}
        put => return put.map(drop),
    }
    match other_bytes(store, name, &body).await? {
        None => Ok(()),
        Some(_) => Err(taken(name)),
    }
}

/// The same for a copy, which has no other name to use. An object that has the name and does not open is the rest of a broken put, and is
/// overwritten. Every other writer puts these same bytes, so it does not matter which put is last.
pub async fn put_over_damage(
    store: &(impl Store + ?Sized),
    name: &str,
    body: Bytes,
    opens: impl Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    match store.put(name, body.clone(), When::Absent).await {
        Err(StoreError::Precondition { .. }) => {}
        put => return put.map(drop),
    }
    match other_bytes(store, name, &body).await? {
        None => Ok(()),
        Some(found) if opens(&found) => Err(taken(name)),
        Some(_) => store.put(name, body, When::Always).await.map(drop),
    }
}

/// The object's bytes, if they are not `body`.
async fn other_bytes(
    store: &(impl Store + ?Sized),
    name: &str,
    body: &[u8],
) -> Result<Option<Bytes>, StoreError> {
    let mut found = None;
    for _ in 0..LOOKS {
        found = Some(there(store, name).await?).filter(|found| found != body);
        if found.is_none() {
            break;
        }
    }
    Ok(found)
}

fn taken(name: &str) -> StoreError {
    StoreError::Damaged { name: name.to_owned(), reason: "it holds other bytes".into() }
}

/// Whether a name that the store calls taken stands for `body`.
pub async fn holds(store: &(impl Store + ?Sized), name: &str, body: &[u8]) -> Result<bool, StoreError> {
    Ok(there(store, name).await? == body)
}

/// The object under a name that the store calls taken.
async fn there(store: &(impl Store + ?Sized), name: &str) -> Result<Bytes, StoreError> {
    match store.get(name, None).await {
        Err(StoreError::NotFound { .. }) => {
            let reason = format!("it says that {name} is taken, and has no such object");
            Err(StoreError::Busy { reason, retry_after: None })
        }
        found => Ok(found?.bytes),
    }
}
