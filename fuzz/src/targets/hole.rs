//! A disk on which the cache's blocks are a file that is long enough and empty.

use holdall_core::disk::{Disk, DiskFile, Sync};
use holdall_core::sim::disk::SimDisk;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The disk, and the length of the file `blocks`.
pub struct WithHole(pub SimDisk, pub u64);

struct Hole(u64);

impl Disk for WithHole {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        if name == "blocks" { Ok(Arc::new(Hole(self.1))) } else { self.0.open(name, create) }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn sync_names(&self) -> Sync {
        self.0.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
}

impl DiskFile for Hole {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> io::Result<()> {
        buf.fill(0);
        Ok(())
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async { Ok(()) })
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}
