//! Read-ahead: how readers read, and what to want because of that.

use super::Puller;
use super::queue::Class;
use super::small_files::SmallFiles;
use super::source::{FileNumber, Files, Source};
use super::streams::{Part, Space, Streams};
use super::strides::Strides;
use crate::units::BlockRange;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// The patterns of readers.
#[derive(Default)]
pub(super) struct Patterns {
    streams: Streams,
    strides: Strides,
    neighbours: SmallFiles,
}

impl<S: Source> Puller<S> {
    /// The file is a film or the like: programs jump in it and continue from there.
    pub fn note_played(&self, file: FileNumber) {
        self.patterns.lock().streams.note_played(file);
    }

    /// A reader reads blocks, some of which were `missed` or none: what follows is pulled ahead of it.
    pub fn note_read(self: &Arc<Self>, blocks: BlockRange, missed: bool) {
        if !missed && !self.is_streaming.load(Relaxed) {
            return;
        }
        // While the files are being updated, it is unknown whose these blocks are, and the next read comes soon.
        let Some(files) = self.source.files().try_read() else { return };
        let place = files.file_at(blocks.start);
        let most = self.blocks_ahead();
        let drive = BlockRange::new(0, self.source.size_blocks());
        let (absent, no_more) = {
            let Patterns { streams, strides, neighbours } = &mut *self.patterns.lock();
            let (space, part) = match place {
                Some(at) => {
                    (Space { file: Some(at.file), end: at.end }, BlockRange::new(at.at, blocks.count()))
                }
                None => (Space { file: None, end: drive.end }, blocks),
            };
            let step = streams.read(space, part, missed, most, Instant::now().into_std());
            let mut absent = Vec::new();
            if let Some(want) = step.want {
                absent = on_drive(&*files, want).into_iter().flat_map(|run| self.missing(run)).collect();
                streams.was_missing(want.blocks.count(), absent.iter().map(BlockRange::count).sum());
            }
            let mut next = if step.want.is_none() { strides.read(blocks) } else { Vec::new() };
            self.is_streaming.store(streams.is_any_open() || !next.is_empty(), Relaxed);
            let around = place.filter(|_| missed).and_then(|place| neighbours.missed(place, blocks));
            next.extend(around.filter(|around| around.count() <= most));
            absent.extend(next.into_iter().flat_map(|next| self.missing(next.intersect(&drive))));
            let no_more: Vec<_> = step.no_more.into_iter().flat_map(|part| on_drive(&*files, part)).collect();
            (absent, no_more)
        };
        drop(files);
        if absent.is_empty() && no_more.is_empty() {
            return;
        }
        {
            let mut queue = self.queue.lock();
            for range in no_more {
                queue.want_no_more(range);
            }
            absent.into_iter().for_each(|run| queue.want(Class::ReadAhead, run));
        }
        self.pump();
    }

    /// Drops read-ahead that waits for readers that have stopped.
    pub(super) fn leave_idle(&self) {
        let Some(files) = self.source.files().try_read() else { return };
        self.patterns.lock().streams.leave_idle(Instant::now().into_std(), |part| {
            let mut queue = self.queue.lock();
            on_drive(&*files, part).into_iter().fold(false, |any, run| queue.want_no_more(run) | any)
        });
    }

    /// How many blocks ahead of a stream are useful and do not push other readers' blocks out of a small cache.
    fn blocks_ahead(&self) -> u64 {
        /// The share of the cache's limit that may be wanted ahead: one part in this many.
        const AHEAD_SHARE: u64 = 16;
        let room = self.room.limit() / AHEAD_SHARE / crate::units::BLOCK_BYTES;
        self.queue.lock().blocks_ahead().min(room)
    }
}

/// Drops the read-ahead of readers that have stopped, even while no pull ends that would do it.
pub(super) async fn leave_idle_readers<S: Source>(puller: Weak<Puller<S>>) {
    const LOOK_EVERY: Duration = Duration::from_secs(5);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(puller) = puller.upgrade() else { return };
        puller.leave_idle();
    }
}

/// Where a part lies on the drive.
fn on_drive(files: &impl Files, part: Part) -> Vec<BlockRange> {
    match part.file {
        None => vec![part.blocks],
        Some(file) => files.blocks_of(file, part.blocks),
    }
}
