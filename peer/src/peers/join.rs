//! Pairing with the device that shows a code.
//!
//! Discovery does not say which device that is, so each found one is tried. Whoever answers gets one guess of the code from its proof, and
//! so only a few are asked.

use super::dial::{connect, greet};
use super::{Peers, tls_any};
use crate::error::{PeerError, Refusal, Result};
use crate::hello::{Hello, PROTOCOLS, Purpose, Who};
use crate::key::PublicKey;
use crate::link::export;
use crate::pairing::{EXPORTER, Ends, Pairing};
use rustls::ClientConfig;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsStream;

/// How often discovery is asked.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// When an address that was not ready is tried again: a device admits one unpaired connection a second.
const RETRY_PAUSE: Duration = Duration::from_millis(1_500);
/// The most addresses that may see a proof, and so guess: the odds stay one in a hundred million.
const GUESSES_MAX: usize = 8;
/// How long an address given by hand may take to be there.
const GIVEN_PATIENCE: Duration = Duration::from_secs(15);
/// How long devices are looked for on the local network.
const FOUND_PATIENCE: Duration = Duration::from_secs(30);
/// How long others are tried after one has said that the code is wrong.
const WRONG_PATIENCE: Duration = Duration::from_secs(4);

/// An end that has proved the code.
type Proved = (TlsStream<TcpStream>, Ends, SocketAddr);

impl Peers {
    /// Finds the device and pairs with it. The pairing says how it ended.
    pub(super) async fn join(self: Arc<Self>, pairing: Arc<Pairing>, at: Option<Vec<SocketAddr>>) {
        let finding = async {
            tokio::select! {
                found = self.find(&pairing, at.as_deref()) => found,
                () = pairing.over() => Err(PeerError::Cancelled),
            }
        };
        match finding.await {
            Ok((stream, ends, address)) => {
                self.conclude(&pairing, stream, &ends, address.ip().to_canonical()).await;
            }
            Err(error) => pairing.fail(error),
        }
    }

    async fn find(&self, pairing: &Arc<Pairing>, at: Option<&[SocketAddr]>) -> Result<Proved> {
        let patience = if at.is_some() { GIVEN_PATIENCE } else { FOUND_PATIENCE };
        let (ours, tls) = (*self.key.public(), tls_any(&self.key));
        let (mut until, mut last) = (Instant::now() + patience, PeerError::NotFound);
        let mut next: HashMap<SocketAddr, Option<Instant>> = HashMap::new();
        let (mut trying, mut wrong) = (JoinSet::new(), 0);
        loop {
            let addresses = at.map_or_else(|| self.discovered(), <[_]>::to_vec);
            for address in addresses {
                let due = next.entry(address).or_insert_with(|| Some(Instant::now()));
                if due.is_some_and(|due| due <= Instant::now()) && wrong + trying.len() < GUESSES_MAX {
                    *due = None;
                    let (tls, pairing) = (tls.clone(), pairing.clone());
                    trying.spawn(async move { (address, attempt(address, tls, ours, &pairing).await) });
                }
            }
            match timeout(LOOK_PAUSE, trying.join_next()).await {
                Ok(Some(Ok((_, Ok(proved))))) => return Ok(proved),
                Ok(Some(Ok((_, Err(error @ (PeerError::WrongCode | PeerError::NoTriesLeft)))))) => {
                    (wrong, last) = (wrong + 1, error);
                    until = until.min(Instant::now() + WRONG_PATIENCE);
                    if at.is_some() {
                        return Err(last);
                    }
                }
                Ok(Some(Ok((address, Err(error))))) => {
                    // It may not show its code yet, or be another device.
                    next.insert(address, Some(Instant::now() + RETRY_PAUSE));
                    let is_news = !matches!(error, PeerError::Refused(Refusal::NotPairing));
                    if at.is_some() && is_news && matches!(last, PeerError::NotFound | PeerError::Io(_)) {
                        last = error;
                    }
                }
                Ok(Some(Err(_))) | Err(_) => {}
                Ok(None) => sleep(LOOK_PAUSE).await,
            }
            if Instant::now() >= until {
                return Err(last);
            }
        }
    }
}

/// Tries one address with the code.
async fn attempt(
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    ours: PublicKey,
    pairing: &Pairing,
) -> Result<Proved> {
    let mut stream = connect(address, tls).await?;
    let hello = Hello { protocols: PROTOCOLS, purpose: Purpose::Pair, who: Who::nobody() };
    greet(&mut stream, &hello).await?;
    let keys = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let theirs = keys.first().and_then(|raw| PublicKey::from_spki(raw)).ok_or(PeerError::WrongKey)?;
    let ends = Ends { ours, theirs, exporter: export(&stream, EXPORTER)? };
    pairing.prove(&mut stream, &ends).await?;
    Ok((stream, ends, address))
}
