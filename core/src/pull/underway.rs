//! Background pulls under way. Once a reader waits for the blocks of one, that pull runs as fast as if the reader had begun
//! it.

use crate::store::pace::Background;
use crate::units::BlockRange;
use parking_lot::Mutex;
use std::sync::Arc;

/// The pulls under way.
#[derive(Default)]
pub(super) struct Underway {
    // Held only for a walk over the few pulls.
    pulls: Arc<Mutex<Vec<Pull>>>,
}

#[derive(Clone)]
struct Pull {
    blocks: BlockRange,
    work: Background,
}

/// One pull, until it is dropped.
pub(super) struct Registered {
    pulls: Arc<Mutex<Vec<Pull>>>,
    /// Whether it still runs in the background.
    pub work: Background,
    blocks: BlockRange,
}

impl Underway {
    /// A background pull of these blocks begins. No two pulls have the same blocks.
    pub fn begin(&self, blocks: BlockRange) -> Registered {
        let work = Background::default();
        self.pulls.lock().push(Pull { blocks, work: work.clone() });
        Registered { pulls: self.pulls.clone(), work, blocks }
    }

    /// A reader waits for these blocks.
    pub fn are_awaited(&self, blocks: BlockRange) {
        let pulls = self.pulls.lock();
        pulls.iter().filter(|pull| pull.blocks.overlaps(&blocks)).for_each(|pull| pull.work.is_awaited_now());
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pulls.lock().retain(|pull| pull.blocks != self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::pace::is_background;

    #[tokio::test]
    async fn a_pull_that_a_reader_waits_for_leaves_the_background() {
        let underway = Underway::default();
        let one = underway.begin(BlockRange::new(0, 8));
        let other = underway.begin(BlockRange::new(8, 8));
        let in_background = async |pull: &Registered| pull.work.run(async { is_background() }).await;
        assert!(in_background(&one).await && in_background(&other).await);
        underway.are_awaited(BlockRange::new(6, 1));
        assert!(!in_background(&one).await && in_background(&other).await);
        drop(one);
        // Its blocks are pulled again, without a reader.
        assert!(in_background(&underway.begin(BlockRange::new(0, 8))).await);
    }
}
