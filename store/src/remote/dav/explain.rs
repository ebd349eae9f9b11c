//! What a refused request means for its file.

use super::multistatus::{self, LOCK_QUERY};
use super::{DEPTH, DavRemote, request};
use crate::StoreError;
use crate::dav::http::Answer;
use crate::remote::{RemoteError, RemotePath};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;

/// The part of an answer to read for people.
const WORDS_BYTES_MAX: u64 = 16 << 10;
const WORDS_CHARS_MAX: usize = 200;

impl DavRemote {
    /// The meaning of an unexpected answer to a request about `path`. After a lock, asks who has it.
    pub(super) async fn explain(&self, path: &RemotePath, answer: Answer) -> RemoteError {
        let refusal = answer.refusal(path.as_str());
        let (at, status) = (path.clone(), answer.status);
        match status.as_u16() {
            404 | 409 | 410 => {
                answer.drain().await;
                RemoteError::NotFound(at)
            }
            412 => {
                answer.drain().await;
                RemoteError::Changed(at)
            }
            413 => RemoteError::TooLarge(at),
            423 => RemoteError::Locked { path: at, by: self.who_locks(path, answer).await },
            400 | 403 | 414 | 415 | 422 => {
                let words = answer.read(0, WORDS_BYTES_MAX).await.unwrap_or_default();
                let reason = words_of(&words)
                    .unwrap_or_else(|| format!("{} refuses it ({})", self.client.host(), status.as_u16()));
                match status {
                    StatusCode::FORBIDDEN => RemoteError::Forbidden { path: at, reason },
                    _ => RemoteError::BadName { path: at, reason },
                }
            }
            _ => refusal.into(),
        }
    }

    /// The meaning of a 404 for a path that is looked at: nothing is "not found" while the root is not there.
    pub(super) async fn missing(&self, path: &RemotePath) -> RemoteError {
        if !path.is_root() {
            match self.look(&RemotePath::root()).await {
                Ok(root) if root.found.is_some() => return RemoteError::NotFound(path.clone()),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        StoreError::NoPlace { place: format!("collection at {}", self.client.base()) }.into()
    }

    /// Who has the lock that an answer reports, where the server says so.
    async fn who_locks(&self, path: &RemotePath, answer: Answer) -> Option<String> {
        if let Some(owner) = owner(&answer.read(0, WORDS_BYTES_MAX).await.unwrap_or_default()) {
            return Some(owner);
        }
        let ask = request("PROPFIND", self.url(path)).with(DEPTH, "0").with(CONTENT_TYPE, super::look::XML);
        let ask = crate::dav::http::Request { body: LOCK_QUERY.into(), ..ask };
        let answer = self.client.send(&ask).await.ok()?;
        match answer.status {
            StatusCode::MULTI_STATUS => owner(&answer.read(0, WORDS_BYTES_MAX).await.ok()?),
            _ => None,
        }
    }
}

/// The owner of a lock in an answer.
fn owner(body: &[u8]) -> Option<String> {
    let mut owner = None;
    let _ = multistatus::parse(body, |resource| {
        owner = owner.take().or(resource.lock_owner);
        Ok(())
    });
    owner.map(|owner| shown(&owner)).filter(|owner| !owner.is_empty())
}

/// The words in an error's XML; none in any other answer.
fn words_of(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(":message>")?;
    let words = shown(rest.split_once('<')?.0);
    (!words.is_empty()).then_some(words)
}

/// A server's words as one short line.
fn shown(words: &str) -> String {
    let line = words.split(|each: char| each.is_whitespace() || each.is_control());
    let line: Vec<_> = line.filter(|word| !word.is_empty()).collect();
    line.join(" ").chars().take(WORDS_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_one_short_line() {
        let text = br#"<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns"><s:message>File name
            contains "x"</s:message></d:error>"#;
        assert_eq!(words_of(text).as_deref(), Some("File name contains \"x\""));
        assert_eq!(words_of(b"<html>No</html>"), None);
        assert_eq!(shown(&"x".repeat(1000)).len(), WORDS_CHARS_MAX);
    }
}
