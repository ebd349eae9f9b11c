//! The span table on disk (`core/FORMAT.md`, "Spans"): a file of rows that are appended, each with a checksum over itself and
//! the row before. It is written anew once most of its rows stand for nothing.
//!
//! The bitmap counts only together with the table that it was written for (they have the same generation). Within a
//! generation the table may lose rows at its end, and no others. That is safe, because three things hold:
//! * A bit becomes durable only after every row that was appended before it, and after every change of names
//!   ([`Backing`](super::super::backing::Backing) syncs all three, in this order, whenever the cache is made durable).
//! * Bits that no row covers are cleared when the table is read. So lost rows of new spans cost only what they had.
//! * A span whose local file is not there as it should be has no bits, and the file of a span is removed before its blocks are
//!   taken again. So if only the row that gave a span back is lost, the span is empty.
//!
//! A row that was damaged later, not torn, looks like the end: the same holds.

use super::{NoSpace, Span, Spans};
use crate::disk::{Disk, DiskFile};
use crate::folder::Ino;
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::{Time, Version};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

const NAME: &str = "spans";
/// The table while it is written anew.
const NAME_NEW: &str = "spans.new";
const MAGIC: &[u8; 8] = b"HLDSPAN\x01";
const HEADER_BYTES: usize = 64;
const CRC_AT: usize = HEADER_BYTES - 4;
/// Length and checksum.
const FRAME_BYTES: usize = 8;
/// A row at most: tags are short, but the remote chooses them.
const ROW_BYTES_MAX: usize = 16 << 10;
/// A table with fewer rows that stand for nothing is not written anew.
const DEAD_MIN: u64 = 4096;

const ALLOCATED: u8 = 1;
const FREED: u8 = 2;
const SEEN: u8 = 3;

/// The table's file.
pub(in crate::folder) struct Rows {
    disk: Arc<dyn Disk>,
    folder: Uuid,
    generation: u128,
    // Held to append a row. Taken after the lock of the spans.
    tail: Mutex<Tail>,
    /// Only one sync at a time: it may replace the file.
    syncing: tokio::sync::Mutex<()>,
}

struct Tail {
    file: Arc<dyn DiskFile>,
    /// Where the next row goes.
    at: u64,
    /// The checksum of the last row.
    crc: u32,
    rows: u64,
    synced: u64,
    /// The file does not have its name yet.
    is_new: bool,
    /// A sync failed: what is in the file cannot be trusted.
    has_failed: bool,
}

enum Row {
    Allocated { ino: Ino, first: u32, version: Version },
    Freed { first: u32 },
    Seen { ino: Ino },
}

