//! Roots: immutable objects that each name one consistent version of a drive.

use super::FormatError;
use super::id::{ID_BYTES, ObjectId, ObjectKind, possible};
use super::wire::{Reader, Writer};
use crate::seal::{Purpose, Sealer};
use crate::units::{BLOCK_BYTES, CHUNK_BLOCKS, DRIVE_BYTES_MAX, Epoch, Lsn};
use std::collections::BTreeMap;
use uuid::Uuid;

const MAGIC: &[u8; 8] = b"HLDROOT\x01";
const VERSION: u64 = 1;
/// The largest root, plain: the page table of 16 TiB, and a full tail.
const ROOT_BYTES_MAX: usize = 32 << 20;

/// The shape of a drive. Frame, page and segment size are fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size in blocks.
    pub size_blocks: u64,
    /// The most blocks in a frame.
    pub frame_blocks: u64,
    /// Blocks that a map page covers, a multiple of a chunk.
    pub page_blocks: u64,
    /// A segment is closed once it has this many bytes of boxes.
    pub segment_bytes: u64,
}

impl Geometry {
    /// The geometry of new drives of `size_blocks`.
    pub fn standard(size_blocks: u64) -> Self {
        Self { size_blocks, frame_blocks: 4, page_blocks: (1 << 30) / BLOCK_BYTES, segment_bytes: 8 << 20 }
    }

    /// Number of map pages.
    pub fn pages(&self) -> u64 {
        self.size_blocks.div_ceil(self.page_blocks)
    }

    fn check(&self) -> Result<(), FormatError> {
        let pages_fit = self.page_blocks >= CHUNK_BLOCKS && self.page_blocks.is_multiple_of(CHUNK_BLOCKS);
        let frames_fit =
            (1..=CHUNK_BLOCKS).contains(&self.frame_blocks) && self.frame_blocks.is_power_of_two();
        let segments_fit = (BLOCK_BYTES..=64 << 20).contains(&self.segment_bytes);
        if self.size_blocks > DRIVE_BYTES_MAX / BLOCK_BYTES || !pages_fit || !frames_fit || !segments_fit {
            return Err(FormatError::Invalid("a drive cannot have this shape"));
        }
        Ok(())
    }
}

/// The writes that a version contains of one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The epoch that committed them.
    pub epoch: Epoch,
    /// The journal that they came from.
    pub journal: Uuid,
    /// The last record that is contained.
    pub cut: Lsn,
    /// That record's own CRC, which stands for all records up to it. It exposes a copy of a device's files that has gone its own way.
    pub crc: u32,
}

/// A box inside an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoxRef {
    /// The object.
    pub object: ObjectId,
    /// Its length.
    pub object_len: u64,
    /// Where the box begins.
    pub offset: u32,
    /// Length of the box.
    pub stored_len: u32,
}

/// A segment that was committed after the last map checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailSegment {
    /// The object.
    pub object: ObjectId,
    /// Its length.
    pub object_len: u64,
    /// Sealed length of its directory.
    pub directory_len: u32,
}

/// A version that a person keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub label: String,
    /// The version.
    pub root: ObjectId,
    /// BLAKE3 of the root object.
    pub root_hash: [u8; 32],
    /// When it was taken, Unix time in ms.
    pub taken_ms: u64,
    /// Size of the drive then, in blocks.
    pub size_blocks: u64,
}

/// An object that will be deleted: no later version may refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condemned {
    /// Root or segment.
    pub kind: ObjectKind,
    /// The object.
    pub object: ObjectId,
    /// The epoch of the commit that condemned it.
    pub epoch: Epoch,
    /// The sequence number of that commit.
    pub seq: u64,
}

