//! The cache: a local sparse file with the layout of the drive, and a bitmap of the blocks in it that are valid.
//!
//! Three operations write the file:
//! * *fill* writes pulled data, and only into blocks that are absent at that moment, so that an old version never lands on
//!   a newer one;
//! * *apply* writes journal records, and only durable ones: if a power cut takes back an unflushed overwrite, that
//!   overwrite must not have touched a block that counts as valid;
//! * *evict* marks a block invalid, makes that durable, waits for the reads that began before, and only then frees the
//!   space. Otherwise a power cut in between would leave a valid block full of zeros, and a slow reader would get them. A
//!   block that became valid again meanwhile (it was pulled or written) stays.
//!
//! The bitmap on disk may differ from the one in memory in one direction only: a bit that is set on disk stands for data
//! that is durable in the file.

use crate::bitmap::Bitmap;
use crate::disk::{Disk, DiskFile};
use crate::journal::{Operation, Place, Record};
use crate::planted::{self, Bug};
use crate::runs::RunMap;
use crate::units::{BLOCK_BYTES, BlockRange, CHUNK_BLOCKS, ChunkIndex, coalesce};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

mod awaited;
mod hand_over;
mod hold;
mod persist;
mod residents;

pub use awaited::Awaited;
use awaited::Waits;
pub use residents::Residents;

pub use hold::{Hold, Holds};

/// Locks over chunks: fill, apply and evict of one chunk exclude each other.
const SHARDS: usize = 64;

/// The cache of one drive.
pub struct Cache {
    /// The generation of the bitmap when it was opened.
    opened_as: Option<u128>,
    file: Arc<dyn DiskFile>,
    bitmap_file: Arc<dyn DiskFile>,
    drive: Uuid,
    valid: Bitmap,
    holds: Holds,
    residents: Residents,
    shards: [Mutex<()>; SHARDS],
    waits: Arc<Waits>,
    /// Chunks with pulls in flight. They are not evicted: a pull that looked up a block before an eviction may bring an
    /// older version than the evicted one.
    pulling: Mutex<BTreeMap<ChunkIndex, usize>>,
    persist: tokio::sync::Mutex<persist::Persisted>,
    /// Only one eviction at a time waits for the readers before it.
    evicting: tokio::sync::Mutex<()>,
    /// The drive was closed: the files may belong to its next opening, which has a bitmap of its own.
    retired: AtomicBool,
    /// A sync of the file failed: its content is not trusted until all of it has been made invalid.
    suspect: AtomicBool,
}

/// Keeps the chunks of a pull from being evicted.
pub struct Pulling {
    cache: Arc<Cache>,
    chunks: Vec<ChunkIndex>,
}

impl Cache {
    /// Opens the cache of `drive`, which has at most `capacity` blocks. Its bitmap counts only if it carries one of the
    /// `generations`; otherwise every block is absent.
    pub fn open(disk: &dyn Disk, drive: Uuid, capacity: u64, generations: &[u128]) -> io::Result<Arc<Self>> {
        Self::open_on(disk.open("blocks", true)?, disk.open("bitmap", true)?, drive, capacity, generations)
    }

    /// Like [`open`](Self::open), with the blocks in `file`, which may be more than one file of the local disk, and the
    /// bitmap in `bitmap_file`.
    pub fn open_on(
        file: Arc<dyn DiskFile>,
        bitmap_file: Arc<dyn DiskFile>,
        drive: Uuid,
        capacity: u64,
        generations: &[u128],
    ) -> io::Result<Arc<Self>> {
        let mut valid = Bitmap::new(capacity);
        let mut persisted = persist::load(&*bitmap_file, drive, generations, &valid)?;
        // The file is as long as the drive. A shorter file was deleted or truncated without its bitmap: once it is extended
        // again, the missing part would read as zeros.
        let there = (file.len()? / BLOCK_BYTES).min(capacity);
        if valid.any(BlockRange { start: there, end: capacity }) {
            valid = Bitmap::new(capacity);
            persisted = persist::load(&*bitmap_file, drive, &[], &valid)?;
        }
        let opened_as = persisted.opened_as;
        let cache = Arc::new(Self {
            opened_as,
            file,
            bitmap_file,
            drive,
            valid,
            holds: Holds::default(),
            residents: Residents::new(capacity),
            shards: [const { Mutex::new(()) }; SHARDS],
            waits: Arc::default(),
            pulling: Mutex::default(),
            persist: tokio::sync::Mutex::new(persisted),
            evicting: tokio::sync::Mutex::default(),
            retired: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
        });
        cache.tell_residents()?;
        Ok(cache)
    }

