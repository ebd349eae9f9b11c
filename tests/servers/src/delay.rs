//! A slow link in front of a server: every byte takes time, and all connections share one bandwidth.
//!
//! Each direction of a connection has two threads. One reads a piece, takes the piece's turn on the link, and notes when its last
//! byte arrives at the far end. The other delivers it at that moment. They are threads since a sleeping thread wakes within a
//! tenth of a millisecond, and a timer of tokio only within one. The end of a direction travels like data, so a connection that
//! is closed in one direction continues in the other.
//!
//! The model is an ideal link: no slow start, no loss, and twice as much in flight as fits on the way.

use crate::acceptor::{Acceptor, Open};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The largest piece. On a slow link a piece takes 2 ms, so that connections take turns often.
const PIECE_BYTES_MAX: usize = 64 << 10;
const PIECE_TIME: Duration = Duration::from_millis(2);
/// The least in flight: what a socket's buffers hold anyway.
const WINDOW_BYTES_MIN: usize = 256 << 10;
/// The receive buffer of the link's sockets. By default the kernel begins with two packets of a loopback interface (64 KiB). A
/// sender that has filled them learns of new space only when it asks, every 200 ms: then a link carries 3 Mbit/s.
const SOCKET_BYTES: usize = 4 << 20;
/// The most in flight, also without a limit on bandwidth: 2.5 Gbit/s at 100 ms.
const WINDOW_BYTES_MAX: usize = 32 << 20;

/// The properties of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The round trip. Connecting takes one, too.
    pub rtt: Duration,
    /// From clients to the server, for all connections together, in Mbit/s; none is unlimited.
    pub up_mbit: Option<f64>,
    /// From the server to clients.
    pub down_mbit: Option<f64>,
}

/// A link that exists until this is dropped.
pub struct Delay {
    acceptor: Acceptor,
    received: Arc<AtomicU64>,
}

impl Delay {
    /// Puts `link` in front of the server at `upstream`, at a free address.
    pub fn start(upstream: SocketAddr, link: Link) -> Self {
        Self::start_at(crate::process::any_port(), upstream, link)
    }

    /// Puts it at `address`.
    pub fn start_at(address: SocketAddr, upstream: SocketAddr, link: Link) -> Self {
        let (up, down) = (Lane::new(link.rtt, link.up_mbit), Lane::new(link.rtt, link.down_mbit));
        let received = down.delivered.clone();
        let serve = move |client: TcpStream, open: &Open| {
            // The client's own handshake was with the link, and took no time.
            let made = Instant::now() + link.rtt;
            let Ok(server) = TcpStream::connect(upstream) else { return };
            let _ = server.set_nodelay(true);
            let _watched = open.watch(&server);
            thread::scope(|scope| {
                scope.spawn(|| up.carry(&client, &server, made));
                down.carry(&server, &client, made);
            });
        };
        Self { acceptor: Acceptor::start(address, serve), received }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Bytes that clients have received.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// One direction of the link.
struct Lane {
    one_way: Duration,
    bytes_per_second: Option<f64>,
    piece_bytes: usize,
    /// When the last reserved byte leaves. The lock is held only to reserve a turn.
    free_at: Arc<Mutex<Instant>>,
    /// Bytes that have arrived.
    delivered: Arc<AtomicU64>,
}

/// Some bytes in flight. An empty piece is the end.
struct Piece {
    arrives: Instant,
    bytes: Vec<u8>,
}

impl Lane {
    fn new(rtt: Duration, mbit: Option<f64>) -> Self {
        let bytes_per_second = mbit.map(|mbit| mbit * 1e6 / 8.0);
        let piece =
            bytes_per_second.map_or(PIECE_BYTES_MAX, |rate| (rate * PIECE_TIME.as_secs_f64()) as usize);
        let piece_bytes = piece.clamp(1460, PIECE_BYTES_MAX);
        Self {
            one_way: rtt / 2,
            bytes_per_second,
            piece_bytes,
            free_at: Arc::new(Mutex::new(Instant::now())),
            delivered: Arc::default(),
        }
    }

    /// The most pieces in flight.
    fn window(&self) -> usize {
        let on_the_way = |rate: f64| (rate * self.one_way.as_secs_f64() * 4.0) as usize;
        let bytes = self.bytes_per_second.map_or(WINDOW_BYTES_MAX, on_the_way);
        bytes.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX) / self.piece_bytes
    }

    /// Reserves a turn for this many bytes. Returns when the first byte leaves, and the last.
    fn turn(&self, bytes: usize, not_before: Instant) -> (Instant, Instant) {
        let ready = Instant::now().max(not_before);
        let Some(rate) = self.bytes_per_second else { return (ready, ready) };
        let mut free_at = self.free_at.lock().unwrap();
        let first = ready.max(*free_at);
        *free_at = first + Duration::from_secs_f64(bytes as f64 / rate);
        (first, *free_at)
    }

    fn carry(&self, from: &TcpStream, to: &TcpStream, made: Instant) {
        let _ = set_socket_recv_buffer_size(from, SOCKET_BYTES);
        let (send, receive) = sync_channel(self.window());
        thread::scope(|scope| {
            scope.spawn(move || self.deliver(&receive, to, from));
            self.take(from, &send, made);
            drop(send);
        });
    }

    fn take(&self, mut from: &TcpStream, on_the_way: &SyncSender<Piece>, made: Instant) {
        sleep_exactly();
        let mut buffer = vec![0; self.piece_bytes];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let (first, last) = self.turn(count, made);
            let piece = Piece { arrives: last + self.one_way, bytes: buffer[..count].to_vec() };
            if on_the_way.send(piece).is_err() || count == 0 {
                return;
            }
            // Only one piece waits for its turn, so that other connections get theirs in between.
            wait_until(first);
        }
    }

    fn deliver(&self, on_the_way: &Receiver<Piece>, mut to: &TcpStream, from: &TcpStream) {
        sleep_exactly();
        for piece in on_the_way {
            wait_until(piece.arrives);
            if piece.bytes.is_empty() {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            if to.write_all(&piece.bytes).is_err() {
                // The receiver is gone, so further data is useless.
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
            self.delivered.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Lets this thread wake when it asked to. By default the kernel may wake it up to 50 us later.
fn sleep_exactly() {
    // If this is not allowed, sleeps are only less exact.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

fn wait_until(moment: Instant) {
    if let Some(time) = moment.checked_duration_since(Instant::now()) {
        thread::sleep(time);
    }
}
