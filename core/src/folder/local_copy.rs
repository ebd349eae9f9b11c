//! What of a folder's files is on this computer: the cache, and all that fills it, empties it and reads it.
//!
//! This is the engine of drives over a folder's virtual space. Only three things differ: missing blocks come from versions of files
//! ([`Versions`]), their bytes lie in a file for each of these ([`Backing`]), and spans come and go (`background`).

use super::Ino;
use super::backing::Backing;
use super::source::{Owner, Versions};
use super::spans::{Rows, SPACE_BLOCKS, Span, Spans};
use crate::admission::Admission;
use crate::cache::Cache;
use crate::disk::Disk;
use crate::entropy;
use crate::planted::{self, Bug};
use crate::pull::{Class, PullError, Puller};
use crate::store::remote::{Remote, Version};
use crate::units::{BLOCK_BYTES, BlockRange, ChunkIndex};
use crate::volume::scanning::Scanning;
use background::BackgroundTasks;
use foresee::Foreseen;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use uuid::Uuid;

mod background;
mod foresee;
mod hand_over;
mod pins;
mod read;

pub use read::ReadFailure;

/// What the local copy of a folder needs.
pub struct Environment {
    /// The folder's directory in the cache.
    pub disk: Arc<dyn Disk>,
    /// The directory `files` in it.
    pub files: Arc<dyn Disk>,
    /// The folder.
    pub folder: Uuid,
    /// Where its files are.
    pub remote: Arc<dyn Remote>,
    /// The folder's own knowledge of them.
    pub owner: Arc<dyn Owner>,
    /// How much of the local disk the files may take, in bytes.
    pub cache_bytes: u64,
}

/// The local copy of an open folder.
pub struct LocalCopy {
    spans: Arc<RwLock<Spans>>,
    rows: Arc<Rows>,
    backing: Arc<Backing>,
    cache: Arc<Cache>,
    room: Arc<Admission>,
    puller: Arc<Puller<Versions>>,
    scanning: Scanning,
    foreseen: Foreseen,
    /// Retired spans whose blocks are not given back yet.
    // Held to add spans or to take them all.
    leaving: Mutex<Vec<Arc<Span>>>,
    some_leave: Notify,
    /// Spans that stay on this device.
    // Held while the pins of the cache are changed, too.
    pinned: Mutex<pins::Pinned>,
    pins_changed: Notify,
    background: BackgroundTasks,
    /// How often each span is kept for programs that have it open.
    // Held while the holds of the cache are changed, too.
    open: Mutex<HashMap<u32, u32>>,
    is_closed: AtomicBool,
}

