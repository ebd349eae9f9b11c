//! A plain file as a device: every read is answered at once.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::real::Directory;
use holdall_core::disk::{Disk, DiskFile};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file as a device.
pub struct FileDevice {
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
}

impl FileDevice {
    /// Opens a file, whose length is the device's size.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(io::Error::other("a file needs a directory and a name"));
        };
        let file = Directory::create(parent)?.open(name, false)?;
        let size_bytes = file.len()?;
        Ok(Arc::new(Self { file, size_bytes }))
    }
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.size_bytes, read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        let (offset, len) = (range.start, range.end - range.start);
        let piece = Piece::File { file: self.file.clone(), offset, len, by_reference: true };
        Answer::Now(Ok(ReadLease::new(vec![piece], ())))
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()> {
        let written = self.file.write_at(data, offset);
        match (written, durability) {
            (Err(error), _) => Answer::Now(Err(error.into())),
            (Ok(()), Durability::Ordered) => Answer::Now(Ok(())),
            (Ok(()), Durability::Forced) => self.flush(),
        }
    }

    fn zero(&self, range: Range<u64>, _how: Zeroing, durability: Durability) -> Answer<()> {
        let punched = self.file.punch(range);
        match (punched, durability) {
            (Err(error), _) => Answer::Now(Err(error.into())),
            (Ok(()), Durability::Ordered) => Answer::Now(Ok(())),
            (Ok(()), Durability::Forced) => self.flush(),
        }
    }

    fn flush(&self) -> Answer<()> {
        let file = self.file.clone();
        Answer::later(async move { Ok(file.sync().await?) })
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Ok(vec![Allocation { len: range.end - range.start, zero: false }]))
    }
}