    /// The generation of the bitmap when it was opened. `None` if it was not trusted.
    pub fn opened_as(&self) -> Option<u128> {
        self.opened_as
    }

    /// Reports the chunks that take disk space, also those that are no longer valid. Runs of zeros take none, however long
    /// they are. The file may come from a time when the drive was larger: data beyond the capacity belongs to none of its
    /// blocks.
    fn tell_residents(&self) -> io::Result<()> {
        let all = BlockRange { start: 0, end: self.valid.capacity() };
        let mut from = 0;
        while let Some(data) = self.file.next_data(from)? {
            from = data.end;
            self.residents.came(BlockRange::covering(&data).intersect(&all));
        }
        Ok(())
    }

    /// Pins exactly these runs, which are in order and apart from each other. Blocks that were pinned before and are not
    /// among them are unpinned.
    pub fn pin(&self, runs: &[BlockRange]) -> io::Result<()> {
        self.may_go(&self.residents.pin(runs))
    }

    /// Keeps these blocks for a while, until [`hold_no_more`](Self::hold_no_more).
    pub fn keep_for_now(&self, runs: &[BlockRange]) {
        self.residents.hold(runs);
    }

    /// Ends [`keep_for_now`](Self::keep_for_now).
    pub fn hold_no_more(&self, runs: &[BlockRange]) -> io::Result<()> {
        self.residents.hold_no_more(runs);
        self.may_go(runs)
    }

    /// Bytes of the local disk that blocks take: a run of zeros takes none.
    pub fn taken_by(&self, blocks: BlockRange) -> io::Result<u64> {
        let (mut taken, mut from, end) = (0, blocks.bytes().start, blocks.bytes().end);
        while let Some(data) = self.file.next_data(from)?.filter(|data| data.start < end) {
            from = data.end;
            taken += data.end.min(end) - data.start;
        }
        Ok(taken)
    }

    /// Blocks of `runs` that are here may be evicted again. Runs of zeros take no space.
    fn may_go(&self, runs: &[BlockRange]) -> io::Result<()> {
        for run in runs {
            let mut from = run.bytes().start;
            while let Some(data) = self.file.next_data(from)?.filter(|data| data.start < run.bytes().end) {
                from = data.end;
                self.residents.came(BlockRange::covering(&data).intersect(run));
            }
        }
        Ok(())
    }

    /// Which chunks are here, and which have to stay.
    pub fn residents(&self) -> &Residents {
        &self.residents
    }

    /// Whether a pull of some of the blocks is under way.
    pub fn is_pulled(&self, blocks: BlockRange) -> bool {
        let pulling = self.pulling.lock();
        let range = ChunkIndex(blocks.start / CHUNK_BLOCKS)..ChunkIndex(blocks.end.div_ceil(CHUNK_BLOCKS));
        pulling.range(range).next().is_some()
    }

    /// Says that a reader waits for these blocks while the result lives. Evictions leave them alone: otherwise a full cache could evict what
    /// was pulled before the reader takes it, again and again.
    pub fn wait_for(&self, blocks: BlockRange) -> Awaited {
        self.waits.begin(blocks)
    }

    /// Whether a reader waits for some of the blocks.
    pub fn is_awaited(&self, blocks: BlockRange) -> bool {
        self.waits.any(blocks)
    }

    /// Makes the file as long as a drive of `size_blocks`.
    pub fn set_size(&self, size_blocks: u64) -> io::Result<()> {
        let len = size_blocks * BLOCK_BYTES;
        if self.file.len()? < len { self.file.set_len(len) } else { Ok(()) }
    }

    /// Blocks that are in it.
    pub fn valid(&self) -> &Bitmap {
        &self.valid
    }

    /// Whether blocks are valid, and no eviction that has not seen a hold of them takes them any more.
    pub fn are_all_valid(&self, blocks: BlockRange) -> bool {
        let _all = self.lock_all(blocks);
        self.valid.all(blocks)
    }

    /// The local file, for reading blocks that are valid.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Begins a read: blocks that are valid now stay in place until the hold is dropped.
    pub fn hold(&self) -> Hold {
        self.holds.enter()
    }

