//! The values of rows and of directories. Integers as in `format::wire`.
//!
//! ```text
//! row          u8 version (1) · u8 flags · varint generation · str name · str tag · varint length
//!              [time written] [meta] · 8 bytes check
//!   flags      bits 0-1: 0 file, 1 directory, 2 link; bit 2: can be written; bit 3: has `written`; bit 4: has meta
//!   meta       u8 flags (1 mode, 2 mtime, 4 link) · [varint mode] [time mtime] [str link]
//!              · varint count, per xattr: str name · varint length · bytes
//!   time       nanoseconds since 1970, zigzag in 128 bits: varint low half · varint high half
//!
//! directory    u8 version (1) · u8 flags (1 listed, 2 has a tag) · varint generation · [varint generation of the listing · varint ms]
//!              [str tag] · varint rows · varint files · varint displaced · u64 sum · u64 session · 8 bytes check
//! ```
//!
//! The check is the beginning of the keyed BLAKE3 of the key and of what is before it. A value that does not check, or that this program
//! does not know, is no value.

use super::cookie::{Hasher, directory_key, parse_row_key};
use super::{Generation, Row};
use crate::folder::node::Ino;
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::{Entry, Kind, Meta, Name, Time, Version};
use std::collections::BTreeMap;

pub(super) const CHECK_BYTES: usize = 8;

const VERSION: u8 = 1;

/// The value of a row, with its check.
pub(super) fn encode_row(hasher: &Hasher, key: &[u8], row: &Row) -> Vec<u8> {
    let Entry { name, kind, version, meta, is_writable } = &row.entry;
    let kind = match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Link => 2,
    };
    let flags = kind
        | u8::from(*is_writable) << 2
        | u8::from(version.written.is_some()) << 3
        | u8::from(meta.is_some()) << 4;
    let mut w = Writer::new();
    w.u8(VERSION).u8(flags).varint(row.seen.0);
    w.str(name.as_str()).str(&version.tag).varint(version.len);
    if let Some(written) = version.written {
        put_time(&mut w, written);
    }
    if let Some(meta) = meta {
        put_meta(&mut w, meta);
    }
    sealed(hasher, key, w)
}

/// The row of a key and its value.
pub(super) fn decode_row(hasher: &Hasher, key: &[u8], value: &[u8]) -> Option<Stored> {
    let (_, cookie) = parse_row_key(key)?;
    let (body, check) = opened(hasher, key, value)?;
    let (entry, seen) = read_row(&mut Reader::new(body)).ok()?;
    Some(Stored { row: Row { cookie, entry, seen }, check })
}

/// A row and the check of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub row: Row,
    pub check: u64,
}

fn read_row(r: &mut Reader<'_>) -> Result<(Entry, Generation), FormatError> {
    if r.u8()? != VERSION {
        return Err(FormatError::Unknown);
    }
    let flags = r.u8()?;
    let kind = match flags & 3 {
        0 => Kind::File,
        1 => Kind::Directory,
        2 => Kind::Link,
        _ => return Err(FormatError::Unknown),
    };
    if flags >> 5 != 0 {
        return Err(FormatError::Unknown);
    }
    let seen = Generation(r.varint()?);
    let name = Name::new(&r.str()?).map_err(|_| FormatError::Invalid("a name is none"))?;
    let (tag, len) = (r.str()?, r.varint()?);
    let written = if flags & 8 != 0 { Some(time(r)?) } else { None };
    let meta = if flags & 16 != 0 { Some(read_meta(r)?) } else { None };
    r.end()?;
    let version = Version { tag, len, written };
    Ok((Entry { name, kind, version, meta, is_writable: flags & 4 != 0 }, seen))
}

fn put_meta(w: &mut Writer, meta: &Meta) {
    let Meta { mode, mtime, xattrs, link } = meta;
    w.u8(u8::from(mode.is_some()) | u8::from(mtime.is_some()) << 1 | u8::from(link.is_some()) << 2);
    if let Some(mode) = mode {
        w.varint((*mode).into());
    }
    if let Some(mtime) = mtime {
        put_time(w, *mtime);
    }
    if let Some(link) = link {
        w.str(link);
    }
    w.varint(xattrs.len() as u64);
    for (name, value) in xattrs {
        w.str(name).varint(value.len() as u64).raw(value);
    }
}

fn read_meta(r: &mut Reader<'_>) -> Result<Meta, FormatError> {
    let flags = r.u8()?;
    if flags >> 3 != 0 {
        return Err(FormatError::Unknown);
    }
    let mode = if flags & 1 != 0 { Some(r.varint32()?) } else { None };
    let mtime = if flags & 2 != 0 { Some(time(r)?) } else { None };
    let link = if flags & 4 != 0 { Some(r.str()?) } else { None };
    let xattrs = r.list(2, |r| {
        let name = r.str()?;
        let len = r.count(1)?;
        Ok((name, r.raw(len)?.to_vec()))
    })?;
    Ok(Meta { mode, mtime, xattrs: BTreeMap::from_iter(xattrs), link })
}

