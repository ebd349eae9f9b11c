//! The open /dev/fuse of a mount.

use parking_lot::Mutex;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The descriptor, until the session ends: if nobody else holds it, the kernel then ends the connection, and no program waits for answers
/// that never come.
#[derive(Debug, Default)]
pub(super) struct Device(Mutex<Option<Arc<OwnedFd>>>);

impl Device {
    pub fn set(&self, fd: OwnedFd) {
        *self.0.lock() = Some(Arc::new(fd));
    }

    pub fn get(&self) -> io::Result<Arc<OwnedFd>> {
        self.0.lock().clone().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub fn close(&self) {
        *self.0.lock() = None;
    }
}
