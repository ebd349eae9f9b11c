//! A log's files: live ones in order, spare ones to continue in, and retired ones that a reader still holds.

use super::marks::Marks;
use super::record::{FILE_HEADER_BYTES, FileHeader, Group};
use super::{Appender, Log, LogError, Records};
use crate::disk::{Disk, DiskFile};
use crate::units::Lsn;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files that are kept ready: while records fill one, the next one can be made.
const SPARE_FILES: usize = 2;
/// The most spare files that are kept, 1 GiB: making new ones would write every byte of a burst twice.
const SPARE_FILES_MAX: usize = 16;
/// Zeros are written in pieces of this size.
const FILL_BYTES: usize = 1 << 20;

/// One file of a log.
pub struct LogFile {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
}

/// A file whose records are still needed.
pub(super) struct LiveFile {
    pub file: Arc<LogFile>,
    pub seq: u64,
    /// The incarnation that began it and wrote its records.
    pub incarnation: u32,
    /// Own CRC of the record before its first.
    pub prev_crc: u32,
    /// Its first record.
    pub first: Lsn,
    /// Its last record so far.
    pub last: Lsn,
    /// Where the next record goes.
    pub end: u64,
    /// The last of its records that is durable.
    pub synced: Lsn,
    /// Set if it is a compacted group.
    pub group: Option<Group>,
    /// Where the records end that this process has appended.
    pub marks: Marks,
}

impl LiveFile {
    /// A file with that header. `last` is its last record so far, `end` is where that ends, and it is durable up to
    /// `synced`.
    pub fn new(file: Arc<LogFile>, header: &FileHeader, (last, end): (Lsn, u64), synced: Lsn) -> Self {
        let FileHeader { seq, incarnation, prev_crc, first, group, .. } = *header;
        Self { file, seq, incarnation, prev_crc, first, last, end, synced, group, marks: Marks::default() }
    }
}

/// All files.
#[derive(Default)]
pub(super) struct FileSet {
    live: VecDeque<LiveFile>,
    spare: Vec<Arc<LogFile>>,
    /// No longer needed, but perhaps still being read; oldest first.
    retired: VecDeque<Retired>,
    last_seq: u64,
    next_slot: u64,
}

struct Retired {
    file: Arc<LogFile>,
    erased: bool,
}

/// How full a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceUse {
    /// Bytes of files that hold records which are still needed.
    pub used_bytes: u64,
    /// Bytes that may be used.
    pub limit_bytes: u64,
}

impl SpaceUse {
    /// The share in use, in per mille of the limit; more than 1000 while the reserve is in use.
    pub fn per_mille(&self) -> u64 {
        self.used_bytes * 1000 / self.limit_bytes.max(1)
    }
}

impl FileSet {
    pub fn current(&mut self) -> &mut LiveFile {
        self.live.back_mut().expect("an open log has a file to append to")
    }

    /// The first record that is still here.
    pub fn first(&self) -> Lsn {
        self.live.front().map_or(Lsn(1), |live| live.first)
    }

    pub fn live(&self) -> impl Iterator<Item = &LiveFile> {
        self.live.iter()
    }

    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut LiveFile> {
        self.live.iter_mut()
    }

    pub fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    pub fn saw_seq(&mut self, seq: u64) {
        self.last_seq = self.last_seq.max(seq);
    }

    pub fn push(&mut self, live: LiveFile) {
        self.live.push_back(live);
    }

    pub fn add_spare(&mut self, file: Arc<LogFile>) {
        self.spare.push(file);
    }

    /// The files' number, as far as space goes: a group that is longer than a file of `file_bytes` counts as several.
    pub fn weight(&self, file_bytes: u64) -> usize {
        let of = |live: &LiveFile| live.end.div_ceil(file_bytes.max(1)).max(1) as usize;
        self.live.iter().map(of).sum()
    }

    /// A spare file, if at most `allowed` files are live with it.
    pub fn take_spare(&mut self, allowed: usize, file_bytes: u64) -> Option<Arc<LogFile>> {
        if self.weight(file_bytes) >= allowed {
            return None;
        }
        self.reclaim();
        self.spare.pop()
    }

    /// Retires the files whose records are all up to `upto`. The current file stays.
    pub fn retire(&mut self, upto: Lsn) {
        while self.live.len() > 1 && self.live[0].last <= upto {
            let live = self.live.pop_front().expect("there are two");
            self.retired.push_back(Retired { file: live.file, erased: false });
        }
    }

    /// Retires the files whose records have all moved to other files, which the caller pushes next.
    pub fn retire_empty(&mut self) {
        let (empty, live): (VecDeque<_>, _) = self.live.drain(..).partition(|live| live.last < live.first);
        self.live = live;
        self.retired.extend(empty.into_iter().map(|live| Retired { file: live.file, erased: false }));
    }

