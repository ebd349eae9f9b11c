//! Who registers local files with the kernel for passthrough.

use async_trait::async_trait;
use holdall_kernel::passthrough;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

mod elsewhere;

pub use elsewhere::{Elsewhere, Exchange};

/// Registers files with the connection of a mount. The kernel reads and writes them with the rights of the process that does so.
#[async_trait]
pub trait Registrar: Send + Sync + 'static {
    /// Registers `file`, which is open for reading only, with the connection of `device`. Returns its backing id. An error means that this
    /// file is not registered; later ones may be.
    async fn register(&self, device: &Arc<OwnedFd>, file: &File) -> io::Result<u32>;

    /// Ends a registration. One that cannot be ended stays until the connection ends.
    async fn unregister(&self, device: &Arc<OwnedFd>, id: u32) -> io::Result<()>;
}

/// This process, if it is root.
#[derive(Clone, Copy, Debug)]
pub struct InProcess;

impl InProcess {
    /// `None` where this process may not: files are served then.
    pub fn new() -> Option<Self> {
        rustix::process::geteuid().is_root().then_some(Self)
    }
}

#[async_trait]
impl Registrar for InProcess {
    async fn register(&self, device: &Arc<OwnedFd>, file: &File) -> io::Result<u32> {
        passthrough::register(device.as_fd(), file.as_fd())
    }

    async fn unregister(&self, device: &Arc<OwnedFd>, id: u32) -> io::Result<()> {
        passthrough::unregister(device.as_fd(), id)
    }
}
