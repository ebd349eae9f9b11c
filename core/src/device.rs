//! The seam between the protocols (NBD, the one-file disk) and the engine.
//!
//! An answer is either ready at once, so that a hit costs no task switch, or a future that the protocol adapter hands to
//! its runtime. An adapter decides nothing: it turns a request into one call and an error into its errno.

use crate::disk::DiskFile;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A device that a protocol serves.
pub trait BlockDevice: Send + Sync + 'static {
    /// Size and access, as they are now (a drive can grow).
    fn geometry(&self) -> DeviceGeometry;
    /// The bytes `range`, of any alignment.
    fn read(&self, range: Range<u64>) -> Answer<ReadLease>;
    /// Writes `data` at byte `offset`. The answer follows a finished write to the journal, in its order; with
    /// [`Durability::Forced`] (FUA) it follows that record's fdatasync.
    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()>;
    /// Makes the bytes `range` read as zeros. Costs O(1), whatever the length.
    fn zero(&self, range: Range<u64>, how: Zeroing, durability: Durability) -> Answer<()>;
    /// Ready when every write answered before the call, on any connection, is durable on this machine.
    fn flush(&self) -> Answer<()>;
    /// The same on the calling thread, which waits only for the local disk: two task switches cost more than a fast disk.
    /// `None` if that is not possible here.
    fn flush_here(&self) -> Option<Result<(), DeviceError>> {
        None
    }
    /// A hint to make `range` local; it never fails.
    fn prefetch(&self, range: Range<u64>);
    /// Which parts of `range` hold data, in order and without gaps, at most `limit` extents from its start.
    fn allocation(&self, range: Range<u64>, limit: usize) -> Answer<Vec<Allocation>>;
}

/// An answer, ready now or once a future is done.
pub enum Answer<T> {
    /// The answer needed no waiting.
    Now(Result<T, DeviceError>),
    /// The answer waits for a disk sync or for the network.
    Later(Pin<Box<dyn Future<Output = Result<T, DeviceError>> + Send>>),
}

impl<T: Send + 'static> Answer<T> {
    /// An answer from a future.
    pub fn later(future: impl Future<Output = Result<T, DeviceError>> + Send + 'static) -> Self {
        Answer::Later(Box::pin(future))
    }

    /// Waits for the answer.
    pub async fn wait(self) -> Result<T, DeviceError> {
        match self {
            Answer::Now(result) => result,
            Answer::Later(future) => future.await,
        }
    }
}

/// The shape of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGeometry {
    /// Size in bytes, a multiple of the block size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// The promise of a write's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Durable at the next flush.
    Ordered,
    /// Durable now (FUA).
    Forced,
}

/// The treatment of the space of zeroed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// A discard: whole blocks inside the range may read as zeros, the rest is left alone.
    Trim,
    /// Every byte reads as zero, and space may be freed.
    MayPunch,
    /// Every byte reads as zero, and a later write there must not fail for want of space.
    KeepSpace,
}

/// One run of like bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Length in bytes.
    pub len: u64,
    /// Known to read as zeros, without any I/O.
    pub zero: bool,
}

/// Why a request to a device failed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The request reaches beyond the end.
    #[error("the request reaches beyond the end of the device")]
    OutOfRange,
    /// The device was opened read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The drive is closed, or closing.
    #[error("the drive is closed")]
    Closed,
    /// The data is not local and the store did not answer in time.
    #[error("the data is not on this computer and the store cannot be reached: {0}")]
    Unavailable(String),
    /// The local disk failed, or the data that was read is damaged.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for DeviceError {
    fn from(error: io::Error) -> Self {
        DeviceError::Failed(error.to_string())
    }
}

/// Where the bytes of a read are. None of these places is evicted or recycled while it lives.
pub struct ReadLease {
    pieces: Vec<Piece>,
    _hold: Box<dyn std::any::Any + Send + Sync>,
}

/// A run of a read's bytes.
#[derive(Clone)]
pub enum Piece {
    /// Bytes of a local file.
    File {
        /// The file.
        file: Arc<dyn DiskFile>,
        /// Where they begin in it.
        offset: u64,
        /// How many.
        len: u64,
        /// Whether the file's pages at this place only ever hold this place of the drive, so that they may be sent by
        /// reference (sendfile). Journal space is recycled, so it must be copied.
        by_reference: bool,
    },
    /// Zeros.
    Zero {
        /// How many.
        len: u64,
    },
}

impl Piece {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::File { len, .. } | Piece::Zero { len } => *len,
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReadLease {
    /// A lease over `pieces`, in order. It keeps `hold` alive until the bytes have been taken.
    pub fn new(pieces: Vec<Piece>, hold: impl std::any::Any + Send + Sync) -> Self {
        Self { pieces, _hold: Box::new(hold) }
    }

    /// The runs, in order, without gaps.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Copies the bytes into `buf`, which is as long as the range that was asked for.
    pub fn copy_to(&self, buf: &mut [u8]) -> Result<(), DeviceError> {
        let mut rest = buf;
        for piece in &self.pieces {
            let (head, tail) = rest.split_at_mut(piece.len() as usize);
            match piece {
                Piece::File { file, offset, .. } => file.read_at(head, *offset)?,
                Piece::Zero { .. } => head.fill(0),
            }
            rest = tail;
        }
        assert!(rest.is_empty(), "a lease is as long as the range that was asked for");
        Ok(())
    }
}
