//! Segments: immutable objects of sealed boxes with a sealed directory in front.

use super::FormatError;
use super::wire::{Reader, Writer};
use crate::seal::{Purpose, Sealer};
use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS};
use bytes::Bytes;

const MAGIC: &[u8; 8] = b"HLDSEG\0\x01";
/// Bytes before the directory.
pub const HEADER_BYTES: usize = 16;
/// The largest directory, plain: 8 MiB of one-block frames need 24 KiB; the rest is space for zero runs.
pub const DIRECTORY_BYTES_MAX: usize = 4 << 20;
/// The largest page or usage table, plain.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
const USAGE_INDEX: u64 = 0xFFFF_FFFF;

/// The contents of a segment, and their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directory {
    /// Blocks of the drive.
    Data {
        /// Frames, ascending.
        frames: Vec<FrameEntry>,
        /// Runs that read as zeros from this commit on, ascending.
        zeros: Vec<BlockRange>,
    },
    /// Map pages, and at most one usage table.
    Map(Vec<PageEntry>),
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// Its blocks: a run inside one chunk.
    pub blocks: BlockRange,
    /// Where its box begins in the object.
    pub offset: u32,
    /// Length of its box.
    pub stored_len: u32,
}

/// The place of a map page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Index of the page; `None` for the usage table.
    pub index: Option<u32>,
    /// Where its box begins in the object.
    pub offset: u32,
    /// Length of its box.
    pub stored_len: u32,
}

/// The place that a frame's box is bound to.
pub fn frame_place(blocks: BlockRange) -> [u8; 12] {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&blocks.start.to_le_bytes());
    place[8..].copy_from_slice(&(blocks.count() as u32).to_le_bytes());
    place
}

/// Collects the boxes of one segment.
pub struct SegmentBuilder<'a> {
    sealer: &'a Sealer,
    name: String,
    directory: Directory,
    body: Vec<u8>,
}

impl<'a> SegmentBuilder<'a> {
    /// A data segment that will be put under `name`.
    pub fn data(sealer: &'a Sealer, name: String) -> Self {
        Self {
            sealer,
            name,
            directory: Directory::Data { frames: Vec::new(), zeros: Vec::new() },
            body: Vec::new(),
        }
    }

    /// A segment of map pages that will be put under `name`.
    pub fn map(sealer: &'a Sealer, name: String) -> Self {
        Self { sealer, name, directory: Directory::Map(Vec::new()), body: Vec::new() }
    }

    /// Bytes of boxes so far.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        match &self.directory {
            Directory::Data { frames, zeros } => frames.is_empty() && zeros.is_empty(),
            Directory::Map(pages) => pages.is_empty(),
        }
    }

    /// Adds the frame of `blocks`, which come after all blocks added before.
    pub fn frame(&mut self, blocks: BlockRange, data: &[u8]) {
        assert_eq!(blocks.byte_len(), data.len() as u64, "a frame holds whole blocks");
        let sealed = self.sealer.seal(Purpose::Frame, &self.name, &frame_place(blocks), data);
        let (offset, stored_len) = (self.body.len() as u32, sealed.len() as u32);
        self.body.extend_from_slice(&sealed);
        let Directory::Data { frames, .. } = &mut self.directory else {
            panic!("frames go into data segments")
        };
        assert!(frames.last().is_none_or(|last| last.blocks.end <= blocks.start), "frames ascend");
        frames.push(FrameEntry { blocks, offset, stored_len });
    }

    /// Adds a run of zeros, which comes after all runs added before.
    pub fn zeros(&mut self, blocks: BlockRange) {
        let Directory::Data { zeros, .. } = &mut self.directory else {
            panic!("zeros go into data segments")
        };
        zeros.push(blocks);
    }

    /// Adds a map page.
    pub fn page(&mut self, index: u32, plain: &[u8]) {
        let sealed = self.sealer.seal(Purpose::Page, &self.name, &index.to_le_bytes(), plain);
        self.push_page(Some(index), &sealed);
    }

    /// Adds the usage table.
    pub fn usage(&mut self, plain: &[u8]) {
        let sealed = self.sealer.seal(Purpose::Usage, &self.name, &[], plain);
        self.push_page(None, &sealed);
    }

    fn push_page(&mut self, index: Option<u32>, sealed: &[u8]) {
        let (offset, stored_len) = (self.body.len() as u32, sealed.len() as u32);
        self.body.extend_from_slice(sealed);
        let Directory::Map(pages) = &mut self.directory else { panic!("pages go into map segments") };
        pages.push(PageEntry { index, offset, stored_len });
    }

    /// The finished object, its directory (with offsets in the object) and the directory's sealed length.
    pub fn finish(self) -> (Bytes, Directory, u32) {
        let Self { sealer, name, mut directory, body } = self;
        let sealed = sealer.seal(Purpose::Directory, &name, &[], &encode_plain(&directory));
        let start = (HEADER_BYTES + sealed.len()) as u32;
        directory.move_boxes(start).expect("a segment is far from what 32 bits reach");
        let mut object = Vec::with_capacity(start as usize + body.len());
        object.extend_from_slice(MAGIC);
        object.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
        object.extend_from_slice(&[0; 4]);
        object.extend_from_slice(&sealed);
        object.extend_from_slice(&body);
        (object.into(), directory, sealed.len() as u32)
    }
}

