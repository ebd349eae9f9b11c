//! Where a folder's missing blocks come from: the versions of files that its spans stand for, read from the remote.
//!
//! Only blocks that a span has as bytes of its file are ever found. Those behind the end of a file and those of no span are
//! left out, and never count as missing. They could be given as zeros, but then a pull that comes late, when its span was given
//! back, would make blocks valid that the next span takes for its own.
//!
//! A read names the version that it wants. If the remote has another one by now, the read fails for good
//! ([`ReadError::Gone`]), and the folder is told: two versions are never mixed.

use super::Ino;
use super::spans::{SPACE_BLOCKS, Span, Spans};
use crate::pull::{Content, FileNumber, Found, Source};
use crate::read_error::ReadError;
use crate::store::StoreError;
use crate::store::remote::{Remote, RemoteError, RemotePath};
use crate::units::{BLOCK_BYTES, BlockIndex, BlockRange};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one request at most, so that reads can be spread and retried.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// What the source needs to know of the folder, and what it tells it.
pub trait Owner: Send + Sync + 'static {
    /// Where the file is in the remote now: directories may have been renamed. `None` if it is not there.
    fn path_of(&self, ino: Ino) -> Option<RemotePath>;

    /// The remote no longer has the version of this span. Must not wait.
    fn is_gone(&self, span: &Span);
}

/// The versions of a folder's files.
pub struct Versions {
    spans: Arc<RwLock<Spans>>,
    remote: Arc<dyn Remote>,
    owner: Arc<dyn Owner>,
}

/// Blocks of one span in one chunk: at most 64 KiB, at a multiple of that in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    span: FileNumber,
    first: u64,
    count: u64,
}

impl Part {
    fn blocks(&self) -> BlockRange {
        BlockRange::new(self.first, self.count)
    }
}

impl Versions {
    pub(super) fn new(spans: Arc<RwLock<Spans>>, remote: Arc<dyn Remote>, owner: Arc<dyn Owner>) -> Self {
        Self { spans, remote, owner }
    }

    async fn read(&self, span: &Span, bytes: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let gone = || ReadError::Gone { file: format!("file {}", span.ino()) };
        let path = self.owner.path_of(span.ino()).ok_or_else(gone)?;
        let len = bytes.end - bytes.start;
        let read = self.remote.read(&path, span.version(), bytes).await?;
        match read.len() as u64 == len {
            true => Ok(read.into()),
            // A remote that breaks its promise: nothing of the answer is used.
            false => Err(RemoteError::Store(StoreError::Unreachable {
                reason: format!("{} bytes of {path} came instead of {len}", read.len()),
            })
            .into()),
        }
    }
}

impl Source for Versions {
    type Part = Part;
    type Files = Spans;

    fn size_blocks(&self) -> u64 {
        SPACE_BLOCKS
    }

    async fn look_up(&self, range: BlockRange) -> Result<Found<Part>, ReadError> {
        let spans = self.spans.read();
        let in_span = |(run, span): (BlockRange, &Arc<Span>)| {
            let (span, all) = (span.number(), span.blocks());
            run.by_chunk().map(move |run| {
                let blocks = BlockIndex(run.start).chunk().blocks().intersect(&all);
                (run, Content::Part(Part { span, first: blocks.start, count: blocks.count() }))
            })
        };
        Ok(spans.within(range).flat_map(in_span).collect())
    }

    fn blocks_of(&self, part: &Part) -> BlockRange {
        part.blocks()
    }

    fn requests(&self, parts: Vec<Part>) -> Vec<Vec<Part>> {
        let mut requests: Vec<Vec<Part>> = Vec::new();
        for part in parts {
            let follows = |request: &&mut Vec<Part>| {
                let (first, last) = (request[0], request[request.len() - 1]);
                let bytes = (part.blocks().end - first.first) * BLOCK_BYTES;
                last.span == part.span && last.blocks().end == part.first && bytes <= REQUEST_BYTES_MAX
            };
            match requests.last_mut().filter(follows) {
                Some(request) => request.push(part),
                None => requests.push(vec![part]),
            }
        }
        requests
    }

    async fn fetch(&self, parts: &[Part]) -> Result<Vec<Vec<u8>>, ReadError> {
        let span = self.spans.read().numbered(parts[0].span).cloned();
        let Some(span) = span else { return Err(ReadError::Gone { file: "a file".into() }) };
        let start = span.blocks().start;
        let local = |part: &Part| {
            let bytes = (part.first - start) * BLOCK_BYTES..(part.blocks().end - start) * BLOCK_BYTES;
            bytes.start..bytes.end.min(span.len())
        };
        let (first, last) = (local(&parts[0]), local(&parts[parts.len() - 1]));
        let read = self.read(&span, first.start..last.end).await;
        if read.as_ref().is_err_and(ReadError::is_gone) {
            self.owner.is_gone(&span);
        }
        let read = read?;
        let split = |part: &Part| {
            let bytes = local(part);
            let mut data =
                read[(bytes.start - first.start) as usize..(bytes.end - first.start) as usize].to_vec();
            data.resize(part.blocks().byte_len() as usize, 0);
            data
        };
        Ok(parts.iter().map(split).collect())
    }

    fn not_written_here(&self, range: BlockRange) -> Vec<BlockRange> {
        // Blocks that were written here are valid at once, so they are not asked for.
        self.spans.read().within(range).map(|(run, _)| run).collect()
    }

    async fn ask(&self) -> Result<(), StoreError> {
        match self.remote.stat(&RemotePath::root()).await {
            Err(RemoteError::Store(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn files(&self) -> &RwLock<Spans> {
        &self.spans
    }
}
