//! Reading objects, whole and in part.

use super::client::DavClient;
use super::http::Request;
use super::names;
use crate::{Etag, Fetched, StoreError};
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, RANGE};
use reqwest::{Method, StatusCode};
use std::ops::Range;

/// The largest object to read as a whole.
const WHOLE_BYTES_MAX: u64 = 256 << 20;

impl DavClient {
    /// The object, or the bytes `range` of it.
    pub(crate) async fn read(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let url = names::object(self.base(), name);
        match range {
            None => self.read_whole(name, Request::new(Method::GET, url)).await,
            Some(range) if range.is_empty() => {
                Ok(Fetched { bytes: Vec::new().into(), etag: Etag(String::new()) })
            }
            Some(range) => {
                let wanted = format!("bytes={}-{}", range.start, range.end - 1);
                self.read_part(name, Request::new(Method::GET, url).with(RANGE, &wanted), range).await
            }
        }
    }

    async fn read_whole(&self, name: &str, request: Request) -> Result<Fetched, StoreError> {
        let answer = self.send(&request).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.refusal(name));
        }
        let answer = answer.no_page()?;
        let (len, etag) = (answer.content_length(), etag(&answer.headers));
        let bytes = answer.read(0, WHOLE_BYTES_MAX + 1).await?;
        let is_complete = len.is_none_or(|len| len == bytes.len() as u64);
        if !is_complete || bytes.len() as u64 > WHOLE_BYTES_MAX {
            return Err(damaged(name, format!("{} bytes came of {}", bytes.len(), len.unwrap_or_default())));
        }
        Ok(Fetched { bytes, etag })
    }

    async fn read_part(
        &self,
        name: &str,
        request: Request,
        range: Range<u64>,
    ) -> Result<Fetched, StoreError> {
        let answer = self.send(&request).await?;
        let wanted = range.end - range.start;
        let skip = match answer.status {
            StatusCode::PARTIAL_CONTENT => match content_range(&answer.headers) {
                Some((part, _)) if part == range => 0,
                Some((_, Some(len))) if len < range.end => return Err(short(name, len, range.end)),
                _ => return Err(damaged(name, "other bytes came than were asked for".into())),
            },
            // The server supports no ranges: the wanted bytes are in the middle.
            StatusCode::OK => range.start,
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let reason = format!("it has fewer than the {} bytes that were expected", range.end);
                return Err(damaged(name, reason));
            }
            _ => return Err(answer.refusal(name)),
        };
        let answer = answer.no_page()?;
        if let Some(len) = answer.content_length().filter(|len| *len < skip + wanted) {
            return Err(short(name, len, skip + wanted));
        }
        let etag = etag(&answer.headers);
        let bytes = answer.read(skip, wanted).await?;
        if bytes.len() as u64 != wanted {
            return Err(damaged(name, format!("{} bytes came of {wanted}", bytes.len())));
        }
        Ok(Fetched { bytes, etag })
    }

    /// The object's length, without its body.
    pub(crate) async fn len_of(&self, name: &str) -> Result<u64, StoreError> {
        let url = names::object(self.base(), name);
        let answer = self.send(&Request::new(Method::HEAD, url)).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.refusal(name));
        }
        let answer = answer.no_page()?;
        answer.content_length().ok_or_else(|| StoreError::Unreachable {
            reason: format!("{} does not say how long an object is", self.host()),
        })
    }

    /// The object's version, without its body; `None` if it is not there.
    pub(crate) async fn version_of(&self, name: &str) -> Result<Option<Etag>, StoreError> {
        let url = names::object(self.base(), name);
        let answer = self.send(&Request::new(Method::HEAD, url)).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(etag(&answer.no_page()?.headers))),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.refusal(name)),
        }
    }
}

/// The version that an answer names; empty if it names none.
pub(super) fn etag(headers: &HeaderMap) -> Etag {
    let value = headers.get(ETAG).and_then(|value| value.to_str().ok());
    // A server may call the same version weak now and strong a second later.
    Etag(value.map_or(String::new(), |value| value.trim_start_matches("W/").to_owned()))
}

fn damaged(name: &str, reason: String) -> StoreError {
    StoreError::Damaged { name: name.to_owned(), reason }
}

fn short(name: &str, len: u64, expected: u64) -> StoreError {
    damaged(name, format!("it has {len} bytes, where {expected} were expected"))
}

/// `bytes 3-7/20`: the part, and the whole's length unless it is `*`.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (part, len) = value.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = part.split_once('-')?;
    let end = last.trim().parse::<u64>().ok()?.checked_add(1)?;
    Some((first.trim().parse().ok()?..end, len.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn content_ranges() {
        let read =
            |value| content_range(&HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(value))]));
        assert_eq!(read("bytes 3-7/20"), Some((3..8, Some(20))));
        assert_eq!(read("bytes 3-7/*"), Some((3..8, None)));
        for broken in ["", "bytes */20", "bytes 3-18446744073709551615/20", "items 3-7/20", "bytes 3-7"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }
}
