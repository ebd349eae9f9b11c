//! TLS 1.3 with raw public keys (RFC 7250), and nothing that would let a key in without asking.
//!
//! Resumption, tickets and early data are off on both sides: a resumed session would take the identity of an earlier one, and a device that
//! was unpaired since would still get in.

use crate::key::{DeviceKey, PublicKey};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What both sides must speak inside TLS.
const ALPN: &[u8] = b"holdall/1";
/// The least time between two connections of unpaired devices: a person types one code in far more.
const UNPAIRED_PAUSE: Duration = Duration::from_secs(1);

/// Which keys get in.
#[derive(Default)]
pub struct Door {
    // Asked in handshakes, which cannot wait for an owner; held only for look-ups.
    state: Mutex<Admission>,
}

#[derive(Default)]
struct Admission {
    paired: HashSet<PublicKey>,
    /// Whether a person waits for a pairing here.
    pairing: bool,
    /// When an unpaired device was last let in.
    last_unpaired: Option<Instant>,
}

impl Door {
    /// Lets exactly these keys in from now on, and unpaired ones during a pairing.
    pub fn set_paired(&self, keys: impl IntoIterator<Item = PublicKey>) {
        self.state.lock().paired = keys.into_iter().collect();
    }

    /// Begins or ends to let unpaired devices in.
    pub fn set_pairing(&self, pairing: bool) {
        self.state.lock().pairing = pairing;
    }

    /// Whether this key gets in.
    fn admits(&self, key: &PublicKey, now: Instant) -> bool {
        let mut state = self.state.lock();
        if state.paired.contains(key) {
            return true;
        }
        let waited = |last: Instant| now.saturating_duration_since(last) >= UNPAIRED_PAUSE;
        if !state.pairing || !state.last_unpaired.is_none_or(waited) {
            return false;
        }
        state.last_unpaired = Some(now);
        true
    }
}

/// The key that a dialed device must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this one.
    Key(PublicKey),
    /// Any: the code proves it.
    Any,
}

/// Decides by the key alone, and has the signature checked.
struct Verifier<T> {
    decides: T,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<T> fmt::Debug for Verifier<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl<T> Verifier<T> {
    fn new(decides: T) -> Self {
        Self { decides, algorithms: provider().signature_verification_algorithms }
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

fn refused() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

fn key_of(raw: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    PublicKey::from_spki(raw).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

fn only_tls13() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic))
}

impl ServerCertVerifier for Verifier<Expected> {
    fn verify_server_cert(
        &self,
        raw: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = key_of(raw)?;
        match self.decides {
            Expected::Key(expected) if expected != key => Err(refused()),
            Expected::Key(_) | Expected::Any => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier<Arc<Door>> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        raw: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.decides.admits(&key_of(raw)?, Instant::now()) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(refused()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// For connections that others make.
pub fn server(key: &DeviceKey, door: Arc<Door>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_client_cert_verifier(Arc::new(Verifier::new(door)))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.certified())));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Arc::new(config)
}

/// For connections that this device makes.
pub fn client(key: &DeviceKey, expected: Expected) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(expected)))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key.certified())));
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Arc::new(config)
}

/// The name that TLS wants. It is not sent, and the key decides.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("holdall.invalid").expect("it is a name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::HandshakeKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector, client, server as served};

    type Ends = (
        std::io::Result<client::TlsStream<tokio::io::DuplexStream>>,
        std::io::Result<served::TlsStream<tokio::io::DuplexStream>>,
    );

    async fn connect(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Ends {
        let (here, there) = duplex(64 << 10);
        let accepting = TlsAcceptor::from(server).accept(there);
        let dialing = async {
            let mut stream = TlsConnector::from(client).connect(server_name(), here).await?;
            // In TLS 1.3 the server judges a client's key after the client believes that it is connected.
            let mut one = [0];
            stream.read_exact(&mut one).await.map(|_| stream)
        };
        let accepting = async {
            let mut stream = accepting.await?;
            stream.write_all(&[1]).await?;
            stream.flush().await.map(|()| stream)
        };
        tokio::join!(dialing, accepting)
    }

    fn keys() -> (DeviceKey, DeviceKey) {
        (DeviceKey::from_seed(&[1; 32]), DeviceKey::from_seed(&[2; 32]))
    }

    #[tokio::test]
    async fn only_paired_keys_get_in() {
        let ((here, there), door) = (keys(), Arc::new(Door::default()));
        let expected = Expected::Key(*there.public());
        let (client, server) = (super::client(&here, expected), server(&there, door.clone()));
        let (dialed, accepted) = connect(client.clone(), server.clone()).await;
        assert!(dialed.is_err() && accepted.is_err());
        door.set_paired([*here.public()]);
        let (dialed, accepted) = connect(client.clone(), server.clone()).await;
        assert!(dialed.is_ok() && accepted.is_ok());
        door.set_paired([]);
        assert!(connect(client, server).await.1.is_err());
    }

    #[tokio::test]
    async fn a_server_with_another_key_is_refused() {
        let ((here, there), door) = (keys(), Arc::new(Door::default()));
        door.set_paired([*here.public()]);
        let other = DeviceKey::from_seed(&[3; 32]);
        let client = super::client(&here, Expected::Key(*other.public()));
        assert!(connect(client, server(&there, door)).await.0.is_err());
    }

    #[tokio::test]
    async fn a_session_is_never_resumed() {
        let ((here, there), door) = (keys(), Arc::new(Door::default()));
        door.set_paired([*here.public()]);
        let server = server(&there, door);
        // A client that would resume.
        let mut client = (*super::client(&here, Expected::Any)).clone();
        client.resumption = Resumption::in_memory_sessions(8);
        client.enable_early_data = true;
        let client = Arc::new(client);
        for _ in 0..3 {
            let (dialed, accepted) = connect(client.clone(), server.clone()).await;
            assert_eq!(dialed.unwrap().get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
            assert_eq!(accepted.unwrap().get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        }
    }

    #[tokio::test]
    async fn a_client_that_proves_no_key_is_refused() {
        let ((_, there), door) = (keys(), Arc::new(Door::default()));
        door.set_pairing(true);
        let without = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(Expected::Any)))
            .with_no_client_auth();
        assert!(connect(Arc::new(without), server(&there, door)).await.1.is_err());
    }

    #[test]
    fn unpaired_keys_get_in_once_a_second_during_a_pairing() {
        let (door, now) = (Door::default(), Instant::now());
        let (paired, other) = (PublicKey::new([1; 32]), PublicKey::new([2; 32]));
        door.set_paired([paired]);
        assert!(!door.admits(&other, now));
        door.set_pairing(true);
        assert!(door.admits(&other, now));
        let soon = now + Duration::from_millis(999);
        assert!(!door.admits(&other, soon) && door.admits(&paired, soon));
        assert!(door.admits(&other, now + UNPAIRED_PAUSE));
        door.set_pairing(false);
        assert!(!door.admits(&other, now + UNPAIRED_PAUSE * 9) && door.admits(&paired, now));
    }
}
