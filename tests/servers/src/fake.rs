//! A server that answers as a test says, for errors that real servers give only in rare cases.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that it got.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The verb.
    pub method: String,
    /// The path, unchanged.
    pub path: String,
    /// All header lines, in lower case.
    pub headers: String,
    /// The address that a MOVE or COPY leads to, unchanged.
    pub destination: Option<String>,
    /// The body's length.
    pub body_bytes: usize,
    /// The body, only while it is being answered. The log does not keep it.
    pub body: Vec<u8>,
}

impl Asked {
    /// A header's value; names and values are in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status, header lines and a body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Exactly these bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, on a connection that stays open.
    Silence,
    /// A head that promises this many bytes, and then a byte now and then.
    Drip(usize),
}

impl Reply {
    /// A status without headers and body.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Vec::new())
    }

    /// Adds a header.
    pub fn with(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Answer(status, mut headers, body) => {
                headers.push((name, value.to_owned()));
                Self::Answer(status, headers, body)
            }
            other => other,
        }
    }

    /// Sets the body.
    pub fn body(self, bytes: &[u8]) -> Self {
        match self {
            Self::Answer(status, headers, _) => Self::Answer(status, headers, bytes.to_vec()),
            other => other,
        }
    }
}

/// A server that lives as long as the program.
#[derive(Clone)]
pub struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    /// Answers each request with `answer`.
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_keeping(true, answer)
    }

    /// Also breaks the promise to keep connections open: each is closed at its second request, before anything is done or
    /// answered.
    pub fn start_forgetful(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_keeping(false, answer)
    }

    fn start_keeping(keeps: bool, answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fake = Self { address, asked: Arc::default(), connections: Arc::default() };
        let (asked, connections, answer) = (fake.asked.clone(), fake.connections.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Relaxed);
                let (asked, answer) = (asked.clone(), answer.clone());
                std::thread::spawn(move || {
                    // The clients of a test may disconnect.
                    let _ = serve(&stream.unwrap(), keeps, &asked, &*answer);
                });
            }
        });
        fake
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    keeps: bool,
    asked: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let mut served = 0;
    loop {
        let Some(request) = read(&mut reader)? else { return Ok(()) };
        if served > 0 && !keeps {
            return stream.shutdown(std::net::Shutdown::Both);
        }
        served += 1;
        let (method, path, headers) = (request.method.clone(), request.path.clone(), request.headers.clone());
        let (destination, body_bytes) = (request.destination.clone(), request.body_bytes);
        let without_body = Asked { method, path, headers, destination, body_bytes, body: Vec::new() };
        asked.lock().unwrap().push(without_body);
        match answer(&request) {
            Reply::Answer(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} As Told\r\n");
                let len = body.len().to_string();
                let counted = headers.iter().any(|(name, _)| *name == "content-length");
                let length = (!counted && status != 204).then_some(("content-length", len));
                for (name, value) in headers.into_iter().chain(length) {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                writer.write_all(format!("{head}\r\n").as_bytes())?;
                if request.method != "HEAD" {
                    writer.write_all(&body)?;
                }
            }
            Reply::Raw(bytes) => {
                writer.write_all(&bytes)?;
                return stream.shutdown(std::net::Shutdown::Both);
            }
            // Until the client disconnects.
            Reply::Silence => drop(reader.read_to_end(&mut Vec::new())?),
            Reply::Drip(len) => {
                writer.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n").as_bytes())?;
                for _ in 0..len {
                    writer.write_all(b".")?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut headers, mut destination) = (String::new(), None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if lower.starts_with("destination:") {
            destination = line.split_once(':').map(|(_, value)| value.trim().to_owned());
        }
        headers.push_str(&lower);
    }
    let len = headers.lines().find_map(|line| line.strip_prefix("content-length:"));
    let body_bytes = len.and_then(|len| len.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked { method, path, headers, destination, body_bytes, body }))
}
