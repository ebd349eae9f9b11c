//! `family.json`: the first object that is read. It never changes.

use super::FormatError;
use crate::seal::Cipher;
pub use crate::store::probe::Mode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The format that this program writes.
pub const FORMAT: u64 = 1;
/// The format of a family whose store does not swap HEADs. A program that does not know claims must not touch it: it would swap HEADs that
/// no other program reads.
const FORMAT_CLAIMS: u64 = 2;
/// The family's name in the store.
pub const NAME: &str = "family.json";

/// The contents of one store prefix: drives that share objects and one data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Version of the format.
    pub format: u64,
    /// Identity.
    pub family: Uuid,
    /// How boxes are sealed.
    pub cipher: Cipher,
    /// How all devices change HEADs, for the family's whole life, and how far that keeps them apart.
    #[serde(default = "swap", skip_serializing_if = "is_swap")]
    pub mode: Mode,
}

/// How a store's description of a family differs from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// It is another family.
    #[error("it holds another drive than before")]
    Family,
    /// Its boxes are sealed in another way.
    #[error("it says that the drive is {}", match now { Cipher::None => "not encrypted", Cipher::XChaCha20Poly1305 => "encrypted" })]
    Cipher {
        /// The way that the store names now.
        now: Cipher,
    },
    /// Its HEADs change in another way.
    #[error("it says that computers take turns by {} instead of {}", turns(*now), turns(*before))]
    Mode {
        /// The way that they changed before.
        before: Mode,
        /// The way that the store names now.
        now: Mode,
    },
}

fn turns(mode: Mode) -> &'static str {
    match mode {
        Mode::Swap => "compare-and-swap",
        Mode::Claim => "claims",
        Mode::None => "word of mouth",
    }
}

fn swap() -> Mode {
    Mode::Swap
}

fn is_swap(mode: &Mode) -> bool {
    *mode == Mode::Swap
}

impl Family {
    /// A new family.
    pub fn new(family: Uuid, cipher: Cipher, mode: Mode) -> Self {
        let format = if is_swap(&mode) { FORMAT } else { FORMAT_CLAIMS };
        Self { format, family, cipher, mode }
    }

    /// How `now`, a later description of the same family, differs from this one, for people. None of these fields ever changes: a store
    /// that says otherwise would make this computer write in another way than before.
    pub fn differs_from(&self, now: &Self) -> Option<Difference> {
        if self.family != now.family {
            Some(Difference::Family)
        } else if self.cipher != now.cipher {
            Some(Difference::Cipher { now: now.cipher })
        } else if self.mode != now.mode {
            Some(Difference::Mode { before: self.mode, now: now.mode })
        } else {
            None
        }
    }

    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a structure of plain fields becomes JSON")
    }

    /// Reads the object.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u64,
        }
        #[derive(Deserialize)]
        struct Recognised {
            #[serde(rename = "family")]
            _family: Uuid,
        }
        const EXPECTED: FormatError = FormatError::Magic { expected: "family.json" };
        // The version first: a later format may have fields that do not parse here.
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(|_| EXPECTED)?;
        if versioned.format > FORMAT_CLAIMS {
            return Err(FormatError::Newer { found: versioned.format, known: FORMAT_CLAIMS });
        }
        let family: Self =
            serde_json::from_slice(bytes).map_err(|_| match serde_json::from_slice::<Recognised>(bytes) {
                Ok(_) => FormatError::Unknown,
                Err(_) => EXPECTED,
            })?;
        // No program wrote a mode together with a format that does not know it.
        if is_swap(&family.mode) != (family.format == FORMAT) {
            return Err(FormatError::Invalid("its format and its mode do not fit"));
        }
        Ok(family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_format_is_recognised_by_its_number() {
        let later = br#"{"format": 3, "family": [1, 2], "cipher": "rot13"}"#;
        assert_eq!(Family::decode(later), Err(FormatError::Newer { found: 3, known: 2 }));
        assert!(matches!(Family::decode(b"<html>"), Err(FormatError::Magic { .. })));
        for mode in [Mode::Swap, Mode::Claim, Mode::None] {
            let family = Family::new(Uuid::from_u128(1), Cipher::None, mode);
            assert_eq!(Family::decode(&family.encode()), Ok(family));
        }
    }

    #[test]
    fn each_field_that_decides_what_is_written_is_compared() {
        let family = |id, cipher, mode| Family::new(Uuid::from_u128(id), cipher, mode);
        let before = family(1, Cipher::XChaCha20Poly1305, Mode::Swap);
        let difference = |now: &Family| before.differs_from(now);
        assert_eq!(difference(&before.clone()), None);
        assert_eq!(difference(&family(2, Cipher::XChaCha20Poly1305, Mode::Swap)), Some(Difference::Family));
        assert!(matches!(
            difference(&family(1, Cipher::None, Mode::Swap)),
            Some(Difference::Cipher { now: Cipher::None })
        ));
        for now in [Mode::Claim, Mode::None] {
            let told = difference(&family(1, Cipher::XChaCha20Poly1305, now));
            assert_eq!(told, Some(Difference::Mode { before: Mode::Swap, now }));
        }
    }

    #[test]
    fn older_programs_refuse_families_without_swapping() {
        let written = |mode| Family::new(Uuid::from_u128(1), Cipher::None, mode).encode();
        let text = |mode| String::from_utf8(written(mode)).expect("JSON is UTF-8");
        assert!(text(Mode::Swap).contains("\"format\": 1") && !text(Mode::Swap).contains("mode"));
        assert!(text(Mode::Claim).contains("\"format\": 2") && text(Mode::None).contains("\"none\""));
    }

    #[test]
    fn unknown_modes_and_fields_are_refused() {
        for (field, value) in [("mode", "handshake"), ("colour", "blue")] {
            let mut family: serde_json::Value =
                serde_json::from_slice(&Family::new(Uuid::from_u128(1), Cipher::None, Mode::Claim).encode())
                    .expect("it is JSON");
            family[field] = value.into();
            assert_eq!(Family::decode(family.to_string().as_bytes()), Err(FormatError::Unknown), "{field}");
        }
        let odd = br#"{"format": 1, "family": "00000000-0000-0000-0000-000000000001", "cipher": "none", "mode": "claim"}"#;
        assert!(matches!(Family::decode(odd), Err(FormatError::Invalid(_))));
    }
}
