//! `holdall web --listen`: the pages for browsers of other computers, with a password and TLS.
//!
//! The setting outlives the daemon, like the sessions: a computer without a screen is managed from elsewhere.

use super::password::{Hashed, LEAST_CHARACTERS, MOST_BYTES};
use super::peer::Ends;
use super::tls::{self, Identity};
use super::tries::network;
use crate::api::{Action, CertificateFiles, Code, Failure, ListenWeb, ListeningWeb};
use crate::daemon::failure::{self as failures, failure};
use crate::daemon::registry;
use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// In the state directory.
const FILE: &str = "web-listen.json";
const VERSION: u32 = 1;

/// The most connections at once: clients that cannot sign in must not use up the descriptors of a daemon that has drives to serve.
const CONNECTIONS_MAX: usize = 256;
/// The most connections of one client: a browser has six for each of its pages.
const CONNECTIONS_EACH: usize = 64;
/// The most memory for the head of a request.
const HEAD_MAX: usize = 32 << 10;
/// How long a browser may take for the TLS handshake, and then for its request.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where to listen, and with which certificate and password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    version: u32,
    /// The address.
    pub address: SocketAddr,
    tls: Tls,
    /// The password's hash.
    pub password: Hashed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tls {
    /// With a certificate that was made here, for these names.
    Own {
        names: Vec<String>,
        made_s: i64,
        fingerprint: Option<String>,
    },
    Given(CertificateFiles),
    /// Without: a proxy on this computer does TLS.
    None,
}

impl Listening {
    /// The requested setting. Takes as long as hashing a password.
    pub fn of(request: &ListenWeb) -> Result<Self, Failure> {
        let address: SocketAddr = request.address.parse().map_err(|_| no_address(&request.address))?;
        if request.password.chars().count() < LEAST_CHARACTERS || request.password.len() > MOST_BYTES {
            return Err(bad_password());
        }
        let tls = match (&request.certificate, request.in_the_clear) {
            (_, true) if !is_loopback(address.ip()) => return Err(in_the_clear(address)),
            (_, true) => Tls::None,
            (Some(files), false) => Tls::Given(files.clone()),
            (None, false) => {
                let made_s = jiff::Timestamp::now().as_second();
                Tls::Own { names: tls::names(address.ip()), made_s, fingerprint: None }
            }
        };
        Ok(Self { version: VERSION, address, tls, password: Hashed::of(&request.password) })
    }

