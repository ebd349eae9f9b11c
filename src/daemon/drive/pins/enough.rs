//! Waiting until enough of a file is here to begin using it.

use super::super::Drive;
use super::tally::Tally;
use crate::api::{Action, Code, Failure, Unit, Waited};
use crate::daemon::failure::{self, failure};
use crate::daemon::pins::Deadline;
use crate::daemon::pins::wait::{OFFLINE_AFTER, PROGRESS_EVERY};
use crate::daemon::work::Work;
use crate::sizes::format_bytes;
use holdall_core::pull::{Class, PullError};
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::{Pinned, Volume};
use std::sync::Arc;
use std::time::Duration;

/// Blocks to pull at once: enough to fill a link.
const WINDOW_BLOCKS: u64 = (16 << 20) / BLOCK_BYTES;

impl Drive {
    /// Pulls a file, or everything below a directory, from its beginning until `percent` of it is here.
    pub async fn wait_for(
        self: &Arc<Self>,
        path: &str,
        percent: u8,
        deadline: &Deadline,
        work: &Work,
    ) -> Result<Waited, Failure> {
        let volume = self.live.read().clone().ok_or_else(|| failure::not_mounted(&self.name))?;
        if let Some(why) = self.pause() {
            return Err(failure::wait_paused(&self.name, why));
        }
        // Every scan of the drive may wait for the store.
        let tally = tokio::select! { biased;
            tally = self.tally_for(path, false, work) => tally?,
            timeout = deadline.passed() => {
                return Err(failure::wait_too_early(&self.shown_path(path), timeout));
            }
        };
        let file = File::new(&tally, percent);
        if file.is_enough(&volume) {
            return Ok(file.waited(&self.name, &volume));
        }
        self.check_room(&volume, &file).await?;
        let _stays = volume.hold(file.first.clone());
        let waiting = async {
            tokio::select! { biased;
                pulled = file.pull(&volume) => pulled.map_err(|error| failure::pull(&error)),
                failure = file.watch(self, &volume, work) => Err(failure),
                timeout = deadline.passed() => Err(self.too_late(path, &file, &volume, timeout)),
            }
        };
        work.unless_interrupted(failure::NOT_ENOUGH, waiting).await??;
        Ok(file.waited(&self.name, &volume))
    }

    async fn check_room(&self, volume: &Volume, file: &File) -> Result<(), Failure> {
        let with = |pinned: &Pinned| Pinned::runs(pinned.as_runs().iter().chain(&file.first).copied());
        let pinned = volume.pinned();
        if pinned.is_whole() {
            return Ok(());
        }
        let needed = volume.cache_needed_with(&with(&pinned)).await.map_err(|error| failure::pull(&error))?;
        let limit = volume.status().cache_limit_bytes;
        if needed <= limit {
            return Ok(());
        }
        Err(failure(
            Code::Full,
            format!(
                "This part does not fit: the cache of {} would need {}, but its limit is {}.",
                self.name,
                format_bytes(needed),
                format_bytes(limit)
            ),
            failure::NOTHING_CHANGED,
            [Action::tell("Wait for a smaller part."), Action::GrowCache { size: None }],
        ))
    }

    fn too_late(&self, path: &str, file: &File, volume: &Volume, timeout: Duration) -> Failure {
        let here = file.enough - file.lacks(volume);
        let (here, enough) = (here * BLOCK_BYTES, file.enough * BLOCK_BYTES);
        failure::wait_too_late(&self.shown_path(path), timeout, here, enough)
    }
}

/// The files that a client waits for.
struct File {
    /// All of its blocks, in order.
    runs: Vec<BlockRange>,
    /// The first blocks that are enough.
    first: Vec<BlockRange>,
    blocks: u64,
    enough: u64,
}

impl File {
    fn new(tally: &Tally, percent: u8) -> Self {
        let runs: Vec<_> = tally.file_runs().collect();
        let blocks: u64 = runs.iter().map(BlockRange::count).sum();
        let enough = (blocks * u64::from(percent)).div_ceil(100);
        let mut left = enough;
        let mut first = Vec::new();
        for run in &runs {
            let count = run.count().min(left);
            left -= count;
            if count > 0 {
                first.push(BlockRange::new(run.start, count));
            }
        }
        Self { runs, first, blocks, enough }
    }

    fn missing(&self, volume: &Volume) -> u64 {
        volume.missing_blocks(&self.runs)
    }

    /// Blocks of the first part that are still to come: reading starts at the beginning, whatever else of the file is here.
    fn lacks(&self, volume: &Volume) -> u64 {
        volume.missing_blocks(&self.first)
    }

    fn is_enough(&self, volume: &Volume) -> bool {
        self.lacks(volume) == 0
    }

    fn waited(&self, drive: &str, volume: &Volume) -> Waited {
        let ready_bytes = (self.blocks - self.missing(volume)) * BLOCK_BYTES;
        Waited { drive: drive.to_owned(), bytes: self.blocks * BLOCK_BYTES, ready_bytes }
    }

    /// Pulls from the beginning until enough is here.
    async fn pull(&self, volume: &Arc<Volume>) -> Result<(), PullError> {
        loop {
            let mut left = self.lacks(volume).min(WINDOW_BLOCKS);
            if left == 0 {
                return Ok(());
            }
            let mut window = Vec::new();
            for run in &self.first {
                for missing in volume.missing_parts(*run) {
                    let count = missing.count().min(left);
                    left -= count;
                    window.push(BlockRange::new(missing.start, count));
                    if left == 0 {
                        break;
                    }
                }
                if left == 0 {
                    break;
                }
            }
            // As urgent as a pin, which may be pulled at the same time.
            volume.puller().pull_all(Class::Pinned, &window).await?;
        }
    }

    /// Reports the progress; returns once the store has been away for long, or downloads are switched off.
    async fn watch(&self, drive: &Drive, volume: &Volume, work: &Work) -> Failure {
        let health = volume.puller().health();
        let mut away_for = Duration::ZERO;
        loop {
            let here = self.enough - self.lacks(volume);
            work.progress("Downloading", here * BLOCK_BYTES, self.enough * BLOCK_BYTES, Unit::Bytes);
            if let Some(why) = drive.pause() {
                return failure::wait_paused(&drive.name, why);
            }
            let trouble = health.borrow().trouble.clone();
            match trouble {
                Some(trouble) if away_for >= OFFLINE_AFTER => return failure::wait_offline(&trouble),
                Some(_) => away_for += PROGRESS_EVERY,
                None => away_for = Duration::ZERO,
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    }
}
