//! The kernel's own NBD client: attach, reattach after a restart, detach, and find what is attached.
//!
//! By generic netlink (`include/uapi/linux/nbd-netlink.h`), not by the older ioctls, because only so a device
//! outlives the process that serves it: when the last connection dies requests wait, for the *dead connection
//! timeout*, and [`Nbd::reconfigure`] gives the device new connections. A mount on it never notices.
//!
//! All of it needs CAP_SYS_ADMIN and nothing else of the daemon: the functions take file descriptors, so a separate
//! privileged process that was sent the sockets can call them. That process may end afterwards; the kernel keeps
//! its own references.
//!
//! What the kernel's client expects of its server: simple replies only; no error that is worth telling apart (each
//! becomes EIO); flush and FUA only where the flags offer them.

mod netlink;
mod sysfs;

use netlink::{Attributes, GenericNetlink};
pub use netlink::{NetlinkError, parse_attributes};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
pub use sysfs::{AttachedDevice, attached_devices, is_loaded};

/// How long requests wait for a new connection once all are dead. A laptop may be closed for weeks with its drive
/// mounted; after that, errors are better than callers that can not be killed.
pub const DEAD_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest backend identifier: it is read back from one page of sysfs.
pub const IDENTIFIER_BYTES_MAX: usize = 256;
/// How many connections to give a device, of which the kernel makes as many hardware queues.
///
/// One. The kernel's timer (30 s where nobody sets it, and "timeout 0" only means that) does two different things to
/// a request that takes longer (`nbd_xmit_timeout` in `drivers/block/nbd.c`). With one connection it is logged, and
/// sent again only if the connection has been replaced meanwhile. With several the kernel takes the connection for
/// dead, shuts it down and sends the request on another; a drive that waits for its network would lose all of them
/// in turn, and then need RECONFIGURE. A waiting read is ordinary for us, so one it is.
pub const SOCKETS: usize = 1;
/// The most that are accepted; more than processors bring nothing.
pub const SOCKETS_MAX: usize = 16;
/// The interval of that timer for a device with one connection. It is how long a mount stands still after a crash,
/// because what was in flight then is sent again only by the timer; and how often a waiting request is logged.
const STRANDED_REQUESTS_RETRIED_EVERY: Duration = Duration::from_secs(5);
/// How long the kernel may take to show a device's size after it said yes.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// What a device is read and written in.
pub const BLOCK_SIZE_BYTES: u64 = 4096;

/// The number N of `/dev/nbdN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceIndex(pub u32);

impl DeviceIndex {
    /// `/dev/nbdN`.
    pub fn path(self) -> std::path::PathBuf {
        format!("/dev/nbd{}", self.0).into()
    }
}

/// Why the kernel did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No module: load `nbd`, or attach in another way.
    #[error("this kernel has no nbd (modprobe nbd)")]
    NoNbd,
    /// It said no.
    #[error("the kernel refused to {doing}: {source}")]
    Refused {
        /// What was asked.
        doing: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The netlink conversation failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// It said yes, but the device does not show its size.
    #[error("/dev/nbd{0} did not get its size")]
    NotReady(u32),
    /// Too many or no sockets, or an identifier that is too long or has a NUL or a newline.
    #[error(
        "a device has 1 to {SOCKETS_MAX} sockets and an identifier of at most {IDENTIFIER_BYTES_MAX} plain bytes"
    )]
    BadAttachment,
    /// sysfs could not be read or written.
    #[error("the device's directory in /sys: {0}")]
    Sysfs(#[from] io::Error),
}

/// What to attach.
#[derive(Debug)]
pub struct Attachment<'a> {
    /// The kernel's ends of the connections, stream sockets in the transmission phase: [`SOCKETS`] of them. With
    /// more, every request must be answered within 30 s, else its connection is ended and wants to be replaced.
    pub sockets: &'a [BorrowedFd<'a>],
    /// Size, a multiple of 4096.
    pub size_bytes: u64,
    /// The transmission flags of the NBD protocol, as the server at the other end of the sockets means them.
    pub server_flags: u16,
    /// By what to know the device again after a restart. Anyone can read it.
    pub identifier: &'a str,
}

/// A netlink socket to the kernel's NBD.
pub struct Nbd {
    netlink: GenericNetlink,
}

