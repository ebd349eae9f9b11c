//! `holdall web`: the pages and the API on loopback, for a browser.
//!
//! A Unix socket asks who connects by its directory's permissions. A port on loopback is open to every user and to every
//! page that a browser shows, so each of these keeps somebody out:
//!
//! - *other users*: the kernel says whose process has connected ([`peer`]); only this user's and root's are served.
//! - *whoever has no invitation*: the address that `holdall web` prints has a token that is good once, for five minutes. It
//!   is exchanged for a cookie that scripts cannot read ([`sessions`]), and that the next daemon knows as well ([`keeping`]).
//! - *other pages in the same browser*: they can have it send requests, cookie and all. So what changes something needs a
//!   header that a page of another origin cannot set without asking first, which is never granted, and an `Origin` that is
//!   ours; what a page of another origin asks for is refused where the browser says so ([`admission`]).
//! - *names that lead to 127.0.0.1* (DNS rebinding): the `Host` must be ours.

use super::failure::failure;
use super::work::Refused;
use super::{Shared, endpoints, failure as failures, registry, routes};
use crate::api::{self, Action, Code, Failure};
use admission::{Asks, Verdict};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use keeping::Keeping;
use pages::Pages;
use parking_lot::Mutex;
use peer::OwnPeers;
pub use peer::is_own;
use sessions::{Now, Sessions, TOKEN_LIVES};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod admission;
mod keeping;
mod pages;
mod peer;
mod sessions;

/// What scripts, styles and images may come from: these pages alone. Nothing may frame them, and no form sends anything.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The file in the state directory that has the last port: what a browser keeps for a page, such as a draft, it keeps for the page's
/// port.
const LAST_PORT: &str = "web-port";

/// What every answer says.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // The first address has a token in it.
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The daemon's port for browsers, once somebody has asked for it.
#[derive(Default)]
pub struct Web {
    // Held to begin and end it: two requests must not bind two ports.
    serving: tokio::sync::Mutex<Option<Serving>>,
}

/// A port that is served. Dropping it ends its listener, its sessions and what it still answers.
struct Serving {
    door: Arc<Door>,
    listener: JoinHandle<()>,
    _ends: watch::Sender<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.door.keeping.lock().end();
        self.door.sessions.lock().end_all();
        self.listener.abort();
    }
}

/// What is checked of each request, and what is shown.
struct Door {
    port: u16,
    pages: Mutex<Arc<Pages>>,
    // Held for a look-up.
    sessions: Mutex<Sessions>,
    // Held to write the file.
    keeping: Mutex<Keeping>,
    ended: watch::Receiver<()>,
}

impl Door {
    /// Writes down who is in, where that has changed. One after another: what is older does not come later.
    fn keep(&self) {
        let mut keeping = self.keeping.lock();
        let sessions = self.sessions.lock().to_keep();
        if let Some(sessions) = sessions {
            keeping.save(sessions);
        }
    }
}

impl Web {
    /// Serves the pages, if it does not yet, and invites one browser.
    pub async fn invite(&self, drives: Shared, request: api::ServeWeb) -> Result<api::WebAddress, Failure> {
        let pages = Arc::new(Pages::find()?);
        let mut serving = self.serving.lock().await;
        take_up(&mut serving, drives.clone()).await;
        let stays = |serving: &Serving| request.port.is_none_or(|port| port == serving.door.port);
        match &*serving {
            Some(serving) if stays(serving) => *serving.door.pages.lock() = pages,
            _ => *serving = Some(serve(drives, request.port, pages, Sessions::default()).await?),
        }
        let door = &serving.as_ref().expect("it is served from here on").door;
        let token = door.sessions.lock().invite(Now::now());
        Ok(api::WebAddress {
            url: format!("http://127.0.0.1:{}/?token={token}", door.port),
            port: door.port,
            token_lifetime_ms: TOKEN_LIVES.as_millis() as u64,
        })
    }

    /// Serves them again at the port where a former daemon has, to whoever was in.
    pub async fn resume(&self, drives: Shared) {
        take_up(&mut *self.serving.lock().await, drives).await;
    }

    /// Serves them no more, and neither does the next daemon. Whoever was in is out, and the port is free.
    pub async fn stop(&self, state: &Path) -> Result<(), Failure> {
        let mut serving = self.serving.lock().await;
        let deleted = match &*serving {
            Some(serving) => serving.door.keeping.lock().delete(),
            None => keeping::forget(state),
        };
        end(&mut serving).await;
        deleted.map_err(|error| failures::local(&error))
    }

    /// Serves them no more in this daemon.
    pub async fn end(&self) {
        end(&mut *self.serving.lock().await).await;
    }
}

