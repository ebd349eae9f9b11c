//! Where pulled blocks go: into the cache, or into memory for one reader if the cache has no space.

use crate::cache::Cache;
use crate::device::Piece;
use crate::disk::{DiskFile, Sync};
use crate::units::{BLOCK_BYTES, BlockRange};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Takes pulled blocks.
pub(super) trait Sink: std::marker::Sync {
    /// The run holds `data`.
    fn data(&self, run: BlockRange, data: &[u8]) -> io::Result<()>;
    /// The run is zero.
    fn zero(&self, run: BlockRange) -> io::Result<()>;
    /// Whether blocks that others pull at the same time arrive here too.
    fn is_everybodys(&self) -> bool {
        true
    }
}

impl Sink for Cache {
    fn data(&self, run: BlockRange, data: &[u8]) -> io::Result<()> {
        self.fill(run, data)
    }

    fn zero(&self, run: BlockRange) -> io::Result<()> {
        self.fill_zero(run)
    }
}

/// The cache, for blocks that are fetched for a reader or ahead of one. It counts how many of them are read.
pub(super) struct ForReaders<'a>(pub &'a Cache);

impl Sink for ForReaders<'_> {
    fn data(&self, run: BlockRange, data: &[u8]) -> io::Result<()> {
        self.0.fill(run, data)?;
        self.0.residents().are_fetched(run);
        Ok(())
    }

    fn zero(&self, run: BlockRange) -> io::Result<()> {
        self.0.fill_zero(run)
    }
}

/// Runs in memory, by their first block; no data means zeros. For one reader only: nothing keeps them current.
#[derive(Default)]
pub struct Fetched {
    runs: Mutex<BTreeMap<u64, (BlockRange, Option<Bytes>)>>,
}

impl Sink for Fetched {
    fn data(&self, run: BlockRange, data: &[u8]) -> io::Result<()> {
        self.runs.lock().insert(run.start, (run, Some(Bytes::copy_from_slice(data))));
        Ok(())
    }

    fn zero(&self, run: BlockRange) -> io::Result<()> {
        self.runs.lock().insert(run.start, (run, None));
        Ok(())
    }

    fn is_everybodys(&self) -> bool {
        false
    }
}

impl Fetched {
    /// The bytes `range`, as pieces of a read; `None` if some were not fetched.
    pub fn pieces(&self, range: Range<u64>) -> Option<Vec<Piece>> {
        let runs = self.runs.lock();
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (_, (run, data)) = runs.range(..=at / BLOCK_BYTES).next_back()?;
            let end = run.bytes().end.min(range.end);
            if end <= at {
                return None;
            }
            let len = end - at;
            pieces.push(match data {
                None => Piece::Zero { len },
                Some(data) => {
                    let file = Arc::new(Buffer(data.clone()));
                    Piece::File { file, offset: at - run.bytes().start, len, by_reference: false }
                }
            });
            at = end;
        }
        Some(pieces)
    }
}

impl Piece {
    /// A piece of bytes in memory.
    pub fn of_bytes(bytes: Bytes) -> Self {
        let len = bytes.len() as u64;
        Piece::File { file: Arc::new(Buffer(bytes)), offset: 0, len, by_reference: false }
    }
}

/// Bytes in memory that are read like a local file.
struct Buffer(Bytes);

impl DiskFile for Buffer {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let from = (self.0.get(offset as usize..)).and_then(|from| from.get(..buf.len()));
        buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async { Ok(()) })
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}
