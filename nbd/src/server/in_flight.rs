//! The unanswered requests of one connection: bounded, and fenced when the connection ends.

use super::gate::Gate;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How many requests of a connection may wait at once. The kernel's queue is 128 deep for each connection; more would only move a queue
/// from the client to here.
const REQUESTS_MAX: usize = 128;
/// How many bytes they may have: two requests of the largest size, so that one can be served while another is read.
const BYTES_MAX: u64 = 64 << 20;

/// How often a thread that waits for its requests checks whether the client is still there. No event wakes it when a client goes, because
/// this thread itself would have read the end of the stream.
const GIVE_UP_CHECKED_EVERY: Duration = Duration::from_millis(200);

/// The requests in flight of one connection.
pub(super) struct InFlight {
    // A mutex, because three parties meet here: the reading thread admits, runtime tasks finish, and a successor connection fences. It is
    // held for a few instructions, and a read that is answered at once never takes it.
    state: Mutex<State>,
    changed: Condvar,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct State {
    requests: usize,
    bytes: u64,
    writes: usize,
    ended: bool,
}

impl State {
    fn is_full(&self) -> bool {
        self.requests >= REQUESTS_MAX || self.bytes >= BYTES_MAX
    }
}

/// One request in flight; dropping it ends it.
pub(super) struct Slot {
    of: Arc<InFlight>,
    bytes: u64,
    writes: bool,
}

impl InFlight {
    pub(super) fn new(gate: Arc<Gate>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), gate })
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether writes are in flight on other connections of the device.
    pub(super) fn others_write(&self) -> bool {
        self.gate.writes() > self.state.lock().writes
    }

    /// Counts a request in. `None` if the connection was fenced: the request must not be done.
    pub(super) fn admit(self: &Arc<Self>, bytes: u64, writes: bool) -> Option<Slot> {
        let mut state = self.state.lock();
        if state.ended {
            return None;
        }
        state.requests += 1;
        state.bytes += bytes;
        if writes {
            state.writes += 1;
            self.gate.write_begins();
        }
        Some(Slot { of: self.clone(), bytes, writes })
    }

    /// Whether the next request has to wait. Otherwise it may exceed the limit in bytes, but only by itself.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().is_full()
    }

    /// Waits until another request may be read, or the connection is fenced; false if `give_up` came first.
    pub(super) fn wait_for_room_unless(&self, give_up: impl Fn() -> bool) -> bool {
        self.wait_while(|state| state.is_full() && !state.ended, give_up)
    }

    /// Waits until every admitted request has ended; false if `give_up` came first.
    pub(super) fn wait_until_idle_unless(&self, give_up: impl Fn() -> bool) -> bool {
        self.wait_while(|state| state.requests > 0, give_up)
    }

    fn wait_while(&self, busy: impl Fn(&State) -> bool, give_up: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        while busy(&state) {
            let waited = self.changed.wait_for(&mut state, GIVE_UP_CHECKED_EVERY);
            if waited.timed_out() && give_up() {
                return false;
            }
        }
        true
    }

    /// Fences the connection: it admits nothing more, and its unfinished writes become the gate's orphans.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        if !state.ended {
            state.ended = true;
            self.gate.adopt(state.writes);
            self.changed.notify_all();
        }
    }

    /// Waits until every admitted request has ended.
    pub(super) fn wait_until_idle(&self) {
        let mut state = self.state.lock();
        while state.requests > 0 {
            self.changed.wait(&mut state);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.requests -= 1;
        state.bytes -= self.bytes;
        if self.writes {
            state.writes -= 1;
            self.of.gate.write_ended();
            if state.ended {
                self.of.gate.orphan_ended();
            }
        }
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_writes_of_an_ended_connection_close_the_gate() {
        let gate = Arc::new(Gate::default());
        let connection = InFlight::new(gate.clone());
        let write = connection.admit(4096, true).unwrap();
        let read = connection.admit(4096, false).unwrap();
        assert_eq!(gate.orphans(), 0, "a live connection has no orphans");
        connection.end();
        connection.end();
        assert_eq!(gate.orphans(), 1, "reads are not counted, and ending twice changes nothing");
        assert!(connection.admit(1, true).is_none(), "a fenced connection admits nothing");
        drop(read);
        let waiter = std::thread::spawn({
            let gate = gate.clone();
            move || gate.wait()
        });
        drop(write);
        waiter.join().unwrap();
        connection.wait_until_idle();
        assert_eq!(gate.orphans(), 0);
    }

    #[test]
    fn requests_and_bytes_are_bounded() {
        let connection = InFlight::new(Arc::default());
        let slots: Vec<_> = (0..REQUESTS_MAX).map(|_| connection.admit(1, false)).collect();
        assert!(connection.is_full());
        drop(slots);
        assert!(!connection.is_full());
        let _large = connection.admit(BYTES_MAX, true);
        assert!(connection.is_full());
    }
}
