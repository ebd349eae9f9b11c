//! The seam to the local disk. The engine does all its local file I/O through it, so that a test can lose unsynced data,
//! tear a write, or fail an fdatasync (`sim::disk`). `real` is the thin edge to the operating system.

use crate::store::remote::Time;
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use uuid::Uuid;

pub mod real;

/// The answer to a sync: ready when everything that was written before the call is durable.
pub type Sync = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// One directory of local files with flat names.
pub trait Disk: Send + std::marker::Sync + 'static {
    /// Opens a file for reading and writing; `create` makes it if it is missing.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading only: its descriptor does not count as a writer's.
    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name, false)
    }
    /// The size of a file, without opening it if possible.
    fn size_of(&self, name: &str) -> io::Result<FileSize> {
        let file = self.open_to_read(name)?;
        Ok(FileSize { len: file.len()?, allocated: file.allocated()? })
    }
    /// The names in the directory, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a name. Durable after `sync_names`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames, replacing what `to` named. Durable after `sync_names`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes creations, removals and renames durable (fsync of the directory).
    fn sync_names(&self) -> Sync;
    /// Bytes that an unprivileged process may still write to the file system.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Stands for this run of the computer: under another one, what was not synced may be lost. `None` if that is not known.
    fn boot(&self) -> Option<Uuid> {
        None
    }
}

/// The size of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSize {
    /// Length in bytes.
    pub len: u64,
    /// Bytes of the local disk that it takes, without holes.
    pub allocated: u64,
}

#[allow(clippy::len_without_is_empty, reason = "whether a file is empty is never asked")]
/// One local file. Reads and writes go through the page cache: they do not wait for the device unless it has trouble.
pub trait DiskFile: Send + std::marker::Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Bytes of the local disk that it takes, without holes.
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
    /// The first run of data at or after `from`; none if only a hole follows.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        Ok((from < len).then_some(from..len))
    }
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Truncates, or extends with a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Takes the space of the range, which may lie behind the end. Bytes and length stay.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system cannot do that.
    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Err(ErrorKind::Unsupported.into())
    }
    /// Makes the range read as zeros and frees its space. Never extends the file.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes data durable (fdatasync). After an error, nothing written since the last success can be trusted: the kernel
    /// may have dropped it and will not report that twice.
    fn sync(self: Arc<Self>) -> Sync;
    /// The parts of a file that the last successful sync did not make durable although they were written before it. What is
    /// in them cannot be trusted, everything else can. Each loss is reported once. A file that is one file of the operating
    /// system has none: its sync fails instead.
    fn take_lost(&self) -> Vec<Range<u64>> {
        Vec::new()
    }
    /// When it was last written.
    fn mtime(&self) -> io::Result<Time> {
        Err(ErrorKind::Unsupported.into())
    }
    /// Sets the time of the last write.
    fn set_mtime(&self, mtime: Time) -> io::Result<()> {
        let _ = mtime;
        Err(ErrorKind::Unsupported.into())
    }
    /// Takes a lease for as long as this file is open, which has to be for reading only: nobody writes to it, neither by a descriptor nor by
    /// a mapping, and whoever opens it to write waits until the lease is given back. `false`: somebody may write to it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system has no leases.
    fn lease(&self) -> io::Result<bool> {
        Err(ErrorKind::Unsupported.into())
    }
    /// A sync that blocks the calling thread; `None` if that is not possible here.
    fn sync_here(&self) -> Option<io::Result<()>> {
        None
    }
    /// The operating system's file, if there is one, for sendfile and the like.
    fn as_file(&self) -> Option<&File>;
}
