//! The data key, wrapped by a passphrase or a recovery key, or for a device (`core/FORMAT.md`, `keys/<id>`).

use crate::format::FormatError;
use crate::seal::DataKey;
use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use data_encoding::{Encoding, Specification};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use device::{DevicePublic, DeviceSecret};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use uuid::Uuid;
use zeroize::Zeroizing;

pub mod device;

/// Argon2id's memory and passes: RFC 9106's recommendation for little memory (64 MiB, three passes).
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
/// The costs that a stored key may ask for. Higher ones would only exhaust the machine, and no version ever wrapped a key with lower ones:
/// a store that says so has invented them. New keys always use [`MEMORY_KIB`] and [`PASSES`], whatever a store says.
const MEMORY_KIB_ALLOWED: RangeInclusive<u32> = 19 << 10..=256 << 10;
const PASSES_ALLOWED: RangeInclusive<u32> = 2..=8;
const LANES_MAX: u32 = 4;
const VERSION: u64 = 1;
const CHECKSUM_BYTES: usize = 3;

/// A wrapped data key, as it is stored under `keys/<id>`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrappedKey {
    version: u64,
    #[serde(flatten)]
    wrapping: Wrapping,
    #[serde(with = "hex", default)]
    nonce: Vec<u8>,
    #[serde(with = "hex", default)]
    wrapped: Vec<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Wrapping {
    Passphrase {
        memory_kib: u32,
        passes: u32,
        lanes: u32,
        #[serde(with = "hex")]
        salt: Vec<u8>,
    },
    Recovery,
    Device {
        /// The public half of the device.
        #[serde(with = "hex")]
        device: Vec<u8>,
        /// The public half of the key that this wrap was made with.
        #[serde(with = "hex")]
        once: Vec<u8>,
    },
    /// Of a later program. It opens nothing here, and is left alone.
    #[serde(other)]
    Unknown,
}

/// A secret that opens a wrapped key.
pub enum Secret {
    /// A person remembers it.
    Passphrase(Zeroizing<String>),
    /// A person wrote it down.
    Recovery(RecoveryKey),
    /// A device keeps it.
    Device(DeviceSecret),
}

/// 32 random bytes that open the family if the passphrase is lost.
#[derive(Clone)]
pub struct RecoveryKey(Zeroizing<[u8; 32]>);

impl Secret {
    /// The form that wraps new keys. A typed passphrase is the same passphrase, however a keyboard, a system or an editor spells its
    /// letters: here it is composed (NFC), as almost all of them do.
    pub fn normal(self) -> Self {
        match self {
            Secret::Passphrase(typed) => Secret::Passphrase(composed(&typed)),
            other @ (Secret::Recovery(_) | Secret::Device(_)) => other,
        }
    }

    /// The forms that may have wrapped a key, likeliest first: as typed, composed, decomposed (NFD), and after the mark at the beginning of
    /// a file, which was once taken for a part of the passphrase. So keys that were wrapped before there was a normal form still open.
    ///
    /// This does not make guessing easier: each spelling costs its own try.
    pub fn spellings(self) -> Vec<Self> {
        let Secret::Passphrase(typed) = self else { return vec![self] };
        let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(&typed).into_owned();
        let marked = format!("\u{feff}{}", typed.as_str());
        let all = [composed(&typed), Zeroizing::new(decomposed), Zeroizing::new(marked)];
        let mut spellings = vec![typed];
        for spelling in all {
            if !spellings.contains(&spelling) {
                spellings.push(spelling);
            }
        }
        spellings.into_iter().map(Secret::Passphrase).collect()
    }
}

fn composed(typed: &str) -> Zeroizing<String> {
    Zeroizing::new(ComposingNormalizerBorrowed::new_nfc().normalize(typed).into_owned())
}

/// A fresh data key.
pub fn new_data_key() -> DataKey {
    let mut key = Zeroizing::new([0; 32]);
    crate::entropy::fill(&mut *key);
    DataKey(key)
}

/// The data key of a family without encryption: not secret, but different for each family.
pub fn public_data_key(family: Uuid) -> DataKey {
    DataKey(Zeroizing::new(blake3::derive_key("holdall v1 no encryption", family.as_bytes())))
}

