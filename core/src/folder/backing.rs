//! The bytes of a folder's virtual space: one sparse local file for each span, as long as the version of the file is.
//!
//! To the cache this is one very long file. A sync makes durable, in this order:
//! 1. the files that were written since the last one (all at once, so that the disk can order them),
//! 2. the names of the files, and
//! 3. the rows of the span table.
//!
//! Only then does the cache write bits. So each durable bit stands for durable bytes, in a file that has its name, of a span
//! that the table has. A file whose own sync fails costs only its span: its blocks are reported as lost, and become absent.
//! If names or rows cannot be synced, the sync fails as a whole.
//!
//! The files lie in one directory, without subdirectories: file systems find a name among 100,000s by a hash, one sync makes
//! all new names durable, and no empty directories are left behind.
//!
//! Descriptors are bounded. A file is open for writing only from its first write until the next sync: a writable descriptor of
//! an idle file would keep leases on it from being granted. Descriptors that are handed out are read-only.

use super::spans::{Rows, SPACE_BLOCKS, Span, Spans};
use crate::cache::Holds;
use crate::disk::{Disk, DiskFile, Sync};
use crate::units::{BLOCK_BYTES, BlockRange};
use futures_util::stream::{self, StreamExt};
use parking_lot::{Mutex, RwLock};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

mod hand_over;
mod handles;
mod recover;

use handles::{Handles, Written};

/// Files that are synced at once: enough for a disk to order them, few enough to leave threads for others.
const SYNCS_AT_ONCE: usize = 16;

/// The local files of a folder's spans, as one file.
pub struct Backing {
    spans: Arc<RwLock<Spans>>,
    rows: Arc<Rows>,
    files: Arc<dyn Disk>,
    /// Bytes of the local disk that all files take.
    taken: AtomicU64,
    // Held to take or to change a handle, and to open a file.
    handles: Mutex<Handles>,
    // Held to measure one file.
    measuring: Mutex<()>,
    // Held to add a loss or to take them all.
    lost: Mutex<Vec<BlockRange>>,
    /// Names were made or removed since the last sync.
    has_new_names: AtomicBool,
    /// Many files were written since the last sync: it should come soon.
    is_crowded: Notify,
    /// Syncs of single files under way. A sync of all ends after those that began before it: the kernel reports a failure to
    /// one of them only.
    settling: Holds,
    syncing: tokio::sync::Mutex<()>,
}

/// A part of the space in one span.
struct Part {
    span: Arc<Span>,
    /// In the span's file; it may reach beyond its end.
    local: Range<u64>,
    /// In what was asked for.
    at: usize,
}

