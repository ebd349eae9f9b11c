//! Requests to the daemon: HTTP/1.1 on its socket, as `api` describes it.
//!
//! Each request has its own connection, because closing it is how a request is cancelled.

use crate::api::{Failure, Line, Progress};
use crate::failure::{not_understood, stopped};
use crate::lines::{LINE_LIMIT_BYTES, Lines};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

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
) -> Result<Answer, Failure> {
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
    async fn accept(response: Response<Incoming>, connection: Connection) -> Result<Answer, Failure> {
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
            Ok(failure) => failure,
            Err(_) => match serde_json::from_slice::<Line>(&body) {
                Ok(Line::Error(failure)) => failure,
                Ok(Line::Progress(_) | Line::Result(_)) | Err(_) => {
                    not_understood(&format!("it answered with HTTP status {}", status.as_u16()))
                }
            },
        })
    }

    /// The next line, without its line end.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.lines.next().await.map_err(gone)
    }

    /// The result, for an answer with or without lines. Calls `show` with each progress.
    pub async fn value(mut self, show: impl FnMut(Progress)) -> Result<Value, Failure> {
        match self.is_lines {
            true => self.outcome(show).await,
            false => self.document().await,
        }
    }

    /// The result of an answer with lines. Calls `show` with each progress. The connection stays open: some effects last only as long as it
    /// does.
    pub async fn outcome(&mut self, mut show: impl FnMut(Progress)) -> Result<Value, Failure> {
        while let Some(line) = self.line().await? {
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(Line::Progress(step)) => show(step),
                Ok(Line::Result(value)) => return Ok(value),
                Ok(Line::Error(failure)) => return Err(failure),
                Err(error) => return Err(not_understood(&error.to_string())),
            }
        }
        Err(stopped("it closed the connection"))
    }

    /// The document of an answer without lines.
    pub async fn document(self) -> Result<Value, Failure> {
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| not_understood(&error.to_string()))
    }

    async fn bytes(self) -> Result<Bytes, Failure> {
        let body = http_body_util::Limited::new(self.lines.into_body(), LINE_LIMIT_BYTES);
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

fn gone(error: impl std::fmt::Display) -> Failure {
    stopped(&error.to_string())
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
