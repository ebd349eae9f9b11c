//! Names for objects that are still on their way to theirs.
//!
//! They lie in a collection of their own, which no listing shows. What a program that died has left there is removed by
//! one that comes later, once it is a day old: no put takes that long. Both times are the server's.

use super::collections::{Made, begins};
use super::{DavStore, list::Child, names};
use crate::store::{StoreError, When};
use bytes::Bytes;
use std::time::Duration;

/// The collection.
pub const COLLECTION: &str = "tmp";
/// What is older was left behind.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How many are removed at once: the rest another time.
const SWEPT_AT_ONCE: usize = 16;

impl DavStore {
    /// Puts what is to become `target` under a name that nobody else uses, and says which.
    pub(super) async fn put_temporary(&self, target: &str, body: Bytes) -> Result<String, StoreError> {
        let made = self.make(COLLECTION, begins(target)).await?;
        if !self.collections.has_swept()
            && made == Made::Before
            && let Err(busy @ StoreError::Busy { .. }) = self.sweep().await
        {
            // It does not matter here whether that goes well, but that the server asks for patience does.
            return Err(busy);
        }
        let name = names::join(COLLECTION, &format!("{:032x}", crate::entropy::u128()));
        self.put_once(&name, body, &When::Always).await?;
        Ok(name)
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let Some(listing) = self.children(COLLECTION).await? else { return Ok(()) };
        let is_old = |child: &&Child| {
            let age = child.modified.zip(listing.now).and_then(|(then, now)| now.duration_since(then).ok());
            !child.is_collection && age.is_some_and(|age| age > AGE_MAX)
        };
        for child in listing.children.iter().filter(is_old).take(SWEPT_AT_ONCE) {
            crate::store::Store::delete(self, &names::join(COLLECTION, &child.name)).await?;
        }
        Ok(())
    }
}
