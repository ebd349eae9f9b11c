//! What other threads can do to a connection while its own thread reads.

use super::gate::Gate;
use super::in_flight::InFlight;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::watch;

/// The handle of one connection.
pub(super) struct Control {
    socket: Arc<OwnedFd>,
    stopping: AtomicBool,
    panicked: AtomicBool,
    // Set once, when the handshake has chosen an export.
    in_flight: OnceLock<Arc<InFlight>>,
    gone: watch::Sender<bool>,
    // Others wait here with a deadline, which joining a thread does not allow.
    finished: Mutex<bool>,
    changed: Condvar,
}

impl Control {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Self {
            socket,
            stopping: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            in_flight: OnceLock::new(),
            gone: watch::Sender::new(false),
            finished: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    pub(super) fn attach(&self, gate: Arc<Gate>) -> Arc<InFlight> {
        self.in_flight.get_or_init(|| InFlight::new(gate)).clone()
    }

    /// Fences the connection, if it serves already; see [`InFlight::end`].
    pub(super) fn end(&self) {
        if let Some(in_flight) = self.in_flight.get() {
            in_flight.end();
        }
    }

    fn nudge(&self) {
        if let Some(in_flight) = self.in_flight.get() {
            in_flight.gate().nudge();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Becomes true when the client has gone: reads that still wait are then dropped.
    pub(super) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    /// Stops reading requests; those in flight are answered.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // This fails if the peer was faster.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        self.nudge();
    }

    /// Ends the connection in both directions, and drops reads in flight.
    pub(super) fn abandon(&self) {
        self.stopping.store(true, Ordering::Release);
        self.end();
        // This fails if the peer was faster.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.nudge();
        self.gone.send_replace(true);
    }

    /// Whether the peer has closed its end.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        matches!(polled, Ok(1..))
    }

    pub(super) fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }

    pub(super) fn set_finished(&self, panicked: bool) {
        self.panicked.store(panicked, Ordering::Release);
        *self.finished.lock() = true;
        self.changed.notify_all();
    }

    pub(super) fn is_finished(&self) -> bool {
        *self.finished.lock()
    }

    /// Waits for the end of the connection; false if `deadline` came first.
    pub(super) fn wait_until(&self, deadline: Instant) -> bool {
        let mut finished = self.finished.lock();
        while !*finished {
            if self.changed.wait_until(&mut finished, deadline).timed_out() {
                return *finished;
            }
        }
        true
    }

    pub(super) fn wait(&self) {
        let mut finished = self.finished.lock();
        while !*finished {
            self.changed.wait(&mut finished);
        }
    }
}
