//! Checkpoints: the overlay is merged into the pages that it changes, so that opening the drive reads a short tail.

use super::{Content, Frame, Map, State, pages::Loaded};
use crate::format::id::ObjectId;
use crate::format::page::{FrameRef, Page, PageRun, SegmentRef};
use crate::format::root::BoxRef;
use crate::format::usage::Usage;
use crate::map::ReadError;
use crate::units::BlockRange;
use std::collections::BTreeMap;

/// Pages to be written, and the map that follows once they are committed.
pub struct Checkpoint {
    /// New versions of the changed pages; a page without runs is all zero and is dropped.
    pub pages: Vec<Page>,
    /// How the reach of segments changes: bytes before and after, with the segment's length.
    pub reach: BTreeMap<ObjectId, Reach>,
}

/// How much of a segment pages reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    /// Length of the segment.
    pub len: u64,
    /// Bytes that the old versions of the changed pages reach.
    pub before: u64,
    /// Bytes that the new versions reach.
    pub after: u64,
}

impl Checkpoint {
    /// The usage table that follows from the one before.
    pub fn usage(&self, mut table: BTreeMap<ObjectId, Usage>) -> BTreeMap<ObjectId, Usage> {
        for (id, reach) in &self.reach {
            let usage = table.entry(*id).or_insert(Usage { len: reach.len, reached: 0 });
            usage.reached = (usage.reached + reach.after).saturating_sub(reach.before);
        }
        table.retain(|_, usage| usage.reached > 0);
        table
    }
}

impl Map {
    /// Merges the overlay into the pages that it changes. Only the writer calls this, between commits, so the overlay does
    /// not change meanwhile.
    pub async fn checkpoint(&self) -> Result<Checkpoint, ReadError> {
        let (touched, places, geometry) = {
            let state = self.state.lock();
            (state.touched_pages(), state.pages.clone(), state.geometry)
        };
        let mut checkpoint = Checkpoint { pages: Vec::new(), reach: BTreeMap::new() };
        for index in touched {
            let range = geometry.page_range(index);
            let old = match places.get(&index) {
                Some(place) => Some(self.objects.page(*place, index, range).await?),
                None => None,
            };
            let page = self.state.lock().merge(index, range, old.as_deref());
            if let Some(old) = &old {
                checkpoint.count(&old.page, |reach, bytes| reach.before += bytes);
            }
            checkpoint.count(&page, |reach, bytes| reach.after += bytes);
            checkpoint.pages.push(page);
            tokio::task::yield_now().await;
        }
        Ok(checkpoint)
    }

    /// The pages of a checkpoint are committed, each at its place (or dropped).
    pub fn adopt(&self, checkpoint: Checkpoint, places: &BTreeMap<u32, BoxRef>) {
        let mut state = self.state.lock();
        for page in checkpoint.pages {
            let replaced = match places.get(&page.index) {
                Some(place) => {
                    let replaced = state.pages.insert(page.index, *place);
                    self.objects.remember(*place, page);
                    replaced
                }
                None => state.pages.remove(&page.index),
            };
            self.objects.forget(replaced, &[]);
        }
        let overlay = std::mem::take(&mut state.overlay);
        self.objects.forget(None, &overlay.segments);
    }
}

impl Checkpoint {
    fn count(&mut self, page: &Page, add: impl Fn(&mut Reach, u64)) {
        for (segment, bytes) in page.segments.iter().zip(page.reached_bytes()) {
            let reach =
                self.reach.entry(segment.id).or_insert(Reach { len: segment.len, ..Reach::default() });
            add(reach, bytes);
        }
    }
}

impl State {
    fn merge(&self, index: u32, range: BlockRange, old: Option<&Loaded>) -> Page {
        let mut found = Vec::new();
        self.collect(range, old, &mut found);
        let mut page = Page { index, ..Page::default() };
        let mut segments = BTreeMap::new();
        for (blocks, content) in found {
            let Content::Frame(Frame { segment, segment_len, offset, stored_len, blocks: frame_blocks }) =
                content
            else {
                continue;
            };
            let segment = *segments.entry(segment).or_insert_with(|| {
                page.segments.push(SegmentRef { id: segment, len: segment_len });
                page.segments.len() as u32 - 1
            });
            let frame = FrameRef { segment, offset, stored_len, blocks: frame_blocks };
            page.runs.push(PageRun { blocks, frame });
        }
        page
    }
}
