//! Collections: made when they are first needed, and remembered.

use super::http::Request;
use super::{DavStore, names};
use crate::format::family;
use crate::store::{StoreError, probe};
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Names have four parts at most; a server that goes on asking for more is given up.
const STEPS_MAX: usize = 12;

/// The collections that are known to be there.
#[derive(Default)]
pub struct Collections {
    /// Shared by all requests; held for a look-up only.
    known: Mutex<BTreeSet<String>>,
    /// Whether what others left behind has been looked for.
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

    /// It is there.
    pub fn remember(&self, name: &str) {
        self.known.lock().insert(name.to_owned());
    }

    /// Forgets what holds `name`: somebody has removed some of it.
    pub fn forget(&self, name: &str) {
        let mut known = self.known.lock();
        let mut name = name;
        while let Some(parent) = names::parent(name) {
            known.remove(parent);
            name = parent;
        }
    }
}

/// How a MKCOL went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// By this very request.
    New,
    /// It was there.
    Before,
    /// What should hold it is not there.
    NoParent,
}

impl DavStore {
    /// Sees to it that the collection that holds `name` is there; the base itself only if a family is to be made.
    pub(super) async fn make_parent(&self, name: &str) -> Result<Made, StoreError> {
        let parent = names::parent(name).unwrap_or_default();
        self.make(parent, begins(name)).await
    }

    /// Makes a collection and what it lies in. Says how it found it; `Before` where it is known already.
    pub(super) async fn make(&self, collection: &str, may_begin: bool) -> Result<Made, StoreError> {
        // The base counts as there, unless the server says that something cannot be made in it.
        if collection.is_empty() || self.collections.knows(collection) {
            return Ok(Made::Before);
        }
        // The last is what is asked for next.
        let mut open = vec![collection];
        let mut made = Made::Before;
        for _ in 0..STEPS_MAX {
            let Some(&next) = open.last() else { return Ok(made) };
            made = self.mkcol(next).await?;
            if made == Made::NoParent {
                match names::parent(next) {
                    Some("") if !may_begin => return Err(self.no_store()),
                    Some(parent) => open.push(parent),
                    None => {
                        let place = format!("collection that could hold {}", self.http.base());
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

    /// One MKCOL.
    pub(super) async fn mkcol(&self, collection: &str) -> Result<Made, StoreError> {
        let url = names::collection(self.http.base(), collection);
        let method = Method::from_bytes(b"MKCOL").expect("it is a token");
        let answer = self.http.send(&Request::new(method, url)).await?;
        let made = match answer.status {
            StatusCode::CREATED => Made::New,
            StatusCode::METHOD_NOT_ALLOWED => Made::Before,
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => Made::NoParent,
            // Apache's word to some of those who make it at the same time.
            StatusCode::FORBIDDEN if self.children(collection).await?.is_some() => Made::Before,
            _ => return Err(answer.refusal(collection)),
        };
        answer.drain().await;
        Ok(made)
    }
}

/// Whether a store begins with it: its family, the claims to make that, or what finds out about the server before.
pub fn begins(name: &str) -> bool {
    name == family::NAME
        || name.starts_with(probe::AREA)
        || name == "claim/family"
        || name.starts_with("claim/family/")
}
