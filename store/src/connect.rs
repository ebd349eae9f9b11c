//! Makes a store from an address.

use crate::Store;
use crate::credentials::Credentials;
use crate::file::FileStore;
use crate::meter::Meter;
use crate::names::Grammar;
use crate::ours::Ours;
use crate::pace::Pacer;
#[cfg(any(feature = "dav", feature = "s3"))]
use crate::retry_after::RetryAfter;
use crate::url::{StoreUrl, UrlError};
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

/// The store at `url`, as the owner of `names` uses it. `pacer` paces its bodies, `meter` counts its requests, and only its owner's names are
/// seen in it. Nothing is contacted yet.
pub fn connect(
    url: &StoreUrl,
    credentials: &Credentials,
    names: &'static dyn Grammar,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Arc<dyn Store>, ConnectError> {
    Ok(Arc::new(Ours::new(raw(url, credentials, names, pacer, meter)?, names)))
}

/// The same store with every name that it lists: for tests of what a server does.
pub fn raw(
    url: &StoreUrl,
    credentials: &Credentials,
    names: &'static dyn Grammar,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Arc<dyn Store>, ConnectError> {
    match url {
        StoreUrl::File(path) => Ok(meter.on(Arc::new(FileStore::new(path.clone(), names).paced(pacer)))),
        #[cfg(feature = "s3")]
        StoreUrl::S3(url) => {
            let limits = crate::s3::Limits::default();
            match crate::s3::S3Store::new(url, credentials, names, limits, pacer, meter) {
                Ok(store) => Ok(Arc::new(RetryAfter::new(Arc::new(store)))),
                Err(reason) => Err(ConnectError::Setup { reason }),
            }
        }
        #[cfg(not(feature = "s3"))]
        StoreUrl::S3(_) => unknown(url, credentials),
        #[cfg(feature = "dav")]
        StoreUrl::Dav(url) => {
            let limits = crate::dav::http::Limits::default();
            let store = crate::dav::DavStore::new(url, credentials, names, limits, pacer, meter)?;
            Ok(Arc::new(RetryAfter::new(Arc::new(store))))
        }
        #[cfg(not(feature = "dav"))]
        StoreUrl::Dav(_) => unknown(url, credentials),
    }
}

#[cfg(not(all(feature = "dav", feature = "s3")))]
fn unknown(url: &StoreUrl, credentials: &Credentials) -> Result<Arc<dyn Store>, ConnectError> {
    let reason = format!("{url} cannot be reached by this build with {credentials:?}");
    Err(ConnectError::Setup { reason })
}
