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
    for _ in 0..LOOKS {
        if holds(store, name, &body).await? {
            return Ok(());
        }
    }
    Err(StoreError::Damaged { name: name.to_owned(), reason: "it holds other bytes".into() })
}

/// Whether a name that is taken, as the store says, stands for `body`.
pub async fn holds(store: &(impl Store + ?Sized), name: &str, body: &[u8]) -> Result<bool, StoreError> {
    match store.get(name, None).await {
        Err(StoreError::NotFound { .. }) => {
            let reason = format!("it says that {name} is taken, and has no such object");
            Err(StoreError::Busy { reason, retry_after: None })
        }
        found => Ok(found?.bytes == body),
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
}
