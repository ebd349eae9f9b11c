//! Store URLs, as people write them.

use super::Store;
use super::file::FileStore;
use std::path::PathBuf;
use std::sync::Arc;

/// Why an address is none.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// The scheme is unknown.
    #[error("{url} is not a store: the address begins with file:///")]
    Scheme {
        /// What was given.
        url: String,
    },
    /// A file URL without an absolute path.
    #[error("{url} names no absolute path: write file:///path/to/directory")]
    Relative {
        /// What was given.
        url: String,
    },
}

/// The store behind `url`. Nothing is contacted yet.
pub fn connect(url: &str) -> Result<Arc<dyn Store>, UrlError> {
    match url.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && path.len() > 1 => {
            Ok(Arc::new(FileStore::new(PathBuf::from(path))))
        }
        Some(_) => Err(UrlError::Relative { url: url.to_owned() }),
        None => Err(UrlError::Scheme { url: url.to_owned() }),
    }
}
