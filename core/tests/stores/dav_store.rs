//! The WebDAV store, on real servers and on one that answers as badly as a test wants.

mod claims;
mod faults;
mod habits;
mod network;
mod puts;
mod sign_in;
mod verbs;

use bytes::Bytes;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::dav::http::{Limits, Request};
use holdall_core::store::dav::{DavClient, DavStore};
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::Pacer;
use holdall_core::store::url::StoreUrl;
use holdall_core::store::{Store, StoreError, When};
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::fake::{Asked, Fake, Reply};
use std::time::Duration;

/// Little patience with silence. The other limits are so high that a slow machine meets none of them.
const NO_SILENCE: Limits = Limits { idle: Duration::from_millis(1500), ..NO_LIMITS };

/// Little patience with a trickle of bytes.
const NO_DRIP: Limits = Limits { total: Duration::from_secs(3), ..NO_LIMITS };

const NO_LIMITS: Limits = Limits {
    connect: Duration::from_secs(60),
    idle: Duration::from_secs(300),
    total: Duration::from_secs(300),
    slowest: 16 << 10,
};

fn store_with(url: &str, credentials: &Credentials, limits: Limits) -> DavStore {
    paced_store(url, credentials, limits, &Pacer::new())
}

fn paced_store(url: &str, credentials: &Credentials, limits: Limits, pacer: &Pacer) -> DavStore {
    match StoreUrl::parse(url).unwrap() {
        StoreUrl::Dav(url) => {
            DavStore::new(&url, credentials, &DriveNames, limits, pacer, &Meter::default()).unwrap()
        }
        other => panic!("{other}"),
    }
}

fn store(url: &str) -> DavStore {
    store_with(url, &Credentials::None, Limits::default())
}

/// A store with a family, at `path` of a server without sign-in.
async fn begun(server: &DavServer, path: &str) -> DavStore {
    let store = store(&server.url(path));
    assert!(store.claim("claim/family", 1).await.unwrap());
    store.put("family.json", Bytes::from_static(b"{}"), When::Absent).await.unwrap();
    store
}

/// The user whom the servers know, with the given password.
fn user(password: &str) -> Credentials {
    Credentials::Password { user: USER.into(), password: password.to_owned().into() }
}

fn both() -> [DavServer; 2] {
    [DavServer::apache(SignIn::None), DavServer::nginx(SignIn::None)]
}

/// A fake server with a family. `answer` answers everything else.
fn fake(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> (Fake, DavStore) {
    let fake = Fake::start(move |asked| match (&*asked.method, &*asked.path) {
        ("HEAD", "/s/family.json") => Reply::status(200).body(b"{}"),
        _ => answer(asked),
    });
    let store = store_with(&format!("http://{}/s/", fake.address()), &Credentials::None, NO_LIMITS);
    (fake, store)
}

/// The reason of an error that means "try again later".
fn unreachable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unreachable { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The place that an error names as missing.
fn no_place<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(error @ StoreError::NoPlace { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn denied<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Denied { reason } | StoreError::UnknownCredentials { reason }) => {
            assert!(!reason.contains(PASSWORD), "{reason}");
            reason
        }
        other => panic!("{other:?}"),
    }
}
