//! Bytes on their way to a socket.

use holdall_core::device::{DeviceError, Piece};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Space that is kept between replies; what a careful read of up to 32 MiB needed is given back.
const KEPT_BYTES: usize = 512 << 10;

/// Why a reply did not leave.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Socket(io::Error),
    #[error(transparent)]
    Device(DeviceError),
}

/// A buffer before a socket.
pub(super) struct SendBuffer {
    socket: Arc<OwnedFd>,
    // All of it is initialised; the bytes before `filled` wait to be sent. Growing by `resize` for each reply
    // would clear memory that is overwritten at once.
    bytes: Vec<u8>,
    filled: usize,
    stream_limit: usize,
    // Bytes have left since `begin`.
    started: bool,
}

/// Where a reply begins in the buffer.
pub(super) struct Mark(usize);

impl SendBuffer {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            bytes: Vec::new(),
            filled: 0,
            stream_limit: 0,
            started: false,
        }
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Begins a reply with data, which may leave in parts of about `stream_limit` bytes.
    pub(super) fn begin(&mut self, stream_limit: usize) -> Mark {
        (self.stream_limit, self.started) = (stream_limit, false);
        Mark(self.filled)
    }

    /// Takes back what was added since `mark`; false where some of it has left.
    pub(super) fn rewind(&mut self, mark: Mark) -> bool {
        if !self.started {
            self.filled = mark.0;
        }
        !self.started
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Adds the bytes of `piece`, sending on the way what exceeds the limit.
    pub(super) fn piece(&mut self, piece: &Piece) -> Result<(), SendError> {
        let mut done = 0;
        while done < piece.len() {
            if self.filled >= self.stream_limit {
                self.flush()?;
            }
            let room = (self.stream_limit - self.filled) as u64;
            let step = (piece.len() - done).min(room);
            let space = self.space(step as usize);
            match piece {
                Piece::File { file, offset, .. } => {
                    file.read_at(space, offset + done)
                        .map_err(|error| SendError::Device(error.into()))?;
                }
                Piece::Zero { .. } => space.fill(0),
            }
            self.filled += step as usize;
            done += step;
        }
        Ok(())
    }

    /// Sends everything, waiting for the client where it must.
    pub(super) fn flush(&mut self) -> Result<(), SendError> {
        let sent = self.send(SendFlags::empty());
        sent.map(|all| assert!(all, "a blocking send ends with everything or with an error"))
    }

    /// Sends what the socket takes at once; whether that was all.
    pub(super) fn try_flush(&mut self) -> Result<bool, SendError> {
        self.send(SendFlags::DONTWAIT)
    }

    fn send(&mut self, flags: SendFlags) -> Result<bool, SendError> {
        let mut sent = 0;
        while sent < self.filled {
            match rustix::net::send(
                &self.socket,
                &self.bytes[sent..self.filled],
                flags | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if flags.contains(SendFlags::DONTWAIT) => break,
                Err(errno) => return Err(SendError::Socket(errno.into())),
            }
        }
        self.started |= sent > 0;
        self.bytes.copy_within(sent..self.filled, 0);
        self.filled -= sent;
        if self.filled == 0 && self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        Ok(self.filled == 0)
    }

    fn space(&mut self, len: usize) -> &mut [u8] {
        let end = self.filled + len;
        if end > self.bytes.len() {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        &mut self.bytes[self.filled..end]
    }
}