impl Rows {
    /// Reads the table. `None` if there is none, or its header is damaged, or it is another folder's.
    pub fn open(disk: &Arc<dyn Disk>, folder: Uuid) -> io::Result<Option<(Self, Spans)>> {
        let file = match disk.open(NAME, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(&mut bytes, 0)?;
        let Some((generation, mut crc)) = read_header(&bytes, folder) else { return Ok(None) };
        let (mut spans, mut at, mut rows) = (Spans::default(), HEADER_BYTES, 0);
        while let Some((row, len, next)) = bytes.get(at..).and_then(|rest| read_row(rest, crc)) {
            if !row.apply(&mut spans) {
                break;
            }
            (at, crc, rows) = (at + len, next, rows + 1);
        }
        let at = at as u64;
        // Rows behind the end fit no row that is appended there: each repeats the checksum of the one before.
        let tail = Tail { file, at, crc, rows, synced: at, is_new: false, has_failed: false };
        Ok(Some((Self::with(disk, folder, generation, tail), spans)))
    }

    /// An empty table with a generation of its own, durable. The caller has made the bitmap of that generation durable before:
    /// a bitmap that is older than the table would count otherwise.
    pub async fn create(disk: &Arc<dyn Disk>, folder: Uuid, generation: u128) -> io::Result<Self> {
        let tail = Tail {
            file: disk.open(NAME_NEW, true)?,
            at: 0,
            crc: 0,
            rows: 0,
            synced: 0,
            is_new: true,
            has_failed: true,
        };
        let rows = Self::with(disk, folder, generation, tail);
        rows.sync(&RwLock::default()).await?;
        Ok(rows)
    }

    fn with(disk: &Arc<dyn Disk>, folder: Uuid, generation: u128, tail: Tail) -> Self {
        Self {
            disk: disk.clone(),
            folder,
            generation,
            tail: Mutex::new(tail),
            syncing: tokio::sync::Mutex::default(),
        }
    }

    /// Stands for this table as a whole: a table that begins anew has another one.
    pub fn generation(&self) -> u128 {
        self.generation
    }

    /// Takes blocks for a version, and appends that. The caller holds the lock of the spans, so that rows are in order.
    pub fn allocate(&self, spans: &mut Spans, ino: Ino, version: Version) -> io::Result<Arc<Span>> {
        let full = |full: NoSpace| io::Error::new(io::ErrorKind::StorageFull, full);
        let span = spans.allocate(ino, version).map_err(full)?;
        let row = Row::Allocated { ino, first: span.first, version: span.version.clone() };
        if let Err(error) = self.append(&row) {
            spans.retire(&span);
            spans.free(&span);
            return Err(error);
        }
        Ok(span)
    }

    /// Gives the blocks of a span back, and appends that.
    pub fn free(&self, spans: &mut Spans, span: &Arc<Span>) -> io::Result<()> {
        self.append(&Row::Freed { first: span.first })?;
        spans.free(span);
        Ok(())
    }

    fn append(&self, row: &Row) -> io::Result<()> {
        let tail = &mut *self.tail.lock();
        let (bytes, crc) = row.encode(tail.crc)?;
        // If this fails, the next row overwrites it.
        tail.file.write_at(&bytes, tail.at)?;
        (tail.at, tail.crc, tail.rows) = (tail.at + bytes.len() as u64, crc, tail.rows + 1);
        Ok(())
    }

    /// Makes all rows durable that were appended before.
    pub async fn sync(&self, spans: &RwLock<Spans>) -> io::Result<()> {
        let _turn = self.syncing.lock().await;
        // Once more: what the file lost is still known here.
        if self.sync_once(spans).await.is_ok() { Ok(()) } else { self.sync_once(spans).await }
    }

    async fn sync_once(&self, spans: &RwLock<Spans>) -> io::Result<()> {
        let (file, at, is_new) = {
            let spans = spans.read();
            let tail = &mut *self.tail.lock();
            let live = spans.count() as u64 + 1;
            if tail.has_failed || tail.rows > 2 * live + DEAD_MIN {
                self.write_anew(tail, &spans)?;
            } else if tail.synced == tail.at && !tail.is_new {
                return Ok(());
            }
            (tail.file.clone(), tail.at, tail.is_new)
        };
        // The kernel reports a failure only once, so a file whose sync failed is never synced again, but replaced.
        let synced = file.sync().await;
        self.tail.lock().has_failed = synced.is_err();
        synced?;
        if is_new {
            self.disk.rename(NAME_NEW, NAME)?;
            self.disk.sync_names().await?;
        }
        let tail = &mut *self.tail.lock();
        (tail.synced, tail.is_new) = (at, false);
        Ok(())
    }

    /// Writes what stands into a new file, which takes the place of the old one when it is durable. Rows that are appended
    /// meanwhile go into the new one: until it has its name, nothing counts on them.
    fn write_anew(&self, tail: &mut Tail, spans: &Spans) -> io::Result<()> {
        let mut bytes = header(self.folder, self.generation);
        let mut crc = crc32c::crc32c(&bytes[..CRC_AT]);
        let rows = std::iter::once(Row::Seen { ino: spans.highest });
        let allocated = |span: &Arc<Span>| Row::Allocated {
            ino: span.ino,
            first: span.first,
            version: span.version.clone(),
        };
        // The current version of a file comes last, so that it is the current one again when the table is read.
        let (current, retired): (Vec<_>, Vec<_>) = spans.all().partition(|span| !span.is_retired());
        let mut count = 0;
        for row in rows.chain(retired.into_iter().chain(current).map(allocated)) {
            let (row, next) = row.encode(crc)?;
            bytes.extend_from_slice(&row);
            (crc, count) = (next, count + 1);
        }
        // The name may be left of an earlier try, whose file the old tail still has.
        match self.disk.remove(NAME_NEW) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.open(NAME_NEW, true)?;
        file.write_at(&bytes, 0)?;
        let at = bytes.len() as u64;
        *tail = Tail { file, at, crc, rows: count, synced: 0, is_new: true, has_failed: false };
        Ok(())
    }
}

impl Row {
    /// Returns whether it makes sense.
    fn apply(self, spans: &mut Spans) -> bool {
        match self {
            Row::Allocated { ino, first, version } => spans.restore(ino, version, first),
            Row::Freed { first } => match spans.by_chunk.get(&first).cloned() {
                Some(span) => {
                    spans.retire(&span);
                    spans.free(&span);
                    true
                }
                None => false,
            },
            Row::Seen { ino } => {
                spans.saw(ino);
                true
            }
        }
    }

