//! Evicting files from the cache because a person wants the space.

use super::super::Drive;
use crate::api::{Evicted, Failure, Unit};
use crate::daemon::failure;
use crate::daemon::pins::{What, is_below};
use crate::daemon::work::Work;
use holdall_core::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, ChunkIndex};
use std::sync::Arc;

/// Chunks that are evicted at once: each turn makes a bitmap durable.
const CHUNKS_AT_ONCE: usize = 4096;

impl Drive {
    /// Evicts files from the cache as far as the store has them. Refuses a pinned path; a pinned part of a path stays.
    pub async fn evict(self: &Arc<Self>, what: &What, work: &Work) -> Result<Evicted, Failure> {
        self.check_not_pinned(what)?;
        let Some(volume) = self.live.read().clone() else {
            let has_pins = !self.pins.state.lock().paths.is_empty();
            return match what {
                What::Whole if has_pins => Err(failure::evict_pinned(&self.name, None)),
                What::Whole => self.evict_closed().await,
                What::Paths(_) => Err(failure::not_mounted(&self.name)),
            };
        };
        let local = |error: std::io::Error| failure::local(&error);
        let before = volume.status().cached_bytes;
        let What::Paths(paths) = what else {
            volume.let_go_of_all().await.map_err(local)?;
            let stayed_bytes = volume.status().cached_bytes;
            return Ok(Evicted { bytes_freed: before.saturating_sub(stayed_bytes), stayed_bytes });
        };
        let mut runs: Vec<BlockRange> = Vec::new();
        for path in paths {
            let told = work.clone();
            let counted = move |files| told.progress("Looking at files", files, 0, Unit::Items);
            let looked =
                work.unless_interrupted(failure::NOTHING_CHANGED, self.tally(path, (false, true), counted));
            let tally =
                looked.await?.map_err(|error| failure::unscannable(&self.shown_path(path), &error))?;
            runs.extend(tally.file_runs());
        }
        let chunks_of = |run: &BlockRange| run.start / CHUNK_BLOCKS..run.end.div_ceil(CHUNK_BLOCKS);
        let mut chunks: Vec<_> = runs.iter().flat_map(chunks_of).map(ChunkIndex).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let mut bytes_freed = 0;
        for some in chunks.chunks(CHUNKS_AT_ONCE) {
            bytes_freed += volume.let_go(some).await.map_err(local)?;
        }
        let blocks: u64 = runs.iter().map(BlockRange::count).sum();
        let stayed_bytes = blocks.saturating_sub(volume.missing_blocks(&runs)) * BLOCK_BYTES;
        Ok(Evicted { bytes_freed, stayed_bytes })
    }

    fn check_not_pinned(&self, what: &What) -> Result<(), Failure> {
        let state = self.pins.state.lock();
        if state.whole {
            return Err(failure::evict_pinned(&self.name, None));
        }
        let What::Paths(paths) = what else { return Ok(()) };
        let pin_of = |path: &String| state.paths.keys().find(|pinned| is_below(path, pinned));
        match paths.iter().find_map(pin_of) {
            Some(pinned) => Err(failure::evict_pinned(&self.name, Some(&self.shown_path(pinned)))),
            None => Ok(()),
        }
    }
}
