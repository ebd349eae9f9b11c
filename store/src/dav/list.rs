//! Listings, one collection at a time: many servers refuse `Depth: infinity`.

use super::client::DavClient;
use super::http::Request;
use super::multistatus::{self, QUERY};
use super::names::{self, Place};
use super::{DavStore, temporary};
use crate::{Listed, StoreError};
use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::header::{CONTENT_TYPE, DATE, HeaderName};
use reqwest::{Method, StatusCode};
use std::time::SystemTime;

/// Collections listed at the same time: enough to hide the round trips, few enough for small servers.
const AT_ONCE: usize = 8;
/// The longest answer to read: a few hundred thousand objects in one collection.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

pub(super) const DEPTH: HeaderName = HeaderName::from_static("depth");

/// The contents of one collection.
pub struct Listing {
    pub children: Vec<Child>,
    /// The time by the server's clock.
    pub now: Option<SystemTime>,
}

/// One object or collection in it.
pub struct Child {
    /// Its own name, the last part.
    pub name: String,
    pub is_collection: bool,
    pub len: Option<u64>,
    pub modified: Option<SystemTime>,
}

impl DavStore {
    pub(super) async fn list_all(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let top = prefix.rsplit_once('/').map_or("", |(collection, _)| collection);
        let mut found = Vec::new();
        let mut waiting = vec![top.to_owned()];
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(collection) = waiting.pop()
            {
                running.push(async move { (self.client.children(&collection).await, collection) });
            }
            let Some((listing, collection)) = running.next().await else { break };
            let Some(listing) = listing? else {
                // A missing collection is empty as long as the store is there. But collections are never removed: if one that was shown a
                // moment ago is missing, the listing would leave out everything in it.
                if collection != top {
                    let reason = format!(
                        "{} shows the collection {collection}, and then does not have it",
                        self.client.host()
                    );
                    return Err(StoreError::Unreachable { reason });
                }
                self.expect_here(prefix).await?;
                continue;
            };
            for child in listing.children {
                let name = names::join(&collection, &child.name);
                if !child.is_collection || self.names.is_claim(&name) {
                    let len = match child.len {
                        Some(len) => len,
                        None if child.is_collection => 0,
                        None => self.client.len_of(&name).await?,
                    };
                    found.push(Listed { name, len });
                } else if name != temporary::COLLECTION && may_hold(&name, prefix) {
                    waiting.push(name);
                }
            }
        }
        found.retain(|listed| listed.name.starts_with(prefix));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

impl DavClient {
    /// The contents of a collection; `None` if it does not exist.
    pub(crate) async fn children(&self, collection: &str) -> Result<Option<Listing>, StoreError> {
        let url = names::collection(self.base(), collection);
        let method = Method::from_bytes(b"PROPFIND").expect("it is a token");
        let request = Request { body: QUERY.into(), ..Request::new(method, url) };
        let request = request.with(DEPTH, "1").with(CONTENT_TYPE, "application/xml; charset=utf-8");
        let answer = self.send(&request).await?;
        match answer.status {
            StatusCode::MULTI_STATUS => {}
            StatusCode::NOT_FOUND => {
                answer.drain().await;
                return Ok(None);
            }
            StatusCode::OK => return Err(super::answer::page(self.host())),
            _ => return Err(answer.refusal(collection)),
        }
        let unreadable = |reason: &str| StoreError::Unreachable {
            reason: format!("{}'s listing cannot be read: {reason}", self.host()),
        };
        let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
        let now = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let (listed, len) = (answer.url.clone(), answer.content_length());
        let body = answer.read(0, ANSWER_BYTES_MAX + 1).await?;
        if body.len() as u64 > ANSWER_BYTES_MAX || len.is_some_and(|len| len != body.len() as u64) {
            return Err(unreadable("it has a wrong length"));
        }
        let text = std::str::from_utf8(&body).map_err(|_| unreadable("it is not UTF-8"))?;
        let mut children = Vec::new();
        for resource in multistatus::parse(text).map_err(|reason| unreadable(&reason))? {
            match names::place(&listed, &resource.href) {
                Place::Itself => {}
                Place::Child(name) => children.push(Child {
                    name,
                    is_collection: resource.is_collection,
                    len: resource.len,
                    modified: resource.modified,
                }),
                Place::Elsewhere => return Err(unreadable("it names objects of another place")),
            }
        }
        Ok(Some(Listing { children, now }))
    }
}

/// Whether objects in `collection` can have names that begin with `prefix`.
fn may_hold(collection: &str, prefix: &str) -> bool {
    let inside = format!("{collection}/");
    inside.starts_with(prefix) || prefix.starts_with(&inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_collections_that_can_match_are_listed() {
        for (collection, prefix) in
            [("abc", ""), ("abc", "ab"), ("abc", "abc/"), ("abc/0f", "abc/"), ("abc", "abc/0f/a")]
        {
            assert!(may_hold(collection, prefix), "{collection} {prefix}");
        }
        for (collection, prefix) in [("x", "abc/"), ("abc/0e", "abc/0f/a"), ("abcde", "abc/")] {
            assert!(!may_hold(collection, prefix), "{collection} {prefix}");
        }
    }
}
