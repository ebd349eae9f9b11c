//! Stores that speak S3.
//!
//! Nothing is retried, and only what the server says counts: a put without an answer is unreachable, an object is missing only if the
//! server says so in S3's own words, and a body has the length that was asked for.

mod body;
mod http;
mod keys;
mod limits;
mod meaning;
mod profile;
mod put;
mod road;
mod setup;
mod silence;
mod transport;

pub use limits::Limits;

use self::body::{Part, Unfit};
use self::http::ServerClock;
use self::meaning::{Asked, Refusal, Verb};
use self::put::Way;
use crate::credentials::Credentials;
use crate::facts;
use crate::meter::Meter;
use crate::names::{Grammar, Names};
use crate::pace::{HeldUp, Pacer};
use crate::url::S3Url;
use crate::{Etag, Facts, Fetched, Listed, Store, StoreError, TOP_MAX, When};
use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::{ByteStream, DateTime, DateTimeFormat, SdkBody};
use bytes::{Bytes, BytesMut};
use data_encoding::BASE64;
use md5::{Digest, Md5};
use parking_lot::Mutex;
use std::error::Error;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

/// For one page of a listing: 1,000 names of at most 1 KiB, in XML.
const PAGE_BYTES: u64 = 2 << 20;

/// Memory that is reserved on the server's word alone: more than most objects have.
const RESERVED_BYTES_MAX: u64 = 8 << 20;

/// A bucket, or part of it.
pub struct S3Store {
    client: Client,
    names: Names,
    clock: ServerClock,
    /// How puts are sent. Held to read or note it.
    way: Mutex<Way>,
    bucket: String,
    /// With a `/` at its end, or empty.
    prefix: String,
    /// The server, as a person knows it.
    host: String,
    tls: bool,
    limits: Limits,
}

