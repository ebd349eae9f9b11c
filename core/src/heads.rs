//! HEAD's one home: which HEAD may follow which ([`transition`]), and the one way to put it ([`swap`]).
//!
//! A version becomes current in three steps. Its root is put under a name of its own (`put_root`). A transition makes the next HEAD, which
//! names that root; transitions are pure, and refuse whatever must not follow. Then the swap puts the HEAD under the condition that nobody
//! has changed it since it was read. A crash between these steps leaves a root that nothing names, never a HEAD whose root is missing.
//!
//! No other code puts a HEAD.

use crate::clock::now_ms;
use crate::entropy;
use crate::format::FormatError;
use crate::format::head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::map::{self, ReadError};
use crate::seal::Sealer;
use crate::store::{Etag, Store, StoreError, immutable};
use bytes::Bytes;
use uuid::Uuid;

mod grant;
pub(crate) mod kept;
mod swap;
pub mod transition;

pub use crate::format::head::{Head, is_name};
pub use grant::{Granted, put_grant};
pub(crate) use swap::as_store_error;
pub use swap::{Once, Retry, Swap, swap};

/// The device that writes: this one.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its identity.
    pub id: Uuid,
    /// Its name, for people.
    pub name: String,
}

/// A version as HEAD names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its root.
    pub root: ObjectId,
    /// BLAKE3 of the root object.
    pub root_hash: [u8; 32],
    /// The version before.
    pub parent: ObjectId,
}

impl Version {
    /// The version that `head` names.
    pub fn of(head: &Head) -> Self {
        Self { root: head.root, root_hash: head.root_hash, parent: head.parent }
    }
}

/// The maker of a HEAD, and what makes this HEAD unlike all others.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The device.
    pub device: &'a Device,
    /// Never used before, and never again.
    pub nonce: u128,
    /// Unix time in ms, for people.
    pub written_ms: u64,
}

impl<'a> Author<'a> {
    /// The author of one HEAD that is made now.
    pub fn new(device: &'a Device) -> Self {
        Self { device, nonce: entropy::u128(), written_ms: now_ms() }
    }
}

/// Reads a drive's HEAD. A HEAD that is damaged, or another drive's, is read once more.
pub(crate) async fn read(store: &dyn Store, sealer: &Sealer, drive: Uuid) -> Result<(Head, Etag), ReadError> {
    let decode = |bytes: &[u8]| match Head::decode(sealer, bytes)? {
        head if head.drive == drive => Ok(head),
        _ => Err(FormatError::Invalid("it is another drive's HEAD")),
    };
    let (head, fetched) = map::read(store, &head::name(drive), None, decode).await?;
    Ok((head, fetched.etag))
}

/// Puts a root under a new name.
pub(crate) async fn put_root(store: &dyn Store, sealer: &Sealer, root: &Root) -> Result<Version, StoreError> {
    let id = ObjectId { drive: root.drive, epoch: root.epoch, seq: root.seq, unique: entropy::u128() };
    let name = id.name(ObjectKind::Root);
    let object = Bytes::from(root.seal(sealer, &name));
    let root_hash = *blake3::hash(&object).as_bytes();
    immutable::put(store, &name, object).await?;
    Ok(Version { root: id, root_hash, parent: root.parent })
}