/// One consistent version of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The drive.
    pub drive: Uuid,
    /// Its family.
    pub family: Uuid,
    /// Its name when it was created.
    pub name: String,
    /// The writer's generation.
    pub epoch: Epoch,
    /// A counter of commits within the epoch.
    pub seq: u64,
    /// The parent version, or [`ObjectId::NONE`].
    pub parent: ObjectId,
    /// The time of the commit, Unix time in ms, for people.
    pub committed_ms: u64,
    /// The device that wrote it.
    pub device: Uuid,
    /// Its name.
    pub device_name: String,
    /// Shape.
    pub geometry: Geometry,
    /// The writes that it contains, by journal.
    pub lineage: Vec<Lineage>,
    /// Map pages that are not all zero, by index.
    pub pages: BTreeMap<u32, BoxRef>,
    /// Segments committed since the pages were written, oldest first.
    pub tail: Vec<TailSegment>,
    /// The usage table, once a checkpoint wrote one.
    pub usage: Option<BoxRef>,
    /// Versions that people keep.
    pub snapshots: Vec<Snapshot>,
    /// Objects that will be deleted.
    pub condemned: Vec<Condemned>,
}

impl Root {
    /// The object's bytes, to be put under `name`.
    pub fn seal(&self, sealer: &Sealer, name: &str) -> Vec<u8> {
        let sealed = sealer.seal(Purpose::Root, name, &[], &self.encode());
        let mut w = Writer::new();
        w.raw(MAGIC).u32(sealed.len() as u32).u32(0).raw(&sealed);
        w.finish()
    }

    /// Opens the object that was read under `name`.
    pub fn open(sealer: &Sealer, name: &str, object: &[u8]) -> Result<Self, FormatError> {
        let mut r = Reader::new(object);
        r.magic(MAGIC, "a root")?;
        let len = r.u32()? as usize;
        r.reserved()?;
        let sealed = r.raw(len)?;
        r.end()?;
        Self::decode(&sealer.open(Purpose::Root, name, &[], sealed, ROOT_BYTES_MAX)?)
    }

    /// The plain bytes of the root.
    pub fn encode(&self) -> Vec<u8> {
        let mut objects = Objects::default();
        let pages: Vec<_> =
            self.pages.iter().map(|(index, page)| (*index, objects.index_of(page), *page)).collect();
        let tail: Vec<_> =
            (self.tail.iter()).map(|t| (objects.insert(t.object, t.object_len), t.directory_len)).collect();
        let usage = self.usage.map(|usage| (objects.index_of(&usage), usage));

        let mut w = Writer::new();
        w.varint(VERSION).raw(self.drive.as_bytes()).raw(self.family.as_bytes()).str(&self.name);
        w.varint(self.epoch.0).varint(self.seq);
        self.parent.write(&mut w);
        w.varint(self.committed_ms).raw(self.device.as_bytes()).str(&self.device_name);
        let Geometry { size_blocks, frame_blocks, page_blocks, segment_bytes } = self.geometry;
        w.varint(size_blocks).varint(frame_blocks).varint(page_blocks).varint(segment_bytes);
        w.varint(self.lineage.len() as u64);
        for Lineage { epoch, journal, cut, crc } in &self.lineage {
            w.varint(epoch.0).raw(journal.as_bytes()).varint(cut.0).raw(&crc.to_le_bytes());
        }
        objects.write(&mut w);
        w.varint(pages.len() as u64);
        let mut next = 0;
        for (index, object, page) in pages {
            w.varint((index - next).into())
                .varint(object)
                .varint(page.offset.into())
                .varint(page.stored_len.into());
            next = index;
        }
        w.varint(tail.len() as u64);
        for (object, directory_len) in tail {
            w.varint(object).varint(directory_len.into());
        }
        match usage {
            None => w.varint(0),
            Some((object, usage)) => {
                w.varint(object + 1).varint(usage.offset.into()).varint(usage.stored_len.into())
            }
        };
        w.varint(self.snapshots.len() as u64);
        for snapshot in &self.snapshots {
            w.str(&snapshot.label);
            snapshot.root.write(&mut w);
            w.raw(&snapshot.root_hash).varint(snapshot.taken_ms).varint(snapshot.size_blocks);
        }
        w.varint(self.condemned.len() as u64);
        for condemned in &self.condemned {
            w.u8(match condemned.kind {
                ObjectKind::Root => 1,
                ObjectKind::Segment => 2,
            });
            condemned.object.write(&mut w);
            w.varint(condemned.seq).varint(condemned.epoch.0);
        }
        w.finish()
    }

