//! The blocks that readers wait for.

use crate::units::BlockRange;
use parking_lot::Mutex;
use std::sync::Arc;

/// The ranges that readers wait for, one for each reader.
#[derive(Default)]
pub(super) struct Waits {
    // Held only to look or to change: readers and evictions meet here.
    ranges: Mutex<Vec<BlockRange>>,
}

/// A reader that waits for blocks.
pub struct Awaited {
    waits: Arc<Waits>,
    blocks: BlockRange,
}

impl Waits {
    pub(super) fn begin(self: &Arc<Self>, blocks: BlockRange) -> Awaited {
        self.ranges.lock().push(blocks);
        Awaited { waits: self.clone(), blocks }
    }

    pub(super) fn any(&self, blocks: BlockRange) -> bool {
        self.ranges.lock().iter().any(|awaited| awaited.overlaps(&blocks))
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut ranges = self.waits.ranges.lock();
        let at = ranges.iter().position(|awaited| *awaited == self.blocks);
        ranges.swap_remove(at.expect("it was added when the reader began to wait"));
    }
}
