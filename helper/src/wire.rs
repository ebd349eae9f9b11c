//! What a daemon and the process that performs an operation send each other over a socket pair: JSON and descriptors.
//!
//! ```text
//! message   len:u32 little-endian, JSON of that length; descriptors come with the first byte (SCM_RIGHTS)
//! ```
//!
//! The socket is the process's standard input, because sudo closes every other descriptor.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The most descriptors with one message: the sockets of an nbd device.
const FDS_MAX: usize = holdall_kernel::nbd::SOCKETS_MAX;

/// The longest message: paths, and a page or two of what a tool printed.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

pub(super) fn send(socket: &UnixStream, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&text);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = socket;
    // A closed peer raises no signal here: Rust ignores SIGPIPE in programs with a Rust main, as all of ours are.
    stream.write_all(&bytes[sent..])
}

pub(super) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut length)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = rights.flatten().collect();
    let mut stream = socket;
    stream.read_exact(&mut length[received..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok((serde_json::from_slice(&text)?, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (here, there) = UnixStream::pair().unwrap();
        let (sent, mut other) = UnixStream::pair().unwrap();
        send(&here, &("one", 2), &[sent.as_fd()]).unwrap();
        drop(sent);
        let ((word, number), fds): ((String, u8), _) = receive(&there).unwrap();
        assert_eq!((word.as_str(), number, fds.len()), ("one", 2, 1));
        UnixStream::from(fds.into_iter().next().unwrap()).write_all(b"x").unwrap();
        other.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn an_absurd_message_length_is_refused() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&[0xff; 8]).unwrap();
        assert_eq!(receive::<u8>(&there).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
