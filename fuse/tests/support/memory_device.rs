//! A device in memory that counts its requests. A test can hold its answers back.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::{Disk, DiskFile};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use tokio::sync::oneshot;

/// The behaviour of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    Now,
    /// Waits until the test releases it.
    Held,
    Fail,
    Panic,
}

pub struct MemoryDevice {
    file: Arc<dyn DiskFile>,
    _directory: tempfile::TempDir,
    size: AtomicU64,
    pub flushes: AtomicU64,
    pub zeroed: Mutex<Vec<(Range<u64>, Zeroing)>>,
    reads: Mutex<Reads>,
    held: Mutex<Vec<(u64, oneshot::Sender<()>)>>,
    held_changed: Condvar,
}

impl MemoryDevice {
    pub fn new(size: u64) -> Arc<Self> {
        // tmpfs is memory, and sparse.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let disk = holdall_core::disk::real::Directory::create(directory.path()).unwrap();
        let file = disk.open("disk", true).unwrap();
        file.set_len(size).unwrap();
        Arc::new(MemoryDevice {
            file,
            _directory: directory,
            size: AtomicU64::new(size),
            flushes: AtomicU64::new(0),
            zeroed: Mutex::default(),
            reads: Mutex::new(Reads::Now),
            held: Mutex::default(),
            held_changed: Condvar::new(),
        })
    }

    pub fn set_reads(&self, reads: Reads) {
        *self.reads.lock().unwrap() = reads;
    }

    pub fn grow(&self, size: u64) {
        self.file.set_len(size).unwrap();
        self.size.store(size, Ordering::SeqCst);
    }

    /// Waits until `count` reads are held, and returns them with their offsets.
    pub fn take_held(&self, count: usize) -> Vec<(u64, oneshot::Sender<()>)> {
        let held = self.held.lock().unwrap();
        let mut held = self.held_changed.wait_while(held, |held| held.len() < count).unwrap();
        std::mem::take(&mut *held)
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.size.load(Ordering::SeqCst), read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        let (file, offset, len) = (Arc::clone(&self.file), range.start, range.end - range.start);
        let lease = ReadLease::new(vec![Piece::File { file, offset, len, by_reference: false }], ());
        let reads = *self.reads.lock().unwrap();
        match reads {
            Reads::Now => Answer::Now(Ok(lease)),
            Reads::Fail => Answer::Now(Err(DeviceError::Unavailable("a test".into()))),
            Reads::Panic => panic!("a test's panic"),
            Reads::Held => {
                let (release, released) = oneshot::channel();
                self.held.lock().unwrap().push((offset, release));
                self.held_changed.notify_all();
                Answer::later(async move {
                    released.await.map_err(|_| DeviceError::Closed)?;
                    Ok(lease)
                })
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8], _durability: Durability) -> Answer<()> {
        Answer::Now(self.file.write_at(data, offset).map_err(DeviceError::from))
    }

    fn zero(&self, range: Range<u64>, how: Zeroing, _durability: Durability) -> Answer<()> {
        self.zeroed.lock().unwrap().push((range.clone(), how));
        Answer::Now(self.file.punch(range).map_err(DeviceError::from))
    }

    fn flush(&self) -> Answer<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Answer::later(async { Ok(()) })
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Ok(vec![Allocation { len: range.end - range.start, zero: false }]))
    }
}
