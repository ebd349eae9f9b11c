//! A request to a WebDAV server, its answer, and how long both may take.

use super::answer;
use super::source::Source;
use crate::StoreError;
use crate::meter::{Kind, Meter};
use crate::pace::{Gate, HeldUp};
use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;

/// How much of an unwanted body to read, to keep the connection.
const UNWANTED_BYTES: u64 = 64 << 10;

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time until there is a connection.
    pub connect: Duration,
    /// Time without a byte in either direction.
    pub idle: Duration,
    /// Time in all, apart from the body's.
    pub total: Duration,
    /// The slowest allowed body, in bytes per second: a modem's 128 kbit/s.
    pub slowest: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let [connect, idle, total] = [10, 20, 60].map(Duration::from_secs);
        Self { connect, idle, total, slowest: 16 << 10 }
    }
}

impl Limits {
    pub(super) fn with_body(&self, bytes: u64) -> Duration {
        self.total + Duration::from_secs(bytes / self.slowest)
    }
}

/// A request.
pub struct Request {
    /// The verb.
    pub method: Method,
    /// The address.
    pub url: Url,
    /// Headers besides those that every request has.
    pub headers: HeaderMap,
    /// May be empty.
    pub body: Bytes,
    /// A body that is read while it is sent, in place of `body`.
    pub source: Option<Source>,
    /// The request has another effect the second time, so it is not repeated when the server closes the connection.
    pub once: bool,
}

impl Request {
    /// A request without a body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), source: None, once: false }
    }

    /// The body's length in bytes.
    pub fn body_len(&self) -> u64 {
        self.source.as_ref().map_or(self.body.len() as u64, Source::len)
    }

    /// The same with a header. A value that cannot be sent is left out.
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// An answer whose body is still to be read.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its address, after redirects.
    pub url: Url,
    pub(super) response: reqwest::Response,
    pub(super) begun: Instant,
    pub(super) limits: Limits,
    pub(super) held_up: HeldUp,
    pub(super) gate: Gate,
    pub(super) meter: Meter,
    pub(super) kind: Kind,
    pub(super) host: String,
}

impl Answer {
    /// The body's length, if the server says it.
    pub fn content_length(&self) -> Option<u64> {
        self.headers.get(reqwest::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    /// The meaning of its status for `name`.
    pub fn refusal(&self, name: &str) -> StoreError {
        answer::refusal(self.status, &self.headers, &self.host, name)
    }

    /// An error if the answer is a web page: no object in a store is one.
    pub fn no_page(self) -> Result<Self, StoreError> {
        if answer::is_page(&self.headers) { Err(answer::page(&self.host)) } else { Ok(self) }
    }

    /// At most `most` bytes of the body, starting at byte `skip`. Fewer if it ends before.
    pub async fn read(mut self, skip: u64, most: u64) -> Result<Bytes, StoreError> {
        let expected = self.content_length().unwrap_or(0).min(skip + most);
        let mut bytes = BytesMut::with_capacity(expected.saturating_sub(skip).min(16 << 20) as usize);
        let mut place = 0;
        while (bytes.len() as u64) < most {
            let Some(piece) = self.piece(expected.max(place)).await? else { break };
            let from = skip.saturating_sub(place).min(piece.len() as u64) as usize;
            let to = (skip + most - place).min(piece.len() as u64) as usize;
            bytes.extend_from_slice(&piece[from..to]);
            place += piece.len() as u64;
        }
        let is_all = self.content_length() == Some(place);
        if is_all {
            // The body has ended, so read its end too: then the connection serves the next request.
            let _ = self.piece(place).await;
        }
        Ok(bytes.freeze())
    }

    /// Reads a body that nobody needs, to keep the connection. A long body is not read to its end, which closes the connection.
    pub async fn drain(mut self) {
        let mut place = 0;
        while place <= UNWANTED_BYTES
            && let Ok(Some(piece)) = self.piece(UNWANTED_BYTES).await
        {
            place += piece.len() as u64;
        }
    }

    /// The body piece by piece, of which more than `most` bytes are an error.
    pub(crate) fn pieces(self, most: u64) -> Pieces {
        Pieces { expected: self.content_length(), answer: self, place: 0, most }
    }

    async fn piece(&mut self, expected: u64) -> Result<Option<Bytes>, StoreError> {
        let unreachable = |reason: String| StoreError::Unreachable { reason };
        let end = self.begun + self.limits.with_body(expected) + self.held_up.so_far();
        let now = Instant::now();
        let silent = now + self.limits.idle;
        match timeout_at(silent.min(end), self.response.chunk()).await {
            Ok(Ok(piece)) => {
                let bytes = piece.as_ref().map_or(0, Bytes::len);
                self.meter.received(self.kind, bytes);
                self.gate.turn(bytes).await;
                Ok(piece)
            }
            Ok(Err(_)) => {
                Err(unreachable(format!("{} closed the connection in the middle of its answer", self.host)))
            }
            Err(_) if end < silent => Err(unreachable(format!("{} is too slow", self.host))),
            Err(_) => Err(unreachable(format!("{} fell silent in the middle of its answer", self.host))),
        }
    }
}

/// A body on its way.
pub(crate) struct Pieces {
    answer: Answer,
    expected: Option<u64>,
    place: u64,
    most: u64,
}

impl Pieces {
    /// The next piece; `None` at the end. A body of another length than its head says is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let unreachable =
            |host: &str, what: &str| Err(StoreError::Unreachable { reason: format!("{host} {what}") });
        let expected = self.expected.unwrap_or(0).min(self.most).max(self.place);
        let piece = self.answer.piece(expected).await?;
        self.place += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        match piece {
            _ if self.place > self.most => unreachable(&self.answer.host, "sends an answer without an end"),
            None if self.expected.is_some_and(|expected| expected != self.place) => {
                unreachable(&self.answer.host, "cuts its answer short")
            }
            piece => Ok(piece),
        }
    }
}
