//! Temporary names for objects on the way to their real ones.
//!
//! They lie in their own collection, which no listing shows. Objects that a dead program left there are removed by a later one once they
//! are a day old: no put takes that long. Both times are the server's.

use super::collections::Made;
use super::{DavStore, list::Child, names};
use crate::{StoreError, When};
use bytes::Bytes;
use std::time::Duration;

/// The collection.
pub const COLLECTION: &str = "tmp";
/// Older objects were left behind.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How many to remove at once; the rest is for another time.
const SWEPT_AT_ONCE: usize = 16;

impl DavStore {
    /// Puts the future `target` under a fresh name, and returns that name.
    pub(super) async fn put_temporary(&self, target: &str, body: Bytes) -> Result<String, StoreError> {
        let made = self.make(COLLECTION, self.names.begins(target)).await?;
        if !self.collections.has_swept()
            && made == Made::Before
            && let Err(busy @ StoreError::Busy { .. }) = self.sweep().await
        {
            // The sweep itself may fail, but a server that asks to wait must be left alone.
            return Err(busy);
        }
        let name = names::join(COLLECTION, &format!("{:032x}", crate::entropy::u128()));
        self.put_once(&name, body, &When::Always).await?;
        Ok(name)
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let Some(listing) = self.client.children(COLLECTION).await? else { return Ok(()) };
        let is_old = |child: &&Child| {
            let age = child.modified.zip(listing.now).and_then(|(then, now)| now.duration_since(then).ok());
            !child.is_collection && age.is_some_and(|age| age > AGE_MAX)
        };
        for child in listing.children.iter().filter(is_old).take(SWEPT_AT_ONCE) {
            crate::Store::delete(self, &names::join(COLLECTION, &child.name)).await?;
        }
        Ok(())
    }
}
