//! The password for browsers of other computers, kept as a hash by Argon2id (RFC 9106).

use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// Shorter passwords can be guessed over a network.
pub const LEAST_CHARACTERS: usize = 12;
/// Longer passwords do not fit a form, where a byte may take three.
pub const MOST_BYTES: usize = 1024;

/// RFC 9106's recommendation for scarce memory: 64 MiB, three passes. Its four lanes are computed one after another.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 4;
const SALT_BYTES: usize = 16;

/// A password's hash. The costs are not stored with it: a changed file could otherwise make the daemon use any amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashed {
    /// In hex.
    salt: String,
    /// In hex.
    hash: String,
}

impl Hashed {
    /// The hash of a new password. Takes a tenth of a second and 64 MiB.
    pub fn of(password: &str) -> Self {
        let mut salt = [0; SALT_BYTES];
        holdall_core::entropy::fill(&mut salt);
        Self { salt: HEXLOWER.encode(&salt), hash: HEXLOWER.encode(&derived(password, &salt)) }
    }

    /// Whether it is the hash of this password. Takes equally long for either answer.
    pub fn is_of(&self, password: &str) -> bool {
        let salt = HEXLOWER.decode(self.salt.as_bytes()).ok().filter(|salt| salt.len() == SALT_BYTES);
        let expected = HEXLOWER.decode(self.hash.as_bytes()).unwrap_or_default();
        let found = derived(password, salt.as_deref().unwrap_or(&[0; SALT_BYTES]));
        // BLAKE3's hashes are compared in constant time.
        salt.is_some() && blake3::hash(&found) == blake3::hash(&expected)
    }
}

fn derived(password: &str, salt: &[u8]) -> [u8; 32] {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(32)).expect("the costs are allowed");
    let mut hash = [0; 32];
    let derived = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(
        password.as_bytes(),
        salt,
        &mut hash,
    );
    derived.expect("a salt of 16 bytes and a hash of 32 are allowed");
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_the_password() {
        let hashed = Hashed::of("correct horse battery");
        assert!(hashed.is_of("correct horse battery"));
        assert!(!hashed.is_of("correct horse batter") && !hashed.is_of(""));
        assert_ne!(hashed, Hashed::of("correct horse battery"), "each has its own salt");
        let damaged = Hashed { salt: String::new(), ..hashed };
        assert!(!damaged.is_of("correct horse battery"));
    }
}
