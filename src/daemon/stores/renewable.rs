//! A store whose credentials can be replaced while a drive uses it: uploads continue with the new access key.

use super::later::Later;
use crate::api::Action;
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use holdall_core::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use holdall_core::{family, heads};
use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::sync::Arc;

/// A store, and the login to it.
pub struct Renewable {
    url: StoreUrl,
    meter: Meter,
    // Held to take and replace pointers.
    inner: RwLock<Inner>,
    // Held to record and read.
    hindered: Mutex<Hindered>,
}

/// The store as it is reached now.
struct Inner {
    store: Arc<dyn Store>,
    /// The same store, if its credentials were not available at first.
    later: Option<Arc<Later>>,
}

/// An obstacle that waiting alone does not remove, as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The credentials.
    Credentials(String),
    /// The keyring that they are in.
    Keyring {
        what: String,
        /// The remedy.
        actions: Vec<Action>,
    },
    /// The store has no space, or is not there at all.
    Store(String),
    /// Even the family's description is gone.
    Emptied,
}

/// The last obstacle to reading and to writing: credentials may be good for only one of the two.
#[derive(Default)]
struct Hindered {
    reading: Option<Hindrance>,
    writing: Option<Hindrance>,
    /// A read has found that the family is missing. Writes succeed meanwhile, so they do not show this.
    is_emptied: bool,
    /// Why the last request got no answer, which says nothing about the above.
    silence: Option<String>,
}

impl Renewable {
    /// The store at `url`; `meter` counts the requests to `store`.
    pub fn new(url: StoreUrl, meter: Meter, store: Arc<dyn Store>) -> Self {
        Self { url, meter, inner: RwLock::new(Inner { store, later: None }), hindered: Mutex::default() }
    }

    /// The same for a store whose credentials are not available now.
    pub fn later(url: StoreUrl, meter: Meter, later: Arc<Later>) -> Self {
        let inner = Inner { store: later.clone(), later: Some(later) };
        Self { url, meter, inner: RwLock::new(inner), hindered: Mutex::default() }
    }

    /// Where it is.
    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Counts its requests.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Replaces the store from the next request on.
    pub fn renew(&self, store: Arc<dyn Store>) {
        *self.inner.write() = Inner { store, later: None };
        *self.hindered.lock() = Hindered::default();
    }

    /// The obstacle that a person has to remove, according to the store's last answer.
    ///
    /// If there is no answer now, that comes first: it may be the only problem.
    pub fn hindrance(&self) -> Option<Hindrance> {
        let hindered = self.hindered.lock();
        let emptied = || hindered.is_emptied.then_some(Hindrance::Emptied);
        let hindrance = hindered.reading.clone().or_else(|| hindered.writing.clone()).or_else(emptied)?;
        let Some(now) = &hindered.silence else { return Some(hindrance) };
        let behind = |what: String| format!("{now}; before that, {what}");
        Some(match hindrance {
            Hindrance::Credentials(what) => Hindrance::Credentials(behind(what)),
            Hindrance::Keyring { what, actions } => Hindrance::Keyring { what: behind(what), actions },
            Hindrance::Store(what) => Hindrance::Store(behind(what)),
            Hindrance::Emptied => Hindrance::Emptied,
        })
    }

    fn store(&self) -> Arc<dyn Store> {
        self.inner.read().store.clone()
    }

    fn asked(&self) -> Asked {
        match &self.inner.read().later {
            Some(later) if !later.is_reached() => later.opens_keyring().map_or(Asked::Logins, Asked::Keyring),
            _ => Asked::Store,
        }
    }

    fn read<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let hindered = &mut *self.hindered.lock();
        hindered.silence = silence(&answer);
        note(&mut hindered.reading, &answer, self.asked());
        answer
    }

    /// Records what the answer says about the family, if anything.
    fn of_family<T>(&self, name: &str, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if name == family::NAME || heads::is_name(name) {
            let hindered = &mut *self.hindered.lock();
            match &answer {
                Ok(_) => hindered.is_emptied = false,
                Err(StoreError::NotFound { .. }) if name == family::NAME => hindered.is_emptied = true,
                Err(_) => {}
            }
        }
        answer
    }

    fn written<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let hindered = &mut *self.hindered.lock();
        hindered.silence = silence(&answer);
        note(&mut hindered.writing, &answer, self.asked());
        answer
    }
}

/// Why there was no answer, or none to the request itself.
fn silence<T>(answer: &Result<T, StoreError>) -> Option<String> {
    match answer {
        Err(error @ (StoreError::Unreachable { .. } | StoreError::Busy { .. })) => Some(error.to_string()),
        _ => None,
    }
}

/// Where an answer comes from.
enum Asked {
    Store,
    /// The kept logins: the store was not contacted.
    Logins,
    /// The keyring that they are in, with the actions that open it.
    Keyring(Vec<Action>),
}

fn note<T>(hindrance: &mut Option<Hindrance>, answer: &Result<T, StoreError>, asked: Asked) {
    *hindrance = match answer {
        Err(StoreError::UnknownCredentials { reason }) => {
            Some(Hindrance::Credentials(format!("the store refuses the credentials: {reason}")))
        }
        Err(StoreError::Denied { reason }) => Some(match asked {
            Asked::Store => Hindrance::Credentials(format!("the store refuses access: {reason}")),
            Asked::Logins => Hindrance::Credentials(reason.clone()),
            Asked::Keyring(actions) => Hindrance::Keyring { what: reason.clone(), actions },
        }),
        Err(
            error @ (StoreError::Full { .. }
            | StoreError::NoPlace { .. }
            | StoreError::Elsewhere { .. }
            | StoreError::Unfit { .. }),
        ) => Some(Hindrance::Store(error.to_string())),
        // It says nothing about either.
        Err(StoreError::Unreachable { .. } | StoreError::Busy { .. }) => return,
        _ => None,
    };
}

