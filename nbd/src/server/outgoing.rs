//! Sends replies. The reading thread, the writing thread and the runtime meet here. A reply leaves whole, or the connection is dropped.
//!
//! Replies gather in one buffer and leave together; the reading thread flushes when it has no further request at hand. A thread that leaves
//! bytes in the buffer sends them, or has them sent, before it waits for anything.
//!
//! The first bytes of a read are fetched before its header leaves, so that an error can still be reported. If a long read fails later, the
//! connection is dropped, as the protocol wants, and the export becomes *careful*: from then on whole reads are fetched first. Without
//! that, the kernel would read the same place again on its next connection, until it had no connection left, and then wait forever instead
//! of seeing EIO.

use super::in_flight::InFlight;
use super::reply::{Body, Reply, code_of};
use super::send_buffer::{SendBuffer, SendError};
use crate::codec::transmission::{Chunk, Cookie, chunk, encode_simple_reply, extent};
use holdall_core::device::{Allocation, Piece};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many bytes of replies may gather, so that the first reply of a burst does not wait for the last.
const GATHER_BYTES: usize = 32 << 10;
/// Bytes of one long read between two sends. The client copies one part while the next is fetched, and the part stays in the processor's
/// cache between the two copies.
const STREAM_BYTES: usize = 128 << 10;
/// The longest text of a structured error that is sent.
const MESSAGE_BYTES_MAX: usize = 512;
/// The number of the one metadata context.
pub(super) const ALLOCATION_CONTEXT: u32 = 1;

/// The sending half of a connection.
pub(super) struct Outgoing {
    socket: Arc<OwnedFd>,
    in_flight: Arc<InFlight>,
    structured: bool,
    by_reference: bool,
    careful: Arc<AtomicBool>,
    // A mutex, because replies must not mix on the wire. The runtime only tries it.
    buffer: Mutex<SendBuffer>,
}

/// The connection cannot be used any longer.
#[derive(Debug)]
pub(super) struct Broken;

impl Outgoing {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        in_flight: Arc<InFlight>,
        structured: bool,
        careful: Arc<AtomicBool>,
    ) -> Self {
        let buffer = Mutex::new(SendBuffer::new(socket.clone()));
        let family = rustix::net::sockopt::socket_domain(&socket);
        let by_reference = matches!(family, Ok(rustix::net::AddressFamily::UNIX));
        Self { socket, in_flight, structured, by_reference, careful, buffer }
    }

    /// For the reading thread: adds a reply, which leaves with the next [`Outgoing::flush`] or earlier. Its bytes may leave by reference,
    /// because that thread releases them later ([`Outgoing::release_taken`]).
    pub(super) fn put(&self, reply: Reply) -> Result<(), Broken> {
        let mut buffer = self.buffer.lock();
        let result = self
            .encode(&mut buffer, reply, self.by_reference)
            .and_then(|()| if buffer.len() >= GATHER_BYTES { buffer.flush() } else { Ok(()) });
        self.unless_broken(result)
    }

    /// For the reading thread: adds a short reply with data. If that would have to wait for a disk, returns the reply.
    pub(super) fn put_resident(&self, reply: Reply) -> Result<Option<Reply>, Broken> {
        let Body::Data { offset, ref lease, fragment } = reply.body else {
            return self.put(reply).map(|()| None);
        };
        let mut buffer = self.buffer.lock();
        let mark = buffer.begin_resident();
        match self.data(&mut buffer, reply.cookie, offset, lease.pieces(), fragment) {
            Ok(()) if buffer.len() >= GATHER_BYTES => {
                let result = buffer.flush();
                self.unless_broken(result).map(|()| None)
            }
            Ok(()) => Ok(None),
            Err(_) => {
                assert!(
                    buffer.rewind(mark),
                    "a short reply does not begin to leave while it is put together"
                );
                Ok(Some(reply))
            }
        }
    }

    /// For the writing thread: sends a reply, by copy, and waits until it has left.
    pub(super) fn send(&self, reply: Reply) -> Result<(), Broken> {
        let mut buffer = self.buffer.lock();
        let result = self.encode(&mut buffer, reply, false).and_then(|()| buffer.flush());
        self.unless_broken(result)
    }

    /// Releases the places in files whose bytes the client has taken; returns how many are left.
    pub(super) fn release_taken(&self) -> usize {
        if self.by_reference { self.buffer.lock().release_taken() } else { 0 }
    }

    /// Sends the gathered bytes, and waits until they have left.
    pub(super) fn flush(&self) -> Result<(), Broken> {
        let result = self.buffer.lock().flush();
        self.unless_broken(result)
    }

    /// For the runtime: sends a reply without data unless that has to wait, be it for the lock or for the client. Returns the reply if it
    /// could not begin; `Ok(false)` means that the rest needs a [`Outgoing::flush`].
    pub(super) fn try_send(&self, reply: Reply) -> Result<bool, Reply> {
        if matches!(reply.body, Body::Data { .. }) {
            return Err(reply);
        }
        self.try_send_fetched(reply)
    }

    /// The same for a thread that may wait for the local disk: it also sends data, which is short.
    pub(super) fn try_send_fetched(&self, reply: Reply) -> Result<bool, Reply> {
        let Some(mut buffer) = self.buffer.try_lock() else {
            return Err(reply);
        };
        let result = self.encode(&mut buffer, reply, false).and_then(|()| buffer.try_flush());
        let sent = *result.as_ref().unwrap_or(&true);
        // A broken connection needs no flush: the shutdown has woken its reading thread.
        let _ = self.unless_broken(result.map(drop));
        Ok(sent)
    }

    /// Ends the connection in both directions, for every thread that uses it. It is fenced first: as soon as the client sees the end, it
    /// may send its unanswered writes again on another connection, and must find the gate closed there.
    pub(super) fn break_off(&self) {
        self.in_flight.end();
        // This fails if the peer was faster.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn unless_broken(&self, result: Result<(), SendError>) -> Result<(), Broken> {
        result.map_err(|error| {
            match error {
                SendError::NotResident => unreachable!("put_resident deals with it"),
                SendError::Socket(error) => tracing::debug!(%error, "a client does not take its replies"),
                SendError::Device(error) => {
                    tracing::error!(%error, "a read failed after its header had left: connection dropped");
                    self.careful.store(true, Ordering::Release);
                }
            }
            self.break_off();
            Broken
        })
    }

    fn encode(&self, buffer: &mut SendBuffer, reply: Reply, may_refer: bool) -> Result<(), SendError> {
        let cookie = reply.cookie;
        match reply.body {
            Body::Done => {
                buffer.push(&encode_simple_reply(0, cookie));
                Ok(())
            }
            Body::Error(code, message) => {
                self.error(buffer, cookie, code.number(), &message);
                Ok(())
            }
            Body::Extents(extents) => {
                status(buffer, cookie, &extents);
                Ok(())
            }
            Body::Data { offset, lease, fragment } => {
                let careful = self.careful.load(Ordering::Acquire);
                let stream_limit = if careful { usize::MAX } else { STREAM_BYTES };
                let mark = buffer.begin(stream_limit, may_refer && !careful);
                let put = self.data(buffer, cookie, offset, lease.pieces(), fragment);
                // Do this after an error too: bytes sent by reference are still in the socket.
                buffer.end(lease);
                match put {
                    Err(SendError::Device(error)) if buffer.rewind(mark) => {
                        self.error(buffer, cookie, code_of(&error).number(), &error.to_string());
                        Ok(())
                    }
                    other => other,
                }
            }
        }
    }

    fn error(&self, buffer: &mut SendBuffer, cookie: Cookie, number: u32, message: &str) {
        if !self.structured {
            buffer.push(&encode_simple_reply(number, cookie));
            return;
        }
        let text = &message.as_bytes()[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        let len = 6 + text.len() as u32;
        buffer.push(&Chunk { done: true, kind: chunk::ERROR, cookie, len }.encode());
        buffer.push(&number.to_be_bytes());
        buffer.push(&(text.len() as u16).to_be_bytes());
        buffer.push(text);
    }

    fn data(
        &self,
        buffer: &mut SendBuffer,
        cookie: Cookie,
        offset: u64,
        pieces: &[Piece],
        fragment: bool,
    ) -> Result<(), SendError> {
        if self.structured {
            return structured_data(buffer, cookie, offset, pieces, fragment);
        }
        buffer.push(&encode_simple_reply(0, cookie));
        pieces.iter().try_for_each(|piece| buffer.piece(piece))
    }
}

