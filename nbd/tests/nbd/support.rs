//! A server with one export on a Unix socket in its own directory. Several test programs share it, and none uses all of it.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, ReadLease, Zeroing,
};
use holdall_nbd::client::{Client, ClientError, Options};
use holdall_nbd::server::{Export, Server};
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than any test may take, so that a hang is a failure.
pub const GRACE: Duration = Duration::from_secs(20);

pub struct Serving {
    pub server: Server,
    pub export: Arc<Export>,
    pub socket: PathBuf,
    /// Tests keep their files here, too.
    pub directory: tempfile::TempDir,
    // Dropped last, since the server's futures run on it.
    _runtime: tokio::runtime::Runtime,
}

impl Serving {
    pub fn start(device: Arc<dyn BlockDevice>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let server = Server::new(runtime.handle().clone());
        let export = server.export("drive", device).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nbd.sock");
        server.listen_unix(UnixListener::bind(&socket).unwrap()).unwrap();
        Self { server, export, socket, directory, _runtime: runtime }
    }

    pub fn client(&self, options: &Options) -> Client {
        Client::connect_unix(&self.socket, options).unwrap()
    }

    /// Waits for another thread; fails if it takes too long.
    pub fn wait_until(&self, done: impl Fn() -> bool) {
        let deadline = Instant::now() + GRACE;
        while !done() {
            assert!(Instant::now() < deadline, "waited in vain");
            std::thread::yield_now();
        }
    }
}

pub fn all_options() -> Options {
    Options { export: "drive".into(), structured: true, block_sizes: true, allocation: true }
}

pub fn error_number(error: &ClientError) -> Option<u32> {
    match error {
        ClientError::Failed { error, .. } => Some(*error),
        _ => None,
    }
}

/// Bytes without zeros, in which no two blocks are alike.
pub fn fill(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at / 4096 + at * 31 + usize::from(seed) * 7) % 255 + 1) as u8).collect()
}

/// A read panics at once, and a write panics in its future.
pub struct PanickingDevice;

impl BlockDevice for PanickingDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: 1 << 20, read_only: false }
    }

    fn read(&self, _range: Range<u64>) -> Answer<ReadLease> {
        panic!("on purpose")
    }

    fn write(&self, _offset: u64, _data: &[u8], _durability: Durability) -> Answer<()> {
        Answer::later(async { panic!("on purpose") })
    }

    fn zero(&self, _range: Range<u64>, _how: Zeroing, _durability: Durability) -> Answer<()> {
        Answer::Now(Err(DeviceError::Closed))
    }

    fn flush(&self) -> Answer<()> {
        Answer::Now(Ok(()))
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, _range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(Err(DeviceError::Closed))
    }
}
