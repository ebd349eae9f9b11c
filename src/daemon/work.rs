//! A request's answer while it is being worked on: progress lines, then the result or the failure. When whoever asked
//! goes away, the work is dropped where it stands; every step of it leaves things whole.

use crate::api::{Failure, Line, Progress, Unit};
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::future::Future;
use tokio::sync::mpsc;

/// Progress that is not taken yet; more is dropped, as a newer one will come.
const LINES: usize = 16;

/// Tells how far it is.
#[derive(Clone)]
pub struct Work {
    lines: mpsc::Sender<Line>,
}

impl Work {
    /// Tells the result of work that then goes on until whoever asked goes away.
    pub async fn result<T: Serialize>(&self, value: T) {
        let _ = self.lines.send(result_line(Ok(value))).await;
    }

    /// So much of so much is done.
    pub fn progress(&self, stage: &str, done: u64, total: u64, unit: Unit) {
        let progress = Progress { stage: stage.to_owned(), done, total, unit };
        // A reader that is slow misses some.
        let _ = self.lines.try_send(Line::Progress(progress));
    }
}

/// Answers with newline-delimited JSON.
pub fn answer<T, F>(work: impl FnOnce(Work) -> F) -> Response
where
    T: Serialize,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let (lines, receive) = mpsc::channel(LINES);
    let last = work(Work { lines });
    let stream = stream::unfold(Some((receive, Box::pin(last))), |state| async move {
        let (mut receive, mut last) = state?;
        tokio::select! { biased;
            Some(line) = receive.recv() => Some((encode(&line), Some((receive, last)))),
            result = &mut last => Some((encode(&result_line(result)), None)),
        }
    });
    let content = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (content, Body::from_stream(stream)).into_response()
}

fn result_line<T: Serialize>(result: Result<T, Failure>) -> Line {
    match result {
        Ok(value) => Line::Result(serde_json::to_value(value).expect("the API's types become JSON")),
        Err(failure) => Line::Error(failure),
    }
}

fn encode(line: &Line) -> Result<String, std::convert::Infallible> {
    Ok(serde_json::to_string(line).expect("the API's types become JSON") + "\n")
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(self)).into_response()
    }
}
