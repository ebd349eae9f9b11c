//! Reading the objects of the map (pages, directories and roots) from memory, from the local page cache (sled), or from the
//! store.

use super::{Content, Frame};
use crate::format::FormatError;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::page::{Page, PageRun};
use crate::format::root::{BoxRef, Root, TailSegment};
use crate::format::segment::{self, Directory, HEADER_BYTES, PAGE_BYTES_MAX};
use crate::format::usage::{self, Usage};
use crate::read_error::ReadError;
use crate::seal::{Purpose, Sealer};
use crate::store::{Fetched, Store};
use crate::units::BlockRange;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Runs of pages in memory: 48 bytes each, so about 48 MiB.
const RUNS_IN_MEMORY_MAX: usize = 1 << 20;

/// Map pages and directories of the tail on the local disk, sealed as they are in the store. Everything in here can be
/// fetched again, and may vanish or rot at any time: an entry that does not open is fetched.
#[derive(Clone)]
pub struct PageCache {
    tree: Option<sled::Tree>,
}

impl PageCache {
    /// A cache that keeps nothing.
    pub fn none() -> Self {
        Self { tree: None }
    }

    /// Keeps pages in a sled tree.
    pub fn sled(tree: sled::Tree) -> Self {
        Self { tree: Some(tree) }
    }

    fn key(place: BoxRef) -> Vec<u8> {
        let name = place.object.name(ObjectKind::Segment);
        [name.as_bytes(), &place.offset.to_be_bytes()].concat()
    }

    fn get(&self, place: BoxRef) -> Option<Bytes> {
        let found = self.tree.as_ref()?.get(Self::key(place)).ok()??;
        Some(Bytes::copy_from_slice(&found))
    }

    fn put(&self, place: BoxRef, sealed: &[u8]) {
        if let Some(tree) = &self.tree {
            // If sled refuses an entry, it is only fetched again.
            let _ = tree.insert(Self::key(place), sealed);
        }
    }

    fn remove(&self, place: BoxRef) {
        if let Some(tree) = &self.tree {
            let _ = tree.remove(Self::key(place));
        }
    }
}

/// The objects of a family, opened.
pub struct Objects {
    store: Arc<dyn Store>,
    sealer: Arc<Sealer>,
    local: PageCache,
    // Held for map operations only; loading happens in the cells.
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    cells: BTreeMap<(ObjectId, u32), Slot>,
    clock: u64,
}

struct Slot {
    cell: Arc<OnceCell<Arc<Loaded>>>,
    used: u64,
}

/// A page in memory.
pub(super) struct Loaded {
    pub place: BoxRef,
    pub page: Page,
}

impl Loaded {
    pub fn look_up(&self, range: BlockRange, mut found: impl FnMut(BlockRange, Content)) {
        let runs = &self.page.runs;
        let mut at = range.start;
        let first = runs.partition_point(|run| run.blocks.end <= range.start);
        for run in runs[first..].iter().take_while(|run| run.blocks.start < range.end) {
            let part = run.blocks.intersect(&range);
            if at < part.start {
                found(BlockRange { start: at, end: part.start }, Content::Zero);
            }
            found(part, Content::Frame(self.frame(run)));
            at = part.end;
        }
        if at < range.end {
            found(BlockRange { start: at, end: range.end }, Content::Zero);
        }
    }

    fn frame(&self, run: &PageRun) -> Frame {
        let segment = self.page.segments[run.frame.segment as usize];
        Frame {
            segment: segment.id,
            segment_len: segment.len,
            offset: run.frame.offset,
            stored_len: run.frame.stored_len,
            blocks: run.frame.blocks,
        }
    }
}

