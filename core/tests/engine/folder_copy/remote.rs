//! A remote in memory whose files' bytes follow from their versions.

use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::folder::{Ino, Owner, Span};
use holdall_core::store::remote::{
    Condition, Entry, Facts, Meta, Name, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError,
    RemotePath, Version,
};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The files, by the number that the folder gives them.
#[derive(Default)]
pub struct Files {
    versions: Mutex<BTreeMap<u32, Version>>,
    gone: Mutex<BTreeSet<Ino>>,
    reads: AtomicU64,
    written: AtomicU64,
}

/// The bytes of a version.
pub fn content(version: &Version) -> Vec<u8> {
    let mut bytes = vec![0; version.len as usize];
    StdRng::seed_from_u64(version.tag.parse().unwrap()).fill_bytes(&mut bytes);
    bytes
}

impl Files {
    /// Another program writes a file.
    pub fn write(&self, ino: u32, len: u64) {
        let tag = self.written.fetch_add(1, Ordering::SeqCst).to_string();
        self.versions.lock().unwrap().insert(ino, Version { tag, len, written: None });
    }

    pub fn version(&self, ino: u32) -> Version {
        self.versions.lock().unwrap()[&ino].clone()
    }

    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Files of which a version was found to be gone.
    pub fn gone(&self) -> BTreeSet<Ino> {
        self.gone.lock().unwrap().clone()
    }
}

impl Owner for Files {
    fn path_of(&self, ino: Ino) -> Option<RemotePath> {
        Some(RemotePath::root().join(&Name::new(&ino.to_string()).ok()?))
    }

    fn is_gone(&self, span: &Span) {
        self.gone.lock().unwrap().insert(span.ino());
    }
}

const NOT_HERE: RemoteError = RemoteError::Unsupported("do this in a test");

#[async_trait]
impl Remote for Files {
    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let now = self.versions.lock().unwrap().get(&path.as_str().parse().unwrap()).cloned();
        match now {
            None => Err(RemoteError::NotFound(path.clone())),
            Some(now) if now != *version => Err(RemoteError::Changed(path.clone())),
            Some(now) => {
                assert!(range.start < range.end && range.end <= now.len, "{range:?} of {now}");
                Ok(Bytes::from(content(&now)).slice(range.start as usize..range.end as usize))
            }
        }
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        Err(RemoteError::NotFound(path.clone()))
    }

    async fn list(&self, _: &RemotePath, _: Option<&PageToken>) -> Result<Page, RemoteError> {
        Err(NOT_HERE)
    }

    async fn write(&self, _: Put<'_>) -> Result<Entry, RemoteError> {
        Err(NOT_HERE)
    }

    async fn set_meta(&self, _: &RemotePath, _: &Version, _: &Meta) -> Result<Entry, RemoteError> {
        Err(NOT_HERE)
    }

    async fn relocate(
        &self,
        _: &RemotePath,
        _: &Version,
        _: &RemotePath,
        _: Condition,
        _: Relocation,
    ) -> Result<Entry, RemoteError> {
        Err(NOT_HERE)
    }

    async fn remove(&self, _: &RemotePath, _: Condition) -> Result<(), RemoteError> {
        Err(NOT_HERE)
    }

    async fn make_directory(&self, _: &RemotePath) -> Result<Entry, RemoteError> {
        Err(NOT_HERE)
    }

    async fn remove_directory(&self, _: &RemotePath) -> Result<(), RemoteError> {
        Err(NOT_HERE)
    }

    async fn abandon(&self, _: &RemotePath, _: &[u8]) -> Result<(), RemoteError> {
        Err(NOT_HERE)
    }

    fn facts(&self) -> &Facts {
        unreachable!("the local copy needs no facts")
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        Ok(None)
    }
}
