//! Uploads. A file is one object, and only its last request makes it visible: readers see the old file or the new one, whole.
//!
//! Before the request, a look says what stands there; the request carries the condition where the server keeps conditions; and after it,
//! another look says what the server has stored. A server that answers well and stored something else is an error.

use super::S3Remote;
use super::ask::Act;
use super::head::{Head, Headers, LINK_BYTES_MAX, name_of};
use super::meta::{self, TooMuch, Type, USER_BYTES_MAX, User};
use super::parts::{IN_PARTS_FROM, LEN_MAX};
use crate::StoreError;
use crate::remote::s3::head::with_headers;
use crate::remote::{Condition, Entry, Kind, Meta, Put, ReadAt, RemoteError, RemotePath, Version};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use md5::{Digest, Md5};
use std::ops::Range;
use std::sync::Arc;

/// The content type of a file that nothing is known of.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// A file as it is to be.
pub(super) struct New {
    pub headers: Headers,
    /// The tags of the file that is replaced.
    pub tagging: Option<String>,
    pub when: Condition,
    pub len: u64,
}

/// What an upload has become.
pub(super) struct Stored {
    /// The server's name for the version.
    pub tag: String,
    /// The file's length, in bytes.
    pub len: u64,
}

impl S3Remote {
    pub(super) async fn write_now(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        let path = put.path;
        self.expect_place(path)?;
        let (content, len) = content_of(&put)?;
        if len > LEN_MAX {
            return Err(RemoteError::TooLarge(path.clone()));
        }
        let is_conditional = self.keeps_condition(&put.when, len);
        // What is replaced has headers that are kept; a new file has none.
        let looks = !is_conditional || put.when != Condition::Absent;
        let old = self.look_before(path, &put.when, looks).await?;
        let new = self.new_file(&put, len, old).await?;
        let stored = match len < IN_PARTS_FROM {
            true => self.put_whole(path, content, &new).await?,
            false => self.put_parts(&put, &new).await?,
        };
        if len < IN_PARTS_FROM && put.meta.link.is_none() {
            put.progress.sent(len);
        }
        self.look_after(path, &stored, &new, put.meta).await
    }

    /// Whether the server itself sees to a condition of an upload of this length.
    fn keeps_condition(&self, when: &Condition, len: u64) -> bool {
        let keeps = if len < IN_PARTS_FROM { self.abilities.put } else { self.abilities.complete };
        keeps && *when != Condition::Always
    }

    async fn new_file(&self, put: &Put<'_>, len: u64, old: Option<Head>) -> Result<New, RemoteError> {
        let kind = if put.meta.link.is_some() { Type::Link } else { Type::File };
        let mut headers = old.as_ref().map(|head| head.headers.clone()).unwrap_or_default();
        let tagging = self.tagging(put.path, &headers).await?;
        if old.is_none_or(|head| head.kind != kind) {
            headers.content_type = Some(content_type(put.path, kind));
        }
        headers.user = fitting(put.path, meta::of_new_bytes(&headers.user, kind, put.meta))?;
        let when = if self.keeps_condition(&put.when, len) { put.when.clone() } else { Condition::Always };
        Ok(New { headers, tagging, when, len })
    }

    async fn put_whole(
        &self,
        path: &RemotePath,
        content: Arc<dyn ReadAt>,
        new: &New,
    ) -> Result<Stored, RemoteError> {
        let body = read_local(content, 0..new.len).await?;
        let digest = digest(&body).await;
        let request = self.client.sdk.put_object().bucket(&self.client.bucket).key(self.key(path));
        let request = with_headers!(request, &new.headers).set_tagging(new.tagging.clone());
        // Buckets with a default retention want a digest in a header, and every server knows this one.
        let request = request.content_md5(BASE64.encode(&digest));
        let request = match &new.when {
            Condition::Always => request,
            Condition::Absent => request.if_none_match("*"),
            Condition::Matches(version) => request.if_match(super::quoted(&version.tag)),
        };
        let request = request.body(ByteStream::new(SdkBody::from(body)));
        let act = Act::write(path, new.len, new.when != Condition::Always);
        match self.ask(act, request.send()).await {
            Ok(answer) => Ok(Stored { tag: self.tag_of(answer.e_tag())?, len: new.len }),
            Err(refused) => self.unless_ours(path, new, refused.error, Some(HEXLOWER.encode(&digest))).await,
        }
    }

    /// A request that was sent once more over a new connection may have met its own first try: then the server has exactly what was sent.
    pub(super) async fn unless_ours(
        &self,
        path: &RemotePath,
        new: &New,
        error: RemoteError,
        tag: Option<String>,
    ) -> Result<Stored, RemoteError> {
        if !matches!(error, RemoteError::Changed(_)) || !new.headers.user.contains_key("mtime") {
            return Err(error);
        }
        match self.head(path, &self.key(path)).await {
            Ok(Some(head)) if Some(&head.version.tag) == tag.as_ref() && is_as_sent(&head, new) => {
                Ok(Stored { tag: head.version.tag, len: new.len })
            }
            _ => Err(error),
        }
    }