impl Objects {
    /// Reads through `local` from `store`.
    pub fn new(store: Arc<dyn Store>, sealer: Arc<Sealer>, local: PageCache) -> Self {
        Self { store, sealer, local, pages: Mutex::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The family's seal.
    pub fn sealer(&self) -> &Arc<Sealer> {
        &self.sealer
    }

    /// A root, checked against the hash that names it if one is known.
    pub async fn root(&self, id: ObjectId, hash: Option<[u8; 32]>) -> Result<Root, ReadError> {
        let name = id.name(ObjectKind::Root);
        let open = |object: &[u8]| match hash {
            Some(hash) if *blake3::hash(object).as_bytes() != hash => Err(FormatError::Seal),
            _ => Root::open(&self.sealer, &name, object),
        };
        Ok(read(&*self.store, &name, None, open).await?.0)
    }

    /// A segment's directory, in one ranged request if it is not cached.
    pub async fn directory(&self, segment: TailSegment) -> Result<Directory, ReadError> {
        let name = segment.object.name(ObjectKind::Segment);
        let (place, front) = front_of(segment);
        let remembered = self.local.get(place).filter(|bytes| bytes.len() as u64 == front);
        if let Some(Ok(directory)) = remembered.map(|bytes| segment::decode(&self.sealer, &name, &bytes)) {
            return Ok(directory);
        }
        let decode = |bytes: &[u8]| segment::decode(&self.sealer, &name, bytes);
        let (directory, fetched) = read(&*self.store, &name, Some(0..front), decode).await?;
        self.local.put(place, &fetched.bytes);
        Ok(directory)
    }

    /// Caches a page, sealed as it was just put.
    pub fn remember_sealed(&self, place: BoxRef, body: &[u8]) {
        let (start, len) = (place.offset as usize, place.stored_len as usize);
        if let Some(sealed) = body.get(start..start + len) {
            self.local.put(place, sealed);
        }
    }

    /// Deletes the local copies of a page and of directories that no later version names.
    pub(super) fn forget(&self, page: Option<BoxRef>, tail: &[TailSegment]) {
        let directories = tail.iter().map(|segment| front_of(*segment).0);
        page.into_iter().chain(directories).for_each(|place| self.local.remove(place));
    }

    /// Caches the directory of a segment that was just put.
    pub fn remember_directory(&self, segment: TailSegment, body: &[u8]) {
        let (place, front) = front_of(segment);
        if let Some(bytes) = body.get(..front as usize) {
            self.local.put(place, bytes);
        }
    }

    /// The directory of a segment of which only the id is known.
    pub async fn directory_of(&self, object: ObjectId) -> Result<Directory, ReadError> {
        let name = object.name(ObjectKind::Segment);
        let decode = |bytes: &[u8]| segment::decode(&self.sealer, &name, bytes);
        Ok(read(&*self.store, &name, None, decode).await?.0)
    }

    /// The blocks of a frame, from its box.
    pub fn open_frame(&self, frame: &Frame, sealed: &[u8]) -> Result<Vec<u8>, FormatError> {
        let name = frame.segment.name(ObjectKind::Segment);
        let len = frame.blocks.byte_len() as usize;
        match self.sealer.open(Purpose::Frame, &name, &segment::frame_place(frame.blocks), sealed, len)? {
            data if data.len() == len => Ok(data),
            _ => Err(FormatError::Invalid("a frame has the wrong length")),
        }
    }

    /// The usage table of a root.
    pub async fn usage(&self, place: BoxRef) -> Result<BTreeMap<ObjectId, Usage>, ReadError> {
        let name = place.object.name(ObjectKind::Segment);
        let decode = |sealed: &[u8]| {
            usage::decode(&self.sealer.open(Purpose::Usage, &name, &[], sealed, PAGE_BYTES_MAX)?)
        };
        Ok(read(&*self.store, &name, Some(extent_of(place)), decode).await?.0)
    }

    /// A page. Callers that ask for one page at the same time share one request.
    pub(super) async fn page(
        &self,
        place: BoxRef,
        index: u32,
        range: BlockRange,
    ) -> Result<Arc<Loaded>, ReadError> {
        let cell = self.pages.lock().slot(place);
        let loaded = cell.get_or_try_init(|| self.load(place, index, range)).await?.clone();
        self.pages.lock().trim();
        Ok(loaded)
    }

    /// A page of the map as it is in the store.
    pub async fn page_of(&self, place: BoxRef, index: u32, range: BlockRange) -> Result<Page, ReadError> {
        Ok(self.page(place, index, range).await?.page.clone())
    }

    /// Keeps a page that was just written in memory.
    pub(super) fn remember(&self, place: BoxRef, page: Page) {
        let cell = self.pages.lock().slot(place);
        let _ = cell.set(Arc::new(Loaded { place, page }));
    }

    async fn load(&self, place: BoxRef, index: u32, range: BlockRange) -> Result<Arc<Loaded>, ReadError> {
        let name = place.object.name(ObjectKind::Segment);
        let decode = |sealed: &[u8]| {
            let plain =
                self.sealer.open(Purpose::Page, &name, &index.to_le_bytes(), sealed, PAGE_BYTES_MAX)?;
            Page::decode(&plain, index, range)
        };
        if let Some(page) = self.local.get(place).and_then(|sealed| decode(&sealed).ok()) {
            return Ok(Arc::new(Loaded { place, page }));
        }
        let (page, fetched) = read(&*self.store, &name, Some(extent_of(place)), decode).await?;
        self.local.put(place, &fetched.bytes);
        Ok(Arc::new(Loaded { place, page }))
    }
}

/// Gets an object, or a range of one, and opens it. If it does not open, it may have been damaged on its way: it is fetched
/// once more before the damage is believed.
pub(crate) async fn read<T>(
    store: &dyn Store,
    name: &str,
    range: Option<Range<u64>>,
    open: impl Fn(&[u8]) -> Result<T, FormatError>,
) -> Result<(T, Fetched), ReadError> {
    let fetched = store.get(name, range.clone()).await?;
    let error = match open(&fetched.bytes) {
        Ok(opened) => return Ok((opened, fetched)),
        Err(error) => error,
    };
    tracing::warn!(name, %error, "fetching it once more");
    let fetched = store.get(name, range).await?;
    let opened = open(&fetched.bytes).map_err(|error| ReadError::Format { name: name.to_owned(), error })?;
    Ok((opened, fetched))
}

fn extent_of(place: BoxRef) -> Range<u64> {
    u64::from(place.offset)..u64::from(place.offset) + u64::from(place.stored_len)
}

/// Where the front of a segment, up to the end of its directory, is cached, and how long it is. No page begins there.
fn front_of(segment: TailSegment) -> (BoxRef, u64) {
    let front = HEADER_BYTES as u64 + u64::from(segment.directory_len);
    let (object, object_len) = (segment.object, segment.object_len);
    (BoxRef { object, object_len, offset: 0, stored_len: front as u32 }, front)
}

impl Pages {
    fn slot(&mut self, place: BoxRef) -> Arc<OnceCell<Arc<Loaded>>> {
        self.clock += 1;
        let slot = self.cells.entry((place.object, place.offset));
        let slot = slot.or_insert_with(|| Slot { cell: Arc::default(), used: 0 });
        slot.used = self.clock;
        slot.cell.clone()
    }

    /// Drops the least recently used pages until the rest fits.
    fn trim(&mut self) {
        let weight = |slot: &Slot| slot.cell.get().map_or(0, |loaded| loaded.page.runs.len().max(64));
        let mut total: usize = self.cells.values().map(weight).sum();
        while total > RUNS_IN_MEMORY_MAX && self.cells.len() > 1 {
            let oldest = self.cells.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| *key);
            let slot = oldest.and_then(|key| self.cells.remove(&key));
            total -= slot.as_ref().map_or(0, weight);
        }
    }
}