    /// The row with its frame, and its checksum.
    fn encode(&self, before: u32) -> io::Result<(Vec<u8>, u32)> {
        let mut body = Writer::new();
        match self {
            Row::Allocated { ino, first, version: Version { tag, len, written } } => {
                body.u8(ALLOCATED).varint(ino.0.into()).varint((*first).into()).varint(*len).str(tag);
                body.u8(written.is_some().into());
                if let Some(time) = written {
                    body.raw(&time.0.to_le_bytes());
                }
            }
            Row::Freed { first } => {
                body.u8(FREED).varint((*first).into());
            }
            Row::Seen { ino } => {
                body.u8(SEEN).varint(ino.0.into());
            }
        }
        let body = body.finish();
        if body.len() > ROW_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the remote's name for the version is too long",
            ));
        }
        let len = (body.len() as u32).to_le_bytes();
        let crc = checksum(before, len, &body);
        Ok(([&len[..], &crc.to_le_bytes(), &body].concat(), crc))
    }

    fn decode(body: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new(body);
        let number = |reader: &mut Reader<'_>| {
            u32::try_from(reader.varint()?).map_err(|_| FormatError::Invalid("a number is too large"))
        };
        let row = match reader.u8()? {
            ALLOCATED => {
                let (ino, first) = (Ino(number(&mut reader)?), number(&mut reader)?);
                let (len, tag) = (reader.varint()?, reader.str()?);
                let written = match reader.u8()? {
                    0 => None,
                    1 => Some(Time(i128::from_le_bytes(reader.array()?))),
                    _ => return Err(FormatError::Unknown),
                };
                Row::Allocated { ino, first, version: Version { tag, len, written } }
            }
            FREED => Row::Freed { first: number(&mut reader)? },
            SEEN => Row::Seen { ino: Ino(number(&mut reader)?) },
            _ => return Err(FormatError::Unknown),
        };
        match reader.rest() {
            [] => Ok(row),
            _ => Err(FormatError::Invalid("a row has more than it should")),
        }
    }
}

fn checksum(before: u32, len: [u8; 4], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[before.to_le_bytes(), len].concat()), body)
}

/// The row at the beginning of `bytes`, its length with its frame, and its checksum.
fn read_row(bytes: &[u8], before: u32) -> Option<(Row, usize, u32)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let body_len = u32::from_le_bytes(*len) as usize;
    let body = rest.get(..body_len).filter(|_| body_len <= ROW_BYTES_MAX)?;
    let crc = u32::from_le_bytes(*crc);
    if crc != checksum(before, *len, body) {
        return None;
    }
    Some((Row::decode(body).ok()?, FRAME_BYTES + body_len, crc))
}

