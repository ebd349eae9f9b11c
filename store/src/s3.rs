//! Stores that speak S3: objects of one bucket, or of a part of it.
//!
//! `client` is the connection and its requests. The store on top decides only which names a look may stand in for a condition.

pub(crate) mod body;
pub(crate) mod client;
mod http;
mod keys;
pub(crate) mod limits;
mod list;
pub(crate) mod meaning;
mod profile;
mod put;
mod put_form;
mod read;
mod road;
mod setup;
mod silence;
mod transport;

pub use limits::Limits;

use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::names::{Grammar, Names};
use crate::pace::Pacer;
use crate::url::S3Url;
use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, TOP_MAX, When};
use async_trait::async_trait;
use bytes::Bytes;
use client::S3Client;
use list::Wanted;
use std::ops::Range;

/// A bucket, or part of it.
pub struct S3Store {
    client: S3Client,
    names: Names,
}

impl S3Store {
    /// The store at `url`, whose owner writes `names`. `pacer` paces its bodies and `meter` counts its requests. Nothing is contacted yet.
    /// The error says what is wrong with the credentials or certificates.
    pub fn new(
        url: &S3Url,
        credentials: &Credentials,
        names: &'static dyn Grammar,
        limits: Limits,
        pacer: &Pacer,
        meter: &Meter,
    ) -> Result<Self, String> {
        let client = S3Client::new(url, credentials, limits, pacer, meter)?;
        Ok(Self { client, names: Names::new(names) })
    }
}

#[async_trait]
impl Store for S3Store {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.client.read(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.client.put(name, body, &when, !self.names.is_swapped(name)).await
    }

    fn heeds_conditions(&self) -> bool {
        self.client.heeds_conditions()
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.client.len(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let strange = || self.client.unreachable("gives a listing that does not go on");
        let mut listed = Vec::new();
        let mut wanted = Wanted::all(prefix);
        loop {
            let page = self.client.page(&wanted).await?;
            for object in page.objects {
                let len = object.len.ok_or_else(strange)?;
                listed.push(Listed { name: object.name, len });
            }
            if page.is_last {
                return Ok(listed);
            }
            let next = page.next.filter(|next| wanted.from.as_ref() != Some(next));
            wanted.from = Some(next.ok_or_else(strange)?);
        }
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.client.delete(name).await
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        let wanted = Wanted { by_directory: true, most: Some(TOP_MAX as u16), ..Wanted::all("") };
        let page = self.client.page(&wanted).await?;
        let objects = page.objects.into_iter().map(|object| object.name);
        Ok(page.directories.into_iter().chain(objects).collect())
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.client.facts().await
    }
}
