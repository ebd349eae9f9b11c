//! Reads objects, whole and in part.

use super::body::{self, Part, Unfit};
use super::client::S3Client;
use super::meaning::Verb;
use super::{limits, transport};
use crate::pace::HeldUp;
use crate::{Etag, Fetched, StoreError};
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::primitives::ByteStream;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// Memory that is reserved on the server's word alone: more than most objects have.
const RESERVED_BYTES_MAX: u64 = 8 << 20;

impl S3Client {
    /// The object, or the bytes `range` of it.
    pub(crate) async fn read(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let damaged = |reason| StoreError::Damaged { name: name.to_owned(), reason };
        let header = match &range {
            Some(range) if range.is_empty() => {
                // A range header cannot ask for nothing.
                let len = self.len(name).await?;
                return if range.end <= len {
                    Ok(Fetched { bytes: Bytes::new(), etag: Etag(String::new()) })
                } else {
                    Err(damaged(format!("it has {len} bytes, where {} were expected", range.end)))
                };
            }
            range => range.as_ref().map(|range| format!("bytes={}-{}", range.start, range.end - 1)),
        };
        let request = self.sdk.get_object().bucket(&self.bucket).key(self.key(name)).set_range(header);
        // The body shares the pauses of the request that brought its head.
        let held_up = HeldUp::default();
        let answer = self.part_within(&held_up, 0, request.send()).await?;
        let answer = answer.map_err(|error| self.explain(Verb::Read, name, &error))?;
        let etag = self.etag(answer.e_tag)?;
        let length = answer.content_length.and_then(|length| u64::try_from(length).ok());
        let part = body::part(range.as_ref(), answer.content_range.as_deref(), length);
        let part = part.map_err(|unfit| match unfit {
            Unfit::Damaged(reason) => damaged(reason),
            Unfit::Strange(what) => StoreError::Unreachable { reason: format!("{}: {what}", self.host) },
        })?;
        let bytes_max = part.skip + part.take.unwrap_or(limits::OBJECT_BYTES_MAX);
        let bytes = self.part_within(&held_up, bytes_max, self.body(answer.body, part)).await??;
        Ok(Fetched { bytes, etag })
    }

    /// The object's length, without its body.
    pub(crate) async fn len(&self, name: &str) -> Result<u64, StoreError> {
        let request = self.sdk.head_object().bucket(&self.bucket).key(self.key(name));
        match self.within(0, request.send()).await? {
            Ok(answer) => {
                self.etag(answer.e_tag)?;
                let length = answer.content_length.and_then(|length| u64::try_from(length).ok());
                length.ok_or_else(|| self.unreachable("does not say how long the object is"))
            }
            // A server that asks to wait, or fails, has nothing more to say.
            Err(SdkError::ServiceError(context)) if !has_said_all(context.raw().status().as_u16()) => {
                self.look(name).await
            }
            Err(error) => Err(self.explain(Verb::Read, name, &error)),
        }
    }

    /// The wanted part of a body: exactly as many bytes as were announced.
    pub(crate) async fn body(&self, mut body: ByteStream, part: Part) -> Result<Bytes, StoreError> {
        let mut bytes = BytesMut::with_capacity(part.take.unwrap_or(0).min(RESERVED_BYTES_MAX) as usize);
        let mut skip = part.skip;
        while let Some(piece) = body.next().await {
            let broken = |error| StoreError::Unreachable {
                reason: transport::reason(&error, &self.host, self.is_right_scheme()),
            };
            let mut piece = piece.map_err(broken)?;
            let skipped = skip.min(piece.len() as u64);
            skip -= skipped;
            let _ = piece.split_to(skipped as usize);
            bytes.extend_from_slice(&piece);
            match part.take {
                Some(take) if part.cut && bytes.len() as u64 >= take => {
                    bytes.truncate(take as usize);
                    break;
                }
                Some(take) if bytes.len() as u64 > take => break,
                None if bytes.len() as u64 > limits::OBJECT_BYTES_MAX => break,
                _ => {}
            }
        }
        let len = bytes.len() as u64;
        match part.take {
            Some(take) if take != len => {
                Err(self.unreachable(&format!("sent {len} bytes instead of {take}")))
            }
            None if len > limits::OBJECT_BYTES_MAX => Err(self.unreachable("sends without end")),
            _ => Ok(bytes.freeze()),
        }
    }

    /// The answer to a HEAD has only a status: asks again in a way that lets the server say more.
    async fn look(&self, name: &str) -> Result<u64, StoreError> {
        let request = self.sdk.get_object().bucket(&self.bucket).key(self.key(name)).range("bytes=0-0");
        match self.within(0, request.send()).await? {
            Err(error) => Err(self.explain(Verb::Read, name, &error)),
            Ok(_) => {
                Err(self
                    .unreachable("contradicts itself: it has the object, and refuses to say how long it is"))
            }
        }
    }
}

/// Whether the status of an answer to a HEAD says everything.
fn has_said_all(status: u16) -> bool {
    status == 429 || status >= 500
}