/// Reads the directory from the front of an object. `front` must contain at least the header and the directory.
pub fn decode(sealer: &Sealer, name: &str, front: &[u8]) -> Result<Directory, FormatError> {
    let mut r = Reader::new(front);
    r.magic(MAGIC, "a segment")?;
    let sealed_len = r.u32()?;
    r.reserved()?;
    let sealed = r.raw(sealed_len as usize)?;
    let plain = sealer.open(Purpose::Directory, name, &[], sealed, DIRECTORY_BYTES_MAX)?;
    let mut directory = decode_plain(&plain)?;
    let start = (HEADER_BYTES as u32).checked_add(sealed_len).ok_or(FormatError::Truncated)?;
    directory.move_boxes(start)?;
    Ok(directory)
}

impl Directory {
    /// Moves every box `start` bytes further into the object. An error if 32 bits cannot hold the end of one.
    fn move_boxes(&mut self, start: u32) -> Result<(), FormatError> {
        let move_box = |offset: &mut u32, stored_len: u32| {
            *offset = advance(*offset, start)?;
            advance(*offset, stored_len).map(drop)
        };
        match self {
            Directory::Data { frames, .. } => {
                frames.iter_mut().try_for_each(|frame| move_box(&mut frame.offset, frame.stored_len))
            }
            Directory::Map(pages) => {
                pages.iter_mut().try_for_each(|page| move_box(&mut page.offset, page.stored_len))
            }
        }
    }
}

/// Checks a whole segment: every box in its directory must open.
pub fn verify(sealer: &Sealer, name: &str, body: &[u8]) -> Result<(), FormatError> {
    let open = |purpose, place: &[u8], offset: u32, stored_len: u32, len_max: usize| {
        let sealed = body.get(offset as usize..offset as usize + stored_len as usize);
        sealer.open(purpose, name, place, sealed.ok_or(FormatError::Truncated)?, len_max).map(drop)
    };
    match decode(sealer, name, body)? {
        Directory::Data { frames, .. } => frames.iter().try_for_each(|frame| {
            let FrameEntry { blocks, offset, stored_len } = *frame;
            open(Purpose::Frame, &frame_place(blocks), offset, stored_len, blocks.byte_len() as usize)
        }),
        Directory::Map(pages) => pages.iter().try_for_each(|page| match page.index {
            Some(index) => {
                open(Purpose::Page, &index.to_le_bytes(), page.offset, page.stored_len, PAGE_BYTES_MAX)
            }
            None => open(Purpose::Usage, &[], page.offset, page.stored_len, PAGE_BYTES_MAX),
        }),
    }
}