    /// Decodes the plain bytes of a root.
    pub fn decode(plain: &[u8]) -> Result<Self, FormatError> {
        let mut r = Reader::new(plain);
        let version = r.varint()?;
        if version > VERSION {
            return Err(FormatError::Newer { found: version, known: VERSION });
        }
        if version != VERSION {
            return Err(FormatError::Invalid("a root has no such version"));
        }
        let (drive, family, name) = (Uuid::from_bytes(r.array()?), Uuid::from_bytes(r.array()?), r.str()?);
        let (epoch, seq, parent) =
            (Epoch(possible(r.varint()?)?), possible(r.varint()?)?, ObjectId::read(&mut r)?);
        let (committed_ms, device, device_name) = (r.varint()?, Uuid::from_bytes(r.array()?), r.str()?);
        let geometry = Geometry {
            size_blocks: r.varint()?,
            frame_blocks: r.varint()?,
            page_blocks: r.varint()?,
            segment_bytes: r.varint()?,
        };
        geometry.check()?;
        let lineage = r.list(22, |r| {
            let (epoch, journal) = (Epoch(possible(r.varint()?)?), Uuid::from_bytes(r.array()?));
            let cut = Lsn(possible(r.varint()?)?);
            Ok(Lineage { epoch, journal, cut, crc: u32::from_le_bytes(r.array()?) })
        })?;
        let objects = Objects::read(&mut r)?;
        let pages = read_pages(&mut r, &objects, &geometry)?;
        let tail = r.list(2, |r| {
            let (object, object_len) = objects.get(r.varint()?)?;
            Ok(TailSegment { object, object_len, directory_len: r.varint32()? })
        })?;
        let usage = match r.varint()? {
            0 => None,
            object => Some(objects.read_box(&mut r, object - 1)?),
        };
        let snapshots = r.list(ID_BYTES + 35, |r| {
            let (label, root, root_hash) = (r.str()?, ObjectId::read(r)?, r.array()?);
            Ok(Snapshot { label, root, root_hash, taken_ms: r.varint()?, size_blocks: r.varint()? })
        })?;
        let condemned = r.list(ID_BYTES + 3, |r| {
            let kind = match r.u8()? {
                1 => ObjectKind::Root,
                2 => ObjectKind::Segment,
                _ => return Err(FormatError::Invalid("a condemned object has no such kind")),
            };
            let (object, seq, epoch) = (ObjectId::read(r)?, r.varint()?, Epoch(r.varint()?));
            Ok(Condemned { kind, object, epoch, seq })
        })?;
        r.end()?;
        Ok(Root {
            drive,
            family,
            name,
            epoch,
            seq,
            parent,
            committed_ms,
            device,
            device_name,
            geometry,
            lineage,
            pages,
            tail,
            usage,
            snapshots,
            condemned,
        })
    }
}

fn read_pages(
    r: &mut Reader<'_>,
    objects: &Objects,
    geometry: &Geometry,
) -> Result<BTreeMap<u32, BoxRef>, FormatError> {
    let mut pages = BTreeMap::new();
    let mut index = 0u32;
    for _ in 0..r.count(4)? {
        index =
            index.checked_add(r.varint32()?).ok_or(FormatError::Invalid("a page lies beyond the drive"))?;
        if u64::from(index) >= geometry.pages() {
            return Err(FormatError::Invalid("a page lies beyond the drive"));
        }
        let object = r.varint()?;
        if pages.insert(index, objects.read_box(r, object)?).is_some() {
            return Err(FormatError::Invalid("a page is listed twice"));
        }
    }
    Ok(pages)
}

