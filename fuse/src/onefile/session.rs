//! The state that the reader threads share with answers that take time.

use super::Ended;
use super::buffer::Buffer;
use super::init::request_buffer_bytes;
use super::local::DiskReads;
use super::ticket::Ticket;
use crate::handover::Parameters;
use holdall_core::device::{Answer, BlockDevice, DeviceError};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// One connection, as this process serves it.
pub(super) struct Session {
    pub(super) device: Arc<dyn BlockDevice>,
    /// The user and group that own the file.
    pub(super) owner: (u32, u32),
    channel: Arc<OwnedFd>,
    max_write: u32,
    pub(super) runtime: Handle,
    pub(super) disk_reads: DiskReads,
    /// The number of readers that wait for a request.
    waiting: AtomicUsize,
    stopping: AtomicBool,
    /// Each answer that takes time holds a receiver, so "no receivers" means "nothing in flight", and true tells the answers to stop.
    abandon: watch::Sender<bool>,
    ended: watch::Sender<Option<Ended>>,
}

impl Session {
    pub(super) fn new(
        fd: OwnedFd,
        parameters: &Parameters,
        device: Arc<dyn BlockDevice>,
        runtime: Handle,
    ) -> Self {
        Session {
            device,
            owner: (parameters.uid, parameters.gid),
            channel: Arc::new(fd),
            max_write: parameters.max_write_bytes,
            runtime,
            disk_reads: DiskReads::default(),
            waiting: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            abandon: watch::Sender::new(false),
            ended: watch::Sender::new(None),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// The descriptor itself, because making a duplicate can fail (EMFILE), and the drive with it. Only a ticket whose answer is panicking
    /// at this moment may still share it.
    pub(super) fn into_fd(self) -> std::io::Result<OwnedFd> {
        Arc::try_unwrap(self.channel).or_else(|shared| shared.try_clone())
    }

    pub(super) fn ticket(&self, unique: u64) -> Ticket {
        Ticket::new(&self.channel, unique)
    }

    /// Takes and serves requests until the connection ends or [`stop`](Self::stop) was called.
    pub(super) fn run_reader(&self) {
        let mut buffer = Buffer::new(request_buffer_bytes(self.max_write));
        while !self.stopping.load(Ordering::Acquire) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let received = rustix::io::read(&*self.channel, buffer.as_mut());
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match received {
                Ok(len) => {
                    let message = &buffer.as_mut()[..len];
                    // A panic in the device is a bug, but it concerns one request. Its ticket answers EIO, and the thread continues;
                    // otherwise the drive would hang once all threads were gone.
                    let served = std::panic::catch_unwind(AssertUnwindSafe(|| self.serve(message)));
                    if served.is_err() {
                        tracing::error!("the device panicked; the request was answered with an I/O error");
                    }
                }
                // A signal (see `readers`), or the program that sent the request left before we read it.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) => self.wait_readable(),
                Err(Errno::NODEV) => return self.end(Ended::Unmounted),
                Err(Errno::CONNABORTED) => return self.end(Ended::Aborted),
                Err(errno) => return self.end(Ended::Failed(errno)),
            }
        }
    }

    /// Another process that shares the descriptor made it non-blocking.
    fn wait_readable(&self) {
        let mut fds = [rustix::event::PollFd::new(&*self.channel, rustix::event::PollFlags::IN)];
        // An error here is a signal, or also the next read's error.
        let _ = rustix::event::poll(&mut fds, None);
    }

    /// Whether a reader other than the caller waits for requests, as far as this shows without a lock.
    pub(super) fn another_reader_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Counts an answer that takes time, until this is dropped.
    pub(super) fn in_flight(&self) -> watch::Receiver<bool> {
        self.abandon.subscribe()
    }

    /// Replies now, or when the answer is ready.
    pub(super) fn settle<T: Send + 'static>(
        &self,
        ticket: Ticket,
        answer: Answer<T>,
        reply: impl FnOnce(Ticket, Result<T, DeviceError>) + Send + 'static,
    ) {
        match answer {
            Answer::Now(result) => reply(ticket, result),
            Answer::Later(future) => {
                let mut abandoned = self.in_flight();
                self.runtime.spawn(async move {
                    tokio::select! {
                        biased;
                        result = future => reply(ticket, result),
                        // This also happens when the session is gone.
                        _ = abandoned.wait_for(|abandon| *abandon) => ticket.abandon(),
                    }
                });
            }
        }
    }

    /// Makes the readers return after their current request.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Waits for the answers in flight, and after `patience` drops the rest. Returns whether there was no rest. The readers have stopped
    /// before, so no answer is added.
    pub(super) async fn finish(&self, patience: Option<Duration>) -> bool {
        let Some(patience) = patience else {
            self.abandon.closed().await;
            return true;
        };
        if tokio::time::timeout(patience, self.abandon.closed()).await.is_ok() {
            return true;
        }
        let count = self.abandon.receiver_count();
        tracing::info!(count, "requests are left to the next daemon");
        self.abandon.send_replace(true);
        self.abandon.closed().await;
        false
    }

    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await.expect("the session holds the sender");
        ended.expect("waited for")
    }

    pub(super) fn has_ended(&self) -> Option<Ended> {
        *self.ended.borrow()
    }

    fn end(&self, how: Ended) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(how);
            first
        });
    }
}
