//! A store that shows only its owner's names.
//!
//! [`connect`](crate::connect::connect) puts this around every store, so nothing above it meets a foreign name: a listing leaves such names
//! out and notes them, and a request for a name that climbs out of the store's root is refused before it is sent.

use crate::names::{Grammar, Names, stays_below};
use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Foreign names to remember, in all; more would only fill memory on the store's word.
const NAMES_MAX: usize = 100;
/// The longest foreign name that is remembered whole (S3's own limit is 1,024 bytes).
const NAME_CHARS_MAX: usize = 1024;

/// The store behind the grammar of names.
pub struct Ours {
    inner: Arc<dyn Store>,
    names: Names,
    // Held to note or copy names.
    foreign: Mutex<BTreeSet<String>>,
}

impl Ours {
    /// Wraps `inner`, whose owner writes `names`.
    pub fn new(inner: Arc<dyn Store>, names: &'static dyn Grammar) -> Self {
        Self { inner, names: Names::new(names), foreign: Mutex::default() }
    }

    /// Keeps our own names. The foreign ones under `prefix` replace those known there before.
    fn sift(&self, prefix: &str, listed: Vec<Listed>) -> Vec<Listed> {
        let (ours, others): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|listed| self.names.are_ours(&listed.name));
        let mut foreign = self.foreign.lock();
        foreign.retain(|name| !name.starts_with(prefix));
        for Listed { name, .. } in others {
            if foreign.len() == NAMES_MAX {
                break;
            }
            // The name may be shown in a terminal, so control characters are escaped.
            let name: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
            if !foreign.contains(&name) {
                tracing::warn!(name, "skipping a foreign object in the store");
                foreign.insert(name);
            }
        }
        ours
    }
}

/// Refuses a name that leaves the store's root.
fn check(name: &str) -> Result<(), StoreError> {
    if stays_below(name) {
        return Ok(());
    }
    let reason = "the name leaves the store, so it was not used".to_owned();
    Err(StoreError::Damaged { name: name.escape_debug().to_string(), reason })
}

#[async_trait]
impl Store for Ours {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        check(name)?;
        self.inner.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        check(name)?;
        self.inner.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        check(name)?;
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let listed = self.inner.list(prefix).await?;
        Ok(self.sift(prefix, listed))
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        check(name)?;
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        check(name)?;
        self.inner.claim(name, nonce).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        self.inner.top().await
    }

    fn foreign(&self) -> Vec<String> {
        self.foreign.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Currency;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const LETTER: &str = "letters/a";

    /// An owner that writes one name.
    struct Letters;

    impl Grammar for Letters {
        fn is_own(&self, name: &str) -> bool {
            name == LETTER
        }

        fn mark(&self) -> &str {
            LETTER
        }

        fn precedes_mark(&self, _: &str) -> bool {
            false
        }

        fn is_claim(&self, _: &str) -> bool {
            false
        }

        fn is_swapped(&self, _: &str) -> bool {
            false
        }

        fn currency(&self, _: &str) -> Currency {
            Currency::Any
        }
    }

    /// Lists any names, and counts every other request.
    #[derive(Default)]
    struct Hostile {
        lists: Mutex<Vec<&'static str>>,
        asked: AtomicU32,
    }

    impl Hostile {
        fn missing<T>(&self, name: &str) -> Result<T, StoreError> {
            self.asked.fetch_add(1, Relaxed);
            Err(StoreError::NotFound { name: name.to_owned() })
        }
    }

    #[async_trait]
    impl Store for Hostile {
        async fn get(&self, name: &str, _: Option<Range<u64>>) -> Result<Fetched, StoreError> {
            self.missing(name)
        }

        async fn put(&self, name: &str, _: Bytes, _: When) -> Result<Etag, StoreError> {
            self.missing(name)
        }

        async fn head(&self, name: &str) -> Result<u64, StoreError> {
            self.missing(name)
        }

        async fn list(&self, _: &str) -> Result<Vec<Listed>, StoreError> {
            Ok(self.lists.lock().iter().map(|name| Listed { name: (*name).to_owned(), len: 1 }).collect())
        }

        async fn delete(&self, name: &str) -> Result<(), StoreError> {
            self.missing(name)
        }
    }

    #[tokio::test]
    async fn lists_own_names_alone_and_remembers_the_others() {
        let hostile = Arc::new(Hostile::default());
        let store = Ours::new(hostile.clone(), &Letters);
        let foreign = ["letters/", "letters/../../../x", "letters/a (conflicted copy)"];
        *hostile.lists.lock() = [&foreign[..], &[LETTER]].concat();
        assert_eq!(store.list("letters/").await, Ok(vec![Listed { name: LETTER.into(), len: 1 }]));
        assert_eq!(store.foreign(), foreign);
        *hostile.lists.lock() = vec![LETTER];
        store.list("letters/").await.unwrap();
        assert!(store.foreign().is_empty(), "what was taken away is no longer told");
    }

    #[tokio::test]
    async fn asks_nothing_under_a_name_that_climbs() {
        let hostile = Arc::new(Hostile::default());
        let store = Ours::new(hostile.clone(), &Letters);
        for name in ["letters/../../x", "../x", "/x", "letters//x"] {
            let answers = [
                store.get(name, None).await.map(drop),
                store.put(name, Bytes::new(), When::Always).await.map(drop),
                store.head(name).await.map(drop),
                store.delete(name).await,
                store.claim(name, 1).await.map(drop),
            ];
            for answer in answers {
                assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{name}: {answer:?}");
            }
        }
        assert_eq!(hostile.asked.load(Relaxed), 0);
        assert!(matches!(store.get(LETTER, None).await, Err(StoreError::NotFound { .. })));
    }
}
