//! Connections that others make.
//!
//! Until its key is known, a connection costs one descriptor, one handshake and 10 seconds at most, and only so many are under way.

use super::{GREETING_PATIENCE, LINKS_MAX, PORT_DEFAULT, Peers, now};
use crate::error::{PeerError, Refusal, Result};
use crate::frame::{self, UNPAIRED_FRAME_MAX};
use crate::hello::{Answer, Hello, Purpose, Who};
use crate::key::PublicKey;
use crate::link::{Link, export};
use crate::pairing::{EXPORTER, Ends, Pairing, tell_stored};
use crate::tls;
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Connections whose other side is not known yet, in all: each takes a few KiB.
const UNKNOWN_MAX: usize = 64;
/// The same from one address, so that one computer cannot take all of them.
const UNKNOWN_MAX_OF_ONE: usize = 16;
/// After a failed accept, such as at the limit on open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A listening port; dropping it closes the port. Connections that are open stay.
pub struct Listener {
    port: u16,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Listens at the chosen port; if none was chosen, at the usual one, or at any if another program has it.
pub async fn begin(peers: &Arc<Peers>, chosen: Option<u16>) -> io::Result<Listener> {
    let listener = match chosen {
        Some(port) => bind(port).await?,
        None => match bind(PORT_DEFAULT).await {
            Ok(listener) => listener,
            Err(_) => bind(0).await?,
        },
    };
    let port = listener.local_addr()?.port();
    let tls = tls::server(&peers.key, peers.door.clone());
    let accepting = tokio::spawn(accept(Arc::downgrade(peers), listener, tls));
    Ok(Listener { port, accepting })
}

/// For both families, or for IPv4 where the kernel has no IPv6.
async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

/// How many unknown connections each address has.
type Unknown = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The place of one of them; dropping it frees the place.
struct Place(Unknown, IpAddr);

impl Place {
    fn take(unknown: &Unknown, from: IpAddr) -> Option<Self> {
        let mut counts = unknown.lock();
        let all: usize = counts.values().sum();
        let of_one = counts.get(&from).copied().unwrap_or(0);
        if all >= UNKNOWN_MAX || of_one >= UNKNOWN_MAX_OF_ONE {
            return None;
        }
        counts.insert(from, of_one + 1);
        Some(Self(unknown.clone(), from))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        match counts.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(counts.remove(&self.1)),
        }
    }
}

async fn accept(peers: Weak<Peers>, listener: TcpListener, tls: Arc<ServerConfig>) {
    let unknown = Unknown::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(peers) = peers.upgrade() else { return };
        let Some(place) = Place::take(&unknown, from.ip().to_canonical()) else { continue };
        let tls = tls.clone();
        tokio::spawn(async move {
            if let Err(error) = peers.serve(stream, from, tls, place).await {
                tracing::debug!(%error, "a connection of another device ended");
            }
        });
    }
}

/// A connection whose key and greeting are known.
struct Greeted {
    stream: TlsStream<TcpStream>,
    key: PublicKey,
    hello: Hello,
    from: SocketAddr,
}

