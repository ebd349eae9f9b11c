//! Bytes that wait to be sent to a socket.

use super::references::References;
use holdall_core::device::{DeviceError, Piece, ReadLease};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::SendFlags;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Space that is kept between replies; the space for a careful read of up to 32 MiB is freed.
const KEPT_BYTES: usize = 512 << 10;

/// The shortest run of a file's bytes that leaves by sendfile. Measured with fio, four random reads at once over a
/// Unix socket, warm page cache, kernel 6.18; requests per second by copy -> by sendfile:
///
/// | size | client and server on one processor | on two |
/// | --- | --- | --- |
/// | 16 KiB | 96,000 -> 78,000 | 40,000 -> 77,000 |
/// | 32 KiB | 68,000 -> 63,000 | 50,000 -> 75,000 |
/// | 64 KiB | 40,000 -> 46,000 | 33,000 -> 54,000 |
/// | 1 MiB | 2,600 -> 4,000 | 2,500 -> 4,800 |
pub(super) const BY_REFERENCE_BYTES_MIN: u64 = 32 << 10;

/// Why a reply did not leave.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Socket(io::Error),
    #[error(transparent)]
    Device(DeviceError),
    #[error("the bytes are not in memory")]
    NotResident,
}

/// A send buffer in front of a socket.
pub(super) struct SendBuffer {
    socket: Arc<OwnedFd>,
    // All of it is initialised; the bytes before `filled` wait to be sent. Growing by `resize` for each reply would clear memory that is
    // then overwritten.
    bytes: Vec<u8>,
    filled: usize,
    stream_limit: usize,
    // Whether bytes have left since `begin`.
    started: bool,
    // Whether bytes of this reply may leave by reference, and whether some have.
    may_refer: bool,
    referred: bool,
    // Whether to fail rather than wait for bytes that are not in the page cache.
    only_resident: bool,
    references: References,
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
            may_refer: false,
            referred: false,
            only_resident: false,
            references: References::default(),
        }
    }

    /// The number of bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Begins a reply with data. It may leave in parts of about `stream_limit` bytes, and by reference if `may_refer` is set.
    pub(super) fn begin(&mut self, stream_limit: usize, may_refer: bool) -> Mark {
        (self.stream_limit, self.started, self.referred) = (stream_limit, false, false);
        self.may_refer = may_refer && self.references.has_room();
        self.only_resident = false;
        Mark(self.filled)
    }

    /// Begins a short reply with data, which fails with [`SendError::NotResident`] rather than wait for a disk.
    pub(super) fn begin_resident(&mut self) -> Mark {
        let mark = self.begin(usize::MAX, false);
        self.only_resident = true;
        mark
    }

    /// Ends a reply whose bytes belonged to `lease`.
    pub(super) fn end(&mut self, lease: ReadLease) {
        if self.referred {
            self.references.hold(lease);
            self.references.release_taken(&self.socket);
        }
    }

    /// Releases the bytes that the client has taken; returns how many leases are left.
    pub(super) fn release_taken(&mut self) -> usize {
        self.references.release_taken(&self.socket)
    }

    /// Removes what was added since `mark`; false if some of it has left.
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

    /// Adds the bytes of `piece`, and meanwhile sends whatever exceeds the limit.
    pub(super) fn piece(&mut self, piece: &Piece) -> Result<(), SendError> {
        if let Piece::File { file, offset, len, by_reference: true } = piece
            && self.may_refer
            && *len >= BY_REFERENCE_BYTES_MIN
            && let Some(file) = file.as_file()
        {
            return self.refer(file, *offset, *len);
        }
        let only_resident = self.only_resident;
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
                    let resident = match file.as_file().filter(|_| only_resident) {
                        Some(file) => read_resident(file, space, offset + done)?,
                        None => false,
                    };
                    if !resident {
                        file.read_at(space, offset + done)
                            .map_err(|error| SendError::Device(error.into()))?;
                    }
                }
                Piece::Zero { .. } => space.fill(0),
            }
            self.filled += step as usize;
            done += step;
        }
        Ok(())
    }

    fn refer(&mut self, file: &File, mut offset: u64, len: u64) -> Result<(), SendError> {
        self.send(SendFlags::MORE)?;
        let end = offset + len;
        while offset < end {
            let left = (end - offset) as usize;
            match rustix::fs::sendfile(&self.socket, file, Some(&mut offset), left) {
                Ok(0) => return Err(SendError::Device(io::Error::from(io::ErrorKind::UnexpectedEof).into())),
                Ok(sent) => self.references.sent(sent),
                Err(Errno::INTR) => {}
                Err(errno @ (Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::AGAIN)) => {
                    return Err(SendError::Socket(errno.into()));
                }
                Err(errno) => return Err(SendError::Device(io::Error::from(errno).into())),
            }
            (self.started, self.referred) = (true, true);
        }
        Ok(())
    }

    /// Sends everything, and waits for the client where it must.
    pub(super) fn flush(&mut self) -> Result<(), SendError> {
        let sent = self.send(SendFlags::empty());
        sent.map(|all| assert!(all, "a blocking send ends with everything or with an error"))
    }

    /// Sends what the socket takes at once; returns whether that was everything.
    pub(super) fn try_flush(&mut self) -> Result<bool, SendError> {
        self.send(SendFlags::DONTWAIT)
    }

    fn send(&mut self, flags: SendFlags) -> Result<bool, SendError> {
        let mut sent = 0;
        while sent < self.filled {
            match rustix::net::send(&self.socket, &self.bytes[sent..self.filled], flags | SendFlags::NOSIGNAL)
            {
                Ok(count) => {
                    sent += count;
                    self.references.sent(count);
                }
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

/// Fills `space` from the page cache alone. False if the file system cannot do that.
fn read_resident(file: &File, space: &mut [u8], offset: u64) -> Result<bool, SendError> {
    let len = space.len();
    let mut vectors = [io::IoSliceMut::new(space)];
    match rustix::io::preadv2(file, &mut vectors, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == len => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(false),
        // The read that may wait finds any other problem, and reports it.
        Ok(_) | Err(_) => Err(SendError::NotResident),
    }
}
