//! Sealing: compression where it pays, then authenticated encryption (`core/FORMAT.md`, "Sealed box").
//!
//! The associated data is the object's name and the place inside it, so a provider (or a bug) that returns another box is noticed. Nonces
//! are 192 random bits: no counter has to survive a crash.

use crate::format::FormatError;
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Key, Tag, XChaCha20Poly1305, XNonce};

use std::cell::RefCell;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const CODEC_PLAIN: u8 = 0;
const CODEC_ZSTD: u8 = 1;
/// zstd's fastest positive level: 3 costs twice the time for a few per cent on disk images.
const ZSTD_LEVEL: i32 = 1;

/// The 32-byte secret that all keys of a family come from.
#[derive(Clone)]
pub struct DataKey(pub Zeroizing<[u8; 32]>);

/// How the boxes of a family are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Cipher {
    /// XChaCha20-Poly1305.
    #[serde(rename = "xchacha20poly1305")]
    XChaCha20Poly1305,
    /// Readable by anybody who can read the store; a keyed hash guards against accidents.
    #[serde(rename = "none")]
    None,
}

/// The contents of a box. Each purpose has its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Blocks of the drive.
    Frame,
    /// A segment's directory.
    Directory,
    /// A map page.
    Page,
    /// A root.
    Root,
    /// A usage table.
    Usage,
    /// The address that a drive has moved to.
    Moved,
}

/// Seals and opens boxes with the keys of one family.
pub struct Sealer {
    cipher: Cipher,
    keys: [Zeroizing<[u8; 32]>; 6],
    ciphers: [XChaCha20Poly1305; 6],
    head: Zeroizing<[u8; 32]>,
}

thread_local! {
    // A zstd context has megabytes of tables; making one for each 16 KiB frame would cost more than the compression.
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static UNZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Sealer {
    /// Derives the keys of a family from its data key.
    pub fn new(cipher: Cipher, key: &DataKey) -> Self {
        let derive =
            |purpose: &str| Zeroizing::new(blake3::derive_key(&format!("holdall v1 {purpose}"), &*key.0));
        let keys = ["frame", "directory", "page", "root", "usage", "moved"].map(derive);
        let ciphers = std::array::from_fn(|i| XChaCha20Poly1305::new(Key::from_slice(&*keys[i])));
        Self { cipher, keys, ciphers, head: derive("head") }
    }

    /// Seals `plain` into a box for the place `(name, place)`.
    pub fn seal(&self, purpose: Purpose, name: &str, place: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce_bytes = self.nonce_bytes();
        let mut out = Vec::with_capacity(nonce_bytes + 5 + plain.len() + TAG_BYTES);
        out.resize(nonce_bytes, 0);
        compress_into(plain, &mut out);
        let aad = associated(name, place);
        let tag: [u8; TAG_BYTES] = match self.cipher {
            Cipher::XChaCha20Poly1305 => {
                let (nonce, body) = out.split_at_mut(NONCE_BYTES);
                crate::entropy::fill(nonce);
                self.ciphers[purpose as usize]
                    .encrypt_in_place_detached(XNonce::from_slice(nonce), &aad, body)
                    .expect("a box is far below the cipher's limit of 256 GiB")
                    .into()
            }
            Cipher::None => self.hash(purpose, &aad, &out),
        };
        out.extend_from_slice(&tag);
        out
    }

    /// Opens a box; its contents may have at most `cap` bytes.
    pub fn open(
        &self,
        purpose: Purpose,
        name: &str,
        place: &[u8],
        sealed: &[u8],
        cap: usize,
    ) -> Result<Vec<u8>, FormatError> {
        let aad = associated(name, place);
        let (nonce, rest) = sealed.split_at_checked(self.nonce_bytes()).ok_or(FormatError::Truncated)?;
        let (body, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(FormatError::Truncated)?;
        match self.cipher {
            Cipher::XChaCha20Poly1305 => {
                let mut body = body.to_vec();
                self.ciphers[purpose as usize]
                    .decrypt_in_place_detached(
                        XNonce::from_slice(nonce),
                        &aad,
                        &mut body,
                        Tag::from_slice(tag),
                    )
                    .map_err(|_| FormatError::Seal)?;
                decompress(body, cap)
            }
            Cipher::None if self.hash(purpose, &aad, body) == *tag => decompress(body.to_vec(), cap),
            Cipher::None => Err(FormatError::Seal),
        }
    }

    /// The longest box that `plain_len` bytes can become.
    pub fn sealed_len_max(&self, plain_len: usize) -> usize {
        self.nonce_bytes() + 1 + plain_len + TAG_BYTES
    }

    /// The keyed hash that guards a HEAD.
    pub fn head_mac(&self, bytes: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.head, bytes).as_bytes()
    }

    fn nonce_bytes(&self) -> usize {
        match self.cipher {
            Cipher::XChaCha20Poly1305 => NONCE_BYTES,
            Cipher::None => 0,
        }
    }

    fn hash(&self, purpose: Purpose, aad: &[u8], body: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.keys[purpose as usize]);
        hasher.update(&(aad.len() as u64).to_le_bytes()).update(aad).update(body);
        *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
    }
}

