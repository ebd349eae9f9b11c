//! The store on a WebDAV server. [`DavClient`] is the connection and its requests; the store on top makes atomic puts and claims of them.
//!
//! Servers have little in common. A conditional PUT is atomic nowhere (servers ignore the condition, or check it and then write), and on
//! some servers a PUT that breaks off leaves half an object under its name. MOVE within a server is a rename. On nearly all servers, MKCOL
//! makes a collection for one client only. So:
//!
//! * **Objects** are put under a fresh name in the collection `tmp` and moved: two requests, one of them small. A PUT that breaks off, and
//!   that its server notices only minutes later, therefore never touches what another try has put since (some servers delete the object of
//!   a PUT that broke off). If a server cannot MOVE, the store puts the object directly and then asks for its length.
//! * **A condition** of a put decides nothing here; claims do. A *claim* is the collection of that name. Its maker, after the MKCOL, puts its
//!   nonce into the collection and lists it: the claim is its own only if no other nonce is there. Each maker puts first and looks then, so
//!   if a careless server told two of them "made", at most one sees itself alone. A maker that got no answer to its MKCOL owns the claim
//!   only if its nonce is there. A claim without a nonce belongs to nobody, and stays.
//! * LOCK is not used: many servers lack it, and a client that dies may hold it forever.
//!
//! Collections are made when they are first needed, and remembered. The base itself is made only for a store that begins, with what its
//! owner puts first: no new store may start in place of one that is gone, and while the store is gone nothing is "not found".
//!
//! Lengths are checked on every read. The content is the reader's to check.

pub(crate) mod answer;
mod auth;
mod challenge;
mod claim;
mod client;
mod collections;
mod delete;
mod digest;
mod facts;
pub mod http;
mod list;
mod multistatus;
pub(crate) mod names;
mod progress;
mod put;
pub(crate) mod read;
mod setup;
pub mod source;
mod temporary;
mod there;
mod trouble;

pub use client::DavClient;

use crate::connect::ConnectError;
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::names::{Grammar, Names};
use crate::pace::Pacer;
use crate::url::DavUrl;
use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, TOP_MAX, When};
use async_trait::async_trait;
use bytes::Bytes;
use collections::Collections;
use http::Limits;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// A collection of objects on a WebDAV server.
pub struct DavStore {
    client: DavClient,
    names: Names,
    collections: Collections,
    /// The server answered a MOVE as if it did not know the method.
    cannot_move: AtomicBool,
}

impl DavStore {
    /// The store at `url`, whose owner writes `names`. `pacer` paces its bodies and `meter` counts its requests. Nothing is contacted yet.
    pub fn new(
        url: &DavUrl,
        credentials: &Credentials,
        names: &'static dyn Grammar,
        limits: Limits,
        pacer: &Pacer,
        meter: &Meter,
    ) -> Result<Self, ConnectError> {
        let client = DavClient::new(url, credentials, limits, pacer, meter)?;
        let (names, collections) = (Names::new(names), Collections::default());
        Ok(Self { client, names, collections, cannot_move: AtomicBool::new(false) })
    }

    /// The meaning of a 404 for `name`: nothing is "not found" while the store itself is not there.
    async fn not_found(&self, name: &str) -> StoreError {
        match self.expect_here(name).await {
            Ok(()) => StoreError::NotFound { name: name.to_owned() },
            Err(error) => error,
        }
    }

    /// An error if the store is not there: its mark stands for all other objects. Objects that come before the mark may simply be missing.
    async fn expect_here(&self, name: &str) -> Result<(), StoreError> {
        if self.names.begins(name) {
            return Ok(());
        }
        match self.client.len_of(self.names.mark()).await {
            Err(StoreError::NotFound { .. }) => Err(self.no_store()),
            len => len.map(drop),
        }
    }

    /// The error if neither an object nor the mark is there.
    fn no_store(&self) -> StoreError {
        StoreError::NoPlace { place: format!("store at {}", self.client.base()) }
    }
}

#[async_trait]
impl Store for DavStore {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        match self.client.read(name, range).await {
            Err(StoreError::NotFound { .. }) => Err(self.not_found(name).await),
            read => read,
        }
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        match when {
            When::Matches(expected) => self.put_over(name, body, &expected).await,
            When::Absent | When::Always => self.put_aside(name, body, when).await,
        }
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        match self.client.len_of(name).await {
            Err(StoreError::NotFound { .. }) => Err(self.not_found(name).await),
            len => len,
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.list_all(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        match self.client.delete(name, self.names.is_claim(name)).await? {
            true => Ok(()),
            false => self.expect_here(name).await,
        }
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.claim_collection(name, nonce).await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        let listing = self.client.children("").await?;
        let children = listing.into_iter().flat_map(|listing| listing.children).take(TOP_MAX);
        Ok(children.map(|child| if child.is_collection { child.name + "/" } else { child.name }).collect())
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.client.facts().await
    }
}
