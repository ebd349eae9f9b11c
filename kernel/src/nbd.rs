//! The kernel's own NBD client: attach, reattach after a restart, detach, and find what is attached.
//!
//! This uses generic netlink (`include/uapi/linux/nbd-netlink.h`) and not the older ioctls, because only then a device outlives the process
//! that serves it. When the last connection dies, requests wait for the *dead connection timeout*, and [`Nbd::reconfigure`] gives the
//! device new connections. A mount on it never notices.
//!
//! All of it needs CAP_SYS_ADMIN and nothing else from the daemon: the functions take file descriptors, so a separate privileged process
//! that was sent the sockets can call them. That process may end afterwards, because the kernel keeps its own references.
//!
//! The kernel's client expects a server that sends only simple replies. It does not distinguish errors (each becomes EIO), and uses flush
//! and FUA only where the flags offer them.

mod netlink;
mod sysfs;

use netlink::{Attributes, GenericNetlink};
pub use netlink::{NetlinkError, parse_attributes};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
pub use sysfs::{AttachedDevice, attached_devices, is_loaded};

/// How long requests wait for a new connection once all are dead. A laptop may be closed for weeks with its drive mounted. After that time,
/// errors are better than programs that cannot be killed.
pub const DEAD_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest backend identifier: sysfs returns it in one page.
pub const IDENTIFIER_BYTES_MAX: usize = 256;
/// How many connections to give a device; the kernel makes as many hardware queues.
///
/// One. The kernel's timer (30 s unless somebody sets it, and "timeout 0" means just that) treats a slow request in two ways
/// (`nbd_xmit_timeout` in `drivers/block/nbd.c`). With one connection the kernel logs the request, and sends it again only if the
/// connection has been replaced meanwhile. With several it takes the connection for dead, shuts it down and sends the request on another. A
/// drive that waits for its network would then lose all of its connections in turn, and need RECONFIGURE. For us a waiting read is
/// ordinary, so we use one.
pub const SOCKETS: usize = 1;
/// The most connections that are accepted; more connections than processors bring nothing.
pub const SOCKETS_MAX: usize = 16;
/// The interval of that timer for a device with one connection. A mount hangs this long after a crash, because only the timer sends again
/// the requests that were in flight. A waiting request is logged at this interval too.
const STRANDED_REQUESTS_RETRIED_EVERY: Duration = Duration::from_secs(5);
/// How long the kernel may take to show a device's size after it accepted CONNECT.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// The unit in which a device is read and written.
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

/// Why the kernel did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// There is no module: load `nbd`, or attach in another way.
    #[error("this kernel has no nbd (modprobe nbd)")]
    NoNbd,
    /// The kernel refused.
    #[error("the kernel refused to {doing}: {source}")]
    Refused {
        /// What it refused to do.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The netlink conversation failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel accepted the device, but does not show its size.
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
    /// The kernel's ends of the connections: [`SOCKETS`] stream sockets in the transmission phase. With more than one, every request must
    /// be answered within 30 s; otherwise the kernel ends its connection, which then has to be replaced.
    pub sockets: &'a [BorrowedFd<'a>],
    /// Size, a multiple of 4096.
    pub size_bytes: u64,
    /// The transmission flags of the NBD protocol, for the server at the other end of the sockets.
    pub server_flags: u16,
    /// The name by which to find the device after a restart. Anyone can read it.
    pub identifier: &'a str,
}

/// A netlink socket to the kernel's NBD client.
pub struct Nbd {
    netlink: GenericNetlink,
}

impl Nbd {
    /// Opens the socket; [`KernelError::NoNbd`] if the kernel has no NBD.
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
        // 0: a request waits as long as the server needs, and never fails by the clock. Set it only here: in RECONFIGURE it would reset the
        // block layer's timer to its default.
        attributes.u64(attribute::TIMEOUT, 0);
        attributes.u64(attribute::SERVER_FLAGS, attachment.server_flags.into());
        // The device goes away when its user detaches it, not when the last file on it is closed: mkfs closes it, too.
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

    /// Gives the device at `index` new connections in place of its dead ones, and `attachment.size_bytes` as its size. The kernel compares
    /// the identifier. It takes no more sockets than it has dead connections, and does not report how many it took. It may also notice a
    /// moment late that the old ones are dead. So close the caller's copies of `sockets` afterwards, check how many of the sessions are
    /// alive, and if none is, try again with new sockets.
    pub fn reconfigure(
        &mut self,
        index: DeviceIndex,
        attachment: &Attachment<'_>,
    ) -> Result<(), KernelError> {
        let mut attributes = attachment.attributes()?;
        attributes.u32(attribute::INDEX, index.0);
        // A resize with requests in flight can deadlock in the kernel, so send the size only if it changed.
        if sysfs::size_bytes(index)? != attachment.size_bytes {
            attributes.u64(attribute::SIZE_BYTES, attachment.size_bytes);
        }
        self.netlink.call(command::RECONFIGURE, &attributes).map_err(refused("reconnect the device"))?;
        sysfs::wait_for_size(index, attachment.size_bytes, SETTLE_LIMIT)
    }

    /// Removes the device. A file system that is still mounted on it gets errors: unmount first.
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

/// Numbers in `nbd-netlink.h`; nested levels count from 1 again.
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
