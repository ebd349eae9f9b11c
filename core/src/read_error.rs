//! Why something that a store holds could not be read.

use crate::format::FormatError;
use crate::store::StoreError;

/// Why an object could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The store did not give it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not what it should be.
    #[error("{name} is damaged: {error}")]
    Format {
        /// The object.
        name: String,
        /// What is wrong with it.
        error: FormatError,
    },
}

impl ReadError {
    /// Whether it says nothing about the object itself: see [`StoreError::is_transient`].
    pub fn is_transient(&self) -> bool {
        match self {
            ReadError::Store(error) => error.is_transient(),
            ReadError::Format { .. } => false,
        }
    }

    /// Whether the store could not be asked.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, ReadError::Store(StoreError::Unreachable { .. }))
    }

    /// Whether the object is not there, perhaps because it was collected since its name was read.
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Store(StoreError::NotFound { .. }))
    }
}
