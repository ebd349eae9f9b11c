//! `holdall web`: the pages and the API on loopback, for a browser.
//!
//! A Unix socket relies on the permissions of its directory to keep others out. A port on loopback is open to every user and to every page
//! that a browser shows, so each of these keeps somebody out:
//!
//! - *other users*: the kernel says which user's process has connected ([`peer`]); only this user's and root's are served.
//! - *browsers without an invitation*: the address that `holdall web` prints has a token that is good once, for five minutes. It is
//!   exchanged for a cookie that scripts cannot read ([`sessions`]), and that the next daemon knows as well ([`keeping`]).
//! - *other pages in the same browser*: they can make it send requests, cookie included. So a request that changes something needs a header
//!   that a page of another origin cannot set without asking first, which is never granted, and an `Origin` that is ours; any request of a
//!   page of another origin is refused if the browser marks it as such ([`admission`]).
//! - *names that lead to 127.0.0.1* (DNS rebinding): the `Host` must be ours.
//!
//! `holdall web --listen` serves the same to browsers of other computers ([`listening`]), with TLS and for people who know a password
//! ([`sign_in`]).

use super::failure::failure;
use super::work::Refused;
use super::{Shared, endpoints, failure as failures, registry, routes};
use crate::api::{self, Action, Code, Failure};
use admission::{Asks, Ours, To, Verdict};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::StreamExt;
use keeping::Keeping;
use listening::Listening;
use pages::Pages;
use parking_lot::Mutex;
use peer::OwnPeers;
pub use peer::is_own;
use renewal::Followed;
use rustls::ServerConfig;
use sessions::{Now, Sessions, TOKEN_LIVES};
use sign_in::Guard;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::Identity;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod admission;
mod keeping;
mod listening;
mod pages;
mod password;
mod peer;
mod renewal;
mod sessions;
mod sign_in;
mod tls;
mod tries;

/// Scripts, styles and images may come only from these pages. Nothing may frame them, and no form sends anything elsewhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The file in the state directory with the last port: a browser stores a page's data, such as drafts, under the page's port.
const LAST_PORT: &str = "web-port";

const NOT_LISTENING: &str = "the pages are not served to other computers";
/// The pause before listening is tried again after a start: the network, or the disk with the certificate, may come later.
const RESUME_EVERY: Duration = Duration::from_secs(30);

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // The first address contains a token.
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The daemon's ports for browsers, once somebody has asked for them. The locks are held to begin and end serving: two requests must not
/// bind two ports.
#[derive(Default)]
pub struct Web {
    /// For browsers on this computer.
    serving: tokio::sync::Mutex<Option<Serving>>,
    /// For browsers of other computers.
    listening: tokio::sync::Mutex<Option<Serving>>,
}

/// A served port. Dropping it ends its listener, its sessions and the answers under way.
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

/// The checks of each request, and the pages to show.
struct Door {
    ours: Ours,
    /// Guards the password sign-in of other computers.
    guard: Option<Guard>,
    pages: Mutex<Arc<Pages>>,
    // Held for a look-up.
    sessions: Mutex<Sessions>,
    // Held to write the file.
    keeping: Mutex<Keeping>,
    ended: watch::Receiver<()>,
}

/// The initial contents behind a door.
struct Inside {
    pages: Arc<Pages>,
    sessions: Sessions,
    /// The file of the sessions.
    file: PathBuf,
}

impl Door {
    fn new(ours: Ours, guard: Option<Guard>, inside: Inside) -> (Arc<Self>, watch::Sender<()>) {
        let Inside { pages, sessions, file } = inside;
        let (ends, ended) = watch::channel(());
        let mut keeping = Keeping::new(file, ours.port);
        keeping.save(sessions.kept());
        let (sessions, keeping, pages) = (Mutex::new(sessions), Mutex::new(keeping), Mutex::new(pages));
        (Arc::new(Door { ours, guard, pages, sessions, keeping, ended }), ends)
    }

