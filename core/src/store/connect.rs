//! From an address to a store.

use super::Store;
use super::credentials::Credentials;
use super::file::FileStore;
use super::url::{StoreUrl, UrlError};
use std::sync::Arc;

/// Why a store cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The credentials are of another kind than the store takes, or its certificates cannot be read.
    #[error("{reason}")]
    Setup {
        /// What is wrong.
        reason: String,
    },
}

/// The store at `url`. Nothing is contacted yet.
pub fn connect(url: &StoreUrl, credentials: &Credentials) -> Result<Arc<dyn Store>, ConnectError> {
    match url {
        StoreUrl::File(path) => Ok(Arc::new(FileStore::new(path.clone()))),
        // No WebDAV server swaps objects atomically, whatever it says.
        #[cfg(feature = "dav")]
        StoreUrl::Dav(url) => {
            let store = super::dav::DavStore::new(url, credentials, super::dav::http::Limits::default())?;
            Ok(Arc::new(super::claims::Claims::new(Arc::new(store))))
        }
        #[cfg(not(feature = "dav"))]
        StoreUrl::Dav(_) => unknown(url, credentials),
        StoreUrl::S3(_) => unknown(url, credentials),
    }
}

fn unknown(url: &StoreUrl, credentials: &Credentials) -> Result<Arc<dyn Store>, ConnectError> {
    let reason = format!("{url} cannot be reached by this build with {credentials:?}");
    Err(ConnectError::Setup { reason })
}
