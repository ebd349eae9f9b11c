//! A log: an ordered, checksummed sequence of records in files of the local disk. A drive's journal is one
//! ([`crate::journal`]). The log's user ([`Records`]) decides what the records mean and what is kept of them in memory.
//!
//! * A record gets its LSN, its place and its bytes under one lock, in that order. An append is answered when its record
//!   and every record before it are written; a flush is answered when they are synced (`sync`).
//! * Opening finds the end of the log (`recover`): either everything that was durable is there, or the log reports that it
//!   is damaged. A torn tail is normal and is dropped.
//! * A file is reused once its user has freed all of its records (`files`).

use crate::disk::{Disk, DiskFile};
use crate::units::Lsn;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use uuid::Uuid;

pub(crate) mod adopt;
mod append;
mod aside;
mod copies;
mod files;
mod groups;
mod marks;
mod record;
mod recover;
mod scan;
mod sync;

use append::Appender;
pub use append::Writer;
pub(crate) use aside::is_not_of;
pub use aside::{found, is_aside, set_aside};
pub use files::{LogFile, SpaceUse};
pub(crate) use groups::Candidate;
pub use record::Header;
pub(crate) use record::{FILE_HEADER_BYTES, HEADER_BYTES, record_len};
pub use recover::Recovered;

/// How much of the local disk a log may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Largest number of files, full or spare. With fewer than two, nothing could ever be freed.
    pub files: usize,
    /// Files beyond the limit that only closing the drive may use, so that an unmount never waits for the network.
    pub reserve_files: usize,
}

impl Limits {
    /// The limits for `bytes` of log, in files of 64 MiB: long enough that a file rarely ends, short enough to be
    /// zero-filled in a moment.
    pub fn of_bytes(bytes: u64) -> Self {
        const FILE_BYTES: u64 = 64 << 20;
        /// The most that a device may have dirty in the page cache (BDI max_bytes).
        const RESERVE_BYTES: u64 = 256 << 20;
        let files = (bytes / FILE_BYTES).max(4) as usize;
        Self { file_bytes: FILE_BYTES, files, reserve_files: (RESERVE_BYTES / FILE_BYTES) as usize }
    }
}

/// Why a log cannot continue.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// There is no space for a record now. Pushing frees some.
    #[error("the journal is full")]
    Full,
    /// The local disk failed. Nothing more is accepted. Records that were acknowledged as durable are not affected.
    #[error("the journal cannot be written: {0}")]
    Failed(String),
    /// Records that were durable are damaged.
    #[error(
        "the journal is damaged at record {lsn}, although everything up to {durable} had been made durable"
    )]
    Damaged {
        /// The first record that does not check.
        lsn: Lsn,
        /// The durable LSN that a later record names.
        durable: Lsn,
    },
    /// Another program truncated a file.
    #[error("the journal's file {name} was cut short")]
    CutShort {
        /// The file.
        name: String,
    },
    /// Its files are gone.
    #[error("the journal's files are not there")]
    Missing,
    /// The local disk has no space for a file that is needed.
    #[error("the local disk has no room for the journal: {0}")]
    NoRoom(String),
    /// The operating system's error.
    #[error("the journal cannot be read: {0}")]
    Io(String),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::NoRoom(error.to_string()),
            _ => LogError::Io(error.to_string()),
        }
    }
}

/// The content of a record apart from its data, in a few numbers.
pub trait Body: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The numbers that stand for it.
    fn encode(&self) -> Encoded;

    /// Reads them; `None` if they have no meaning that this program knows.
    fn decode(encoded: Encoded) -> Option<Self>;

    /// Bytes of data in the record. [`decode`](Self::decode) accepts no more than a reader can hold in memory.
    fn data_len(&self) -> u64;
}

/// A [`Body`] in a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Its kind.
    pub kind: u8,
    /// A number of that kind.
    pub first: u64,
    /// Another one.
    pub second: u64,
}

/// The meaning of a log's records to its user.
pub trait Records: Send + Sync + 'static {
    /// Whether a record for which the local disk has no space is only refused. Otherwise the log fails.
    const SURVIVES_A_FULL_DISK: bool = false;

    /// Their content.
    type Body: Body;

    /// State that changes with every record, guarded by the lock of appends.
    type Pending: Send;

    /// A record was written, after all others. Its append has not been answered yet.
    fn appended(&self, pending: &mut Self::Pending, record: Record<Self::Body>);

    /// Records lie in `file` from now on, each with its header at the offset beside it. Their content is the same.
    fn moved(&self, pending: &mut Self::Pending, file: &Arc<LogFile>, records: &[(Header<Self::Body>, u64)]);
}

/// An open log.
pub struct Log<R: Records> {
    disk: Arc<dyn Disk>,
    uuid: Uuid,
    /// Copies of its files that were found and set aside.
    copies: Vec<String>,
    incarnation: u32,
    limits: Limits,
    /// The records as its user keeps them.
    pub(crate) records: R,
    // A lock and not a message: an append must not cost a task switch, and the lock is held only while bytes are copied
    // into the page cache.
    appender: Mutex<Appender<R::Pending>>,
    appended: AtomicU64,
    durable: AtomicU64,
    syncing: tokio::sync::Mutex<()>,
    /// A sync failed on a thread that could not rewrite the file: the next sync has to.
    condemned: AtomicBool,
    /// A file was made whose name is not durable: the next sync comes after that of the names.
    has_new_names: AtomicBool,
    failed: OnceLock<String>,
    /// Wakes writers that wait for space.
    room: Notify,
    /// Wakes the task that keeps spare files.
    spare_wanted: Notify,
}

/// Data of a record.
#[derive(Clone)]
pub enum Place {
    /// Bytes of a file of the log.
    Data {
        /// The file. It is not recycled while anyone holds it.
        file: Arc<LogFile>,
        /// Where they begin.
        offset: u64,
    },
    /// It has none, or zeros.
    Zero,
}

/// A record, and where its data is.
#[derive(Clone)]
pub struct Record<B> {
    /// Its place in the order.
    pub lsn: Lsn,
    /// The last durable record when this one was written.
    pub durable: Lsn,
    /// Its content.
    pub operation: B,
    /// Its data.
    pub place: Place,
    /// Its own CRC, which covers all records up to it.
    pub crc: u32,
}

impl<R: Records> Log<R> {
    /// Its identity, which a root's lineage names.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Bytes of one of its files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.limits.file_bytes
    }

    /// The last record that was written.
    pub fn appended(&self) -> Lsn {
        Lsn(self.appended.load(Ordering::Acquire))
    }

    /// The last record that is known to be durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The first record that is still here.
    pub fn first(&self) -> Lsn {
        self.appender.lock().files.first()
    }

    /// Remembers that the local disk failed: no write or flush succeeds from here on.
    fn fail(&self, reason: String) -> LogError {
        let reason = self.failed.get_or_init(|| reason);
        self.room.notify_waiters();
        LogError::Failed(reason.clone())
    }

    /// A write of the local disk failed.
    fn not_written(&self, error: io::Error) -> LogError {
        match LogError::from(error) {
            error @ LogError::NoRoom(_) if R::SURVIVES_A_FULL_DISK => error,
            LogError::NoRoom(reason) | LogError::Io(reason) => self.fail(reason),
            error => self.fail(error.to_string()),
        }
    }

    fn check(&self) -> Result<(), LogError> {
        match self.failed.get() {
            Some(reason) => Err(LogError::Failed(reason.clone())),
            None => Ok(()),
        }
    }
}

impl LogFile {
    /// The bytes at `offset`.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    /// The local file.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }
}
