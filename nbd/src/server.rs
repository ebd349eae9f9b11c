//! Serves block devices over NBD: on Unix and TCP listeners with the fixed newstyle handshake, and on connected sockets that begin in the
//! transmission phase, as the kernel's client wants them.
//!
//! One thread for each connection reads requests, calls the device and answers (`connection`). Answers that have to wait are awaited on the
//! runtime. An idle connection costs only a blocked thread.
//!
//! A client that loses a connection has three promises. A reply is complete, or the connection is dropped. A WRITE that was not answered
//! may be sent again on any connection, and the first copy cannot land after the second (`gate`). Nothing answers ENOSPC.

mod completion;
mod connection;
mod control;
mod export;
mod gate;
mod in_flight;
mod incoming;
mod negotiation;
mod outgoing;
mod patience;
mod references;
mod reply;
mod request;
mod send_buffer;
mod session;

use connection::Connection;
use control::Control;
pub use export::Export;
use export::Terms;
pub use gate::Gate;
use holdall_core::device::BlockDevice;
use incoming::Incoming;
use negotiation::Directory;
use parking_lot::{Mutex, RwLock};
use rustix::net::sockopt;
pub use session::Session;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The most connections through listeners at once, including those that only wait for their last requests. A client like nbdcopy opens 4 to
/// 16; each may hold 64 MiB of requests in flight and 1 MiB of buffers.
const CONNECTIONS_MAX: usize = 128;
/// The most exports of one server, so that the list of them is a bounded answer.
const EXPORTS_MAX: usize = 1024;
/// Send buffer of a Unix socket. With the system's usual 208 KiB, a reply of 1 MiB costs five switches between server and client. The
/// system may cap it (net.core.wmem_max).
const UNIX_SEND_BUFFER_BYTES: usize = 1 << 20;

/// Why something could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The name exists already.
    #[error("there is an export {0:?} already")]
    NameTaken(String),
    /// The name is longer than the protocol's 4096 bytes, or contains a NUL.
    #[error("an export's name is at most 4096 bytes of text without NUL")]
    BadName,
    /// There are too many exports.
    #[error("one server has at most {EXPORTS_MAX} exports")]
    TooManyExports,
    /// The server is shutting down.
    #[error("the NBD server is shutting down")]
    ShuttingDown,
    /// The system refused a socket or a thread.
    #[error("the NBD server lacks a socket or a thread: {0}")]
    Io(#[from] io::Error),
}

/// Serves exports to NBD clients. Dropping it stops it at once; [`Server::shutdown`] stops it properly.
pub struct Server {
    shared: Arc<Shared>,
    // Only starting and stopping touch it.
    listeners: Mutex<Vec<(Arc<OwnedFd>, JoinHandle<()>)>>,
}

struct Shared {
    runtime: Handle,
    stopping: AtomicBool,
    next_id: AtomicU64,
    // Read once in each handshake; written when a drive is opened or closed.
    exports: RwLock<Exports>,
    // Touched when a connection comes or goes.
    connections: Mutex<HashMap<u64, Live>>,
}

#[derive(Default)]
struct Exports {
    by_name: BTreeMap<String, Arc<Export>>,
    default: Option<String>,
}

struct Live {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

enum Start {
    Handshake,
    Transmission(Arc<Export>),
}

impl Server {
    /// A server without exports or listeners. Answers that have to wait are awaited on `runtime`, which must outlive the server's shutdown.
    pub fn new(runtime: Handle) -> Self {
        let shared = Shared {
            runtime,
            stopping: AtomicBool::new(false),
            next_id: AtomicU64::new(0),
            exports: RwLock::default(),
            connections: Mutex::default(),
        };
        Self { shared: Arc::new(shared), listeners: Mutex::default() }
    }

    /// Serves `device` as `name` from now on. The first export is also the default, for clients that name none.
    pub fn export(&self, name: &str, device: Arc<dyn BlockDevice>) -> Result<Arc<Export>, ServeError> {
        if name.len() > crate::codec::STRING_BYTES_MAX || name.contains('\0') {
            return Err(ServeError::BadName);
        }
        let mut exports = self.shared.exports.write();
        if exports.by_name.contains_key(name) {
            return Err(ServeError::NameTaken(name.to_owned()));
        }
        if exports.by_name.len() >= EXPORTS_MAX {
            return Err(ServeError::TooManyExports);
        }
        let export = Export::new(name.to_owned(), device);
        exports.by_name.insert(name.to_owned(), export.clone());
        exports.default.get_or_insert_with(|| name.to_owned());
        Ok(export)
    }

