//! Stores that lie about a family: nothing they say decides how the family is sealed.

use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::family::{self, FamilyError, Unlocked};
use holdall_core::format::family::{Difference, Family, Mode, NAME};
use holdall_core::keys::Secret;
use holdall_core::seal::Cipher;
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::{Etag, Fetched, Listed, Store, StoreError, When};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zeroize::Zeroizing;

/// A store that claims that nothing is encrypted, from the `from`-th reading of family.json on.
struct Liar {
    inner: Arc<dyn Store>,
    from: u32,
    readings: AtomicU32,
}

impl Liar {
    fn new(inner: Arc<dyn Store>, from: u32) -> Self {
        Self { inner, from, readings: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Store for Liar {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let mut fetched = self.inner.get(name, range).await?;
        if name == NAME && self.readings.fetch_add(1, Relaxed) >= self.from {
            let said = Family::decode(&fetched.bytes).unwrap();
            fetched.bytes = Family::new(said.family, Cipher::None, said.mode).encode().into();
        }
        Ok(fetched)
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.inner.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.inner.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.inner.claim(name, nonce).await
    }
}

fn passphrase() -> Zeroizing<String> {
    Zeroizing::new("secret".into())
}

async fn encrypted() -> (Arc<dyn Store>, Unlocked) {
    let store: Arc<dyn Store> = Arc::new(SimStore::new(1, StoreFaults::default()));
    let (unlocked, _) = family::create(&*store, Some(passphrase()), Mode::Swap).await.unwrap();
    (store, unlocked)
}

/// Opening with a secret yields an encrypted family or an error, at whichever reading the store begins to lie.
#[tokio::test]
async fn a_given_secret_is_used_or_refused() {
    let (store, _) = encrypted().await;
    for from in 0..4 {
        let liar = Liar::new(store.clone(), from);
        match family::unlock(&liar, Some(Secret::Passphrase(passphrase()))).await {
            Ok(unlocked) => assert_eq!(unlocked.family.cipher, Cipher::XChaCha20Poly1305, "from {from}"),
            Err(error) => assert!(matches!(error, FamilyError::SecretUnused), "from {from}: {error}"),
        }
    }
}

/// The store answers that a family exists already: the creator's own, or one that somebody left unfinished.
#[tokio::test(start_paused = true)]
async fn a_drive_created_with_a_passphrase_is_encrypted_or_refused() {
    let (mut made, mut refused) = (0, 0);
    for from in 0..24 {
        // Begun, and left unfinished.
        let (store, _) = encrypted().await;
        let liar = Liar::new(store, from);
        match family::create(&liar, Some(passphrase()), Mode::Swap).await {
            Ok((unlocked, recovery)) => {
                assert_eq!(unlocked.family.cipher, Cipher::XChaCha20Poly1305, "from {from}");
                assert!(recovery.is_some(), "from {from}");
                made += 1;
            }
            Err(error) => {
                let is_refused = matches!(error, FamilyError::Unfinished | FamilyError::SecretUnused);
                assert!(is_refused, "from {from}: {error}");
                refused += 1;
            }
        }
    }
    assert!(made > 0 && refused > 0, "{made} {refused}");
}

/// The remembered key says whether a family is encrypted.
#[tokio::test]
async fn a_remembered_key_decides_whether_a_family_is_encrypted() {
    let (_, Unlocked { family, key, .. }) = encrypted().await;
    assert!(Unlocked::with_key(family.clone(), key.clone()).is_ok());
    let open = Family::new(family.family, Cipher::None, family.mode);
    let lied = Unlocked::with_key(open.clone(), key).err().unwrap();
    assert!(matches!(lied, FamilyError::Changed(Difference::Cipher { now: Cipher::None })), "{lied}");
    let public = holdall_core::keys::public_data_key(family.family);
    assert!(Unlocked::with_key(open, public.clone()).is_ok());
    assert!(Unlocked::with_key(family, public).is_err());
}