impl WrappedKey {
    /// Wraps the data key of `family`, to be stored under `keys/<id>`.
    pub fn wrap(key: &DataKey, secret: &Secret, family: Uuid, id: &str) -> Self {
        let wrapping = match secret {
            Secret::Recovery(_) => Wrapping::Recovery,
            Secret::Passphrase(_) => {
                let salt = random(16);
                Wrapping::Passphrase { memory_kib: MEMORY_KIB, passes: PASSES, lanes: 1, salt }
            }
            Secret::Device(own) => {
                let wrapped = Self::wrap_for_device(key, &own.public(), family, id);
                return wrapped.expect("a secret's own public half is a good one");
            }
        };
        let wrapping_key = wrapping.key(secret).ok().flatten();
        let wrapping_key = wrapping_key.expect("the kind is the secret's own, and the costs are ours");
        Self::seal(key, wrapping, &wrapping_key, family, id)
    }

    /// Wraps the data key of `family` for a device.
    ///
    /// # Errors
    ///
    /// The device's public half protects nothing: it is one of the few that make all keys the same.
    pub fn wrap_for_device(
        key: &DataKey,
        device: &DevicePublic,
        family: Uuid,
        id: &str,
    ) -> Result<Self, FormatError> {
        let (wrapping_key, once) = device::seal_for(device)?;
        let wrapping = Wrapping::Device { device: device.0.to_vec(), once: once.0.to_vec() };
        Ok(Self::seal(key, wrapping, &wrapping_key, family, id))
    }

    fn seal(key: &DataKey, wrapping: Wrapping, wrapping_key: &[u8; 32], family: Uuid, id: &str) -> Self {
        let nonce = random(24);
        let aad = associated(family, id);
        let wrapped = XChaCha20Poly1305::new(Key::from_slice(wrapping_key))
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: &*key.0, aad: &aad })
            .expect("32 bytes are far below the cipher's limit");
        Self { version: VERSION, wrapping, nonce, wrapped }
    }

    /// The data key, or `None` if another secret wrapped it.
    pub fn unwrap(&self, secret: &Secret, family: Uuid, id: &str) -> Result<Option<DataKey>, FormatError> {
        let Some(wrapping_key) = self.wrapping.key(secret)? else {
            return Ok(None);
        };
        if self.nonce.len() != 24 {
            return Err(FormatError::Invalid("a wrapped key has a nonce of the wrong length"));
        }
        let aad = associated(family, id);
        let opened = XChaCha20Poly1305::new(Key::from_slice(&*wrapping_key))
            .decrypt(XNonce::from_slice(&self.nonce), Payload { msg: &self.wrapped, aad: &aad });
        let Ok(key) = opened.map(Zeroizing::new) else {
            return Ok(None);
        };
        let key = <[u8; 32]>::try_from(&key[..]);
        Ok(Some(DataKey(Zeroizing::new(key.map_err(|_| FormatError::Invalid("a data key has 32 bytes"))?))))
    }

    /// Whether this secret may open it: both are of one kind. A device opens its own wraps only.
    pub fn is_for(&self, secret: &Secret) -> bool {
        match (&self.wrapping, secret) {
            (Wrapping::Passphrase { .. }, Secret::Passphrase(_)) => true,
            (Wrapping::Recovery, Secret::Recovery(_)) => true,
            (Wrapping::Device { device, .. }, Secret::Device(own)) => device[..] == own.public().0,
            _ => false,
        }
    }

    /// Whether a recovery key wraps it.
    pub fn is_recovery(&self) -> bool {
        matches!(self.wrapping, Wrapping::Recovery)
    }

    /// The device that it is for, if it is for one.
    pub fn device(&self) -> Option<DevicePublic> {
        match &self.wrapping {
            Wrapping::Device { device, .. } => device[..].try_into().ok().map(DevicePublic),
            Wrapping::Passphrase { .. } | Wrapping::Recovery | Wrapping::Unknown => None,
        }
    }

    /// Whether a passphrase wraps it.
    pub fn is_passphrase(&self) -> bool {
        matches!(self.wrapping, Wrapping::Passphrase { .. })
    }

    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a structure of plain fields becomes JSON")
    }

    /// Reads the object.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let key: Self =
            serde_json::from_slice(bytes).map_err(|_| FormatError::Magic { expected: "a wrapped key" })?;
        if key.version > VERSION {
            return Err(FormatError::Newer { found: key.version, known: VERSION });
        }
        Ok(key)
    }
}