fn put_time(w: &mut Writer, Time(time): Time) {
    let zigzag = (time << 1 ^ time >> 127) as u128;
    w.varint(zigzag as u64).varint((zigzag >> 64) as u64);
}

fn time(r: &mut Reader<'_>) -> Result<Time, FormatError> {
    let zigzag = u128::from(r.varint()?) | u128::from(r.varint()?) << 64;
    Ok(Time((zigzag >> 1) as i128 ^ -((zigzag & 1) as i128)))
}

/// What is kept of a directory itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// The last generation that was given to a listing or a change.
    pub generation: Generation,
    /// The last complete listing.
    pub listed: Option<Listed>,
    /// How many rows there are.
    pub rows: u64,
    /// How many of them are not directories.
    pub files: u64,
    /// How many of them do not have the value of their own name.
    pub displaced: u64,
    /// The sum of the rows' checks, modulo 2^64.
    pub sum: u64,
    /// The session that has compared all this with the rows.
    pub session: u64,
}

/// A complete listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Rows that were seen in an earlier generation were not in it.
    pub generation: Generation,
    /// When it began, in milliseconds since 1970 by this device's clock.
    pub at_ms: u64,
    /// The directory's tag that belongs to it.
    pub tag: Option<String>,
}

impl Summary {
    /// A row takes the place of another one, or of none.
    pub fn replace(&mut self, hasher: &Hasher, before: Option<&Stored>, after: Option<&Stored>) {
        let is_file = |stored: &Stored| u64::from(stored.row.entry.kind != Kind::Directory);
        let is_displaced =
            |stored: &Stored| u64::from(hasher.home(&stored.row.entry.name) != stored.row.cookie);
        if let Some(before) = before {
            // Wrapping, since damage may have made them too small: then they do not fit the rows, which is found out.
            self.rows = self.rows.wrapping_sub(1);
            self.files = self.files.wrapping_sub(is_file(before));
            self.displaced = self.displaced.wrapping_sub(is_displaced(before));
            self.sum = self.sum.wrapping_sub(before.check);
        }
        if let Some(after) = after {
            self.rows = self.rows.wrapping_add(1);
            self.files = self.files.wrapping_add(is_file(after));
            self.displaced = self.displaced.wrapping_add(is_displaced(after));
            self.sum = self.sum.wrapping_add(after.check);
        }
    }

    /// Whether both count the same rows.
    pub fn counts_as(&self, other: &Self) -> bool {
        let counts = |summary: &Self| (summary.rows, summary.files, summary.displaced, summary.sum);
        counts(self) == counts(other)
    }

    /// The value.
    pub fn encode(&self, hasher: &Hasher, dir: Ino) -> Vec<u8> {
        let tag = self.listed.as_ref().and_then(|listed| listed.tag.as_ref());
        let mut w = Writer::new();
        w.u8(VERSION)
            .u8(u8::from(self.listed.is_some()) | u8::from(tag.is_some()) << 1)
            .varint(self.generation.0);
        if let Some(listed) = &self.listed {
            w.varint(listed.generation.0).varint(listed.at_ms);
        }
        if let Some(tag) = tag {
            w.str(tag);
        }
        w.varint(self.rows).varint(self.files).varint(self.displaced).u64(self.sum).u64(self.session);
        sealed(hasher, &directory_key(dir), w)
    }

    /// The directory of a value.
    pub fn decode(hasher: &Hasher, dir: Ino, value: &[u8]) -> Option<Self> {
        let (body, _) = opened(hasher, &directory_key(dir), value)?;
        Self::read(&mut Reader::new(body)).ok()
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        if r.u8()? != VERSION {
            return Err(FormatError::Unknown);
        }
        let flags = r.u8()?;
        let generation = Generation(r.varint()?);
        let listed = match flags {
            0 => None,
            1 | 3 => {
                let (generation, at_ms) = (Generation(r.varint()?), r.varint()?);
                Some(Listed { generation, at_ms, tag: if flags & 2 != 0 { Some(r.str()?) } else { None } })
            }
            _ => return Err(FormatError::Unknown),
        };
        let (rows, files, displaced) = (r.varint()?, r.varint()?, r.varint()?);
        let summary = Self { generation, listed, rows, files, displaced, sum: r.u64()?, session: r.u64()? };
        r.end()?;
        Ok(summary)
    }
}

fn sealed(hasher: &Hasher, key: &[u8], w: Writer) -> Vec<u8> {
    let body = w.finish();
    let check = hasher.check(key, &body);
    [&body[..], &check].concat()
}

fn opened<'a>(hasher: &Hasher, key: &[u8], value: &'a [u8]) -> Option<(&'a [u8], u64)> {
    let (body, check) = value.split_last_chunk::<CHECK_BYTES>()?;
    (hasher.check(key, body) == *check).then_some((body, u64::from_le_bytes(*check)))
}

/// The row with the check of its value.
pub(super) fn stored(value: &[u8], row: Row) -> Stored {
    let (_, check) = value.split_last_chunk().expect("a value ends with its check");
    Stored { row, check: u64::from_le_bytes(*check) }
}