    /// The setting of a former daemon.
    pub fn recall(state: &Path) -> Option<Self> {
        let text = match std::fs::read(state.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "the address at which the pages were served to other computers cannot be read");
                return None;
            }
        };
        let known: Option<Self> = serde_json::from_slice(&text).ok();
        // A setting that a person may not request is not accepted from a file either.
        let allowed = known.filter(|known| {
            known.version == VERSION && (known.tls != Tls::None || is_loopback(known.address.ip()))
        });
        if allowed.is_none() {
            tracing::warn!(
                "the file with the address at which the pages are served to other computers is damaged"
            );
        }
        allowed
    }

    /// Makes the next daemon listen too.
    pub fn save(&self, state: &Path) -> io::Result<()> {
        registry::replace(&state.join(FILE), &serde_json::to_vec(self).expect("texts and numbers"))
    }

    /// Makes no later daemon listen.
    pub fn forget(state: &Path) -> io::Result<()> {
        match std::fs::remove_file(state.join(FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => registry::sync_directory(state),
        }
    }

    /// The certificate; `None` if a proxy does TLS. Our own certificate is made again if it was made for other names or is old.
    pub fn identity(&mut self, state: &Path) -> Result<Option<Identity>, Failure> {
        match &mut self.tls {
            Tls::None => Ok(None),
            Tls::Given(files) => tls::given(files).map(Some).map_err(|told| bad_certificate(&told)),
            Tls::Own { names, made_s, fingerprint } => {
                if let Some(Tls::Own { names: before, made_s: then, fingerprint: known }) =
                    Self::recall(state).map(|known| known.tls)
                    && before == *names
                    && !tls::is_old(then)
                {
                    (*made_s, *fingerprint) = (then, known);
                }
                let identity = tls::own(state, names, fingerprint.as_deref());
                let identity = identity.map_err(|error| failures::local(&error))?;
                if fingerprint.as_ref() != Some(&identity.fingerprint) {
                    *made_s = jiff::Timestamp::now().as_second();
                    *fingerprint = Some(identity.fingerprint.clone());
                }
                Ok(Some(identity))
            }
        }
    }

    /// The files of the certificate that a person provides.
    pub fn files(&self) -> Option<&CertificateFiles> {
        match &self.tls {
            Tls::Given(files) => Some(files),
            Tls::Own { .. } | Tls::None => None,
        }
    }

    /// The setting, for people.
    pub fn told(&self, identity: Option<&Identity>) -> ListeningWeb {
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => tls::host_name(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        let scheme = if identity.is_some() { "https" } else { "http" };
        ListeningWeb {
            url: format!("{scheme}://{host}:{}/", self.address.port()),
            fingerprint: identity.map(|identity| identity.fingerprint.clone()),
            is_own_certificate: matches!(self.tls, Tls::Own { .. }),
        }
    }
}

/// Serves until it is dropped. A new connection gets the configuration that is current then. Each connection must send its request in time, and their number is limited.
pub async fn serve(
    mut listener: TcpListener,
    config: Option<watch::Receiver<Arc<ServerConfig>>>,
    router: Router,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let by_client = Arc::new(Mutex::new(HashMap::<IpAddr, usize>::new()));
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = Listener::accept(&mut listener).await;
        // A connection is closed at once while all places are taken; no single client can take them all.
        let Some(place) = Place::take(&places, &by_client, peer.ip()) else { continue };
        while connections.try_join_next().is_some() {}
        let own = stream.local_addr().ok();
        let router = router.clone().layer(axum::Extension(Ends { peer, own }));
        let acceptor = config.as_ref().map(|config| TlsAcceptor::from(config.borrow().clone()));
        connections.spawn(async move {
            let _place = place;
            match acceptor {
                None => converse(stream, router).await,
                Some(acceptor) => match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => converse(stream, router).await,
                    Ok(Err(error)) => {
                        tracing::debug!(%peer, %error, "the TLS handshake with a browser failed")
                    }
                    Err(_) => tracing::debug!(%peer, "a browser sent nothing"),
                },
            }
        });
    }
}

/// A place among the limited number of connections.
struct Place {
    _any: OwnedSemaphorePermit,
    by_client: Arc<Mutex<HashMap<IpAddr, usize>>>,
    client: IpAddr,
}

