//! The right, and the duty, to answer one request once.

use super::pipe;
use crate::wire::reply;
use holdall_core::device::{DeviceError, ReadLease};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// One unanswered request. Answering consumes it. Dropped by a panic it answers EIO, since the kernel would wait for
/// ever; dropped otherwise (its runtime is shutting down) it stays unanswered, for whoever serves next.
pub(super) struct Ticket {
    channel: Arc<OwnedFd>,
    unique: u64,
    open: bool,
}

impl Ticket {
    pub(super) fn new(channel: &Arc<OwnedFd>, unique: u64) -> Self {
        Ticket { channel: Arc::clone(channel), unique, open: true }
    }

    /// Success, with `body`.
    pub(super) fn ok(mut self, body: &[u8]) {
        self.send(0, body);
    }

    /// Success, with the lease's bytes, `len` of them, sent by reference; or the ticket back, where they cannot be.
    pub(super) fn ok_by_reference(mut self, lease: &ReadLease, len: usize) -> Result<(), Self> {
        let header = reply::header(self.unique, 0, len);
        match pipe::send(self.channel.as_fd(), &header, lease, len) {
            Some(sent) => {
                self.open = false;
                self.report(sent);
                Ok(())
            }
            None => Err(self),
        }
    }

    /// Failure.
    pub(super) fn error(mut self, errno: Errno) {
        self.send(errno.raw_os_error(), &[]);
    }

    /// Success without a body, or the failure.
    pub(super) fn done(self, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.ok(&[]),
            Err(error) => self.failed(&error),
        }
    }

    /// The device's failure.
    pub(super) fn failed(self, error: &DeviceError) {
        tracing::warn!(%error, "the disk answers with an error");
        self.error(errno(error));
    }

    /// Leaves the request to whoever resumes the connection.
    pub(super) fn abandon(mut self) {
        self.open = false;
    }

    fn send(&mut self, errno: i32, body: &[u8]) {
        self.open = false;
        let header = reply::header(self.unique, errno, body.len());
        let sent = rustix::io::writev(&*self.channel, &[IoSlice::new(&header), IoSlice::new(body)]);
        self.report(sent.map(drop));
    }

    fn report(&self, sent: rustix::io::Result<()>) {
        match sent {
            Ok(()) => {}
            // The asker has gone (ENOENT), or the connection has: there is nobody left to answer.
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::PERM) => {}
            // The kernel has ended the request with EIO itself; it does not wait.
            Err(error) => tracing::error!(%error, unique = self.unique, "the kernel refuses a reply"),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open && std::thread::panicking() {
            self.send(Errno::IO.raw_os_error(), &[]);
        }
    }
}

/// The one translation of the device's errors. Above it a loop device and a file system turn whatever comes into EIO, or
/// into something worse: ENOSPC, ENODATA or ETIMEDOUT have meanings of their own to the block layer, so none is used.
fn errno(error: &DeviceError) -> Errno {
    match error {
        DeviceError::OutOfRange => Errno::INVAL,
        DeviceError::ReadOnly => Errno::ROFS,
        DeviceError::Closed | DeviceError::Unavailable(_) | DeviceError::Failed(_) => Errno::IO,
    }
}
