//! Putting objects whose names stand for these bytes only.
//!
//! That the name is taken may be the answer to one's own put: somebody on the way has tried again, or an earlier try was
//! done and its answer lost. It may also be wrong. So what is there is looked at, whatever the answer says.

use super::{Store, StoreError, When};
use bytes::Bytes;

/// What is damaged on its way is not damaged in the same way twice.
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

/// The same, for a copy, which has no other name to go to: what has the name and does not open is what is left of a put that
/// broke, and is put over. Who else puts there puts these bytes too, so it does not matter who is last.
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

/// What the name stands for, where that is not `body`.
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

/// Whether a name that is taken, as the store says, stands for `body`.
pub async fn holds(store: &(impl Store + ?Sized), name: &str, body: &[u8]) -> Result<bool, StoreError> {
    Ok(there(store, name).await? == body)
}

/// What a name that is taken, as the store says, stands for.
async fn there(store: &(impl Store + ?Sized), name: &str) -> Result<Bytes, StoreError> {
    match store.get(name, None).await {
        Err(StoreError::NotFound { .. }) => {
            let reason = format!("it says that {name} is taken, and has no such object");
            Err(StoreError::Busy { reason, retry_after: None })
        }
        found => Ok(found?.bytes),
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::sim::store::{SimStore, StoreFaults};

    #[tokio::test]
    async fn a_name_that_is_said_to_be_taken_is_looked_at() {
        let wrong = StoreFaults { failed: 1000, ..StoreFaults::default() };
        let (mut done, mut not) = (0, 0);
        for seed in 0..50 {
            let store = SimStore::new(seed, wrong);
            match put(&store, "seg/a", Bytes::from_static(b"a")).await {
                Ok(()) => done += store.names().len(),
                Err(StoreError::Busy { .. }) => not += usize::from(store.names().is_empty()),
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(done > 0 && not > 0 && done + not == 50, "{done} {not}");
    }

    #[tokio::test]
    async fn other_bytes_under_the_name_are_damage_and_the_same_are_not() {
        let store = SimStore::new(1, StoreFaults::default());
        put(&store, "seg/a", Bytes::from_static(b"a")).await.unwrap();
        put(&store, "seg/a", Bytes::from_static(b"a")).await.unwrap();
        let other = put(&store, "seg/a", Bytes::from_static(b"b")).await;
        assert!(matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
    }

    #[tokio::test]
    async fn a_copy_is_put_over_what_does_not_open_and_over_nothing_else() {
        let store = SimStore::new(1, StoreFaults::default());
        let copy = async |body: &'static [u8]| {
            put_over_damage(&store, "seg/a", Bytes::from_static(body), |body| body.starts_with(b"whole"))
                .await
        };
        put(&store, "seg/a", Bytes::from_static(b"wh")).await.unwrap();
        copy(b"whole").await.unwrap();
        assert_eq!(store.get("seg/a", None).await.unwrap().bytes, "whole");
        copy(b"whole").await.unwrap();
        let other = copy(b"whole too").await;
        assert!(matches!(other, Err(StoreError::Damaged { .. })), "{other:?}");
        assert_eq!(store.get("seg/a", None).await.unwrap().bytes, "whole");
    }
}
