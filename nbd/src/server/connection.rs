//! One connection: one thread that reads requests, calls the device, and sends the answers that are ready at once.
//!
//! An answer that is ready costs no task switch. Other answers are awaited on the runtime. It tries to send a reply without data itself,
//! never waiting; everything else goes to the connection's writing thread, which starts with the first such request. So a client that does
//! not read its replies blocks only its own two threads. The queue to the writing thread needs no bound of its own: each entry holds a slot
//! in flight.

use super::completion::{self, Completion, Work};
use super::control::Control;
use super::export::{Export, Terms};
use super::in_flight::{InFlight, Slot};
use super::incoming::{Incoming, ReceiveError};
use super::outgoing::{Broken, Outgoing};
use super::reply::{Body, Reply};
use super::request::{Call, call_for};
use super::send_buffer::BY_REFERENCE_BYTES_MIN;
use crate::codec::transmission::{Command, Cookie, Request};
use crate::codec::{Malformed, PAYLOAD_BYTES_MAX};
use holdall_core::device::{Answer, ReadLease};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// How long a client may leave replies unread. Meanwhile the bytes that they refer to cannot be evicted, so a client that stops for longer
/// in a debugger has to connect again.
pub(super) const STALL_LIMIT: Duration = Duration::from_secs(300);
/// How long a connection that ends waits for its client to take bytes that were sent by reference.
const LAST_REPLIES_LIMIT: Duration = Duration::from_secs(1);

/// How many reads of one connection may wait for the local disk on threads of the runtime; the next one waits on the connection's own
/// thread. This fills the queue of an ordinary solid-state disk.
const DISK_READS_MAX: usize = 32;

/// Why a connection ended before its client asked for it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("the client does not take its replies")]
    Broken,
    #[error("fenced: its client came back on another connection, or the server is stopping")]
    Fenced,
    #[error("no thread for the replies: {0}")]
    Thread(io::Error),
}

impl From<Broken> for ConnectionError {
    fn from(_: Broken) -> Self {
        ConnectionError::Broken
    }
}

impl From<Malformed> for ConnectionError {
    fn from(malformed: Malformed) -> Self {
        ConnectionError::Receive(malformed.into())
    }
}

/// A connection in its transmission phase.
pub(super) struct Connection {
    export: Arc<Export>,
    terms: Terms,
    runtime: Handle,
    control: Arc<Control>,
    in_flight: Arc<InFlight>,
    incoming: Incoming,
    outgoing: Arc<Outgoing>,
    writer: Option<(Sender<Work>, JoinHandle<()>)>,
    disk_reads: Arc<Semaphore>,
}

/// What happens to a waiting request when its client goes.
enum Waits {
    /// A read of this many bytes is dropped: it changes nothing, and may wait for a network forever.
    WithClient(u64),
    /// A flush ends by itself. A write must land, or fail, before any other client's write may overtake it.
    ToItsEnd(Option<Slot>),
}

