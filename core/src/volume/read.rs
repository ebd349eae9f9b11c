//! Reading: from the cache, or from the journal if a record is not applied yet. Blocks that are not here are pulled first.

use super::Volume;
use crate::device::{Answer, DeviceError, Piece, ReadLease};
use crate::journal::Place;
use crate::map::Content;
use crate::pull::{Fetched, PullError};
use crate::units::{BLOCK_BYTES, BlockRange};
use std::ops::Range;
use std::sync::Arc;

/// How often blocks are pulled into the cache for one read.
const PULLS_MAX: u32 = 4;

impl Volume {
    /// The place of the bytes `range`: at once if all are local; otherwise after they were pulled.
    pub fn read_bytes(self: &Arc<Self>, range: Range<u64>) -> Answer<ReadLease> {
        if let Err(error) = self.check_open().and_then(|()| self.check_range(&range)) {
            return Answer::Now(Err(error));
        }
        match self.lease(&range) {
            Some(lease) => {
                let blocks = BlockRange::covering(&range);
                self.note_read(blocks);
                self.puller.note_read(blocks, false);
                Answer::Now(Ok(lease))
            }
            None => {
                let volume = self.clone();
                Answer::later(async move { volume.pull_and_lease(range).await })
            }
        }
    }

    async fn pull_and_lease(&self, range: Range<u64>) -> Result<ReadLease, DeviceError> {
        let blocks = BlockRange::covering(&range);
        let turn = match self.survey.file_at(blocks.start) {
            Some(place) => self.in_time(blocks, self.scanning.turn(place, blocks.count())).await?,
            None => None,
        };
        if turn.is_none() {
            self.survey.missed(blocks);
        }
        for _ in 0..PULLS_MAX {
            let pulled = match turn {
                Some(_) => self.in_time(blocks, self.puller.demand_alone(blocks)).await?,
                None => self.in_time(blocks, self.puller.demand(blocks)).await?,
            };
            match pulled {
                // Blocks that cannot be cached can still be read.
                Err(PullError::Cache(_) | PullError::CacheFull(_)) => {
                    return self.read_past_cache(range).await;
                }
                pulled => pulled.map_err(pull_failed)?,
            }
            // The blocks may have been evicted since the pull. Then they are pulled again.
            if let Some(lease) = self.lease(&range) {
                match turn {
                    // A scan does not show what the next opening needs first.
                    Some(_) => self.cache.residents().are_read(blocks),
                    None => self.note_read(blocks),
                }
                return Ok(lease);
            }
            self.check_open()?;
        }
        // They are evicted as fast as they arrive: it is more than a small cache holds.
        self.read_past_cache(range).await
    }

    /// A reader reads local blocks.
    fn note_read(&self, blocks: BlockRange) {
        let residents = self.cache.residents();
        residents.are_read(blocks);
        self.trace.note(blocks, |part| residents.is_any_kept(part));
    }

    /// Waits for a pull of the blocks. While the store is away or does not give them, the wait is bounded if all of them are data of files:
    /// a program can handle an error there. On an error anywhere else the file system would fail.
    async fn in_time<T>(&self, blocks: BlockRange, pull: impl Future<Output = T>) -> Result<T, DeviceError> {
        let pulled = self.puller.in_time(blocks, || self.survey.is_file_data(blocks), pull).await;
        pulled.map_err(DeviceError::Unavailable)
    }

    /// Reads blocks from the store for this reader alone, because the cache does not take them.
    async fn read_past_cache(&self, range: Range<u64>) -> Result<ReadLease, DeviceError> {
        loop {
            self.check_open()?;
            let blocks = BlockRange::covering(&range);
            let fetched = self.in_time(blocks, self.puller.fetch_past_cache(blocks)).await?;
            let fetched = fetched.map_err(pull_failed)?;
            // Local blocks may have been evicted meanwhile.
            if let Some(lease) = self.lease_with(&range, Some(&fetched)) {
                return Ok(lease);
            }
        }
    }

    /// A lease over `range`, if every block of it is local.
    pub(super) fn lease(&self, range: &Range<u64>) -> Option<ReadLease> {
        self.lease_with(range, None)
    }

