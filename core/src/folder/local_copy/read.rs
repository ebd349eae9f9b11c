//! Reading a file: from its local file if the blocks are here, otherwise after they were pulled.

use super::LocalCopy;
use crate::device::{Piece, ReadLease};
use crate::folder::spans::Span;
use crate::pull::{Fetched, Files, PullError};
use crate::units::BlockRange;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How often blocks are pulled into the cache for one read.
const PULLS_MAX: u32 = 4;

/// Why bytes of a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// The remote has another version of the file now, and not all of this one is here.
    #[error("the file was changed or removed by another program")]
    Gone,
    /// The bytes are not here, and the remote did not answer in time.
    #[error("the file is not on this computer and the server cannot be reached: {0}")]
    Unavailable(String),
    /// The folder is closed, or closing.
    #[error("the folder is closed")]
    Closed,
    /// The local disk failed, or the remote refuses the file.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        ReadFailure::Failed(error.to_string())
    }
}

impl LocalCopy {
    /// The place of the bytes `range` of a file, cut at its end, if all are here. Never waits.
    pub fn read_local(&self, span: &Arc<Span>, range: Range<u64>) -> Result<Option<ReadLease>, ReadFailure> {
        self.check_open()?;
        let range = cut(span, range);
        let lease = self.lease(span, &range, None)?;
        if lease.is_some() && !range.is_empty() {
            let blocks = span.blocks_of(&range);
            self.cache.residents().are_read(blocks);
            self.puller.note_read(blocks, false);
        }
        Ok(lease)
    }

    /// The place of the bytes `range` of a file, cut at its end. Waits for those that are not here.
    pub async fn read(
        self: &Arc<Self>,
        span: &Arc<Span>,
        range: Range<u64>,
    ) -> Result<ReadLease, ReadFailure> {
        if let Some(lease) = self.read_local(span, range.clone())? {
            return Ok(lease);
        }
        let range = cut(span, range);
        let blocks = span.blocks_of(&range);
        let place = self.spans.read().file_at(blocks.start);
        let turn = match place {
            Some(place) => self.in_time(blocks, self.scanning.turn(place, blocks.count())).await?,
            None => return Err(ReadFailure::Gone),
        };
        if turn.is_none() {
            self.foresee(span, range.start);
        }
        for _ in 0..PULLS_MAX {
            let pulled = match turn {
                Some(_) => self.in_time(blocks, self.puller.demand_alone(blocks)).await?,
                None => self.in_time(blocks, self.puller.demand(blocks)).await?,
            };
            match pulled {
                // Blocks that cannot be cached can still be read.
                Err(PullError::Cache(_) | PullError::CacheFull(_)) => {
                    return self.read_past_cache(span, range).await;
                }
                pulled => pulled?,
            }
            self.check_open()?;
            // The blocks may have been evicted since the pull. Then they are pulled again.
            if let Some(lease) = self.lease(span, &range, None)? {
                self.cache.residents().are_read(blocks);
                return Ok(lease);
            }
            self.mind_missing_file(span).await?;
        }
        // They are evicted as fast as they arrive: it is more than a small cache holds.
        self.read_past_cache(span, range).await
    }

    /// Reads blocks from the remote for this reader alone, because the cache does not take them.
    async fn read_past_cache(&self, span: &Arc<Span>, range: Range<u64>) -> Result<ReadLease, ReadFailure> {
        let blocks = span.blocks_of(&range);
        loop {
            self.check_open()?;
            let fetched = self.in_time(blocks, self.puller.fetch_past_cache(blocks)).await??;
            // Local blocks may have been evicted meanwhile.
            if let Some(lease) = self.lease(span, &range, Some(&fetched))? {
                return Ok(lease);
            }
            self.mind_missing_file(span).await?;
        }
    }

    /// Somebody has removed a local file: what it held is not here.
    async fn mind_missing_file(&self, span: &Arc<Span>) -> io::Result<()> {
        let is_missing = self.cache.valid().any(span.extent()) && self.backing.is_missing(span)?;
        if is_missing && !span.is_retired() {
            tracing::warn!(%span, "a file was removed from the cache's directory");
            self.cache.invalidate(&[span.extent()]).await?;
        }
        Ok(())
    }

    async fn in_time<T>(&self, blocks: BlockRange, pull: impl Future<Output = T>) -> Result<T, ReadFailure> {
        self.puller.in_time(blocks, || true, pull).await.map_err(ReadFailure::Unavailable)
    }

    /// A lease over `range` of the file, if every block of it is local or `fetched`.
    fn lease(
        &self,
        span: &Arc<Span>,
        range: &Range<u64>,
        fetched: Option<&Fetched>,
    ) -> Result<Option<ReadLease>, ReadFailure> {
        // This comes before the look at validity: a block that is seen valid from here on stays in place.
        let hold = self.cache.hold();
        let pieces = match range.is_empty() {
            true => Some(Vec::new()),
            false => self.pieces(span, range, fetched)?,
        };
        // And this after it: the blocks of a retired span may be another file's by now.
        if span.is_retired() {
            return Err(ReadFailure::Gone);
        }
        Ok(pieces.map(|pieces| ReadLease::new(pieces, hold)))
    }

    fn pieces(
        &self,
        span: &Arc<Span>,
        range: &Range<u64>,
        fetched: Option<&Fetched>,
    ) -> io::Result<Option<Vec<Piece>>> {
        let blocks = span.blocks_of(range);
        let valid = self.cache.valid();
        if fetched.is_none() && !valid.all(blocks) {
            return Ok(None);
        }
        let start = span.extent().bytes().start;
        let (mut pieces, mut at) = (Vec::with_capacity(1), blocks.start);
        while at < blocks.end {
            let (is_valid, run) = valid.run(BlockRange { start: at, end: blocks.end });
            let part = (run.bytes().start - start).max(range.start)..(run.bytes().end - start).min(range.end);
            if is_valid {
                let Some(file) = self.backing.existing_file_of(span)? else { return Ok(None) };
                // The file holds this version only, so that a page of it never holds two.
                pieces.push(Piece::File {
                    file,
                    offset: part.start,
                    len: part.end - part.start,
                    by_reference: true,
                });
            } else {
                match fetched.and_then(|fetched| fetched.pieces(start + part.start..start + part.end)) {
                    Some(more) => pieces.extend(more),
                    None => return Ok(None),
                }
            }
            at = run.end;
        }
        Ok(Some(pieces))
    }
}

fn cut(span: &Span, range: Range<u64>) -> Range<u64> {
    let end = range.end.min(span.len());
    range.start.min(end)..end
}
