//! Names of immutable objects. A name is never used twice: its random part ensures that.

use super::FormatError;
use super::wire::{Reader, Writer};
use crate::units::Epoch;
use data_encoding::HEXLOWER;
use std::fmt;
use uuid::Uuid;

/// The parts of an immutable object's name (`core/FORMAT.md`, section 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The drive that wrote it; its clones refer to it too.
    pub drive: Uuid,
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// A counter within the epoch, for people.
    pub seq: u64,
    /// 128 random bits.
    pub unique: u128,
}

/// Bytes of an encoded id.
pub const ID_BYTES: usize = 48;

/// The directory of an immutable object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// One version of a drive.
    Root,
    /// Frames or map pages.
    Segment,
}

/// The highest epoch, sequence number or record number. They count by one, and a promotion skips a million: no number that a program wrote
/// comes near this. A higher one is junk, and would overflow when the next one is made.
pub const NUMBER_MAX: u64 = 1 << 56;

/// Refuses a number that no counter can have reached.
pub fn possible(number: u64) -> Result<u64, FormatError> {
    match number <= NUMBER_MAX {
        true => Ok(number),
        false => Err(FormatError::Invalid("it has a number that nothing can have counted to")),
    }
}

impl ObjectId {
    /// "No object", as a root's parent.
    pub const NONE: ObjectId = ObjectId { drive: Uuid::nil(), epoch: Epoch(0), seq: 0, unique: 0 };

    /// The name of the root in the store.
    pub fn root_name(&self) -> String {
        self.name(ObjectKind::Root)
    }

    /// The object's name in the store.
    pub fn name(&self, kind: ObjectKind) -> String {
        let unique = HEXLOWER.encode(&self.unique.to_be_bytes());
        let directory = match kind {
            ObjectKind::Root => "root",
            ObjectKind::Segment => "seg",
        };
        let (drive, epoch, seq) = (self.drive.simple(), self.epoch.0, self.seq);
        format!("{directory}/{}/{drive}-{epoch:016x}-{seq:016x}-{unique}", &unique[..2])
    }

    /// Parses a name that [`ObjectId::name`] made. `None` for any other text.
    pub fn parse(name: &str) -> Option<(ObjectKind, ObjectId)> {
        let mut path = name.split('/');
        let kind = match path.next()? {
            "root" => ObjectKind::Root,
            "seg" => ObjectKind::Segment,
            _ => return None,
        };
        let (_shard, file) = (path.next()?, path.next()?);
        let mut parts = file.split('-');
        let id = ObjectId {
            drive: Uuid::try_parse(parts.next()?).ok()?,
            epoch: Epoch(u64::from_str_radix(parts.next()?, 16).ok()?),
            seq: u64::from_str_radix(parts.next()?, 16).ok()?,
            unique: u128::from_str_radix(parts.next()?, 16).ok()?,
        };
        let is_possible = id.epoch.0.max(id.seq) <= NUMBER_MAX;
        (is_possible && id.name(kind) == name).then_some((kind, id))
    }

    /// Appends the 48 bytes.
    pub fn write(&self, w: &mut Writer) {
        w.raw(self.drive.as_bytes()).u64(self.epoch.0).u64(self.seq).raw(&self.unique.to_be_bytes());
    }

    /// Reads the 48 bytes.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        Ok(Self {
            drive: Uuid::from_bytes(r.array()?),
            epoch: Epoch(possible(r.u64()?)?),
            seq: possible(r.u64()?)?,
            unique: u128::from_be_bytes(r.array()?),
        })
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.epoch, self.seq, (self.unique >> 96) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_parses_back_and_nothing_else_does() {
        let id = ObjectId { drive: Uuid::from_u128(7), epoch: Epoch(3), seq: 9, unique: 0xab << 120 };
        for kind in [ObjectKind::Root, ObjectKind::Segment] {
            let name = id.name(kind);
            assert_eq!(ObjectId::parse(&name), Some((kind, id)));
            assert_eq!(ObjectId::parse(&name.replace("/ab/", "/ac/")), None);
            assert_eq!(ObjectId::parse(&format!("{name}-1")), None);
        }
        assert_eq!(ObjectId::parse("head/00"), None);
    }

    #[test]
    fn numbers_that_would_overflow_are_refused() {
        let id = ObjectId { drive: Uuid::nil(), epoch: Epoch(NUMBER_MAX), seq: NUMBER_MAX, unique: 0 };
        let read = |id: ObjectId| {
            let mut w = Writer::new();
            id.write(&mut w);
            ObjectId::read(&mut Reader::new(&w.finish()))
        };
        assert_eq!(read(id).unwrap(), id);
        for junk in [ObjectId { epoch: Epoch(u64::MAX), ..id }, ObjectId { seq: NUMBER_MAX + 1, ..id }] {
            assert_eq!(ObjectId::parse(&junk.name(ObjectKind::Root)), None);
            assert!(read(junk).is_err());
        }
    }
}
