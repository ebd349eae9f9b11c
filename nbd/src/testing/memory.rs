//! A device whose bytes are in memory, and which answers when the test tells it to.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::{DiskFile, Sync};
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;

/// Sparse bytes in memory: a block that was never written reads as zeros and costs nothing.
#[derive(Default)]
pub struct MemoryFile {
    blocks: Mutex<BTreeMap<u64, Box<[u8; BLOCK_BYTES as usize]>>>,
    fails_from: AtomicU64,
}

impl MemoryFile {
    /// Whether `block` was written since it was last zeroed.
    fn is_data(&self, block: u64) -> bool {
        self.blocks.lock().contains_key(&block)
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        let last = self.blocks.lock().last_key_value().map(|(block, _)| *block);
        Ok(last.map_or(0, |block| (block + 1) * BLOCK_BYTES))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let fails_from = self.fails_from.load(Ordering::Acquire);
        if fails_from > 0 && offset + buf.len() as u64 > fails_from {
            return Err(io::Error::other("this part of the file is broken"));
        }
        let blocks = self.blocks.lock();
        for (block, inside, part) in split(offset, buf.len()) {
            match blocks.get(&block) {
                Some(bytes) => buf[part.clone()].copy_from_slice(&bytes[inside..inside + part.len()]),
                None => buf[part].fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut blocks = self.blocks.lock();
        for (block, inside, part) in split(offset, buf.len()) {
            let bytes = blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK_BYTES as usize]));
            bytes[inside..inside + part.len()].copy_from_slice(&buf[part]);
        }
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let whole = BlockRange::within(&range);
        let mut blocks = self.blocks.lock();
        let gone: Vec<u64> = blocks.range(whole.start..whole.end).map(|(block, _)| *block).collect();
        gone.iter().for_each(|block| drop(blocks.remove(block)));
        for (block, inside, part) in split(range.start, (range.end - range.start) as usize) {
            if let Some(bytes) = blocks.get_mut(&block) {
                bytes[inside..inside + part.len()].fill(0);
            }
        }
        Ok(())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async { Ok(()) })
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}

/// Cuts a range at block borders: (block, offset in the block, part of the range).
fn split(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < len).then(|| {
            let byte = offset + at as u64;
            let inside = (byte % BLOCK_BYTES) as usize;
            let step = (BLOCK_BYTES as usize - inside).min(len - at);
            let piece = (byte / BLOCK_BYTES, inside, at..at + step);
            at += step;
            piece
        })
    })
}

/// When a device answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// At once.
    #[default]
    Now,
    /// When [`MemoryDevice::release`] is called.
    Held,
    /// On the runtime, soon.
    Later,
}

/// A device in memory.
#[derive(Default)]
pub struct MemoryDevice {
    file: Arc<MemoryFile>,
    size: AtomicU64,
    read_only: AtomicBool,
    max_blocks: Option<usize>,
    // How to answer reads, writes and flushes; a test changes it between requests.
    policies: Mutex<[Policy; 3]>,
    // Each held answer waits for a number above the one it saw.
    released: watch::Sender<u64>,
    calls: [AtomicU64; 5],
}

const READ: usize = 0;
const WRITE: usize = 1;
const FLUSH: usize = 2;

impl MemoryDevice {
    /// A writable device of `size_bytes`, all zeros.
    pub fn new(size_bytes: u64) -> Arc<Self> {
        Arc::new(Self { size: AtomicU64::new(size_bytes), ..Self::default() })
    }

    /// The same, but a write fails if the device would then hold more than `max_blocks` blocks.
    pub fn bounded(size_bytes: u64, max_blocks: usize) -> Arc<Self> {
        let size = AtomicU64::new(size_bytes);
        Arc::new(Self { size, max_blocks: Some(max_blocks), ..Self::default() })
    }

    /// Refuses writes from now on.
    pub fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// From now on, reads fail if they reach past `offset`.
    pub fn break_from(&self, offset: u64) {
        self.file.fails_from.store(offset, Ordering::Release);
    }

    /// How to answer reads from now on.
    pub fn set_reads(&self, policy: Policy) {
        self.policies.lock()[READ] = policy;
    }

    /// How to answer writes, trims and zeroes from now on. A held write lands only when it is released.
    pub fn set_writes(&self, policy: Policy) {
        self.policies.lock()[WRITE] = policy;
    }

    /// How to answer flushes from now on.
    pub fn set_flushes(&self, policy: Policy) {
        self.policies.lock()[FLUSH] = policy;
    }