impl Place {
    fn take(
        places: &Arc<Semaphore>,
        by_client: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        client: IpAddr,
    ) -> Option<Self> {
        let any = places.clone().try_acquire_owned().ok()?;
        let client = network(client);
        let mut counts = by_client.lock();
        let count = counts.entry(client).or_default();
        // A proxy on this computer speaks for everybody.
        if *count >= CONNECTIONS_EACH && !client.is_loopback() {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Self { _any: any, by_client: by_client.clone(), client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.by_client.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a browser's connection has ended");
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn no_address(given: &str) -> Failure {
    failure(
        Code::Usage,
        format!("{given} is not an address with a port."),
        failures::NOTHING_CHANGED,
        Action::tell("Give an address and a port, such as 0.0.0.0:8443 for all addresses of this computer."),
    )
}

fn bad_password() -> Failure {
    failure(
        Code::Usage,
        "This password is too short, so others could guess it over the network, or too long.",
        failures::NOTHING_CHANGED,
        Action::tell(format!(
            "Choose one of at least {LEAST_CHARACTERS} characters, and at most {MOST_BYTES} bytes."
        )),
    )
}

fn in_the_clear(address: SocketAddr) -> Failure {
    failure(
        Code::Usage,
        format!(
            "At {address}, others could read the password and all that is shown, because there would be no TLS."
        ),
        failures::NOTHING_CHANGED,
        Action::tell("Leave out --no-tls, or listen at 127.0.0.1 behind a proxy that adds TLS."),
    )
}

fn bad_certificate(told: &str) -> Failure {
    failure(
        Code::Failed,
        format!("The certificate cannot be used: {told}."),
        failures::NOTHING_CHANGED,
        Action::tell("Give a certificate and its key in PEM, or none: then Holdall creates one."),
    )
}

/// Binds the port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| not_bound(address, &error))
}

fn not_bound(address: SocketAddr, error: &io::Error) -> Failure {
    failure(
        Code::Failed,
        format!("Cannot listen at {address}: {}.", crate::api::words::why(error)),
        failures::NOTHING_CHANGED,
        Action::tell("Choose another port, or an address that this computer has."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: &str) -> ListenWeb {
        ListenWeb {
            address: address.to_owned(),
            password: "correct horse battery".to_owned(),
            certificate: None,
            in_the_clear: false,
        }
    }

    #[test]
    fn nothing_is_served_in_the_clear_to_other_computers() {
        for (address, is_allowed) in [
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("192.0.2.1:80", false),
            ("[::ffff:192.0.2.1]:80", false),
        ] {
            let request = ListenWeb { in_the_clear: true, ..asked(address) };
            assert_eq!(Listening::of(&request).is_ok(), is_allowed, "{address}");
        }
        // Not even if a file says so.
        let state = tempfile::tempdir().unwrap();
        let mut listening =
            Listening::of(&ListenWeb { in_the_clear: true, ..asked("127.0.0.1:80") }).unwrap();
        listening.save(state.path()).unwrap();
        assert_eq!(Listening::recall(state.path()), Some(listening.clone()));
        listening.address = "0.0.0.0:80".parse().unwrap();
        listening.save(state.path()).unwrap();
        assert_eq!(Listening::recall(state.path()), None);
    }

    #[test]
    fn a_short_password_and_half_an_address_are_refused() {
        for address in ["", "8443", "0.0.0.0", "example.org:8443"] {
            assert!(Listening::of(&asked(address)).is_err(), "{address}");
        }
        let request = ListenWeb { password: "too short!".to_owned(), ..asked("0.0.0.0:8443") };
        assert!(Listening::of(&request).unwrap_err().message.contains("too short"));
    }

    #[test]
    fn a_certificate_stays_while_the_names_do() {
        let state = tempfile::tempdir().unwrap();
        let fingerprint = |address: &str| {
            let mut listening = Listening::of(&asked(address)).unwrap();
            let identity = listening.identity(state.path()).unwrap().unwrap();
            listening.save(state.path()).unwrap();
            identity.fingerprint
        };
        let first = fingerprint("192.0.2.1:8443");
        assert_eq!(fingerprint("192.0.2.1:8444"), first, "another port is another port");
        assert_ne!(fingerprint("192.0.2.2:8444"), first);
    }

    #[test]
    fn no_client_takes_all_places() {
        let (places, by_client) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::default());
        let take = |client: &str| Place::take(&places, &by_client, client.parse().unwrap());
        let held: Vec<_> = (0..CONNECTIONS_EACH).map(|_| take("192.0.2.1").unwrap()).collect();
        assert!(take("192.0.2.1").is_none());
        let other = take("192.0.2.2");
        assert!(other.is_some());
        drop((held, other));
        assert!(take("192.0.2.1").is_some() && by_client.lock().is_empty());
        let _proxied: Vec<_> = (0..CONNECTIONS_MAX).map(|_| take("127.0.0.1").unwrap()).collect();
        assert!(take("192.0.2.2").is_none());
    }

    #[test]
    fn the_address_is_one_that_other_computers_can_use() {
        let told = |address: &str| Listening::of(&asked(address)).unwrap().told(None).url;
        assert_eq!(told("0.0.0.0:8443"), format!("http://{}:8443/", tls::host_name()));
        assert_eq!(told("[2001:db8::1]:8443"), "http://[2001:db8::1]:8443/");
    }
}
