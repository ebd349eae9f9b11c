//! What has a name: S3 knows keys, and no directories. A directory is the beginning of other keys, or a marker: an empty object whose key
//! ends with `/`.

use super::S3Remote;
use super::ask::Act;
use super::head::{Head, name_of};
use super::meta::Type;
use crate::StoreError;
use crate::remote::{Condition, Entry, Kind, Meta, RemoteError, RemotePath, Version};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a directory counts as there after it was seen. A file in one that somebody has removed meanwhile makes it again, and nothing
/// is lost; without this, each new file costs one more request.
const SEEN_FOR: Duration = Duration::from_secs(60);
/// Directories that are remembered: those that programs are busy in.
const SEEN_MAX: usize = 1024;

/// Directories that were there a short while ago.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<RemotePath, Sight>>);

#[derive(Clone, Copy)]
struct Sight {
    at: Instant,
    has_marker: bool,
}

impl Seen {
    /// Whether it was seen, and with a marker.
    fn marker(&self, directory: &RemotePath) -> Option<bool> {
        let seen = self.0.lock().get(directory).copied()?;
        (seen.at.elapsed() < SEEN_FOR).then_some(seen.has_marker)
    }

    pub(super) fn note(&self, directory: &RemotePath, has_marker: bool) {
        let seen = &mut *self.0.lock();
        if seen.len() >= SEEN_MAX {
            seen.retain(|_, sight| sight.at.elapsed() < SEEN_FOR);
        }
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        seen.insert(directory.clone(), Sight { at: Instant::now(), has_marker });
    }

    pub(super) fn forget(&self, directory: &RemotePath) {
        self.0.lock().remove(directory);
    }
}

/// An object below a directory: its key from there on, which is empty for the marker.
pub(super) struct Below {
    pub rest: String,
    pub version: Version,
}

impl S3Remote {
    /// The first objects below a directory, at most `most`. None: there is no such directory, as far as keys say.
    pub(super) async fn below(&self, path: &RemotePath, most: i32) -> Result<Vec<Below>, RemoteError> {
        let prefix = self.directory_key(path);
        let request = self.client.sdk.list_objects_v2().bucket(&self.client.bucket).prefix(&prefix);
        let request = request.max_keys(most).set_encoding_type(self.encoding());
        let answer = self.ask(Act::list(path), request.send()).await?;
        let mut found = Vec::new();
        for object in answer.contents().iter().take(most as usize) {
            let key = self.key_of(object.key(), &answer);
            let rest = key.strip_prefix(prefix.as_bytes());
            let strange = || self.client.unreachable("lists other objects than those that were asked for");
            let rest = String::from_utf8_lossy(rest.ok_or_else(strange)?).into_owned();
            let version = self.version(object.e_tag(), object.size(), object.last_modified())?;
            found.push(Below { rest, version });
        }
        Ok(found)
    }

    /// Fails unless the directory that is to hold `path` is there.
    pub(super) async fn expect_parent(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let (parent, _) = self.split(path)?;
        if parent.is_root() || self.seen.marker(&parent).is_some() {
            return Ok(());
        }
        match self.below(&parent, 1).await?.first() {
            Some(first) => self.seen.note(&parent, first.rest.is_empty()),
            // Some programs mark a directory by an empty object of its name.
            None => match self.head(&parent, &self.key(&parent)).await? {
                Some(head) if head.kind == Type::Directory => {}
                _ => return Err(RemoteError::NotFound(parent)),
            },
        }
        Ok(())
    }

    /// Makes sure that the directory of `path` stays when the one object `path` is gone: puts a marker into one that has nothing else.
    pub(super) async fn keep_parent(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let (parent, _) = self.split(path)?;
        if parent.is_root() || self.seen.marker(&parent) == Some(true) {
            return Ok(());
        }
        let found = self.below(&parent, 2).await?;
        let has_marker = found.first().is_some_and(|first| first.rest.is_empty());
        if !has_marker && found.len() < 2 {
            self.put_marker(&parent).await?;
        }
        self.seen.note(&parent, has_marker || found.len() < 2);
        Ok(())
    }

