//! Finds the user whose process is at the other end of a loopback connection.
//!
//! The kernel lists TCP sockets with the user who created them (`/proc/net/tcp`, `/proc/net/tcp6`). Both ends of a loopback connection are
//! in the list, so the other end's row is the one whose local address is the peer's. For the pages: browsers send a host's cookies to all
//! of its ports, and so to any program that listens at another one; this check makes such a cookie useless to another user. For drives that
//! are served by NBD: the protocol knows no passwords.

use axum::serve::Listener;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use tokio::net::{TcpListener, TcpStream};

/// People's numbers begin at 1000 (`UID_MIN` in login.defs).
const SYSTEM_ACCOUNTS: RangeInclusive<u32> = 1..=999;
/// systemd's users of services with `DynamicUser=` (systemd.exec(5)).
const DYNAMIC_USERS: RangeInclusive<u32> = 61184..=65519;

/// Accepts connections of this user's and root's processes, and closes all others.
pub struct OwnPeers(pub TcpListener);

impl Listener for OwnPeers {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.0).await;
            match stream.local_addr().and_then(|own| owner(peer, own)) {
                Ok(uid) if is_admitted(uid) => return (stream, peer),
                Ok(uid) => tracing::warn!(uid, "another user's process was refused at the port for browsers"),
                Err(error) => {
                    tracing::warn!(%error, "cannot tell which user has connected to the port for browsers")
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Whether a connected socket's other end is this user's or root's. If the kernel does not say, it counts as nobody's.
pub fn is_own(socket: &OwnedFd) -> bool {
    let ends = || -> io::Result<(SocketAddr, SocketAddr)> {
        let (peer, own) = (rustix::net::getpeername(socket)?, rustix::net::getsockname(socket)?);
        let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
        Ok((SocketAddr::try_from(peer)?, SocketAddr::try_from(own)?))
    };
    match ends().and_then(|(peer, own)| owner(peer, own)) {
        Ok(uid) if is_admitted(uid) => true,
        Ok(uid) => {
            tracing::warn!(uid, "another user's process was refused at the port at which a drive is served");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "cannot tell which user has connected to the port at which a drive is served");
            false
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The other end.
    pub peer: SocketAddr,
    /// This end, if the kernel says.
    pub own: Option<SocketAddr>,
}

impl Ends {
    /// Whether the other end may speak for others, as a proxy does: it is on this computer, and belongs to this user, to root or to a
    /// system account. People's own programs may not. If the kernel does not say whose it is, it may not.
    pub fn may_be_proxy(self) -> bool {
        let Some(own) = self.own.filter(|_| self.peer.ip().to_canonical().is_loopback()) else {
            return false;
        };
        owner(self.peer, own).is_ok_and(|uid| is_admitted(uid) || is_system_account(uid))
    }
}

/// Whether a user is a service and not a person. `nobody` is not in it: anything may run as nobody.
fn is_system_account(uid: u32) -> bool {
    SYSTEM_ACCOUNTS.contains(&uid) || DYNAMIC_USERS.contains(&uid)
}

fn is_admitted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::getuid().as_raw()
}

/// The user of the process at the other end, `peer`, of a connection to this process's end.
fn owner(peer: SocketAddr, own: SocketAddr) -> io::Result<u32> {
    let table = match (peer, own) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => "/proc/self/net/tcp",
        _ => "/proc/self/net/tcp6",
    };
    let sockets = std::fs::read_to_string(table)?;
    owner_in(&sockets, peer, own).ok_or_else(|| io::Error::other(format!("its socket is not in {table}")))
}

/// The kernel's code for TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";

/// The user of the socket that is bound to `local` and connected to `remote`. A closed socket no longer has an owner, and its row has
/// root's number.
fn owner_in(sockets: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (local, remote) = (place(local), place(remote));
    sockets.lines().skip(1).find_map(|line| {
        // sl  local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid ...
        let mut fields = line.split_ascii_whitespace().skip(1);
        let found = (address(fields.next()?)?, address(fields.next()?)?);
        (found == (local, remote) && fields.next()? == ESTABLISHED).then(|| fields.nth(3)?.parse().ok())?
    })
}

/// The parts that distinguish two ends: an IPv6 scope or flow does not.
fn place(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip(), address.port())
}

/// `0100007F:1F90`: the address as words in the processor's byte order (one, or four for IPv6), the port as a plain number.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..ip.len() / 8)
        .map(|word| u32::from_str_radix(ip.get(word * 8..word * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let ip = match words?.as_slice() {
        [word] => IpAddr::from(*word),
        [a, b, c, d] => IpAddr::from(<[u8; 16]>::try_from([*a, *b, *c, *d].concat()).ok()?),
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

    #[test]
    fn the_other_ends_row_names_the_user() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0xA38E));
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 0x1F90));
        let ip = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let row = |local: &str, remote: &str, uid: u32| {
            format!(
                "   1: {ip}:{local} {ip}:{remote} 01 00000000:00000000 00:00000000 00000000  {uid}        0 1 1"
            )
        };
        let listener = row("1F90", "0000", 7);
        let text = [HEAD, &listener, &row("1F90", "A38E", 7), &row("A38E", "1F90", 1000)].join("\n");
        assert_eq!(owner_in(&text, local, remote), Some(1000));
        assert_eq!(owner_in(&text, remote, local), Some(7));
        assert_eq!(owner_in(HEAD, local, remote), None);
        for closed in ["04", "05", "06"] {
            let row = row("A38E", "1F90", 0).replacen(" 01 ", &format!(" {closed} "), 1);
            assert_eq!(owner_in(&[HEAD, &row].join("\n"), local, remote), None, "nobody's, and not root's");
        }
    }

    #[test]
    fn addresses_of_ipv6_are_read_too() {
        let word = format!("{:08X}", u32::from_ne_bytes([0, 0, 0, 1]));
        let text = format!("{}{word}:1F90", "0".repeat(24));
        assert_eq!(address(&text), Some((IpAddr::from(Ipv6Addr::LOCALHOST), 0x1F90)));
        assert_eq!((address("0100:1F90"), address("nonsense")), (None, None));
    }

    #[test]
    fn a_persons_program_is_no_proxy() {
        for (uid, expected) in [
            (33, true),
            (999, true),
            (1000, false),
            (60000, false),
            (62000, true),
            (65534, false),
            (100_033, false),
        ] {
            assert_eq!(is_system_account(uid), expected, "{uid}");
        }
        let [here, elsewhere] = ["127.0.0.1:1", "192.0.2.1:1"].map(|address| address.parse().unwrap());
        for (peer, own) in [(here, Some(here)), (here, None), (elsewhere, Some(here))] {
            assert!(!Ends { peer, own }.may_be_proxy(), "the kernel knows no such connection");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_this_users() {
        let addresses = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for ip in addresses {
            let Ok(listener) = TcpListener::bind((ip, 0)).await else {
                assert!(ip.is_ipv6(), "a computer may be without IPv6");
                continue;
            };
            let mut listener = OwnPeers(listener);
            let address = listener.0.local_addr().unwrap();
            let (connected, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            let connected = connected.unwrap();
            assert_eq!(accepted.1, connected.local_addr().unwrap());
            assert!(Ends { peer: accepted.1, own: accepted.0.local_addr().ok() }.may_be_proxy());
            let owner = owner(accepted.1, accepted.0.local_addr().unwrap()).unwrap();
            assert_eq!(owner, rustix::process::getuid().as_raw());
            let accepted = OwnedFd::from(accepted.0.into_std().unwrap());
            assert!(is_own(&accepted));
        }
    }
}
