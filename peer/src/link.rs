//! An authenticated connection to a paired device.

use crate::hello::Purpose;
use crate::list::Device;
use std::io;
use std::net::{Shutdown, TcpStream as Socket};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// The bytes of exported keying material.
pub const EXPORTED_BYTES: usize = 32;

/// An authenticated connection. Unpairing the device closes it.
pub struct Link {
    stream: TlsStream<TcpStream>,
    peer: Device,
    purpose: Purpose,
    protocol: u16,
    dialed: bool,
    /// A second descriptor of the socket, by which it is shut down.
    _socket: Arc<Socket>,
}

/// By which a link can be closed while its owner uses it.
pub(crate) struct Closer(Weak<Socket>);

impl Closer {
    /// Closes the connection in both directions: whoever waits for it learns it at once.
    pub fn close(&self) {
        if let Some(socket) = self.0.upgrade() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether the link still exists.
    pub fn is_live(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Link {
    pub(crate) fn new(
        stream: TlsStream<TcpStream>,
        peer: Device,
        purpose: Purpose,
        protocol: u16,
    ) -> io::Result<(Self, Closer)> {
        let dialed = matches!(stream, TlsStream::Client(_));
        let socket = Arc::new(second(stream.get_ref().0)?);
        let closer = Closer(Arc::downgrade(&socket));
        Ok((Self { stream, peer, purpose, protocol, dialed, _socket: socket }, closer))
    }

    /// The device, as it was paired when the connection began.
    pub fn peer(&self) -> &Device {
        &self.peer
    }

    /// What the connection is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The protocol that both sides agreed on.
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// Whether this device made the connection.
    pub fn dialed(&self) -> bool {
        self.dialed
    }

    /// 32 bytes that only the two ends of this connection know (RFC 8446, section 7.5), for a proof that is bound to it.
    pub fn exporter(&self, label: &str) -> io::Result<[u8; EXPORTED_BYTES]> {
        export(&self.stream, label)
    }
}

/// The keying material of a connection for `label`.
pub(crate) fn export(stream: &TlsStream<TcpStream>, label: &str) -> io::Result<[u8; EXPORTED_BYTES]> {
    let (out, label) = ([0; EXPORTED_BYTES], label.as_bytes());
    match stream {
        TlsStream::Client(stream) => stream.get_ref().1.export_keying_material(out, label, None),
        TlsStream::Server(stream) => stream.get_ref().1.export_keying_material(out, label, None),
    }
    .map_err(io::Error::other)
}

fn second(stream: &TcpStream) -> io::Result<Socket> {
    use std::os::fd::AsFd;
    Ok(Socket::from(stream.as_fd().try_clone_to_owned()?))
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({} for {:?})", self.peer.name, self.purpose)
    }
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