    pub(super) fn tag_of(&self, etag: Option<&str>) -> Result<String, RemoteError> {
        let nameless = || self.client.unreachable("names no version of what it stored");
        Ok(etag.map(super::tag).filter(|tag| !tag.is_empty()).ok_or_else(nameless)?)
    }

    /// The entry of what was stored.
    pub(super) async fn look_after(
        &self,
        path: &RemotePath,
        stored: &Stored,
        new: &New,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        let (kind, mut shown) = meta::read(&new.headers.user);
        shown.link = meta.link.clone();
        let kind = if kind == Some(Type::Link) { Kind::Link } else { Kind::File };
        let version = self.version_after(path, stored).await?;
        Ok(Entry { name: name_of(path), kind, version, meta: Some(shown), is_writable: true })
    }

    /// The version that a change has made, as every later look shows it. Somebody may have replaced it since: then it is the one that the
    /// answer named.
    pub(super) async fn version_after(
        &self,
        path: &RemotePath,
        stored: &Stored,
    ) -> Result<Version, RemoteError> {
        let wrong = |what: String| RemoteError::from(StoreError::Unreachable { reason: what });
        let host = &self.client.host;
        match self.head(path, &self.key(path)).await? {
            None => Err(wrong(format!("{host} says that it has stored {path}, and does not have it"))),
            Some(head) if head.version.tag == stored.tag && head.version.len != stored.len => Err(wrong(
                format!("{path} has {} bytes at {host} after {} were written", head.version.len, stored.len),
            )),
            Some(head) if head.version.tag == stored.tag => Ok(head.version),
            Some(_) => Ok(Version { tag: stored.tag.clone(), len: stored.len, written: None }),
        }
    }
}

/// Whether an object has the length and the metadata of what was sent.
fn is_as_sent(head: &Head, new: &New) -> bool {
    head.version.len == new.len && head.headers.user == new.headers.user
}

/// The bytes of an upload: a link's are its target.
fn content_of(put: &Put<'_>) -> Result<(Arc<dyn ReadAt>, u64), RemoteError> {
    let Some(target) = &put.meta.link else { return Ok((put.content.clone(), put.len)) };
    if target.is_empty() || target.len() as u64 > LINK_BYTES_MAX || target.contains('\0') {
        let reason = "no link can have this target".to_owned();
        return Err(RemoteError::BadName { path: put.path.clone(), reason });
    }
    Ok((Arc::new(Target(target.clone().into())), target.len() as u64))
}

struct Target(Bytes);

impl ReadAt for Target {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        let part = self.0.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(part.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Bytes of the local file, read on a thread of their own.
pub(super) async fn read_local(content: Arc<dyn ReadAt>, range: Range<u64>) -> Result<Bytes, RemoteError> {
    let local = |error: String| RemoteError::Local(error);
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        content.read_at(&mut bytes, range.start).map(|()| Bytes::from(bytes))
    });
    read.await.map_err(|error| local(error.to_string()))?.map_err(|error| local(error.to_string()))
}

/// The MD5 of a body: what servers check on arrival.
pub(super) async fn digest(body: &Bytes) -> [u8; 16] {
    const AT_ONCE_BYTES: usize = 256 << 10;
    if body.len() <= AT_ONCE_BYTES {
        return Md5::digest(body).into();
    }
    let body = body.clone();
    let hashed = tokio::task::spawn_blocking(move || Md5::digest(&body).into());
    hashed.await.expect("hashing does not panic")
}

fn content_type(path: &RemotePath, kind: Type) -> String {
    match kind {
        Type::Directory => super::head::DIRECTORY_TYPE.to_owned(),
        Type::Link => UNKNOWN_TYPE.to_owned(),
        Type::File => {
            let name = name_of(path);
            mime_guess::from_path(name.as_str()).first_raw().unwrap_or(UNKNOWN_TYPE).to_owned()
        }
    }
}

/// The metadata, if it fits.
pub(super) fn fitting(path: &RemotePath, user: Result<User, TooMuch>) -> Result<User, RemoteError> {
    user.map_err(|TooMuch(bytes)| {
        let reason = format!(
            "its attributes take {bytes} bytes, and an object has space for {USER_BYTES_MAX}: remove some of them"
        );
        RemoteError::Forbidden { path: path.clone(), reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_extensions() {
        for (name, expected) in [
            ("a.jpg", "image/jpeg"),
            ("d/A.PDF", "application/pdf"),
            ("page.html", "text/html"),
            ("Makefile", UNKNOWN_TYPE),
            ("x.holdall", UNKNOWN_TYPE),
        ] {
            assert_eq!(content_type(&RemotePath::parse(name).unwrap(), Type::File), expected);
        }
    }
}