impl Peers {
    async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        tls: Arc<ServerConfig>,
        place: Place,
    ) -> Result<()> {
        let mut greeted =
            timeout(GREETING_PATIENCE, greet(stream, from, tls)).await.map_err(|_| PeerError::TimedOut)??;
        let Some(protocol) = greeted.hello.agreed() else {
            return refuse(&mut greeted, Refusal::Version).await;
        };
        if greeted.hello.purpose == Purpose::Pair {
            return self.serve_pairing(greeted, protocol).await;
        }
        let handler = self.handlers.lock().get(&greeted.hello.purpose).cloned();
        let Some(handler) = handler else { return refuse(&mut greeted, Refusal::Purpose).await };
        if let Err(why) = self.admit(&greeted) {
            return refuse(&mut greeted, why).await;
        }
        let Greeted { stream, key, hello, from } = greeted;
        let mut link = self.link(stream, &key, hello.purpose, protocol)?;
        let address =
            (hello.who.port != 0).then(|| SocketAddr::new(from.ip().to_canonical(), hello.who.port));
        self.devices.lock().seen(&key, &hello.who.name, address, now())?;
        let welcome = Answer::Welcome { protocol, who: self.who() }.frame();
        timeout(GREETING_PATIENCE, frame::write(&mut link, &welcome))
            .await
            .map_err(|_| PeerError::TimedOut)??;
        drop(place);
        // The handler may outlive this object's other users; it must not keep it.
        drop(self);
        handler(link).await;
        Ok(())
    }

    /// Whether a key is a paired device's, and its claim fits.
    fn admit(&self, greeted: &Greeted) -> std::result::Result<(), Refusal> {
        let devices = self.devices.lock();
        let device = devices.by_key(&greeted.key).ok_or(Refusal::Unpaired)?;
        if device.uuid != greeted.hello.who.uuid {
            tracing::warn!(device = device.name, "a paired device claims to be another one; it was refused");
            return Err(Refusal::Identity);
        }
        let open =
            self.live.lock().iter().filter(|(key, closer)| *key == greeted.key && closer.is_live()).count();
        if open >= LINKS_MAX { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// Makes a link of a connection, unless the device was unpaired meanwhile.
    pub(super) fn link(
        &self,
        stream: TlsStream<TcpStream>,
        key: &PublicKey,
        purpose: Purpose,
        protocol: u16,
    ) -> Result<Link> {
        // Under this lock unpairing removes the device and closes its links.
        let devices = self.devices.lock();
        let device = devices.by_key(key).cloned().ok_or(PeerError::Refused(Refusal::Unpaired))?;
        let (link, closer) = Link::new(stream, device, purpose, protocol)?;
        let mut live = self.live.lock();
        live.retain(|(_, closer)| closer.is_live());
        live.push((*key, closer));
        Ok(link)
    }

    async fn serve_pairing(self: &Arc<Self>, mut greeted: Greeted, protocol: u16) -> Result<()> {
        let open = |pairing: &Arc<Pairing>| pairing.shown_code().is_some() && pairing.is_open();
        let Some(pairing) = self.pairing().filter(open) else {
            return refuse(&mut greeted, Refusal::NotPairing).await;
        };
        let Greeted { mut stream, key, from, .. } = greeted;
        let ends = Ends { ours: *self.key.public(), theirs: key, exporter: export(&stream, EXPORTER)? };
        let welcome = Answer::Welcome { protocol, who: Who::nobody() }.frame();
        timeout(GREETING_PATIENCE, frame::write(&mut stream, &welcome))
            .await
            .map_err(|_| PeerError::TimedOut)??;
        let proving = async {
            tokio::select! {
                proved = pairing.prove(&mut stream, &ends) => proved,
                () = pairing.over() => Err(PeerError::Cancelled),
            }
        };
        match proving.await {
            Ok(()) => {}
            Err(PeerError::NoTriesLeft) => {
                pairing.exhausted();
                return Err(PeerError::NoTriesLeft);
            }
            Err(other) => return Err(other),
        }
        self.conclude(&pairing, stream, &ends, from.ip().to_canonical()).await;
        Ok(())
    }

    /// What follows the proofs, on both sides. The pairing says how it ended.
    pub(super) async fn conclude(
        &self,
        pairing: &Pairing,
        mut stream: TlsStream<TcpStream>,
        ends: &Ends,
        other: IpAddr,
    ) {
        let me = self.who();
        let check = |who: &Who| self.devices.lock().may_add(&ends.theirs, who.uuid);
        let agreed = tokio::select! {
            agreed = pairing.agree(&mut stream, ends, &me, check) => agreed,
            () = pairing.over() => return,
        };
        let kept = agreed.and_then(|who| {
            let address = (who.port != 0).then(|| SocketAddr::new(other, who.port));
            self.keep(ends.theirs, &who, address)
        });
        match kept {
            Ok(device) => {
                if let Err(error) = tell_stored(&mut stream).await {
                    tracing::warn!(device = device.name, %error, "the other device may not have kept the pairing");
                }
                pairing.paired(device);
            }
            Err(error) => pairing.fail(error),
        }
    }
}

async fn greet(stream: TcpStream, from: SocketAddr, tls: Arc<ServerConfig>) -> Result<Greeted> {
    stream.set_nodelay(true)?;
    let mut stream = TlsAcceptor::from(tls).accept(stream).await?;
    let keys = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let key = keys.first().and_then(|raw| PublicKey::from_spki(raw)).ok_or(PeerError::WrongKey)?;
    let hello = Hello::decode(&frame::expect(&mut stream, UNPAIRED_FRAME_MAX).await?)?;
    Ok(Greeted { stream: stream.into(), key, hello, from })
}

async fn refuse(greeted: &mut Greeted, why: Refusal) -> Result<()> {
    let refusal = Answer::Refused(why).frame();
    timeout(GREETING_PATIENCE, frame::write(&mut greeted.stream, &refusal))
        .await
        .map_err(|_| PeerError::TimedOut)?
}