/// A structured reply to a READ: runs of data and holes, or one run of data if it must not be fragmented.
fn structured_data(
    buffer: &mut SendBuffer,
    cookie: Cookie,
    mut offset: u64,
    pieces: &[Piece],
    fragment: bool,
) -> Result<(), SendError> {
    let is_hole = |piece: &Piece| fragment && matches!(piece, Piece::Zero { .. });
    let mut runs = pieces.chunk_by(|a, b| is_hole(a) == is_hole(b)).peekable();
    if runs.peek().is_none() {
        buffer.push(&Chunk { done: true, kind: chunk::NONE, cookie, len: 0 }.encode());
    }
    while let Some(run) = runs.next() {
        let bytes: u64 = run.iter().map(Piece::len).sum();
        let done = runs.peek().is_none();
        if run.iter().all(is_hole) {
            buffer.push(&Chunk { done, kind: chunk::OFFSET_HOLE, cookie, len: 12 }.encode());
            buffer.push(&offset.to_be_bytes());
            buffer.push(&(bytes as u32).to_be_bytes());
        } else {
            buffer.push(&Chunk { done, kind: chunk::OFFSET_DATA, cookie, len: 8 + bytes as u32 }.encode());
            buffer.push(&offset.to_be_bytes());
            run.iter().try_for_each(|piece| buffer.piece(piece))?;
        }
        offset += bytes;
    }
    Ok(())
}

/// A reply to BLOCK_STATUS. A range that reads as zeros without I/O is reported as a hole: both mean "nothing to copy".
fn status(buffer: &mut SendBuffer, cookie: Cookie, extents: &[Allocation]) {
    let len = 4 + 8 * extents.len() as u32;
    buffer.push(&Chunk { done: true, kind: chunk::BLOCK_STATUS, cookie, len }.encode());
    buffer.push(&ALLOCATION_CONTEXT.to_be_bytes());
    for run in extents {
        let flags = if run.zero { extent::HOLE | extent::ZERO } else { 0 };
        buffer.push(&(run.len as u32).to_be_bytes());
        buffer.push(&flags.to_be_bytes());
    }
}
