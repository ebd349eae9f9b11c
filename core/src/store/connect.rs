//! From an address to a store.

use super::Store;
use super::credentials::Credentials;
use super::file::FileStore;
#[cfg(feature = "s3")]
use super::s3::S3Store;
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
        #[cfg(feature = "s3")]
        StoreUrl::S3(url) => match S3Store::new(url, credentials) {
            Ok(store) => Ok(Arc::new(store)),
            Err(reason) => Err(ConnectError::Setup { reason }),
        },
        #[cfg(not(feature = "s3"))]
        StoreUrl::S3(_) => {
            Err(ConnectError::Setup { reason: format!("this build knows no S3, and {url} is that") })
        }
        StoreUrl::Dav(_) => {
            let reason = format!("{url} cannot be reached by this build with {credentials:?}");
            Err(ConnectError::Setup { reason })
        }
    }
}
