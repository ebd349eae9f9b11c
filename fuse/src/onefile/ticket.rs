//! The right, and the duty, to answer one request once.

use super::pipe;
use crate::wire::reply;
use holdall_core::device::{DeviceError, ReadLease};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// One unanswered request. Answering consumes it. If a panic drops it, it answers EIO, because the kernel would wait forever. If it is
/// dropped otherwise (its runtime is shutting down), it stays unanswered, for the process that serves next.
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

    /// Success, with the `len` bytes of the lease sent by reference; returns the ticket if that is not possible.
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

    /// Success without a body, or the device's failure.
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

    /// Leaves the request to the process that resumes the connection.
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
            // The program that asked has gone (ENOENT), or the connection has: there is nobody to answer.
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

/// The one translation of the device's errors. The loop device and the file system above turn every error into EIO, or into something
/// worse: ENOSPC, ENODATA or ETIMEDOUT have special meanings for the block layer, so we use none of them.
fn errno(error: &DeviceError) -> Errno {
    match error {
        DeviceError::OutOfRange => Errno::INVAL,
        DeviceError::ReadOnly => Errno::ROFS,
        DeviceError::Closed | DeviceError::Unavailable(_) | DeviceError::Failed(_) => Errno::IO,
    }
}