    /// Saves the sessions if they have changed, on a thread that may block.
    async fn kept(self: &Arc<Self>) {
        if self.sessions.lock().is_changed() {
            let door = self.clone();
            let _ = tokio::task::spawn_blocking(move || door.keep()).await;
        }
    }

    /// Saves the sessions if they have changed. One save at a time: an older state never overwrites a newer one.
    fn keep(&self) {
        let mut keeping = self.keeping.lock();
        let sessions = self.sessions.lock().take_changed();
        if let Some(sessions) = sessions {
            keeping.save(sessions);
        }
    }
}

impl Web {
    /// Serves the pages, if they are not served yet, and invites one browser.
    pub async fn invite(&self, drives: Shared, request: api::ServeWeb) -> Result<api::WebAddress, Failure> {
        let pages = Arc::new(Pages::find()?);
        let mut serving = self.serving.lock().await;
        take_up(&mut serving, drives.clone()).await;
        let stays = |serving: &Serving| request.port.is_none_or(|port| port == serving.door.ours.port);
        match &*serving {
            Some(serving) if stays(serving) => *serving.door.pages.lock() = pages,
            _ => *serving = Some(serve(drives, request.port, pages, Sessions::default()).await?),
        }
        let door = &serving.as_ref().expect("it is served from here on").door;
        let token = door.sessions.lock().invite(Now::read());
        Ok(api::WebAddress {
            url: format!("http://127.0.0.1:{}/?token={token}", door.ours.port),
            port: door.ours.port,
            token_lifetime_ms: TOKEN_LIVES.as_millis() as u64,
        })
    }

    /// Serves them to browsers of other computers, and makes the next daemon do so. Signs out everybody who signed in with another
    /// password.
    pub async fn listen(
        &self,
        drives: Shared,
        request: api::ListenWeb,
    ) -> Result<api::ListeningWeb, Failure> {
        let pages = Arc::new(Pages::find()?);
        let mut serving = self.listening.lock().await;
        let asked = tokio::task::spawn_blocking(move || Listening::of(&request)).await;
        let mut asked = asked.map_err(|error| failures::local(&std::io::Error::other(error)))??;
        let state = drives.paths().state.clone();
        // An invalid request is reported before the former listener ends, unless both use the same port.
        if serving.as_ref().is_some_and(|former| former.door.ours.port == asked.address.port()) {
            end(&mut serving).await;
        }
        let begun = match begin_to_listen(&mut asked, &state).await {
            Ok((listener, identity)) => {
                end(&mut serving).await;
                // The sessions first: after a power cut in between, no old session may continue under the new password.
                let others = state.join(keeping::OTHERS);
                let noted = keeping::delete(&others).and_then(|()| asked.save(&state));
                noted.map(|()| (listener, identity, others)).map_err(|error| failures::local(&error))
            }
            Err(failure) => Err(failure),
        };
        match begun {
            Ok((listener, identity, file)) => {
                let inside = Inside { pages, sessions: Sessions::default(), file };
                *serving = Some(listen(drives, &asked, listener, identity.as_ref(), inside));
                Ok(asked.told(identity.as_ref()))
            }
            // The pages are served again as the file still says.
            Err(failure) => {
                let again = take_up_listening(&mut serving, drives).await;
                again.unwrap_or_else(|failure| tracing::warn!(message = failure.message, "{NOT_LISTENING}"));
                Err(failure)
            }
        }
    }

    /// Serves them again at the ports of a former daemon, to the sessions of that time. Waits for a network that is not there yet.
    pub async fn resume(&self, drives: Shared) {
        take_up(&mut *self.serving.lock().await, drives.clone()).await;
        let mut told = String::new();
        loop {
            let begun = take_up_listening(&mut *self.listening.lock().await, drives.clone()).await;
            let Err(failure) = begun else { return };
            if failure.message != told {
                tracing::warn!(message = failure.message, "{NOT_LISTENING}");
                told = failure.message;
            }
            tokio::time::sleep(RESUME_EVERY).await;
        }
    }

