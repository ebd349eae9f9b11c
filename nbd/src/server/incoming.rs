//! Reads requests from a socket: many small ones for each system call, large payloads without a detour.

use super::patience::{LOOK_LIMIT, Patience};
use crate::codec::transmission::{REQUEST_BYTES, Request};
use crate::codec::{Malformed, PAYLOAD_BYTES_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes read ahead. A request of the kernel's default size (128 KiB) fits twice with its payload, so the device gets the payload from
/// where it was received. Pages that were never used cost nothing.
const BUFFER_BYTES: usize = 260 << 10;
/// Payload space that is kept between requests; any more is freed.
const PAYLOAD_KEPT_BYTES: usize = 2 << 20;

/// The receiving half of a connection. Only its reading thread uses it.
pub(super) struct Incoming {
    socket: Arc<OwnedFd>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    payload: Vec<u8>,
    deadline: Option<Instant>,
    patience: Patience,
}

/// Why no more can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("the peer closed the connection")]
    Closed,
    #[error("the peer took too long")]
    TooSlow,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Incoming {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            payload: Vec::new(),
            deadline: None,
            patience: Patience::default(),
        }
    }

    /// Reads fail at this deadline. A client that drips bytes does not move it.
    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) -> Result<(), ReceiveError> {
        self.deadline = deadline;
        if deadline.is_none() {
            sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, None)
                .map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// Whether a whole request (with its payload, if it has one) is here already, so that reading it does not wait.
    pub(super) fn holds_request(&self) -> bool {
        let here = &self.buffer[self.start..self.end];
        let Some(header) = here.first_chunk::<REQUEST_BYTES>() else {
            return false;
        };
        match Request::decode(header) {
            Ok(request) if u16::from(request.command) == 1 => {
                here.len() - REQUEST_BYTES >= request.len as usize
            }
            Ok(_) | Err(_) => true,
        }
    }

    /// Waits until there is something to read, or the stream has ended, for at most `limit`.
    pub(super) fn is_readable_within(&self, limit: Duration) -> Result<bool, ReceiveError> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut fds, Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(ReceiveError::Io(errno.into())),
        }
    }

    /// The next request's header, or `None` if the peer ended the connection between two requests.
    pub(super) fn request(&mut self) -> Result<Option<Request>, ReceiveError> {
        match self.buffered(REQUEST_BYTES) {
            Ok(()) => {}
            Err(ReceiveError::Closed) if self.start == self.end => return Ok(None),
            Err(error) => return Err(error),
        }
        let header = self.buffer[self.start..self.end].first_chunk().expect("it was just buffered");
        let request = Request::decode(header)?;
        self.start += REQUEST_BYTES;
        Ok(Some(request))
    }

    /// The next `len` bytes, which are at most [`PAYLOAD_BYTES_MAX`].
    pub(super) fn payload(&mut self, len: u32) -> Result<&[u8], ReceiveError> {
        assert!(len <= PAYLOAD_BYTES_MAX, "a length is capped before it is read");
        let len = len as usize;
        if len > BUFFER_BYTES {
            return self.large_payload(len);
        }
        self.buffered(len)?;
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }

    /// Fills `out`.
    pub(super) fn exact(&mut self, out: &mut [u8]) -> Result<(), ReceiveError> {
        let here = out.len().min(self.end - self.start);
        let (head, mut rest) = out.split_at_mut(here);
        head.copy_from_slice(&self.buffer[self.start..self.start + here]);
        self.start += here;
        while !rest.is_empty() {
            let received = receive(&self.socket, self.deadline, rest, RecvFlags::WAITALL)?;
            rest = &mut rest[received..];
        }
        Ok(())
    }

    /// Reads and drops `len` bytes.
    pub(super) fn skip(&mut self, mut len: u64) -> Result<(), ReceiveError> {
        while len > 0 {
            self.buffered(1)?;
            let step = len.min((self.end - self.start) as u64);
            self.start += step as usize;
            len -= step;
        }
        Ok(())
    }

    fn large_payload(&mut self, len: usize) -> Result<&[u8], ReceiveError> {
        let mut payload = std::mem::take(&mut self.payload);
        if payload.len() > PAYLOAD_KEPT_BYTES && len <= PAYLOAD_KEPT_BYTES {
            payload = Vec::new();
        }
        if payload.len() < len {
            payload.resize(len, 0);
        }
        self.exact(&mut payload[..len])?;
        self.payload = payload;
        Ok(&self.payload[..len])
    }

    /// Waits until `len` bytes are in the buffer, which can hold as many.
    fn buffered(&mut self, len: usize) -> Result<(), ReceiveError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + len > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < len {
            let between_requests = self.start == self.end && self.deadline.is_none();
            self.end += if between_requests { self.next()? } else { self.more()? };
        }
        Ok(())
    }

    fn more(&mut self) -> Result<usize, ReceiveError> {
        receive(&self.socket, self.deadline, &mut self.buffer[self.end..], RecvFlags::empty())
    }

    /// Receives the first bytes of the next request.
    fn next(&mut self) -> Result<usize, ReceiveError> {
        let begun = Instant::now();
        while self.patience.looks() && begun.elapsed() < LOOK_LIMIT {
            match rustix::net::recv(&self.socket, &mut self.buffer[self.end..], RecvFlags::DONTWAIT) {
                Ok((_, received)) if received > 0 => {
                    self.patience.came_after(begun.elapsed());
                    return Ok(received);
                }
                Err(Errno::AGAIN) => std::thread::yield_now(),
                // The end, or an error: the code below meets it again.
                _ => break,
            }
        }
        let received = self.more()?;
        self.patience.came_after(begun.elapsed());
        Ok(received)
    }
}

fn receive(
    socket: &OwnedFd,
    deadline: Option<Instant>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<usize, ReceiveError> {
    loop {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReceiveError::TooSlow);
            }
            sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(left))
                .map_err(io::Error::from)?;
        }
        match rustix::net::recv(socket, &mut *buffer, flags) {
            Ok((_, 0)) | Err(Errno::CONNRESET | Errno::PIPE) => return Err(ReceiveError::Closed),
            Ok((_, received)) => return Ok(received),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(ReceiveError::Io(errno.into())),
        }
    }
}