async fn end(serving: &mut Option<Serving>) {
    if let Some(mut ended) = serving.take() {
        ended.listener.abort();
        let _ = (&mut ended.listener).await;
    }
}

/// Goes on where a former daemon has ended, unless that was done before. At another port the browsers would not find the pages.
async fn take_up(serving: &mut Option<Serving>, drives: Shared) {
    if serving.is_some() {
        return;
    }
    let Some(served) = keeping::recall(&drives.paths().state) else { return };
    let sessions = Sessions::recall(&served.sessions, Now::now());
    let again = match Pages::find() {
        Ok(pages) => serve(drives, Some(served.port), Arc::new(pages), sessions).await,
        Err(failure) => Err(failure),
    };
    match again {
        Ok(again) => *serving = Some(again),
        Err(failure) => {
            let message = failure.message;
            tracing::warn!(message, "the pages are not served until somebody runs holdall web");
        }
    }
}

async fn serve(
    drives: Shared,
    port: Option<u16>,
    pages: Arc<Pages>,
    sessions: Sessions,
) -> Result<Serving, Failure> {
    let state = drives.paths().state.clone();
    let last = state.join(LAST_PORT);
    let listener = bind(port, &last).await?;
    let port = listener.local_addr().map_err(|error| failures::local(&error))?.port();
    if let Err(error) = registry::replace(&last, format!("{port}\n").as_bytes()) {
        tracing::warn!(%error, "the next daemon may serve the pages at another port");
    }
    let (ends, ended) = watch::channel(());
    let mut keeping = Keeping::new(&state, port);
    keeping.save(sessions.kept());
    let (sessions, keeping) = (Mutex::new(sessions), Mutex::new(keeping));
    let door = Arc::new(Door { port, pages: Mutex::new(pages), sessions, keeping, ended });
    let router = router(drives, door.clone());
    let listener = tokio::spawn(async move {
        // It ends by being aborted.
        let _ = axum::serve(OwnPeers(listener), router).await;
    });
    Ok(Serving { door, listener, _ends: ends })
}

/// Listens where it is asked for; else at the last port, unless that is somebody else's by now; else at any.
async fn bind(asked: Option<u16>, last: &Path) -> Result<TcpListener, Failure> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    if asked.is_none()
        && let Ok(text) = std::fs::read_to_string(last)
        && let Ok(port) = text.trim().parse()
        && let Ok(listener) = at(port).await
    {
        return Ok(listener);
    }
    let port = asked.unwrap_or(0);
    at(port).await.map_err(|error| not_bound(port, &error))
}

fn not_bound(port: u16, error: &std::io::Error) -> Failure {
    failure(
        Code::Failed,
        format!("Port {port} of 127.0.0.1 cannot be used: {}.", crate::words::why(error)),
        failures::NOTHING_CHANGED,
        [Action::tell("Choose another port, or none."), Action::Web],
    )
}

fn router(drives: Shared, door: Arc<Door>) -> Router {
    let shown = door.clone();
    let fallback = move |request: Request| async move {
        if admission::is_api(request.uri().path()) {
            return routes::unknown(request).await.into_response();
        }
        let pages = shown.pages.lock().clone();
        pages.answer(request.method(), request.uri().path())
    };
    let router = endpoints::routes().fallback(fallback).with_state(drives);
    router.layer(middleware::from_fn_with_state(door, admit))
}

/// Lets a request in, or does not.
async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let verdict = admission::judge(
        &Asks::of(request.method(), request.uri(), request.headers()),
        door.port,
        &mut door.sessions.lock(),
        Now::now(),
    );
    if door.sessions.lock().is_changed() {
        let door = door.clone();
        // Before the answer: what a browser was told is true for the next daemon too.
        let _ = tokio::task::spawn_blocking(move || door.keep()).await;
    }
    let mut response = match verdict {
        Verdict::Pass => until(door.ended.clone(), next.run(request).await),
        Verdict::Begin { cookie } => begin(&cookie),
        Verdict::Refuse(failure) => Refused(failure).into_response(),
        Verdict::BadInvitation => (StatusCode::FORBIDDEN, pages::stale_invitation()).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A browser that has used its invitation is sent to the address without it, so that it is in no history.
fn begin(cookie: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/")]).into_response()
}

/// The response, which ends when the port is closed: a stream of events would go on for ever.
fn until(mut ended: watch::Receiver<()>, response: Response) -> Response {
    response.map(|body| {
        let gone = Box::pin(async move { while ended.changed().await.is_ok() {} });
        Body::from_stream(body.into_data_stream().take_until(gone))
    })
}