impl Backing {
    /// The span's local file, for reading, also by reference or after registering it for passthrough. It is made if it is
    /// missing.
    pub fn file_of(&self, span: &Arc<Span>) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(reader) = self.existing_file_of(span)? {
            return Ok(reader);
        }
        let writer = self.open_to_write(span)?;
        self.was_written(span, writer)?;
        self.open_to_read(span)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// The same, without making it.
    pub(super) fn existing_file_of(&self, span: &Arc<Span>) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.handles.lock().reader(span, || self.open_to_read(span))
    }

    /// Whether the span's local file is not there, although somebody may still have it open.
    pub(super) fn is_missing(&self, span: &Arc<Span>) -> io::Result<bool> {
        Ok(self.open_to_read(span)?.is_none())
    }

    /// Ready when a sync should come soon.
    pub(super) async fn crowded(&self) {
        self.is_crowded.notified().await;
    }

    /// Makes a span's file durable, and closes it for writing. Returns whether that worked; otherwise the span is lost.
    pub(super) async fn settle(&self, span: &Arc<Span>) -> bool {
        let _settling = self.settling.enter();
        let written = self.handles.lock().written(span);
        let Some(written) = written else { return true };
        let is_durable = self.sync_file(&written).await;
        self.handles.lock().is_synced(&written);
        is_durable
    }

    /// Removes the file of a span whose blocks nobody uses any longer.
    pub(super) fn remove(&self, span: &Arc<Span>) -> io::Result<()> {
        self.handles.lock().forget(span);
        self.has_new_names.store(true, Ordering::SeqCst);
        match self.files.remove(&span.file_name()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.set_taken(span, 0);
        Ok(())
    }

    /// The file, for reading; `None` if there is none yet.
    fn open_to_read(&self, span: &Arc<Span>) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match self.files.open_to_read(&span.file_name()) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file, for writing. It is made, as long as it has to be, if it is missing.
    fn open_to_write(&self, span: &Arc<Span>) -> io::Result<Arc<dyn DiskFile>> {
        let writer = self.handles.lock().written(span);
        if let Some(written) = writer {
            return Ok(written.file);
        }
        let name = span.file_name();
        match self.files.open(&name, false) {
            // A retired span's file may have been removed for good.
            Err(error) if error.kind() == ErrorKind::NotFound && !span.is_retired() => {}
            opened => return opened,
        }
        // The lock keeps two writers from making it both.
        let _handles = self.handles.lock();
        self.has_new_names.store(true, Ordering::SeqCst);
        let file = self.files.open(&name, true)?;
        if file.len()? != span.len() {
            file.set_len(span.len())?;
        }
        Ok(file)
    }

    /// The file was written through `writer`: the next sync includes it. The caller sets bits only after this, so a sync that
    /// began before does not have to.
    fn was_written(&self, span: &Arc<Span>, writer: Arc<dyn DiskFile>) -> io::Result<()> {
        {
            let _one = self.measuring.lock();
            let taken = writer.allocated()?;
            self.set_taken(span, taken);
        }
        let settling = self.settling.enter();
        let crowd = self.handles.lock().was_written(span, writer);
        if crowd.is_half_full {
            self.is_crowded.notify_one();
        }
        // The descriptors are used up before a sync came. Closing a file without one might miss that writing it failed.
        if let Some(written) = crowd.leaves {
            if written.file.sync_here().is_none_or(|synced| synced.is_err()) {
                self.lose(&written.span);
            }
            self.handles.lock().is_synced(&written);
        }
        drop(settling);
        Ok(())
    }

    fn set_taken(&self, span: &Span, bytes: u64) {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
        let before = span.taken.swap(blocks, Ordering::Relaxed);
        self.taken.fetch_add(u64::from(blocks) * BLOCK_BYTES, Ordering::Relaxed);
        self.taken.fetch_sub(u64::from(before) * BLOCK_BYTES, Ordering::Relaxed);
    }

    fn lose(&self, span: &Span) {
        self.lost.lock().push(span.extent());
    }

    /// The spans that have the bytes `range` of the space.
    ///
    /// # Errors
    ///
    /// No span has some of them.
    fn parts(&self, range: Range<u64>) -> io::Result<Vec<Part>> {
        let spans = self.spans.read();
        let (mut parts, mut at) = (Vec::with_capacity(1), range.start);
        while at < range.end {
            let span = spans.any_at(at / BLOCK_BYTES);
            let span = span.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "no file has these blocks"))?;
            let extent = span.extent().bytes();
            let end = extent.end.min(range.end);
            let local = at - extent.start..end - extent.start;
            parts.push(Part { span: span.clone(), local, at: (at - range.start) as usize });
            at = end;
        }
        Ok(parts)
    }

    async fn sync_file(&self, written: &Written) -> bool {
        let synced = written.file.clone().sync().await;
        if let Err(error) = &synced {
            let span = &written.span;
            tracing::error!(%error, %span, "a file of the cache could not be made durable: it is downloaded again");
            self.lose(span);
        }
        synced.is_ok()
    }

    async fn sync_all(&self) -> io::Result<()> {
        let _turn = self.syncing.lock().await;
        let written = self.handles.lock().take_written();
        let syncs = written.into_iter().map(|written| async move { self.sync_file(&written).await });
        stream::iter(syncs).buffer_unordered(SYNCS_AT_ONCE).collect::<Vec<_>>().await;
        self.settling.wait_for_earlier().await;
        if self.has_new_names.swap(false, Ordering::SeqCst) {
            let synced = self.files.sync_names().await;
            if synced.is_err() {
                self.has_new_names.store(true, Ordering::SeqCst);
            }
            synced?;
        }
        self.rows.sync(&self.spans).await
    }
}

impl DiskFile for Backing {
    fn len(&self) -> io::Result<u64> {
        Ok(SPACE_BLOCKS * BLOCK_BYTES)
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.taken.load(Ordering::Relaxed))
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let mut from = from;
        loop {
            let next = self.spans.read().next_with_data(from / BLOCK_BYTES).cloned();
            let Some(span) = next else { return Ok(None) };
            let start = span.extent().bytes().start;
            let local = from.saturating_sub(start);
            let file = self.existing_file_of(&span)?;
            let data = file.map_or(Ok(None), |file| file.next_data(local))?;
            if let Some(data) = data.filter(|data| data.start < span.len()) {
                return Ok(Some(start + data.start..start + data.end.min(span.len())));
            }
            from = span.extent().bytes().end;
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        for Part { span, local, at } in self.parts(offset..offset + buf.len() as u64)? {
            let part = &mut buf[at..at + (local.end - local.start) as usize];
            // The last block has zeros behind the end of the file.
            let here = span.len().clamp(local.start, local.end) - local.start;
            let (bytes, rest) = part.split_at_mut(here as usize);
            rest.fill(0);
            if !bytes.is_empty() {
                self.file_of(&span)?.read_at(bytes, local.start)?;
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        for Part { span, local, at } in self.parts(offset..offset + buf.len() as u64)? {
            let here = (span.len().clamp(local.start, local.end) - local.start) as usize;
            if here > 0 {
                let writer = self.open_to_write(&span)?;
                writer.write_at(&buf[at..at + here], local.start)?;
                self.was_written(&span, writer)?;
            }
        }
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        for Part { span, local, .. } in self.parts(range)? {
            let local = local.start..local.end.min(span.len());
            let Some(reader) = self.existing_file_of(&span)? else { continue };
            let data = if local.is_empty() { None } else { reader.next_data(local.start)? };
            if data.is_some_and(|data| data.start < local.end) {
                let writer = self.open_to_write(&span)?;
                writer.punch(local)?;
                self.was_written(&span, writer)?;
            }
        }
        Ok(())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async move { self.sync_all().await })
    }

    fn take_lost(&self) -> Vec<Range<u64>> {
        self.lost.lock().drain(..).map(|run| run.bytes()).collect()
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}