    /// Removes an export: no new client finds it, and its connections are stopped as in [`Server::shutdown`]. Blocks.
    pub fn withdraw(&self, export: &Arc<Export>, grace: Duration) {
        let mut exports = self.shared.exports.write();
        exports.by_name.retain(|_, other| !Arc::ptr_eq(other, export));
        if exports.default.as_deref() == Some(export.name()) {
            exports.default = exports.by_name.keys().next().cloned();
        }
        drop(exports);
        stop_all(&export.withdraw(), grace);
    }

    /// Accepts clients on a Unix socket. The permissions of the socket file decide who may connect.
    pub fn listen_unix(&self, listener: UnixListener) -> Result<(), ServeError> {
        self.listen(OwnedFd::from(listener), |socket| {
            sockopt::set_socket_send_buffer_size(socket, UNIX_SEND_BUFFER_BYTES)
        })
    }

    /// Accepts clients on a TCP socket. It has no encryption and no password: for loopback and tests.
    pub fn listen_tcp(&self, listener: TcpListener) -> Result<(), ServeError> {
        self.listen_tcp_for(listener, |_| true)
    }

    /// The same, but only for clients that `admits` accepts; the connections of others are closed before any byte is sent.
    pub fn listen_tcp_for(
        &self,
        listener: TcpListener,
        admits: impl Fn(&OwnedFd) -> bool + Send + 'static,
    ) -> Result<(), ServeError> {
        self.listen(OwnedFd::from(listener), move |socket| {
            if !admits(socket) {
                return Err(rustix::io::Errno::ACCESS);
            }
            // Replies are sent without delay, and keepalive notices a client whose computer is gone.
            sockopt::set_tcp_nodelay(socket, true)?;
            sockopt::set_socket_keepalive(socket, true)
        })
    }

    fn listen(
        &self,
        listener: OwnedFd,
        prepare: impl Fn(&OwnedFd) -> rustix::io::Result<()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let listener = Arc::new(listener);
        let mut listeners = self.listeners.lock();
        if self.shared.is_stopping() {
            return Err(ServeError::ShuttingDown);
        }
        let (shared, socket) = (self.shared.clone(), listener.clone());
        let thread = std::thread::Builder::new().name("nbd-accept".into());
        let thread = thread.spawn(move || accept(&shared, &socket, prepare))?;
        listeners.push((listener, thread));
        Ok(())
    }

    /// Serves the peer of a connected stream socket, from the handshake on.
    pub fn serve_socket(&self, socket: OwnedFd) -> Result<Session, ServeError> {
        let mut session = Session::default();
        session.add(self.shared.start(socket, Start::Handshake)?);
        Ok(session)
    }

    /// Serves `export` on connected stream sockets that are in the transmission phase already, with simple replies: the daemon's ends of
    /// the socket pairs whose other ends the kernel gets.
    pub fn serve_kernel(&self, export: &Arc<Export>, sockets: Vec<OwnedFd>) -> Result<Session, ServeError> {
        let mut session = Session::default();
        for socket in sockets {
            // This may fail: the system's default is enough to work.
            let _ = sockopt::set_socket_send_buffer_size(&socket, UNIX_SEND_BUFFER_BYTES);
            // On an error the session is dropped, which closes the connections that were started.
            session.add(self.shared.start(socket, Start::Transmission(export.clone()))?);
        }
        Ok(session)
    }

    /// The number of connections now, including those that wait for their last requests to end.
    pub fn connections(&self) -> usize {
        self.shared.connections.lock().len()
    }

