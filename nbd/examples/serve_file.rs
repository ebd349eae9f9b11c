//! Serves one plain file over a Unix socket, to be measured beside `nbdkit file`.
//!
//!     cargo run --release --example serve_file -- FILE SOCKET

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::real::Directory;
use holdall_core::disk::{Disk, DiskFile};
use holdall_nbd::server::Server;
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

/// A file as a device: every read is there at once.
struct FileDevice {
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    by_reference: bool,
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            size_bytes: self.size_bytes,
            read_only: false,
        }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        let (offset, len) = (range.start, range.end - range.start);
        let piece = Piece::File {
            file: self.file.clone(),
            offset,
            len,
            by_reference: self.by_reference,
        };
        Answer::Now(Ok(ReadLease::new(vec![piece], ())))
    }

    fn write(&self, offset: u64, data: &[u8], _durability: Durability) -> Answer<()> {
        Answer::Now(self.file.write_at(data, offset).map_err(Into::into))
    }

    fn zero(&self, range: Range<u64>, _how: Zeroing, _durability: Durability) -> Answer<()> {
        Answer::Now(self.file.punch(range).map_err(Into::into))
    }

    fn flush(&self) -> Answer<()> {
        let file = self.file.clone();
        Answer::later(async move { Ok(file.sync().await?) })
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Ok(vec![Allocation {
            len: range.end - range.start,
            zero: false,
        }]))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(file), Some(socket)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_file FILE SOCKET".into());
    };
    let directory = Directory::create(file.parent().ok_or("FILE needs a directory")?)?;
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("FILE needs a name")?;
    let file = directory.open(name, false)?;
    let size_bytes = file.len()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    let server = Server::new(runtime.handle().clone());
    let by_reference = std::env::var_os("COPY").is_none();
    server.export(
        "file",
        Arc::new(FileDevice {
            file,
            size_bytes,
            by_reference,
        }),
    )?;
    server.listen_unix(UnixListener::bind(socket)?)?;
    loop {
        std::thread::park();
    }
}
