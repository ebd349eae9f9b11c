//! The bytes of the store, as documented in `core/FORMAT.md`: pure functions between structures and slices.
//!
//! Every decoder takes hostile bytes: it checks lengths against the bytes that are there and against a cap before it allocates, and bytes
//! newer than this program give an error that says so.

pub mod family;
pub mod head;
pub mod id;
pub mod page;
pub mod root;
pub mod segment;
pub mod usage;
pub mod wire;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes end in the middle of a field.
    #[error("it ends too early")]
    Truncated,
    /// Another kind of object, or none of Holdall's.
    #[error("it does not begin as {expected} does")]
    Magic {
        /// The kind of object that was expected.
        expected: &'static str,
    },
    /// Written by a later version.
    #[error("it has format {found}, which is newer than this program knows ({known})")]
    Newer {
        /// The version that was found.
        found: u64,
        /// The latest version that this program reads.
        known: u64,
    },
    /// It contains a value that only a later version can have written.
    #[error("it says something that this program does not know")]
    Unknown,
    /// The seal does not open: the bytes are damaged, moved, or sealed with another key.
    #[error("its seal does not check")]
    Seal,
    /// A field has an impossible value.
    #[error("{0}")]
    Invalid(&'static str),
}
