//! The gate of a device: no request is served while a request of a connection that has ended may still land.
//!
//! A client that lost a connection sends its unanswered WRITEs again on another one, and then newer ones. If the
//! first copy were still on its way to the journal it could land last, and an acknowledged write would be undone.
//! So a connection that ends hands its unfinished writes over as *orphans*, and every connection of the device
//! passes the gate before each request: it waits until there are none. Writes never wait for the network, so this
//! is short. Reads change nothing and are not counted.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One for each device, shared by everything that serves it.
#[derive(Default)]
pub struct Gate {
    orphans: AtomicUsize,
    writes: AtomicUsize,
    connections: AtomicUsize,
    // Held only to change `orphans` and to wait: the hit path reads the atomic alone.
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// Writes of ended connections that have not ended themselves.
    pub fn orphans(&self) -> usize {
        self.orphans.load(Ordering::Acquire)
    }

    /// Waits until there are no orphans.
    pub fn wait(&self) {
        self.wait_unless(|| false);
    }

    /// Waits until there are no orphans, or `give_up` is true; whoever makes it true calls [`Gate::nudge`].
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

    /// Connections that serve.
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
