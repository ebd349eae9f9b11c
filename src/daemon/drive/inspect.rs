//! Looking at a drive without changing anything.

use super::Drive;
use crate::api::{self, Action, ActivityKind, Failure, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use amounts::Traffic;
use holdall_core::drive::check;
use holdall_core::journal::Place;
use holdall_core::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS};
use holdall_core::volume::Volume;
use std::sync::Arc;

mod amounts;

impl Drive {
    /// Where its chunks are.
    pub fn map(&self) -> Result<api::ChunkMap, Failure> {
        const CELLS_MAX: u64 = 4096;
        let live = self.live.read();
        let volume = live.as_ref().ok_or_else(|| {
            failure::state("The drive is closed.", Action::Open { drive: Some(self.name.clone()) })
        })?;
        let chunks = volume.size_blocks().div_ceil(CHUNK_BLOCKS);
        let per_cell = chunks.div_ceil(CELLS_MAX).max(1);
        let (uploading, failing) = volume.pusher().map_or((false, false), |pusher| {
            let state = pusher.state();
            let state = state.borrow();
            (state.pushing, state.pushing && state.trouble.is_some())
        });
        let (residents, health) = (volume.cache().residents(), volume.puller().health());
        let damage = health.borrow().damage.as_ref().map(|(blocks, _)| *blocks);
        let cell = |cell: u64| {
            let first = cell * per_cell * CHUNK_BLOCKS;
            let blocks = BlockRange::new(first, per_cell * CHUNK_BLOCKS);
            let blocks = blocks.intersect(&volume.all_blocks());
            // Checked before anything else: pending zeros have nothing to upload, and a new drive is all zeros.
            if is_empty(volume, blocks) {
                api::Cell::Empty
            } else if uploading && volume.journal().is_sealing(blocks) {
                if failing { api::Cell::Failed } else { api::Cell::Uploading }
            } else if damage.is_some_and(|damage| damage.overlaps(&blocks)) {
                api::Cell::Failed
            } else if volume.pusher().is_some() && volume.journal().is_dirty(blocks) {
                api::Cell::Dirty
            } else if residents.is_pinned(blocks)
                && volume.missing_blocks(&residents.pinned_runs(blocks)) == 0
            {
                api::Cell::Pinned
            } else if volume.cache().valid().any(blocks) || volume.journal().holds_any(blocks) {
                api::Cell::Cached
            } else {
                api::Cell::Absent
            }
        };
        let cells = (0..chunks.div_ceil(per_cell)).map(cell).collect();
        let used_bytes = Some(self.figures.last_used_bytes()).filter(|used| *used > 0);
        let traffic = Traffic { is_sending: uploading, is_failing: failing, damage, used_bytes };
        let bytes = amounts::count(volume, traffic);
        Ok(api::ChunkMap { cell_bytes: per_cell * CHUNK_BLOCKS * BLOCK_BYTES, cells, bytes })
    }

    /// Reads and checks every object of the drive.
    pub async fn check(self: &Arc<Self>, work: Work) -> Result<api::Checked, Failure> {
        let (objects, _) = self.objects().await?;
        let progress = |done, total| work.progress("Checking objects", done, total, Unit::Items);
        let checking = check::check(&objects, self.uuid(), &progress);
        let checked = work.unless_interrupted("Nothing was changed; the check is not complete.", checking);
        let checked = checked.await?.map_err(|error| failure::drive(&error))?;
        let ok = checked.errors.is_empty();
        self.note_foreign(&checked.foreign);
        Ok(api::Checked { ok, objects: checked.objects, errors: checked.errors, foreign: checked.foreign })
    }
}

impl Drive {
    /// Reports objects in the store that are not Holdall's.
    fn note_foreign(&self, foreign: &[String]) {
        let Some(first) = foreign.first() else { return };
        let others = match foreign.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let message = format!(
            "The store contains objects that are not Holdall's: {first}{others}. They were skipped, and your files are not affected. \
             Delete them with the tool that put them there."
        );
        self.note(ActivityKind::Attention, message);
    }
}

/// Whether all of it is here and it is empty: a run of zeros takes no space, neither in the cache nor on its way there.
fn is_empty(volume: &Volume, blocks: BlockRange) -> bool {
    let cache = volume.cache();
    let is_empty = |run| cache.valid().all(run) && cache.taken_by(run).is_ok_and(|taken| taken == 0);
    if !volume.journal().holds_any(blocks) {
        return is_empty(blocks);
    }
    volume.journal().look_up(blocks).into_iter().all(|(run, entry)| match entry.map(|entry| entry.place) {
        Some(Place::Zero) => true,
        Some(Place::Data { .. }) => false,
        None => is_empty(run),
    })
}
