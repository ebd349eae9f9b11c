//! The map of an open drive: which bytes of the store hold each block.
//!
//! The pages of the last checkpoint, loaded on demand, lie under an overlay of what was committed since. Blocks that
//! neither maps are zero. The map knows only committed versions; dirty data lives in the journal.

use crate::format::id::ObjectId;
use crate::format::root::{BoxRef, Geometry, Root, TailSegment};
use crate::format::segment::Directory;
use crate::runs::{Run, RunMap};
use crate::units::BlockRange;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

mod checkpoint;
mod diff;
mod pages;

pub use crate::format::FormatError;
pub use crate::read_error::ReadError;
pub use checkpoint::Checkpoint;
pub use diff::differing;
pub(crate) use pages::read;
pub use pages::{Objects, PageCache};

/// The content of a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zero,
    /// Blocks of a frame.
    Frame(Frame),
}

/// A sealed frame and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The segment.
    pub segment: ObjectId,
    /// Length of the segment.
    pub segment_len: u64,
    /// Where the box begins in it.
    pub offset: u32,
    /// Length of the box.
    pub stored_len: u32,
    /// The blocks that the frame holds.
    pub blocks: BlockRange,
}

/// The size of the commits since the last checkpoint, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailBytes {
    /// Bytes of segments that they reach, by the share of each frame that still counts.
    pub reached: u64,
    /// Bytes of the drive that they write.
    pub covered: u64,
}

/// The map of one version of a drive. Commits carry it forward.
pub struct Map {
    objects: Arc<Objects>,
    // Held for look-ups and commits in memory only, never across I/O.
    state: Mutex<State>,
    /// Whether the directories of the tail are in the overlay.
    is_loaded: AtomicBool,
    // Held while they are loaded, so that this happens once.
    loading: tokio::sync::Mutex<()>,
}

struct State {
    geometry: Geometry,
    pages: BTreeMap<u32, BoxRef>,
    overlay: Overlay,
}

/// Commits since the pages were written.
#[derive(Clone, Default)]
pub(crate) struct Overlay {
    runs: RunMap<Target>,
    segments: Vec<TailSegment>,
}

/// A run in the overlay. The segment is an index, since there may be hundreds of thousands of runs.
#[derive(Clone, Copy, Debug)]
enum Target {
    Zero,
    Frame { segment: u32, offset: u32, stored_len: u32, first: u32, blocks: u8 },
}

impl Run for Target {
    fn skip(&self, _blocks: u64) -> Self {
        *self
    }
}

impl Overlay {
    /// Adds a segment of a commit that is later than all before.
    fn add(&mut self, segment: TailSegment, directory: &Directory) {
        let index = self.segments.len() as u32;
        self.segments.push(segment);
        let Directory::Data { frames, zeros } = directory else { return };
        for run in zeros {
            self.runs.insert(*run, Target::Zero);
        }
        for frame in frames {
            let (first, blocks) = (frame.blocks.start as u32, frame.blocks.count() as u8);
            let (offset, stored_len) = (frame.offset, frame.stored_len);
            self.runs
                .insert(frame.blocks, Target::Frame { segment: index, offset, stored_len, first, blocks });
        }
    }

    fn content(&self, target: Target) -> Content {
        match target {
            Target::Zero => Content::Zero,
            Target::Frame { segment, offset, stored_len, first, blocks } => {
                let TailSegment { object, object_len, .. } = self.segments[segment as usize];
                let blocks = BlockRange::new(first.into(), blocks.into());
                Content::Frame(Frame { segment: object, segment_len: object_len, offset, stored_len, blocks })
            }
        }
    }
}

impl Map {
    /// The map of `root`, with the directories of its tail read, all at once.
    pub async fn open(objects: Arc<Objects>, root: &Root) -> Result<Self, ReadError> {
        let map = Self::unread(objects, root);
        map.load().await?;
        Ok(map)
    }

