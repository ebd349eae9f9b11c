//! Overlays: files that are written here although not all of their bytes are. What was written is the inode's content, a sparse local file;
//! a map beside it says which blocks are the base's, a version of the remote (`map`).
//!
//! The map has two forms, since a killed daemon and a power cut leave different things:
//!
//! * `here-<ino>.map` is changed in place, by plain writes. *Bytes first, then their bits, then the answer.* A killed daemon leaves the page
//!   cache, and so every write that was answered. After a power cut it means nothing: bits may be on the disk whose bytes are not.
//! * `here-<ino>.kept` is replaced as a whole when the file is made durable. *The bytes that its bits stand for are synced first, the record
//!   of the log comes last.* After a power cut it is what counts: each bit stands for durable bytes, and what was written after it is the
//!   base's again, as it was when a program last synced.
//!
//! A map comes before its content has a name, and goes after it: a content without a map would be taken for whole. Where the log's record of
//! a content names no base, all bytes are here, and a map that is left means nothing.

use super::api::FolderError;
use super::contents;
use super::node::Ino;
use super::shared::Shared;
use crate::device::{Piece, ReadLease};
use crate::disk::{Disk, DiskFile};
use crate::planted::{self, Bug};
use crate::store::remote::{Time, Version};
use crate::units::BLOCK_BYTES;
use map::{END_AT, Map};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

mod map;
mod recover;

/// Bytes of the base that are brought into memory at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The overlays of a folder.
pub(super) struct Overlays {
    files: Arc<dyn Disk>,
    // Held to look one up, to add or to remove one.
    all: Mutex<HashMap<Ino, Arc<Overlay>>>,
}

/// One of them.
pub(super) struct Overlay {
    live: Arc<dyn DiskFile>,
    // Held to look at it, or while a word of it is written.
    map: Mutex<Map>,
    /// One write, change of length or sync at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Overlays {
    pub fn new(files: Arc<dyn Disk>) -> Self {
        Self { files, all: Mutex::default() }
    }

    /// The overlay of an inode's content, if it is one.
    pub fn of(&self, ino: Ino) -> Option<Arc<Overlay>> {
        self.all.lock().get(&ino).cloned()
    }

    /// The version that an inode's content needs, if not all of its bytes are here.
    pub fn base_of(&self, ino: Ino) -> Option<Version> {
        self.of(ino)?.base()
    }

    /// Begins the map of an inode that has no content yet.
    fn prepare(&self, ino: Ino, base: Version) -> io::Result<Arc<Overlay>> {
        let map = Map::new(base).ok_or(ErrorKind::FileTooLarge)?;
        self.remove_files(ino)?;
        self.write_live(ino, map)
    }

    fn write_live(&self, ino: Ino, map: Map) -> io::Result<Arc<Overlay>> {
        let (new, name) = (new_name_of(ino), live_name_of(ino));
        let file = self.files.open(&new, true)?;
        file.set_len(0)?;
        file.write_at(&map.encode(), 0)?;
        self.files.rename(&new, &name)?;
        let live = self.files.open(&name, false)?;
        Ok(Arc::new(Overlay { live, map: Mutex::new(map), turn: Default::default() }))
    }

    /// Replaces the durable form of a map. The bytes that it stands for are durable.
    async fn keep(&self, ino: Ino, map: &Map) -> io::Result<()> {
        let new = new_name_of(ino);
        let file = self.files.open(&new, true)?;
        file.set_len(0)?;
        file.write_at(&map.seal(), 0)?;
        file.sync().await?;
        self.files.rename(&new, &kept_name_of(ino))?;
        self.files.sync_names().await
    }

    /// The inode's content is whole, or gone.
    pub fn forget(&self, ino: Ino) {
        let was_one = self.all.lock().remove(&ino).is_some();
        if was_one && let Err(error) = self.remove_files(ino) {
            tracing::warn!(%ino, %error, "the map of a file stays on the local disk until the folder is opened again");
        }
    }

    /// The same after a crash, whatever is there.
    pub fn discard(&self, ino: Ino) -> io::Result<()> {
        self.all.lock().remove(&ino);
        self.remove_files(ino)
    }

