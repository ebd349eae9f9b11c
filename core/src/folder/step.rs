//! A step: what one operation changes, as the new states of the inodes that it touches. Steps are the records of a folder's log.
//!
//! A step holds states and not instructions. So replaying is to keep the last state of each inode, a step that is replayed twice does no
//! harm, and the log is compacted by writing the current states once more.
//!
//! Layout of a record's data (all integers as in `format::wire`):
//!
//! ```text
//! version u8 = 1, 2 | request u64 | made u32, if version 2 | count varint | count x { ino u32 | present u8 | node, if present }
//! node:    kind u8 | may_be_written u8 | remote? | local? | content? | meta? | intent? | since_ms varint
//! intent:  place | what u8 | what it brings
//! known:   place | kind u8 | version | flags u8 | meta?
//! place:   parent u32 | name
//! version: tag | len varint | written? (i128 as 16 bytes)
//! ```

use super::node::{Brings, ContentHere, Ino, Intent, Known, MetaHere, Node, Place};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::{Kind, Meta, Name, Time, Version};

const VERSION: u8 = 1;
/// A step that also says what its request made.
const VERSION_MADE: u8 = 2;
/// States of one record. Most steps touch few inodes: a rename two, and the directories above them that were not known to the log yet.
pub(super) const STATES_MAX: usize = 10_000;
/// The shortest state: a number, and that the log need not know it.
const STATE_BYTES_MIN: usize = 5;

/// What one operation changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The kernel's number of the request that it answers; 0 for none. A request that is sent again after a crash is not done twice.
    pub request: u64,
    /// The file or directory that the request made, if it made one: the answer to it.
    pub made: Option<Ino>,
    /// The new state of each inode; `None` where the log need not know it any longer.
    pub states: Vec<(Ino, Option<Node>)>,
}

impl Step {
    /// A step that changes one inode.
    pub fn one(ino: Ino, node: Option<Node>) -> Self {
        Self::of(vec![(ino, node)])
    }

    /// A step that answers no request.
    pub fn of(states: Vec<(Ino, Option<Node>)>) -> Self {
        Self { states, ..Self::default() }
    }

    /// The step as the data of a record.
    #[cfg(test)]
    pub fn encode(&self) -> Vec<u8> {
        Self::encode_states(self.request, self.made, &self.states)
    }

    /// A step of these states as the data of a record.
    pub(super) fn encode_states(request: u64, made: Option<Ino>, states: &[(Ino, Option<Node>)]) -> Vec<u8> {
        let mut out = Writer::new();
        match made {
            None => out.u8(VERSION).u64(request),
            Some(made) => out.u8(VERSION_MADE).u64(request).u32(made.0),
        };
        out.varint(states.len() as u64);
        for (ino, node) in states {
            out.u32(ino.0).u8(node.is_some().into());
            if let Some(node) = node {
                put_node(&mut out, node);
            }
        }
        out.finish()
    }

    /// Reads a record's data.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut from = Reader::new(bytes);
        let version = from.u8()?;
        if ![VERSION, VERSION_MADE].contains(&version) {
            return Err(FormatError::Invalid("a later program wrote this record"));
        }
        let request = from.u64()?;
        let made = if version == VERSION_MADE { Some(Ino(from.u32()?)) } else { None };
        let count = from.varint()?;
        if count > STATES_MAX as u64 {
            return Err(FormatError::Invalid("a step touches too many files"));
        }
        if count > (from.rest().len() / STATE_BYTES_MIN) as u64 {
            return Err(FormatError::Truncated);
        }
        let mut states = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let ino = Ino(from.u32()?);
            let node = optional(&mut from, take_node)?;
            states.push((ino, node));
        }
        match from.rest().is_empty() {
            true => Ok(Self { request, made, states }),
            false => Err(FormatError::Invalid("bytes follow the end of a step")),
        }
    }
}

fn optional<T>(
    from: &mut Reader<'_>,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<Option<T>, FormatError> {
    match from.u8()? {
        0 => Ok(None),
        1 => take(from).map(Some),
        _ => Err(FormatError::Invalid("a presence is neither 0 nor 1")),
    }
}