/// The table of the objects that a root refers to, each once.
#[derive(Default)]
struct Objects {
    list: Vec<(ObjectId, u64)>,
    index: BTreeMap<ObjectId, u64>,
}

impl Objects {
    fn insert(&mut self, id: ObjectId, len: u64) -> u64 {
        *self.index.entry(id).or_insert_with(|| {
            self.list.push((id, len));
            self.list.len() as u64 - 1
        })
    }

    fn index_of(&mut self, place: &BoxRef) -> u64 {
        self.insert(place.object, place.object_len)
    }

    fn get(&self, index: u64) -> Result<(ObjectId, u64), FormatError> {
        let entry = usize::try_from(index).ok().and_then(|index| self.list.get(index));
        entry.copied().ok_or(FormatError::Invalid("a root names an object that is not in its table"))
    }

    fn read_box(&self, r: &mut Reader<'_>, object: u64) -> Result<BoxRef, FormatError> {
        let (object, object_len) = self.get(object)?;
        let (offset, stored_len) = (r.varint32()?, r.varint32()?);
        if u64::from(offset) + u64::from(stored_len) > object_len {
            return Err(FormatError::Invalid("a box lies beyond its object"));
        }
        Ok(BoxRef { object, object_len, offset, stored_len })
    }

    fn write(&self, w: &mut Writer) {
        w.varint(self.list.len() as u64);
        for (id, len) in &self.list {
            id.write(w);
            w.varint(*len);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, FormatError> {
        let mut objects = Self::default();
        for index in 0..r.count(ID_BYTES + 1)? {
            let (id, len) = (ObjectId::read(r)?, r.varint()?);
            if objects.insert(id, len) != index as u64 {
                return Err(FormatError::Invalid("an object is listed twice"));
            }
        }
        Ok(objects)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::seal::{Cipher, DataKey};

    pub(crate) fn root() -> Root {
        let drive = Uuid::from_u128(1);
        let id = |seq| ObjectId { drive, epoch: Epoch(1), seq, unique: u128::from(seq) << 64 };
        let place = |seq| BoxRef { object: id(seq), object_len: 1000, offset: 10, stored_len: 90 };
        Root {
            drive,
            family: Uuid::from_u128(2),
            name: "photos".into(),
            epoch: Epoch(3),
            seq: 4,
            parent: id(9),
            committed_ms: 5,
            device: Uuid::from_u128(6),
            device_name: "laptop".into(),
            geometry: Geometry::standard(1 << 24),
            lineage: vec![Lineage { epoch: Epoch(3), journal: Uuid::from_u128(7), cut: Lsn(8), crc: 9 }],
            pages: [(0, place(1)), (5, place(1)), (6, place(2))].into(),
            tail: vec![TailSegment { object: id(3), object_len: 77, directory_len: 20 }],
            usage: Some(place(2)),
            snapshots: vec![Snapshot {
                label: "before".into(),
                root: id(8),
                root_hash: [1; 32],
                taken_ms: 1,
                size_blocks: 2,
            }],
            condemned: vec![Condemned { kind: ObjectKind::Segment, object: id(4), epoch: Epoch(2), seq: 3 }],
        }
    }

    #[test]
    fn a_root_survives_the_round_trip_under_its_own_name_only() {
        let sealer = Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([1; 32].into()));
        let object = root().seal(&sealer, "root/a");
        assert_eq!(Root::open(&sealer, "root/a", &object), Ok(root()));
        assert_eq!(Root::open(&sealer, "root/b", &object), Err(FormatError::Seal));
        assert_eq!(Root::open(&sealer, "root/a", &object[..object.len() - 1]), Err(FormatError::Truncated));
    }

    #[test]
    fn truncated_or_damaged_roots_never_panic() {
        let plain = root().encode();
        for len in 0..plain.len() {
            assert!(Root::decode(&plain[..len]).is_err(), "cut at {len}");
        }
        for at in 0..plain.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = plain.clone();
                damaged[at] = value;
                let _ = Root::decode(&damaged);
            }
        }
    }
}
