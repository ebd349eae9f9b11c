//! Wrapped keys, and recovery keys as people write them down.

use holdall_core::keys::{RecoveryKey, Secret, WrappedKey, new_data_key};
use uuid::Uuid;

const FAMILY: Uuid = Uuid::from_u128(1);

/// `keys/<id>`. No passphrase is tried: Argon2id takes long for high costs, which an input may ask for up to a limit.
pub fn key(input: &[u8]) {
    let Ok(key) = WrappedKey::decode(input) else { return };
    let text = key.encode();
    let again = WrappedKey::decode(&text).expect("what was decoded is encoded so that it decodes");
    assert_eq!(again.encode(), text);
    let opened = key.unwrap(&Secret::Recovery(RecoveryKey::generate()), FAMILY, "id");
    assert!(!matches!(opened, Ok(Some(_))), "nothing opens with a key that was made just now");
}

/// One key of each kind.
pub fn key_seeds() -> Vec<Vec<u8>> {
    let recovery = RecoveryKey::generate();
    let by_recovery = WrappedKey::wrap(&new_data_key(), &Secret::Recovery(recovery), FAMILY, "id").encode();
    let by_passphrase =
        br#"{"version": 1, "kind": "passphrase", "memory_kib": 65536, "passes": 3, "lanes": 1,
        "salt": "000102030405060708090a0b0c0d0e0f", "nonce": "00", "wrapped": "ff00"}"#;
    vec![by_recovery, by_passphrase.to_vec()]
}

/// A recovery key as text.
pub fn recovery(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(key) = RecoveryKey::from_text(text) {
        let written = key.to_text();
        let again = RecoveryKey::from_text(&written).expect("what was written down can be read");
        assert_eq!(again.to_text(), written);
    }
}

/// Keys as they are shown and as they may be typed.
pub fn recovery_seeds() -> Vec<Vec<u8>> {
    let text = RecoveryKey::generate().to_text();
    vec![text.to_lowercase().into_bytes(), text.replace('-', " ").into_bytes(), text.into_bytes()]
}
