//! A small blocking NBD client for tests and benches. One thread can have several requests in flight.

mod negotiate;
mod receive;

pub use negotiate::{Agreement, Options};
pub use receive::{Data, Outcome};

use crate::codec::Malformed;
use crate::codec::transmission::{Command, Cookie, Request, command_flags};
use receive::Expected;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Why a request, or the connection, failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket failed, or the server closed it.
    #[error("the connection to the NBD server failed: {0}")]
    Io(#[from] io::Error),
    /// The server does not speak the protocol.
    #[error("the NBD server breaks the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The server refused an option.
    #[error("the NBD server refused option {option} with reply {kind:#x}: {message}")]
    Refused {
        /// The option's code.
        option: u32,
        /// The reply type; see [`crate::codec::handshake::reply`].
        kind: u32,
        /// The server's message.
        message: String,
    },
    /// The server answered a request with an error.
    #[error("the NBD server answered error {error}: {message}")]
    Failed {
        /// The protocol's number.
        error: u32,
        /// The server's message; empty in simple replies.
        message: String,
    },
    /// The reply fits no request.
    #[error("the NBD server sent a reply that fits no request: {0}")]
    Unexpected(&'static str),
}

/// A connected byte stream.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection in its transmission phase.
pub struct Client {
    stream: Box<dyn Stream>,
    agreement: Agreement,
    next_cookie: u64,
    waiting: HashMap<Cookie, Expected>,
}

impl Client {
    /// Connects to a Unix socket.
    pub fn connect_unix(path: &Path, options: &Options) -> Result<Self, ClientError> {
        Self::over(UnixStream::connect(path)?, options)
    }

    /// Connects over TCP.
    pub fn connect_tcp(address: impl ToSocketAddrs, options: &Options) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Self::over(stream, options)
    }

    /// Negotiates over a connected stream.
    pub fn over(stream: impl Stream + 'static, options: &Options) -> Result<Self, ClientError> {
        let mut stream: Box<dyn Stream> = Box::new(stream);
        let agreement = negotiate::negotiate(&mut *stream, options)?;
        Ok(Self::begin(stream, agreement))
    }

    /// Begins in the transmission phase, with simple replies.
    pub fn without_handshake(stream: impl Stream + 'static, size_bytes: u64) -> Self {
        Self::begin(Box::new(stream), Agreement { size_bytes, ..Agreement::default() })
    }

    fn begin(stream: Box<dyn Stream>, agreement: Agreement) -> Self {
        Self { stream, agreement, next_cookie: 1, waiting: HashMap::new() }
    }

    /// The agreed terms.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Sends a request without waiting for its reply, which [`Client::receive`] returns under this cookie.
    pub fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> Result<Cookie, ClientError> {
        self.send_with(command, flags, offset, len, &[])
    }

    /// Sends a WRITE without waiting for its reply.
    pub fn send_write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<Cookie, ClientError> {
        self.send_with(Command::Write, flags, offset, data.len() as u32, data)
    }

    fn send_with(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<Cookie, ClientError> {
        let cookie = Cookie(self.next_cookie);
        self.next_cookie += 1;
        let mut message = Request { flags, command, cookie, offset, len }.encode().to_vec();
        message.extend_from_slice(data);
        self.waiting.insert(cookie, Expected::new(command, offset, len));
        self.stream.write_all(&message)?;
        Ok(cookie)
    }

    /// Waits for the next complete reply, to any request.
    pub fn receive(&mut self) -> Result<(Cookie, Outcome), ClientError> {
        receive::receive(&mut *self.stream, &mut self.waiting)
    }

    /// The number of requests without a reply.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn call(&mut self, command: Command, flags: u16, offset: u64, len: u32) -> Result<Data, ClientError> {
        let cookie = self.send(command, flags, offset, len)?;
        self.expect(cookie)
    }

    fn expect(&mut self, expected: Cookie) -> Result<Data, ClientError> {
        let (cookie, outcome) = self.receive()?;
        if cookie != expected {
            return Err(ClientError::Unexpected("of an earlier request, which is to be received first"));
        }
        outcome
    }

    /// Reads.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self.call(Command::Read, 0, offset, len)?.bytes)
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let cookie = self.send_write(0, offset, data)?;
        self.expect(cookie).map(drop)
    }

    /// Writes durably.
    pub fn write_forced(&mut self, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let cookie = self.send_write(command_flags::FUA, offset, data)?;
        self.expect(cookie).map(drop)
    }

    /// Makes all answered writes durable.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.call(Command::Flush, 0, 0, 0).map(drop)
    }

    /// Discards a range.
    pub fn trim(&mut self, offset: u64, len: u32) -> Result<(), ClientError> {
        self.call(Command::Trim, 0, offset, len).map(drop)
    }

    /// Writes zeroes; see [`command_flags`] for `NO_HOLE` and `FAST_ZERO`.
    pub fn zero(&mut self, offset: u64, len: u32, flags: u16) -> Result<(), ClientError> {
        self.call(Command::WriteZeroes, flags, offset, len).map(drop)
    }

    /// Asks for a prefetch.
    pub fn cache(&mut self, offset: u64, len: u32) -> Result<(), ClientError> {
        self.call(Command::Cache, 0, offset, len).map(drop)
    }

    /// Extents of `base:allocation`: lengths in bytes, and flags.
    pub fn block_status(
        &mut self,
        offset: u64,
        len: u32,
        flags: u16,
    ) -> Result<Vec<(u32, u32)>, ClientError> {
        Ok(self.call(Command::BlockStatus, flags, offset, len)?.extents)
    }

    /// Ends the connection properly.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        let request =
            Request { flags: 0, command: Command::Disconnect, cookie: Cookie(0), offset: 0, len: 0 };
        Ok(self.stream.write_all(&request.encode())?)
    }
}