    /// The parts of `range` that are absent.
    pub fn absent(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut absent = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (valid, run) = self.valid.run(BlockRange { start: at, end: range.end });
            if !valid {
                absent.push(run);
            }
            at = run.end;
        }
        absent
    }

    /// Announces a pull of `range`. Call this before its place in the store is looked up.
    pub fn begin_pull(self: &Arc<Self>, range: BlockRange) -> Pulling {
        let chunks: Vec<_> = range.by_chunk().map(|part| ChunkIndex(part.start / CHUNK_BLOCKS)).collect();
        let mut pulling = self.pulling.lock();
        for chunk in &chunks {
            *pulling.entry(*chunk).or_default() += 1;
        }
        Pulling { cache: self.clone(), chunks }
    }

    /// Stores pulled data: `data` is the content of `blocks`, a run inside one chunk. Only absent blocks are filled.
    pub fn fill(&self, blocks: BlockRange, data: &[u8]) -> io::Result<()> {
        self.residents.came(blocks);
        self.fill_absent(blocks, |run| {
            let from = ((run.start - blocks.start) * BLOCK_BYTES) as usize;
            self.file.write_at(&data[from..from + run.byte_len() as usize], run.start * BLOCK_BYTES)
        })
    }

    /// Stores that blocks are zero, however many there are. The file may hold anything under an absent block, so the range
    /// is punched.
    pub fn fill_zero(&self, blocks: BlockRange) -> io::Result<()> {
        if blocks.count() >= SHARDS as u64 * CHUNK_BLOCKS {
            return self.fill_zero_at_once(blocks);
        }
        blocks.by_chunk().try_for_each(|part| {
            self.fill_absent(part, |run| match planted::has(Bug::ZeroWithoutPunch) {
                false => self.file.punch(run.bytes()),
                true => Ok(()),
            })
        })
    }

    fn fill_zero_at_once(&self, blocks: BlockRange) -> io::Result<()> {
        let _all = self.lock_all(blocks);
        self.check_current()?;
        for run in self.absent(blocks) {
            self.file.punch(run.bytes())?;
            self.valid.set(run);
        }
        Ok(())
    }

    fn fill_absent(
        &self,
        blocks: BlockRange,
        store: impl Fn(BlockRange) -> io::Result<()>,
    ) -> io::Result<()> {
        let _chunk = self.shard(blocks).lock();
        self.check_current()?;
        let absent = if planted::has(Bug::FillOverValid) { vec![blocks] } else { self.absent(blocks) };
        for run in absent {
            store(run)?;
            self.valid.set(run);
        }
        Ok(())
    }

    /// Writes durable records to the file: only the latest version of each block.
    pub async fn apply(&self, records: &[Record]) -> io::Result<()> {
        let mut latest = RunMap::new();
        for record in records {
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                latest.insert(blocks, record.place.clone());
            }
        }
        let mut buffer = Vec::new();
        for (run, place) in latest.iter() {
            match place {
                // A run of zeros may cover the drive: it is punched at once, not chunk by chunk.
                Place::Zero => {
                    self.apply_zero(run)?;
                    self.residents.are_written(run);
                }
                Place::Data { file, offset } => {
                    buffer.resize(run.byte_len() as usize, 0);
                    file.read(&mut buffer, *offset)?;
                    for part in run.by_chunk() {
                        self.residents.came(part);
                        let from = ((part.start - run.start) * BLOCK_BYTES) as usize;
                        let _chunk = self.shard(part).lock();
                        self.check_current()?;
                        self.file.write_at(
                            &buffer[from..from + part.byte_len() as usize],
                            part.start * BLOCK_BYTES,
                        )?;
                        self.valid.set(part);
                    }
                    self.residents.are_written(run);
                }
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    fn apply_zero(&self, run: BlockRange) -> io::Result<()> {
        let _all = self.lock_all(run);
        self.check_current()?;
        self.file.punch(run.bytes())?;
        self.valid.set(run);
        Ok(())
    }

    /// The locks of all chunks of the run: a fill must not come between the punch and setting the bits.
    fn lock_all(&self, run: BlockRange) -> Vec<MutexGuard<'_, ()>> {
        if run.count() >= SHARDS as u64 * CHUNK_BLOCKS {
            return self.shards.iter().map(Mutex::lock).collect();
        }
        let mut indices: Vec<_> = run.by_chunk().map(shard_index).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().map(|index| self.shards[index].lock()).collect()
    }

    /// Ends writing to the files for good. A pull that is still under way fails from here on: its data may be older than
    /// what the next opening has written, and it does not see the bitmap of that opening.
    pub async fn retire(&self) {
        let _bitmap = self.persist.lock().await;
        self.retired.store(true, Ordering::SeqCst);
        // A writer that read the flag before it was set still holds one of these locks.
        self.shards.iter().for_each(|shard| drop(shard.lock()));
    }

    /// Whether a sync of the file failed and its content was not made invalid yet.
    pub fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::SeqCst)
    }

    fn check_current(&self) -> io::Result<()> {
        if self.retired.load(Ordering::SeqCst) {
            Err(io::Error::other("the drive was closed"))
        } else {
            Ok(())
        }
    }

    /// Evicts chunks, except for their blocks that must stay, and frees the space. `keep` says, under the chunk's lock,
    /// whether any of some blocks must stay (because they are dirty or pinned). Chunks that are being pulled and blocks that
    /// readers wait for stay too. Returns the bytes that were freed.
    pub async fn evict(&self, chunks: &[ChunkIndex], keep: impl Fn(BlockRange) -> bool) -> io::Result<u64> {
        let all = BlockRange { start: 0, end: self.valid.capacity() };
        let stays = |blocks| self.is_awaited(blocks) || keep(blocks) && !planted::has(Bug::DirtyEvicted);
        let may_go = |chunk: &ChunkIndex| match chunk.blocks().intersect(&all) {
            blocks if stays(blocks) => coalesce(blocks.pieces(1).filter(|block| !stays(*block)).collect(), 0),
            blocks => vec![blocks],
        };
        self.take_out(chunks.iter().flat_map(may_go), stays).await
    }

    /// Evicts blocks whose newest version is in the store and for which this cache has no space, even pinned ones: they are
    /// read from the store again. Returns whether all of `runs` are gone and none of them is coming. Chunks that are being
    /// pulled stay, because such a pull may have looked up an older version.
    pub async fn give_up(&self, runs: &[BlockRange]) -> io::Result<bool> {
        self.take_out(runs.iter().flat_map(|run| run.by_chunk()), |_| false).await?;
        // In this order: a pull that has ended meanwhile has made its blocks valid.
        let are_coming = runs.iter().any(|run| self.is_pulled(*run));
        Ok(!are_coming && !runs.iter().any(|run| self.valid.any(*run)))
    }

    /// Evicts parts of chunks, unless they must stay or are being pulled. Returns the bytes that were freed.
    async fn take_out(
        &self,
        parts: impl Iterator<Item = BlockRange>,
        stays: impl Fn(BlockRange) -> bool,
    ) -> io::Result<u64> {
        let _turn = self.evicting.lock().await;
        // Locks the bitmap on disk, so that no snapshot taken before these bits are cleared is written after.
        let mut persisted = self.persist.lock().await;
        self.check_current()?;
        let mut cleared = Vec::new();
        for blocks in parts {
            let _chunk = self.shard(blocks).lock();
            if self.pulling.lock().contains_key(&ChunkIndex(blocks.start / CHUNK_BLOCKS))
                || stays(blocks)
                // Blocks that were made invalid may still take space.
                || (!self.valid.any(blocks) && self.taken_by(blocks)? == 0)
            {
                continue;
            }
            self.valid.clear(blocks);
            cleared.push(blocks);
        }
        if cleared.is_empty() {
            return Ok(0);
        }
        if !planted::has(Bug::HoleBeforeBits) {
            persisted.clear(&cleared);
            persisted.write(&self.bitmap_file, self.drive).await?;
        }
        // A slow reader delays evictions, and nothing else.
        drop(persisted);
        self.holds.wait_for_earlier().await;
        let mut freed = 0;
        for blocks in cleared {
            let _chunk = self.shard(blocks).lock();
            self.check_current()?;
            // A block may have been written or pulled again: if it is valid now, it is newer than this eviction.
            for run in self.absent(blocks) {
                freed += self.taken_by(run)?;
                self.file.punch(run.bytes())?;
            }
        }
        Ok(freed)
    }

    /// Makes everything in a suspect cache invalid. Only then is it trusted again.
    pub async fn invalidate_all(&self) -> io::Result<()> {
        self.invalidate(&[BlockRange { start: 0, end: self.valid.capacity() }]).await?;
        self.suspect.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Makes blocks invalid durably, because another version of the drive is current. Their space is freed by later
    /// evictions, like that of other blocks.
    pub async fn invalidate(&self, runs: &[BlockRange]) -> io::Result<()> {
        let mut persisted = self.persist.lock().await;
        self.check_current()?;
        runs.iter().for_each(|run| self.valid.clear(*run));
        persisted.clear(runs);
        persisted.write(&self.bitmap_file, self.drive).await
    }

    fn shard(&self, blocks: BlockRange) -> &Mutex<()> {
        &self.shards[shard_index(blocks)]
    }
}

fn shard_index(blocks: BlockRange) -> usize {
    (blocks.start / CHUNK_BLOCKS) as usize % SHARDS
}

impl Drop for Pulling {
    fn drop(&mut self) {
        let mut pulling = self.cache.pulling.lock();
        for chunk in &self.chunks {
            let count = pulling.get_mut(chunk).expect("it was counted when the pull began");
            *count -= 1;
            if *count == 0 {
                pulling.remove(chunk);
            }
        }
    }
}