    /// Replaces the files whose records a group stands for by the group, and retires them. Gives the group back if one of
    /// the files is gone by now.
    pub fn replace(&mut self, group: LiveFile) -> Result<(), LiveFile> {
        let from = self.live.iter().position(|live| live.first == group.first);
        let to = self.live.iter().position(|live| live.last == group.last && live.last >= live.first);
        let (Some(from), Some(to)) = (from, to) else { return Err(group) };
        let replaced = self.live.drain(from..=to).map(|live| Retired { file: live.file, erased: false });
        self.retired.extend(replaced);
        self.live.insert(from, group);
        Ok(())
    }

    /// Only this list and readers refer to a retired file. No new reader can come, because the index no longer names the
    /// file. So once this list has the only reference, that stays so.
    fn reclaim(&mut self) {
        let is_free = |retired: &Retired| retired.erased && Arc::strong_count(&retired.file) == 1;
        let (free, held): (Vec<_>, _) = self.retired.drain(..).partition(is_free);
        self.retired = held.into();
        self.spare.extend(free.into_iter().map(|retired| retired.file));
    }

    fn next_to_erase(&self) -> Option<Arc<LogFile>> {
        self.retired.iter().find(|retired| !retired.erased).map(|retired| retired.file.clone())
    }

    fn set_erased(&mut self, file: &Arc<LogFile>) {
        for retired in self.retired.iter_mut().filter(|retired| Arc::ptr_eq(&retired.file, file)) {
            retired.erased = true;
        }
    }

    pub fn new_slot(&mut self) -> String {
        self.next_slot += 1;
        format!("j{:08}", self.next_slot)
    }

    pub fn saw_slot(&mut self, name: &str) {
        let slot = name.strip_prefix('j').and_then(|digits| digits.parse().ok()).unwrap_or(0);
        self.next_slot = self.next_slot.max(slot);
    }
}

impl<R: Records> Log<R> {
    /// How full it is.
    pub fn space(&self) -> SpaceUse {
        let appender = self.appender.lock();
        let used = appender.files.weight(self.limits.file_bytes) as u64;
        // The current file counts only with the bytes in it: otherwise an idle journal would look a quarter full.
        let current = appender.files.live.back().map_or(0, |live| live.end);
        let used_bytes = used.saturating_sub(1) * self.limits.file_bytes + current;
        SpaceUse { used_bytes, limit_bytes: self.limits.files as u64 * self.limits.file_bytes }
    }

    /// Bytes of the records after `lsn`.
    pub fn bytes_after(&self, lsn: Lsn) -> u64 {
        let appender = self.appender.lock();
        let bytes = |live: &LiveFile| {
            live.marks.bytes_after(lsn, (live.first.prev(), FILE_HEADER_BYTES), (live.last, live.end))
        };
        appender.files.live().map(bytes).sum()
    }

    /// Records up to `upto` are no longer needed.
    pub fn free(&self, upto: Lsn) {
        let mut appender = self.appender.lock();
        appender.files.retire(upto);
        drop(appender);
        self.spare_wanted.notify_one();
        self.room.notify_waiters();
    }

    fn next_to_erase(&self) -> Option<Arc<LogFile>> {
        self.appender.lock().files.next_to_erase()
    }

    /// A wait for space that counts from this call on, so that space freed before it is awaited is not missed.
    pub fn room_from_now(&self) -> impl Future<Output = ()> {
        let mut notified = Box::pin(self.room.notified());
        notified.as_mut().enable();
        notified
    }

    /// Waits until a spare file is wanted.
    pub async fn spare_wanted(&self) {
        self.spare_wanted.notified().await;
    }

    /// Keeps spare files ready, zero-filled and synced, while the limit allows, and deletes surplus ones.
    ///
    /// A retired file's header is erased before the file is written again, oldest file first: so recovery always finds a
    /// log without a gap. (Readers may still hold the file; they read its data only.)
    pub async fn keep_spare(self: &Arc<Self>) -> Result<(), LogError> {
        self.keep(SPARE_FILES).await
    }

    /// Keeps at least `at_least` files ready, while the limit allows.
    pub(super) async fn keep(self: &Arc<Self>, at_least: usize) -> Result<(), LogError> {
        if self.next_to_erase().is_some() {
            // The header of the next file may still be in memory only. With neither header on disk, a power cut would leave
            // a journal without a beginning.
            self.flush().await?;
        }
        while let Some(file) = self.next_to_erase() {
            erase(&file.file).await?;
            self.appender.lock().files.set_erased(&file);
        }
        while self.keep_one_more(at_least).await? {}
        Ok(())
    }

