//! Contents: the bytes of files that the remote does not have. One local file for each such inode, beside the files of the cache's spans
//! and in the same directory, so that a file goes from one to the other by its name alone: a program that has it open by passthrough reads
//! and writes the same local file before and after.
//!
//! Nothing here says what a content means: that is in the ledger. A content that the ledger does not know is left of a crash.
//!
//! What a sync says is believed once. The kernel tells each descriptor of a failed write only once, so two rules hold: one descriptor (the
//! *witness*, for reading) is open from before the first write until the sync, and a content whose sync failed is condemned, since the next
//! sync would succeed and prove nothing.

use super::local_copy::LocalCopy;
use super::node::Ino;
use super::spans::Span;
use crate::disk::{Disk, DiskFile};
use crate::entropy;
use crate::store::remote::Time;
use inner::Inner;
use std::io::{self, ErrorKind};
use std::sync::Arc;

mod handles;
mod inner;
mod taken;
#[cfg(test)]
mod tests;

/// Names of contents begin so; the inode's number follows.
pub(super) const PREFIX: &str = "here-";

/// Names of contents begin so that are kept for people.
const ASIDE: &str = "aside-";

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Whether a file of the directory is a content, or was one. The cache leaves it alone.
pub(super) fn is_content(name: &str) -> bool {
    name.starts_with(PREFIX) || name.starts_with(ASIDE)
}

/// The name of an inode's content.
fn name_of(ino: Ino) -> String {
    format!("{PREFIX}{ino}")
}

/// The name of a content that is not whole yet.
fn new_name_of(ino: Ino) -> String {
    format!("new-{ino}")
}

/// Copies the first `len` bytes. Zeros become a hole.
fn copy(from: &dyn DiskFile, to: &dyn DiskFile, len: u64) -> io::Result<()> {
    let (mut piece, mut at) = (vec![0; PIECE_BYTES], 0);
    while at < len {
        let bytes = &mut piece[..(len - at).min(PIECE_BYTES as u64) as usize];
        from.read_at(bytes, at)?;
        if bytes.iter().any(|byte| *byte != 0) {
            to.write_at(bytes, at)?;
        }
        at += bytes.len() as u64;
    }
    to.set_len(len)
}

fn ino_of(name: &str) -> Option<Ino> {
    let ino = name.strip_prefix(PREFIX)?.parse().ok().map(Ino)?;
    // "here-07" is none.
    (name_of(ino) == name).then_some(ino)
}

/// What the local disk says of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentStat {
    /// Length in bytes.
    pub len: u64,
    /// When it was last written. On a simulated disk, time passes with each write.
    pub mtime: Time,
    /// Bytes of the local disk that it takes.
    pub taken: u64,
}

/// A promise of the kernel that nobody writes to a content: neither by a descriptor nor by a mapping. A writable open through the mount comes
/// to the engine first, which ends what relies on it. Any other one waits until this is dropped (at most as long as the kernel allows: 45
/// seconds, if nobody has changed that).
pub struct Lease {
    /// The lease ends when this is closed: nobody else has this descriptor.
    file: Arc<dyn DiskFile>,
}

impl Lease {
    /// The content, for reading.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }
}

/// The contents of a folder.
pub struct Contents {
    inner: Arc<Inner>,
}

impl Contents {
    /// The contents in the directory `files`.
    pub fn new(files: Arc<dyn Disk>) -> Self {
        Self { inner: Arc::new(Inner::new(files)) }
    }

    /// All inodes that have one.
    pub fn all(&self) -> io::Result<Vec<Ino>> {
        let names = self.inner.files.list()?;
        Ok(names.iter().filter_map(|name| ino_of(name)).collect())
    }

    /// Whether the inode has one. A disk that does not tell is no reason to think that there is none.
    pub fn has(&self, ino: Ino) -> bool {
        match self.inner.files.size_of(&name_of(ino)) {
            Ok(_) => true,
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Begins an empty one, in place of one that is there.
    pub fn create(&self, ino: Ino) -> io::Result<()> {
        self.begin_new(ino)?;
        self.install_new(ino)
    }

    /// Begins one that is a single hole, written last at `mtime`. The inode has none.
    pub fn create_sparse(&self, ino: Ino, len: u64, mtime: Time) -> io::Result<()> {
        let file = self.begin_new(ino)?;
        file.set_len(len)?;
        file.set_mtime(mtime)?;
        self.install_new(ino)
    }

    /// Begins one with a copy of `from`, which has `len` bytes and was written last at `mtime`, in place of one that is there. Its bytes are
    /// durable; its name is after the next sync.
    pub async fn copy_from(
        &self,
        ino: Ino,
        from: Arc<dyn DiskFile>,
        len: u64,
        mtime: Time,
    ) -> io::Result<()> {
        let copied = async {
            let to = self.begin_new(ino)?;
            let writes = to.clone();
            let copied = tokio::task::spawn_blocking(move || copy(&*from, &*writes, len)).await;
            copied.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))?;
            to.set_mtime(mtime)?;
            to.sync().await
        };
        if let Err(error) = copied.await {
            // It only takes space, and the next opening removes it.
            let _ = self.inner.files.remove(&new_name_of(ino));
            return Err(error);
        }
        self.install_new(ino)
    }

