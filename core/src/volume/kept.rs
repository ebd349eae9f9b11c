//! The metadata of the last opening. It stays from the first moment of the next opening on: what is metadata is not known before the file
//! system has been read, and that takes the store if some of it is not here.

use super::notes;
use crate::bitmap::Bitmap;
use crate::cache::Cache;
use crate::disk::Disk;
use crate::units::BlockRange;

const NAME: &str = "metadata.json";

/// Keeps the blocks that were metadata, `most` of them.
pub(super) fn again(disk: &dyn Disk, cache: &Cache, most: u64) {
    let all = BlockRange { start: 0, end: cache.valid().capacity() };
    let noted: Vec<(u64, u64)> = notes::load(disk, NAME).unwrap_or_default();
    let runs = noted.into_iter().map(|(start, end)| BlockRange { start, end }.intersect(&all));
    let mut count = 0;
    // A run that is too large, such as the file system's journal, leaves space for the rest.
    for run in runs.filter(|run| !run.is_empty()) {
        if count + run.count() <= most {
            count += run.count();
            cache.residents().keep(run);
        }
    }
}

/// Releases kept blocks that are no longer metadata. Returns how many there were.
pub(super) fn let_go(cache: &Cache, now: &Bitmap) -> u64 {
    let residents = cache.residents();
    let mut count = 0;
    for kept in residents.kept_runs(BlockRange { start: 0, end: cache.valid().capacity() }) {
        let mut at = kept.start;
        while at < kept.end {
            let (stays, run) = now.run(BlockRange { start: at, end: kept.end });
            if !stays {
                residents.let_go(run, cache.valid());
                count += run.count();
            }
            at = run.end;
        }
    }
    count
}

/// Notes the blocks that are metadata now, the most important ones first.
pub(super) fn note(disk: &dyn Disk, runs: impl Iterator<Item = BlockRange>) {
    let runs: Vec<_> = runs.map(|run| (run.start, run.end)).collect();
    if runs.is_empty() {
        return;
    }
    if let Err(error) = notes::store(disk, NAME, &runs) {
        tracing::debug!(%error, "what is metadata is not noted");
    }
}
