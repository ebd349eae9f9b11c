//! Signing in with a password.

use super::admission::{Ours, To};
use super::password::Hashed;
use super::peer::Ends;
use super::sessions::Now;
use super::tries::{Tries, Try};
use super::{Door, begin};
use crate::api::ActivityKind;
use crate::daemon::Shared;
use axum::Extension;
use axum::extract::{Form, FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

/// The path of the sign-in page.
pub const PATH: &str = "/sign-in";
/// The path of its style sheet.
pub const STYLE_PATH: &str = "/sign-in.css";
/// The most bytes of a request with a password.
pub const BODY_MAX: usize = 4096;

/// The most tries that wait for their turn; each takes a tenth of a second. Others must come back later.
const WAITING_MAX: usize = 16;
const FULL_WAIT: Duration = Duration::from_secs(5);
/// How long the form's few bytes may take.
const BODY_LIMIT: Duration = Duration::from_secs(15);

/// The password, and who tries it.
pub struct Guard {
    password: Hashed,
    // Held for a look-up.
    tries: Mutex<Tries>,
    /// One after another: each takes 64 MiB, and trying from many places is no faster.
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// The form that the page sends.
#[derive(Deserialize)]
pub struct Given {
    password: String,
}

impl Guard {
    /// The guard of a password.
    pub fn new(password: Hashed) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { password, tries: Mutex::default(), turn: places(1), waiting: places(WAITING_MAX) }
    }

    /// Counts the try, and says whether it is the client's last before it has to wait.
    fn begin(&self, from: IpAddr) -> Result<(OwnedSemaphorePermit, bool), Duration> {
        let waiting = self.waiting.clone().try_acquire_owned().map_err(|_| FULL_WAIT)?;
        match self.tries.lock().begin(from, Instant::now()) {
            Try::Allowed { is_last } => Ok((waiting, is_last)),
            Try::Wait(left) => Err(left),
        }
    }

    /// Whether the password is right. The check runs to its end even if the client does not wait for the answer.
    async fn is_right(&self, waiting: OwnedSemaphorePermit, password: Zeroizing<String>) -> bool {
        let (turn, hashed) = (self.turn.clone(), self.password.clone());
        let checked = tokio::spawn(async move {
            let turn = turn.acquire_owned().await;
            let work = move || {
                let _places = (waiting, turn);
                hashed.is_of(&password)
            };
            tokio::task::spawn_blocking(work).await
        });
        matches!(checked.await, Ok(Ok(true)))
    }
}

/// The sign-in page.
pub async fn page() -> Response {
    show(StatusCode::OK, None)
}

/// Its style sheet.
pub async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

/// Signs in a browser that sends the right password.
pub async fn enter(
    State((door, drives)): State<(Arc<Door>, Shared)>,
    Extension(ends): Extension<Ends>,
    request: Request,
) -> Response {
    let from = client(ends.peer.ip(), || ends.may_be_proxy(), door.ours, request.headers());
    // A client that announces more data and sends nothing would keep a place.
    let given = tokio::time::timeout(BODY_LIMIT, Form::<Given>::from_request(request, &())).await;
    let (Some(guard), Ok(Ok(Form(given)))) = (&door.guard, given) else {
        return show(StatusCode::BAD_REQUEST, Some("The page's answer could not be understood. Try again."));
    };
    let password = Zeroizing::new(given.password);
    let (waiting, is_last) = match guard.begin(from) {
        Ok(begun) => begun,
        Err(left) => return wait(left),
    };
    if is_last {
        let told =
            format!("There were several attempts to sign in to the pages from {}.", from.to_canonical());
        tracing::warn!(%from, "several tries to sign in to the pages");
        drives.activity().note(None, ActivityKind::Attention, told);
    }
    if !guard.is_right(waiting, password).await {
        tracing::info!(%from, "a wrong password for the pages");
        return show(StatusCode::FORBIDDEN, Some("This is not the password."));
    }
    guard.tries.lock().was_right(from);
    tracing::info!(%from, "a browser has signed in");
    let secret = door.sessions.lock().sign_in(Now::read());
    door.kept().await;
    begin(&door.ours.cookie(&secret))
}

/// The client of a request. A proxy on this computer appends its client to the list that it has received. Other local programs could name
/// any client, to try passwords without waiting or to make another client wait, so they count as themselves.
fn client(peer: IpAddr, may_be_proxy: impl Fn() -> bool, ours: Ours, headers: &HeaderMap) -> IpAddr {
    if ours.to != (To::Known { by_proxy: true }) || !may_be_proxy() {
        return peer;
    }
    let forwarded = headers.get_all("x-forwarded-for").iter().next_back();
    let last = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    last.unwrap_or(peer)
}

fn wait(left: Duration) -> Response {
    let seconds = left.as_secs().max(1);
    let told = format!("There were too many attempts. Wait {seconds} s, then try again.");
    let mut response = show(StatusCode::TOO_MANY_REQUESTS, Some(&told));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn show(status: StatusCode, told: Option<&str>) -> Response {
    let told = told.map(|told| format!("<p role=\"alert\">{told}</p>")).unwrap_or_default();
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Sign in to Holdall</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"{STYLE_PATH}\">\
         <main><h1>Holdall</h1><form method=\"post\" action=\"{PATH}\">\
         <label for=\"password\">Password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required autofocus>\
         {told}<button>Sign in</button></form>\
         <p class=\"soft\">It was chosen with <code>holdall web --listen</code>. If you have forgotten it, choose another one with the same \
         command.</p></main></html>"
    );
    // With "no-referrer" browsers would send no Origin with the form.
    (status, [(header::REFERRER_POLICY, "same-origin")], Html(page)).into_response()
}

const STYLE: &str = "\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; background: light-dark(#f4f1ea, #16191a); color: light-dark(#1d2426, #e8e6e1); }
main { max-width: 22rem; margin: 15vh auto 0; padding: 0 1rem; }
form { display: grid; gap: 0.6rem; }
label { font-weight: 600; }
input, button { font: inherit; padding: 0.55rem 0.8rem; border-radius: 0.4rem; border: 1px solid light-dark(#8b8778, #6d7375); }
button { background: #0d5c63; color: #fff; border-color: #0d5c63; font-weight: 600; cursor: pointer; }
:focus-visible { outline: 2px solid light-dark(#0d5c63, #6fc3ca); outline-offset: 2px; }
[role=alert] { margin: 0; color: light-dark(#a3271f, #ff9d94); }
.soft { color: light-dark(#5d6466, #a5abad); font-size: 0.875rem; }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proxy_says_who_asks() {
        let (proxy, other): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "192.0.2.9".parse().unwrap());
        let mut headers = HeaderMap::new();
        let ours = |by_proxy| Ours { port: 8443, to: To::Known { by_proxy } };
        assert_eq!(client(proxy, || true, ours(true), &headers), proxy);
        headers.append("x-forwarded-for", HeaderValue::from_static("198.51.100.1, 203.0.113.7"));
        headers.append("x-forwarded-for", HeaderValue::from_static("10.0.0.1, 192.0.2.9"));
        assert_eq!(
            client(proxy, || true, ours(true), &headers),
            other,
            "the last is what the proxy has seen"
        );
        assert_eq!(client(proxy, || false, ours(true), &headers), proxy, "a person's program is no proxy");
        assert_eq!(client(proxy, || true, ours(false), &headers), proxy, "anybody can say anything");
    }

    #[tokio::test]
    async fn a_client_that_leaves_has_used_its_try() {
        let guard = Guard::new(Hashed::of("the password"));
        let here = "192.0.2.9".parse().unwrap();
        for _ in 0..WAITING_MAX {
            let Ok((waiting, _)) = guard.begin(here) else { break };
            // Dropped like a handler whose client has disconnected.
            let _ = futures_util::FutureExt::now_or_never(guard.is_right(waiting, Zeroizing::default()));
        }
        let left = WAITING_MAX - guard.waiting.available_permits();
        assert!(left >= 4, "they still wait for their turn: {left}");
        assert!(guard.begin(here).is_err());
        while guard.waiting.available_permits() < WAITING_MAX {
            tokio::task::yield_now().await;
        }
    }
}
