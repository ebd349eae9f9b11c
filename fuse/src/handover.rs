//! Carries a mounted disk or folder from one process to the next: the connection's descriptor, and the parameters agreed on it.
//!
//! Three ways lead to the next process. Exec: [`Handover::into_inheritable`] and [`Handover::from_inherited`]. A socket: [`Handover::send`]
//! and [`Handover::receive`] (SCM_RIGHTS). systemd's descriptor store: [`Handover::fd`] goes there, and [`Handover::parameters`], which is
//! serialisable, into a file beside the drive's state.

use crate::folder::Agreed;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The newest format of [`Parameters`]: a folder's. A disk's is [`DISK_VERSION`], which older daemons read too.
pub const VERSION: u32 = 2;

/// The format of a disk's [`Parameters`].
pub const DISK_VERSION: u32 = 1;

/// A path of at most 4096 bytes, escaped at worst sixfold in JSON, and a few numbers.
const MESSAGE_LIMIT_BYTES: usize = 32 << 10;

/// The parameters agreed on a connection. They hold until it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// At most [`VERSION`]. A newer daemon reads all older versions.
    pub version: u32,
    /// The largest write that the kernel sends.
    pub max_write_bytes: u32,
    /// Whether the kernel can repeat requests that were taken but not answered (Linux 6.9).
    pub resend: bool,
    /// Owner of the file.
    pub uid: u32,
    /// Owning group of the file.
    pub gid: u32,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// What was agreed on a folder's connection. `None`: it is a disk's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Agreed>,
}

/// A connection that is being handed to another process.
#[derive(Debug)]
pub struct Handover {
    /// /dev/fuse.
    pub fd: OwnedFd,
    /// The parameters agreed on it.
    pub parameters: Parameters,
    /// Whether the last process answered every request it took.
    pub clean: bool,
}

#[derive(Serialize, Deserialize)]
struct Message {
    parameters: Parameters,
    clean: bool,
}

impl Handover {
    /// Sends a duplicate over `socket`.
    pub fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let text = self.message()?;
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let fds = [self.fd.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is space for one descriptor");
        let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        let mut stream = socket;
        stream.write_all(&bytes[sent..])
    }

    /// Receives a handover that [`send`](Self::send) sent.
    pub fn receive(socket: &UnixStream) -> io::Result<Self> {
        let mut length = [0; 4];
        let (received, fd) = receive_fd(socket, &mut length)?;
        let fd = fd.ok_or_else(|| invalid("no descriptor came with the handover"))?;
        let mut stream = socket;
        stream.read_exact(&mut length[received..])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_LIMIT_BYTES {
            return Err(invalid("the handover is too long"));
        }
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        Self::from_message(fd, &text)
    }

    /// Makes the descriptor survive exec. The next program needs the number and the text, in its arguments or its environment. If another
    /// thread forks and execs in between, the descriptor leaks: exec at once.
    pub fn into_inheritable(self) -> io::Result<(RawFd, String)> {
        let text = self.message()?;
        rustix::io::fcntl_setfd(&self.fd, rustix::io::FdFlags::empty())?;
        Ok((self.fd.into_raw_fd(), text))
    }

    /// Takes over what the previous program left with [`into_inheritable`](Self::into_inheritable).
    ///
    /// # Safety
    /// Nothing else in this process owns the descriptor `fd`.
    pub unsafe fn from_inherited(fd: RawFd, text: &str) -> io::Result<Self> {
        // SAFETY: the caller promises it; a number that is not open fails on the next line.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Self::from_message(fd, text.as_bytes())
    }

    /// A second handover, with a duplicate of the descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        let (fd, parameters) = (self.fd.try_clone()?, self.parameters.clone());
        Ok(Handover { fd, parameters, clean: self.clean })
    }

    fn message(&self) -> io::Result<String> {
        let message = Message { parameters: self.parameters.clone(), clean: self.clean };
        Ok(serde_json::to_string(&message)?)
    }

    fn from_message(fd: OwnedFd, text: &[u8]) -> io::Result<Self> {
        let Message { parameters, clean } = serde_json::from_slice(text)?;
        if parameters.version > VERSION {
            return Err(invalid("the handover comes from a newer version"));
        }
        // If the descriptor were not FUSE's, what we write to it could go anywhere.
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if link != std::path::Path::new("/dev/fuse") {
            return Err(invalid("the descriptor is not /dev/fuse"));
        }
        Ok(Handover { fd, parameters, clean })
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Receives some bytes, and the descriptor that came with them.
pub(crate) fn receive_fd(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received, fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parameters() -> Parameters {
        let mountpoint = PathBuf::from("/run/holdall/a b");
        Parameters {
            version: DISK_VERSION,
            max_write_bytes: 1 << 20,
            resend: true,
            uid: 7,
            gid: 8,
            mountpoint,
            folder: None,
        }
    }

    #[test]
    fn the_text_of_version_1_stays_readable() {
        let text = include_str!("../tests/data/v1/handover.json");
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!((message.parameters, message.clean), (parameters(), true));
    }

    #[test]
    fn the_text_of_version_2_stays_readable() {
        let text = include_str!("../tests/data/v2/handover.json");
        let message: Message = serde_json::from_str(text).unwrap();
        let agreed = Agreed { minor: 41, flags: 1 << 37 | 1 };
        let folder = Parameters { version: VERSION, folder: Some(agreed), ..parameters() };
        assert_eq!((message.parameters, message.clean), (folder, false));
    }

    #[test]
    fn a_descriptor_that_is_not_fuse_is_refused_on_arrival() {
        let (here, there) = UnixStream::pair().unwrap();
        let fd = std::fs::File::open(Path::new("/dev/null")).unwrap().into();
        Handover { fd, parameters: parameters(), clean: true }.send(&here).unwrap();
        assert_eq!(Handover::receive(&there).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn bytes_without_a_descriptor_are_refused() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&[0xff; 8]).unwrap();
        assert_eq!(Handover::receive(&there).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
