//! An open drive: the block device that is served, on top of journal, cache, pulls and pushes.
//!
//! The straight path of a read that hits is in `read.rs`, that of a write in `write.rs`; neither waits for anything. `keeper.rs` applies
//! durable records to the cache in the background. `open.rs` argues how a drive is taken and how local files are reconciled with the store.

use crate::cache::Cache;
use crate::device::DeviceError;
use crate::format::id::ObjectId;
use crate::format::root::Root;
use crate::journal::{Journal, JournalError};
use crate::map::Map;
use crate::pull::Puller;
use crate::push::Pusher;
use crate::room::Room;
use crate::store::meter::Meter;
use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, ChunkIndex, Lsn, coalesce};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod access;
mod assemble;
mod close;
pub mod gate;
mod hand_over;
mod handed;
mod keeper;
mod kept;
mod notes;
mod open;
mod pins;
mod read;
mod receive;
mod reconcile;
mod remember;
pub(crate) mod scanning;
mod seen;
mod source;
mod status;
mod survey;
mod take;
mod trace;
mod write;

pub use crate::local::{Base, Fork, Handed, Inherits, Local, has_unsent};
pub use access::{Access, Environment, OpenError, Over};
pub use close::VolumeDevice;
pub use hand_over::{Content, HandOver, HandOverError, HandOverPhase, Sealed, Swapped};
pub use handed::handed;
pub use open::{fork, open, open_pinned};
pub use pins::{Held, Pinned, PinsStatus};
pub use receive::{Arrival, ReceiveError, Receiving, receive, received};
pub use source::MapSource;
pub use status::VolumeStatus;

/// An open drive.
pub struct Volume {
    journal: Arc<Journal>,
    cache: Arc<Cache>,
    map: Arc<Map>,
    puller: Arc<Puller<MapSource>>,
    room: Arc<Room>,
    survey: survey::Survey,
    scanning: scanning::Scanning,
    trace: trace::Trace,
    pins: pins::Pins,
    /// None for a version that is only read: writes to it stay here and are discarded.
    pusher: Option<Pusher>,
    meter: Meter,
    root: Root,
    root_id: ObjectId,
    size_blocks: AtomicU64,
    closed: AtomicBool,
    keeper: keeper::Keeper,
    /// None for a version that is only read.
    rememberer: Option<Arc<remember::Rememberer>>,
    /// The last record that the applier has made durable in the cache file.
    applied_durable: Arc<AtomicU64>,
    // Held while the drive is resized.
    resizing: Mutex<()>,
    gate: gate::Gate,
    is_handing_over: AtomicBool,
}

/// A drive's limits on this device.
#[derive(Clone, Copy, Debug)]
pub struct VolumeLimits {
    /// The journal's.
    pub journal: crate::journal::Limits,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of records in one commit, at most.
    pub batch_bytes: u64,
    /// Segments after the last map checkpoint, at most: an open reads the directory of each.
    pub tail_segments: usize,
    /// Whether the file system is surveyed, so that its metadata is pulled first. Off only to measure the gain.
    pub metadata_first: bool,
    /// Whether pushing starts paused.
    pub push_paused: bool,
    /// Whether background pulls start paused.
    pub pull_paused: bool,
}

impl VolumeLimits {
    /// The usual limits, with these bytes of the local disk.
    pub fn new(journal_bytes: u64, cache_bytes: u64) -> Self {
        let journal = crate::journal::Limits::of_bytes(journal_bytes);
        Self {
            journal,
            cache_bytes,
            batch_bytes: 256 << 20,
            tail_segments: 256,
            metadata_first: true,
            push_paused: false,
            pull_paused: false,
        }
    }
}

impl Volume {
    /// The version that the drive was opened at.
    pub fn opened_root(&self) -> &Root {
        &self.root
    }

    /// Its name in the store.
    pub fn opened_root_id(&self) -> ObjectId {
        self.root_id
    }

    /// Size in blocks.
    pub fn size_blocks(&self) -> u64 {
        self.size_blocks.load(Ordering::Acquire)
    }

    /// The push task; none for a version that is only read.
    pub fn pusher(&self) -> Option<&Pusher> {
        self.pusher.as_ref()
    }

    /// The pull scheduler.
    pub fn puller(&self) -> &Arc<Puller<MapSource>> {
        &self.puller
    }

    /// The local log.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The local copy.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The map from blocks to the store.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Evicts chunks because a person wants the space: as [`Volume::evict`], and the traces of earlier openings do not bring them back.
    pub async fn let_go(&self, chunks: &[ChunkIndex]) -> std::io::Result<u64> {
        self.trace.forget(chunks);
        let runs = coalesce(chunks.iter().map(|chunk| chunk.blocks()).collect(), 0);
        runs.into_iter().for_each(|run| self.puller.leave_out(run));
        self.evict(chunks).await
    }

