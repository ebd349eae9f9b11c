//! A device whose local disk answers only once a number of reads wait for it.

use super::PATIENCE;
use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::{DiskFile, Sync};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

pub struct SlowDisk(Arc<SlowFile>);

struct SlowFile {
    wanted: usize,
    waiting: Mutex<usize>,
    changed: Condvar,
}

impl SlowDisk {
    /// Each block holds its index. No read is answered before `wanted` reads wait.
    pub fn new(wanted: usize) -> Self {
        SlowDisk(Arc::new(SlowFile { wanted, waiting: Mutex::new(0), changed: Condvar::new() }))
    }
}

impl DiskFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap();
        *waiting += 1;
        self.changed.notify_all();
        let (_guard, waited) =
            self.changed.wait_timeout_while(waiting, PATIENCE, |waiting| *waiting < self.wanted).unwrap();
        buf.fill((offset / 4096) as u8);
        if waited.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn as_file(&self) -> Option<&File> {
        None
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.wanted as u64 * 4096)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async { Ok(()) })
    }
}

impl BlockDevice for SlowDisk {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.0.wanted as u64 * 4096, read_only: true }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        let (file, len) = (Arc::clone(&self.0), range.end - range.start);
        let piece = Piece::File { file, offset: range.start, len, by_reference: false };
        Answer::Now(Ok(ReadLease::new(vec![piece], ())))
    }

    fn write(&self, _offset: u64, _data: &[u8], _durability: Durability) -> Answer<()> {
        Answer::Now(Err(DeviceError::ReadOnly))
    }

    fn zero(&self, _range: Range<u64>, _how: Zeroing, _durability: Durability) -> Answer<()> {
        Answer::Now(Err(DeviceError::ReadOnly))
    }

    fn flush(&self) -> Answer<()> {
        Answer::Now(Ok(()))
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Ok(vec![Allocation { len: range.end - range.start, zero: false }]))
    }
}
