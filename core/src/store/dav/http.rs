//! Requests to one server: credentials, time limits, redirects. Nothing is tried twice, but for a server that asks who
//! it is, and one that closed a connection which it had promised to keep.
//!
//! Such a server has closed the connection while the request was on its way, so that no byte of an answer came. The request is
//! sent once more over a new one. That is safe even if the first had been done: nothing here has another effect the second time.
//! A PUT writes the same bytes to a name that nobody else writes; a MKCOL, a MOVE without overwriting and a PUT under a
//! condition are refused then, and whoever asked looks at what is there, as after any refusal.
//!
//! A redirect is followed on the same server only. One to elsewhere is what a network does that wants its guests to sign
//! in; it would get neither data nor credentials.

use super::answer;
use super::auth::Auth;
use super::progress::Progress;
use super::trouble;
use crate::store::StoreError;
use crate::store::connect::ConnectError;
use crate::store::credentials::Credentials;
use crate::store::meter::{Kind, Meter};
use crate::store::pace::{Gate, HeldUp, Pacer, Way};
use crate::store::proxy::Proxy;
use crate::store::trust;
use crate::store::url::DavUrl;
use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, StatusCode, redirect};
use rustls::ClientConfig;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;

/// A body that is not sent before the server is known to take the credentials.
const LARGE_BYTES: usize = 64 << 10;
/// What is read of an answer's body that nobody wants, to keep the connection.
const UNWANTED_BYTES: u64 = 64 << 10;
/// A server that asks for credentials again and again, or redirects in a circle, is given up.
const ROUNDS_MAX: usize = 5;
/// Servers close idle connections after some seconds; ours go first.
const IDLE_CONNECTION_AGE_MAX: Duration = Duration::from_secs(30);

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until there is a connection.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// In all, beside what the body takes.
    pub total: Duration,
    /// The slowest that a body may be, in bytes per second: a modem's 128 kbit/s.
    pub slowest: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let [connect, idle, total] = [10, 20, 60].map(Duration::from_secs);
        Self { connect, idle, total, slowest: 16 << 10 }
    }
}

/// One server, and who asks it.
pub struct Http {
    setup: Setup,
    /// Replaced when a connection fell silent. Held for a clone or an assignment.
    client: RwLock<Client>,
    auth: Auth,
    limits: Limits,
    pacer: Pacer,
    meter: Meter,
    base: Url,
    host: String,
}

/// What its clients are made of.
struct Setup {
    connect: Duration,
    idle: Duration,
    /// Who is trusted, where that is not the system's alone.
    trusted: Option<ClientConfig>,
    is_plain: bool,
    /// On the way to this server.
    proxy: Option<Proxy>,
}