impl Connection {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        incoming: Incoming,
        export: Arc<Export>,
        terms: Terms,
        runtime: Handle,
        control: Arc<Control>,
        in_flight: Arc<InFlight>,
    ) -> Self {
        let careful = export.careful().clone();
        export.gate().connection_begins();
        let disk_reads = Arc::new(Semaphore::new(DISK_READS_MAX));
        let outgoing = Arc::new(Outgoing::new(socket, in_flight.clone(), terms.structured, careful));
        Self { export, terms, runtime, control, in_flight, incoming, outgoing, writer: None, disk_reads }
    }

    /// Serves until the client, an error or a stop ends the connection.
    pub(super) fn serve(mut self) -> Result<(), ConnectionError> {
        let served = self.transmit();
        if served.is_ok() && self.control.is_stopping() {
            self.in_flight.wait_until_idle();
        }
        let flushed = self.outgoing.flush();
        served.and(flushed.map_err(Into::into))
    }

    fn transmit(&mut self) -> Result<(), ConnectionError> {
        loop {
            if !self.incoming.holds_request() {
                self.outgoing.flush()?;
                self.wait_for_client()?;
            }
            if self.control.is_stopping() {
                return Ok(());
            }
            let Some(request) = self.incoming.request()? else {
                return Ok(());
            };
            if request.command == Command::Disconnect {
                // The protocol wants outstanding requests to be answered before the end.
                self.outgoing.flush()?;
                self.in_flight.wait_until_idle_unless(|| self.control.is_hung_up());
                return Ok(());
            }
            self.wait_for_turn(request.command)?;
            self.answer(&request)?;
        }
    }

    /// Waits until a request arrives, or until the client has taken every byte that was sent by reference: a device may have to wait for
    /// that before it evicts, and no event reports it.
    fn wait_for_client(&self) -> Result<(), ConnectionError> {
        let (mut waited, mut step) = (Duration::ZERO, Duration::from_millis(1));
        while self.outgoing.release_taken() > 0 && !self.incoming.is_readable_within(step)? {
            waited += step;
            step = (step * 2).min(Duration::from_millis(100));
            if waited > STALL_LIMIT {
                return Err(ConnectionError::Broken);
            }
        }
        Ok(())
    }

    /// Waits, with nothing left unsent, until the device's gate is open and there is space for a request.
    fn wait_for_turn(&mut self, command: Command) -> Result<(), ConnectionError> {
        if super::request::writes(command) && self.in_flight.others_write() {
            self.export.fence_gone();
        }
        if self.export.gate().orphans() > 0 {
            self.outgoing.flush()?;
            self.export.gate().wait_unless(|| self.control.is_stopping());
            if self.export.gate().orphans() > 0 {
                return Err(ConnectionError::Fenced);
            }
        }
        if self.in_flight.is_full() {
            self.outgoing.flush()?;
            if !self.in_flight.wait_for_room_unless(|| self.control.is_hung_up()) {
                return Err(ReceiveError::Closed.into());
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<(), ConnectionError> {
        let cookie = request.cookie;
        let device = self.export.device().clone();
        let payload = if request.command == Command::Write { request.len } else { 0 };
        if payload > PAYLOAD_BYTES_MAX {
            // Skipping up to 4 GiB only to say EINVAL would help nobody.
            return Err(Malformed::TooLong { len: payload.into(), limit: PAYLOAD_BYTES_MAX.into() }.into());
        }
        let call = match call_for(request, self.terms, device.geometry()) {
            Ok(call) => call,
            Err(refusal) => {
                self.incoming.skip(payload.into())?;
                let body = Body::Error(refusal.code(), refusal.to_string());
                return Ok(self.outgoing.put(Reply { cookie, body })?);
            }
        };
        match call {
            Call::Nothing => Ok(self.outgoing.put(Reply { cookie, body: Body::Done })?),
            Call::Read { range, fragment } if range.is_empty() => {
                let (offset, lease) = (range.start, ReadLease::new(Vec::new(), ()));
                Ok(self.outgoing.put(Reply { cookie, body: Body::Data { offset, lease, fragment } })?)
            }
            Call::Read { range, fragment } => {
                let (offset, len) = (range.start, range.end - range.start);
                let answer = device.read(range);
                let answer = match answer {
                    Answer::Now(Ok(lease)) if len < BY_REFERENCE_BYTES_MIN && self.is_pipelined() => {
                        let body = Body::of_lease(offset, len, lease, fragment);
                        return self.put_or_fetch(Reply { cookie, body }, len);
                    }
                    answer => answer,
                };
                self.reply(cookie, Waits::WithClient(len), answer, move |lease| {
                    Body::of_lease(offset, len, lease, fragment)
                })
            }
            Call::Write { offset, durability } => {
                let data = self.incoming.payload(payload)?;
                let slot = self.in_flight.admit(payload.into(), true).ok_or(ConnectionError::Fenced)?;
                let answer = device.write(offset, data, durability);
                self.reply(cookie, Waits::ToItsEnd(Some(slot)), answer, |()| Body::Done)
            }
            Call::Zero { range, how, durability } => {
                let slot = begin_write(&self.in_flight, &self.control, 0)?;
                let answer = device.zero(range, how, durability);
                self.reply(cookie, Waits::ToItsEnd(Some(slot)), answer, |()| Body::Done)
            }
            Call::Flush => {
                let answer = device.flush();
                self.reply(cookie, Waits::ToItsEnd(None), answer, |()| Body::Done)
            }
            Call::Prefetch { range } => {
                device.prefetch(range);
                Ok(self.outgoing.put(Reply { cookie, body: Body::Done })?)
            }
            Call::Allocation { range, limit } => {
                let len = range.end - range.start;
                let answer = device.allocation(range, limit);
                self.reply(cookie, Waits::WithClient(0), answer, move |extents| {
                    let told: u64 = extents.iter().map(|run| run.len).sum();
                    let whole = extents.iter().all(|run| run.len > 0) && (1..=len).contains(&told);
                    assert!(whole && extents.len() <= limit, "extents lie in the range that was asked for");
                    Body::Extents(extents)
                })
            }
        }
    }

    /// Whether the client has more than one request in flight: then none of them should hold up the others.
    fn is_pipelined(&self) -> bool {
        self.incoming.holds_request() || self.disk_reads.available_permits() < DISK_READS_MAX
    }

    /// Answers a short read while other requests wait behind it. If its bytes have to come from the local disk, a thread of the runtime
    /// fetches them into memory, so that the others can overtake. Otherwise a device with one connection would never have more than one
    /// read in its disk's queue.
    fn put_or_fetch(&mut self, reply: Reply, len: u64) -> Result<(), ConnectionError> {
        let Some(reply) = self.outgoing.put_resident(reply)? else { return Ok(()) };
        let Ok(permit) = self.disk_reads.clone().try_acquire_owned() else {
            return Ok(self.outgoing.put(reply)?);
        };
        let slot = self.in_flight.admit(len, false).ok_or(ConnectionError::Fenced)?;
        let completion = Completion::new(self.outgoing.clone(), self.queue()?, slot);
        self.runtime.spawn_blocking(move || {
            if let Body::Data { lease, .. } = &reply.body {
                // The sending code meets any error again, and reports it.
                let _ = lease.copy_to(&mut vec![0; len as usize]);
            }
            drop(permit);
            completion.finish(reply, Outgoing::try_send_fetched);
        });
        Ok(())
    }

    /// Answers now, or when the device can.
    fn reply<T: Send + 'static>(
        &mut self,
        cookie: Cookie,
        waits: Waits,
        answer: Answer<T>,
        body: impl FnOnce(T) -> Body + Send + 'static,
    ) -> Result<(), ConnectionError> {
        let future = match answer {
            Answer::Now(result) => {
                let body = result.map_or_else(|error| Body::of_error(&error), body);
                // A write's slot lives until here, so the write has landed before it stops counting.
                drop(waits);
                return Ok(self.outgoing.put(Reply { cookie, body })?);
            }
            Answer::Later(future) => future,
        };
        let drops_with_client = matches!(waits, Waits::WithClient(_));
        let slot = match waits {
            Waits::ToItsEnd(Some(slot)) => Some(slot),
            Waits::ToItsEnd(None) => self.in_flight.admit(0, false),
            Waits::WithClient(bytes) => self.in_flight.admit(bytes, false),
        };
        let slot = slot.ok_or(ConnectionError::Fenced)?;
        let completion = Completion::new(self.outgoing.clone(), self.queue()?, slot);
        let mut gone = self.control.gone();
        self.runtime.spawn(async move {
            let result = if drops_with_client {
                tokio::select! {
                    biased;
                    _ = gone.wait_for(|gone| *gone) => return,
                    result = future => result,
                }
            } else {
                future.await
            };
            completion.send(cookie, result, body);
        });
        Ok(())
    }

    fn queue(&mut self) -> Result<Sender<Work>, ConnectionError> {
        if self.writer.is_none() {
            let (sender, receiver) = channel();
            let outgoing = self.outgoing.clone();
            let thread = std::thread::Builder::new().name("nbd-write".into());
            let thread = thread
                .spawn(move || completion::write(&outgoing, receiver))
                .map_err(ConnectionError::Thread)?;
            self.writer = Some((sender, thread));
        }
        Ok(self.writer.as_ref().expect("it was just started").0.clone())
    }
}

impl Drop for Connection {
    /// This also runs when the device panicked. No slot outlives it, so the threads end and nothing is answered twice.
    fn drop(&mut self) {
        self.outgoing.break_off();
        self.control.abandon();
        self.in_flight.wait_until_idle();
        self.export.gate().connection_ended();
        let deadline = Instant::now() + LAST_REPLIES_LIMIT;
        while self.outgoing.release_taken() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some((queue, thread)) = self.writer.take() {
            drop(queue);
            // The thread only sends; the hook has already reported a panic there.
            let _ = thread.join();
        }
    }
}

/// Counts a write in, unless its client may be sending it again elsewhere (see [`super::gate`]).
fn begin_write(in_flight: &Arc<InFlight>, control: &Control, bytes: u32) -> Result<Slot, ConnectionError> {
    let slot = in_flight.admit(bytes.into(), true).ok_or(ConnectionError::Fenced)?;
    let gone = in_flight.gate().connections() > 1 && control.is_hung_up();
    if gone { Err(ConnectionError::Fenced) } else { Ok(slot) }
}
