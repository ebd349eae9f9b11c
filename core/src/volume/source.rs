//! The source of an open drive's blocks: the frames of its map, fetched from the store. Blocks that were written here since are in the
//! journal. ext4's metadata shows which file has which blocks ([`Walk`]).

use super::Volume;
use crate::ext4::{InodeNumber, Walk};
use crate::format::family;
use crate::format::id::ObjectKind;
use crate::journal::Journal;
use crate::map::{self, Frame, Map, ReadError};
use crate::pull::prefetch::LocalBlocks;
use crate::pull::{Content, FileNumber, FilePlace, Files, Found, Puller, Source};
use crate::store::StoreError;
use crate::units::BlockRange;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;

/// A drive's map and journal.
pub struct MapSource {
    map: Arc<Map>,
    journal: Arc<Journal>,
    files: Arc<RwLock<Walk>>,
}

impl MapSource {
    pub(super) fn new(map: Arc<Map>, journal: Arc<Journal>, files: Arc<RwLock<Walk>>) -> Self {
        Self { map, journal, files }
    }
}

impl Source for MapSource {
    type Part = Frame;
    type Files = Walk;

    fn size_blocks(&self) -> u64 {
        self.map.size_blocks()
    }

    async fn look_up(&self, range: BlockRange) -> Result<Found<Frame>, ReadError> {
        let content = |content| match content {
            map::Content::Zero => Content::Zero,
            map::Content::Frame(frame) => Content::Part(frame),
        };
        let found = self.map.look_up(range).await?;
        Ok(found.into_iter().map(|(run, what)| (run, content(what))).collect())
    }

    fn blocks_of(&self, frame: &Frame) -> BlockRange {
        frame.blocks
    }

    fn requests(&self, frames: Vec<Frame>) -> Vec<Vec<Frame>> {
        requests(frames)
    }

    async fn fetch(&self, frames: &[Frame]) -> Result<Vec<Vec<u8>>, ReadError> {
        let objects = self.map.objects();
        let range = extent(frames);
        let name = frames[0].segment.name(ObjectKind::Segment);
        let open = |body: &[u8]| {
            let open = |frame: &Frame| {
                let at = (u64::from(frame.offset) - range.start) as usize;
                objects.open_frame(frame, body.get(at..at + frame.stored_len as usize).unwrap_or_default())
            };
            frames.iter().map(open).collect::<Result<Vec<_>, _>>()
        };
        let (opened, _) = map::read(objects.store().as_ref(), &name, Some(range.clone()), open).await?;
        Ok(opened)
    }

    fn not_written_here(&self, range: BlockRange) -> Vec<BlockRange> {
        if !self.journal.holds_any(range) {
            return vec![range];
        }
        let written = self.journal.look_up(range).into_iter();
        written.filter_map(|(run, entry)| entry.is_none().then_some(run)).collect()
    }

    async fn ask(&self) -> Result<(), StoreError> {
        match self.map.objects().store().get(family::NAME, None).await {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn files(&self) -> &RwLock<Walk> {
        &self.files
    }
}

impl LocalBlocks for Volume {
    type Source = MapSource;

    fn read_local(&self, blocks: BlockRange, bytes: &mut [u8]) -> bool {
        self.lease(&blocks.bytes()).is_some_and(|lease| lease.copy_to(bytes).is_ok())
    }

    fn puller(&self) -> &Arc<Puller<MapSource>> {
        &self.puller
    }

    fn limit_bytes(&self) -> u64 {
        self.room.limit()
    }
}

impl Files for Walk {
    fn file_at(&self, block: u64) -> Option<FilePlace> {
        let (InodeNumber(inode), at) = self.owner_of(block)?;
        let end = self.blocks_in(InodeNumber(inode))?;
        Some(FilePlace { file: FileNumber(inode), at, end })
    }

    fn blocks_of(&self, file: FileNumber, part: BlockRange) -> Vec<BlockRange> {
        self.blocks_within(InodeNumber(file.0), part)
    }
}

/// Groups frames, which are in order, by ranged request: those of one segment that are next to each other, or nearly.
fn requests(frames: Vec<Frame>) -> Vec<Vec<Frame>> {
    /// Fetching this many unneeded bytes is cheaper than another request.
    const GAP_BYTES: u64 = 16 << 10;
    /// Bytes of one request at most, so that reads can be spread and retried.
    const REQUEST_BYTES_MAX: u64 = 1 << 20;
    let mut groups: Vec<Vec<Frame>> = Vec::new();
    for frame in frames {
        if let Some(group) = groups.last_mut() {
            let extent = extent(group);
            let end = u64::from(frame.offset) + u64::from(frame.stored_len);
            let near = u64::from(frame.offset) <= extent.end + GAP_BYTES;
            if group[0].segment == frame.segment && near && end - extent.start <= REQUEST_BYTES_MAX {
                group.push(frame);
                continue;
            }
        }
        groups.push(vec![frame]);
    }
    groups
}

fn extent(frames: &[Frame]) -> Range<u64> {
    let start = frames.iter().map(|frame| u64::from(frame.offset)).min().unwrap_or(0);
    let end =
        frames.iter().map(|frame| u64::from(frame.offset) + u64::from(frame.stored_len)).max().unwrap_or(0);
    start..end
}