impl Setup {
    /// A client without any connection yet.
    fn client(&self) -> Result<Client, reqwest::Error> {
        let mut client = Client::builder()
            .user_agent(concat!("holdall/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(self.connect)
            .tcp_user_timeout(self.idle)
            .pool_idle_timeout(IDLE_CONNECTION_AGE_MAX)
            // Nothing is taken from this process's environment by itself.
            .no_proxy();
        if let Some(proxy) = &self.proxy {
            let mut through = reqwest::Proxy::all(proxy.url())?;
            let login = proxy.authorization().and_then(|login| HeaderValue::from_str(&login).ok());
            if let Some(mut login) = login {
                login.set_sensitive(true);
                through = through.custom_http_auth(login);
            }
            client = client.proxy(through);
        }
        if let Some(trusted) = &self.trusted {
            client = client.tls_backend_preconfigured(trusted.clone());
        }
        if self.is_plain && self.trusted.is_none() {
            client = client.tls_certs_only([]);
        }
        client.build()
    }
}

/// What is asked.
pub struct Request {
    /// The verb.
    pub method: Method,
    /// The address.
    pub url: Url,
    /// Beside those that every request has.
    pub headers: HeaderMap,
    /// May be empty.
    pub body: Bytes,
}

impl Request {
    /// One without a body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// The same with a header; the value is one that can be sent.
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// What came back; the body is still to be read.
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Where it came from, behind redirects.
    pub url: Url,
    response: reqwest::Response,
    begun: Instant,
    limits: Limits,
    held_up: HeldUp,
    gate: Gate,
    meter: Meter,
    kind: Kind,
    host: String,
}

impl Http {
    /// For the server of `url`; `meter` counts what goes to it and comes from it. Nothing is contacted yet.
    pub fn new(
        url: &DavUrl,
        credentials: &Credentials,
        limits: Limits,
        pacer: &Pacer,
        meter: &Meter,
    ) -> Result<Self, ConnectError> {
        let setup = |reason: String| ConnectError::Setup { reason };
        // Another part of the program may have been first: it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let trusted = url.ca.as_deref().map(|ca| trust::config(Some(ca))).transpose().map_err(setup)?;
        let is_plain = url.base.scheme() == "http";
        let proxy = pacer.proxy().filter(|proxy| proxy.serves_url(&url.base));
        let made_of = Setup { connect: limits.connect, idle: limits.idle, trusted, is_plain, proxy };
        let client = made_of.client().map_err(|_| {
            setup(
                "This computer trusts no certificates at all: install the package ca-certificates."
                    .to_owned(),
            )
        })?;
        let host = url.base.host_str().unwrap_or_default().to_owned();
        let auth = Auth::new(&url.base, credentials)?;
        let (pacer, meter, base) = (pacer.clone(), meter.clone(), url.base.clone());
        Ok(Self { setup: made_of, client: RwLock::new(client), auth, limits, pacer, meter, base, host })
    }

    /// The collection that everything lies in.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The server, for errors.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request. An error means that there is no answer of this server, or none but for who it knows.
    pub async fn send(&self, request: &Request) -> Result<Answer, StoreError> {
        if request.body.len() > LARGE_BYTES && !self.auth.is_settled() {
            let answer = self.rounds(&Request::new(Method::HEAD, self.base.clone())).await?;
            // Who asks for patience gets no body to refuse as well.
            if let busy @ StoreError::Busy { .. } = answer.refusal("") {
                return Err(busy);
            }
            answer.drain().await;
        }
        self.rounds(request).await
    }

    async fn rounds(&self, request: &Request) -> Result<Answer, StoreError> {
        let mut url = request.url.clone();
        for _ in 0..ROUNDS_MAX {
            let (header, sent) = self.auth.header(request.method.as_str(), &url);
            let answer = self.once(request, &url, header).await?;
            if answer.status == StatusCode::UNAUTHORIZED {
                let refused = self.auth.refused(&sent, &answer.headers);
                answer.drain().await;
                match refused {
                    Err(error @ StoreError::UnknownCredentials { .. }) => {
                        return Err(self.who_may_not(request, error).await);
                    }
                    refused => refused?,
                }
                continue;
            }
            self.auth.taken(&sent, &answer.headers);
            let location = answer.headers.get(LOCATION).filter(|_| answer.status.is_redirection());
            let Some(location) = location else { return Ok(answer) };
            let to = self.follow(&url, location)?;
            // That it is there already, as some servers say it.
            if to == url && request.method.as_str() == "MKCOL" {
                return Ok(answer);
            }
            url = to;
            answer.drain().await;
        }
        let reason = format!("{} sends requests round in a circle", self.host);
        Err(StoreError::Unreachable { reason })
    }

    /// What it means that credentials are refused for `request`. Some servers (Apache, unless told otherwise) say the same to those whom
    /// they do not know and to those who may do less than that: these may still look.
    async fn who_may_not(&self, request: &Request, refused: StoreError) -> StoreError {
        if matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND") {
            return refused;
        }
        let look = Request::new(Method::HEAD, self.base.clone());
        let (header, _) = self.auth.header(look.method.as_str(), &look.url);
        match self.once(&look, &look.url, header).await {
            Ok(answer) if answer.status != StatusCode::UNAUTHORIZED => {
                answer.drain().await;
                // Where anybody may look, so may who gives a wrong password.
                let reason =
                    format!("{} does not allow that to this user with this password (401)", self.host);
                StoreError::Denied { reason }
            }
            Ok(_) | Err(_) => refused,
        }
    }

    /// Where a redirect leads, if that is the same server.
    fn follow(&self, from: &Url, location: &HeaderValue) -> Result<Url, StoreError> {
        let unreachable = |reason: String| Err(StoreError::Unreachable { reason });
        let Some(to) = location.to_str().ok().and_then(|to| from.join(to).ok()) else {
            return unreachable(format!("{} redirects to an address that is none", self.host));
        };
        let (here, there) = (self.host.as_str(), to.host_str().unwrap_or_default());
        if to.origin() == self.base.origin() {
            Ok(to)
        } else if here == there && to.scheme() == "https" && self.base.scheme() == "http" {
            unreachable(format!("{here} wants to be asked by https: its address begins with https://"))
        } else {
            unreachable(format!(
                "requests to {here} are redirected to {there}; this network may ask to sign in first, or the address is not that of WebDAV"
            ))
        }
    }

    /// After a suspend or a change of network the idle siblings of a connection that fell silent are as dead: none of them is used
    /// again.
    fn leave_connections(&self) {
        // It could be made before.
        if let Ok(client) = self.setup.client() {
            *self.client.write() = client;
        }
    }

    async fn once(
        &self,
        request: &Request,
        url: &Url,
        auth: Option<HeaderValue>,
    ) -> Result<Answer, StoreError> {
        let client = self.client.read().clone();
        match self.once_by(&client, request, url, auth.clone()).await {
            Err(Unanswered { was_closed: true, error }) => {
                self.leave_connections();
                // Over a connection of its own: others may have used the next one already.
                let Ok(own) = self.setup.client() else { return Err(error) };
                self.once_by(&own, request, url, auth).await.map_err(|unanswered| unanswered.error)
            }
            answer => answer.map_err(|unanswered| unanswered.error),
        }
    }

    /// Over a connection of this client, which may have been used before.
    async fn once_by(
        &self,
        client: &Client,
        request: &Request,
        url: &Url,
        auth: Option<HeaderValue>,
    ) -> Result<Answer, Unanswered> {
        let begun = Instant::now();
        let kind = kind(&request.method);
        let counted = (self.meter.clone(), kind);
        let held_up = HeldUp::default();
        let gate = self.pacer.gate_of(Way::Up, held_up.clone());
        let (body, progress) = Progress::watch(request.body.clone(), gate, counted);
        let mut builder = client
            .request(request.method.clone(), url.clone())
            .headers(request.headers.clone())
            .header(ACCEPT_ENCODING, "identity");
        if let Some(auth) = auth {
            builder = builder.header(AUTHORIZATION, auth);
        }
        if !request.body.is_empty() || request.method == Method::PUT {
            builder = builder.body(Body::wrap(body));
        }
        let limits = self.limits;
        let deadline = begun + limits.with_body(request.body.len() as u64);
        let unanswered =
            |reason: String, was_closed| Unanswered { was_closed, error: StoreError::Unreachable { reason } };
        let unreachable = |reason: String| unanswered(reason, false);
        let sending = self.meter.sending(kind);
        let response = tokio::select! {
            response = builder.send() => response,
            () = progress.silence(limits.idle, limits.slowest) => {
                self.leave_connections();
                return Err(unreachable(format!("{} does not answer", self.host)));
            }
            () = held_up.until(deadline) => {
                return Err(unreachable(format!("{} is too slow", self.host)));
            }
        };
        let https = self.base.scheme() == "https";
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                if error.is_connect() {
                    sending.was_not_sent();
                }
                let was_closed = !error.is_connect() && trouble::was_closed(&error);
                let proxy = self.setup.proxy.as_ref().map(Proxy::address);
                let reason = trouble::reason(&error, &self.host, proxy.as_deref(), https);
                return Err(unanswered(reason, was_closed));
            }
        };
        Ok(Answer {
            status: response.status(),
            headers: response.headers().clone(),
            url: url.clone(),
            response,
            begun,
            limits,
            gate: self.pacer.gate_of(Way::Down, held_up.clone()),
            held_up,
            meter: self.meter.clone(),
            kind,
            host: self.host.clone(),
        })
    }
}