    fn remove_files(&self, ino: Ino) -> io::Result<()> {
        for name in [kept_name_of(ino), live_name_of(ino)] {
            match self.files.remove(&name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// What the file was uploaded as has the same bytes as its base where that counts.
    pub async fn rebase(&self, ino: Ino, base: &Version) {
        let Some(overlay) = self.of(ino) else { return };
        let _turn = overlay.turn.lock().await;
        let mut map = overlay.map.lock();
        if *map.base() == *base {
            return;
        }
        map.rebase(base.clone());
        if let Err(error) = overlay.live.write_at(&map.header(), 0) {
            tracing::warn!(%ino, %error, "the map of a file cannot follow its upload");
        }
    }
}

impl Overlay {
    /// The version that has the bytes that are not here; `None` if all are.
    pub fn base(&self) -> Option<Version> {
        let map = self.map.lock();
        (!map.is_whole()).then(|| map.base().clone())
    }

    /// The parts of a range whose bytes are the base's.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.map.lock().missing(range)
    }

    fn wrote(&self, range: &Range<u64>) -> io::Result<()> {
        let mut map = self.map.lock();
        let Some(words) = map.wrote(range) else { return Ok(()) };
        let (at, bytes) = map.words(&words);
        self.live.write_at(&bytes, at)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        let mut map = self.map.lock();
        map.cut(len);
        self.live.write_at(&map.end().to_le_bytes(), END_AT)
    }
}

impl Shared {
    /// Makes an empty overlay over `base` the inode's content, which was written last at `mtime`. The caller has the inode's turn.
    pub fn begin_overlay(&self, ino: Ino, base: &Version, mtime: Time) -> io::Result<()> {
        let overlay = self.overlays.prepare(ino, base.clone())?;
        // Whoever sees the content sees that it is one.
        self.overlays.all.lock().insert(ino, overlay);
        let created = self.contents.create_sparse(ino, base.len, mtime);
        created.inspect_err(|_| self.overlays.forget(ino))
    }

    /// Bytes of a content of which some may be the base's, cut at its end.
    pub async fn read_content(&self, ino: Ino, range: Range<u64>) -> Result<ReadLease, FolderError> {
        let (file, overlay) = loop {
            let overlay = self.overlays.of(ino);
            let file = self.contents.reader(ino)?;
            // Another content may have come in the place of that one.
            let now = self.overlays.of(ino);
            if overlay.as_ref().map(Arc::as_ptr) == now.as_ref().map(Arc::as_ptr) {
                break (file, overlay);
            }
        };
        let range = range.start..range.end.min(file.len()?);
        let Some(overlay) = overlay else {
            let pieces = if range.is_empty() { Vec::new() } else { vec![piece(&file, range)] };
            return Ok(ReadLease::new(pieces, ()));
        };
        let (mut pieces, mut at) = (Vec::new(), range.start);
        for run in overlay.missing(range.clone()) {
            if at < run.start {
                pieces.push(piece(&file, at..run.start));
            }
            at = run.end;
            for part in parts(run) {
                let bytes = self.read_base(ino, &overlay, part.clone()).await?;
                pieces.push(Piece::of_bytes(bytes.into()));
            }
        }
        if at < range.end {
            pieces.push(piece(&file, at..range.end));
        }
        Ok(ReadLease::new(pieces, ()))
    }

    /// Bytes of the base, by way of the cache.
    async fn read_base(
        &self,
        ino: Ino,
        overlay: &Overlay,
        range: Range<u64>,
    ) -> Result<Vec<u8>, FolderError> {
        let base = overlay.map.lock().base().clone();
        let span = self.copy.span_of(ino, &base)?;
        let lease = self.copy.read(&span, range.clone()).await?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if lease.pieces().iter().map(Piece::len).sum::<u64>() != bytes.len() as u64 {
            return Err(FolderError::Stale);
        }
        lease.copy_to(&mut bytes).map_err(|error| FolderError::Local(error.to_string()))?;
        Ok(bytes)
    }

    /// How many of a content's `len` bytes are not here.
    pub fn missing_bytes(&self, ino: Ino, len: u64) -> u64 {
        let runs = self.overlays.of(ino).map(|overlay| overlay.missing(0..len)).unwrap_or_default();
        runs.iter().map(|run| run.end - run.start).sum()
    }

    /// All bytes of a content.
    pub async fn whole_content(&self, ino: Ino, range: Range<u64>) -> Result<Vec<u8>, FolderError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut at = 0;
        while at < bytes.len() {
            let from = range.start + at as u64;
            let lease = self.read_content(ino, from..range.end.min(from + PIECE_BYTES)).await?;
            let len: u64 = lease.pieces().iter().map(Piece::len).sum();
            if len == 0 {
                return Err(FolderError::Local("the file is shorter than it was".into()));
            }
            let part = &mut bytes[at..at + len as usize];
            lease.copy_to(part).map_err(|error| FolderError::Local(error.to_string()))?;
            at += len as usize;
        }
        Ok(bytes)
    }

    /// Writes to a content.
    pub async fn write_content(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), FolderError> {
        let Some(overlay) = self.overlays.of(ino).filter(|_| !data.is_empty()) else {
            return Ok(self.contents.write_at(ino, data, offset)?);
        };
        let _turn = overlay.turn.lock().await;
        let range = offset..offset + data.len() as u64;
        let wide = overlay.map.lock().widened(&range);
        if wide == range {
            self.contents.write_at(ino, data, offset)?;
        } else {
            let mut bytes = vec![0; (wide.end - wide.start) as usize];
            for edge in [wide.start..range.start, range.end..wide.end] {
                // What the base does not have is zeros.
                for run in overlay.missing(edge) {
                    let from = self.read_base(ino, &overlay, run.clone()).await?;
                    let at = (run.start - wide.start) as usize;
                    bytes[at..at + from.len()].copy_from_slice(&from);
                }
            }
            let at = (range.start - wide.start) as usize;
            bytes[at..at + data.len()].copy_from_slice(data);
            self.contents.write_at(ino, &bytes, wide.start)?;
        }
        Ok(overlay.wrote(&wide)?)
    }

    /// Sets the length of a content.
    pub async fn set_content_len(&self, ino: Ino, len: u64) -> Result<(), FolderError> {
        let Some(overlay) = self.overlays.of(ino) else { return Ok(self.contents.set_len(ino, len)?) };
        let _turn = overlay.turn.lock().await;
        self.contents.set_len(ino, len)?;
        if !planted::has(Bug::CutBytesComeBack) {
            overlay.cut(len)?;
        }
        Ok(())
    }

    /// Makes a range of a content zeros and gives its space back. The length stays.
    pub async fn punch_content(&self, ino: Ino, range: Range<u64>) -> Result<(), FolderError> {
        let end = range.end.min(self.contents.stat(ino)?.len);
        if range.start >= end {
            return Ok(());
        }
        let (first, last) = (range.start.next_multiple_of(BLOCK_BYTES), end / BLOCK_BYTES * BLOCK_BYTES);
        let Some(overlay) = self.overlays.of(ino).filter(|overlay| overlay.base().is_some()) else {
            return Ok(self.contents.punch(ino, range.start..end)?);
        };
        // The blocks at the ends may need the base's other bytes.
        for edge in [range.start..first.min(end), last.max(first).min(end)..end] {
            self.write_content(ino, edge.start, &vec![0; (edge.end.saturating_sub(edge.start)) as usize])
                .await?;
        }
        if first < last {
            let _turn = overlay.turn.lock().await;
            self.contents.punch(ino, first..last)?;
            overlay.wrote(&(first..last))?;
        }
        Ok(())
    }

    /// Takes the space of a range of a content. The base's bytes take none before they are written.
    pub async fn reserve_in_content(&self, ino: Ino, range: Range<u64>) -> Result<(), FolderError> {
        if self.overlays.base_of(ino).is_some() {
            let free = self.contents.free_bytes()?;
            return if range.end - range.start > free { Err(FolderError::NoSpace) } else { Ok(()) };
        }
        match self.contents.reserve(ino, range) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(FolderError::Unsupported("this computer's file system cannot reserve space"))
            }
            reserved => Ok(reserved?),
        }
    }

    /// Makes a content durable, with its map. Returns what is durable then.
    pub async fn sync_content(&self, ino: Ino) -> Result<Option<Version>, FolderError> {
        let Some(overlay) = self.overlays.of(ino) else {
            self.contents.sync(ino).await?;
            return Ok(None);
        };
        let _turn = overlay.turn.lock().await;
        let map = overlay.map.lock().clone();
        if planted::has(Bug::MapBeforeBytes) {
            self.overlays.keep(ino, &map).await?;
        } else {
            self.contents.sync(ino).await?;
            self.overlays.keep(ino, &map).await?;
        }
        Ok((!map.is_whole()).then(|| map.base().clone()))
    }

    /// The next data of a content at or after `from`. Bytes of the base count as data.
    pub fn next_data_of_content(&self, ino: Ino, from: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        let local = self.contents.reader(ino)?.next_data(from)?;
        let missing = self.overlays.of(ino).and_then(|overlay| overlay.missing(from..len).into_iter().next());
        Ok(match (local, missing) {
            (Some(local), Some(missing)) if missing.start <= local.start => Some(missing),
            (Some(local), Some(missing)) => {
                Some(local.start..local.end.min(missing.start.max(local.start + 1)))
            }
            (local, missing) => local.or(missing),
        })
    }
}

fn piece(file: &Arc<dyn DiskFile>, range: Range<u64>) -> Piece {
    let (offset, len) = (range.start, range.end - range.start);
    Piece::File { file: file.clone(), offset, len, by_reference: false }
}

fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = (range.start..range.end).step_by(PIECE_BYTES as usize);
    starts.map(move |start| start..(start + PIECE_BYTES).min(range.end))
}

fn live_name_of(ino: Ino) -> String {
    format!("{}{ino}.map", contents::PREFIX)
}

fn kept_name_of(ino: Ino) -> String {
    format!("{}{ino}.kept", contents::PREFIX)
}

fn new_name_of(ino: Ino) -> String {
    format!("new-{ino}.map")
}