fn put_optional<T>(out: &mut Writer, value: Option<&T>, put: impl FnOnce(&mut Writer, &T)) {
    out.u8(value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
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

fn put_bytes(out: &mut Writer, bytes: &[u8]) {
    out.varint(bytes.len() as u64).raw(bytes);
}

fn take_bytes<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], FormatError> {
    let len = usize::try_from(from.varint()?).map_err(|_| FormatError::Truncated)?;
    from.raw(len)
}

fn take_text(from: &mut Reader<'_>) -> Result<String, FormatError> {
    let bytes = take_bytes(from)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| FormatError::Invalid("a text is not UTF-8"))
}

fn put_time(out: &mut Writer, time: &Time) {
    out.raw(&time.0.to_le_bytes());
}

fn take_time(from: &mut Reader<'_>) -> Result<Time, FormatError> {
    Ok(Time(i128::from_le_bytes(from.array()?)))
}

/// Appends a place.
pub(super) fn put_place(out: &mut Writer, place: &Place) {
    out.u32(place.parent.0).str(place.name.as_str());
}

/// Reads a place.
pub(super) fn take_place(from: &mut Reader<'_>) -> Result<Place, FormatError> {
    let parent = Ino(from.u32()?);
    let name = Name::new(&take_text(from)?).map_err(|_| FormatError::Invalid("a name is no file name"))?;
    Ok(Place { parent, name })
}

/// Appends a version.
pub(crate) fn put_version(out: &mut Writer, version: &Version) {
    out.str(&version.tag).varint(version.len);
    put_optional(out, version.written.as_ref(), put_time);
}

/// Reads a version.
pub(crate) fn take_version(from: &mut Reader<'_>) -> Result<Version, FormatError> {
    Ok(Version { tag: take_text(from)?, len: from.varint()?, written: optional(from, take_time)? })
}

/// Appends attributes.
pub(super) fn put_meta(out: &mut Writer, meta: &Meta) {
    put_optional(out, meta.mode.as_ref(), |out, mode| {
        out.u32(*mode);
    });
    put_optional(out, meta.mtime.as_ref(), put_time);
    out.varint(meta.xattrs.len() as u64);
    for (name, value) in &meta.xattrs {
        out.str(name);
        put_bytes(out, value);
    }
    put_optional(out, meta.link.as_ref(), |out, link| {
        out.str(link);
    });
}

/// Reads attributes.
pub(super) fn take_meta(from: &mut Reader<'_>) -> Result<Meta, FormatError> {
    let mode = optional(from, |from| from.u32())?;
    let mtime = optional(from, take_time)?;
    let mut meta = Meta { mode, mtime, ..Meta::default() };
    for _ in 0..from.varint()? {
        let name = take_text(from)?;
        meta.xattrs.insert(name, take_bytes(from)?.to_vec());
    }
    meta.link = optional(from, take_text)?;
    Ok(meta)
}

fn put_known(out: &mut Writer, known: &Known) {
    put_place(out, &known.place);
    put_kind(out, known.kind);
    put_version(out, &known.version);
    out.u8(known.is_writable.into());
    put_optional(out, known.meta.as_ref(), put_meta);
}

fn take_known(from: &mut Reader<'_>) -> Result<Known, FormatError> {
    Ok(Known {
        place: take_place(from)?,
        kind: take_kind(from)?,
        version: take_version(from)?,
        is_writable: from.u8()? != 0,
        meta: optional(from, take_meta)?,
    })
}

fn put_intent(out: &mut Writer, intent: &Intent) {
    put_place(out, &intent.at);
    match &intent.brings {
        Brings::Directory => drop(out.u8(0)),
        Brings::Content { generation, meta, len, digest, resume } => {
            out.u8(1).varint(*generation).varint(*meta).varint(*len).raw(digest);
            put_bytes(out, resume);
        }
        Brings::Relocated { is_copied } => drop(out.u8(2).u8((*is_copied).into())),
        Brings::Meta(generation) => drop(out.u8(3).varint(*generation)),
    }
}

fn take_intent(from: &mut Reader<'_>) -> Result<Intent, FormatError> {
    let at = take_place(from)?;
    let brings = match from.u8()? {
        0 => Brings::Directory,
        1 => Brings::Content {
            generation: from.varint()?,
            meta: from.varint()?,
            len: from.varint()?,
            digest: from.array()?,
            resume: take_bytes(from)?.to_vec(),
        },
        2 => Brings::Relocated { is_copied: from.u8()? != 0 },
        3 => Brings::Meta(from.varint()?),
        _ => return Err(FormatError::Invalid("an unknown kind of action")),
    };
    Ok(Intent { at, brings })
}

