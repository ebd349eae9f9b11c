//! Removals, and directories.

use super::S3Remote;
use super::ask::Act;
use super::head::DIRECTORY_TYPE;
use super::meta::Type;
use crate::remote::{Condition, Entry, RemoteError, RemotePath, Version};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};

impl S3Remote {
    pub(super) async fn remove_now(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        self.expect_writable()?;
        self.split(path)?;
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        let key = self.key(path);
        let (head, below) = tokio::join!(self.head(path, &key), self.below(path, 1));
        let changed = || RemoteError::Changed(path.clone());
        if !below?.is_empty() {
            return Err(changed());
        }
        match (head?, &when) {
            (Some(head), _) if head.kind == Type::Directory => Err(changed()),
            (Some(head), Condition::Matches(version)) if super::is_same(version, &head.version) => {
                self.remove_version(path, &head.version).await
            }
            (Some(_), Condition::Always) => {
                self.keep_parent(path).await?;
                self.delete(path, &key, None).await
            }
            (Some(_), Condition::Absent | Condition::Matches(_)) => Err(changed()),
            (None, _) => Err(RemoteError::NotFound(path.clone())),
        }
    }

    /// Removes a file if it still is the version that it was a moment ago. Its directory stays.
    pub(super) async fn remove_version(
        &self,
        path: &RemotePath,
        version: &Version,
    ) -> Result<(), RemoteError> {
        let key = self.key(path);
        self.keep_parent(path).await?;
        if !self.abilities.delete {
            // The condition is ignored: look as late as possible.
            match self.head(path, &key).await? {
                Some(head) if head.version.tag == version.tag => {}
                Some(_) => return Err(RemoteError::Changed(path.clone())),
                None => return Err(RemoteError::NotFound(path.clone())),
            }
        }
        self.delete(path, &key, Some(version)).await
    }

    async fn delete(
        &self,
        path: &RemotePath,
        key: &str,
        version: Option<&Version>,
    ) -> Result<(), RemoteError> {
        let version = version.filter(|_| self.abilities.delete);
        let request = self.client.sdk.delete_object().bucket(&self.client.bucket).key(key);
        let request = request.set_if_match(version.map(|version| super::quoted(&version.tag)));
        let act = Act::delete(path, version.is_some());
        match self.ask(act, request.send()).await {
            // It has gone since the look.
            Err(refused) if refused.is_missing() => Err(RemoteError::NotFound(path.clone())),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    pub(super) async fn make_directory_now(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        self.expect_place(path)?;
        let key = self.key(path);
        let (head, below, parent) =
            tokio::join!(self.head(path, &key), self.below(path, 1), self.expect_parent(path));
        let is_there = !below?.is_empty()
            || match head? {
                Some(head) if head.kind == Type::Directory => true,
                Some(_) => return Err(RemoteError::Changed(path.clone())),
                None => false,
            };
        if is_there {
            let meta = self.marker_meta(path).await?;
            return Ok(self.directory(path, meta));
        }
        parent?;
        self.put_marker(path).await?;
        self.seen.note(path, true);
        Ok(self.directory(path, None))
    }

    /// Puts a directory's marker, unless it has one.
    pub(super) async fn put_marker(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let request = self.client.sdk.put_object().bucket(&self.client.bucket).key(self.directory_key(path));
        let request = request.content_type(DIRECTORY_TYPE).body(ByteStream::new(SdkBody::empty()));
        let request = if self.abilities.put { request.if_none_match("*") } else { request };
        match self.ask(Act::write(path, 0, self.abilities.put), request.send()).await {
            Err(refused) if refused.status == 412 => Ok(()),
            put => Ok(put.map(drop)?),
        }
    }

    pub(super) async fn remove_directory_now(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.expect_writable()?;
        self.split(path)?;
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        let found = self.below(path, 2).await?;
        let marker = match &found[..] {
            [] => return self.remove_plain_marker(path).await,
            [only] if only.rest.is_empty() => only,
            _ => return Err(RemoteError::NotEmpty(path.clone())),
        };
        if marker.version.len > 0 {
            let reason = "another program keeps data under the directory's own name".to_owned();
            return Err(RemoteError::Forbidden { path: path.clone(), reason });
        }
        self.keep_parent(path).await?;
        self.seen.forget(path);
        self.delete(path, &self.directory_key(path), Some(&marker.version)).await
    }

    /// Removes an empty object that stands for a directory by its type.
    async fn remove_plain_marker(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let key = self.key(path);
        match self.head(path, &key).await? {
            Some(head) if head.kind == Type::Directory => {
                self.keep_parent(path).await?;
                self.delete(path, &key, Some(&head.version)).await
            }
            Some(_) => Err(RemoteError::Changed(path.clone())),
            None => Err(RemoteError::NotFound(path.clone())),
        }
    }
}
