//! Whose process is at the other end of a connection on loopback.
//!
//! The kernel lists TCP sockets with the user who made them (`/proc/net/tcp`). Both ends of a connection on loopback are in the list, so
//! the other end's row is the one whose local address is the peer's. A cookie that another user got hold of is of no use to them:
//! browsers send a host's cookies to all of its ports, and so to whoever listens at another one.

use axum::serve::Listener;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use tokio::net::{TcpListener, TcpStream};

/// Accepts connections of this user's and root's processes, and closes all others.
pub struct OwnPeers(pub TcpListener);

impl Listener for OwnPeers {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.0).await;
            match owner(&stream, peer) {
                Ok(uid) if uid == 0 || uid == rustix::process::getuid().as_raw() => return (stream, peer),
                Ok(uid) => tracing::warn!(uid, "another user's process was refused at the port for browsers"),
                Err(error) => {
                    tracing::warn!(%error, "cannot tell who has connected to the port for browsers")
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn owner(stream: &TcpStream, peer: SocketAddr) -> io::Result<u32> {
    let (SocketAddr::V4(peer), SocketAddr::V4(own)) = (peer, stream.local_addr()?) else {
        return Err(io::Error::other("it is no IPv4 connection"));
    };
    let sockets = std::fs::read_to_string("/proc/self/net/tcp")?;
    owner_in(&sockets, peer, own).ok_or_else(|| io::Error::other("its socket is not in /proc/net/tcp"))
}

/// As the kernel writes TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";

/// The user of the socket that is bound to `local` and connected to `remote`. One that was closed has no owner any more, and a row with
/// root's number.
fn owner_in(sockets: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    sockets.lines().skip(1).find_map(|line| {
        // sl  local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid ...
        let mut fields = line.split_ascii_whitespace().skip(1);
        let found = (address(fields.next()?)?, address(fields.next()?)?);
        (found == (local, remote) && fields.next()? == ESTABLISHED).then(|| fields.nth(3)?.parse().ok())?
    })
}

/// `0100007F:1F90`: the address as the processor has it in memory, the port as it is written.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(ip.to_ne_bytes()), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_the_other_end_says_whose_it_is() {
        let local = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0xA38E);
        let remote = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0x1F90);
        let ip = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let row = |local: &str, remote: &str, uid: u32| {
            format!(
                "   1: {ip}:{local} {ip}:{remote} 01 00000000:00000000 00:00000000 00000000  {uid}        0 1 1"
            )
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let listener = row("1F90", "0000", 7);
        let text = [head, &listener, &row("1F90", "A38E", 7), &row("A38E", "1F90", 1000)].join("\n");
        assert_eq!(owner_in(&text, local, remote), Some(1000));
        assert_eq!(owner_in(&text, remote, local), Some(7));
        assert_eq!(owner_in(head, local, remote), None);
        for closed in ["04", "05", "06"] {
            let row = row("A38E", "1F90", 0).replacen(" 01 ", &format!(" {closed} "), 1);
            assert_eq!(owner_in(&[head, &row].join("\n"), local, remote), None, "nobody's, and not root's");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_this_users() {
        let mut listener = OwnPeers(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        let address = listener.0.local_addr().unwrap();
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let connected = connected.unwrap();
        assert_eq!(accepted.1, connected.local_addr().unwrap());
        let owner = owner(&accepted.0, accepted.1).unwrap();
        assert_eq!(owner, rustix::process::getuid().as_raw());
    }
}
