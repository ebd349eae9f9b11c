//! Remotes: the contract that all of them keep, and what each promises beyond it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod dav;
mod file;
mod file_faults;
mod s3;
mod sim;

use bytes::Bytes;
use holdall_core::store::remote::{
    Condition, Entry, Meta, Progress, Put, ReadAt, Remote, RemoteError, RemotePath,
};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

fn path(text: &str) -> RemotePath {
    RemotePath::parse(text).unwrap()
}

/// Keeps what an upload says.
#[derive(Default)]
struct Notes(Mutex<Vec<Vec<u8>>>);

#[async_trait::async_trait]
impl Progress for Notes {
    async fn can_resume(&self, resume: &[u8]) -> io::Result<()> {
        self.0.lock().push(resume.to_vec());
        Ok(())
    }

    fn sent(&self, _bytes: u64) {}
}

struct Content(Bytes);

impl ReadAt for Content {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

/// An upload with nothing special.
async fn put(remote: &dyn Remote, at: &str, bytes: &[u8], when: Condition) -> Result<Entry, RemoteError> {
    resume(remote, at, bytes, when, None, &Notes::default()).await
}

/// An upload that continues an earlier try.
async fn resume(
    remote: &dyn Remote,
    at: &str,
    bytes: &[u8],
    when: Condition,
    resume: Option<&[u8]>,
    notes: &Notes,
) -> Result<Entry, RemoteError> {
    let content = Arc::new(Content(Bytes::copy_from_slice(bytes)));
    let (path, meta, len) = (path(at), Meta::default(), bytes.len() as u64);
    let put = Put { path: &path, content, len, meta: &meta, when, unchanged: None, resume, progress: notes };
    remote.write(put).await
}