impl LocalCopy {
    /// Opens what is here. If the span table is lost or damaged, that is nothing.
    pub async fn open(environment: Environment) -> io::Result<Arc<Self>> {
        let Environment { disk, files, folder, remote, owner, cache_bytes } = environment;
        let found = Rows::open(&disk, folder)?;
        let generation = found.as_ref().map_or_else(entropy::u128, |(rows, _)| rows.generation());
        // A new generation: a bitmap that is left of a lost table does not count for the next one, which is durable first.
        let (rows, spans) = match found {
            Some(found) => found,
            None => (Rows::create(&disk, folder, generation).await?, Spans::default()),
        };
        let bitmap = disk.open("bitmap", true)?;
        let (rows, spans) = (Arc::new(rows), Arc::new(RwLock::new(spans)));
        let (backing, void) = Backing::open(spans.clone(), rows.clone(), files)?;
        let cache = Cache::open_on(backing.clone(), bitmap.clone(), folder, SPACE_BLOCKS, &[generation])?;
        if cache.opened_as().is_none() {
            // The pages of an older bitmap are gone for good before the header makes what follows it count.
            bitmap.clone().sync().await?;
            cache.set_generation(generation).await?;
            disk.sync_names().await?;
        }
        // Before any block of these can become valid.
        cache.invalidate(&void).await?;
        let room = Admission::start(cache.clone(), disk, cache_bytes, |_| false);
        let source = Versions::new(spans.clone(), remote, owner);
        let puller = Puller::new(source, cache.clone(), room.clone());
        let leaving = spans.read().all().filter(|span| span.is_retired()).cloned().collect();
        let copy = Arc::new(Self {
            spans,
            rows,
            backing,
            cache,
            room,
            puller,
            scanning: Scanning::new(),
            foreseen: Foreseen::default(),
            leaving: Mutex::new(leaving),
            some_leave: Notify::new(),
            pinned: Mutex::default(),
            pins_changed: Notify::new(),
            background: BackgroundTasks::default(),
            open: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        copy.background.begin(&copy);
        Ok(copy)
    }

    /// Makes durable what is here, and ends all that runs.
    pub async fn close(&self) -> io::Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.background.stop().await;
        self.room.stop().await;
        let persisted = self.persist().await;
        self.cache.retire().await;
        persisted
    }

    /// The span of a version of a file, which becomes the file's current one. The one of another version is given back.
    ///
    /// # Errors
    ///
    /// `StorageFull` if the space or the local disk is used up.
    pub fn span_of(&self, ino: Ino, version: &Version) -> io::Result<Arc<Span>> {
        let mut spans = self.spans.write();
        let before = spans.current(ino);
        match &before {
            Some(span) if is_same(span.version(), version) => return Ok(span.clone()),
            _ => {}
        }
        let span = self.rows.allocate(&mut spans, ino, version.clone())?;
        drop(spans);
        self.leave(before);
        Ok(span)
    }

    /// The span of the file's current version, if it was ever touched.
    pub fn current(&self, ino: Ino) -> Option<Arc<Span>> {
        self.spans.read().current(ino)
    }

    /// The highest number of a file that was ever seen here.
    pub fn highest_ino(&self) -> Ino {
        self.spans.read().highest_ino()
    }

    /// Forgets a version: nobody will read it again.
    pub fn forget(&self, span: &Arc<Span>) {
        let mut spans = self.spans.write();
        if !span.is_retired() {
            spans.retire(span);
            drop(spans);
            self.leave(Some(span.clone()));
        }
    }

    /// Retired spans are given back by the keeper.
    fn leave(&self, spans: Option<Arc<Span>>) {
        if let Some(span) = spans {
            self.leaving.lock().push(span);
            self.some_leave.notify_one();
        }
    }

    /// The span's local file, for reading, sending or registering it for passthrough. It is made if it is missing. Where it has
    /// blocks that are not local, it has zeros.
    pub fn file_of(&self, span: &Arc<Span>) -> io::Result<Arc<dyn crate::disk::DiskFile>> {
        self.backing.file_of(span)
    }

    /// Makes the span's local file durable, and closes it for writing: then no descriptor of this process keeps a lease on it
    /// from being granted. Returns whether it worked. Otherwise what is here of the file is downloaded again.
    pub async fn settle(&self, span: &Arc<Span>) -> bool {
        self.backing.settle(span).await
    }

    /// Whether all bytes of the file are here.
    pub fn is_whole(&self, span: &Span) -> bool {
        self.cache.valid().all(span.blocks()) && !span.is_retired()
    }

    /// Bytes of the file that are here.
    pub fn local_bytes(&self, span: &Span) -> u64 {
        let (valid, blocks) = (self.cache.valid(), span.blocks());
        let local = valid.count(blocks) * BLOCK_BYTES;
        match blocks.is_empty() || !valid.get(blocks.end - 1) {
            true => local,
            // The last block may hold fewer bytes.
            false => local - (blocks.byte_len() - span.len()),
        }
    }

    /// Bytes of the local disk that all files take.
    pub fn taken_bytes(&self) -> u64 {
        self.cache.file().allocated().unwrap_or(0)
    }

    /// Pulls what is missing of the file. Returns whether all of it is here now: some may have been evicted again, where the
    /// cache is small.
    pub async fn make_whole(&self, span: &Arc<Span>, class: Class) -> Result<bool, ReadFailure> {
        if self.is_whole(span) {
            return Ok(true);
        }
        self.puller.pull_all(class, &[span.blocks()]).await?;
        match span.is_retired() {
            true => Err(ReadFailure::Gone),
            false => Ok(self.is_whole(span)),
        }
    }

    /// Frees the space of the file, except for what is pinned. Returns the bytes that were freed.
    pub async fn evict(&self, span: &Arc<Span>) -> io::Result<u64> {
        let valid = self.cache.valid().runs(span.extent());
        let chunks: Vec<_> = valid.flat_map(BlockRange::by_chunk).map(|run| run.start).collect();
        let mut chunks: Vec<_> =
            chunks.into_iter().map(|block| crate::units::BlockIndex(block).chunk()).collect();
        chunks.dedup();
        let chunks: &[ChunkIndex] = &chunks;
        self.cache.evict(chunks, |blocks| self.cache.residents().must_stay(blocks)).await
    }

    /// Bytes of these blocks that are not here.
    pub(super) fn missing_bytes(&self, blocks: BlockRange) -> u64 {
        (blocks.count() - self.cache.valid().count(blocks)) * BLOCK_BYTES
    }

    /// Pulls what is missing of these blocks.
    pub(super) async fn pull(&self, class: Class, blocks: &[BlockRange]) -> Result<(), ReadFailure> {
        self.check_open()?;
        Ok(self.puller.pull_all(class, blocks).await?)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.room.limit()
    }

    /// Sets the limit in bytes. Evicts at once what exceeds it.
    pub fn set_limit(&self, bytes: u64) {
        self.room.set_limit(bytes);
    }

    /// Pulls blocks.
    pub fn puller(&self) -> &Arc<Puller<Versions>> {
        &self.puller
    }

    /// Makes all that is here survive a power cut.
    ///
    /// # Errors
    ///
    /// It could not be made durable. If the data was at fault, all of it counts as absent from here on.
    pub async fn persist(&self) -> io::Result<()> {
        let Err(error) = self.cache.persist().await else { return Ok(()) };
        if self.cache.is_suspect() {
            tracing::error!(%error, "a folder's cache could not be made durable: its files are downloaded again");
            self.cache.invalidate_all().await?;
        }
        Err(error)
    }

    fn check_open(&self) -> Result<(), ReadFailure> {
        if self.is_closed.load(Ordering::SeqCst) { Err(ReadFailure::Closed) } else { Ok(()) }
    }
}

fn is_same(one: &Version, other: &Version) -> bool {
    one == other || planted::has(Bug::VersionByLength) && one.len == other.len
}

impl From<PullError> for ReadFailure {
    fn from(error: PullError) -> Self {
        match error {
            PullError::Read(error) if error.is_gone() => ReadFailure::Gone,
            PullError::Read(error) if error.is_transient() => ReadFailure::Unavailable(error.to_string()),
            PullError::Away => ReadFailure::Unavailable(error.to_string()),
            PullError::Read(_) | PullError::Cache(_) | PullError::CacheFull(_) => {
                ReadFailure::Failed(error.to_string())
            }
        }
    }
}

impl LocalCopy {
    /// Keeps a file here while a program has its local file by passthrough: none of its blocks is evicted. Returns whether all of it is here;
    /// only then it is kept, until [`keep_no_more`](Self::keep_no_more) was called as often.
    pub fn keep_open(&self, span: &Span) -> bool {
        let mut open = self.open.lock();
        *open.entry(span.number().0).or_default() += 1;
        self.cache.keep_for_now(&[span.blocks()]);
        let is_whole = !span.is_retired() && self.cache.are_all_valid(span.blocks());
        if !is_whole {
            self.let_go(&mut open, span);
        }
        is_whole
    }

    /// The same for a file that a program has open since before the daemon began: the kernel has it, whatever is known of it here.
    pub(super) fn keep_survivor(&self, span: &Span) {
        let mut open = self.open.lock();
        *open.entry(span.number().0).or_default() += 1;
        self.cache.keep_for_now(&[span.blocks()]);
    }

    /// Ends one [`keep_open`](Self::keep_open).
    pub fn keep_no_more(&self, span: &Span) {
        self.let_go(&mut self.open.lock(), span);
    }

    fn let_go(&self, open: &mut HashMap<u32, u32>, span: &Span) {
        let number = span.number().0;
        let left = open.get_mut(&number).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            open.remove(&number);
            if let Err(error) = self.cache.hold_no_more(&[span.blocks()]) {
                tracing::warn!(%error, "a file that was open stays in the cache until the folder is opened again");
            }
        }
    }
}