    /// The map of `root`, with nothing read yet: the first look-up reads it, and later ones try again if that fails.
    pub fn unread(objects: Arc<Objects>, root: &Root) -> Self {
        let overlay = Overlay { runs: RunMap::default(), segments: root.tail.clone() };
        let state = State { geometry: root.geometry, pages: root.pages.clone(), overlay };
        let (is_loaded, loading) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        Self { objects, state: Mutex::new(state), is_loaded, loading }
    }

    /// Whether the directories of the tail were read.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Acquire)
    }

    /// Ready when the directories of the tail were read.
    pub async fn load(&self) -> Result<(), ReadError> {
        if self.is_loaded() {
            return Ok(());
        }
        let _one = self.loading.lock().await;
        loop {
            let segments = self.tail();
            if self.is_loaded() {
                return Ok(());
            }
            let overlay = load_overlay(&self.objects, &segments).await?;
            let mut state = self.state.lock();
            // While the directories were being read, another version may have replaced this one ([`rebase`](Self::rebase)),
            // and commits may have followed it. Then these directories are older than what is here.
            if !self.is_loaded() && state.overlay.segments == segments {
                state.overlay = overlay;
                self.is_loaded.store(true, Release);
            }
        }
    }

    /// Where objects are read from.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// The content of the blocks of `range`, in order and without gaps. Waits for pages that are not in memory.
    pub async fn look_up(&self, range: BlockRange) -> Result<Vec<(BlockRange, Content)>, ReadError> {
        self.load().await?;
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (index, part, page) = {
                let state = self.state.lock();
                let (index, part) = state.page_part(BlockRange { start: at, end: range.end });
                (index, part, state.pages.get(&index).copied())
            };
            let page = match page {
                None => None,
                // If the overlay covers the whole part, the page need not be loaded.
                Some(_) if self.state.lock().covered(part) => None,
                Some(place) => match self.objects.page(place, index, self.page_range(index)).await {
                    // A checkpoint has replaced the page meanwhile, and a collection has deleted it.
                    Err(error) if error.is_missing() && !self.is_current(index, place) => continue,
                    page => Some(page?),
                },
            };
            let state = self.state.lock();
            // A checkpoint may have replaced the page meanwhile and emptied the overlay: then both are read again.
            let current = state.pages.get(&index);
            if current.is_some() && page.is_none() && !state.covered(part)
                || page.as_ref().is_some_and(|loaded| current != Some(&loaded.place))
            {
                continue;
            }
            state.collect(part, page.as_deref(), &mut found);
            at = part.end;
        }
        Ok(found)
    }

    /// Adds the segments of a commit, in their order.
    pub fn commit(&self, segments: &[(TailSegment, Directory)]) {
        let mut state = self.state.lock();
        for (segment, directory) in segments {
            state.overlay.add(*segment, directory);
        }
    }

    /// Blocks of the drive.
    pub fn size_blocks(&self) -> u64 {
        self.state.lock().geometry.size_blocks
    }

    /// Sets a size that was committed.
    pub fn resize(&self, size_blocks: u64) {
        self.state.lock().geometry.size_blocks = size_blocks;
    }

    /// Continues from another version, whose blocks are the same wherever they are not dirty here.
    pub fn rebase(&self, other: Map) {
        let mut state = self.state.lock();
        let size_blocks = state.geometry.size_blocks;
        self.is_loaded.store(other.is_loaded.into_inner(), Release);
        *state = other.state.into_inner();
        state.geometry.size_blocks = size_blocks;
    }

    /// Segments since the pages were written.
    pub fn tail(&self) -> Vec<TailSegment> {
        self.state.lock().overlay.segments.clone()
    }

    /// Pages of the last checkpoint.
    pub fn pages(&self) -> BTreeMap<u32, BoxRef> {
        self.state.lock().pages.clone()
    }

    /// Whether the tail is so long that opening the drive would be slow, or the overlay is large.
    pub fn wants_checkpoint(&self, tail_segments_max: usize) -> bool {
        const TAIL_DIRECTORY_BYTES_MAX: u64 = 16 << 20;
        /// About 25 MB of memory.
        const OVERLAY_RUNS_MAX: usize = 500_000;
        let state = self.state.lock();
        let directories: u64 = state.overlay.segments.iter().map(|s| u64::from(s.directory_len)).sum();
        state.overlay.segments.len() > tail_segments_max
            || directories > TAIL_DIRECTORY_BYTES_MAX
            || state.overlay.runs.len() > OVERLAY_RUNS_MAX
    }

    /// The size of the commits since the last checkpoint; `None` before the tail is loaded.
    pub fn tail_bytes(&self) -> Option<TailBytes> {
        self.is_loaded().then(|| {
            let mut bytes = TailBytes::default();
            for (run, target) in self.state.lock().overlay.runs.iter() {
                bytes.covered += run.byte_len();
                if let Target::Frame { stored_len, blocks, .. } = *target {
                    bytes.reached += u64::from(stored_len) * run.count() / u64::from(blocks.max(1));
                }
            }
            bytes
        })
    }

    fn is_current(&self, index: u32, place: BoxRef) -> bool {
        self.state.lock().pages.get(&index) == Some(&place)
    }

    fn page_range(&self, index: u32) -> BlockRange {
        self.state.lock().geometry.page_range(index)
    }
}

