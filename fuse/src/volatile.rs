//! For tests: a disk that at a power cut loses what was not synced. Attached as a one-file disk with ext4 on it, it carries the directories
//! of a program under test; killing the process that serves it (kill -9) is the power cut.
//!
//! Written sectors live in memory until a flush copies them to the file. A real disk also writes some of them early, in any order and torn
//! at its sectors. So a generator that starts from the seed chooses some sectors of each write, as many as [`Survival::early`] says, and
//! these are written to the file at once. The choice is made at the write and not at the cut, so a kill works as well as a cut. Discards
//! reach the file at once, as a disk is free to do.

use holdall_core::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, Piece, ReadLease, Zeroing,
};
use holdall_core::disk::{DiskFile, Sync};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The unit that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// Which unsynced sectors reach the file.
#[derive(Clone, Copy, Debug)]
pub struct Survival {
    /// The generator's start. The same seed and the same writes lose the same sectors.
    pub seed: u64,
    /// How many of 256 sectors are written early: 0 loses everything that was not synced.
    pub early: u8,
}

/// What happens to requests after [`VolatileDisk::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCut {
    /// They fail, as on a disk that was pulled.
    Fail,
    /// Writes and flushes succeed and do nothing: a program that continues believes them, and is wrong.
    Drop,
}

/// The disk.
pub struct VolatileDisk {
    size_bytes: u64,
    // One lock for everything: this is a tool for tests, and the order of writes matters.
    state: Mutex<State>,
}

struct State {
    file: File,
    unsynced: BTreeMap<u64, Box<[u8; SECTOR]>>,
    random: u64,
    early: u8,
    cut: Option<AfterCut>,
}

impl VolatileDisk {
    /// A disk over `file`, with the file's length.
    pub fn new(file: File, survival: Survival) -> io::Result<Self> {
        let size_bytes = file.metadata()?.len() / 4096 * 4096;
        let Survival { seed, early } = survival;
        let state = State { file, unsynced: BTreeMap::new(), random: seed, early, cut: None };
        Ok(VolatileDisk { size_bytes, state: Mutex::new(state) })
    }

    /// Cuts the power: unsynced sectors are gone. Returns how many there were.
    pub fn cut(&self, after: AfterCut) -> usize {
        let mut state = self.state.lock();
        state.cut = Some(after);
        std::mem::take(&mut state.unsynced).len()
    }

    /// The number of sectors in memory that a cut would lose now.
    pub fn unsynced_sectors(&self) -> usize {
        self.state.lock().unsynced.len()
    }

    fn range(&self, range: &Range<u64>) -> Result<(), DeviceError> {
        let inside = range.start <= range.end && range.end <= self.size_bytes;
        let aligned = range.start.is_multiple_of(SECTOR as u64) && range.end.is_multiple_of(SECTOR as u64);
        if inside && aligned { Ok(()) } else { Err(DeviceError::OutOfRange) }
    }

    fn try_read(&self, range: Range<u64>) -> Result<ReadLease, DeviceError> {
        self.range(&range)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let state = self.state.lock();
        if state.cut == Some(AfterCut::Fail) {
            return Err(DeviceError::Closed);
        }
        state.file.read_exact_at(&mut bytes, range.start)?;
        for (sector, data) in state.unsynced.range(sectors(&range)) {
            let at = (sector * SECTOR as u64 - range.start) as usize;
            bytes[at..at + SECTOR].copy_from_slice(&data[..]);
        }
        let (len, file) = (bytes.len() as u64, Arc::new(Memory(bytes)));
        Ok(ReadLease::new(vec![Piece::File { file, offset: 0, len, by_reference: false }], ()))
    }

    fn try_write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let end = offset.checked_add(data.len() as u64).ok_or(DeviceError::OutOfRange)?;
        self.range(&(offset..end))?;
        let mut state = self.state.lock();
        if let Some(after) = state.cut {
            return after.answer();
        }
        for (sector, data) in (offset / SECTOR as u64..).zip(data.as_chunks::<SECTOR>().0) {
            if state.writes_early() {
                state.unsynced.remove(&sector);
                state.file.write_all_at(data, sector * SECTOR as u64)?;
            } else {
                state.unsynced.insert(sector, Box::new(*data));
            }
        }
        match durability {
            Durability::Ordered => Ok(()),
            Durability::Forced => state.flush(),
        }
    }

    fn try_zero(&self, range: Range<u64>) -> Result<(), DeviceError> {
        self.range(&range)?;
        let mut state = self.state.lock();
        if let Some(after) = state.cut {
            return after.answer();
        }
        let mut kept = state.unsynced.split_off(&sectors(&range).start);
        state.unsynced.append(&mut kept.split_off(&sectors(&range).end));
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&state.file, flags, range.start, range.end - range.start)
            .map_err(|errno| DeviceError::Failed(format!("fallocate: {errno}")))
    }

    fn try_flush(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.cut.map_or(Ok(()), AfterCut::answer)?;
        state.flush()
    }
}

impl AfterCut {
    fn answer(self) -> Result<(), DeviceError> {
        match self {
            AfterCut::Fail => Err(DeviceError::Closed),
            AfterCut::Drop => Ok(()),
        }
    }
}

impl State {
    /// Writes to the page cache, without an fdatasync: this process is killed, not the machine under it.
    fn flush(&mut self) -> Result<(), DeviceError> {
        if self.cut.is_some() {
            return Ok(());
        }
        while let Some((sector, data)) = self.unsynced.pop_first() {
            self.file.write_all_at(&data[..], sector * SECTOR as u64)?;
        }
        Ok(())
    }

    /// SplitMix64, because it needs nothing but a seed.
    fn writes_early(&mut self) -> bool {
        if self.early == 0 {
            return false;
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) & 0xff) < u64::from(self.early)
    }
}

fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR as u64..range.end / SECTOR as u64
}

impl BlockDevice for VolatileDisk {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.size_bytes, read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        Answer::Now(self.try_read(range))
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()> {
        Answer::Now(self.try_write(offset, data, durability))
    }

    fn zero(&self, range: Range<u64>, _how: Zeroing, _durability: Durability) -> Answer<()> {
        Answer::Now(self.try_zero(range))
    }

    fn flush(&self) -> Answer<()> {
        Answer::Now(self.try_flush())
    }

    fn prefetch(&self, _range: Range<u64>) {}

    fn allocation(&self, range: Range<u64>, _limit: usize) -> Answer<Vec<Allocation>> {
        let len = range.end.saturating_sub(range.start);
        Answer::Now(self.range(&range).map(|()| vec![Allocation { len, zero: false }]))
    }
}

/// Bytes in memory, as the file that a lease needs.
struct Memory(Vec<u8>);

impl DiskFile for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)?.get(..buf.len()));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(std::future::ready(Ok(())))
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}

#[cfg(test)]
mod tests;
