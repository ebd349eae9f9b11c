//! The answer to a request while it is being worked on: progress lines, then the result or the failure.
//!
//! **The work is a task of its own.** If the client disconnects, the work continues to its end, because half of most things is worse than
//! all of them. Only waiting for the store takes long, and [`Work::unless_interrupted`] is for that: the wait ends when the client has
//! disconnected or the daemon is ending, and the work leaves everything whole before it answers with [`Code::Interrupted`].

use super::failure::failure;
use crate::api::{Action, Code, Failure, Line, Progress, Unit};
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use holdall_gui::advice;
use serde::Serialize;
use std::convert::Infallible;
use std::future::Future;
use tokio::sync::{mpsc, watch};

/// Progress that was not read yet; more is dropped, as newer progress will come.
const LINES: usize = 16;

/// Reports progress, and knows whether the client still waits.
#[derive(Clone)]
pub struct Work {
    lines: mpsc::Sender<Line>,
    ending: watch::Receiver<bool>,
}

impl Work {
    /// Reports the result of work that continues until it is interrupted.
    pub async fn result<T: Serialize>(&self, value: T) {
        let _ = self.lines.send(result_line(Ok(value))).await;
    }

    /// Reports that `done` of `total` is done.
    pub fn progress(&self, stage: &str, done: u64, total: u64, unit: Unit) {
        let progress = Progress { stage: stage.to_owned(), done, total, unit };
        // A slow reader misses some.
        let _ = self.lines.try_send(Line::Progress(progress));
    }

    /// Waits, unless the client disconnects or the daemon is ending: then `waiting` is dropped, which must leave things whole, and
    /// `consequence` says what that means.
    pub async fn unless_interrupted<T>(
        &self,
        consequence: &str,
        waiting: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let message = tokio::select! { biased;
            done = waiting => return Ok(done),
            () = self.lines.closed() => "The client that asked for it has disconnected.",
            () = told(self.ending.clone()) => "The background service is stopping.",
        };
        Err(failure(Code::Interrupted, message, consequence, Action::Status))
    }
}

/// Returns once the daemon is ending.
async fn told(mut ending: watch::Receiver<bool>) {
    if ending.wait_for(|&ending| ending).await.is_err() {
        // The sender is gone without announcing an end.
        std::future::pending().await
    }
}

/// Answers with newline-delimited JSON.
pub fn answer<T, F>(ending: watch::Receiver<bool>, work: impl FnOnce(Work) -> F) -> Response
where
    T: Serialize + Send,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let (lines, receive) = mpsc::channel(LINES);
    let last = lines.clone();
    // The daemon ends once nobody has one of these, so that waiting clients get the last line.
    let unheard = ending.clone();
    let working = work(Work { lines, ending });
    tokio::spawn(async move {
        let line = result_line(working.await);
        // The client may have disconnected.
        let _ = last.send(line).await;
    });
    let stream = stream::unfold((receive, unheard), |(mut receive, unheard)| async move {
        let line = receive.recv().await?;
        Some((Ok::<_, Infallible>(encode(&line)), (receive, unheard)))
    });
    let content = [(header::CONTENT_TYPE, LINES_TYPE)];
    (content, Body::from_stream(stream)).into_response()
}

/// The media type of newline-delimited JSON.
pub const LINES_TYPE: &str = "application/x-ndjson";

fn result_line<T: Serialize>(result: Result<T, Failure>) -> Line {
    match result {
        Ok(value) => Line::Result(serde_json::to_value(value).expect("the API's types become JSON")),
        Err(failure) => Line::Error(advice::shown(failure)),
    }
}

fn encode(line: &Line) -> String {
    serde_json::to_string(line).expect("the API's types become JSON") + "\n"
}

/// A request that was refused before any work began.
pub struct Refused(pub Failure);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(failure) = self;
        let status =
            StatusCode::from_u16(failure.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(advice::shown(failure))).into_response()
    }
}
