//! Putting objects: straight to their name, or under a temporary name and moved. [`super`] says which and why.

use super::client::DavClient;
use super::collections::Made;
use super::http::{Answer, Request};
use super::read::etag;
use super::{DavStore, names};
use crate::{Etag, StoreError, When};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use std::sync::atomic::Ordering::Relaxed;

const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");

/// How a MOVE went.
pub(crate) enum Moved {
    Done,
    /// The server cannot MOVE.
    Unknown,
    /// Perhaps because the target's collection does not exist.
    NoParent(StoreError),
}

impl DavStore {
    /// A PUT to a temporary name, and a MOVE to the real one.
    pub(super) async fn put_aside(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.make_parent(name).await?;
        if self.cannot_move.load(Relaxed) {
            return self.put_and_look(name, body, &when).await;
        }
        let temporary = self.put_temporary(name, body.clone()).await?;
        let moved = match self.client.move_to(&temporary, name, &when).await {
            Ok(Moved::NoParent(error)) => {
                self.collections.forget(name);
                match self.make_parent(name).await? {
                    Made::New => self.client.move_to(&temporary, name, &when).await,
                    Made::Before | Made::NoParent => Err(error),
                }
            }
            moved => moved,
        };
        // A temporary object that stays is swept one day, so do not ask a server that asks to wait to delete it.
        if !matches!(moved, Ok(Moved::Done) | Err(StoreError::Busy { .. })) {
            let _ = self.client.delete(&temporary, false).await;
        }
        match moved? {
            Moved::Done => Ok(Etag(String::new())),
            Moved::NoParent(error) => Err(error),
            Moved::Unknown => {
                self.cannot_move.store(true, Relaxed);
                self.put_and_look(name, body, &when).await
            }
        }
    }

    /// A PUT over a known version. No server does that atomically; claims serve where it matters.
    pub(super) async fn put_over(
        &self,
        name: &str,
        body: Bytes,
        expected: &Etag,
    ) -> Result<Etag, StoreError> {
        if expected.0.is_empty() || self.client.version_of(name).await?.as_ref() != Some(expected) {
            return Err(lost(name));
        }
        self.put_once(name, body, &When::Matches(expected.clone())).await
    }

    async fn put_and_look(&self, name: &str, body: Bytes, when: &When) -> Result<Etag, StoreError> {
        let len = body.len() as u64;
        let etag = self.put_once(name, body, when).await?;
        let found = match self.client.len_of(name).await {
            Ok(found) if found == len => return Ok(etag),
            Err(StoreError::NotFound { .. }) => 0,
            found => found?,
        };
        let reason = format!("{} has kept {found} of {len} bytes of {name}", self.client.host());
        Err(StoreError::Unreachable { reason })
    }

    /// A PUT to `name`. Makes the object's collection if it is missing.
    pub(super) async fn put_once(&self, name: &str, body: Bytes, when: &When) -> Result<Etag, StoreError> {
        self.make_parent(name).await?;
        let answer = self.client.send_put(name, body.clone(), when).await?;
        // For a missing collection, nginx reports an internal error.
        let answer = match answer.status {
            StatusCode::CONFLICT | StatusCode::NOT_FOUND | StatusCode::INTERNAL_SERVER_ERROR => {
                self.collections.forget(name);
                match self.make_parent(name).await? {
                    Made::New => self.client.send_put(name, body, when).await?,
                    Made::Before | Made::NoParent => answer,
                }
            }
            _ => answer,
        };
        match answer.status {
            StatusCode::CREATED | StatusCode::NO_CONTENT => {}
            // A proxy or login page that answers for the server says OK too.
            StatusCode::OK if !super::answer::is_page(&answer.headers) => {}
            StatusCode::OK => return Err(super::answer::page(self.client.host())),
            StatusCode::NOT_FOUND => return Err(no_parent(self.client.host(), name)),
            StatusCode::PRECONDITION_FAILED if *when != When::Always => return Err(lost(name)),
            _ => return Err(answer.refusal(name)),
        }
        let etag = etag(&answer.headers);
        answer.drain().await;
        Ok(etag)
    }
}

impl DavClient {
    /// One PUT.
    pub(crate) async fn send_put(&self, name: &str, body: Bytes, when: &When) -> Result<Answer, StoreError> {
        let url = names::object(self.base(), name);
        let request = Request { body, ..Request::new(Method::PUT, url) };
        let request = request.with(CONTENT_TYPE, "application/octet-stream");
        self.send(&match when {
            When::Always => request,
            When::Absent => request.with(IF_NONE_MATCH, "*"),
            When::Matches(version) => request.with(IF_MATCH, &version.0),
        })
        .await
    }

    /// A MOVE, which replaces what has the new name unless `when` forbids it.
    pub(crate) async fn move_to(
        &self,
        temporary: &str,
        name: &str,
        when: &When,
    ) -> Result<Moved, StoreError> {
        let base = self.base();
        let (from, to) = (names::object(base, temporary), names::object(base, name));
        let overwrite = if *when == When::Absent { "F" } else { "T" };
        let method = Method::from_bytes(b"MOVE").expect("it is a token");
        // Apache needs the whole address. A server behind another one does not know under which address it was asked, and may need the path
        // alone.
        for destination in [to.as_str(), to.path()] {
            let request = Request::new(method.clone(), from.clone());
            let request = request.with(DESTINATION, destination).with(OVERWRITE, overwrite);
            let answer = self.send(&request).await?;
            match answer.status {
                StatusCode::CREATED | StatusCode::NO_CONTENT => {
                    answer.drain().await;
                    return Ok(Moved::Done);
                }
                StatusCode::PRECONDITION_FAILED if *when == When::Absent => return Err(lost(name)),
                StatusCode::BAD_GATEWAY if destination != to.as_str() => return Err(answer.refusal(name)),
                StatusCode::BAD_REQUEST | StatusCode::BAD_GATEWAY => answer.drain().await,
                StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => return Ok(Moved::Unknown),
                StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
                    return Ok(Moved::NoParent(no_parent(self.host(), name)));
                }
                // Apache's status for a missing collection.
                StatusCode::INTERNAL_SERVER_ERROR => return Ok(Moved::NoParent(answer.refusal(name))),
                _ => return Err(answer.refusal(name)),
            }
        }
        Ok(Moved::Unknown)
    }
}

/// The condition of a put did not hold.
fn lost(name: &str) -> StoreError {
    StoreError::Precondition { name: name.to_owned() }
}

fn no_parent(host: &str, name: &str) -> StoreError {
    StoreError::Unreachable { reason: format!("{host} has no collection for {name}") }
}
