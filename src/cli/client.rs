//! The client of the daemon: HTTP/1.1 on its socket, as `api` describes it.
//!
//! Each request has its own connection, because closing it is how a request is cancelled.

use crate::api::{Action, Code, Failure, Line, Progress};
use crate::cli::failure::CliError;
use crate::cli::progress::{Phase, Reporter};
use crate::cli::start;
use crate::paths::Paths;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

pub mod lines;

use lines::Lines;

/// A GET changes nothing: if the service ends meanwhile, the request is repeated to its successor, up to this number of requests.
const QUESTIONS_MAX: usize = 3;
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A connection to the daemon, which is started if it does not run.
pub struct Client<'a> {
    paths: &'a Paths,
    progress: &'a Reporter,
}

impl<'a> Client<'a> {
    /// Connects nothing yet.
    pub fn new(paths: &'a Paths, progress: &'a Reporter) -> Client<'a> {
        Client { paths, progress }
    }

    /// Gets the document at `path`.
    pub async fn get(&self, path: &str) -> Result<Value, CliError> {
        let mut asked = 0;
        loop {
            let stream = start::connect_or_start(self.paths).await?;
            asked += 1;
            let answer = async { request(stream, Method::GET, path, None).await?.document().await }.await;
            match answer {
                Err(CliError::Failed(failure)) if failure.code == Code::NoDaemon && asked < QUESTIONS_MAX => {
                    tokio::time::sleep(ASK_AGAIN_AFTER).await;
                }
                answer => return answer,
            }
        }
    }

    /// Posts to `path`, and shows the progress meanwhile.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, CliError> {
        self.posting(path, body).await?.result(self.progress).await
    }

    /// Begins a POST whose answer the caller reads.
    pub async fn posting(&self, path: &str, body: &impl Serialize) -> Result<Answer, CliError> {
        let body = serde_json::to_vec(body).expect("requests are plain structures of strings and numbers");
        self.send(Method::POST, path, Some(body)).await
    }

    /// Deletes what is at `path`.
    pub async fn delete(&self, path: &str) -> Result<Value, CliError> {
        let answer = self.send(Method::DELETE, path, None).await?;
        // The contract gives lines to POST and a document to GET, and leaves DELETE open.
        let result = answer.value(|step| self.progress.show(step)).await;
        self.progress.clear();
        result
    }

    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Answer, CliError> {
        let stream = start::connect_or_start(self.paths).await?;
        self.progress.enter(Phase::Requested);
        request(stream, method, path, body).await
    }
}

/// Encodes one path segment: a drive's name or a label may contain characters that are special in a URL.
pub fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Sends one request over `stream`, and waits for the head of its answer.
pub async fn request(
    stream: UnixStream,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Answer, CliError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(gone)?;
    let connection = Connection(tokio::spawn(async move {
        // The code that waits for the answer sees how it ended.
        let _ = connection.await;
    }));
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "holdall");
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .expect("paths are made of literals and encoded segments");
    let response = sender.send_request(request).await.map_err(gone)?;
    Answer::accept(response, connection).await
}

/// The answer to a request that was accepted. Dropping it cancels whatever was not committed.
pub struct Answer {
    lines: Lines<Incoming>,
    is_lines: bool,
    /// Ends with the answer.
    _connection: Connection,
}

impl Answer {
    async fn accept(response: Response<Incoming>, connection: Connection) -> Result<Answer, CliError> {
        let status = response.status();
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_lines = content_type.is_some_and(|kind| kind.starts_with("application/x-ndjson"));
        let lines = Lines::new(response.into_body());
        let answer = Answer { lines, is_lines, _connection: connection };
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.bytes().await?;
        Err(match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => CliError::Failed(failure),
            Err(_) => match serde_json::from_slice::<Line>(&body) {
                Ok(Line::Error(failure)) => CliError::Failed(failure),
                Ok(Line::Progress(_) | Line::Result(_)) | Err(_) => {
                    not_understood(&format!("it answered with HTTP status {}", status.as_u16()))
                }
            },
        })
    }

    /// The next line, without its line end.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, CliError> {
        self.lines.next().await.map_err(gone)
    }

    /// Waits for the result, and shows the progress meanwhile.
    pub async fn result(mut self, progress: &Reporter) -> Result<Value, CliError> {
        self.wait_for_result(progress).await
    }

    /// The same, but keeps the connection open: some effects last only as long as it does.
    pub async fn wait_for_result(&mut self, progress: &Reporter) -> Result<Value, CliError> {
        let result = self.outcome(|step| progress.show(step)).await;
        progress.clear();
        result
    }

    /// The result, for an answer with or without lines. Calls `show` with each progress.
    pub async fn value(mut self, show: impl FnMut(Progress)) -> Result<Value, CliError> {
        match self.is_lines {
            true => self.outcome(show).await,
            false => self.document().await,
        }
    }

    async fn outcome(&mut self, mut show: impl FnMut(Progress)) -> Result<Value, CliError> {
        while let Some(line) = self.line().await? {
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(Line::Progress(step)) => show(step),
                Ok(Line::Result(value)) => return Ok(value),
                Ok(Line::Error(failure)) => return Err(CliError::Failed(failure)),
                Err(error) => return Err(not_understood(&error.to_string())),
            }
        }
        Err(stopped("it closed the connection"))
    }

    async fn document(self) -> Result<Value, CliError> {
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| not_understood(&error.to_string()))
    }

    async fn bytes(self) -> Result<Bytes, CliError> {
        let body = http_body_util::Limited::new(self.lines.into_body(), lines::LINE_LIMIT_BYTES);
        let collected = body.collect().await.map_err(|error| stopped(&error.to_string()))?;
        Ok(collected.to_bytes())
    }
}

/// The task that moves a connection's bytes; it ends when this is dropped.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn gone(error: impl std::fmt::Display) -> CliError {
    stopped(&error.to_string())
}

fn stopped(how: &str) -> CliError {
    CliError::new(
        Code::NoDaemon,
        format!("The background service stopped before it answered ({how})."),
        "Your changes are safe on this computer. The command may or may not have taken effect.",
        [Action::Status, Action::tell("This also starts the background service again.")],
    )
}

/// The daemon speaks another version of the contract.
pub fn not_understood(why: &str) -> CliError {
    CliError::new(
        Code::Failed,
        format!("This version of holdall does not understand the background service's answer: {why}."),
        "Your data is not affected. The command may have taken effect.",
        [
            Action::tell("If Holdall was updated, the old version of the service is still running."),
            Action::Restart,
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_in_a_segment_are_encoded() {
        assert_eq!(segment("work-2.1_x~"), "work-2.1_x~");
        assert_eq!(segment("a b/c?d#é"), "a%20b%2Fc%3Fd%23%C3%A9");
    }
}