    /// A lease over `range`, if every block of it is local or `fetched`. Local blocks are newer.
    fn lease_with(&self, range: &Range<u64>, fetched: Option<&Fetched>) -> Option<ReadLease> {
        let blocks = BlockRange::covering(range);
        // This comes before the look at validity: a block that is seen valid from here on stays in place.
        let hold = self.cache.hold();
        let (mut pieces, mut files) = (Vec::with_capacity(1), Vec::new());
        if !self.journal.holds_any(blocks) && self.cache.valid().all(blocks) {
            pieces.push(self.cached(range.clone()));
        } else {
            for (run, entry) in self.journal.look_up(blocks) {
                let part = run.bytes().start.max(range.start)..run.bytes().end.min(range.end);
                let len = part.end - part.start;
                match entry.map(|entry| entry.place) {
                    // It was applied since the look, or never in the journal.
                    None => pieces.extend(self.cached_or(part, fetched)?),
                    Some(Place::Zero) => pieces.push(Piece::Zero { len }),
                    Some(Place::Data { file, offset }) => {
                        let offset = offset + (part.start - run.start * BLOCK_BYTES);
                        let local = file.file().clone();
                        pieces.push(Piece::File { file: local, offset, len, by_reference: false });
                        files.push(file);
                    }
                }
            }
        }
        Some(ReadLease::new(pieces, (hold, files)))
    }

    /// Pieces of the cache, or of the fetched blocks.
    fn cached_or(&self, range: Range<u64>, fetched: Option<&Fetched>) -> Option<Vec<Piece>> {
        let blocks = BlockRange::covering(&range);
        if self.cache.valid().all(blocks) {
            return Some(vec![self.cached(range)]);
        }
        let fetched = fetched?;
        let mut pieces = Vec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            let (valid, run) = self.cache.valid().run(BlockRange { start: at, end: blocks.end });
            let part = run.bytes().start.max(range.start)..run.bytes().end.min(range.end);
            match valid {
                true => pieces.push(self.cached(part)),
                false => pieces.extend(fetched.pieces(part)?),
            }
            at = run.end;
        }
        Some(pieces)
    }

    fn cached(&self, range: Range<u64>) -> Piece {
        // The cache has the layout of the drive, so that a page of it never holds two places of the drive.
        let (offset, len) = (range.start, range.end - range.start);
        Piece::File { file: self.cache.file().clone(), offset, len, by_reference: true }
    }

    /// Which parts of `range` hold data, without pulling any.
    pub(super) async fn allocation_of(
        &self,
        range: Range<u64>,
        limit: usize,
    ) -> Result<Vec<crate::device::Allocation>, DeviceError> {
        let mut found: Vec<crate::device::Allocation> = Vec::new();
        let mut at = range.start;
        while at < range.end && found.len() <= limit {
            // Look-ups go piece by piece, so that a client that wants one extent does not walk the drive.
            let window = BlockRange::covering(&(at..range.end.min(at + (64 << 20))));
            for (run, entry) in self.journal.look_up(window) {
                match entry.map(|entry| entry.place) {
                    Some(Place::Zero) => join(&mut found, run, &range, true),
                    Some(Place::Data { .. }) => join(&mut found, run, &range, false),
                    None => {
                        for (part, zero) in self.allocation_of_applied(run).await? {
                            join(&mut found, part, &range, zero);
                        }
                    }
                }
            }
            at = window.bytes().end;
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Which parts of `run` are zero. None of it is in the journal. Blocks that the store lacks count as data: the map does not know them,
    /// and the cache cannot show which are zero.
    async fn allocation_of_applied(&self, run: BlockRange) -> Result<Vec<(BlockRange, bool)>, DeviceError> {
        let mut parts = Vec::new();
        // This comes before the map: a commit changes the map first, and its blocks count as dirty until then.
        for (part, is_dirty) in self.journal.dirty_runs(run) {
            match is_dirty {
                true => parts.push((part, false)),
                false => {
                    let looked_up = self.map.look_up(part).await;
                    let looked_up = looked_up.map_err(|error| pull_failed(error.into()))?;
                    parts.extend(
                        looked_up.into_iter().map(|(part, content)| (part, content == Content::Zero)),
                    );
                }
            }
        }
        Ok(parts)
    }
}

fn join(found: &mut Vec<crate::device::Allocation>, run: BlockRange, range: &Range<u64>, zero: bool) {
    let len = run.bytes().end.min(range.end) - run.bytes().start.max(range.start);
    match found.last_mut() {
        Some(last) if last.zero == zero => last.len += len,
        _ => found.push(crate::device::Allocation { len, zero }),
    }
}

pub(super) fn pull_failed(error: PullError) -> DeviceError {
    match error {
        PullError::Read(error) if error.is_transient() => DeviceError::Unavailable(error.to_string()),
        PullError::Read(error) => DeviceError::Failed(error.to_string()),
        PullError::Away => DeviceError::Unavailable(error.to_string()),
        PullError::Cache(_) | PullError::CacheFull(_) => DeviceError::Failed(error.to_string()),
    }
}
