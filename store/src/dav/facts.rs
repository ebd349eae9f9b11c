//! Facts that a WebDAV server states about itself.

use super::client::DavClient;
use super::http::Request;
use super::list::DEPTH;
use super::multistatus::{self, QUOTA_QUERY};
use super::names;
use crate::{Facts, StoreError, facts};
use reqwest::header::{CONTENT_TYPE, DATE};
use reqwest::{Method, StatusCode};
use std::time::UNIX_EPOCH;
use url::Url;

/// One resource takes a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

impl DavClient {
    /// Asks once. If the collection is yet to be made, this asks its parent for the free space. A server that does
    /// not answer the question leaves the fact unknown.
    pub(crate) async fn facts(&self) -> Result<Facts, StoreError> {
        let url = names::collection(self.base(), "");
        let above = url.join("..").ok().filter(|above| *above != url);
        let (mut facts, is_there) = self.ask_facts_at(url).await?;
        if !is_there
            && let Some(above) = above
            && let Ok((parent, _)) = self.ask_facts_at(above).await
        {
            facts.free_bytes = parent.free_bytes;
        }
        Ok(facts)
    }

    /// The server's facts about the collection at `url`, and whether that exists.
    async fn ask_facts_at(&self, url: Url) -> Result<(Facts, bool), StoreError> {
        let method = Method::from_bytes(b"PROPFIND").expect("it is a token");
        let request = Request { body: QUOTA_QUERY.into(), ..Request::new(method, url) };
        let request = request.with(DEPTH, "0").with(CONTENT_TYPE, "application/xml; charset=utf-8");
        let answer = self.send(&request).await?;
        let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let date = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        let mut facts = Facts {
            tls: (self.base().scheme() == "https").then(|| facts::TLS.to_owned()),
            date_ms: date.map(|date| date.as_millis() as u64),
            free_bytes: None,
            never_swaps: true,
            lists_whole: false,
        };
        match answer.status {
            StatusCode::MULTI_STATUS => {
                let body = answer.read(0, ANSWER_BYTES_MAX).await?;
                let found = multistatus::parse(&String::from_utf8_lossy(&body)).unwrap_or_default();
                facts.free_bytes = found.first().and_then(|resource| resource.free_bytes);
                Ok((facts, true))
            }
            StatusCode::NOT_FOUND => {
                answer.drain().await;
                Ok((facts, false))
            }
            StatusCode::OK => Err(super::answer::page(self.host())),
            _ => Err(answer.refusal("")),
        }
    }
}
