//! Valid seals: the keys are known here, so hostile bytes can be put behind a seal that checks. The boxes are those of a
//! family without encryption, as in `core/FORMAT.md` ("Sealed box", "HEAD").

use holdall_core::seal::{Cipher, DataKey, Sealer};

const KEY: [u8; 32] = [7; 32];

/// Opens boxes that are sealed here.
pub fn sealer() -> Sealer {
    Sealer::new(Cipher::None, &DataKey(KEY.into()))
}

/// A box with a valid seal over `body`, which is the codec and the rest, whatever that is.
pub fn sealed(purpose: &str, name: &str, place: &[u8], body: &[u8]) -> Vec<u8> {
    let key = blake3::derive_key(&format!("holdall v1 {purpose}"), &KEY);
    let aad = [name.as_bytes(), &[0], place].concat();
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(&(aad.len() as u64).to_le_bytes()).update(&aad).update(body);
    [body, &hasher.finalize().as_bytes()[..16]].concat()
}
