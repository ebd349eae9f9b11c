//! Cookies: where an entry comes in its directory, and the keys of rows.
//!
//! A cookie is the keyed hash of the name, in 63 bits. So a directory has a stable order without a counter, and an entry whose row was lost
//! and comes back has the same place in it. A name whose value is taken by another name gets the next free one, at most [`WINDOW`] further.

use super::row::CHECK_BYTES;
use crate::folder::node::Ino;
use crate::store::remote::Name;
use std::ops::Range;
use uuid::Uuid;

/// The place of an entry in its directory: readdir continues behind it. At least 3 and below 2^63; 0 is the beginning, 1 and 2 are free for
/// `.` and `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before the first entry.
    pub const START: Cookie = Cookie(2);

    /// The first that an entry can have.
    const FIRST: u64 = 3;

    /// Behind the last entry.
    pub(super) const END: u64 = 1 << 63;
}

/// Values behind a name's own that are tried. Two names of a million have the same value once in 40 million folders; 64 of them never have.
pub(super) const WINDOW: u64 = 64;

/// The folder's key.
pub(super) struct Hasher {
    key: [u8; 32],
    /// How many values there are. Tests take few, so that names collide.
    values: u64,
}

impl Hasher {
    /// Of the folder with that uuid.
    pub fn new(folder: Uuid) -> Self {
        let key = blake3::derive_key("holdall v1 folder entries", folder.as_bytes());
        Self { key, values: Cookie::END - WINDOW - Cookie::FIRST }
    }

    #[cfg(test)]
    pub fn with_values(folder: Uuid, values: u64) -> Self {
        Self { values, ..Self::new(folder) }
    }

    /// The value that a name has if no other name has it.
    pub fn home(&self, name: &Name) -> Cookie {
        let hash = blake3::keyed_hash(&self.key, name.as_str().as_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        Cookie(Cookie::FIRST + u64::from_be_bytes(*first) % self.values)
    }

    /// All values that a name can have.
    pub fn window(&self, name: &Name) -> Range<u64> {
        let Cookie(home) = self.home(name);
        home..home + WINDOW
    }

    /// Tells texts apart without keeping them.
    pub fn id(&self, text: &str) -> [u8; 16] {
        let hash = blake3::keyed_hash(&self.key, text.as_bytes());
        // The first bytes are what cookies are made of.
        let (last, _) = hash.as_bytes()[16..].split_first_chunk().expect("a hash has 32 bytes");
        *last
    }

    /// The checksum of a row or a directory under its key.
    pub fn check(&self, key: &[u8], value: &[u8]) -> [u8; CHECK_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The length keeps keys of different lengths apart.
        hasher.update(&[key.len() as u8]).update(key).update(value);
        let hash = hasher.finalize();
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        *first
    }
}

/// The key of a directory: no directory has the number 0, so these come before all rows.
pub(super) fn directory_key(dir: Ino) -> [u8; 8] {
    assert!(dir >= Ino::ROOT, "a directory has a number");
    u64::from(dir.0).to_be_bytes()
}

/// The directory of its key; `None` if it is not one.
pub(super) fn parse_directory_key(key: &[u8]) -> Option<Ino> {
    let key = u64::from_be_bytes(key.try_into().ok()?);
    u32::try_from(key).ok().map(Ino)
}

/// The key of a row.
pub(super) fn row_key(dir: Ino, cookie: Cookie) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&dir.0.to_be_bytes());
    key[4..].copy_from_slice(&cookie.0.to_be_bytes());
    key
}

/// The keys of the values that a name can have.
pub(super) fn window_keys(dir: Ino, home: Cookie) -> Range<[u8; 12]> {
    row_key(dir, home)..row_key(dir, Cookie(home.0 + WINDOW))
}

/// The directory and the cookie of a row's key; `None` if it is not one.
pub(super) fn parse_row_key(key: &[u8]) -> Option<(Ino, Cookie)> {
    let key: &[u8; 12] = key.try_into().ok()?;
    let (dir, cookie) = key.split_first_chunk::<4>()?;
    let cookie = u64::from_be_bytes(cookie.try_into().ok()?);
    (Cookie::FIRST..Cookie::END).contains(&cookie).then_some((Ino(u32::from_be_bytes(*dir)), Cookie(cookie)))
}
