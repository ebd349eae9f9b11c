//! Claims: a collection made by one client, with its nonce in it. [`super`] argues why a claim has one owner.

use super::DavStore;
use super::collections::Made;
use crate::{StoreError, When};
use bytes::Bytes;

impl DavStore {
    pub(super) async fn claim_collection(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.make_parent(name).await?;
        let mut made = self.client.mkcol(name, false).await?;
        if made == Made::NoParent {
            self.collections.forget(name);
            self.make_parent(name).await?;
            made = self.client.mkcol(name, true).await?;
        }
        let nonce = format!("{nonce:032x}");
        match made {
            Made::New => {
                self.collections.remember(name);
                let body = Bytes::copy_from_slice(nonce.as_bytes());
                self.put_once(&format!("{name}/{nonce}"), body, &When::Always).await?;
            }
            Made::Before => {}
            Made::NoParent => {
                let reason = format!("{} has no collection for {name}", self.client.host());
                return Err(StoreError::Unreachable { reason });
            }
        }
        let Some(listing) = self.client.children(name).await? else {
            let reason = format!("{} does not show at once what was made on it", self.client.host());
            return Err(StoreError::Unreachable { reason });
        };
        let mut nonces =
            listing.children.iter().filter(|child| !child.is_collection).map(|child| &child.name);
        Ok(nonces.next() == Some(&nonce) && nonces.next().is_none())
    }
}
