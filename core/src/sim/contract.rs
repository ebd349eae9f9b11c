//! What every remote has to do, as a test that runs on any of them.
//!
//! A remote's own tests make one, and another client of the same place ([`Other`]), and call [`holds`]. What a remote says that it cannot
//! do ([`Facts`](crate::store::remote::Facts)) is not asked of it.

#![allow(clippy::unwrap_used, reason = "a remote that breaks the contract fails the test")]

mod changing;
mod listing;
mod relocating;
mod writing;

use crate::store::remote::{
    Condition, Entry, Meta, Name, Page, Progress, Put, ReadAt, Remote, RemoteError, RemotePath, Unusable,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Another client of the same place, which knows nothing of Holdall.
#[async_trait]
pub trait Other: Send + Sync {
    /// Writes a file, whose directory is there.
    async fn write(&self, path: &RemotePath, bytes: &[u8]);
    /// Removes a file.
    async fn remove(&self, path: &RemotePath);
    /// The bytes of a file; `None` if there is none.
    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>>;
    /// Leaves a name in a directory that no folder can show. `false` where such names cannot be.
    async fn leave_unusable(&self, directory: &RemotePath) -> bool;
}

/// Checks an empty remote. Panics where it does not keep the contract.
pub async fn holds(remote: &dyn Remote, other: &dyn Other) {
    let place = Place { remote, other };
    assert!(place.names("").await.is_empty(), "the remote has to be empty at first");
    assert_eq!(remote.stat(&RemotePath::root()).await.unwrap().name, Name::of_root());
    listing::holds(&place).await;
    writing::holds(&place).await;
    changing::holds(&place).await;
    relocating::holds(&place).await;
}

/// A remote and its other client.
struct Place<'a> {
    remote: &'a dyn Remote,
    other: &'a dyn Other,
}

/// Follows an upload.
#[derive(Default)]
struct Sent(AtomicU64);

#[async_trait]
impl Progress for Sent {
    async fn can_resume(&self, _resume: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sent(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }
}

struct Content(Bytes);

impl ReadAt for Content {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

fn path(text: &str) -> RemotePath {
    RemotePath::parse(text).unwrap()
}

/// Bytes that differ from block to block.
fn pattern(len: usize, seed: u8) -> Bytes {
    (0..len).map(|at| (at / 7) as u8 ^ (at >> 11) as u8 ^ seed).collect::<Vec<_>>().into()
}

impl Place<'_> {
    async fn put(&self, at: &str, bytes: &Bytes, when: Condition) -> Result<Entry, RemoteError> {
        self.put_with(at, bytes, &Meta::default(), when).await
    }

    async fn put_with(
        &self,
        at: &str,
        bytes: &Bytes,
        meta: &Meta,
        when: Condition,
    ) -> Result<Entry, RemoteError> {
        let (at, sent) = (path(at), Sent::default());
        let put = Put {
            path: &at,
            content: Arc::new(Content(bytes.clone())),
            len: bytes.len() as u64,
            meta,
            when,
            unchanged: None,
            resume: None,
            progress: &sent,
        };
        let entry = self.remote.write(put).await?;
        if meta.link.is_none() {
            assert_eq!(entry.version.len, bytes.len() as u64, "{at}");
            // A request that met a closed connection is sent once more.
            assert!(sent.0.load(Relaxed) >= bytes.len() as u64, "{at}");
        }
        assert_eq!(Some(&entry.name), at.split().map(|(_, name)| name).as_ref());
        Ok(entry)
    }

    async fn stat(&self, at: &str) -> Result<Entry, RemoteError> {
        self.remote.stat(&path(at)).await
    }

    /// The bytes of a file, of the version that it has now.
    async fn read(&self, at: &str) -> Bytes {
        let version = self.stat(at).await.unwrap().version;
        self.remote.read(&path(at), &version, 0..version.len).await.unwrap()
    }

    async fn make_directory(&self, at: &str) -> Entry {
        self.remote.make_directory(&path(at)).await.unwrap()
    }

    /// All entries of a directory, and what cannot be shown.
    async fn list(&self, at: &str) -> (Vec<Entry>, Unusable, usize) {
        let (mut entries, mut unusable, mut pages, mut token) = (Vec::new(), Unusable::default(), 0, None);
        loop {
            let page: Page = self.remote.list(&path(at), token.as_ref()).await.unwrap();
            pages += 1;
            entries.extend(page.entries);
            unusable.count += page.unusable.count;
            unusable.examples.extend(page.unusable.examples);
            assert!(
                pages < 10_000 && (page.next.is_none() || page.next != token),
                "the listing of {at} does not end"
            );
            token = page.next;
            if token.is_none() {
                return (entries, unusable, pages);
            }
        }
    }

    /// The names in a directory, in order, each once.
    async fn names(&self, at: &str) -> Vec<String> {
        let (entries, _, _) = self.list(at).await;
        let mut names: Vec<_> = entries.iter().map(|entry| entry.name.to_string()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Checks that the error is of this kind, about this path.
fn expect<T: std::fmt::Debug>(result: Result<T, RemoteError>, error: RemoteError) {
    assert_eq!(result.unwrap_err(), error);
}
