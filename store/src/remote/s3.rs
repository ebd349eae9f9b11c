//! The remote of a bucket, or of a part of it: its objects as files.
//!
//! The rules, each argued in the file that keeps it:
//!
//! * S3 has keys and no directories. A directory is the beginning of other keys, or a marker that ends with `/` (`looks`). A key that is file
//!   and prefix at once is a directory, and its file is counted and left alone (`pages`).
//! * A change is one request that takes effect, under its condition where the server keeps conditions (`probe`). Looks before and after it
//!   find what the request cannot say (`write`, `copy`).
//! * What others have set on an object is kept (`head`), and what Holdall sets is what rclone and s3fs read (`meta`).
//! * A long file goes in parts, and continues where it was cut off (`multipart`, `resume`).
//! * Nothing is removed but the one key that was named, and the last file of a directory leaves the directory behind (`remove`).

mod ask;
mod change;
mod copy;
mod head;
mod looks;
mod meta;
mod multipart;
mod pages;
mod parts;
mod probe;
mod read;
mod remove;
mod resume;
mod write;

use super::{
    Condition, Entry, Facts, Meta, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError, RemotePath,
    Version,
};
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::pace::Pacer;
use crate::s3::Limits;
use crate::s3::client::S3Client;
use crate::url::S3Url;
use async_trait::async_trait;
use bytes::Bytes;
use looks::Seen;
use parking_lot::Mutex;
use probe::{Abilities, Found};
use std::collections::BTreeSet;
use std::ops::Range;
use uuid::Uuid;

/// S3's limit for a key.
const KEY_BYTES_MAX: usize = 1024;

/// How a bucket is opened as a remote.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// This device. What it leaves behind for a moment carries its name.
    pub device: Uuid,
    /// Change nothing, not even to find out what the server does.
    pub read_only: bool,
}

/// The ordinary files of a bucket, or of a part of it.
pub struct S3Remote {
    client: S3Client,
    facts: Facts,
    abilities: Abilities,
    seen: Seen,
    /// Files that a directory of the same name hides, as listings have shown them. Locked for a look-up.
    clashes: Mutex<BTreeSet<RemotePath>>,
}

/// Why a bucket cannot be opened as a remote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The credentials are of another kind, or its certificates cannot be read.
    #[error("{reason}")]
    Setup {
        /// The cause.
        reason: String,
    },
    /// There is no answer, or no access.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl S3Remote {
    /// Opens the part of a bucket at `url`, and finds out what the server does. `pacer` paces its bodies, and `meter` counts its requests.
    pub async fn open(
        url: &S3Url,
        credentials: &Credentials,
        options: Options,
        limits: Limits,
        (pacer, meter): (&Pacer, &Meter),
    ) -> Result<Self, OpenError> {
        let client = S3Client::new(url, credentials, limits, pacer, meter);
        let client = client.map_err(|reason| OpenError::Setup { reason })?;
        let facts = found_facts(None, Abilities::default());
        let (seen, clashes) = (Seen::default(), Mutex::default());
        let mut remote = Self { client, facts, abilities: Abilities::default(), seen, clashes };
        // The bucket is there, and its names may be read.
        remote.below(&RemotePath::root(), 1).await?;
        let Found { abilities, read_only } = match options.read_only {
            true => {
                Found { abilities: Abilities::default(), read_only: Some("it was opened read-only".into()) }
            }
            false => remote.probe(options.device).await?,
        };
        remote.facts = found_facts(read_only, abilities);
        remote.abilities = abilities;
        Ok(remote)
    }

    fn key(&self, path: &RemotePath) -> String {
        self.client.key(path.as_str())
    }

    /// The beginning of all keys below a directory, which is the key of its marker. Empty for the root of a bucket.
    fn directory_key(&self, path: &RemotePath) -> String {
        match path.is_root() {
            true => self.client.key(""),
            false => format!("{}/", self.key(path)),
        }
    }
}

fn found_facts(read_only: Option<String>, abilities: Abilities) -> Facts {
    Facts {
        has_conditions: abilities.put && abilities.complete,
        folds_case: false,
        folds_forms: false,
        moves_trees: false,
        keeps_meta: true,
        keeps_mtime: true,
        root_tag_tells: false,
        replaces_at_once: true,
        len_max: Some(parts::LEN_MAX),
        read_only,
    }
}

/// A server's name for a version, without the quotes that only some answers have.
fn tag(etag: &str) -> String {
    let etag = etag.trim();
    etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(etag).to_owned()
}

/// The same as a header has it.
fn quoted(tag: &str) -> String {
    if tag.starts_with("W/") { tag.to_owned() } else { format!("\"{tag}\"") }
}

/// Whether an object still has the bytes of a version. Its time may be another one: a copy onto itself changes it, and no byte.
fn is_same(version: &Version, now: &Version) -> bool {
    version.tag == now.tag && version.len == now.len
}

/// The version of every directory: nothing tells them apart.
fn directory_version() -> Version {
    Version { tag: String::new(), len: 0, written: None }
}

#[async_trait]
impl Remote for S3Remote {
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError> {
        self.list_now(directory, page).await
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        self.stat_now(path).await
    }

    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        self.read_now(path, version, range).await
    }

    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        self.write_now(put).await
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        self.set_meta_now(path, version, meta).await
    }

    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        self.relocate_now(from, version, to, when, how).await
    }

    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        self.remove_now(path, when).await
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        self.make_directory_now(path).await
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.remove_directory_now(path).await
    }

    async fn abandon(&self, path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError> {
        self.abandon_now(path, resume).await
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        // S3 has none.
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lose_only_their_quotes() {
        for (etag, expected) in
            [("\"abc\"", "abc"), ("abc", "abc"), ("\"a-2\"", "a-2"), ("W/\"x\"", "W/\"x\"")]
        {
            assert_eq!(tag(etag), expected);
            assert_eq!(tag(&quoted(&tag(etag))), expected);
        }
    }
}
