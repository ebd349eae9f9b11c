//! Map pages: where in the store each block is, for one page of the drive (1 GiB by default).

use super::FormatError;
use super::id::{ID_BYTES, ObjectId};
use super::segment::read_run;
use super::wire::{Reader, Writer};
use crate::units::{BlockRange, CHUNK_BLOCKS};
use std::collections::BTreeMap;

/// A segment that a page refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Its id.
    pub id: ObjectId,
    /// Length of the object in bytes.
    pub len: u64,
}

/// The frame that holds a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameRef {
    /// Index of its segment in the page's table.
    pub segment: u32,
    /// Where its box begins in the object.
    pub offset: u32,
    /// Length of its box.
    pub stored_len: u32,
    /// All blocks of the frame; the run may be only a part of them.
    pub blocks: BlockRange,
}

/// A run of blocks and its place. Blocks that no run covers are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The blocks.
    pub blocks: BlockRange,
    /// The frame that contains them.
    pub frame: FrameRef,
}

/// One page of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its index.
    pub index: u32,
    /// The segments that its runs refer to.
    pub segments: Vec<SegmentRef>,
    /// Runs, ascending.
    pub runs: Vec<PageRun>,
}

impl Page {
    /// For each segment in the table, the bytes of boxes that the page refers to. A frame counts once, however many runs refer to it.
    pub fn reached_bytes(&self) -> Vec<u64> {
        let mut reached = vec![0; self.segments.len()];
        let mut seen = BTreeMap::new();
        for run in &self.runs {
            let frame = (run.frame.segment, run.frame.offset);
            if seen.insert(frame, ()).is_none() {
                reached[run.frame.segment as usize] += u64::from(run.frame.stored_len);
            }
        }
        reached
    }

    /// The page's bytes; its blocks begin at `first_block`.
    pub fn encode(&self, first_block: u64) -> Vec<u8> {
        let mut w = Writer::new();
        w.varint(self.index.into()).varint(self.segments.len() as u64);
        for segment in &self.segments {
            segment.id.write(&mut w);
            w.varint(segment.len);
        }
        w.varint(self.runs.len() as u64);
        let mut end = first_block;
        for PageRun { blocks, frame } in &self.runs {
            w.varint(blocks.start - end).varint(blocks.count()).varint(frame.segment.into());
            w.varint(frame.offset.into()).varint(frame.stored_len.into());
            w.varint(frame.blocks.count()).varint(blocks.start - frame.blocks.start);
            end = blocks.end;
        }
        w.finish()
    }

    /// Reads a page whose blocks are `range`.
    pub fn decode(bytes: &[u8], index: u32, range: BlockRange) -> Result<Self, FormatError> {
        let mut r = Reader::new(bytes);
        if r.varint()? != u64::from(index) {
            return Err(FormatError::Invalid("it is another page of the map"));
        }
        let mut segments = Vec::with_capacity(r.count(ID_BYTES + 1)?);
        for _ in 0..segments.capacity() {
            segments.push(SegmentRef { id: ObjectId::read(&mut r)?, len: r.varint()? });
        }
        let mut end = range.start;
        let runs = r.list(7, |r| {
            let blocks = read_run(r, &mut end)?;
            let (segment, offset, stored_len) = (r.varint32()?, r.varint32()?, r.varint32()?);
            let (count, skip) = (r.varint()?, r.varint()?);
            let object =
                segments.get(segment as usize).ok_or(FormatError::Invalid("a run names no segment"))?;
            if u64::from(offset) + u64::from(stored_len) > object.len {
                return Err(FormatError::Invalid("a frame lies beyond its segment"));
            }
            let fits = count <= CHUNK_BLOCKS && skip <= count && skip + blocks.count() <= count;
            if !fits || skip > blocks.start || blocks.end > range.end {
                return Err(FormatError::Invalid("a run does not fit its frame"));
            }
            let frame_blocks = BlockRange::new(blocks.start - skip, count);
            Ok(PageRun { blocks, frame: FrameRef { segment, offset, stored_len, blocks: frame_blocks } })
        })?;
        r.end()?;
        Ok(Self { index, segments, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Epoch;

    fn page() -> Page {
        let id = ObjectId { drive: uuid::Uuid::from_u128(1), epoch: Epoch(1), seq: 2, unique: 3 };
        let frame = |start, count, offset| FrameRef {
            segment: 0,
            offset,
            stored_len: 100,
            blocks: BlockRange::new(start, count),
        };
        let run = |start, count, frame| PageRun { blocks: BlockRange::new(start, count), frame };
        let split = frame(520, 4, 200);
        Page {
            index: 2,
            segments: vec![SegmentRef { id, len: 1000 }],
            runs: vec![run(512, 2, frame(512, 2, 16)), run(520, 1, split), run(523, 1, split)],
        }
    }

    #[test]
    fn a_page_survives_the_round_trip() {
        let page = page();
        let range = BlockRange::new(512, 256);
        assert_eq!(Page::decode(&page.encode(512), 2, range), Ok(page.clone()));
        assert_eq!(page.reached_bytes(), [200], "a split frame counts once");
        assert!(Page::decode(&page.encode(512), 3, range).is_err());
    }

    #[test]
    fn runs_outside_their_frame_page_or_segment_are_refused() {
        let range = BlockRange::new(512, 256);
        let damaged = |damage: fn(&mut Page)| {
            let mut page = page();
            damage(&mut page);
            Page::decode(&page.encode(512), 2, range)
        };
        assert!(damaged(|p| p.runs[2].frame.segment = 1).is_err());
        assert!(damaged(|p| p.runs[2].frame.offset = 950).is_err());
        assert!(damaged(|p| p.runs[2].blocks.end += 1).is_err());
        assert!(damaged(|p| p.runs[2].blocks = BlockRange::new(768, 1)).is_err());
    }
}