/// The segment `object` under another name. Every box is bound to the segment's name, so each is opened and sealed again.
pub fn renamed(
    sealer: &Sealer,
    (from, to): (&str, &str),
    object: &[u8],
) -> Result<(Bytes, Directory, u32), FormatError> {
    let open = |purpose, place: &[u8], offset: u32, stored_len: u32, len_max: usize| {
        let sealed = object.get(offset as usize..offset as usize + stored_len as usize);
        sealer.open(purpose, from, place, sealed.ok_or(FormatError::Truncated)?, len_max)
    };
    let mut builder;
    match decode(sealer, from, object)? {
        Directory::Data { frames, zeros } => {
            builder = SegmentBuilder::data(sealer, to.to_owned());
            zeros.into_iter().for_each(|run| builder.zeros(run));
            for FrameEntry { blocks, offset, stored_len } in frames {
                let len = blocks.byte_len() as usize;
                let data = open(Purpose::Frame, &frame_place(blocks), offset, stored_len, len)?;
                builder.frame(blocks, &data);
            }
        }
        Directory::Map(pages) => {
            builder = SegmentBuilder::map(sealer, to.to_owned());
            for PageEntry { index, offset, stored_len } in pages {
                let (purpose, place) = match index {
                    Some(index) => (Purpose::Page, index.to_le_bytes().to_vec()),
                    None => (Purpose::Usage, Vec::new()),
                };
                let plain = open(purpose, &place, offset, stored_len, PAGE_BYTES_MAX)?;
                match index {
                    Some(index) => builder.page(index, &plain),
                    None => builder.usage(&plain),
                }
            }
        }
    }
    Ok(builder.finish())
}

/// The plain bytes of a directory.
pub fn encode_plain(directory: &Directory) -> Vec<u8> {
    let mut w = Writer::new();
    match directory {
        Directory::Data { frames, zeros } => {
            w.u8(1).varint(frames.len() as u64);
            let mut end = 0;
            for frame in frames {
                w.varint(frame.blocks.start - end)
                    .varint(frame.blocks.count())
                    .varint(frame.stored_len.into());
                end = frame.blocks.end;
            }
            w.varint(zeros.len() as u64);
            end = 0;
            for run in zeros {
                w.varint(run.start - end).varint(run.count());
                end = run.end;
            }
        }
        Directory::Map(pages) => {
            w.u8(2).varint(pages.len() as u64);
            for page in pages {
                w.varint(page.index.map_or(USAGE_INDEX, u64::from)).varint(page.stored_len.into());
            }
        }
    }
    w.finish()
}

/// Decodes the plain bytes of a directory; offsets count from the directory's end.
pub fn decode_plain(plain: &[u8]) -> Result<Directory, FormatError> {
    let mut r = Reader::new(plain);
    let directory = match r.u8()? {
        1 => decode_data(&mut r)?,
        2 => decode_map(&mut r)?,
        kind => {
            return Err(FormatError::Newer { found: kind.into(), known: 2 });
        }
    };
    r.end()?;
    Ok(directory)
}

fn decode_data(r: &mut Reader<'_>) -> Result<Directory, FormatError> {
    let (mut offset, mut end) = (0, 0);
    let frames = r.list(3, |r| {
        let blocks = read_run(r, &mut end)?;
        if blocks.start / CHUNK_BLOCKS != (blocks.end - 1) / CHUNK_BLOCKS {
            return Err(FormatError::Invalid("a frame crosses a chunk's border"));
        }
        let entry = FrameEntry { blocks, offset, stored_len: r.varint32()? };
        offset = advance(offset, entry.stored_len)?;
        Ok(entry)
    })?;
    end = 0;
    let zeros = r.list(2, |r| read_run(r, &mut end))?;
    Ok(Directory::Data { frames, zeros })
}

fn decode_map(r: &mut Reader<'_>) -> Result<Directory, FormatError> {
    let mut offset = 0;
    let pages = r.list(2, |r| {
        let (index, stored_len) = (r.varint32()?, r.varint32()?);
        let index = (u64::from(index) != USAGE_INDEX).then_some(index);
        let entry = PageEntry { index, offset, stored_len };
        offset = advance(offset, stored_len)?;
        Ok(entry)
    })?;
    Ok(Directory::Map(pages))
}

