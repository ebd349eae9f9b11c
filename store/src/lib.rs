//! Stores: objects under names, in a directory, on an S3 server or on a WebDAV server.
//!
//! This crate knows objects and nothing of what they hold. The owner of a store hands in which names are its own ([`names::Grammar`]).
//! Names are relative to the store's root, with `/` between parts. No store here retries: only the caller knows what a lost answer means.

// These macros panic if the output cannot be written, as with a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;

pub mod connect;
pub mod credentials;
#[cfg(feature = "dav")]
pub mod dav;
pub mod entropy;
pub mod facts;
pub mod file;
pub mod immutable;
pub mod meter;
pub mod names;
pub mod ours;
pub mod pace;
pub mod probe;
pub mod proxy;
pub mod remote;
pub mod retry;
pub mod retry_after;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(any(feature = "dav", feature = "s3"))]
mod trust;

pub use facts::Facts;
pub use holdall_address as url;

/// The most names that [`Store::top`] gives: a person reads a few of them.
pub const TOP_MAX: usize = 100;

/// Five verbs on named objects, and a claim.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The object, or the bytes `range` of it. A body of another length than asked for is an error.
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError>;
    /// Stores the object durably and atomically: a reader sees the old one or the new one, whole.
    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError>;
    /// Its length, without the body.
    async fn head(&self, name: &str) -> Result<u64, StoreError>;
    /// All objects whose names begin with `prefix`.
    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError>;
    /// Deletes the object; one that is not there is no error.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;
    /// Makes `name` the caller's own. Of all callers, ever, only one succeeds; under the same nonce it succeeds again.
    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        let body = Bytes::copy_from_slice(format!("{nonce:032x}").as_bytes());
        match self.put(name, body.clone(), When::Absent).await {
            Err(StoreError::Precondition { .. }) => immutable::holds(self, name, &body).await,
            put => put.map(|_| true),
        }
    }
    /// Whether the server decides the conditions of puts, as far as is known. Where it does not, a put looks before it writes, which
    /// decides nothing between two computers.
    fn heeds_conditions(&self) -> bool {
        true
    }
    /// The known facts about the store and the way to it. May ask the server once.
    async fn facts(&self) -> Result<Facts, StoreError> {
        Ok(Facts::default())
    }
    /// Names of some entries at the top, a directory's with a `/` at its end: enough to see whether others use the place. Never names from
    /// deeper down. Empty where the store does not exist yet, or where the store cannot say.
    async fn top(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    /// Foreign names that the last listings showed, in order and bounded. Holdall never reads these objects; people are shown their names.
    fn foreign(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An object's body and version.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The bytes that were asked for.
    pub bytes: Bytes,
    /// The version, as the store names it. Meaningful for whole objects.
    pub etag: Etag,
}

/// A store's own name for one version of an object. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etag(pub String);

/// The condition under which a put takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// In every case.
    Always,
    /// If nothing has the name.
    Absent,
    /// If the object still is this version.
    Matches(Etag),
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The object's name, from the prefix of the store on.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// Why a store did not do as asked. After a put, every error but `UnknownCredentials` and `Denied` leaves open whether the put took effect.
/// That includes `Precondition`: a retry further down may have met its own first try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing has that name.
    #[error("{name} is not in the store")]
    NotFound {
        /// The object.
        name: String,
    },
    /// The condition of a put did not hold.
    #[error("{name} was changed by another computer")]
    Precondition {
        /// The object.
        name: String,
    },
    /// No answer, or none that makes sense: try again later.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// The cause.
        reason: String,
    },
    /// The bucket or directory that should hold the store's objects is not there. It may come back; before anything is in it, the address is
    /// wrong.
    #[error("the store cannot be reached: there is no {place}")]
    NoPlace {
        /// The kind of place, its name, and where it should be, as a person knows it: `bucket photos at s3.example.org`.
        place: String,
    },
    /// The bucket or directory is somewhere else: the address is wrong.
    #[error("the store cannot be reached: {reason}")]
    Elsewhere {
        /// The right place, and the part that the address lacks.
        reason: String,
    },
    /// The place lacks something that a store needs. Waiting does not help; another place does, or another way to mount it.
    #[error("the store cannot be used: {reason}")]
    Unfit {
        /// The thing that is missing, and its place.
        reason: String,
    },
    /// The store asks to be left alone for a while.
    #[error("the store is busy: {reason}")]
    Busy {
        /// The store's reason.
        reason: String,
        /// When to try again, if the store said so.
        retry_after: Option<Duration>,
    },
    /// The store does not know the credentials, or no longer accepts them: it answers no request made with them.
    #[error("the store refused the credentials: {reason}")]
    UnknownCredentials {
        /// The store's reason.
        reason: String,
    },
    /// Credentials are missing, or do not allow this.
    #[error("the store refused access: {reason}")]
    Denied {
        /// The store's reason.
        reason: String,
    },
    /// The store has no space left.
    #[error("the store is full: {reason}")]
    Full {
        /// The store's reason.
        reason: String,
    },
    /// The body is not what was asked for.
    #[error("{name} came back damaged: {reason}")]
    Damaged {
        /// The object.
        name: String,
        /// The damage.
        reason: String,
    },
}

impl StoreError {
    /// After a put: whether it took no effect, and never will.
    pub fn was_refused(&self) -> bool {
        matches!(self, StoreError::UnknownCredentials { .. } | StoreError::Denied { .. })
    }

    /// Whether the error says nothing about the object itself, so that the same request may succeed later: once the network is back, there
    /// is space, or a person has entered new credentials.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Unreachable { .. }
            | StoreError::NoPlace { .. }
            | StoreError::Elsewhere { .. }
            | StoreError::Unfit { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::UnknownCredentials { .. }
            | StoreError::Denied { .. } => true,
            StoreError::NotFound { .. } | StoreError::Precondition { .. } | StoreError::Damaged { .. } => {
                false
            }
        }
    }
}
