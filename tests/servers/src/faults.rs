//! A reverse proxy that does harm: HTTP/1.1 in front of a real server.
//!
//! It forwards byte for byte, including the Host header, so that signatures stay valid. Each request goes to the server on its
//! own connection, so a fault of one says nothing about the next. The log has every request, with its fault.

use crate::acceptor::Acceptor;
use crate::process::any_port;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) mod answers;
mod connection;
pub(crate) mod http;
mod log;
mod plan;

pub use log::{Entry, Wait, waits};
pub use plan::{Asked, Fault, Plan, at, first, from, none, seeded};

/// A proxy that runs until it is dropped.
pub struct FaultProxy {
    shared: Arc<Shared>,
    acceptor: Acceptor,
}

struct Shared {
    upstream: SocketAddr,
    begun: Instant,
    // Held only for a moment: to ask the plan and to write the log.
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    asked: u64,
    log: Vec<Entry>,
    zombies: Vec<Zombie>,
}

/// A request that its client has abandoned, and that the server has not seen yet.
struct Zombie {
    due: u64,
    method: String,
    bytes: Vec<u8>,
}

impl FaultProxy {
    /// Starts in front of the server at `upstream`, at a free address. At first there are no faults.
    pub fn start(upstream: SocketAddr) -> Self {
        let state = State { plan: none(), asked: 0, log: Vec::new(), zombies: Vec::new() };
        let shared = Arc::new(Shared { upstream, begun: Instant::now(), state: Mutex::new(state) });
        let serving = shared.clone();
        let acceptor = Acceptor::start(any_port(), move |client, _| connection::serve(&serving, &client));
        Self { shared, acceptor }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Sets the faults from now on. The count of requests and the log start again.
    pub fn plan(&self, plan: Plan) {
        let state = &mut *self.shared.state.lock().unwrap();
        (state.plan, state.asked) = (plan, 0);
        state.log.clear();
    }

    /// The requests since the plan was set.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.state.lock().unwrap().log.clone()
    }

    /// The number of requests since the plan was set.
    pub fn asked(&self) -> u64 {
        self.shared.state.lock().unwrap().asked
    }

    /// Sends all requests that are held back to the server now.
    pub fn release(&self) {
        self.shared.run_zombies(u64::MAX);
    }

    /// Cuts all open connections.
    pub fn cut_all(&self) {
        self.acceptor.cut_all();
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Asks the plan, and begins an entry of the log. Returns the fault, and the entry's place.
    fn decide(&self, method: &str, target: &str) -> (Option<Fault>, EntryAt) {
        let state = &mut *self.state.lock().unwrap();
        let asked = Asked { number: state.asked, method: method.to_owned(), target: target.to_owned() };
        state.asked += 1;
        let fault = (state.plan)(&asked);
        let came = self.now();
        let at = EntryAt { index: state.log.len(), came };
        let entry = Entry { asked, body_bytes: 0, came, ended: None, fault: fault.clone(), status: None };
        state.log.push(entry);
        (fault, at)
    }

    fn note(&self, at: EntryAt, note: impl FnOnce(&mut Entry)) {
        // The plan, and the log with it, may have been replaced since.
        let state = &mut *self.state.lock().unwrap();
        if let Some(entry) = state.log.get_mut(at.index).filter(|entry| entry.came == at.came) {
            note(entry);
        }
    }

    fn hold_back(&self, later: u64, method: &str, bytes: Vec<u8>) {
        let state = &mut *self.state.lock().unwrap();
        let due = state.asked + later;
        state.zombies.push(Zombie { due, method: method.to_owned(), bytes });
    }

    /// Sends the server the requests that were held back until this many have come.
    fn run_zombies(&self, asked: u64) {
        let due: Vec<_> =
            self.state.lock().unwrap().zombies.extract_if(.., |zombie| zombie.due <= asked).collect();
        for zombie in due {
            let _ = connection::ask(self.upstream, &zombie.method, &zombie.bytes);
        }
    }
}

/// The place of an entry in the log.
#[derive(Clone, Copy)]
struct EntryAt {
    index: usize,
    came: Duration,
}
