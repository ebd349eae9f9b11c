//! The connection to the daemon: requests and streams over its socket, for the pages and for the shell itself.
//!
//! The pages get the daemon's answers unchanged. A request never starts the daemon: if a person has stopped it, a page that only reads must
//! not start it again.

use holdall_client::api::{Code, Failure, Progress};
use holdall_client::paths::Paths;
use holdall_client::request::request;
use holdall_client::start;
use holdall_gui::advice;
use holdall_gui::texts::text;
use hyper::{Method, Uri};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Notify;

pub mod sse;

/// Pauses before a stream is tried again: short at first, then often enough for a person who has just started the daemon.
const RETRY_AFTER: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
];

/// Sends a request to the daemon and returns the document or the result. `show` is called with the progress.
pub async fn call(
    paths: &Paths,
    method: &str,
    path: &str,
    body: Option<Value>,
    show: impl FnMut(Progress),
) -> Result<Value, Failure> {
    let method = checked(method, path)?;
    let stream = start::connect(paths).await.map_err(advice::shown)?.ok_or_else(no_daemon)?;
    let answer = request(stream, method, path, body.map(|body| body.to_string().into_bytes()));
    answer.await.map_err(advice::shown)?.value(show).await.map_err(advice::shown)
}

/// The method, if this is a request of the API. Pages can ask for nothing else.
pub fn checked(method: &str, path: &str) -> Result<Method, Failure> {
    let is_api = path.starts_with("/v1/") && path.parse::<Uri>().is_ok_and(|uri| uri.authority().is_none());
    match (method, is_api) {
        ("GET", true) => Ok(Method::GET),
        ("POST", true) => Ok(Method::POST),
        ("DELETE", true) => Ok(Method::DELETE),
        _ => Err(failure(Code::Usage, format!("{method} {path} is not a request of the API."))),
    }
}

/// A message from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// The stream is connected.
    Live,
    /// An event's data.
    Data(&'a str),
    /// The stream is down, and will be tried again.
    Down,
}

/// Listens to a stream, over and over, until `hear` says that it is no longer wanted. `retry` makes it try at once.
pub async fn follow(paths: &Paths, path: &str, retry: &Notify, mut hear: impl FnMut(Heard<'_>) -> bool) {
    let mut tries = 0;
    loop {
        let mut was_live = false;
        let wanted = listen(paths, path, |heard| {
            was_live = true;
            hear(heard)
        });
        if !wanted.await || !hear(Heard::Down) {
            return;
        }
        tries = if was_live { 0 } else { tries + 1 };
        let pause = RETRY_AFTER[tries.min(RETRY_AFTER.len() - 1)];
        // It does not matter whether `retry` or the timeout ended the pause.
        let _ = tokio::time::timeout(pause, retry.notified()).await;
    }
}

/// Returns, when the stream has ended, whether it is still wanted.
async fn listen(paths: &Paths, path: &str, mut hear: impl FnMut(Heard<'_>) -> bool) -> bool {
    let Ok(Some(stream)) = start::connect(paths).await else {
        return true;
    };
    let Ok(mut answer) = request(stream, Method::GET, path, None).await else {
        return true;
    };
    if !hear(Heard::Live) {
        return false;
    }
    let mut events = sse::Events::default();
    while let Ok(Some(line)) = answer.line().await {
        if let Some(data) = events.line(&line)
            && !hear(Heard::Data(&data))
        {
            return false;
        }
    }
    true
}

/// Starts the daemon if it is not running, as the command line does.
pub async fn start(paths: &Paths) -> Result<(), Failure> {
    start::connect_or_start(paths).await.map(drop).map_err(advice::shown)
}

fn no_daemon() -> Failure {
    let (message, consequence) = (text("failure.no_daemon"), text("failure.no_daemon.consequence"));
    Failure::new(Code::NoDaemon, message, consequence, text("app.no_daemon.action"))
}

/// A failure of the shell itself, which never affects data.
pub fn failure(code: Code, message: impl Into<String>) -> Failure {
    Failure::new(code, message, text("app.nothing_done"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_the_api_get_through() {
        assert_eq!(checked("POST", "/v1/drives/a%20b/open").unwrap(), Method::POST);
        assert_eq!(checked("GET", "/v1/activity?limit=3").unwrap(), Method::GET);
        for (method, path) in [
            ("PUT", "/v1/drives"),
            ("GET", "/other"),
            ("GET", "http://elsewhere/v1/drives"),
            ("GET", "/v1/a b"),
            ("GET", "/v1/\r\nX: y"),
        ] {
            assert_eq!(checked(method, path).unwrap_err().code, Code::Usage, "{method} {path}");
        }
    }

    #[test]
    fn without_a_daemon_the_failure_says_how_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name| dir.path().join(name);
        let paths = Paths { state: below("state"), cache: below("cache"), runtime: below("run") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let refused = runtime.block_on(call(&paths, "GET", "/v1/drives", None, |_| ())).unwrap_err();
        assert_eq!(refused.code, Code::NoDaemon);
        assert!(!refused.action.is_empty());
        let mut heard = Vec::new();
        runtime.block_on(follow(&paths, "/v1/overview", &Notify::new(), |what| {
            heard.push(what == Heard::Down);
            heard.len() < 2
        }));
        assert_eq!(heard, [true, true]);
    }
}
