//! What a WebDAV server tells about itself.

use super::http::Request;
use super::list::DEPTH;
use super::multistatus::{self, QUOTA_QUERY};
use super::{DavStore, names};
use crate::store::{Facts, StoreError, facts};
use reqwest::header::{CONTENT_TYPE, DATE};
use reqwest::{Method, StatusCode};
use std::time::UNIX_EPOCH;

/// One resource takes some hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

impl DavStore {
    /// Asks once. A server that does not say what it is asked leaves it open.
    pub(super) async fn ask_facts(&self) -> Result<Facts, StoreError> {
        let url = names::collection(self.http.base(), "");
        let method = Method::from_bytes(b"PROPFIND").expect("it is a token");
        let request = Request { body: QUOTA_QUERY.into(), ..Request::new(method, url) };
        let request = request.with(DEPTH, "0").with(CONTENT_TYPE, "application/xml; charset=utf-8");
        let answer = self.http.send(&request).await?;
        let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let date = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        let mut facts = Facts {
            tls: (self.http.base().scheme() == "https").then(|| facts::TLS.to_owned()),
            date_ms: date.map(|date| date.as_millis() as u64),
            free_bytes: None,
            never_swaps: true,
        };
        match answer.status {
            StatusCode::MULTI_STATUS => {
                let body = answer.read(0, ANSWER_BYTES_MAX).await?;
                let found = multistatus::parse(&String::from_utf8_lossy(&body)).unwrap_or_default();
                facts.free_bytes = found.first().and_then(|resource| resource.free_bytes);
                Ok(facts)
            }
            // It is made with the family.
            StatusCode::NOT_FOUND => {
                answer.drain().await;
                Ok(facts)
            }
            StatusCode::OK => Err(super::answer::page(self.http.host())),
            _ => Err(answer.refusal("")),
        }
    }
}