/// A request that got no answer.
struct Unanswered {
    /// The server closed the connection before a byte of it came.
    was_closed: bool,
    error: StoreError,
}

/// What a request counts as.
fn kind(method: &Method) -> Kind {
    match method.as_str() {
        "GET" => Kind::Get,
        "HEAD" => Kind::Head,
        "PROPFIND" => Kind::List,
        "DELETE" => Kind::Delete,
        // PUT, MOVE and MKCOL.
        _ => Kind::Put,
    }
}

impl Limits {
    fn with_body(&self, bytes: u64) -> Duration {
        self.total + Duration::from_secs(bytes / self.slowest)
    }
}

impl Answer {
    /// The body's length, where the server says it.
    pub fn content_length(&self) -> Option<u64> {
        self.headers.get(reqwest::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    /// What its status means for `name`.
    pub fn refusal(&self, name: &str) -> StoreError {
        answer::refusal(self.status, &self.headers, &self.host, name)
    }

    /// The error if it is a web page, which nothing in a store is.
    pub fn no_page(self) -> Result<Self, StoreError> {
        if answer::is_page(&self.headers) { Err(answer::page(&self.host)) } else { Ok(self) }
    }

    /// At most `most` bytes of the body, from byte `skip` on. Fewer where it ends before.
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
            // Its end is here as well: the connection serves the next request.
            let _ = self.piece(place).await;
        }
        Ok(bytes.freeze())
    }

    /// Reads a body that nobody wants, unless it is long: then the connection is closed.
    pub async fn drain(mut self) {
        let mut place = 0;
        while place <= UNWANTED_BYTES
            && let Ok(Some(piece)) = self.piece(UNWANTED_BYTES).await
        {
            place += piece.len() as u64;
        }
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