    /// Stops serving them, now and in the next daemon. Signs everybody out and frees the ports.
    pub async fn stop(&self, state: &Path) -> Result<(), Failure> {
        // Both locks first: a listener that begins at the same time ends with it.
        let (mut serving, mut listening) = (self.serving.lock().await, self.listening.lock().await);
        let deleted = [
            Listening::forget(state),
            forget(&mut serving, &state.join(keeping::OWN)).await,
            forget(&mut listening, &state.join(keeping::OTHERS)).await,
        ];
        deleted.into_iter().collect::<Result<(), _>>().map_err(|error| failures::local(&error))
    }

    /// Stops serving them in this daemon.
    pub async fn end(&self) {
        end(&mut *self.serving.lock().await).await;
        end(&mut *self.listening.lock().await).await;
    }
}

/// The port and the certificate. The port first: if the port is taken, the certificate stays the one that browsers know.
async fn begin_to_listen(
    listening: &mut Listening,
    state: &Path,
) -> Result<(TcpListener, Option<Identity>), Failure> {
    let listener = listening::bind(listening.address).await?;
    listening.address = listener.local_addr().map_err(|error| failures::local(&error))?;
    let (mut own, state) = (listening.clone(), state.to_owned());
    let made =
        tokio::task::spawn_blocking(move || own.identity(&state).map(|identity| (own, identity))).await;
    let (own, identity) = made.map_err(|error| failures::local(&std::io::Error::other(error)))??;
    *listening = own;
    Ok((listener, identity))
}

/// Listens where a former daemon did, unless this one listens already.
async fn take_up_listening(serving: &mut Option<Serving>, drives: Shared) -> Result<(), Failure> {
    let state = drives.paths().state.clone();
    let (None, Some(mut known)) = (&*serving, Listening::recall(&state)) else { return Ok(()) };
    let (listener, identity) = begin_to_listen(&mut known, &state).await?;
    known.save(&state).map_err(|error| failures::local(&error))?;
    let file = state.join(keeping::OTHERS);
    let kept = keeping::recall(&file).map(|served| served.sessions).unwrap_or_default();
    let sessions = Sessions::recall(&kept, Now::read());
    let inside = Inside { pages: Arc::new(Pages::find()?), sessions, file };
    *serving = Some(listen(drives, &known, listener, identity.as_ref(), inside));
    Ok(())
}

async fn end(serving: &mut Option<Serving>) {
    if let Some(mut ended) = serving.take() {
        ended.listener.abort();
        let _ = (&mut ended.listener).await;
    }
}

/// Ends it, and deletes the file that would let the next daemon continue.
async fn forget(serving: &mut Option<Serving>, file: &Path) -> std::io::Result<()> {
    let deleted = match &*serving {
        Some(serving) => serving.door.keeping.lock().delete(),
        None => keeping::delete(file),
    };
    end(serving).await;
    deleted
}

/// Continues where a former daemon has ended, unless this one serves already. At another port the browsers would not find the pages.
async fn take_up(serving: &mut Option<Serving>, drives: Shared) {
    if serving.is_some() {
        return;
    }
    let Some(served) = keeping::recall(&drives.paths().state.join(keeping::OWN)) else { return };
    let sessions = Sessions::recall(&served.sessions, Now::read());
    let again = match Pages::find() {
        Ok(pages) => serve(drives, Some(served.port), Arc::new(pages), sessions).await,
        Err(failure) => Err(failure),
    };
    match again {
        Ok(again) => *serving = Some(again),
        Err(failure) => {
            let message = failure.message;
            tracing::warn!(message, "the pages are not served until you run holdall web");
        }
    }
}

/// Serves browsers on this computer.
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
    let inside = Inside { pages, sessions, file: state.join(keeping::OWN) };
    let (door, ends) = Door::new(Ours { port, to: To::Invited }, None, inside);
    let router = router(drives, door.clone());
    let listener = tokio::spawn(async move {
        // Ends only by being aborted.
        let _ = axum::serve(OwnPeers(listener), router).await;
    });
    Ok(Serving { door, listener, _ends: ends })
}

