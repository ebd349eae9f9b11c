//! Collections: made when they are first needed, and remembered.

use super::http::Request;
use super::there::{There, Verdict, verdict};
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
        let mut has_parent = false;
        for _ in 0..STEPS_MAX {
            let Some(&next) = open.last() else { return Ok(made) };
            made = self.mkcol(next, has_parent).await?;
            has_parent = made != Made::NoParent;
            if made == Made::NoParent {
                match names::parent(next) {
                    // Said of what is there, too.
                    Some("") if !may_begin && self.there(next).await == There::Collection => {
                        (made, has_parent) = (Made::Before, true);
                        self.collections.remember(next);
                        open.pop();
                    }
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

    /// One MKCOL. Where its status leaves open what is there, that is looked at before anything is refused; that what should hold it is
    /// missing is believed, unless it is known to be there.
    pub(super) async fn mkcol(&self, collection: &str, has_parent: bool) -> Result<Made, StoreError> {
        let url = names::collection(self.http.base(), collection);
        let method = Method::from_bytes(b"MKCOL").expect("it is a token");
        let answer = self.http.send(&Request::new(method, url)).await?;
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

    /// What is at a collection's address, as far as the server says it in one way or the other.
    async fn there(&self, collection: &str) -> There {
        match self.children(collection).await {
            Ok(Some(_)) => return There::Collection,
            Ok(None) => return There::Nothing,
            Err(_) => {}
        }
        let url = names::collection(self.http.base(), collection);
        match self.http.send(&Request::new(Method::HEAD, url)).await {
            Ok(answer) if answer.status.is_success() => There::Collection,
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => There::Nothing,
            Ok(_) | Err(_) => There::Unknown,
        }
    }
}

/// Whether a store begins with it: its family, the claims to make that, or what finds out about the server before.
pub fn begins(name: &str) -> bool {
    name == family::NAME
        || name.starts_with(probe::AREA)
        || name == "claim/family"
        || name.starts_with("claim/family/")
}
