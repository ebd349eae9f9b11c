//! Predicts what a program will read next from a file that it has opened, by the file's format ([`crate::formats`]).

use super::{Class, FileNumber, PullError, Puller, Source};
use crate::formats::{self, HEAD_BYTES, Peek};
use crate::units::{BLOCK_BYTES, BlockRange};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// How many rounds of following references: in a database, these are pages of its schema, its overflow pages, roots, and
/// two levels below.
const ROUNDS_MAX: usize = 6;

/// The local blocks of a drive or a folder, and the way to get more.
pub(crate) trait LocalBlocks: Send + Sync + 'static {
    /// Where missing blocks come from.
    type Source: Source;

    /// Fills `bytes` with local blocks; false if some are not here.
    fn read_local(&self, blocks: BlockRange, bytes: &mut [u8]) -> bool;

    /// Fetches missing blocks.
    fn puller(&self) -> &Arc<Puller<Self::Source>>;

    /// The limit of the cache in bytes.
    fn limit_bytes(&self) -> u64;
}

/// Where a file's bytes are.
pub(crate) struct Layout {
    /// Its length in bytes.
    pub len: u64,
    /// Where each run begins in the file, in blocks, and its blocks on the drive, in order.
    pub runs: Vec<(u64, BlockRange)>,
}

impl Layout {
    /// The blocks that hold these bytes of the file, without holes.
    fn blocks(&self, bytes: &Range<u64>) -> Vec<BlockRange> {
        let wanted = BlockRange::covering(bytes);
        let part = |(at, run): &(u64, BlockRange)| {
            let inside = BlockRange::new(*at, run.count()).intersect(&wanted);
            let start = run.start + inside.start.saturating_sub(*at);
            (!inside.is_empty()).then(|| BlockRange::new(start, inside.count()))
        };
        self.runs.iter().filter_map(part).collect()
    }
}

/// A file, as far as it is here.
struct File<'a, L> {
    here: &'a L,
    layout: &'a Layout,
}

impl<L: LocalBlocks> Peek for File<'_, L> {
    fn len(&self) -> u64 {
        self.layout.len
    }

    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let covering = BlockRange::covering(&range);
        // Bytes that no run covers are a hole.
        let mut bytes = vec![0; covering.byte_len() as usize];
        for (at, run) in &self.layout.runs {
            let inside = BlockRange::new(*at, run.count()).intersect(&covering);
            if inside.is_empty() {
                continue;
            }
            let on_drive = BlockRange::new(run.start + inside.start - at, inside.count());
            let from = ((inside.start - covering.start) * BLOCK_BYTES) as usize;
            let part = &mut bytes[from..from + inside.byte_len() as usize];
            if !self.here.read_local(on_drive, part) {
                return None;
            }
        }
        let from = (range.start - covering.start * BLOCK_BYTES) as usize;
        Some(bytes[from..from + (range.end - range.start) as usize].to_vec())
    }
}

/// Whether the beginning of the file is here.
pub(crate) fn is_begun(here: &impl LocalBlocks, layout: &Layout) -> bool {
    let head = layout.blocks(&(0..HEAD_BYTES.min(layout.len)));
    head.iter().all(|run| here.puller().missing(*run).is_empty())
}

/// Pulls the beginning of the file, then what its format will need.
pub(crate) async fn foresee<L: LocalBlocks>(
    here: Weak<L>,
    file: FileNumber,
    layout: Layout,
) -> Result<(), PullError> {
    let head = 0..HEAD_BYTES.min(layout.len);
    pull(&here, &layout, &[head]).await?;
    for _ in 0..ROUNDS_MAX {
        let Some(opened) = here.upgrade() else { break };
        let peek = File { here: &*opened, layout: &layout };
        let Some(format) = formats::recognise(&peek) else { break };
        if format.is_played {
            opened.puller().note_played(file);
        }
        let wants = format.wants(&peek);
        let is_here = |want: &Range<u64>| peek.bytes(want.clone()).is_some();
        if wants.iter().all(is_here) {
            break;
        }
        drop(opened);
        pull(&here, &layout, &wants).await?;
    }
    Ok(())
}

/// Pulls as much as may be wanted ahead in a cache of this size; nothing once the drive is closed.
async fn pull<L: LocalBlocks>(
    here: &Weak<L>,
    layout: &Layout,
    wants: &[Range<u64>],
) -> Result<(), PullError> {
    /// The share of the cache's limit that may be wanted ahead: one part in this many.
    const SHARE: u64 = 16;
    let Some(opened) = here.upgrade() else { return Ok(()) };
    let (puller, mut left) = (opened.puller().clone(), opened.limit_bytes() / BLOCK_BYTES / SHARE);
    drop(opened);
    let mut blocks: Vec<_> = wants.iter().flat_map(|want| layout.blocks(want)).collect();
    blocks.retain_mut(|run| {
        run.end = run.end.min(run.start + left);
        left -= run.count();
        !run.is_empty()
    });
    puller.pull_all(Class::ReadAhead, &blocks).await
}
