//! The HTTP client under the SDK: hyper and rustls, one pool of connections, and an end to silence.
//!
//! Only HTTP/1.1: it is what S3 servers speak, and a slow body on its own connection holds up no other. Nothing here reads the environment,
//! not even for a proxy.

use super::limits::Limits;
use super::road::Road;
use super::silence::{Pulse, Receiving, Sending};
use crate::meter::{Kind, Meter};
use crate::pace::{Direction, Pacer};
use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{HttpClient, RuntimeComponents};
use aws_sdk_s3::error::{BoxError, ConnectorError};
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat, SdkBody};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::RwLock;
use rustls::ClientConfig;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Idle connections to keep: as many as a busy store's users keep at once.
const IDLE_CONNECTIONS: usize = 64;
/// The longest answer that is no object: a page of a thousand names of 1 KiB, each of their bytes encoded, has a quarter of it.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How long to keep them. Many servers close after a minute or less; a request on such a connection is lost.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The server answered with a web page where none can be.
#[derive(Debug, thiserror::Error)]
#[error("a web page came back")]
pub(super) struct WebPage;

type Pool = Client<HttpsConnector<Road>, Sending>;

/// The server's clock in its last answer: Unix time in ms, or 0 before there is one.
pub(super) type ServerClock = Arc<AtomicU64>;

/// The client.
#[derive(Clone)]
pub(super) struct Http {
    limits: Limits,
    pacer: Pacer,
    meter: Meter,
    clock: ServerClock,
    trust: ClientConfig,
    road: Road,
    /// Replaced when a connection has fallen silent. Held for a clone or an assignment.
    pool: Arc<RwLock<Pool>>,
}

impl Http {
    /// A client that trusts what `trust` says.
    pub(super) fn new(
        trust: ClientConfig,
        limits: Limits,
        (pacer, meter): (Pacer, Meter),
        clock: ServerClock,
    ) -> Self {
        let road = Road::new(limits, pacer.proxy());
        let pool = Arc::new(RwLock::new(pool(&trust, road.clone())));
        Self { limits, pacer, meter, clock, trust, road, pool }
    }

    /// Asks, and asks once more if the server closed a kept connection while the request was on its way, before a byte of an answer came.
    /// If the server carried out the first request after all, a put under a condition is now refused, and its caller looks at what is
    /// there; every other request has the same effect twice.
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let again = request.try_clone();
        let pool_now = self.pool.read().clone();
        match (self.ask_over(&pool_now, request).await, again) {
            (Err(Unanswered { was_closed: true, .. }), Some(again)) => {
                *self.pool.write() = pool(&self.trust, self.road.clone());
                // Over a new connection of its own: other requests may already have used the next one in the pool.
                let own = pool(&self.trust, self.road.clone());
                self.ask_over(&own, again).await.map_err(|unanswered| unanswered.error)
            }
            (answer, _) => answer.map_err(|unanswered| unanswered.error),
        }
    }

    async fn ask_over(&self, client: &Pool, request: HttpRequest) -> Result<HttpResponse, Unanswered> {
        let pulse = Pulse::new(self.limits);
        let request = request.try_into_http1x();
        let request = request.map_err(|error| Unanswered::from(ConnectorError::user(error.into())))?;
        let kind = kind(request.method(), request.uri().query().unwrap_or_default());
        let most = if is_object(&request) { u64::MAX } else { ANSWER_BYTES_MAX };
        let sending = self.meter.sending(kind);
        let way = (self.pacer.gate(Direction::Up), self.meter.clone(), kind);
        let request = request.map(|body| Sending::new(body, pulse.clone(), way));
        let answer = tokio::select! {
            answer = client.request(request) => match answer {
                Ok(answer) => answer,
                Err(error) => {
                    if error.is_connect() {
                        sending.was_not_sent();
                    }
                    let was_closed = !error.is_connect() && was_closed(&error);
                    return Err(Unanswered { was_closed, error: ConnectorError::io(error.into()) });
                }
            },
            silent = pulse.stopped() => {
                // After a suspend or a change of network, the idle connections are just as dead: use none of them again.
                *self.pool.write() = pool(&self.trust, self.road.clone());
                return Err(ConnectorError::timeout(silent.into()).into());
            }
        };
        if let Some(date_ms) = date_ms(answer.headers()) {
            self.clock.store(date_ms, Relaxed);
        }
        if is_web_page(&answer) {
            return Err(ConnectorError::other(WebPage.into(), None).into());
        }
        let way = (self.pacer.gate(Direction::Down), self.meter.clone(), kind);
        // What is no object is read into memory, whole.
        let most = if answer.status().is_success() { most } else { ANSWER_BYTES_MAX };
        let answer = answer.map(|body| SdkBody::from_body_1_x(Receiving::new(body, self.limits, most, way)));
        HttpResponse::try_from(answer)
            .map_err(|error| ConnectorError::other(BoxError::from(error), None).into())
    }
}

/// A request without an answer.
struct Unanswered {
    /// The server closed the connection before a byte of the answer came.
    was_closed: bool,
    error: ConnectorError,
}

impl From<ConnectorError> for Unanswered {
    fn from(error: ConnectorError) -> Self {
        Self { was_closed: false, error }
    }
}

fn was_closed(error: &hyper_util::client::legacy::Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    let is_closed = |error: &hyper::Error| error.is_incomplete_message() || error.is_canceled();
    let is_broken = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
        )
    };
    causes.any(|cause| {
        cause.downcast_ref().is_some_and(is_closed) || cause.downcast_ref().is_some_and(is_broken)
    })
}

/// The kind that the meter counts a request as.
fn kind(method: &Method, query: &str) -> Kind {
    match *method {
        Method::GET if query.split('&').any(|part| part.starts_with("list-type=")) => Kind::List,
        Method::GET => Kind::Get,
        Method::HEAD => Kind::Head,
        Method::DELETE => Kind::Delete,
        _ => Kind::Put,
    }
}

/// Whether the answer to a request is an object's body, which is read piece by piece.
fn is_object<T>(request: &hyper::Request<T>) -> bool {
    let asks = ["list-type=", "uploadId=", "tagging"];
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET
        && !query.split('&').any(|part| asks.iter().any(|ask| part.starts_with(ask)))
}

fn pool(trust: &ClientConfig, road: Road) -> Pool {
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(trust.clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(road);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(https)
}

fn date_ms(headers: &HeaderMap) -> Option<u64> {
    let date = DateTime::from_str(headers.get(DATE)?.to_str().ok()?, DateTimeFormat::HttpDate).ok()?;
    u64::try_from(date.to_millis().ok()?).ok()
}

/// Whether a page for people claims success, as the login pages of hotels do. Some servers label an empty body as HTML too. An object may be
/// a web page itself; then the answer has headers that only S3 servers send.
fn is_web_page(answer: &hyper::Response<Incoming>) -> bool {
    let header = |name| answer.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let html = header(CONTENT_TYPE)
        .is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"));
    let status = answer.status();
    let is_of_s3 = answer.headers().keys().any(|name| name.as_str().starts_with("x-amz-"));
    html && !is_of_s3
        && status.is_success()
        && status != StatusCode::NO_CONTENT
        && header(CONTENT_LENGTH) != Some("0")
}

impl HttpConnector for Http {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let http = self.clone();
        HttpConnectorFuture::new(async move { http.ask(request).await })
    }
}

impl HttpClient for Http {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("limits", &self.limits).finish_non_exhaustive()
    }
}