impl S3Store {
    /// The store at `url`, whose owner writes `names`. `pacer` paces its bodies and `meter` counts its requests. Nothing is contacted yet. The error says what is wrong
    /// with the credentials or certificates.
    pub fn new(
        url: &S3Url,
        credentials: &Credentials,
        names: &'static dyn Grammar,
        limits: Limits,
        pacer: &Pacer,
        meter: &Meter,
    ) -> Result<Self, String> {
        let host = match &url.endpoint {
            Some(endpoint) => endpoint.authority().to_owned(),
            None => "Amazon S3".into(),
        };
        let prefix = if url.prefix.is_empty() { String::new() } else { format!("{}/", url.prefix) };
        let clock = ServerClock::default();
        Ok(Self {
            client: setup::client(url, credentials, limits, (pacer, meter), clock.clone())?,
            clock,
            names: Names::new(names),
            way: Mutex::new(Way::USUAL),
            bucket: url.bucket.clone(),
            prefix,
            host,
            tls: url.endpoint.as_ref().is_none_or(|endpoint| endpoint.scheme() == "https"),
            limits,
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Whether errors need no hint about TLS: the store uses TLS, or has answered without.
    fn is_right_scheme(&self) -> bool {
        self.tls || self.clock.load(Relaxed) > 0
    }

    fn unreachable(&self, what: &str) -> StoreError {
        StoreError::Unreachable { reason: format!("{} {what}", self.host) }
    }

    /// Ends a request that takes longer than the slowest connection needs for `bytes` bytes.
    async fn within<T>(&self, bytes: u64, request: impl Future<Output = T>) -> Result<T, StoreError> {
        self.part_within(&HeldUp::default(), bytes, request).await
    }

    /// The same for one part of a request.
    async fn part_within<T>(
        &self,
        held_up: &HeldUp,
        bytes: u64,
        part: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let limit = self.limits.whole(bytes);
        let late = || self.unreachable(&format!("was not done within {} s", limit.as_secs_f64()));
        held_up.within(limit, part).await.ok_or_else(late)
    }

    /// The meaning of an error of the SDK. The SDK's own words may contain anything and are not repeated.
    fn explain<E>(&self, verb: Verb, name: &str, error: &SdkError<E, HttpResponse>) -> StoreError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let asked = Asked { verb, name, bucket: &self.bucket, host: &self.host };
        match error {
            SdkError::ServiceError(context) => {
                asked.meaning(&self.refusal(context.err().code(), context.raw()))
            }
            SdkError::ResponseError(context) if !context.raw().status().is_success() => {
                asked.meaning(&self.refusal(None, context.raw()))
            }
            SdkError::ResponseError(_) => match transport::known(error, &self.host, self.is_right_scheme()) {
                Some(reason) => StoreError::Unreachable { reason },
                None => self.unreachable("does not answer as an S3 server does"),
            },
            error => StoreError::Unreachable {
                reason: transport::reason(error, &self.host, self.is_right_scheme()),
            },
        }
    }

    fn refusal<'a>(&self, code: Option<&'a str>, answer: &'a HttpResponse) -> Refusal<'a> {
        let header = |name| answer.headers().get(name);
        let body = answer.body().bytes().and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
        let html = header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        Refusal {
            status: answer.status().as_u16(),
            // The SDK's own word for a 404 without a code.
            code: code.filter(|code| *code != "NotFound"),
            retry_after: header("retry-after").and_then(|after| retry_after(after, header("date"))),
            region: header("x-amz-bucket-region").or_else(|| meaning::region(body)),
            web_page: html && !body.is_empty(),
            wants_tls: !self.tls && (body.contains("HTTPS") || body.contains("SSL-enabled")),
        }
    }

    fn etag(&self, etag: Option<String>) -> Result<Etag, StoreError> {
        let nameless = || self.unreachable("names no version: it does not answer as an S3 server does");
        etag.map(Etag).ok_or_else(nameless)
    }

    async fn body(&self, mut body: ByteStream, part: Part) -> Result<Bytes, StoreError> {
        let mut bytes = BytesMut::with_capacity(part.take.unwrap_or(0).min(RESERVED_BYTES_MAX) as usize);
        let mut skip = part.skip;
        while let Some(piece) = body.next().await {
            let broken = |error| StoreError::Unreachable {
                reason: transport::reason(&error, &self.host, self.is_right_scheme()),
            };
            let mut piece = piece.map_err(broken)?;
            let skipped = skip.min(piece.len() as u64);
            skip -= skipped;
            let _ = piece.split_to(skipped as usize);
            bytes.extend_from_slice(&piece);
            match part.take {
                Some(take) if part.cut && bytes.len() as u64 >= take => {
                    bytes.truncate(take as usize);
                    break;
                }
                Some(take) if bytes.len() as u64 > take => break,
                None if bytes.len() as u64 > limits::OBJECT_BYTES_MAX => break,
                _ => {}
            }
        }
        let len = bytes.len() as u64;
        match part.take {
            Some(take) if take != len => {
                Err(self.unreachable(&format!("sent {len} bytes instead of {take}")))
            }
            None if len > limits::OBJECT_BYTES_MAX => Err(self.unreachable("sends without end")),
            _ => Ok(bytes.freeze()),
        }
    }

    /// One put in one way. The inner error is this server's refusal, and the server may accept another way.
    async fn put_once(
        &self,
        name: &str,
        body: Bytes,
        when: &When,
        way: Way,
    ) -> Result<Result<Etag, NotTaken>, StoreError> {
        let len = body.len() as u64;
        let mut request = self.client.put_object().bucket(&self.bucket).key(self.key(name));
        request = match when {
            When::Absent if way.condition => request.if_none_match("*"),
            When::Matches(Etag(etag)) if way.condition => request.if_match(etag),
            When::Absent | When::Matches(_) | When::Always => request,
        };
        if way.digest {
            request = request.content_md5(BASE64.encode(&Md5::digest(&body)));
        }
        let body = ByteStream::new(SdkBody::from(body));
        let request = request.content_type("application/octet-stream").body(body);
        let conditional = *when != When::Always;
        let error = match self.within(len, request.send()).await? {
            Ok(answer) => return self.etag(answer.e_tag).map(Ok),
            Err(error) => error,
        };
        let next = match &error {
            SdkError::ServiceError(context) => {
                let status = context.raw().status().as_u16();
                way.next(conditional, status, context.err().code())
            }
            _ => None,
        };
        let verb = Verb::Put { conditional: conditional && way.condition };
        Ok(Err(NotTaken { next, error: self.explain(verb, name, &error) }))
    }

    /// Stands in for a condition where the server supports none. It decides nothing between two computers that put at the same time.
    async fn look_before(&self, name: &str, when: &When) -> Result<(), StoreError> {
        match when {
            When::Always => Ok(()),
            When::Absent if !self.names.is_swapped(name) => match self.head(name).await {
                Ok(_) => Err(StoreError::Precondition { name: name.to_owned() }),
                Err(StoreError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            When::Absent | When::Matches(_) => Err(self.knows_no_conditions()),
        }
    }

    fn knows_no_conditions(&self) -> StoreError {
        StoreError::Denied { reason: format!("{} does not support conditional writes", self.host) }
    }

    /// The answer to a HEAD has only a status: asks again in a way that lets the server say more.
    async fn look(&self, name: &str) -> Result<u64, StoreError> {
        let request = self.client.get_object().bucket(&self.bucket).key(self.key(name)).range("bytes=0-0");
        match self.within(0, request.send()).await? {
            Err(error) => Err(self.explain(Verb::Read, name, &error)),
            Ok(_) => {
                Err(self
                    .unreachable("contradicts itself: it has the object, and refuses to say how long it is"))
            }
        }
    }
}

/// A put that the server refused.
struct NotTaken {
    /// The way that it may accept instead.
    next: Option<Way>,
    error: StoreError,
}

#[async_trait]
impl Store for S3Store {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let damaged = |reason| StoreError::Damaged { name: name.to_owned(), reason };
        let header = match &range {
            Some(range) if range.is_empty() => {
                // A range header cannot ask for nothing.
                let len = self.head(name).await?;
                return if range.end <= len {
                    Ok(Fetched { bytes: Bytes::new(), etag: Etag(String::new()) })
                } else {
                    Err(damaged(format!("it has {len} bytes, where {} were expected", range.end)))
                };
            }
            range => range.as_ref().map(|range| format!("bytes={}-{}", range.start, range.end - 1)),
        };
        let request = self.client.get_object().bucket(&self.bucket).key(self.key(name)).set_range(header);
        // The body shares the pauses of the request that brought its head.
        let held_up = HeldUp::default();
        let answer = self.part_within(&held_up, 0, request.send()).await?;
        let answer = answer.map_err(|error| self.explain(Verb::Read, name, &error))?;
        let etag = self.etag(answer.e_tag)?;
        let length = answer.content_length.and_then(|length| u64::try_from(length).ok());
        let part = body::part(range.as_ref(), answer.content_range.as_deref(), length);
        let part = part.map_err(|unfit| match unfit {
            Unfit::Damaged(reason) => damaged(reason),
            Unfit::Strange(what) => StoreError::Unreachable { reason: format!("{}: {what}", self.host) },
        })?;
        let bytes_max = part.skip + part.take.unwrap_or(limits::OBJECT_BYTES_MAX);
        let bytes = self.part_within(&held_up, bytes_max, self.body(answer.body, part)).await??;
        Ok(Fetched { bytes, etag })
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        let mut way = *self.way.lock();
        loop {
            if !way.condition
                && let Err(error) = self.look_before(name, &when).await
            {
                // A server that supports conditions would have said that the name is taken.
                if matches!(error, StoreError::Precondition { .. }) {
                    self.way.lock().learn(way);
                }
                return Err(error);
            }
            let refused = match self.put_once(name, body.clone(), &when, way).await? {
                Ok(etag) => {
                    self.way.lock().learn(way);
                    return Ok(etag);
                }
                Err(refused) => refused,
            };
            // Without a condition, the put may replace another version than the one that was compared.
            let is_version = matches!(when, When::Matches(_)) || self.names.is_swapped(name);
            match refused.next {
                Some(next) if next.condition || !is_version => way = next,
                Some(_) => return Err(self.knows_no_conditions()),
                None => return Err(refused.error),
            }
        }
    }

    fn heeds_conditions(&self) -> bool {
        self.way.lock().condition
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        let request = self.client.head_object().bucket(&self.bucket).key(self.key(name));
        match self.within(0, request.send()).await? {
            Ok(answer) => {
                self.etag(answer.e_tag)?;
                let length = answer.content_length.and_then(|length| u64::try_from(length).ok());
                length.ok_or_else(|| self.unreachable("does not say how long the object is"))
            }
            // A server that asks to wait, or fails, has nothing more to say.
            Err(SdkError::ServiceError(context)) if !has_said_all(context.raw().status().as_u16()) => {
                self.look(name).await
            }
            Err(error) => Err(self.explain(Verb::Read, name, &error)),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let strange = || self.unreachable("gives a listing that does not go on");
        let mut listed = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(self.key(prefix));
            let request = request.set_continuation_token(token.clone());
            let page = self.within(PAGE_BYTES, request.send()).await?;
            let page = page.map_err(|error| self.explain(Verb::Other, prefix, &error))?;
            for object in page.contents() {
                let name = object.key().and_then(|key| key.strip_prefix(&self.prefix));
                // Some tools put an empty object in place of a directory.
                if let Some(name) = name.filter(|name| !name.is_empty() && name.starts_with(prefix)) {
                    let len = object.size().and_then(|size| u64::try_from(size).ok()).ok_or_else(strange)?;
                    listed.push(Listed { name: name.to_owned(), len });
                }
            }
            if page.is_truncated != Some(true) {
                return Ok(listed);
            }
            let next = page.next_continuation_token.filter(|next| token.as_ref() != Some(next));
            token = Some(next.ok_or_else(strange)?);
        }
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let request = self.client.delete_object().bucket(&self.bucket).key(self.key(name));
        match self.within(0, request.send()).await? {
            Err(SdkError::ServiceError(context)) if context.err().code() == Some("NoSuchKey") => Ok(()),
            deleted => deleted.map(drop).map_err(|error| self.explain(Verb::Delete, name, &error)),
        }
    }

    async fn top(&self) -> Result<Vec<String>, StoreError> {
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(&self.prefix).delimiter("/");
        let page = self.within(PAGE_BYTES, request.max_keys(TOP_MAX as i32).send()).await?;
        let page = page.map_err(|error| self.explain(Verb::Other, "", &error))?;
        let directories = page.common_prefixes().iter().filter_map(|below| below.prefix());
        let keys = directories.chain(page.contents().iter().filter_map(|object| object.key()));
        let names = keys.filter_map(|key| key.strip_prefix(&self.prefix)).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        // Every answer carries the clock, even a refusal.
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(&self.prefix).max_keys(1);
        if let Err(error) = self.within(0, request.send()).await? {
            match self.explain(Verb::Other, "", &error) {
                StoreError::Denied { .. } => {}
                error => return Err(error),
            }
        }
        let date_ms = Some(self.clock.load(Relaxed)).filter(|date_ms| *date_ms > 0);
        let tls = self.tls.then(|| facts::TLS.to_owned());
        // S3 has no quota.
        Ok(Facts { tls, date_ms, free_bytes: None, never_swaps: false, lists_whole: false })
    }
}

/// Whether the status of an answer to a HEAD says everything.
fn has_said_all(status: u16) -> bool {
    status == 429 || status >= 500
}

/// Seconds, or a date by the server's own clock if the answer has it.
fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = |text: &str| {
        let date = DateTime::from_str(text.trim(), DateTimeFormat::HttpDate).ok()?;
        SystemTime::try_from(date).ok()
    };
    let (then, now) = (time(value)?, date.and_then(time));
    Some(then.duration_since(now.unwrap_or_else(SystemTime::now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_servers_clock() {
        let (date, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT");
        assert_eq!(retry_after("7", None), Some(Duration::from_secs(7)));
        // This computer's clock is decades ahead of the server's.
        assert_eq!(retry_after(later, Some(date)), Some(Duration::from_secs(60)));
        assert_eq!(retry_after(date, Some(later)), Some(Duration::ZERO));
        assert_eq!(retry_after(later, None), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", Some(date)), None);
    }
}
