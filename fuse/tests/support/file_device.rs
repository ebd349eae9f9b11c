//! A plain file as a device, served by the bench and the handover tests.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::Disk;
use holdall_core::disk::DiskFile;
use holdall_core::disk::real::Directory;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub struct FileDevice {
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
}

impl FileDevice {
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = Directory::create(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
        let file = directory.open(name, false)?;
        let size_bytes = file.len()? / 4096 * 4096;
        Ok(FileDevice { file, size_bytes })
    }
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.size_bytes, read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        let (file, len) = (Arc::clone(&self.file), range.end - range.start);
        let piece = Piece::File { file, offset: range.start, len, by_reference: true };
        Answer::Now(Ok(ReadLease::new(vec![piece], ())))
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()> {
        assert_eq!(durability, Durability::Ordered);
        Answer::Now(self.file.write_at(data, offset).map_err(DeviceError::from))
    }

    fn zero(&self, range: Range<u64>, _how: Zeroing, _durability: Durability) -> Answer<()> {
        Answer::Now(self.file.punch(range).map_err(DeviceError::from))
    }

    fn flush(&self) -> Answer<()> {
        let synced = Arc::clone(&self.file).sync();
        Answer::later(async move { Ok(synced.await?) })
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Ok(vec![Allocation { len: range.end - range.start, zero: false }]))
    }
}
