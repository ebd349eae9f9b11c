//! The difference between two versions: the blocks that a cache filled from one must not serve for the other.

use super::{Map, ReadError};
use crate::units::BlockRange;
use futures_util::FutureExt;
use futures_util::stream::{StreamExt, TryStreamExt};
use std::collections::BTreeSet;

/// Pages that are compared at once: each may have to be fetched, which costs a round trip and is at most 16 MiB.
const PAGES_AT_ONCE: usize = 16;

/// The runs whose content may differ between the versions `old` and `new`, including any that lie beyond the smaller one.
/// Pages that are the same object and that neither tail changes are skipped.
pub async fn differing(old: &Map, new: &Map) -> Result<Vec<BlockRange>, ReadError> {
    let (indices, geometry) = {
        let (old, new) = (old.state.lock(), new.state.lock());
        let mut indices: BTreeSet<u32> = old.touched_pages();
        indices.extend(new.touched_pages());
        let all: BTreeSet<u32> = old.pages.keys().chain(new.pages.keys()).copied().collect();
        indices.extend(all.into_iter().filter(|index| old.pages.get(index) != new.pages.get(index)));
        (indices, new.geometry)
    };
    let pages = indices.into_iter().map(|index| in_page(old, new, geometry.page_range(index)).boxed());
    let pages: Vec<_> = pages.collect();
    let found: Vec<_> = futures_util::stream::iter(pages).buffered(PAGES_AT_ONCE).try_collect().await?;
    let mut runs: Vec<BlockRange> = Vec::new();
    for run in found.into_iter().flatten() {
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => runs.push(run),
        }
    }
    Ok(runs)
}

/// The runs inside `range`; runs may follow each other without a gap.
async fn in_page(old: &Map, new: &Map, range: BlockRange) -> Result<Vec<BlockRange>, ReadError> {
    let (before, after) = tokio::try_join!(old.look_up(range), new.look_up(range))?;
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    let (mut at, mut runs) = (range.start, Vec::new());
    while let (Some((old_run, old_content)), Some((new_run, new_content))) = (before.peek(), after.peek()) {
        let part = BlockRange { start: at, end: old_run.end.min(new_run.end) };
        if old_content != new_content {
            runs.push(part);
        }
        let (old_end, new_end) = (old_run.end, new_run.end);
        at = part.end;
        if old_end == at {
            before.next();
        }
        if new_end == at {
            after.next();
        }
    }
    Ok(runs)
}
