//! Why an object in a store, or a file of a remote, could not be read.

use crate::format::FormatError;
use crate::store::StoreError;
use crate::store::remote::RemoteError;

/// Why an object or a file could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The store did not return it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its bytes are not what they should be.
    #[error("{name} is damaged: {error}")]
    Format {
        /// The object.
        name: String,
        /// The damage.
        error: FormatError,
    },
    /// The remote has another version of the file now, or none: the bytes of this one can no longer be had.
    #[error("this version of {file} is no longer in the remote")]
    Gone {
        /// The file.
        file: String,
    },
    /// The remote did not return the bytes of the file.
    #[error(transparent)]
    Remote(RemoteError),
}

impl From<RemoteError> for ReadError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Store(error) => ReadError::Store(error),
            RemoteError::NotFound(path) | RemoteError::Changed(path) => {
                ReadError::Gone { file: path.to_string() }
            }
            error => ReadError::Remote(error),
        }
    }
}

impl ReadError {
    /// Whether the error says nothing about the object itself: see [`StoreError::is_transient`].
    pub fn is_transient(&self) -> bool {
        match self {
            ReadError::Store(error) => error.is_transient(),
            ReadError::Remote(error) => error.is_transient(),
            ReadError::Format { .. } | ReadError::Gone { .. } => false,
        }
    }

    /// Whether the version that was asked for can no longer be had from anywhere.
    pub fn is_gone(&self) -> bool {
        matches!(self, ReadError::Gone { .. })
    }

    /// Whether the store could not be reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, ReadError::Store(StoreError::Unreachable { .. }))
    }

    /// Whether the object is missing, perhaps because it was deleted as garbage after its name was read.
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Store(StoreError::NotFound { .. }))
    }
}
