//! Why an object in a store could not be read.

use crate::format::FormatError;
use crate::store::StoreError;

/// Why an object could not be read.
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
}

impl ReadError {
    /// Whether the error says nothing about the object itself: see [`StoreError::is_transient`].
    pub fn is_transient(&self) -> bool {
        match self {
            ReadError::Store(error) => error.is_transient(),
            ReadError::Format { .. } => false,
        }
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
