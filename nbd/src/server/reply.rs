//! Answers before they are encoded.

use crate::codec::transmission::{Cookie, ErrorCode};
use holdall_core::device::{Allocation, DeviceError, Piece, ReadLease};

/// The answer to one request.
pub(super) struct Reply {
    pub(super) cookie: Cookie,
    pub(super) body: Body,
}

/// The content of an answer.
pub(super) enum Body {
    /// Success.
    Done,
    /// Failure, and why.
    Error(ErrorCode, String),
    /// The bytes from `offset`; in several chunks only if `fragment` allows it.
    Data { offset: u64, lease: ReadLease, fragment: bool },
    /// Extents.
    Extents(Vec<Allocation>),
}

impl Body {
    /// The `len` bytes from `offset`, as the device returned them.
    pub(super) fn of_lease(offset: u64, len: u64, lease: ReadLease, fragment: bool) -> Self {
        let bytes: u64 = lease.pieces().iter().map(Piece::len).sum();
        assert_eq!(bytes, len, "a lease is as long as the range that was asked for");
        Body::Data { offset, lease, fragment }
    }

    /// A device's error.
    pub(super) fn of_error(error: &DeviceError) -> Self {
        Body::Error(code_of(error), error.to_string())
    }
}

/// The one translation of a device's errors.
pub(super) fn code_of(error: &DeviceError) -> ErrorCode {
    match error {
        DeviceError::OutOfRange => ErrorCode::Inval,
        DeviceError::ReadOnly => ErrorCode::Perm,
        DeviceError::Closed => ErrorCode::Shutdown,
        DeviceError::Unavailable(_) => ErrorCode::Io,
        DeviceError::Failed(_) => ErrorCode::Io,
    }
}
