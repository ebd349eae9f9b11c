//! One bucket of an S3 server, or a part of it: the connection, what its answers mean, and the requests that are made of it.
//!
//! Nothing is retried, and only what the server says counts: a put without an answer is unreachable, an object is missing only if the
//! server says so in S3's own words, and a body has the length that was asked for.

use super::http::ServerClock;
use super::limits::Limits;
use super::list::Wanted;
use super::meaning::{self, Asked, Refusal, Verb};
use super::put_form::PutForm;
use super::{setup, transport};
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::pace::{HeldUp, Pacer};
use crate::url::S3Url;
use crate::{Etag, Facts, StoreError, facts};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use parking_lot::Mutex;
use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

/// A bucket, or the part of it below a prefix. Names begin after the prefix.
pub(crate) struct S3Client {
    pub(crate) sdk: Client,
    clock: ServerClock,
    /// How puts are sent. Held to read or note it.
    pub(super) way: Mutex<PutForm>,
    pub(crate) bucket: String,
    /// With a `/` at its end, or empty.
    prefix: String,
    /// The server, as a person knows it.
    pub(crate) host: String,
    tls: bool,
    limits: Limits,
}

impl S3Client {
    /// For the bucket of `url`. `pacer` paces its bodies and `meter` counts its requests. Nothing is contacted yet. The error says what is
    /// wrong with the credentials or certificates.
    pub(crate) fn new(
        url: &S3Url,
        credentials: &Credentials,
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
            sdk: setup::client(url, credentials, limits, (pacer, meter), clock.clone())?,
            clock,
            way: Mutex::new(PutForm::USUAL),
            bucket: url.bucket.clone(),
            prefix,
            host,
            tls: url.endpoint.as_ref().is_none_or(|endpoint| endpoint.scheme() == "https"),
            limits,
        })
    }

    /// Deletes the object; one that is not there is no error.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let request = self.sdk.delete_object().bucket(&self.bucket).key(self.key(name));
        match self.within(0, request.send()).await? {
            Err(SdkError::ServiceError(context)) if context.err().code() == Some("NoSuchKey") => Ok(()),
            deleted => deleted.map(drop).map_err(|error| self.explain(Verb::Delete, name, &error)),
        }
    }

    /// Asks once.
    pub(crate) async fn facts(&self) -> Result<Facts, StoreError> {
        // Every answer carries the clock, even a refusal.
        match self.page(&Wanted { most: Some(1), ..Wanted::all("") }).await {
            Ok(_) | Err(StoreError::Denied { .. }) => {}
            Err(error) => return Err(error),
        }
        let date_ms = Some(self.clock.load(Relaxed)).filter(|date_ms| *date_ms > 0);
        let tls = self.tls.then(|| facts::TLS.to_owned());
        // S3 has no quota.
        Ok(Facts { tls, date_ms, free_bytes: None, never_swaps: false, lists_whole: false })
    }

    /// The key of a name.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name that belongs to a key; `None` for the prefix itself and what is not below it.
    pub(super) fn name<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.prefix).filter(|name| !name.is_empty())
    }

    /// Whether errors need no hint about TLS: the store uses TLS, or has answered without.
    pub(super) fn is_right_scheme(&self) -> bool {
        self.tls || self.clock.load(Relaxed) > 0
    }

    /// The server is there and does not do as an S3 server does.
    pub(crate) fn unreachable(&self, what: &str) -> StoreError {
        StoreError::Unreachable { reason: format!("{} {what}", self.host) }
    }

    /// Ends a request that takes longer than the slowest connection needs for `bytes` bytes.
    pub(crate) async fn within<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        self.part_within(&HeldUp::default(), bytes, request).await
    }

    /// The same for one part of a request.
    pub(crate) async fn part_within<T>(
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
    pub(crate) fn explain<E>(&self, verb: Verb, name: &str, error: &SdkError<E, HttpResponse>) -> StoreError
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

    pub(super) fn etag(&self, etag: Option<String>) -> Result<Etag, StoreError> {
        let nameless = || self.unreachable("names no version: it does not answer as an S3 server does");
        etag.map(Etag).ok_or_else(nameless)
    }
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
