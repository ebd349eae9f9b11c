//! Fake servers: each answers every request in the same way, or not at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A server that listens until the test ends.
pub struct Canned {
    address: SocketAddr,
    asked: Receiver<String>,
}

impl Canned {
    /// Answers each request with these bytes, and closes the connection.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::serving(move |socket| drop(socket.write_all(&answer)))
    }

    /// Answers the first request, and then cuts every connection off.
    pub fn answering_once(answer: &'static str) -> Self {
        let answered = Arc::new(AtomicUsize::new(0));
        Self::serving(move |socket| {
            if answered.fetch_add(1, Ordering::Relaxed) == 0 {
                let _ = socket.write_all(answer.as_bytes());
            }
        })
    }

    /// Answers with this status and body.
    pub fn saying(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::answering(format!(
            "HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Answers each request with `head`, and then with one byte each `every`.
    pub fn dripping(head: &'static str, every: Duration) -> Self {
        Self::serving(move |socket| {
            let mut sent = socket.write_all(head.as_bytes());
            while sent.is_ok() {
                std::thread::sleep(every);
                sent = socket.write_all(b"x");
            }
        })
    }

    /// Accepts connections, but reads and answers nothing.
    pub fn silent() -> Self {
        let (address, listener) = listen();
        let (_, asked) = channel();
        std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
        Self { address, asked }
    }

    fn serving(serve: impl Fn(&mut TcpStream) + Send + Sync + Clone + 'static) -> Self {
        let (address, listener) = listen();
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let (serve, tell) = (serve.clone(), tell.clone());
                std::thread::spawn(move || {
                    let head = request(&socket);
                    let _ = tell.send(head);
                    serve(&mut socket);
                });
            }
        });
        Self { address, asked }
    }

    /// Its bucket, as a store's address.
    pub fn url(&self) -> String {
        holdall_servers::s3::url("http", self.address, "p")
    }

    /// The head of the next request that it got, in lower case.
    pub fn asked(&self) -> String {
        self.asked.recv_timeout(Duration::from_secs(30)).unwrap().to_ascii_lowercase()
    }
}

/// Passes everything on, and counts the connections.
pub struct Counting {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Counting {
    /// Starts in front of the server at `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let (address, listener) = listen();
        let connections = Arc::<AtomicUsize>::default();
        let count = connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(upstream).unwrap();
                let pass = |mut from: TcpStream, mut to: TcpStream| {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    })
                };
                pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                pass(server, client);
            }
        });
        Self { address, connections }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn listen() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), listener)
}

/// Reads a request with its body.
fn request(socket: &TcpStream) -> String {
    let mut from = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).unwrap_or(0) == 0 {
            return head;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let _ = std::io::copy(&mut from.take(length.unwrap_or(0)), &mut std::io::sink());
    head
}
