//! A disk on which the files whose names begin in one way cannot be made durable once.

use holdall_core::disk::{Disk, DiskFile, Sync};
use holdall_core::sim::disk::SimDisk;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct FailsOne {
    disk: SimDisk,
    prefix: &'static str,
    has_failed: Arc<AtomicBool>,
}

struct Failing {
    file: Arc<dyn DiskFile>,
    has_failed: Arc<AtomicBool>,
}

impl FailsOne {
    pub fn new(disk: SimDisk, prefix: &'static str) -> Self {
        Self { disk, prefix, has_failed: Arc::default() }
    }
}

impl Disk for FailsOne {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(name, create)?;
        let has_failed = self.has_failed.clone();
        Ok(if name.starts_with(self.prefix) { Arc::new(Failing { file, has_failed }) } else { file })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_names(&self) -> Sync {
        self.disk.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl DiskFile for Failing {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated(&self) -> io::Result<u64> {
        self.file.allocated()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.file.punch(range)
    }

    fn sync(self: Arc<Self>) -> Sync {
        match self.has_failed.swap(true, Ordering::SeqCst) {
            true => self.file.clone().sync(),
            false => Box::pin(async { Err(io::Error::other("the disk has a bad sector")) }),
        }
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}
