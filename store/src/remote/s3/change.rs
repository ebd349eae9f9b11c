//! Changes of metadata, and moves. Both are copies at the server: S3 changes no object.

use super::S3Remote;
use super::ask::Act;
use super::copy::Copying;
use super::head::{Head, name_of};
use super::meta::{self, Type};
use super::write::{Stored, fitting};
use crate::remote::s3::head::with_headers;
use crate::remote::{Condition, Entry, Meta, Relocation, RemoteError, RemotePath, Version};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};

impl S3Remote {
    pub(super) async fn set_meta_now(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        self.expect_writable()?;
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        if path.is_root() {
            return self.set_directory_meta(path, meta).await;
        }
        match self.head(path, &self.key(path)).await? {
            Some(head) if head.kind != Type::Directory => {
                self.set_file_meta(path, version, meta, &head).await
            }
            _ => match self.below(path, 1).await?.is_empty() {
                true => Err(RemoteError::NotFound(path.clone())),
                false => self.set_directory_meta(path, meta).await,
            },
        }
    }

    async fn set_file_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
        head: &Head,
    ) -> Result<Entry, RemoteError> {
        if !super::is_same(version, &head.version) {
            return Err(RemoteError::Changed(path.clone()));
        }
        let mut headers = head.headers.clone();
        headers.user = fitting(path, meta::changed(&headers.user, head.kind, meta))?;
        if headers.user == head.headers.user {
            return self.entry_of(path, &self.key(path), head.clone()).await;
        }
        let when = match self.keeps_copy_condition(head) {
            true => Condition::Matches(head.version.clone()),
            false => Condition::Always,
        };
        let before = self.entry_of(path, &self.key(path), head.clone()).await?;
        let (_, shown) = meta::read(&headers.user);
        let meta = Meta { link: before.meta.as_ref().and_then(|meta| meta.link.clone()), ..shown };
        let (from_key, to_key) = (self.key(path), self.key(path));
        let tag = self.copy(&Copying { from: path, from_key, head, to: path, to_key, headers, when }).await?;
        let version = self.version_after(path, &Stored { tag, len: head.version.len }).await?;
        Ok(Entry { version, meta: Some(meta), ..before })
    }

    /// A directory's metadata are those of its marker.
    async fn set_directory_meta(&self, path: &RemotePath, meta: &Meta) -> Result<Entry, RemoteError> {
        let key = self.directory_key(path);
        if key.is_empty() {
            return Err(RemoteError::Unsupported("keep attributes of a whole bucket"));
        }
        let marker = self.head(path, &key).await?;
        let mut headers = marker.as_ref().map(|marker| marker.headers.clone()).unwrap_or_default();
        headers.user = fitting(path, meta::changed(&headers.user, Type::Directory, meta))?;
        let (_, shown) = meta::read(&headers.user);
        match marker {
            // Somebody keeps bytes there: they stay.
            Some(head) if head.version.len > 0 => {
                let (from_key, to_key, when) = (key.clone(), key, Condition::Always);
                self.copy(&Copying { from: path, from_key, head: &head, to: path, to_key, headers, when })
                    .await?;
            }
            marker => {
                if marker.is_none() {
                    headers.content_type = Some(super::head::DIRECTORY_TYPE.into());
                }
                let request = self.client.sdk.put_object().bucket(&self.client.bucket).key(key);
                let request = with_headers!(request, &headers).body(ByteStream::new(SdkBody::empty()));
                let request = match &marker {
                    Some(marker) if self.abilities.put => {
                        request.if_match(super::quoted(&marker.version.tag))
                    }
                    None if self.abilities.put => request.if_none_match("*"),
                    _ => request,
                };
                self.ask(Act::write(path, 0, self.abilities.put), request.send()).await?;
            }
        }
        Ok(self.directory(path, Some(shown)))
    }

    pub(super) async fn relocate_now(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        self.expect_writable()?;
        self.split(from)?;
        self.expect_place(to)?;
        if from.is_hidden() {
            return Err(RemoteError::NotFound(from.clone()));
        }
        if from == to {
            return Err(RemoteError::Changed(to.clone()));
        }
        let head = self.file_at(from).await?;
        if !super::is_same(version, &head.version) {
            return Err(RemoteError::Changed(from.clone()));
        }
        let keeps = when == Condition::Always || self.keeps_copy_condition(&head);
        self.look_before(to, &when, !keeps).await?;
        let when = if keeps { when } else { Condition::Always };
        let headers = head.headers.clone();
        let (from_key, to_key) = (self.key(from), self.key(to));
        let before = self.entry_of(from, &from_key, head.clone()).await?;
        let tag = self.copy(&Copying { from, from_key, head: &head, to, to_key, headers, when }).await?;
        let version = self.version_after(to, &Stored { tag, len: head.version.len }).await?;
        if how == Relocation::Move {
            self.leave(from, &head).await?;
        }
        Ok(Entry { name: name_of(to), version, ..before })
    }

    /// The file or link at a path. A directory cannot be moved: its files can.
    async fn file_at(&self, path: &RemotePath) -> Result<Head, RemoteError> {
        let key = self.key(path);
        let (head, below) = tokio::join!(self.head(path, &key), self.below(path, 1));
        match (head?, below?.is_empty()) {
            (Some(head), true) if head.kind != Type::Directory => Ok(head),
            (None, true) => Err(RemoteError::NotFound(path.clone())),
            _ => Err(RemoteError::Unsupported("move a directory: its files can be moved one by one")),
        }
    }

    /// Removes what has been copied elsewhere. If somebody has written to the old place meanwhile, the move came first, and the new file stays.
    async fn leave(&self, from: &RemotePath, head: &Head) -> Result<(), RemoteError> {
        match self.remove_version(from, &head.version).await {
            Err(RemoteError::Changed(_) | RemoteError::NotFound(_)) => Ok(()),
            left => left,
        }
    }
}