    /// Answers everything that is held.
    pub fn release(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// Calls so far: reads, writes (trims and zeroes too), flushes.
    pub fn calls(&self) -> [u64; 3] {
        [READ, WRITE, FLUSH].map(|kind| self.calls[kind].load(Ordering::Acquire))
    }

    /// The current bytes, for comparison.
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_at(&mut bytes, range.start).expect("memory reads");
        bytes
    }

    fn answer<T: Send + 'static>(
        &self,
        kind: usize,
        work: impl FnOnce() -> Result<T, DeviceError> + Send + 'static,
    ) -> Answer<T> {
        self.calls[kind].fetch_add(1, Ordering::AcqRel);
        let policy = self.policies.lock()[kind];
        match policy {
            Policy::Now => Answer::Now(work()),
            Policy::Later => Answer::later(async {
                tokio::task::yield_now().await;
                work()
            }),
            Policy::Held => {
                let mut released = self.released.subscribe();
                let seen = *released.borrow_and_update();
                Answer::later(async move {
                    let wait = released.wait_for(|count| *count > seen).await;
                    wait.map_err(|_| DeviceError::Closed)?;
                    work()
                })
            }
        }
    }

    fn check(&self, range: &Range<u64>, writes: bool) -> Result<(), DeviceError> {
        if writes && self.read_only.load(Ordering::Acquire) {
            return Err(DeviceError::ReadOnly);
        }
        let inside = range.end <= self.size.load(Ordering::Acquire);
        if inside { Ok(()) } else { Err(DeviceError::OutOfRange) }
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            size_bytes: self.size.load(Ordering::Acquire),
            read_only: self.read_only.load(Ordering::Acquire),
        }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        if let Err(error) = self.check(&range, false) {
            return Answer::Now(Err(error));
        }
        let file = self.file.clone();
        self.answer(READ, move || {
            let mut pieces = Vec::new();
            let mut at = 0;
            for run in runs(&file, &range, usize::MAX) {
                let (offset, len) = (range.start + at, run.len);
                pieces.push(if run.zero {
                    Piece::Zero { len }
                } else {
                    Piece::File { file: file.clone(), offset, len, by_reference: true }
                });
                at += len;
            }
            Ok(ReadLease::new(pieces, ()))
        })
    }

    fn write(&self, offset: u64, data: &[u8], _durability: Durability) -> Answer<()> {
        if let Err(error) = self.check(&(offset..offset + data.len() as u64), true) {
            return Answer::Now(Err(error));
        }
        if self.max_blocks.is_some_and(|max| self.file.blocks.lock().len() + data.len() / 4096 + 2 > max) {
            return Answer::Now(Err(DeviceError::Failed("out of memory for this test".into())));
        }
        let (file, data) = (self.file.clone(), data.to_vec());
        self.answer(WRITE, move || Ok(file.write_at(&data, offset)?))
    }

    fn zero(&self, range: Range<u64>, how: Zeroing, _durability: Durability) -> Answer<()> {
        if let Err(error) = self.check(&range, true) {
            return Answer::Now(Err(error));
        }
        let range = if how == Zeroing::Trim { BlockRange::within(&range).bytes() } else { range };
        let file = self.file.clone();
        self.answer(WRITE, move || if range.is_empty() { Ok(()) } else { Ok(file.punch(range)?) })
    }

    fn flush(&self) -> Answer<()> {
        self.answer(FLUSH, || Ok(()))
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, limit: usize) -> Answer<Vec<Allocation>> {
        Answer::Now(self.check(&range, false).map(|()| runs(&self.file, &range, limit)))
    }
}

/// Runs of blocks that are alike in `range`, at most `limit`. Examines only a bounded part of a large range.
fn runs(file: &MemoryFile, range: &Range<u64>, limit: usize) -> Vec<Allocation> {
    const BLOCKS_LOOKED_AT: u64 = 1 << 14;
    let mut runs: Vec<Allocation> = Vec::new();
    let end = if limit == usize::MAX {
        range.end
    } else {
        range.end.min(range.start + BLOCKS_LOOKED_AT * BLOCK_BYTES)
    };
    let mut at = range.start;
    while at < end {
        let step = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let len = step.min(end) - at;
        let zero = !file.is_data(at / BLOCK_BYTES);
        let full = runs.len() == limit;
        match runs.last_mut() {
            Some(run) if run.zero == zero => run.len += len,
            _ if full => break,
            _ => runs.push(Allocation { len, zero }),
        }
        at += len;
    }
    runs
}
