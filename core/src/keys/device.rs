//! The data key, sealed to a paired device: X25519 with a fresh key for each wrap, BLAKE3, XChaCha20-Poly1305.
//!
//! The device keeps its access after a drive has moved on, and loses it when the wrap is deleted and the data key is replaced.

use crate::format::FormatError;
use curve25519_dalek::montgomery::MontgomeryPoint;
use zeroize::Zeroizing;

/// A device's secret, which never leaves it.
#[derive(Clone)]
pub struct DeviceSecret(Zeroizing<[u8; 32]>);

/// The public half, which other devices get when they are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePublic(pub [u8; 32]);

impl DeviceSecret {
    /// A fresh one.
    pub fn generate() -> Self {
        Self(super::new_data_key().0)
    }

    /// The one that follows from another secret of the device.
    pub fn derive(secret: &[u8; 32]) -> Self {
        Self(Zeroizing::new(blake3::derive_key("holdall v1 device exchange", secret)))
    }

    /// The one with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its public half.
    pub fn public(&self) -> DevicePublic {
        DevicePublic(MontgomeryPoint::mul_base_clamped(*self.0).to_bytes())
    }

    /// The key that both sides find. `None` for a public half that makes every secret the same.
    fn shared(&self, other: &DevicePublic) -> Option<Zeroizing<[u8; 32]>> {
        let shared = Zeroizing::new(MontgomeryPoint(other.0).mul_clamped(*self.0).to_bytes());
        (*shared != [0; 32]).then_some(shared)
    }
}

/// The key that seals for `to`, and the public half that it needs to find the key.
pub(super) fn seal_for(to: &DevicePublic) -> Result<(Zeroizing<[u8; 32]>, DevicePublic), FormatError> {
    let once = DeviceSecret::generate();
    let shared = once.shared(to).ok_or(FormatError::Invalid("a device has a key that protects nothing"))?;
    Ok((key(&shared, &once.public(), to), once.public()))
}

/// The key that was found for this device with the public half `once`.
pub(super) fn open_with(own: &DeviceSecret, once: &DevicePublic) -> Result<Zeroizing<[u8; 32]>, FormatError> {
    let shared = own.shared(once).ok_or(FormatError::Invalid("a wrapped key protects nothing"))?;
    Ok(key(&shared, once, &own.public()))
}

fn key(shared: &[u8; 32], once: &DevicePublic, to: &DevicePublic) -> Zeroizing<[u8; 32]> {
    let mut hasher = blake3::Hasher::new_derive_key("holdall v1 device");
    hasher.update(shared).update(&once.0).update(&to.0);
    Zeroizing::new(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{RecoveryKey, Secret, WrappedKey, new_data_key};
    use uuid::Uuid;

    #[test]
    fn agrees_with_the_standard() {
        // RFC 7748, section 6.1.
        let bytes = |text: &str| -> [u8; 32] {
            data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
        };
        let bob = DeviceSecret::from_bytes(bytes(
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        ));
        let alice = DevicePublic(bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        let shared = bytes("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!(bob.shared(&alice).as_deref(), Some(&shared));
    }

    #[test]
    fn only_the_device_opens_its_wrap() {
        let (key, family) = (new_data_key(), Uuid::from_u128(1));
        let (own, other) = (DeviceSecret::generate(), DeviceSecret::generate());
        let wrapped = WrappedKey::wrap_for_device(&key, &own.public(), family, "a").unwrap();
        let stored = WrappedKey::decode(&wrapped.encode()).unwrap();
        let opens = |secret: Secret, family, id| {
            stored.unwrap(&secret, family, id).unwrap().is_some_and(|found| found.0 == key.0)
        };
        assert!(opens(Secret::Device(own.clone()), family, "a"));
        assert!(!opens(Secret::Device(other), family, "a"));
        assert!(!opens(Secret::Device(own.clone()), family, "b"));
        assert!(!opens(Secret::Device(own.clone()), Uuid::from_u128(2), "a"));
        assert!(!opens(Secret::Recovery(RecoveryKey::generate()), family, "a"));
        assert_eq!(stored.device(), Some(own.public()));
        let again = WrappedKey::wrap_for_device(&key, &own.public(), family, "a").unwrap();
        assert_ne!(again.encode(), wrapped.encode(), "every wrap has a key of its own");
    }

    #[test]
    fn refuses_keys_that_protect_nothing() {
        let key = new_data_key();
        for low in [[0; 32], {
            let mut one = [0; 32];
            one[0] = 1;
            one
        }] {
            assert!(WrappedKey::wrap_for_device(&key, &DevicePublic(low), Uuid::nil(), "a").is_err());
        }
    }
}