fn associated(name: &str, place: &[u8]) -> Vec<u8> {
    [name.as_bytes(), &[0], place].concat()
}

fn compress_into(plain: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let budget = plain.len() - plain.len() / 8;
    if plain.len() >= 64 {
        out.resize(start + 5 + budget, 0);
        let compressed = ZSTD.with_borrow_mut(|slot| {
            let compressor = slot.get_or_insert_with(|| {
                zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("a zstd context is only memory")
            });
            compressor.compress_to_buffer(plain, &mut out[start + 5..])
        });
        // An error means that the result does not fit the budget, so compression does not pay.
        if let Ok(len) = compressed {
            out[start] = CODEC_ZSTD;
            out[start + 1..start + 5].copy_from_slice(&(plain.len() as u32).to_le_bytes());
            out.truncate(start + 5 + len);
            return;
        }
        out.truncate(start);
    }
    out.push(CODEC_PLAIN);
    out.extend_from_slice(plain);
}

fn decompress(mut body: Vec<u8>, cap: usize) -> Result<Vec<u8>, FormatError> {
    match body.first() {
        None => Err(FormatError::Truncated),
        Some(&CODEC_PLAIN) if body.len() - 1 > cap => {
            Err(FormatError::Invalid("a box is larger than it may be"))
        }
        Some(&CODEC_PLAIN) => {
            body.remove(0);
            Ok(body)
        }
        Some(&CODEC_ZSTD) => {
            let (header, data) = body.split_at_checked(5).ok_or(FormatError::Truncated)?;
            let len = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
            if len > cap {
                return Err(FormatError::Invalid("a box is larger than it may be"));
            }
            let plain = UNZSTD.with_borrow_mut(|slot| {
                let decompressor = slot.get_or_insert_with(|| {
                    zstd::bulk::Decompressor::new().expect("a zstd context is only memory")
                });
                decompressor.decompress(data, len)
            });
            let plain = plain.map_err(|_| FormatError::Invalid("its compression is damaged"))?;
            if plain.len() != len {
                return Err(FormatError::Invalid("its compression is damaged"));
            }
            Ok(plain)
        }
        Some(&codec) => Err(FormatError::Newer { found: codec.into(), known: CODEC_ZSTD.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(cipher: Cipher) -> Sealer {
        Sealer::new(cipher, &DataKey(Zeroizing::new([7; 32])))
    }

    #[test]
    fn a_box_opens_in_its_own_place_only() {
        for cipher in [Cipher::XChaCha20Poly1305, Cipher::None] {
            let sealer = sealer(cipher);
            for plain in [
                vec![],
                vec![1; 100],
                (0..20_000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect(),
            ] {
                let sealed = sealer.seal(Purpose::Frame, "seg/aa", b"1", &plain);
                assert!(sealed.len() <= sealer.sealed_len_max(plain.len()));
                let open = |purpose, name, place, bytes: &[u8]| {
                    sealer.open(purpose, name, place, bytes, plain.len())
                };
                assert_eq!(open(Purpose::Frame, "seg/aa", b"1", &sealed), Ok(plain.clone()));
                assert_eq!(open(Purpose::Page, "seg/aa", b"1", &sealed), Err(FormatError::Seal));
                assert_eq!(open(Purpose::Frame, "seg/ab", b"1", &sealed), Err(FormatError::Seal));
                assert_eq!(open(Purpose::Frame, "seg/aa", b"2", &sealed), Err(FormatError::Seal));
                for at in [0, sealed.len() / 2, sealed.len() - 1] {
                    let mut damaged = sealed.clone();
                    damaged[at] ^= 1;
                    assert_eq!(open(Purpose::Frame, "seg/aa", b"1", &damaged), Err(FormatError::Seal));
                }
                assert!(open(Purpose::Frame, "seg/aa", b"1", &sealed[..sealed.len() - 1]).is_err());
            }
        }
    }

    #[test]
    fn a_box_never_unpacks_beyond_its_cap() {
        let sealer = sealer(Cipher::None);
        let sealed = sealer.seal(Purpose::Page, "n", b"", &[0; 1 << 20]);
        assert!(sealed.len() < 1024, "zeros compress");
        assert!(sealer.open(Purpose::Page, "n", b"", &sealed, 4096).is_err());
    }
}
