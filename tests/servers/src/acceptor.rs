//! The base of every proxy here: a listening socket, and a thread for each connection.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Listens until it is dropped. Then every connection is cut.
pub struct Acceptor {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

/// The sockets of the open connections, so that they can be cut.
#[derive(Default)]
pub struct Open {
    next: AtomicU64,
    // Held only to add, remove and cut sockets.
    sockets: Mutex<BTreeMap<u64, TcpStream>>,
}

/// While this lives, its socket is cut when the proxy ends.
pub struct Watched<'a> {
    open: &'a Open,
    key: u64,
}

impl Open {
    /// Also cuts `socket` when the proxy ends.
    pub fn watch(&self, socket: &TcpStream) -> Watched<'_> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.sockets.lock().unwrap().insert(key, socket.try_clone().unwrap());
        Watched { open: self, key }
    }

    fn cut_all(&self) {
        for socket in self.sockets.lock().unwrap().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.open.sockets.lock().unwrap().remove(&self.key);
    }
}

impl Acceptor {
    /// Listens at `address` (port 0: any free port) and calls `serve` on a new thread for each connection.
    pub fn start(address: SocketAddr, serve: impl Fn(TcpStream, &Open) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let address = listener.local_addr().unwrap();
        let (ended, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Open::default()));
        let (stop, connections, serve) = (ended.clone(), open.clone(), Arc::new(serve));
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let _ = client.set_nodelay(true);
                let (serve, connections) = (serve.clone(), connections.clone());
                std::thread::spawn(move || {
                    let _watched = connections.watch(&client);
                    serve(client, &connections);
                });
            }
        });
        Self { address, ended, open, accepting: Some(accepting) }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all open connections.
    pub fn cut_all(&self) {
        self.open.cut_all();
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.open.cut_all();
    }
}
