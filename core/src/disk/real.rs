//! The local file system as a [`Disk`].

use super::{Disk, DiskFile, FileSize, Sync};
use crate::store::remote::Time;
use rustix::fs::{FallocateFlags, SeekFrom, Timespec, Timestamps, UTIME_OMIT};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) mod lease;

const NANOS: i128 = 1_000_000_000;

/// A directory of the local file system.
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens `path`. Creates it (for its owner alone) and its parents if they are missing.
    pub fn create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Bytes of the local disk that its files take.
    pub fn allocated_bytes(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        let mut total = 0;
        for entry in std::fs::read_dir(&self.path)? {
            match entry?.metadata() {
                Ok(metadata) => total += metadata.blocks() * 512,
                // Another process has removed it since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for Directory {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        Ok(Arc::new(LocalFile { file: options.open(self.path.join(name))? }))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LocalFile { file: File::open(self.path.join(name))? }))
    }

    fn size_of(&self, name: &str) -> io::Result<FileSize> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::symlink_metadata(self.path.join(name))?;
        Ok(FileSize { len: metadata.len(), allocated: metadata.blocks() * 512 })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_names(&self) -> Sync {
        let path = self.path.clone();
        in_background(move || File::open(path)?.sync_all())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.path)?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    fn boot(&self) -> Option<Uuid> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Uuid::parse_str(id.trim()).ok()
    }
}

struct LocalFile {
    file: File,
}

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocated(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        // Seeking is safe: nothing else uses the file's own position.
        match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => Ok(Some(start..rustix::fs::seek(&self.file, SeekFrom::Hole(start))?)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        Ok(rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, range.start, len)?)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = range.end - range.start;
        match rustix::fs::fallocate(&self.file, flags, range.start, len) {
            Ok(()) => Ok(()),
            // Some file systems cannot punch holes. Written zeros mean the same, but take space.
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeros(range),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync(self: Arc<Self>) -> Sync {
        in_background(move || self.file.sync_data())
    }

    fn mtime(&self) -> io::Result<Time> {
        use std::os::unix::fs::MetadataExt;
        let metadata = self.file.metadata()?;
        Ok(Time(i128::from(metadata.mtime()) * NANOS + i128::from(metadata.mtime_nsec())))
    }

    fn set_mtime(&self, Time(nanos): Time) -> io::Result<()> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanos.rem_euclid(NANOS) as i64 };
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        Ok(rustix::fs::futimens(&self.file, &Timestamps { last_access, last_modification })?)
    }

    fn lease(&self) -> io::Result<bool> {
        lease::take(&self.file)
    }

    fn sync_here(&self) -> Option<io::Result<()>> {
        Some(self.file.sync_data())
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

impl LocalFile {
    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = range.start;
        let end = range.end.min(self.len()?);
        while at < end {
            let len = (end - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..len as usize], at)?;
            at += len;
        }
        Ok(())
    }
}

/// fdatasync may take seconds, so it runs on a thread that may block.
fn in_background(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Sync {
    Box::pin(async move {
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
    })
}