impl Nbd {
    /// Opens it; [`KernelError::NoNbd`] where the kernel has none.
    pub fn open() -> Result<Self, KernelError> {
        match GenericNetlink::open("nbd") {
            Ok(netlink) => Ok(Self { netlink }),
            Err(NetlinkError::Refused(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(KernelError::NoNbd)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a block device, at `index` or at the first free one, and waits until it has its size.
    pub fn connect(
        &mut self,
        attachment: &Attachment<'_>,
        index: Option<DeviceIndex>,
    ) -> Result<DeviceIndex, KernelError> {
        let mut attributes = attachment.attributes()?;
        if let Some(DeviceIndex(index)) = index {
            attributes.u32(attribute::INDEX, index);
        }
        attributes.u64(attribute::SIZE_BYTES, attachment.size_bytes);
        attributes.u64(attribute::BLOCK_SIZE_BYTES, BLOCK_SIZE_BYTES);
        // 0: a request waits as long as the server does, and never fails by the clock. Only here: in RECONFIGURE it
        // would set the block layer's timer back to its default.
        attributes.u64(attribute::TIMEOUT, 0);
        attributes.u64(attribute::SERVER_FLAGS, attachment.server_flags.into());
        // The device goes when its user detaches it, not when a last file is closed: mkfs closes it, too.
        attributes.u64(attribute::CLIENT_FLAGS, 0);
        let replies =
            self.netlink.call(command::CONNECT, &attributes).map_err(refused("attach the device"))?;
        let index = replies.iter().flat_map(|reply| parse_attributes(reply)).find_map(|(kind, value)| {
            let value = value.first_chunk().filter(|_| kind == attribute::INDEX)?;
            Some(DeviceIndex(u32::from_ne_bytes(*value)))
        });
        let index = index.ok_or(NetlinkError::NoAnswer)?;
        sysfs::wait_for_size(index, attachment.size_bytes, SETTLE_LIMIT)?;
        if attachment.sockets.len() == 1 {
            sysfs::set_io_timeout(index, STRANDED_REQUESTS_RETRIED_EVERY)?;
        }
        Ok(index)
    }

    /// Gives the device at `index` new connections for its dead ones, and `attachment.size_bytes` as its size. The
    /// kernel compares the identifier. It takes no more sockets than it has dead ones, and says nothing of the
    /// rest; and it may notice a moment late that its old ones are dead. So close the caller's copies of `sockets`
    /// afterwards, look at how many of the sessions live, and where none does try again with new sockets.
    pub fn reconfigure(
        &mut self,
        index: DeviceIndex,
        attachment: &Attachment<'_>,
    ) -> Result<(), KernelError> {
        let mut attributes = attachment.attributes()?;
        attributes.u32(attribute::INDEX, index.0);
        // A resize with requests in flight can deadlock in the kernel: only where it is one.
        if sysfs::size_bytes(index)? != attachment.size_bytes {
            attributes.u64(attribute::SIZE_BYTES, attachment.size_bytes);
        }
        self.netlink.call(command::RECONFIGURE, &attributes).map_err(refused("reconnect the device"))?;
        sysfs::wait_for_size(index, attachment.size_bytes, SETTLE_LIMIT)
    }

    /// Takes the device away. What is mounted on it gets errors: unmount first.
    pub fn disconnect(&mut self, index: DeviceIndex) -> Result<(), KernelError> {
        let mut attributes = Attributes::default();
        attributes.u32(attribute::INDEX, index.0);
        self.netlink.call(command::DISCONNECT, &attributes).map_err(refused("detach the device"))?;
        Ok(())
    }

    /// Whether the device at `index` is attached, with live connections or waiting for new ones.
    pub fn is_connected(&mut self, index: DeviceIndex) -> Result<bool, KernelError> {
        let mut attributes = Attributes::default();
        attributes.u32(attribute::INDEX, index.0);
        let replies = self.netlink.call(command::STATUS, &attributes).map_err(refused("tell its devices"))?;
        let lists = replies.iter().flat_map(|reply| parse_attributes(reply));
        let items = lists
            .filter(|(kind, _)| *kind == attribute::DEVICE_LIST)
            .flat_map(|(_, list)| parse_attributes(list));
        let mut facts = items.flat_map(|(_, item)| parse_attributes(item));
        Ok(facts.any(|(kind, value)| kind == attribute::DEVICE_CONNECTED && value.first() == Some(&1)))
    }
}

impl Attachment<'_> {
    /// The attributes that CONNECT and RECONFIGURE share.
    fn attributes(&self) -> Result<Attributes, KernelError> {
        let plain = !self.identifier.bytes().any(|byte| byte == 0 || byte == b'\n');
        let short = self.identifier.len() <= IDENTIFIER_BYTES_MAX;
        if !plain || !short || !(1..=SOCKETS_MAX).contains(&self.sockets.len()) {
            return Err(KernelError::BadAttachment);
        }
        let mut attributes = Attributes::default();
        attributes.u64(attribute::DEAD_CONN_TIMEOUT, DEAD_CONNECTION_TIMEOUT.as_secs());
        attributes.string(attribute::BACKEND_IDENTIFIER, self.identifier);
        attributes.nested(attribute::SOCKETS, |list| {
            for socket in self.sockets {
                list.nested(attribute::SOCK_ITEM, |item| {
                    item.u32(attribute::SOCK_FD, socket.as_raw_fd() as u32)
                });
            }
        });
        Ok(attributes)
    }
}

/// Makes `count` socket pairs: the ends to serve, and the ends for the kernel.
pub fn socket_pairs(count: usize) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    let pairs: Vec<_> =
        (0..count).map(|_| std::os::unix::net::UnixStream::pair()).collect::<io::Result<_>>()?;
    Ok(pairs.into_iter().map(|(ours, kernels)| (ours.into(), kernels.into())).unzip())
}

fn refused(doing: &'static str) -> impl Fn(NetlinkError) -> KernelError {
    move |error| match error {
        NetlinkError::Refused(source) => KernelError::Refused { doing, source },
        other => other.into(),
    }
}

mod command {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const DISCONNECT: u8 = 2;
    pub(super) const RECONFIGURE: u8 = 3;
    pub(super) const STATUS: u8 = 5;
}

/// Numbers of `nbd-netlink.h`; those of nested levels count from 1 again.
mod attribute {
    pub(super) const INDEX: u16 = 1;
    pub(super) const SIZE_BYTES: u16 = 2;
    pub(super) const BLOCK_SIZE_BYTES: u16 = 3;
    pub(super) const TIMEOUT: u16 = 4;
    pub(super) const SERVER_FLAGS: u16 = 5;
    pub(super) const CLIENT_FLAGS: u16 = 6;
    pub(super) const SOCKETS: u16 = 7;
    pub(super) const DEAD_CONN_TIMEOUT: u16 = 8;
    pub(super) const DEVICE_LIST: u16 = 9;
    pub(super) const BACKEND_IDENTIFIER: u16 = 10;
    pub(super) const SOCK_ITEM: u16 = 1;
    pub(super) const SOCK_FD: u16 = 1;
    pub(super) const DEVICE_CONNECTED: u16 = 2;
}
