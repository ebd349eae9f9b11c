//! Collections: made when they are first needed, and remembered.

use super::client::DavClient;
use super::http::Request;
use super::there::{There, Verdict, verdict};
use super::{DavStore, names};
use crate::StoreError;
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Names have four parts at most; a server that keeps asking for more collections gets an error.
const STEPS_MAX: usize = 12;

/// The collections that are known to exist.
#[derive(Default)]
pub struct Collections {
    /// Shared by all requests; held only for a look-up.
    known: Mutex<BTreeSet<String>>,
    /// Whether leftovers of other processes have been swept.
    swept: AtomicBool,
}

impl Collections {
    fn knows(&self, name: &str) -> bool {
        self.known.lock().contains(name)
    }

    /// True from the second call on.
    pub fn has_swept(&self) -> bool {
        self.swept.swap(true, Relaxed)
    }

    /// Notes that the collection exists.
    pub fn remember(&self, name: &str) {
        self.known.lock().insert(name.to_owned());
    }

    /// Forgets the collections that hold `name`: one of them was removed.
    pub fn forget(&self, name: &str) {
        let mut known = self.known.lock();
        let mut name = name;
        while let Some(parent) = names::parent(name) {
            known.remove(parent);
            name = parent;
        }
    }
}

/// The result of a MKCOL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// This very request made it.
    New,
    /// It existed.
    Before,
    /// Its parent does not exist.
    NoParent,
}

impl DavStore {
    /// Makes sure that the collection that holds `name` exists. Makes the base itself only for a store that begins.
    pub(super) async fn make_parent(&self, name: &str) -> Result<Made, StoreError> {
        let parent = names::parent(name).unwrap_or_default();
        self.make(parent, self.names.begins(name)).await
    }

    /// Makes a collection and its parents. Returns how it found the collection; `Before` if it was known already.
    pub(super) async fn make(&self, collection: &str, may_begin: bool) -> Result<Made, StoreError> {
        // The base counts as existing, unless the server says that nothing can be made in it.
        if collection.is_empty() || self.collections.knows(collection) {
            return Ok(Made::Before);
        }
        // The last one is requested next.
        let mut open = vec![collection];
        let mut made = Made::Before;
        let mut has_parent = false;
        for _ in 0..STEPS_MAX {
            let Some(&next) = open.last() else { return Ok(made) };
            made = self.client.mkcol(next, has_parent).await?;
            has_parent = made != Made::NoParent;
            if made == Made::NoParent {
                match names::parent(next) {
                    // Some servers say this about an existing collection too.
                    Some("") if !may_begin && self.client.there(next).await == There::Collection => {
                        (made, has_parent) = (Made::Before, true);
                        self.collections.remember(next);
                        open.pop();
                    }
                    Some("") if !may_begin => return Err(self.no_store()),
                    Some(parent) => open.push(parent),
                    None => {
                        let place = format!("collection that could hold {}", self.client.base());
                        return Err(StoreError::NoPlace { place });
                    }
                }
            } else {
                self.collections.remember(next);
                open.pop();
            }
        }
        match open.is_empty() {
            true => Ok(made),
            false => Err(self.no_store()),
        }
    }
}

impl DavClient {
    /// One MKCOL. If the status leaves open what exists, this looks before it returns a refusal. It believes that the parent is missing,
    /// unless the parent is known to exist.
    pub(crate) async fn mkcol(&self, collection: &str, has_parent: bool) -> Result<Made, StoreError> {
        let url = names::collection(self.base(), collection);
        let method = Method::from_bytes(b"MKCOL").expect("it is a token");
        let answer = self.send(&Request::new(method, url)).await?;
        let status = answer.status.as_u16();
        let said = match verdict(status, has_parent, None) {
            Verdict::Look => verdict(status, has_parent, Some(self.there(collection).await)),
            said => said,
        };
        let made = match said {
            Verdict::New => Made::New,
            Verdict::Before => Made::Before,
            Verdict::NoParent => Made::NoParent,
            Verdict::Refused | Verdict::Look => return Err(answer.refusal(collection)),
        };
        answer.drain().await;
        Ok(made)
    }

    /// The resource at a collection's address, as far as the server says.
    pub(super) async fn there(&self, collection: &str) -> There {
        match self.children(collection).await {
            Ok(Some(_)) => return There::Collection,
            Ok(None) => return There::Nothing,
            Err(_) => {}
        }
        let url = names::collection(self.base(), collection);
        match self.send(&Request::new(Method::HEAD, url)).await {
            Ok(answer) if answer.status.is_success() => There::Collection,
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => There::Nothing,
            Ok(_) | Err(_) => There::Unknown,
        }
    }
}
