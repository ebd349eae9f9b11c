//! The S3 store against a real server, and against impostors.

mod canned;
mod habits;
mod network;
mod refusals;
mod verbs;

use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::Pacer;
use holdall_core::store::s3::{Limits, S3Store};
use holdall_core::store::url::{S3Url, StoreUrl};
use holdall_core::store::{Store, StoreError};
use holdall_servers::s3::credentials as json;
use holdall_store::connect::raw;
use std::sync::Arc;
use std::time::Duration;

/// The credentials that the tests' servers accept.
fn credentials() -> Credentials {
    serde_json::from_str(&json()).unwrap()
}

/// The store at an address, whatever names it lists.
fn store(url: &str) -> Arc<dyn Store> {
    store_as(url, &credentials())
}

fn store_as(url: &str, credentials: &Credentials) -> Arc<dyn Store> {
    raw(&StoreUrl::parse(url).unwrap(), credentials, &DriveNames, &Pacer::new(), &Meter::default()).unwrap()
}

/// Little patience with silence. The other limits are so high that a slow machine meets none of them.
const NO_SILENCE: Limits = Limits { silence: Duration::from_millis(300), ..NO_LIMITS };

/// Little patience with a trickle of bytes.
const NO_DRIP: Limits = Limits { request: Duration::from_secs(1), ..NO_LIMITS };

const NO_LIMITS: Limits = Limits {
    connect: Duration::from_secs(60),
    silence: Duration::from_secs(300),
    request: Duration::from_secs(300),
    slowest_bytes: 1 << 20,
};

/// The plain store with these limits.
fn limited(url: &str, limits: Limits, pacer: &Pacer) -> S3Store {
    S3Store::new(&parsed(url), &credentials(), &DriveNames, limits, pacer, &Meter::default()).unwrap()
}

fn parsed(url: &str) -> S3Url {
    match StoreUrl::parse(url).unwrap() {
        StoreUrl::S3(url) => url,
        other => panic!("{other}"),
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// The reason of an error that says that the store cannot be reached.
#[track_caller]
fn unreachable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unreachable { reason }) => checked(reason),
        other => panic!("{other:?}"),
    }
}

/// The reason of an error that says that the store refused access.
#[track_caller]
fn denied<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Denied { reason }) => checked(reason),
        other => panic!("{other:?}"),
    }
}

/// The reason of an error that says that the store does not accept the credentials.
#[track_caller]
fn unknown<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::UnknownCredentials { reason }) => checked(reason),
        other => panic!("{other:?}"),
    }
}

/// Checks that a reason is short, and holds neither a secret nor a library's own wording.
#[track_caller]
fn checked(reason: String) -> String {
    for word in [
        holdall_servers::s3::SECRET_KEY,
        "token-of-a-session",
        "SdkError",
        "hyper",
        "Some(",
        "{",
        "dispatch",
        "os error",
    ] {
        assert!(!reason.contains(word), "{word}: {reason}");
    }
    assert!(!reason.is_empty() && reason.len() < 250, "{reason}");
    reason
}