    /// What stands at a name before a change of it, once it is clear that `when` may hold and that no directory has the name. `looks`: no
    /// condition of the request itself will see to it, or the headers of what is there are needed.
    pub(super) async fn look_before(
        &self,
        path: &RemotePath,
        when: &Condition,
        looks: bool,
    ) -> Result<Option<Head>, RemoteError> {
        let key = self.key(path);
        let head = async { if looks { self.head(path, &key).await } else { Ok(None) } };
        let (below, parent, head) = tokio::join!(self.below(path, 1), self.expect_parent(path), head);
        let changed = || RemoteError::Changed(path.clone());
        if !below?.is_empty() {
            return Err(changed());
        }
        parent?;
        let head = head?;
        let is_directory = head.as_ref().is_some_and(|head| head.kind == Type::Directory);
        let holds = match (when, &head) {
            (Condition::Always, _) => true,
            (Condition::Absent, head) => head.is_none(),
            (Condition::Matches(version), Some(head)) => super::is_same(version, &head.version),
            (Condition::Matches(_), None) => !looks,
        };
        if holds && !is_directory { Ok(head) } else { Err(changed()) }
    }

    pub(super) async fn stat_now(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        if path.is_root() {
            // An empty place is there as long as its bucket is.
            self.below(path, 1).await?;
            return Ok(self.directory(path, self.marker_meta(path).await?));
        }
        let key = self.key(path);
        match self.head(path, &key).await? {
            // A key that is file and prefix: the directory wins.
            Some(head) if head.kind != Type::Directory && !self.is_clash(path).await? => {
                self.entry_of(path, &key, head).await
            }
            head => {
                let meta = self.marker_meta(path).await?;
                if meta.is_none() && self.below(path, 1).await?.is_empty() {
                    return match head {
                        Some(head) => self.entry_of(path, &key, head).await,
                        None => Err(RemoteError::NotFound(path.clone())),
                    };
                }
                Ok(self.directory(path, meta))
            }
        }
    }

    /// Whether a listing has shown a directory of the same name as this file, and that is still so.
    async fn is_clash(&self, path: &RemotePath) -> Result<bool, RemoteError> {
        Ok(self.clashes.lock().contains(path) && !self.below(path, 1).await?.is_empty())
    }

    /// What a directory's marker says; `None` without a marker.
    pub(super) async fn marker_meta(&self, path: &RemotePath) -> Result<Option<Meta>, RemoteError> {
        let key = self.directory_key(path);
        match key.is_empty() {
            true => Ok(None),
            false => Ok(self.head(path, &key).await?.map(|head| head.meta)),
        }
    }

    /// The entry of a directory.
    pub(super) fn directory(&self, path: &RemotePath, meta: Option<Meta>) -> Entry {
        let version = super::directory_version();
        let meta = Some(meta.unwrap_or_default());
        Entry { name: name_of(path), kind: Kind::Directory, version, meta, is_writable: self.is_writable() }
    }

    /// Splits a path that is to be changed, which the root cannot be.
    pub(super) fn split(&self, path: &RemotePath) -> Result<(RemotePath, crate::remote::Name), RemoteError> {
        let is_root = || RemoteError::Forbidden { path: path.clone(), reason: "it is the root".into() };
        path.split().ok_or_else(is_root)
    }

    /// Fails unless the name can be given to something.
    pub(super) fn expect_place(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.expect_writable()?;
        self.split(path)?;
        let bad = |reason: &str| RemoteError::BadName { path: path.clone(), reason: reason.to_owned() };
        if path.is_hidden() {
            return Err(bad("names that begin so are those of uploads under way"));
        }
        match self.directory_key(path).len() > super::KEY_BYTES_MAX {
            true => Err(bad("with its directories it has more than 1024 bytes")),
            false => Ok(()),
        }
    }

    pub(super) fn expect_writable(&self) -> Result<(), StoreError> {
        match &self.facts.read_only {
            None => Ok(()),
            Some(reason) => Err(StoreError::Denied { reason: reason.clone() }),
        }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.facts.read_only.is_none()
    }
}
