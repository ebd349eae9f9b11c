//! `family.json`: the first object that is read, and never changed.

use super::FormatError;
use crate::seal::Cipher;
pub use crate::store::probe::Mode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The format that this program writes.
pub const FORMAT: u64 = 1;
/// The format of a family whose HEADs are not swapped by the store. A program that knows nothing of claims must not touch
/// it: it would swap HEADs that nobody else looks at.
const FORMAT_CLAIMS: u64 = 2;
/// The family's name in the store.
pub const NAME: &str = "family.json";

/// What one store prefix holds: drives that share objects and one data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Version of the format.
    pub format: u64,
    /// Identity.
    pub family: Uuid,
    /// How boxes are closed.
    pub cipher: Cipher,
    /// How HEADs are changed, by all devices alike and for ever, and what that is worth.
    #[serde(default = "swap", skip_serializing_if = "is_swap")]
    pub mode: Mode,
}

/// What a store says of a family that is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// It is another one.
    #[error("it holds another drive than before")]
    Family,
    /// Its boxes are closed in another way.
    #[error("it says that the drive is {}", match now { Cipher::None => "not encrypted", Cipher::XChaCha20Poly1305 => "encrypted" })]
    Cipher {
        /// How the store says they are.
        now: Cipher,
    },
    /// Its HEADs change in another way.
    #[error("it says that computers take turns by {} instead of {}", turns(*now), turns(*before))]
    Mode {
        /// How they did.
        before: Mode,
        /// How the store says they do.
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
    /// One that is about to be made.
    pub fn new(family: Uuid, cipher: Cipher, mode: Mode) -> Self {
        let format = if is_swap(&mode) { FORMAT } else { FORMAT_CLAIMS };
        Self { format, family, cipher, mode }
    }

    /// In what `now`, said later of the same family, differs from this, for people. None of it ever changes, and a store that says
    /// otherwise would have this computer write something else than before.
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
        // A mode that came with a format that does not know of it was written by nobody.
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
    fn a_later_format_is_recognised_whatever_else_it_holds() {
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
    fn a_program_that_knows_only_swapping_refuses_what_is_not_swapped() {
        let written = |mode| Family::new(Uuid::from_u128(1), Cipher::None, mode).encode();
        let text = |mode| String::from_utf8(written(mode)).expect("JSON is UTF-8");
        assert!(text(Mode::Swap).contains("\"format\": 1") && !text(Mode::Swap).contains("mode"));
        assert!(text(Mode::Claim).contains("\"format\": 2") && text(Mode::None).contains("\"none\""));
    }

    #[test]
    fn a_mode_or_a_field_that_is_not_known_is_refused() {
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
