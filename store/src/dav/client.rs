//! Requests to one server: credentials, time limits, redirects. No request is tried twice, except for a server that asks for credentials,
//! and for one that closed a connection that it had promised to keep.
//!
//! Such a server closed the connection while the request was on its way, before a byte of an answer came. The request goes once more over a
//! new connection. The server may have carried out the first one, so callers send nothing that has another effect the second time. A store's
//! PUT writes the same bytes to a name that nobody else writes. A MKCOL, a MOVE without overwriting and a PUT under a condition are then
//! refused, and their callers look at what is there, as after any refusal. A request that says [`Request::once`] is not repeated.
//!
//! A redirect is followed only on the same server. A redirect elsewhere comes from a network that wants its guests to sign in; it gets
//! neither data nor credentials.

use super::auth::Auth;
use super::http::{Answer, Limits, Request};
use super::progress::Progress;
use super::setup::Setup;
use super::trouble;
use crate::StoreError;
use crate::connect::ConnectError;
use crate::credentials::Credentials;
use crate::meter::{Kind, Meter};
use crate::pace::{Direction, HeldUp, Pacer};
use crate::proxy::Proxy;
use crate::trust;
use crate::url::DavUrl;
use parking_lot::RwLock;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, HeaderValue, LOCATION};
use reqwest::{Body, Client, Method, StatusCode};
use tokio::time::Instant;
use url::Url;

/// A larger body is not sent before the server is known to accept the credentials.
const LARGE_BYTES: u64 = 64 << 10;
/// A server that asks for credentials again and again, or redirects in a circle, gets an error after this many rounds.
const ROUNDS_MAX: usize = 5;

/// A collection of one server, and the credentials for it.
pub struct DavClient {
    setup: Setup,
    /// Replaced when a connection has fallen silent. Held for a clone or an assignment.
    http: RwLock<Client>,
    auth: Auth,
    limits: Limits,
    pacer: Pacer,
    meter: Meter,
    base: Url,
    host: String,
}

impl DavClient {
    /// For the server of `url`; `meter` counts the bytes to and from it. Nothing is contacted yet.
    pub fn new(
        url: &DavUrl,
        credentials: &Credentials,
        limits: Limits,
        pacer: &Pacer,
        meter: &Meter,
    ) -> Result<Self, ConnectError> {
        let setup = |reason: String| ConnectError::Setup { reason };
        // Another part of the program may have installed it first: it is the same one.
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
        Ok(Self { setup: made_of, http: RwLock::new(client), auth, limits, pacer, meter, base, host })
    }

    /// The collection that contains everything.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The server, for errors.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request. An error means that this server gave no answer, or refused the credentials.
    pub async fn send(&self, request: &Request) -> Result<Answer, StoreError> {
        if request.body_len() > LARGE_BYTES && !self.auth.is_settled() {
            let answer = self.rounds(&Request::new(Method::HEAD, self.base.clone())).await?;
            // A server that asks to wait is not sent the body.
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
            // Some servers say in this way that the collection exists already.
            if to == url && request.method.as_str() == "MKCOL" {
                return Ok(answer);
            }
            url = to;
            answer.drain().await;
        }
        let reason = format!("{} sends requests round in a circle", self.host);
        Err(StoreError::Unreachable { reason })
    }

    /// What refused credentials mean for `request`. Some servers (Apache by default) give the same answer to unknown users and to users who
    /// lack the right. The latter may still look, so this tries a look.
    async fn who_may_not(&self, request: &Request, refused: StoreError) -> StoreError {
        if matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND") {
            return refused;
        }
        let look = Request::new(Method::HEAD, self.base.clone());
        let (header, _) = self.auth.header(look.method.as_str(), &look.url);
        match self.once(&look, &look.url, header).await {
            Ok(answer) if answer.status != StatusCode::UNAUTHORIZED => {
                answer.drain().await;
                // If anybody may look, a wrong password may look too, so the reason names both.
                let reason =
                    format!("{} does not allow that to this user with this password (401)", self.host);
                StoreError::Denied { reason }
            }
            Ok(_) | Err(_) => refused,
        }
    }

    /// Where a redirect leads, if it stays on the same server.
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

    /// After a suspend or a change of network, the idle connections are just as dead as the one that fell silent: use none of them again.
    fn leave_connections(&self) {
        // Making a client has worked before.
        if let Ok(client) = self.setup.client() {
            *self.http.write() = client;
        }
    }

    async fn once(
        &self,
        request: &Request,
        url: &Url,
        auth: Option<HeaderValue>,
    ) -> Result<Answer, StoreError> {
        let client = self.http.read().clone();
        match self.once_by(&client, request, url, auth.clone()).await {
            Err(Unanswered { was_closed: true, error }) if request.once => {
                self.leave_connections();
                Err(error)
            }
            Err(Unanswered { was_closed: true, error }) => {
                self.leave_connections();
                // Over a new connection of its own: other requests may already have used the next one in the pool.
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
        let gate = self.pacer.gate_of(Direction::Up, held_up.clone());
        let (body, progress) = match &request.source {
            None => Progress::watch(request.body.clone(), gate, counted),
            Some(source) => Progress::watch_source(source, gate, counted),
        };
        let mut builder = client
            .request(request.method.clone(), url.clone())
            .headers(request.headers.clone())
            .header(ACCEPT_ENCODING, "identity");
        if let Some(auth) = auth {
            builder = builder.header(AUTHORIZATION, auth);
        }
        if request.body_len() > 0 {
            builder = builder.body(Body::wrap(body));
        } else if request.method == Method::PUT {
            // Without this, nginx takes no empty file.
            builder = builder.header(CONTENT_LENGTH, "0");
        }
        let limits = self.limits;
        let deadline = begun + limits.with_body(request.body_len());
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
            gate: self.pacer.gate_of(Direction::Down, held_up.clone()),
            held_up,
            meter: self.meter.clone(),
            kind,
            host: self.host.clone(),
        })
    }
}

/// A request without an answer.
struct Unanswered {
    /// The server closed the connection before a byte of the answer came.
    was_closed: bool,
    error: StoreError,
}

/// The kind that the meter counts a request as.
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
