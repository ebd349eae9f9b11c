//! Makes a store from an address.

use super::Store;
use super::claims::Claims;
use super::credentials::Credentials;
use super::file::FileStore;
#[cfg(any(feature = "dav", feature = "s3"))]
use super::heed::Heeding;
use super::meter::Meter;
use super::ours::Ours;
use super::pace::Pacer;
use super::probe::Mode;
use super::url::{StoreUrl, UrlError};
use std::sync::Arc;

/// Why a store cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is not a store's address.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The store takes another kind of credentials, or its certificates cannot be read.
    #[error("{reason}")]
    Setup {
        /// The cause.
        reason: String,
    },
}

/// The store at `url`. `pacer` paces its bodies, `meter` counts its requests, and only Holdall's own names are seen in it. Nothing is
/// contacted yet.
pub fn connect(
    url: &StoreUrl,
    credentials: &Credentials,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Arc<dyn Store>, ConnectError> {
    Ok(Arc::new(Ours::new(raw(url, credentials, pacer, meter)?)))
}

/// The same store with every name that it lists: for tests of what a server does.
pub fn raw(
    url: &StoreUrl,
    credentials: &Credentials,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Arc<dyn Store>, ConnectError> {
    match url {
        StoreUrl::File(path) => Ok(meter.on(Arc::new(FileStore::new(path.clone()).paced(pacer)))),
        #[cfg(feature = "s3")]
        StoreUrl::S3(url) => {
            match super::s3::S3Store::new(url, credentials, super::s3::Limits::default(), pacer, meter) {
                Ok(store) => Ok(Arc::new(Heeding::new(Arc::new(store)))),
                Err(reason) => Err(ConnectError::Setup { reason }),
            }
        }
        #[cfg(not(feature = "s3"))]
        StoreUrl::S3(_) => unknown(url, credentials),
        #[cfg(feature = "dav")]
        StoreUrl::Dav(url) => {
            let limits = super::dav::http::Limits::default();
            let store = super::dav::DavStore::new(url, credentials, limits, pacer, meter)?;
            Ok(Arc::new(Heeding::new(Arc::new(store))))
        }
        #[cfg(not(feature = "dav"))]
        StoreUrl::Dav(_) => unknown(url, credentials),
    }
}

/// The store with HEADs changed as its family says: swapped by the store itself, or by claims.
pub fn with_heads(store: Arc<dyn Store>, mode: Mode) -> Arc<dyn Store> {
    match mode {
        Mode::Swap => store,
        Mode::Claim | Mode::None => Arc::new(Claims::new(store)),
    }
}

#[cfg(not(all(feature = "dav", feature = "s3")))]
fn unknown(url: &StoreUrl, credentials: &Credentials) -> Result<Arc<dyn Store>, ConnectError> {
    let reason = format!("{url} cannot be reached by this build with {credentials:?}");
    Err(ConnectError::Setup { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a console, a sync tool or a person may leave them.
    const FOREIGN: [&str; 3] = ["keys/notes (conflicted copy)", "head/desktop.ini", "ref/readme.txt"];

    #[tokio::test]
    async fn every_store_is_seen_through_the_grammar_of_names() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        put("family.json");
        put("keys/00112233445566778899aabbccddeeff");
        FOREIGN.into_iter().for_each(put);
        let url = StoreUrl::File(dir.path().to_owned());
        let store = connect(&url, &Credentials::None, &Pacer::new(), &Meter::default()).unwrap();
        let names: Vec<_> = store.list("").await.unwrap().into_iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["family.json", "keys/00112233445566778899aabbccddeeff"]);
        let mut foreign = FOREIGN;
        foreign.sort_unstable();
        assert_eq!(with_heads(store, Mode::Claim).foreign(), foreign, "wrappers hand it on");
    }
}
