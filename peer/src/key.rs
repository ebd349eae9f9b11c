//! A device's key.

use crate::error::Result;
use crate::file;
use data_encoding::BASE32_NOPAD;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// An Ed25519 key as SubjectPublicKeyInfo (RFC 8410): this prefix, then 32 bytes.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// An Ed25519 seed as PKCS #8 (RFC 8410): this prefix, then 32 bytes.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// The bytes of a seed and of a public key.
const KEY_BYTES: usize = 32;

/// The public key of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// From its 32 bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    #[cfg(test)]
    pub(crate) const fn of_test(byte: u8) -> Self {
        Self([byte; KEY_BYTES])
    }

    /// From a SubjectPublicKeyInfo. Only Ed25519 in its one encoding is a device's key.
    pub fn from_spki(der: &[u8]) -> Option<Self> {
        der.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok()).map(Self)
    }

    /// As a SubjectPublicKeyInfo.
    pub fn spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// The key's fingerprint.
    pub fn id(&self) -> DeviceId {
        DeviceId(blake3::derive_key("holdall device id v1", &self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&BASE32_NOPAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("a key has 32 bytes in base 32"))
    }
}

/// The fingerprint of a device's public key: what identifies a device, whatever it says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId([u8; KEY_BYTES]);

impl DeviceId {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    /// 80 bits in four groups: enough to compare by eye, too many to forge.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = BASE32_NOPAD.encode(&self.0[..10]);
        write!(f, "{}-{}-{}-{}", &text[..4], &text[4..8], &text[8..12], &text[12..])
    }
}

/// This device's key pair.
pub struct DeviceKey {
    public: PublicKey,
    certified: Arc<CertifiedKey>,
}

impl DeviceKey {
    /// Reads the key, or makes one. Only the owner of the file can read it.
    ///
    /// A key that is there and cannot be read is an error and is not replaced: all paired devices know it.
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(bytes) = file::read(path, KEY_BYTES as u64)?.map(Zeroizing::new) {
            let seed = bytes.as_slice().try_into().map_err(|_| {
                let error = io::Error::new(io::ErrorKind::InvalidData, "it is not a key");
                file::failed(path, "read", error)
            })?;
            return Ok(Self::from_seed(&Zeroizing::new(seed)));
        }
        let seed = Zeroizing::new(rand::random::<[u8; KEY_BYTES]>());
        file::replace(path, &seed[..])?;
        Ok(Self::from_seed(&seed))
    }

    /// From its seed.
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        let der = Zeroizing::new([&PKCS8_PREFIX[..], seed].concat());
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_slice())).expect("every seed is a key");
        let spki = key.public_key().expect("an Ed25519 key knows its public part");
        let public = PublicKey::from_spki(&spki).expect("it is Ed25519");
        let raw = CertificateDer::from(spki.to_vec());
        Self { public, certified: Arc::new(CertifiedKey::new(vec![raw], key)) }
    }

    /// The public part.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// For TLS.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }
}

impl fmt::Debug for DeviceKey {
    /// Shows nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceKey({})", self.public.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.key");
        let made = DeviceKey::open(&path).unwrap();
        assert_eq!(DeviceKey::open(&path).unwrap().public(), made.public());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.key");
        for damaged in [&b"short"[..], &[7; 33]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(DeviceKey::open(&path).is_err());
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn only_ed25519_in_its_one_encoding_is_a_key() {
        let spki = DeviceKey::from_seed(&[1; 32]).public().spki();
        assert!(PublicKey::from_spki(&spki).is_some());
        assert!(PublicKey::from_spki(&spki[..43]).is_none());
        assert!(PublicKey::from_spki(&[&spki[..], &[0]].concat()).is_none());
        assert!(PublicKey::from_spki(&[&[0x31], &spki[1..]].concat()).is_none());
    }

    #[test]
    fn the_secret_is_not_shown() {
        let key = DeviceKey::from_seed(&[0x41; 32]);
        assert_eq!(format!("{key:?}"), format!("DeviceKey({})", key.public().id()));
    }
}