fn put_node(out: &mut Writer, node: &Node) {
    put_kind(out, node.kind);
    out.u8(node.may_be_written.into());
    put_optional(out, node.remote.as_ref(), put_known);
    put_optional(out, node.local.as_ref(), put_place);
    put_optional(out, node.content.as_ref(), |out, here| {
        out.varint(here.generation).varint(here.len);
        put_time(out, &here.mtime);
        put_optional(out, here.base.as_ref(), put_version);
    });
    put_optional(out, node.meta.as_ref(), |out, here| {
        out.varint(here.generation);
        put_meta(out, &here.meta);
    });
    put_optional(out, node.intent.as_ref(), put_intent);
    out.varint(node.since_ms);
}

fn take_node(from: &mut Reader<'_>) -> Result<Node, FormatError> {
    let kind = take_kind(from)?;
    let may_be_written = from.u8()? != 0;
    let remote = optional(from, take_known)?;
    let local = optional(from, take_place)?;
    let content = optional(from, |from| {
        Ok(ContentHere {
            generation: from.varint()?,
            len: from.varint()?,
            mtime: take_time(from)?,
            base: optional(from, take_version)?,
        })
    })?;
    let meta = optional(from, |from| Ok(MetaHere { generation: from.varint()?, meta: take_meta(from)? }))?;
    let intent = optional(from, take_intent)?;
    let since_ms = from.varint()?;
    Ok(Node { kind, remote, local, content, meta, may_be_written, intent, since_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    pub(crate) fn place(parent: u32, name: &str) -> Place {
        Place::new(Ino(parent), Name::new(name).unwrap())
    }

    fn full() -> Node {
        let version = Version { tag: "\"etag\"".into(), len: 77, written: Some(Time(-5)) };
        let meta = Meta {
            mode: Some(0o640),
            mtime: Some(Time(1_700_000_000_123_456_789)),
            xattrs: BTreeMap::from([("user.a".to_owned(), vec![0, 1, 2])]),
            link: Some("../elsewhere".into()),
        };
        Node {
            kind: Kind::File,
            remote: Some(Known {
                place: place(1, "before"),
                kind: Kind::File,
                version: version.clone(),
                meta: Some(meta.clone()),
                is_writable: true,
            }),
            local: Some(place(7, "after")),
            content: Some(ContentHere { generation: 3, len: 100, mtime: Time(9), base: Some(version) }),
            meta: Some(MetaHere { generation: 4, meta }),
            may_be_written: true,
            intent: Some(Intent {
                at: place(7, "after"),
                brings: Brings::Content {
                    generation: 3,
                    meta: 4,
                    len: 100,
                    digest: [7; 32],
                    resume: vec![9; 20],
                },
            }),
            since_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn steps_survive_encoding() {
        let bare = Node::made(Kind::Directory, place(1, "d"), Meta::default(), 0);
        for states in [vec![], vec![(Ino(2), None)], vec![(Ino(3), Some(full())), (Ino(4), Some(bare))]] {
            for made in [None, Some(Ino(3))] {
                let step = Step { request: 42, made, states: states.clone() };
                assert_eq!(Step::decode(&step.encode()).unwrap(), step);
            }
        }
    }

    #[test]
    fn rejects_steps_that_are_cut_or_too_long() {
        let bytes = Step::one(Ino(3), Some(full())).encode();
        for len in 0..bytes.len() {
            assert!(Step::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(Step::decode(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn a_count_cannot_promise_more_than_is_there() {
        let mut out = Writer::new();
        out.u8(VERSION).u64(0).varint(STATES_MAX as u64).raw(&[0; 5 * 100]);
        // Before anything is reserved: the states that are there would be read otherwise.
        assert_eq!(Step::decode(&out.finish()), Err(FormatError::Truncated));
        let mut out = Writer::new();
        out.u8(VERSION).u64(0).varint(STATES_MAX as u64 + 1).raw(&vec![0; 5 * STATES_MAX + 5]);
        assert!(matches!(Step::decode(&out.finish()), Err(FormatError::Invalid(_))));
    }
}
