//! Where an upload in parts was cut off, as bytes that the caller keeps. Pure.
//!
//! A part is used again only if what was sent for it is what would be sent now: its mark is a hash of the part's content and of the server's
//! name for the part. So neither a file that has changed since nor parts of somebody else get into an upload.

use md5::{Digest, Md5};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"HS3U";
const VERSION: u8 = 1;
/// Longer than any server's name for an upload.
const ID_BYTES_MAX: usize = 4 << 10;

/// What is known of a part: the beginning of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Of a part with this digest of what was sent, which the server calls `tag`.
    pub(super) fn of(digest: &[u8], tag: &str) -> Self {
        let hash = Md5::new().chain_update(digest).chain_update(tag).finalize();
        Self(u64::from_le_bytes(hash[..8].try_into().expect("a digest has 16 bytes")))
    }
}

/// An upload under way.
///
/// ```text
/// "HS3U" | u8 version | u64 length | u64 part length | u16 n, upload id | { u16 number | u64 mark }*      little-endian
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    /// The server's name for it.
    pub id: String,
    /// The file's length, in bytes.
    pub len: u64,
    /// The length of each part but the last, in bytes.
    pub part: u64,
    /// The parts that the server has, by number.
    pub done: BTreeMap<u16, Mark>,
}

impl Upload {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32 + self.id.len() + 10 * self.done.len());
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        bytes.extend((self.id.len() as u16).to_le_bytes());
        bytes.extend(self.id.as_bytes());
        for (number, Mark(mark)) in &self.done {
            bytes.extend(number.to_le_bytes());
            bytes.extend(mark.to_le_bytes());
        }
        bytes
    }

    /// `None` for what another version of this program wrote, or nobody.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first()?;
        if magic != MAGIC || *version != VERSION {
            return None;
        }
        let (len, rest) = rest.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_first_chunk::<8>()?;
        let (id_len, rest) = rest.split_first_chunk::<2>()?;
        let (id, rest) = rest.split_at_checked(u16::from_le_bytes(*id_len) as usize)?;
        let id = std::str::from_utf8(id).ok().filter(|id| is_id(id))?.to_owned();
        let (parts, []) = rest.as_chunks::<10>() else { return None };
        let done = parts.iter().map(|part| {
            let (number, mark) = part.split_at(2);
            let number = u16::from_le_bytes(number.try_into().expect("it has two bytes"));
            (number, Mark(u64::from_le_bytes(mark.try_into().expect("it has eight bytes"))))
        });
        let (len, part) = (u64::from_le_bytes(*len), u64::from_le_bytes(*part));
        Some(Self { id, len, part, done: done.collect() })
    }
}

/// Whether a server's name for an upload can be kept.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        let done = [(1, Mark::of(b"a", "x")), (10_000, Mark(u64::MAX))].into();
        let upload = Upload { id: "upload/1==".into(), len: 1 << 40, part: 16 << 20, done };
        assert_eq!(Upload::decode(&upload.encode()), Some(upload.clone()));
        let empty = Upload { done: BTreeMap::new(), ..upload.clone() };
        assert_eq!(Upload::decode(&empty.encode()), Some(empty));
        let bytes = upload.encode();
        let later = [b"HS3U\x02", &bytes[5..]].concat();
        for bad in [&b""[..], b"1234 3", &bytes[..20], &bytes[..bytes.len() - 1], &bytes[1..], &later] {
            assert_eq!(Upload::decode(bad), None);
        }
    }

    #[test]
    fn the_format_stays() {
        let upload =
            Upload { id: "u".into(), len: 2, part: 1, done: [(1, Mark(0x0807_0605_0403_0201))].into() };
        let bytes =
            b"HS3U\x01\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0u\x01\0\x01\x02\x03\x04\x05\x06\x07\x08";
        assert_eq!(upload.encode(), bytes);
    }

    #[test]
    fn another_content_or_part_has_another_mark() {
        assert_ne!(Mark::of(b"a", "x"), Mark::of(b"b", "x"));
        assert_ne!(Mark::of(b"a", "x"), Mark::of(b"a", "y"));
    }
}
