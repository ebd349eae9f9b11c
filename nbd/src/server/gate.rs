//! The gate of a device: no request is served while a request of a connection that has ended may still land.
//!
//! A client that lost a connection sends its unanswered WRITEs again on another one, and then newer ones. If the first copy were still on
//! its way to the journal, it could land last and undo an acknowledged write. So a connection that ends hands its unfinished writes over as
//! *orphans*, and every connection of the device passes the gate before each request: it waits until there are no orphans. Writes never
//! wait for the network, so the wait is short. Reads change nothing and are not counted.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One for each device, shared by everything that serves it.
#[derive(Default)]
pub struct Gate {
    orphans: AtomicUsize,
    writes: AtomicUsize,
    connections: AtomicUsize,
    // Held only to change `orphans` and to wait: the hit path reads just the atomic.
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// The unfinished writes of connections that have ended.
    pub fn orphans(&self) -> usize {
        self.orphans.load(Ordering::Acquire)
    }

    /// Waits until there are no orphans.
    pub fn wait(&self) {
        self.wait_unless(|| false);
    }

    /// Waits until there are no orphans, or until `give_up` is true; the code that makes it true calls [`Gate::nudge`].
    pub(super) fn wait_unless(&self, give_up: impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        while self.orphans() > 0 && !give_up() {
            self.changed.wait(&mut guard);
        }
    }

    /// Writes in flight, on all connections.
    pub(super) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    pub(super) fn write_begins(&self) {
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn write_ended(&self) {
        self.writes.fetch_sub(1, Ordering::SeqCst);
    }

    /// The number of connections that serve.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn connection_begins(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn connection_ended(&self) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn nudge(&self) {
        let _guard = self.lock.lock();
        self.changed.notify_all();
    }

    pub(super) fn adopt(&self, writes: usize) {
        let _guard = self.lock.lock();
        self.orphans.fetch_add(writes, Ordering::AcqRel);
    }

    pub(super) fn orphan_ended(&self) {
        let _guard = self.lock.lock();
        self.orphans.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_all();
    }
}
