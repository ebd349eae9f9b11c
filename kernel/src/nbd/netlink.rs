//! As much of generic netlink as NBD needs.
//!
//! ```text
//! message    len:u32 type:u16 flags:u16 sequence:u32 port:u32   then, in every type above 15,
//!            command:u8 version:u8 reserved:u16                 then attributes
//! attribute  len:u16 kind:u16 value, padded to 4 bytes; len counts the head and not the padding
//! error      (type 2) errno:i32, negative or 0 for success, then the request's header
//! ```
//!
//! Numbers are in the machine's byte order. Source: `include/uapi/linux/netlink.h` and `genetlink.h`.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto, socket_with, sockopt,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

const TYPE_ERROR: u16 = 2;
const TYPE_CONTROL: u16 = 16;
const FLAG_REQUEST: u16 = 1;
const FLAG_ACK: u16 = 4;
const COMMAND_GET_FAMILY: u8 = 3;
const ATTRIBUTE_FAMILY_ID: u16 = 1;
const ATTRIBUTE_FAMILY_NAME: u16 = 2;
const ATTRIBUTE_NESTED: u16 = 1 << 15;
const KIND_MASK: u16 = !(3 << 14);
const HEADER_BYTES: usize = 16;
const COMMAND_BYTES: usize = 4;

/// The longest answer is the list of all devices, 20 bytes for each.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The kernel answers inside the call that sends the request. Only a disconnect waits, for requests that the server must still fail or
/// finish.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel answered with an error.
    #[error("the kernel answered: {0}")]
    Refused(io::Error),
    /// The socket failed.
    #[error("netlink: {0}")]
    Socket(io::Error),
    /// No answer, or one that makes no sense.
    #[error("the kernel's netlink answer is missing or malformed")]
    NoAnswer,
}

impl From<rustix::io::Errno> for NetlinkError {
    fn from(errno: rustix::io::Errno) -> Self {
        NetlinkError::Socket(errno.into())
    }
}

/// Attributes that are being written.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    pub(super) fn u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }

    pub(super) fn string(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes);
    }

    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) {
        let mut inner = Attributes::default();
        fill(&mut inner);
        self.put(kind | ATTRIBUTE_NESTED, &inner.bytes);
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        let len = u16::try_from(4 + value.len()).expect("identifiers and socket lists are bounded");
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The attributes in `bytes`: their kinds without the flag bits, and their values. Stops at the first malformed one.
pub fn parse_attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *bytes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & KIND_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A socket to one family of the kernel.
pub(super) struct GenericNetlink {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl GenericNetlink {
    /// Opens a socket and looks up the family.
    pub(super) fn open(family: &str) -> Result<Self, NetlinkError> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_LIMIT))?;
        let mut this = Self { socket, family: TYPE_CONTROL, sequence: 0 };
        let mut attributes = Attributes::default();
        attributes.string(ATTRIBUTE_FAMILY_NAME, family);
        let replies = this.call(COMMAND_GET_FAMILY, &attributes)?;
        let id = replies.iter().flat_map(|reply| parse_attributes(reply)).find_map(|(kind, value)| {
            let value = value.first_chunk().filter(|_| kind == ATTRIBUTE_FAMILY_ID)?;
            Some(u16::from_ne_bytes(*value))
        });
        this.family = id.ok_or(NetlinkError::NoAnswer)?;
        Ok(this)
    }

    /// Sends a command and returns the attributes of each answer before the acknowledgement.
    pub(super) fn call(
        &mut self,
        command: u8,
        attributes: &Attributes,
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.sequence += 1;
        let message = encode(self.family, self.sequence, command, attributes);
        sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES_MAX];
        loop {
            let (received, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..received];
            while let Some((message, after)) = next_message(rest) {
                rest = after;
                if message.sequence != self.sequence {
                    // It answers an earlier call that timed out.
                    continue;
                }
                if message.kind != TYPE_ERROR {
                    answers.push(message.body.get(COMMAND_BYTES..).unwrap_or_default().to_vec());
                    continue;
                }
                let code = message.body.first_chunk().ok_or(NetlinkError::NoAnswer)?;
                return match i32::from_ne_bytes(*code) {
                    0 => Ok(answers),
                    code => Err(NetlinkError::Refused(io::Error::from_raw_os_error(code.saturating_neg()))),
                };
            }
        }
    }
}

fn encode(family: u16, sequence: u32, command: u8, attributes: &Attributes) -> Vec<u8> {
    let len = HEADER_BYTES + COMMAND_BYTES + attributes.bytes.len();
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&(len as u32).to_ne_bytes());
    message.extend_from_slice(&family.to_ne_bytes());
    message.extend_from_slice(&(FLAG_REQUEST | FLAG_ACK).to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&0u32.to_ne_bytes());
    message.extend_from_slice(&[command, 1, 0, 0]);
    message.extend_from_slice(&attributes.bytes);
    message
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

fn next_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let [a, b, c, d, e, f, _, _, g, h, i, j, ..] = *header;
    let len = u32::from_ne_bytes([a, b, c, d]) as usize;
    let body = bytes.get(HEADER_BYTES..len)?;
    let after = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    let (kind, sequence) = (u16::from_ne_bytes([e, f]), u32::from_ne_bytes([g, h, i, j]));
    Some((Message { kind, sequence, body }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_encoding_with_padding() {
        let mut attributes = Attributes::default();
        attributes.u32(1, 7);
        attributes.string(10, "ab");
        attributes.nested(7, |list| list.nested(1, |item| item.u32(1, 5)));
        assert_eq!(attributes.bytes.len(), 8 + 8 + 16);
        let parsed: Vec<_> = parse_attributes(&attributes.bytes).collect();
        assert_eq!(parsed[0], (1, &7u32.to_ne_bytes()[..]));
        assert_eq!(parsed[1], (10, &b"ab\0"[..]));
        let (kind, list) = parsed[2];
        let (item, value) = parse_attributes(list).next().unwrap();
        assert_eq!((kind, item), (7, 1));
        assert_eq!(parse_attributes(value).next(), Some((1, &5u32.to_ne_bytes()[..])));
    }

    #[test]
    fn no_bytes_make_the_parsers_panic() {
        for len in 0..=u8::MAX {
            let bytes = [len, 0, 1, 0, 9, 9, 9, 9, len, len, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(parse_attributes(&bytes).count() <= bytes.len());
            next_message(&bytes);
        }
    }

    #[test]
    fn a_family_that_does_not_exist_is_not_found() {
        match GenericNetlink::open("holdall-none") {
            Err(NetlinkError::Refused(error)) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("there is no such family"),
        }
    }
}
