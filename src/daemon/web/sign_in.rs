//! Signing in with a password.

use super::password::Hashed;
use super::sessions::Now;
use super::tries::{Tries, Try};
use super::{Door, begin};
use crate::api::ActivityKind;
use crate::daemon::Shared;
use axum::Extension;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// Where people sign in.
pub const PATH: &str = "/sign-in";
/// How this page looks.
pub const STYLE_PATH: &str = "/sign-in.css";
/// What a password may take of a request.
pub const BODY_MAX: usize = 4096;

/// So many wait for their turn; each of them takes a tenth of a second.
const WAITING_MAX: usize = 16;

/// The password, and who tries it.
pub struct Guard {
    password: Hashed,
    // Held for a look-up.
    tries: Mutex<Tries>,
    /// One after another: each takes 64 MiB, and nobody can try faster by asking from many places.
    turn: Semaphore,
    waiting: Semaphore,
}

/// What became of a try.
enum Checked {
    Right,
    Wrong { is_last: bool },
    Wait(Duration),
}

/// What the page sends.
#[derive(Deserialize)]
pub struct Given {
    password: String,
}

impl Guard {
    /// For a password.
    pub fn new(password: Hashed) -> Self {
        let (turn, waiting) = (Semaphore::new(1), Semaphore::new(WAITING_MAX));
        Self { password, tries: Mutex::default(), turn, waiting }
    }

    async fn check(&self, from: IpAddr, password: String) -> Checked {
        let password = Zeroizing::new(password);
        let Ok(_waiting) = self.waiting.try_acquire() else { return Checked::Wait(Duration::from_secs(5)) };
        let begun = self.tries.lock().begin(from, Instant::now());
        let is_last = match begun {
            Try::Allowed { is_last } => is_last,
            Try::Wait(left) => return Checked::Wait(left),
        };
        let _turn = self.turn.acquire().await;
        let hashed = self.password.clone();
        let is_right = tokio::task::spawn_blocking(move || hashed.is_of(&password)).await;
        if !matches!(is_right, Ok(true)) {
            return Checked::Wrong { is_last };
        }
        self.tries.lock().was_right(from);
        Checked::Right
    }
}

/// The page.
pub async fn page() -> Response {
    show(StatusCode::OK, None)
}

/// How it looks.
pub async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

/// Lets a browser in that knows the password.
pub async fn enter(
    State((door, drives)): State<(Arc<Door>, Shared)>,
    Extension(from): Extension<SocketAddr>,
    given: Result<Form<Given>, FormRejection>,
) -> Response {
    let (Some(guard), Ok(Form(given))) = (&door.guard, given) else {
        return show(StatusCode::BAD_REQUEST, Some("The page's answer made no sense. Try again."));
    };
    match guard.check(from.ip(), given.password).await {
        Checked::Right => {
            tracing::info!(%from, "a browser has signed in");
            let secret = door.sessions.lock().sign_in(Now::read());
            door.kept().await;
            begin(&door.ours.cookie(&secret))
        }
        Checked::Wrong { is_last } => {
            tracing::warn!(%from, "a wrong password for the pages");
            if is_last {
                let told =
                    format!("Several wrong passwords for the pages came from {}.", from.ip().to_canonical());
                drives.activity().note(None, ActivityKind::Attention, told);
            }
            show(StatusCode::FORBIDDEN, Some("This is not the password."))
        }
        Checked::Wait(left) => {
            let seconds = left.as_secs().max(1);
            let told = format!("There were too many tries. Wait {seconds} s, then try again.");
            let mut response = show(StatusCode::TOO_MANY_REQUESTS, Some(&told));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
    }
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
         <p class=\"soft\">It was chosen with <code>holdall web --listen</code>. Who has forgotten it chooses another one by the same \
         command.</p></main></html>"
    );
    // With "no-referrer" browsers send no Origin along with the form.
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
