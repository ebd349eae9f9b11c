//! A hot set that is read at random while another program reads more than the cache holds.

use super::super::{Failure, Plan};
use super::drive::Drive;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The size of a read of the hot set.
const READ_BYTES: usize = 64 << 10;
/// The alignment of direct reads.
const ALIGN: usize = 4096;
/// Reads that are counted before the scan.
const READS_BEFORE: usize = 400;
/// Pause between two reads, while the scan continues.
const PAUSE: Duration = Duration::from_millis(5);
/// How often the whole hot set is read until it counts as hot ...
const WARMING: usize = 3;
/// ... and the pause between: for the cache, reads within one second count as one.
const AGAIN_AFTER: Duration = Duration::from_millis(1100);

/// The percentage of local reads of the hot set: before the scan, and during it.
pub fn hits(plan: &Plan, drive: &Drive, round: usize) -> Result<(f64, f64), Failure> {
    let mut hot = Hot::open(&drive.hot(), drive.rtt(plan), round)?;
    for _ in 0..WARMING {
        hot.read_all()?;
        std::thread::sleep(AGAIN_AFTER);
    }
    for _ in 0..READS_BEFORE {
        hot.read_one()?;
    }
    let before = hot.take_percent();
    let is_over = AtomicBool::new(false);
    let scanned = std::thread::scope(|scope| {
        let scan = scope.spawn(|| {
            let scanned = drive.scan().iter().try_for_each(|path| read_through(path));
            is_over.store(true, Ordering::Release);
            scanned
        });
        while !is_over.load(Ordering::Acquire) {
            hot.read_one()?;
            std::thread::sleep(PAUSE);
        }
        scan.join().map_err(|_| "the scan panicked")??;
        Ok::<_, Failure>(hot.take_percent())
    })?;
    Ok((before, scanned))
}

fn read_through(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    // Pages that the kernel has kept must not count.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    std::io::copy(&mut &file, &mut std::io::sink()).map(drop)
}

/// The hot set, read past the page cache.
struct Hot {
    file: File,
    len: u64,
    /// A read that takes longer has waited for the store.
    local: Duration,
    state: u64,
    buffer: Vec<u8>,
    reads: u32,
    hits: u32,
}

impl Hot {
    fn open(path: &Path, rtt: Duration, round: usize) -> Result<Self, Failure> {
        let file: File = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty())?.into();
        let len = file.metadata()?.len();
        let buffer = vec![0; READ_BYTES + ALIGN];
        Ok(Self { file, len, local: rtt / 2, state: round as u64 + 1, buffer, reads: 0, hits: 0 })
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        (0..self.len / READ_BYTES as u64).try_for_each(|at| self.read_at(at).map(drop))
    }

    fn read_one(&mut self) -> Result<(), Failure> {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let took = self.read_at((self.state >> 33) % (self.len / READ_BYTES as u64))?;
        self.reads += 1;
        self.hits += u32::from(took < self.local);
        Ok(())
    }

    fn read_at(&mut self, at: u64) -> Result<Duration, Failure> {
        let start = self.buffer.as_ptr().align_offset(ALIGN);
        let begun = Instant::now();
        self.file.read_exact_at(&mut self.buffer[start..start + READ_BYTES], at * READ_BYTES as u64)?;
        Ok(begun.elapsed())
    }

    /// The percentage of local reads so far; restarts the count.
    fn take_percent(&mut self) -> f64 {
        let (reads, hits) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.hits));
        f64::from(hits) * 100.0 / f64::from(reads.max(1))
    }
}