fn header(folder: Uuid, generation: u128) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..24].copy_from_slice(folder.as_bytes());
    header[24..40].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c::crc32c(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The generation, and the checksum.
fn read_header(bytes: &[u8], folder: Uuid) -> Option<(u128, u32)> {
    let bytes = bytes.first_chunk::<HEADER_BYTES>()?;
    let generation = u128::from_le_bytes(*bytes[24..].first_chunk()?);
    (*bytes == header(folder, generation)[..]).then(|| (generation, crc32c::crc32c(&bytes[..CRC_AT])))
}

#[cfg(test)]
mod tests {
    use super::super::tests::version;
    use super::*;
    use crate::sim::disk::{DiskFaults, SimDisk};

    const FOLDER: Uuid = Uuid::from_u128(7);

    fn disk() -> (SimDisk, Arc<dyn Disk>) {
        let sim = SimDisk::new(1, DiskFaults::default());
        (sim.clone(), Arc::new(sim))
    }

    fn shape(spans: &Spans) -> Vec<(Ino, String, u64)> {
        spans.all().map(|span| (span.ino(), span.version().tag.clone(), span.extent().start)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_synced_is_read_again() {
        let (sim, disk) = disk();
        assert!(Rows::open(&disk, FOLDER).unwrap().is_none());
        let rows = Rows::create(&disk, FOLDER, 9).await.unwrap();
        let spans = RwLock::new(Spans::default());
        let allocate = |ino, len| rows.allocate(&mut spans.write(), Ino(ino), version("v", len)).unwrap();
        let (first, _, _) = (allocate(2, 100_000), allocate(3, 0), allocate(90, 7));
        spans.write().retire(&first);
        rows.free(&mut spans.write(), &first).unwrap();
        let timed = Version { written: Some(Time(-5)), ..version("t", 70_000) };
        rows.allocate(&mut spans.write(), Ino(4), timed.clone()).unwrap();
        rows.sync(&spans).await.unwrap();
        sim.power_cut();
        let (again, read) = Rows::open(&disk, FOLDER).unwrap().unwrap();
        assert_eq!((again.generation(), shape(&read)), (9, shape(&spans.read())));
        assert_eq!(read.current(Ino(4)).unwrap().version(), &timed);
        assert_eq!(read.highest_ino(), Ino(90));
        assert!(Rows::open(&disk, Uuid::from_u128(8)).unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_damaged_table_ends_at_the_damage_or_counts_as_none() {
        let (sim, disk) = disk();
        let rows = Rows::create(&disk, FOLDER, 9).await.unwrap();
        let spans = RwLock::new(Spans::default());
        for ino in 2..12 {
            rows.allocate(&mut spans.write(), Ino(ino), version("version", 1)).unwrap();
        }
        rows.sync(&spans).await.unwrap();
        let bits = disk.open("spans", false).unwrap().len().unwrap() * 8;
        for bit in (0..bits).step_by(5) {
            sim.flip_bit("spans", bit);
            match Rows::open(&disk, FOLDER).unwrap() {
                None => assert!(bit < HEADER_BYTES as u64 * 8),
                Some((_, read)) => {
                    let (read, whole) = (shape(&read), shape(&spans.read()));
                    assert!(read.len() < whole.len() && whole.starts_with(&read), "bit {bit}");
                }
            }
            sim.flip_bit("spans", bit);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_stand_for_nothing_do_not_pile_up() {
        let (sim, disk) = disk();
        let rows = Rows::create(&disk, FOLDER, 9).await.unwrap();
        let spans = RwLock::new(Spans::default());
        rows.allocate(&mut spans.write(), Ino(9), version("stays", 1)).unwrap();
        for ino in 10..20_000 {
            let span = rows.allocate(&mut spans.write(), Ino(ino), version("v", 1)).unwrap();
            spans.write().retire(&span);
            rows.free(&mut spans.write(), &span).unwrap();
            if ino % 1000 == 0 {
                rows.sync(&spans).await.unwrap();
            }
        }
        rows.sync(&spans).await.unwrap();
        assert!(disk.open("spans", false).unwrap().len().unwrap() < 200_000);
        sim.power_cut();
        let (_, read) = Rows::open(&disk, FOLDER).unwrap().unwrap();
        assert_eq!((shape(&read), read.highest_ino()), (shape(&spans.read()), Ino(19_999)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_sync_writes_the_table_anew() {
        for seed in 0..40 {
            let sim = SimDisk::new(seed, DiskFaults::default());
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let rows = Rows::create(&disk, FOLDER, 9).await.unwrap();
            let spans = RwLock::new(Spans::default());
            sim.set_faults(DiskFaults { sync_fails: 400, ..DiskFaults::default() });
            for ino in 2..20 {
                rows.allocate(&mut spans.write(), Ino(ino), version("v", 1)).unwrap();
                let synced = rows.sync(&spans).await.is_ok().then(|| shape(&spans.read()));
                let Some(synced) = synced else { continue };
                // The next one fails or is not made: what was synced is there.
                rows.allocate(&mut spans.write(), Ino(ino), version("w", 1)).unwrap();
                if ino == 2 + seed as u32 % 17 {
                    sim.power_cut();
                    let (_, read) = Rows::open(&disk, FOLDER).unwrap().unwrap();
                    let read = shape(&read);
                    assert!(synced.iter().all(|row| read.contains(row)), "seed {seed}");
                    break;
                }
            }
        }
    }
}
