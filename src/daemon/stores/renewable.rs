//! A store whose credentials can be replaced while a drive uses it: a new access key, and uploads go on.

use super::later::Later;
use crate::api::Action;
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::format::{family, head};
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use holdall_core::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::sync::Arc;

/// A store, and who is logged in to it.
pub struct Renewable {
    url: StoreUrl,
    meter: Meter,
    // Held for taking and replacing pointers.
    inner: RwLock<Inner>,
    // Held for noting and looking.
    hindered: Mutex<Hindered>,
}

/// The store as it is reached now.
struct Inner {
    store: Arc<dyn Store>,
    /// The same, where its credentials were not at hand at first.
    later: Option<Arc<Later>>,
}

/// What waiting alone does not mend, as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The credentials.
    Credentials(String),
    /// The keyring that they are in.
    Keyring {
        what: String,
        /// What to do about it.
        actions: Vec<Action>,
    },
    /// The store has no room, or is not there at all.
    Store(String),
    /// Not even the family is there any more.
    Emptied,
}

/// What has last hindered reading and writing: credentials may be good for one of the two.
#[derive(Default)]
struct Hindered {
    reading: Option<Hindrance>,
    writing: Option<Hindrance>,
    /// The family was looked for, and is not there. Whoever puts there meanwhile meets no hindrance.
    is_emptied: bool,
    /// Why there was no answer the last time, which says nothing of all that.
    silence: Option<String>,
}

impl Renewable {
    /// The store at `url`; `meter` counts what is asked of `store`.
    pub fn new(url: StoreUrl, meter: Meter, store: Arc<dyn Store>) -> Self {
        Self { url, meter, inner: RwLock::new(Inner { store, later: None }), hindered: Mutex::default() }
    }

    /// The same, where the credentials for it are not at hand now.
    pub fn later(url: StoreUrl, meter: Meter, later: Arc<Later>) -> Self {
        let inner = Inner { store: later.clone(), later: Some(later) };
        Self { url, meter, inner: RwLock::new(inner), hindered: Mutex::default() }
    }

    /// Where it is.
    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// What counts its requests.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// From the next request on it is this one.
    pub fn renew(&self, store: Arc<dyn Store>) {
        *self.inner.write() = Inner { store, later: None };
        *self.hindered.lock() = Hindered::default();
    }

    /// What a person has to mend, if the store said so last.
    ///
    /// Where there is no answer now, that comes first: it may be all that is wrong.
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

    /// Notes what the answer says of the family, if it says anything.
    fn of_family<T>(&self, name: &str, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if name == family::NAME || head::is_name(name) {
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

/// Why there was no answer, or none to what was asked.
fn silence<T>(answer: &Result<T, StoreError>) -> Option<String> {
    match answer {
        Err(error @ (StoreError::Unreachable { .. } | StoreError::Busy { .. })) => Some(error.to_string()),
        _ => None,
    }
}

/// Who answers.
enum Asked {
    Store,
    /// What is kept of logins: the store is not come to.
    Logins,
    /// The keyring that they are in, and what opens it.
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
        // It says nothing of either.
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
        // Not noted: who may put may not always delete, and what is not deleted only takes room.
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

/// A store that is logged out of.
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

    #[tokio::test]
    async fn new_credentials_count_from_the_next_request_on() {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::File(dir.path().to_owned());
        let open: Arc<dyn Store> = Arc::new(FileStore::new(dir.path().to_owned()));
        let store = Renewable::new(url, Meter::default(), open.clone());
        let family = holdall_core::format::family::NAME;
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

    /// Says the same to everyone.
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
    async fn what_is_wrong_now_comes_before_what_was() {
        let store = renewable(LoggedOut);
        assert!(store.get("x", None).await.is_err());
        // The same one, whose network is gone.
        store.inner.write().store =
            Arc::new(Saying(StoreError::Unreachable { reason: "no route to h".into() }));
        assert!(store.get("x", None).await.is_err());
        let Some(Hindrance::Credentials(what)) = store.hindrance() else { panic!("it is forgotten") };
        assert!(what.starts_with("the store cannot be reached: no route to h; before that, "), "{what}");
        assert!(what.contains("logged out"), "{what}");
    }

    #[tokio::test]
    async fn a_store_without_its_family_was_emptied_whatever_can_be_put_there() {
        let store = renewable(Saying(StoreError::NotFound { name: "x".into() }));
        assert!(store.get("head/1", None).await.is_err());
        assert_eq!(store.hindrance(), None);
        assert!(store.get(family::NAME, None).await.is_err());
        store.put("seg/1", "x".into(), When::Absent).await.unwrap();
        store.list("seg/").await.unwrap();
        assert!(store.get("head/1", None).await.is_err());
        assert_eq!(store.hindrance(), Some(Hindrance::Emptied));
        // It is made, or made again.
        store.put(family::NAME, "{}".into(), When::Absent).await.unwrap();
        assert_eq!(store.hindrance(), None);
    }
}