    /// Evicts chunks from the cache, except what has to stay: blocks that the store lacks, metadata, and pinned blocks. Returns the bytes
    /// that were freed.
    pub async fn evict(&self, chunks: &[ChunkIndex]) -> std::io::Result<u64> {
        self.apply_durable().await;
        let residents = self.cache.residents();
        let stays = |blocks| self.journal.is_dirty(blocks) || residents.must_stay(blocks);
        self.cache.evict(chunks, stays).await
    }

    /// Applies durable records to the cache: blocks that were just uploaded may be in the journal only, where they could not be evicted.
    async fn apply_durable(&self) {
        let durable = self.journal.durable();
        if let Err(error) = self.apply(durable).await {
            tracing::debug!(error, "not all of the journal is carried to the cache");
        }
    }

    /// Applies records up to `durable` to the cache. They have to be durable.
    async fn apply(&self, durable: Lsn) -> Result<(), String> {
        let in_store = self.rememberer.as_ref().map_or(Lsn(0), |rememberer| rememberer.lsn());
        keeper::apply(&self.journal, &self.cache, &self.room, in_store, durable).await.map(drop)
    }

    /// Stops fetching the blocks that were read first at earlier openings, for this opening. Pulls in flight end.
    pub fn stop_trace(&self) {
        self.puller.leave_out(self.all_blocks());
    }

    /// [`Volume::let_go`] for all chunks.
    pub async fn let_go_of_all(&self) -> std::io::Result<u64> {
        self.trace.forget_all();
        self.puller.leave_out(self.all_blocks());
        self.evict_all().await
    }

    /// [`Volume::evict`] for all chunks.
    pub async fn evict_all(&self) -> std::io::Result<u64> {
        /// Every batch makes the bitmap durable.
        const CHUNKS_AT_ONCE: usize = 4096;
        self.apply_durable().await;
        let (mut from, mut freed) = (0, 0);
        // Scattered reads have left many small pieces.
        let mut some: Vec<ChunkIndex> = Vec::new();
        while let Some(data) = self.cache.file().next_data(from)? {
            from = data.end;
            let blocks = BlockRange::covering(&data).intersect(&self.all_blocks());
            for chunk in (blocks.start / CHUNK_BLOCKS..blocks.end.div_ceil(CHUNK_BLOCKS)).map(ChunkIndex) {
                if some.last() != Some(&chunk) {
                    some.push(chunk);
                }
                if some.len() == CHUNKS_AT_ONCE {
                    freed += self.evict(&std::mem::take(&mut some)).await?;
                }
            }
        }
        Ok(freed + self.evict(&some).await?)
    }

    /// Bytes of the cache that have to stay: metadata, pinned blocks, and pending uploads.
    pub fn cache_needed_bytes(&self) -> u64 {
        self.cache_needed(&self.pinned()).max(self.survey.least_cache_bytes())
    }

    /// The limit of the cache, in bytes.
    pub fn cache_limit(&self) -> u64 {
        self.room.limit()
    }

    /// Sets the limit of the cache. Bytes above it are evicted at once.
    pub fn set_cache_limit(&self, bytes: u64) {
        self.room.set_limit(bytes);
    }

    /// Whether HEAD says that this opening has the drive: from the start, or since the store came back. True for a version that is only
    /// read.
    pub fn is_taken(&self) -> bool {
        self.pusher.as_ref().is_none_or(|pusher| pusher.state().borrow().is_taken)
    }

    /// Whether a mount would find everything that it reads without the store. Waits until that is known; if something is missing, it never
    /// is.
    pub async fn is_mountable_away(&self) -> bool {
        self.survey.is_mountable_away().await
    }

    /// Slows down readers that read the beginning of one file after another, as thumbnailers and indexers do; or treats them like any
    /// reader.
    pub fn set_scans_slowed(&self, are_slowed: bool) {
        self.scanning.set_slowed(are_slowed);
    }

    /// The blocks of the drive.
    pub fn all_blocks(&self) -> BlockRange {
        BlockRange { start: 0, end: self.size_blocks() }
    }

    fn check_open(&self) -> Result<(), DeviceError> {
        if self.closed.load(Ordering::Acquire) { Err(DeviceError::Closed) } else { Ok(()) }
    }

    fn check_range(&self, range: &std::ops::Range<u64>) -> Result<(), DeviceError> {
        let end = self.size_blocks() * BLOCK_BYTES;
        if range.start <= range.end && range.end <= end { Ok(()) } else { Err(DeviceError::OutOfRange) }
    }
}

impl From<JournalError> for DeviceError {
    fn from(error: JournalError) -> Self {
        DeviceError::Failed(error.to_string())
    }
}