impl Wrapping {
    /// `None` if the secret is of another kind. Checks the costs before it computes anything.
    fn key(&self, secret: &Secret) -> Result<Option<Zeroizing<[u8; 32]>>, FormatError> {
        const ODD: FormatError = FormatError::Invalid("it asks for more or less work than Holdall ever uses");
        match (self, secret) {
            (Wrapping::Recovery, Secret::Recovery(key)) => {
                Ok(Some(Zeroizing::new(blake3::derive_key("holdall v1 recovery", &*key.0))))
            }
            (Wrapping::Passphrase { memory_kib, passes, lanes, salt }, Secret::Passphrase(passphrase)) => {
                let is_allowed = MEMORY_KIB_ALLOWED.contains(memory_kib)
                    && PASSES_ALLOWED.contains(passes)
                    && (1..=LANES_MAX).contains(lanes);
                if !is_allowed {
                    return Err(ODD);
                }
                let params = Params::new(*memory_kib, *passes, *lanes, Some(32)).map_err(|_| ODD)?;
                let mut key = Zeroizing::new([0; 32]);
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(passphrase.as_bytes(), salt, &mut *key)
                    .map_err(|_| ODD)?;
                Ok(Some(key))
            }
            (Wrapping::Device { device, once }, Secret::Device(own)) => {
                const ODD: FormatError = FormatError::Invalid("a device's key has another length");
                let (Ok(device), Ok(once)) = (<[u8; 32]>::try_from(&device[..]), once[..].try_into()) else {
                    return Err(ODD);
                };
                match device == own.public().0 {
                    true => device::open_with(own, &DevicePublic(once)).map(Some),
                    false => Ok(None),
                }
            }
            (
                Wrapping::Recovery
                | Wrapping::Passphrase { .. }
                | Wrapping::Device { .. }
                | Wrapping::Unknown,
                Secret::Passphrase(_) | Secret::Recovery(_) | Secret::Device(_),
            ) => Ok(None),
        }
    }
}

fn associated(family: Uuid, id: &str) -> Vec<u8> {
    [b"holdall key".as_slice(), family.as_bytes(), id.as_bytes()].concat()
}

fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    crate::entropy::fill(&mut bytes);
    bytes
}

impl RecoveryKey {
    /// A fresh one.
    pub fn generate() -> Self {
        Self(new_data_key().0)
    }

    /// The form to write down: groups of four. The last characters detect slips of the pen.
    pub fn to_text(&self) -> String {
        let checked = [&self.0[..], &self.checksum()].concat();
        let text = CROCKFORD.encode(&checked);
        let groups: Vec<_> =
            text.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
        groups.join("-")
    }

    /// Reads a key that was written down: case, dashes and spaces do not matter, O is 0, I and L are 1.
    pub fn from_text(text: &str) -> Option<Self> {
        let bytes = CROCKFORD.decode(text.trim().as_bytes()).ok()?;
        let (key, checksum) = bytes.split_first_chunk::<32>()?;
        let key = Self(Zeroizing::new(*key));
        (key.checksum() == *checksum).then_some(key)
    }

    fn checksum(&self) -> [u8; CHECKSUM_BYTES] {
        let hash = blake3::derive_key("holdall v1 recovery checksum", &*self.0);
        [hash[0], hash[1], hash[2]]
    }
}

static CROCKFORD: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str("0123456789ABCDEFGHJKMNPQRSTVWXYZ");
    spec.ignore.push_str("- \n\r\t");
    spec.translate.from.push_str("abcdefghjkmnpqrstvwxyzoOiIlL");
    spec.translate.to.push_str("ABCDEFGHJKMNPQRSTVWXYZ001111");
    spec.encoding().expect("the alphabet is a constant")
});

mod hex {
    use data_encoding::HEXLOWER_PERMISSIVE;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER_PERMISSIVE.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_secret_in_the_right_place_unwraps() {
        let (key, family) = (new_data_key(), Uuid::from_u128(1));
        let pass = |text: &str| Secret::Passphrase(Zeroizing::new(text.to_owned()));
        let recovery = RecoveryKey::generate();
        let wrapped = WrappedKey::wrap(&key, &pass("correct horse"), family, "a");
        let stored = WrappedKey::decode(&wrapped.encode()).unwrap();
        let opens = |wrapped: &WrappedKey, secret, family, id| {
            wrapped.unwrap(&secret, family, id).unwrap().is_some_and(|k| k.0 == key.0)
        };
        assert!(opens(&stored, pass("correct horse"), family, "a"));
        assert!(!opens(&stored, pass("battery staple"), family, "a"));
        assert!(!opens(&stored, pass("correct horse"), Uuid::from_u128(2), "a"));
        assert!(!opens(&stored, Secret::Recovery(recovery.clone()), family, "a"));
        let wrapped = WrappedKey::wrap(&key, &Secret::Recovery(recovery.clone()), family, "b");
        assert!(opens(&wrapped, Secret::Recovery(recovery), family, "b"));
    }

