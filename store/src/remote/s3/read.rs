//! Reads of one version.

use super::S3Remote;
use super::ask::{Act, Refused};
use crate::StoreError;
use crate::pace::HeldUp;
use crate::remote::{RemoteError, RemotePath, Version};
use crate::s3::body::{self, Unfit};
use bytes::Bytes;
use std::ops::Range;

impl S3Remote {
    pub(super) async fn read_now(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        if path.is_hidden() || path.is_root() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        self.read_key(path, &self.key(path), version, range).await
    }

    /// Exactly these bytes of this version.
    pub(super) async fn read_key(
        &self,
        path: &RemotePath,
        key: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let request = self.client.sdk.get_object().bucket(&self.client.bucket).key(key);
        let request = request.if_match(super::quoted(&version.tag));
        let request = request.range(format!("bytes={}-{}", range.start, range.end - 1));
        // The body shares the pauses of the request that brought its head.
        let held_up = HeldUp::default();
        let act = Act::read(path, 0).conditional();
        let answer = self.client.part_within(&held_up, act.bytes, Box::pin(request.send())).await?;
        let answer =
            answer.map_err(|error| self.refused(act, &error)).map_err(|refused: Refused| refused.error)?;
        let changed = || RemoteError::Changed(path.clone());
        // A server that ignores the condition says which version it sends.
        if answer.e_tag().map(super::tag).as_deref() != Some(&version.tag) {
            return Err(changed());
        }
        let total = answer.content_range().and_then(|sent| sent.rsplit_once('/')?.1.trim().parse().ok());
        if total.is_some_and(|total: u64| total != version.len) {
            return Err(changed());
        }
        let length = answer.content_length().and_then(|length| u64::try_from(length).ok());
        let part = match body::part(Some(&range), answer.content_range(), length) {
            Ok(part) => part,
            Err(Unfit::Damaged(_)) => return Err(changed()),
            Err(Unfit::Strange(what)) => {
                let reason = format!("{}: {what}", self.client.host);
                return Err(StoreError::Unreachable { reason }.into());
            }
        };
        let bytes_max = part.skip + (range.end - range.start);
        let bytes = self.client.part_within(&held_up, bytes_max, self.client.body(answer.body, part)).await;
        Ok(bytes??)
    }
}