    /// Returns whether a file was made.
    async fn keep_one_more(&self, at_least: usize) -> Result<bool, LogError> {
        let (name, surplus) = {
            let mut appender = self.appender.lock();
            appender.files.reclaim();
            let allowed = self.files_allowed(&appender);
            let files = &mut appender.files;
            let most = (self.limits.files / 4).clamp(SPARE_FILES, SPARE_FILES_MAX);
            // A long group is not used again: no record would expect a file of that length.
            let odd =
                |file: &mut Arc<LogFile>| file.file.len().is_ok_and(|len| len != self.limits.file_bytes);
            let mut surplus: Vec<_> = files.spare.extract_if(.., odd).collect();
            surplus.extend(files.spare.drain(most.min(files.spare.len())..));
            let total = files.weight(self.limits.file_bytes) + files.retired.len() + files.spare.len();
            let wanted = files.spare.len() < at_least && total < allowed;
            (wanted.then(|| files.new_slot()), surplus)
        };
        for file in surplus {
            self.disk.remove(&file.name)?;
        }
        let made = name.is_some();
        if let Some(name) = name {
            let file = create(&*self.disk, &name, self.limits.file_bytes).await?;
            self.appender.lock().files.add_spare(file);
        }
        // Only if there really is space: a writer that finds none asks for a spare file again, and the two would wake each
        // other forever.
        if self.has_room() {
            self.room.notify_waiters();
        }
        Ok(made)
    }

    /// Makes a spare file on the calling thread, which waits for the local disk. Its name is durable after the next flush.
    pub(crate) fn grow(&self) -> Result<(), LogError> {
        let name = self.appender.lock().files.new_slot();
        let file = create_here(&*self.disk, &name, self.limits.file_bytes)?;
        self.has_new_names.store(true, Ordering::Release);
        self.appender.lock().files.add_spare(file);
        Ok(())
    }

    fn has_room(&self) -> bool {
        let appender = self.appender.lock();
        let weight = appender.files.weight(self.limits.file_bytes);
        !appender.files.spare.is_empty() && weight < self.files_allowed(&appender)
    }

    /// Files that may be live now.
    pub(super) fn files_allowed(&self, appender: &Appender<R::Pending>) -> usize {
        self.limits.files + if appender.reserve_open { self.limits.reserve_files } else { 0 }
    }
}

/// Checked before anything is written: a file that does not fit would take the last space from others for a moment.
/// (Zero free bytes are ignored: there is nothing to take then, and some file systems report zero when they do not
/// know.)
fn check_space(disk: &dyn Disk, len: u64) -> io::Result<()> {
    match disk.free_bytes().is_ok_and(|free| (1..len).contains(&free)) {
        true => Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error())),
        false => Ok(()),
    }
}

/// The same as [`create`], on the calling thread. The name is not durable.
fn create_here(disk: &dyn Disk, name: &str, len: u64) -> io::Result<Arc<LogFile>> {
    check_space(disk, len)?;
    let file = disk.open(name, true)?;
    let filled = file
        .write_at(&vec![0; len as usize], 0)
        .and_then(|()| file.sync_here().unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into())));
    if let Err(error) = filled {
        let _ = disk.remove(name);
        return Err(error);
    }
    Ok(Arc::new(LogFile { name: name.to_owned(), file }))
}

/// A new file, zero-filled to its whole length and synced: from then on an fdatasync has only data to write.
pub(super) async fn create(disk: &dyn Disk, name: &str, len: u64) -> io::Result<Arc<LogFile>> {
    check_space(disk, len)?;
    let file = disk.open(name, true)?;
    let filled = fill(&file, len).await;
    if let Err(error) = filled {
        // Half a file would only keep the space that was lacking.
        let _ = disk.remove(name);
        return Err(error);
    }
    disk.sync_names().await?;
    Ok(Arc::new(LogFile { name: name.to_owned(), file }))
}

async fn fill(file: &Arc<dyn DiskFile>, len: u64) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(len as usize)];
    let mut at = 0;
    while at < len {
        let piece = (len - at).min(zeros.len() as u64);
        file.write_at(&zeros[..piece as usize], at)?;
        at += piece;
        tokio::task::yield_now().await;
    }
    file.clone().sync().await
}

/// Makes a file's old header unreadable, so that it is spare for good.
pub(super) async fn erase(file: &Arc<dyn DiskFile>) -> io::Result<()> {
    file.write_at(&[0; FILE_HEADER_BYTES as usize], 0)?;
    file.clone().sync().await
}

/// Reads a file's header.
pub(super) fn read_header(file: &dyn DiskFile) -> io::Result<Option<FileHeader>> {
    if file.len()? < FILE_HEADER_BYTES {
        return Ok(None);
    }
    let mut page = [0; FILE_HEADER_BYTES as usize];
    file.read_at(&mut page, 0)?;
    Ok(FileHeader::decode(&page))
}