fn advance(offset: u32, len: u32) -> Result<u32, FormatError> {
    offset.checked_add(len).ok_or(FormatError::Invalid("a segment is too long"))
}

/// Reads a run that begins `varint` blocks after `end`, and moves `end` to the end of the run.
pub(super) fn read_run(r: &mut Reader<'_>, end: &mut u64) -> Result<BlockRange, FormatError> {
    let start = end.checked_add(r.varint()?);
    let range = start.zip(r.varint().ok()).and_then(|(start, count)| Some(start..start.checked_add(count)?));
    match range {
        Some(range) if !range.is_empty() && range.end <= crate::units::DRIVE_BYTES_MAX / BLOCK_BYTES => {
            *end = range.end;
            Ok(BlockRange { start: range.start, end: range.end })
        }
        _ => Err(FormatError::Invalid("a run of blocks is empty or beyond any drive")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Cipher, DataKey};

    #[test]
    fn a_segment_reads_back_from_its_front_and_its_boxes_open() {
        let sealer = Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([1; 32].into()));
        let mut builder = SegmentBuilder::data(&sealer, "seg/x".into());
        let runs = [BlockRange::new(3, 2), BlockRange::new(16, 4), BlockRange::new(1000, 1)];
        for (i, run) in runs.iter().enumerate() {
            builder.frame(*run, &vec![i as u8; run.byte_len() as usize]);
        }
        builder.zeros(BlockRange::new(64, 1 << 20));
        let (object, directory, len) = builder.finish();
        assert_eq!(decode(&sealer, "seg/x", &object[..HEADER_BYTES + len as usize]), Ok(directory.clone()));
        let Directory::Data { frames, zeros } = directory else { panic!() };
        assert_eq!(zeros, [BlockRange::new(64, 1 << 20)]);
        for (i, frame) in frames.iter().enumerate() {
            let sealed = &object[frame.offset as usize..][..frame.stored_len as usize];
            let plain = sealer.open(Purpose::Frame, "seg/x", &frame_place(frame.blocks), sealed, 1 << 16);
            assert_eq!(plain, Ok(vec![i as u8; frame.blocks.byte_len() as usize]));
        }
        assert_eq!(frames.last().map(|f| f.offset + f.stored_len), Some(object.len() as u32));
        assert_eq!(decode(&sealer, "seg/y", &object), Err(FormatError::Seal));
    }

    #[test]
    fn a_renamed_segment_holds_the_same() {
        let sealer = Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([1; 32].into()));
        let mut data = SegmentBuilder::data(&sealer, "seg/x".into());
        data.zeros(BlockRange::new(64, 1 << 20));
        data.frame(BlockRange::new(3, 2), &[7; 2 * BLOCK_BYTES as usize]);
        let mut map = SegmentBuilder::map(&sealer, "seg/x".into());
        map.page(5, b"page");
        map.usage(b"usage");
        for (object, directory, len) in [data.finish(), map.finish()] {
            let (other, found, other_len) = renamed(&sealer, ("seg/x", "seg/y"), &object).unwrap();
            assert_eq!((found.clone(), other_len), (directory, len));
            assert_eq!(decode(&sealer, "seg/y", &other), Ok(found));
            assert_eq!(verify(&sealer, "seg/y", &other), Ok(()));
            assert_eq!(renamed(&sealer, ("seg/y", "seg/x"), &object), Err(FormatError::Seal));
        }
    }

    #[test]
    fn a_frame_over_a_chunk_border_is_refused() {
        let directory = Directory::Data {
            frames: vec![FrameEntry { blocks: BlockRange::new(15, 2), offset: 0, stored_len: 1 }],
            zeros: vec![],
        };
        assert!(matches!(decode_plain(&encode_plain(&directory)), Err(FormatError::Invalid(_))));
    }
}