impl Geometry {
    /// The blocks of a map page.
    pub fn page_range(&self, index: u32) -> BlockRange {
        BlockRange::new(u64::from(index) * self.page_blocks, self.page_blocks)
    }
}

impl State {
    /// The part of `range` that lies in the page of its first block.
    fn page_part(&self, range: BlockRange) -> (u32, BlockRange) {
        let index = (range.start / self.geometry.page_blocks) as u32;
        (index, range.intersect(&self.geometry.page_range(index)))
    }

    fn covered(&self, range: BlockRange) -> bool {
        self.overlay.runs.pieces(range).iter().all(|(_, target)| target.is_some())
    }

    fn collect(
        &self,
        range: BlockRange,
        page: Option<&pages::Loaded>,
        found: &mut Vec<(BlockRange, Content)>,
    ) {
        for (part, target) in self.overlay.runs.pieces(range) {
            match (target, page) {
                (Some(target), _) => push(found, part, self.overlay.content(target)),
                (None, None) => push(found, part, Content::Zero),
                (None, Some(page)) => page.look_up(part, |part, content| push(found, part, content)),
            }
        }
    }

    /// The pages that the overlay changes.
    fn touched_pages(&self) -> BTreeSet<u32> {
        let mut touched = BTreeSet::new();
        for (range, _) in self.overlay.runs.iter() {
            let (first, last) =
                (range.start / self.geometry.page_blocks, (range.end - 1) / self.geometry.page_blocks);
            touched.extend(first as u32..=last as u32);
        }
        touched
    }
}

/// Appends a run, merged with the one before if it continues that.
fn push(found: &mut Vec<(BlockRange, Content)>, range: BlockRange, content: Content) {
    match found.last_mut() {
        Some((last, same)) if *same == content && last.end == range.start => last.end = range.end,
        _ => found.push((range, content)),
    }
}

async fn load_overlay(objects: &Arc<Objects>, tail: &[TailSegment]) -> Result<Overlay, ReadError> {
    use futures_util::FutureExt;
    use futures_util::stream::{StreamExt, TryStreamExt};
    /// Directories are small: the round trip is what costs.
    const READS_AT_ONCE: usize = 64;
    let reads: Vec<_> = tail.iter().map(|segment| objects.directory(*segment).boxed()).collect();
    let directories: Vec<_> = futures_util::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
    let mut overlay = Overlay::default();
    for (segment, directory) in tail.iter().zip(&directories) {
        overlay.add(*segment, directory);
    }
    Ok(overlay)
}
