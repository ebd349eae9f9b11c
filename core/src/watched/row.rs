//! What the table remembers: what a file was when both sides were last alike, uploads under way, and conflicts. Pure.
//!
//! ```text
//! row:      kind here u8 | len u64 | mtime i128 | ctime i128 | ino u64 | mode u32 | digest 32 bytes | kind there u8 | version
//!           | held u8 | since_ms u64 | parts varint x 32 bytes
//! upload:   digest 32 bytes | words varint x bytes
//! conflict: kept_as str | at_ms u64 | our_len u64 | their_len u64 | their time u8 [i128]
//! ```

use crate::folder::step::{put_version, take_version};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::{Kind, RemotePath, Time, Version};

/// BLAKE3 of a file: of its bytes if it has one part, otherwise of the digests of its parts. Of a link, of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Bytes that are digested as one part, and compared as one.
pub const PART_BYTES: u64 = 1 << 20;

impl Digest {
    /// Of a file's parts.
    pub fn of_parts(parts: &[[u8; 32]]) -> Self {
        match parts {
            [] => Self(*blake3::hash(&[]).as_bytes()),
            [one] => Self(*one),
            many => Self(*blake3::hash(&many.concat()).as_bytes()),
        }
    }

    /// Of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        let parts: Vec<[u8; 32]> =
            bytes.chunks(PART_BYTES as usize).map(|part| *blake3::hash(part).as_bytes()).collect();
        Self::of_parts(&parts)
    }
}

/// What tells that a local file was not touched: as long as all of it is the same, so are the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print {
    /// Length in bytes.
    pub len: u64,
    /// When it was last written.
    pub mtime: Time,
    /// When the inode last changed, which no program can set.
    pub ctime: Time,
    /// Inode number.
    pub ino: u64,
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The local directory.
    Here,
    /// The remote.
    There,
}

/// A deletion among so many that a person has to decide. The side is the one where the file is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nobody has decided.
    Waits(Side),
    /// It is right: the other side follows.
    Accepted(Side),
    /// It is wrong: the file comes back.
    Restored(Side),
}

impl Held {
    /// Where the file is gone.
    pub fn side(self) -> Side {
        match self {
            Held::Waits(side) | Held::Accepted(side) | Held::Restored(side) => side,
        }
    }
}

/// A file, link or directory as it was when both sides were alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it was here. A link of the remote that leads out of the directory is a plain file here.
    pub kind: Kind,
    /// How the local file looked.
    pub print: Print,
    /// Its permission bits.
    pub mode: u32,
    /// Its bytes.
    pub digest: Digest,
    /// What it was there.
    pub kind_there: Kind,
    /// The remote's version.
    pub version: Version,
    /// A deletion that is held, and since when, Unix time in ms.
    pub held: Option<(Held, u64)>,
    /// The digests of its parts, of a file large enough that only changed parts are worth sending.
    pub parts: Vec<[u8; 32]>,
}

/// An upload that can be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// What is uploaded.
    pub digest: Digest,
    /// The remote's words.
    pub words: Vec<u8>,
}

/// Two programs have changed a file: both versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of the version that was put aside.
    pub kept_as: RemotePath,
    /// When it was found, Unix time in ms.
    pub at_ms: u64,
    /// Length of this computer's version, in bytes.
    pub our_len: u64,
    /// Length of the remote's, in bytes.
    pub their_len: u64,
    /// When the remote's was written.
    pub their_time: Option<Time>,
}

fn put_kind(out: &mut Writer, kind: Kind) {
    out.u8(match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Link => 2,
    });
}

fn take_kind(from: &mut Reader<'_>) -> Result<Kind, FormatError> {
    match from.u8()? {
        0 => Ok(Kind::File),
        1 => Ok(Kind::Directory),
        2 => Ok(Kind::Link),
        _ => Err(FormatError::Invalid("an unknown kind of file")),
    }
}

fn take_time(from: &mut Reader<'_>) -> Result<Time, FormatError> {
    Ok(Time(i128::from_le_bytes(from.array()?)))
}

impl Row {
    /// Appends it.
    pub fn put(&self, out: &mut Writer) {
        put_kind(out, self.kind);
        out.u64(self.print.len).raw(&self.print.mtime.0.to_le_bytes()).raw(&self.print.ctime.0.to_le_bytes());
        out.u64(self.print.ino).u32(self.mode).raw(&self.digest.0);
        put_kind(out, self.kind_there);
        put_version(out, &self.version);
        let of = |side| if side == Side::Here { 0 } else { 1 };
        let (held, since_ms) = match self.held {
            None => (0, 0),
            Some((Held::Waits(side), at)) => (1 + of(side), at),
            Some((Held::Accepted(side), at)) => (3 + of(side), at),
            Some((Held::Restored(side), at)) => (5 + of(side), at),
        };
        out.u8(held).u64(since_ms).varint(self.parts.len() as u64);
        for part in &self.parts {
            out.raw(part);
        }
    }

    /// Reads it.
    pub fn take(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let kind = take_kind(from)?;
        let (len, mtime, ctime) = (from.u64()?, take_time(from)?, take_time(from)?);
        let print = Print { len, mtime, ctime, ino: from.u64()? };
        let (mode, digest, kind_there) = (from.u32()?, Digest(from.array()?), take_kind(from)?);
        let version = take_version(from)?;
        let (held, at) = (from.u8()?, from.u64()?);
        let side = if held % 2 == 1 { Side::Here } else { Side::There };
        let held = match held {
            0 => None,
            1 | 2 => Some((Held::Waits(side), at)),
            3 | 4 => Some((Held::Accepted(side), at)),
            5 | 6 => Some((Held::Restored(side), at)),
            _ => return Err(FormatError::Invalid("an unknown decision about a deletion")),
        };
        let parts = from.list(32, |from| from.array())?;
        Ok(Self { kind, print, mode, digest, kind_there, version, held, parts })
    }
}

impl Upload {
    /// Appends it.
    pub fn put(&self, out: &mut Writer) {
        out.raw(&self.digest.0).varint(self.words.len() as u64).raw(&self.words);
    }

    /// Reads it.
    pub fn take(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let digest = Digest(from.array()?);
        let len = from.count(1)?;
        Ok(Self { digest, words: from.raw(len)?.to_vec() })
    }
}

impl Conflict {
    /// Appends it.
    pub fn put(&self, out: &mut Writer) {
        out.str(self.kept_as.as_str()).u64(self.at_ms).u64(self.our_len).u64(self.their_len);
        match self.their_time {
            None => out.u8(0),
            Some(time) => out.u8(1).raw(&time.0.to_le_bytes()),
        };
    }

    /// Reads it.
    pub fn take(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let kept_as = take_path(from)?;
        let (at_ms, our_len, their_len) = (from.u64()?, from.u64()?, from.u64()?);
        let their_time = match from.u8()? {
            0 => None,
            1 => Some(take_time(from)?),
            _ => return Err(FormatError::Invalid("an unknown kind of time")),
        };
        Ok(Self { kept_as, at_ms, our_len, their_len, their_time })
    }
}

/// Reads a path.
pub fn take_path(from: &mut Reader<'_>) -> Result<RemotePath, FormatError> {
    RemotePath::parse(&from.str()?).map_err(|_| FormatError::Invalid("a path that no file has"))
}
