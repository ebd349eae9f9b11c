//! When to try again: the store's rules, and the wait after a failed read.

use crate::read_error::ReadError;
pub use holdall_store::retry::*;
use std::time::Duration;

/// How long the store asked to be left alone, if a read failed because of it.
pub fn hint(error: &ReadError) -> Option<Duration> {
    match error {
        ReadError::Store(error) => hint_of(error),
        ReadError::Format { .. } | ReadError::Gone { .. } | ReadError::Remote(_) => None,
    }
}
