//! Connections that this device makes.
//!
//! All known addresses are tried, each a little later than the one before. The key decides which of them is the device, so an address that
//! now belongs to another computer does no harm. Only the first that proves the key gets a greeting: the others would open links that
//! nobody uses.

use super::{GREETING_PATIENCE, Peers, now};
use crate::error::{PeerError, Result};
use crate::frame::{self, UNPAIRED_FRAME_MAX};
use crate::hello::{Answer, Hello, PROTOCOLS, Purpose, Who};
use crate::link::Link;
use crate::list::Device;
use crate::tls::{self, Expected, server_name};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsConnector, TlsStream};

/// How long an address may take to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How much later each further address is tried (RFC 8305 recommends 250 ms; these are mostly on the same network).
const STAGGER: Duration = Duration::from_millis(100);
/// The most addresses that are tried.
const ADDRESSES_MAX: usize = 32;

impl Peers {
    /// Connects to a paired device.
    ///
    /// # Errors
    /// [`PeerError::Unreachable`] if no address proves the device's key; [`PeerError::Refused`] as the device says.
    pub async fn dial(&self, device: &Device, purpose: Purpose) -> Result<Link> {
        let (address, mut stream) = self.reach(device).await?;
        let hello = Hello { protocols: PROTOCOLS, purpose, who: self.who() };
        let (protocol, who) = greet(&mut stream, &hello).await?;
        if who.uuid != device.uuid {
            return Err(PeerError::Impostor);
        }
        self.devices.lock().seen(&device.key, &who.name, Some(address), now())?;
        self.link(stream, &device.key, purpose, protocol)
    }

    /// Tries whether a device can be reached, without a purpose.
    pub async fn probe(&self, device: &Device) -> Result<()> {
        let (_, mut stream) = self.reach(device).await?;
        // It refuses the pairing, and by that shows that it let this key in; its own pairing is not disturbed by a greeting alone.
        let hello = Hello { protocols: PROTOCOLS, purpose: Purpose::Pair, who: Who::nobody() };
        match greet(&mut stream, &hello).await {
            Ok(_) | Err(PeerError::Refused(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// A connection whose other end has the device's key.
    async fn reach(&self, device: &Device) -> Result<(SocketAddr, TlsStream<TcpStream>)> {
        let mut addresses = device.addresses.clone();
        for found in self.discovered() {
            if !addresses.contains(&found) {
                addresses.push(found);
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        let tls = tls::client(&self.key, Expected::Key(device.key));
        let mut trying = JoinSet::new();
        for (place, address) in addresses.into_iter().enumerate() {
            let tls = tls.clone();
            trying.spawn(async move {
                sleep(STAGGER * u32::try_from(place).unwrap_or(0)).await;
                (address, connect(address, tls).await)
            });
        }
        let mut tried = Vec::new();
        while let Some(done) = trying.join_next().await {
            match done {
                Ok((address, Ok(stream))) => return Ok((address, stream)),
                Ok((address, Err(error))) => tried.push(format!("{address}: {error}")),
                Err(error) => tried.push(error.to_string()),
            }
        }
        let tried = if tried.is_empty() { "no address is known".to_owned() } else { tried.join("; ") };
        Err(PeerError::Unreachable { name: device.name.clone(), tried })
    }
}

/// Connects to an address, with TLS.
pub(super) async fn connect(address: SocketAddr, tls: Arc<ClientConfig>) -> Result<TlsStream<TcpStream>> {
    let stream =
        timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await.map_err(|_| PeerError::TimedOut)??;
    stream.set_nodelay(true)?;
    let connecting = TlsConnector::from(tls).connect(server_name(), stream);
    Ok(timeout(GREETING_PATIENCE, connecting).await.map_err(|_| PeerError::TimedOut)??.into())
}

/// Greets, and returns the protocol and who the other side says that it is.
pub(super) async fn greet(stream: &mut TlsStream<TcpStream>, hello: &Hello) -> Result<(u16, Who)> {
    let greeting = async {
        frame::write(stream, &hello.frame()).await?;
        Answer::decode(&frame::expect(stream, UNPAIRED_FRAME_MAX).await?)
    };
    match timeout(GREETING_PATIENCE, greeting).await.map_err(|_| PeerError::TimedOut)?? {
        Answer::Welcome { protocol, who } if (PROTOCOLS.0..=PROTOCOLS.1).contains(&protocol) => {
            Ok((protocol, who))
        }
        Answer::Welcome { protocol, .. } => Err(PeerError::Version { min: protocol, max: protocol }),
        Answer::Refused(why) => Err(PeerError::Refused(why)),
    }
}