    #[test]
    fn a_passphrase_opens_in_every_spelling_of_its_letters() {
        const COMPOSED: &str = "Stra\u{df}e nach Ko\u{308}ln \u{e9}t\u{e9}";
        let typed = |text: &str| Secret::Passphrase(Zeroizing::new(text.to_owned()));
        let texts = |secret: Secret| -> Vec<String> {
            let text = |secret| match secret {
                Secret::Passphrase(text) => text.to_string(),
                Secret::Recovery(_) | Secret::Device(_) => panic!(),
            };
            secret.spellings().into_iter().map(text).collect()
        };
        let Secret::Passphrase(normal) = typed(COMPOSED).normal() else { panic!() };
        assert!(normal.contains("K\u{f6}ln"));
        for spelled in texts(typed(COMPOSED)) {
            let again = texts(typed(&spelled));
            assert!(again.contains(&normal) || spelled.starts_with('\u{feff}'), "{spelled}");
        }
        // Spellings from before the normal form are found, and plain letters have one spelling.
        assert!(texts(typed(COMPOSED)).contains(&COMPOSED.to_owned()));
        assert_eq!(texts(typed("plain")), ["plain", "\u{feff}plain"]);
    }

    #[test]
    fn a_store_cannot_choose_the_work_for_a_key() {
        let secret = Secret::Passphrase(Zeroizing::new("correct horse".to_owned()));
        let (key, family) = (new_data_key(), Uuid::from_u128(1));
        let wrapped: serde_json::Value =
            serde_json::from_slice(&WrappedKey::wrap(&key, &secret, family, "a").encode()).unwrap();
        let with = |change: (&str, u32)| {
            let mut said = wrapped.clone();
            said[change.0] = change.1.into();
            WrappedKey::decode(said.to_string().as_bytes()).unwrap().unwrap(&secret, family, "a")
        };
        assert!(with(("passes", PASSES)).unwrap().is_some());
        // The amount of work is authenticated: another amount opens nothing.
        assert!(with(("passes", PASSES + 1)).unwrap().is_none());
        for odd in [
            ("memory_kib", 8),
            ("memory_kib", u32::MAX),
            ("passes", 1),
            ("passes", 9),
            ("lanes", 0),
            ("lanes", 5),
        ] {
            assert!(matches!(with(odd), Err(FormatError::Invalid(_))), "{odd:?}");
        }
    }

    #[test]
    fn a_recovery_key_reads_back_from_any_handwritten_form() {
        let key = RecoveryKey::generate();
        let text = key.to_text();
        assert_eq!(text.len(), 14 * 5 - 1, "fourteen groups of four");
        for written in [text.to_lowercase(), text.replace('-', " "), text.replace('0', "o").replace('1', "L")]
        {
            assert_eq!(RecoveryKey::from_text(&written).map(|k| k.0), Some(key.0.clone()), "{written}");
        }
        let slip = if text.starts_with('7') { "8" } else { "7" };
        assert!(RecoveryKey::from_text(&format!("{slip}{}", &text[1..])).is_none());
        assert!(RecoveryKey::from_text("").is_none());
    }

    #[test]
    fn kinds_of_later_programs_are_skipped() {
        let text = br#"{"version": 1, "kind": "quantum", "shares": [1, 2], "extra": {"a": 1}}"#;
        let key = WrappedKey::decode(text).unwrap();
        for secret in [
            Secret::Passphrase(Zeroizing::new("correct horse".to_owned())),
            Secret::Recovery(RecoveryKey::generate()),
            Secret::Device(DeviceSecret::generate()),
        ] {
            assert!(key.unwrap(&secret, Uuid::nil(), "a").unwrap().is_none());
            assert!(!key.is_for(&secret));
        }
        assert!(!key.is_passphrase() && !key.is_recovery() && key.device().is_none());
    }
}