    /// Stops accepting, reads no more requests, lets those in flight end and be answered, and joins every thread. After `grace`,
    /// connections are closed and waiting reads are dropped. Writes and flushes are awaited even then, so close a device whose flush can
    /// hang first. Blocks: do not call it on a thread of the runtime.
    pub fn shutdown(&self, grace: Duration) {
        self.shared.stopping.store(true, Ordering::Release);
        let listeners = std::mem::take(&mut *self.listeners.lock());
        for (listener, thread) in listeners {
            // On Linux this wakes accept, for Unix and TCP listeners alike.
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
            // The panic hook has already reported a panic there.
            let _ = thread.join();
        }
        let live = std::mem::take(&mut *self.shared.connections.lock());
        let controls: Vec<_> = live.values().map(|live| live.control.clone()).collect();
        stop_all(&controls, grace);
        for thread in live.into_values().filter_map(|live| live.thread) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

fn stop_all(connections: &[Arc<Control>], grace: Duration) {
    let deadline = Instant::now() + grace;
    connections.iter().for_each(|connection| connection.stop());
    for connection in connections {
        if !connection.wait_until(deadline) {
            connection.abandon();
        }
    }
    connections.iter().for_each(|connection| connection.wait());
}

fn accept(shared: &Arc<Shared>, listener: &OwnedFd, prepare: impl Fn(&OwnedFd) -> rustix::io::Result<()>) {
    use rustix::io::Errno;
    while !shared.is_stopping() {
        let socket = match rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(_) if shared.is_stopping() => return,
            Err(errno) => {
                // File descriptors have run out, or the network is down. A new try would fail again at once and burn the processor; the
                // client waits in the backlog.
                tracing::warn!(%errno, "NBD clients can not be accepted");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if let Err(error) = prepare(&socket) {
            tracing::debug!(%error, "a client was not admitted, or gone before it was served");
        } else if shared.connections.lock().len() >= CONNECTIONS_MAX {
            tracing::warn!("more than {CONNECTIONS_MAX} NBD connections: refused one");
        } else if let Err(error) = shared.start(socket, Start::Handshake) {
            tracing::warn!(%error, "an NBD client could not be served");
        }
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn start(self: &Arc<Self>, socket: OwnedFd, start: Start) -> Result<Arc<Control>, ServeError> {
        let socket = Arc::new(socket);
        let control = Control::new(socket.clone());
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // Hold the lock until the thread's handle is stored, so that the thread finds its entry when it ends.
        let mut connections = self.connections.lock();
        if self.is_stopping() {
            return Err(ServeError::ShuttingDown);
        }
        let (shared, controlled) = (self.clone(), control.clone());
        let thread = std::thread::Builder::new().name("nbd-read".into()).spawn(move || {
            let _entry = Entry { shared: shared.clone(), control: controlled.clone(), id };
            shared.run(socket, start, controlled);
        })?;
        connections.insert(id, Live { control: control.clone(), thread: Some(thread) });
        Ok(control)
    }

    fn run(&self, socket: Arc<OwnedFd>, start: Start, control: Arc<Control>) {
        let mut incoming = Incoming::new(socket.clone());
        let (export, terms) = match start {
            Start::Handshake => match negotiation::negotiate(&socket, &mut incoming, self) {
                Ok(Some(agreed)) => agreed,
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "an NBD handshake failed"),
            },
            Start::Transmission(export) => {
                // While memory is short, the kernel may wait for this thread to free some. This needs CAP_SYS_RESOURCE.
                if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
                    tracing::debug!(%error, "not an I/O flusher");
                }
                (export, Terms::default())
            }
        };
        let stall = Some(connection::STALL_LIMIT);
        if let Err(error) = sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, stall) {
            return tracing::debug!(%error, "a client was gone before it was served");
        }
        let in_flight = control.attach(export.gate().clone());
        if !export.join(&control) {
            return;
        }
        let runtime = self.runtime.clone();
        let connection = Connection::new(socket, incoming, export, terms, runtime, control, in_flight);
        if let Err(error) = connection.serve() {
            tracing::debug!(%error, "an NBD connection ended");
        }
    }
}

impl Directory for Shared {
    fn find(&self, name: &str) -> Option<Arc<Export>> {
        let exports = self.exports.read();
        exports
            .by_name
            .get(name)
            .or_else(|| {
                let default = exports.default.as_ref().filter(|_| name.is_empty())?;
                exports.by_name.get(default)
            })
            .cloned()
    }

    fn names(&self) -> Vec<String> {
        self.exports.read().by_name.keys().cloned().collect()
    }
}

/// A connection's place in the server, released when its thread ends, even by a panic.
struct Entry {
    shared: Arc<Shared>,
    control: Arc<Control>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.id);
        // This is for a client whose handshake failed; a served connection has ended itself already.
        self.control.abandon();
        self.control.set_finished(std::thread::panicking());
    }
}