#[async_trait]
impl Store for Renewable {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.of_family(name, self.read(self.store().get(name, range).await))
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.of_family(name, self.written(self.store().put(name, body, when).await))
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.read(self.store().head(name).await)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.read(self.store().list(prefix).await)
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        // Not recorded: credentials that may put cannot always delete, and an object that stays only takes space.
        self.store().delete(name).await
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.written(self.store().claim(name, nonce).await)
    }

    fn heeds_conditions(&self) -> bool {
        self.store().heeds_conditions()
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.store().facts().await
    }

    fn foreign(&self) -> Vec<String> {
        self.store().foreign()
    }
}

/// A store whose login was removed.
pub struct LoggedOut;

impl LoggedOut {
    fn refused<T>() -> Result<T, StoreError> {
        Err(StoreError::Denied { reason: "you are logged out of it".into() })
    }
}

#[async_trait]
impl Store for LoggedOut {
    async fn get(&self, _name: &str, _range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        Self::refused()
    }

    async fn put(&self, _name: &str, _body: Bytes, _when: When) -> Result<Etag, StoreError> {
        Self::refused()
    }

    async fn head(&self, _name: &str) -> Result<u64, StoreError> {
        Self::refused()
    }

    async fn list(&self, _prefix: &str) -> Result<Vec<Listed>, StoreError> {
        Self::refused()
    }

    async fn delete(&self, _name: &str) -> Result<(), StoreError> {
        Self::refused()
    }

    async fn claim(&self, _name: &str, _nonce: u128) -> Result<bool, StoreError> {
        Self::refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall_core::store::file::FileStore;
    use holdall_core::store::names::DriveNames;

    #[tokio::test]
    async fn new_credentials_count_from_the_next_request_on() {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::File(dir.path().to_owned());
        let open: Arc<dyn Store> = Arc::new(FileStore::new(dir.path().to_owned(), &DriveNames));
        let store = Renewable::new(url, Meter::default(), open.clone());
        let family = family::NAME;
        store.put(family, "{}".into(), When::Absent).await.unwrap();
        assert_eq!(store.hindrance(), None);
        store.renew(Arc::new(LoggedOut));
        assert!(matches!(store.get(family, None).await, Err(StoreError::Denied { .. })));
        assert!(store.put("x", "x".into(), When::Always).await.is_err());
        let told = |what: &str| what.contains("logged out");
        assert!(matches!(store.hindrance(), Some(Hindrance::Credentials(what)) if told(&what)));
        store.renew(open);
        assert_eq!(store.hindrance(), None);
        store.get(family, None).await.unwrap();
    }

    /// Gives everyone the same error.
    struct Saying(StoreError);

    #[async_trait]
    impl Store for Saying {
        async fn get(&self, _: &str, _: Option<Range<u64>>) -> Result<Fetched, StoreError> {
            Err(self.0.clone())
        }

        async fn put(&self, _: &str, _: Bytes, _: When) -> Result<Etag, StoreError> {
            Ok(Etag(String::new()))
        }

        async fn head(&self, _: &str) -> Result<u64, StoreError> {
            Err(self.0.clone())
        }

        async fn list(&self, _: &str) -> Result<Vec<Listed>, StoreError> {
            Ok(Vec::new())
        }

        async fn delete(&self, _: &str) -> Result<(), StoreError> {
            Ok(())
        }
    }

    fn renewable(inner: impl Store) -> Renewable {
        Renewable::new(StoreUrl::File("/s".into()), Meter::default(), Arc::new(inner))
    }

    #[tokio::test]
    async fn the_present_problem_comes_before_the_earlier_one() {
        let store = renewable(LoggedOut);
        assert!(store.get("x", None).await.is_err());
        // The same store, with its network gone.
        store.inner.write().store =
            Arc::new(Saying(StoreError::Unreachable { reason: "no route to h".into() }));
        assert!(store.get("x", None).await.is_err());
        let Some(Hindrance::Credentials(what)) = store.hindrance() else { panic!("it is forgotten") };
        assert!(what.starts_with("the store cannot be reached: no route to h; before that, "), "{what}");
        assert!(what.contains("logged out"), "{what}");
    }

    #[tokio::test]
    async fn a_store_without_its_family_is_emptied_despite_successful_puts() {
        let store = renewable(Saying(StoreError::NotFound { name: "x".into() }));
        assert!(store.get("head/1", None).await.is_err());
        assert_eq!(store.hindrance(), None);
        assert!(store.get(family::NAME, None).await.is_err());
        store.put("seg/1", "x".into(), When::Absent).await.unwrap();
        store.list("seg/").await.unwrap();
        assert!(store.get("head/1", None).await.is_err());
        assert_eq!(store.hindrance(), Some(Hindrance::Emptied));
        // It is created, or created again.
        store.put(family::NAME, "{}".into(), When::Absent).await.unwrap();
        assert_eq!(store.hindrance(), None);
    }
}