/// Serves browsers of any computer.
fn listen(
    drives: Shared,
    listening: &Listening,
    listener: TcpListener,
    identity: Option<&Identity>,
    inside: Inside,
) -> Serving {
    let to = To::Known { by_proxy: identity.is_none() };
    let guard = Guard::new(listening.password.clone());
    let (door, ends) = Door::new(Ours { port: listening.address.port(), to }, Some(guard), inside);
    let router = router(drives.clone(), door.clone());
    let (config, follow) = match identity {
        None => (None, None),
        Some(identity) => {
            let (used, config) = watch::channel(identity.config.clone());
            let followed =
                listening.files().map(|files| Followed::new(files.clone(), identity.fingerprint.clone()));
            (Some(config), followed.map(|followed| (followed, used)))
        }
    };
    let served = listening::serve(listener, config, router);
    let listener = tokio::spawn(async move {
        match follow {
            None => served.await,
            Some((followed, used)) => tokio::select! {
                () = served => {}
                () = follow_renewals(drives, followed, used) => {}
            },
        }
    });
    Serving { door, listener, _ends: ends }
}

/// Uses a renewed certificate for new connections, and tells about files that cannot be used.
async fn follow_renewals(drives: Shared, mut followed: Followed, used: watch::Sender<Arc<ServerConfig>>) {
    loop {
        tokio::time::sleep(renewal::LOOK_EVERY).await;
        let looking = tokio::task::spawn_blocking(move || {
            let found = followed.look();
            (followed, found)
        });
        // A look that panics ends the following, and not the serving.
        let Ok((after, found)) = looking.await else { return std::future::pending().await };
        followed = after;
        match found {
            None => {}
            Some(Ok(identity)) => {
                tracing::info!(fingerprint = identity.fingerprint, "the pages have a renewed certificate");
                used.send_replace(identity.config);
            }
            Some(Err(why)) => {
                tracing::warn!(why, "the new certificate for the pages cannot be used");
                let told = format!(
                    "The new certificate for the pages cannot be used: {why}. The former one stays in use."
                );
                drives.activity().note(None, api::ActivityKind::Attention, told);
            }
        }
    }
}

/// Listens at the port that was asked for; otherwise at the last port, unless another program has it now; otherwise at any port.
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
        format!("Port {port} of 127.0.0.1 cannot be used: {}.", crate::api::words::why(error)),
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
    let mut router = endpoints::routes().fallback(fallback).with_state(drives.clone());
    if door.guard.is_some() {
        let form = get(sign_in::page).post(sign_in::enter).layer(DefaultBodyLimit::max(sign_in::BODY_MAX));
        let sign_in =
            Router::new().route(sign_in::PATH, form).route(sign_in::STYLE_PATH, get(sign_in::style));
        router = router.merge(sign_in.with_state((door.clone(), drives)));
    }
    router.layer(middleware::from_fn_with_state(door, admit))
}

/// Admits a request or refuses it.
async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let verdict = admission::judge(
        &Asks::of(request.method(), request.uri(), request.headers()),
        door.ours,
        &mut door.sessions.lock(),
        Now::read(),
    );
    // Before the answer: the next daemon must know every session that a browser knows.
    door.kept().await;
    let mut response = match verdict {
        Verdict::Pass => until(door.ended.clone(), next.run(request).await),
        Verdict::Begin { cookie } => begin(&cookie),
        Verdict::Refuse(failure) => Refused(failure).into_response(),
        Verdict::SignIn => Redirect::to(sign_in::PATH).into_response(),
        Verdict::BadInvitation => (StatusCode::FORBIDDEN, pages::stale_invitation()).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Redirects a browser that has used its invitation to the address without the token, so that no history keeps it.
fn begin(cookie: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/")]).into_response()
}

/// The response, but ended when the port is closed: a stream of events would otherwise continue forever.
fn until(mut ended: watch::Receiver<()>, response: Response) -> Response {
    response.map(|body| {
        let gone = Box::pin(async move { while ended.changed().await.is_ok() {} });
        Body::from_stream(body.into_data_stream().take_until(gone))
    })
}
