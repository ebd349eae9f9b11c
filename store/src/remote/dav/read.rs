//! Reads: one GET of a range. All its bytes are of one version, and its head says which; where it says too little, a look does.

use super::DavRemote;
use super::version::{self, Same};
use crate::StoreError;
use crate::dav::answer;
use crate::dav::http::{Answer, Request};
use crate::dav::read::content_range;
use crate::remote::{RemoteError, RemotePath, Version};
use bytes::Bytes;
use reqwest::header::{HeaderMap, LAST_MODIFIED, RANGE};
use reqwest::{Method, StatusCode};
use std::ops::Range;

/// Where a server sends whole files only, what may lie before the bytes that are wanted.
const SKIPPED_BYTES_MAX: u64 = 16 << 20;

impl DavRemote {
    pub(super) async fn read_version(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        if path.is_hidden() || path.is_root() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let wanted = format!("bytes={}-{}", range.start, range.end - 1);
        let request = Request::new(Method::GET, self.url(path)).with(RANGE, &wanted);
        let answer = self.client.send(&request).await?;
        let changed = || RemoteError::Changed(path.clone());
        let (skip, len) = match answer.status {
            StatusCode::PARTIAL_CONTENT => match content_range(&answer.headers) {
                Some((part, len)) if part == range => (0, len),
                Some((_, Some(len))) if len != version.len => return Err(changed()),
                _ => return Err(self.unreachable("sends other bytes than it was asked for")),
            },
            StatusCode::OK => (range.start, answer.content_length()),
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(changed()),
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                answer.drain().await;
                return Err(self.missing(path).await);
            }
            _ => return Err(self.explain(path, answer).await),
        };
        let is_page = answer::is_page(&answer.headers);
        match version::compare(version, &answer.headers, len) {
            Same::Yes => {}
            // Perhaps it is not the file at all.
            Same::No if is_page => return Err(self.page_or_changed(path).await),
            Same::No => return Err(changed()),
            Same::Look => {
                let head = answer.headers.clone();
                let bytes = self.body(answer, skip, &range).await?;
                self.expect_version(path, version, &head).await?;
                return Ok(bytes);
            }
        }
        self.body(answer, skip, &range).await
    }

    async fn body(&self, answer: Answer, skip: u64, range: &Range<u64>) -> Result<Bytes, RemoteError> {
        if skip > SKIPPED_BYTES_MAX {
            return Err(RemoteError::Unsupported("send a part of a large file"));
        }
        let wanted = range.end - range.start;
        let bytes = answer.read(skip, wanted).await?;
        match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => Err(self.unreachable("sends fewer bytes than it was asked for")),
        }
    }

    /// An error unless the file is this version now, so that it was when its bytes were sent: versions do not come back.
    async fn expect_version(
        &self,
        path: &RemotePath,
        version: &Version,
        head: &HeaderMap,
    ) -> Result<(), RemoteError> {
        let looked = self.look(path).await?;
        let Some(found) = looked.found else { return Err(self.missing(path).await) };
        let written = version::date(head, LAST_MODIFIED).map(super::meta::time);
        let is_as_old =
            written.is_none() || found.entry.version.written.is_none_or(|then| Some(then) == written);
        match found.entry.version == *version && is_as_old {
            true => Ok(()),
            false => Err(RemoteError::Changed(path.clone())),
        }
    }

    /// A web page came that is not the version that was asked for.
    async fn page_or_changed(&self, path: &RemotePath) -> RemoteError {
        match self.look(path).await {
            Ok(_) => RemoteError::Changed(path.clone()),
            Err(RemoteError::Store(StoreError::Unreachable { .. })) => {
                answer::page(self.client.host()).into()
            }
            Err(error) => error,
        }
    }
}