    /// A new file under another name first, so that a content that is there goes only if there is a new one. The cache removes what a crash
    /// leaves of it.
    fn begin_new(&self, ino: Ino) -> io::Result<Arc<dyn DiskFile>> {
        let new = new_name_of(ino);
        match self.inner.files.remove(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.inner.files.open(&new, true)
    }

    fn install_new(&self, ino: Ino) -> io::Result<()> {
        self.inner.files.rename(&new_name_of(ino), &name_of(ino))?;
        self.inner.is_new(ino);
        Ok(())
    }

    /// The local file, for reading only: for registering it, and for reading it also after it was removed or given to the cache.
    pub fn reader(&self, ino: Ino) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.inner.files.open_to_read(&name_of(ino))?;
        // A program may write to it as soon as it is registered.
        self.inner.may_be_written(ino)?;
        Ok(file)
    }

    /// Writes.
    pub fn write_at(&self, ino: Ino, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.writer(ino)?.write_at(bytes, offset)
    }

    /// Sets the length.
    pub fn set_len(&self, ino: Ino, len: u64) -> io::Result<()> {
        self.inner.writer(ino)?.set_len(len)
    }

    /// Takes the space of a range. Bytes and length stay.
    pub fn reserve(&self, ino: Ino, range: std::ops::Range<u64>) -> io::Result<()> {
        self.inner.writer(ino)?.reserve(range)
    }

    /// Makes a range read as zeros and frees its space. Never extends the file.
    pub fn punch(&self, ino: Ino, range: std::ops::Range<u64>) -> io::Result<()> {
        self.inner.writer(ino)?.punch(range)
    }

    /// Sets the time of the last write.
    pub fn set_mtime(&self, ino: Ino, mtime: Time) -> io::Result<()> {
        self.inner.files.open_to_read(&name_of(ino))?.set_mtime(mtime)
    }

    /// What the local disk says of it.
    pub fn stat(&self, ino: Ino) -> io::Result<ContentStat> {
        let file = self.inner.files.open_to_read(&name_of(ino))?;
        let stat = ContentStat { len: file.len()?, mtime: file.mtime()?, taken: file.allocated()? };
        self.inner.taken.is_seen(ino, stat.taken);
        Ok(stat)
    }

    /// Makes its bytes and its name durable. After a failure the content is condemned: every later sync fails too until it is begun anew.
    pub async fn sync(&self, ino: Ino) -> io::Result<()> {
        // In a task of its own: the caller may be cancelled, but what the kernel says once must be heard.
        let inner = self.inner.clone();
        let synced = tokio::spawn(async move { inner.sync(ino).await });
        synced.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
    }

    /// Makes durable which contents there are.
    pub async fn sync_names(&self) -> io::Result<()> {
        self.inner.files.sync_names().await
    }

    /// Closes what is open for writing, so that a lease can be had.
    pub fn close(&self, ino: Ino) {
        self.inner.close(ino);
    }

    /// Takes a lease. `None` while somebody may write to it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file system has no leases: then only time tells whether somebody still writes.
    pub fn lease(&self, ino: Ino) -> io::Result<Option<Lease>> {
        let file = self.inner.files.open_to_read(&name_of(ino))?;
        Ok(file.lease()?.then_some(Lease { file }))
    }

    /// Removes it. One that is not there is removed already.
    pub fn remove(&self, ino: Ino) -> io::Result<()> {
        match self.inner.files.remove(&name_of(ino)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.inner.is_gone(ino);
        Ok(())
    }

    /// Makes the local file of a span, all of which is here, the content of its inode, with `mtime` as the time of its last write. The span
    /// is empty afterwards. If the power is cut meanwhile, the bytes are in one of the two places, or have to be downloaded again. Nobody may
    /// wait for this while holding a lease of a read: it waits for these.
    pub async fn bring(&self, copy: &LocalCopy, span: &Arc<Span>, mtime: Time) -> io::Result<()> {
        copy.take_out(span, &name_of(span.ino()), mtime).await?;
        self.inner.is_new(span.ino());
        Ok(())
    }

    /// Makes the content the local file of a span of the same length, which is whole afterwards. The ledger knows durably that the remote has
    /// these bytes: the content is gone, and the span may have to be downloaded again. Nobody may write to it from here on.
    pub async fn give(&self, copy: &LocalCopy, ino: Ino, span: &Arc<Span>) -> io::Result<()> {
        // Bits of the cache stand for durable bytes.
        self.sync(ino).await?;
        copy.take_in(span, &name_of(ino))?;
        self.inner.is_gone(ino);
        Ok(())
    }

    /// Keeps a content that nothing is known of under a name of its own, for people: it replaces nothing. Returns that name.
    pub fn set_aside(&self, ino: Ino) -> io::Result<String> {
        let taken = self.inner.files.list()?;
        let name = loop {
            let name = format!("{ASIDE}{ino}-{:08x}", entropy::u128() as u32);
            if !taken.contains(&name) {
                break name;
            }
        };
        self.inner.files.rename(&name_of(ino), &name)?;
        self.inner.is_gone(ino);
        Ok(name)
    }

    /// Bytes that may still be written to the local disk.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.inner.files.free_bytes()
    }

    /// How many are kept for people under names of their own.
    pub fn count_aside(&self) -> io::Result<u64> {
        Ok(self.inner.files.list()?.iter().filter(|name| name.starts_with(ASIDE)).count() as u64)
    }

    /// Bytes of the local disk that all of them take. Cheap: looks only at those that may have changed since the last time.
    pub fn taken_bytes(&self) -> u64 {
        let size = |ino: Ino| Some(self.inner.files.size_of(&name_of(ino)).ok()?.allocated);
        self.inner.taken.sum(|| self.all().unwrap_or_default(), size, |ino| self.inner.is_watched(ino))
    }
}
