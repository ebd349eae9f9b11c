//! What differs between two versions: the blocks that a cache filled from one must not serve for the other.

use super::{Map, ReadError};
use crate::units::BlockRange;
use std::collections::BTreeSet;

/// The runs whose content may differ between the versions `old` and `new` (and whatever lies beyond the smaller
/// one). Pages that are the same object and that neither tail changes are not looked at.
pub async fn differing(old: &Map, new: &Map) -> Result<Vec<BlockRange>, ReadError> {
    let (indices, geometry) = {
        let (old, new) = (old.state.lock(), new.state.lock());
        let mut indices: BTreeSet<u32> = old.touched_pages();
        indices.extend(new.touched_pages());
        let all: BTreeSet<u32> = old.pages.keys().chain(new.pages.keys()).copied().collect();
        indices.extend(all.into_iter().filter(|index| old.pages.get(index) != new.pages.get(index)));
        (indices, new.geometry)
    };
    let mut runs: Vec<BlockRange> = Vec::new();
    for index in indices {
        let range = geometry.page_range(index);
        let (before, after) = (old.look_up(range).await?, new.look_up(range).await?);
        let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
        let mut at = range.start;
        while let (Some((old_run, old_content)), Some((new_run, new_content))) = (before.peek(), after.peek())
        {
            let part = BlockRange { start: at, end: old_run.end.min(new_run.end) };
            if old_content != new_content {
                match runs.last_mut() {
                    Some(last) if last.end == part.start => last.end = part.end,
                    _ => runs.push(part),
                }
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
    }
    Ok(runs)
}
