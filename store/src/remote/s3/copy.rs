//! Copies at the server: of a whole object, or of a long one in parts.
//!
//! Where the server ignores a condition of a copy, and keeps it for an upload in parts, the copy is one of these: its last request decides.

use super::S3Remote;
use super::ask::Act;
use super::head::{Head, Headers};
use super::multipart::Tags;
use super::parts::{COPY_BYTES_MAX, Cut};
use super::write::New;
use crate::remote::s3::head::with_headers;
use crate::remote::{Condition, RemoteError, RemotePath};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_sdk_s3::types::{MetadataDirective, TaggingDirective};
use futures_util::StreamExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::ops::Range;

/// Parts that the server copies at once.
const AT_ONCE: usize = 4;
/// A copy moves no bytes over the network; so long it may take, as the length of a body.
const PATIENCE_BYTES: u64 = 16 << 20;
/// Unreserved in addresses, and the separator.
const IN_SOURCE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A copy of an object.
pub(super) struct Copying<'a> {
    /// The object, as it was a moment ago.
    pub from: &'a RemotePath,
    pub from_key: String,
    pub head: &'a Head,
    /// Where to.
    pub to: &'a RemotePath,
    pub to_key: String,
    /// What the copy has beside its bytes.
    pub headers: Headers,
    pub when: Condition,
}

impl S3Remote {
    /// Whether the server sees to a condition of a copy of `head`.
    pub(super) fn keeps_copy_condition(&self, head: &Head) -> bool {
        let in_parts = if head.version.len == 0 { self.abilities.put } else { self.abilities.complete };
        (self.abilities.copy && head.version.len <= COPY_BYTES_MAX) || in_parts
    }

    /// Copies. Returns the server's name for the new version.
    pub(super) async fn copy(&self, copying: &Copying<'_>) -> Result<String, RemoteError> {
        let len = copying.head.version.len;
        let is_conditional = copying.when != Condition::Always;
        if len <= COPY_BYTES_MAX && (self.abilities.copy || !is_conditional) {
            self.copy_whole(copying).await
        } else if len == 0 {
            self.put_empty(copying).await
        } else {
            self.copy_in_parts(copying).await
        }
    }

    async fn copy_whole(&self, copying: &Copying<'_>) -> Result<String, RemoteError> {
        let request = self.client.sdk.copy_object().bucket(&self.client.bucket).key(&copying.to_key);
        let request = request.copy_source(self.source(&copying.from_key));
        let request = request.copy_source_if_match(super::quoted(&copying.head.version.tag));
        let request = with_headers!(request, &copying.headers);
        let request =
            request.metadata_directive(MetadataDirective::Replace).tagging_directive(TaggingDirective::Copy);
        let request = match &copying.when {
            Condition::Always => request,
            Condition::Absent => request.if_none_match("*"),
            Condition::Matches(version) => request.if_match(super::quoted(&version.tag)),
        };
        let act = Act::write(copying.to, PATIENCE_BYTES, true);
        match self.ask(act, request.send()).await {
            Ok(answer) => {
                let copied = answer.copy_object_result();
                self.tag_of(copied.and_then(|copied| copied.e_tag()))
            }
            Err(refused) => Err(self.blamed(copying, refused.error).await),
        }
    }

    /// Two conditions can fail: the one of the source, and the one of the target.
    async fn blamed(&self, copying: &Copying<'_>, error: RemoteError) -> RemoteError {
        let from = || copying.from.clone();
        match error {
            RemoteError::NotFound(_) => RemoteError::NotFound(from()),
            RemoteError::Archived(_) => RemoteError::Archived(from()),
            RemoteError::Changed(_) => match self.head(copying.from, &copying.from_key).await {
                Ok(Some(head)) if head.version.tag == copying.head.version.tag => error,
                Ok(Some(_)) => RemoteError::Changed(from()),
                Ok(None) => RemoteError::NotFound(from()),
                Err(error) => error,
            },
            error => error,
        }
    }

    /// Nothing can be copied in parts if there is nothing.
    async fn put_empty(&self, copying: &Copying<'_>) -> Result<String, RemoteError> {
        let tagging = self.tagging(copying.from, &copying.headers).await?;
        let request = self.client.sdk.put_object().bucket(&self.client.bucket).key(&copying.to_key);
        let request = with_headers!(request, &copying.headers).set_tagging(tagging);
        let request = match &copying.when {
            Condition::Always => request,
            Condition::Absent => request.if_none_match("*"),
            Condition::Matches(version) => request.if_match(super::quoted(&version.tag)),
        };
        let request = request.body(ByteStream::new(SdkBody::empty()));
        let act = Act::write(copying.to, 0, copying.when != Condition::Always);
        let answer = self.ask(act, request.send()).await?;
        self.tag_of(answer.e_tag())
    }

    async fn copy_in_parts(&self, copying: &Copying<'_>) -> Result<String, RemoteError> {
        let Copying { from, to, head, .. } = copying;
        let len = head.version.len;
        let tagging = self.tagging(from, &copying.headers).await?;
        let new = New { headers: copying.headers.clone(), tagging, when: copying.when.clone(), len };
        let id = self.create(to, &new).await?;
        let copied = self.copied(copying, &id, Cut::to_copy(len)).await;
        if copied.is_err() {
            // Nobody has a note of this upload.
            let _ = self.abort(to, &id).await;
        }
        copied
    }

    async fn copied(&self, copying: &Copying<'_>, id: &str, cut: Cut) -> Result<String, RemoteError> {
        let Copying { from, to, head, .. } = copying;
        let parts = (1..=cut.count()).map(|number| async move {
            let (number, range) = (number as u16, cut.range(number));
            let tag = self.copy_part(to, (from, &head.version.tag), id, number, &range).await;
            tag.map(|tag| (number, tag))
        });
        let mut parts = futures_util::stream::iter(parts.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut tags = Tags::new();
        while let Some(copied) = parts.next().await {
            let (number, tag) = copied?;
            tags.insert(number, tag);
        }
        self.complete(to, id, &tags, &copying.when, cut.len).await
    }

    /// Copies bytes of one version into a part. Returns the server's name for the part.
    pub(super) async fn copy_part(
        &self,
        to: &RemotePath,
        (from, tag): (&RemotePath, &str),
        id: &str,
        number: u16,
        range: &Range<u64>,
    ) -> Result<String, RemoteError> {
        let request = self.client.sdk.upload_part_copy().bucket(&self.client.bucket).key(self.key(to));
        let request = request.upload_id(id).part_number(i32::from(number));
        let request =
            request.copy_source(self.source(&self.key(from))).copy_source_if_match(super::quoted(tag));
        let request = request.copy_source_range(format!("bytes={}-{}", range.start, range.end - 1));
        let answer = self.ask(Act::write(from, PATIENCE_BYTES, true), request.send()).await?;
        self.tag_of(answer.copy_part_result().and_then(|copied| copied.e_tag()))
    }

    pub(super) fn source(&self, key: &str) -> String {
        format!("{}/{}", self.client.bucket, utf8_percent_encode(key, IN_SOURCE))
    }
}
