//! `family.json`: the first object that is read, and never changed.

use super::FormatError;
use crate::seal::Cipher;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The format that this program writes, and the latest that it reads.
pub const FORMAT: u64 = 1;
/// The family's name in the store.
pub const NAME: &str = "family.json";

/// What one store prefix holds: drives that share objects and one data key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Version of the format.
    pub format: u64,
    /// Identity.
    pub family: Uuid,
    /// How boxes are closed.
    pub cipher: Cipher,
}

impl Family {
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
        const EXPECTED: FormatError = FormatError::Magic { expected: "family.json" };
        // The version first: a later format may have fields that do not parse here.
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(|_| EXPECTED)?;
        if versioned.format > FORMAT {
            return Err(FormatError::Newer { found: versioned.format, known: FORMAT });
        }
        serde_json::from_slice(bytes).map_err(|_| EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_format_is_recognised_whatever_else_it_holds() {
        let later = br#"{"format": 2, "family": [1, 2], "cipher": "rot13"}"#;
        assert_eq!(Family::decode(later), Err(FormatError::Newer { found: 2, known: 1 }));
        assert!(matches!(Family::decode(b"<html>"), Err(FormatError::Magic { .. })));
        let family = Family { format: FORMAT, family: Uuid::from_u128(1), cipher: Cipher::None };
        assert_eq!(Family::decode(&family.encode()), Ok(family));
    }
}
