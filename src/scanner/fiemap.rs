//! Where the blocks of a file are: the ioctl FIEMAP (linux/fiemap.h, Documentation/filesystems/fiemap.rst).

use super::Run;
use holdall_core::units::BlockRange;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// Data that is only in memory gets its place first.
const FIEMAP_FLAG_SYNC: u32 = 1;
/// Extents in one answer.
const EXTENTS: usize = 128;

/// It is the last extent.
const LAST: u32 = 0x1;
/// Its place is not known.
const UNKNOWN: u32 = 0x2;
/// It has no place yet.
const DELALLOC: u32 = 0x4;
/// It is in the inode, which is metadata.
const DATA_INLINE: u32 = 0x200;
/// It has a place, but was never written, and reads as zeros.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap_extent`; all in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`, with space for extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Where a file's data is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Its blocks on the drive, in the file's order. Holes and unwritten extents have none.
    pub runs: Vec<Run>,
    /// Whether some of it has no place yet.
    pub unsettled: bool,
}

/// Asks for all extents of an open file or directory.
pub fn extents(file: impl AsFd) -> io::Result<Extents> {
    read_all(|start, extents| ask(&file, start, extents))
}

/// One request: fills in the extents from the byte `start` of the file on, and returns their number.
fn ask(file: &impl AsFd, start: u64, extents: &mut [Extent; EXTENTS]) -> io::Result<usize> {
    let mut request = Request {
        start,
        length: u64::MAX - start,
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    };
    // SAFETY: the kernel reads the head, and writes it and at most `extent_count` extents, for which there is space.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    *extents = request.extents;
    Ok((request.mapped_extents as usize).min(EXTENTS))
}

fn read_all(mut ask: impl FnMut(u64, &mut [Extent; EXTENTS]) -> io::Result<usize>) -> io::Result<Extents> {
    let mut found = Extents::default();
    let mut buffer = [Extent::default(); EXTENTS];
    let mut start = 0;
    loop {
        let count = ask(start, &mut buffer)?;
        for extent in &buffer[..count] {
            found.take(extent);
        }
        let Some(last) = buffer[..count].last().filter(|last| last.flags & LAST == 0) else {
            return Ok(found);
        };
        let next = last.logical.saturating_add(last.length);
        // The file may be changing under us; the change leads to another scan.
        if next <= start {
            found.unsettled = true;
            return Ok(found);
        }
        start = next;
    }
}

impl Extents {
    fn take(&mut self, extent: &Extent) {
        if extent.flags & (UNKNOWN | DELALLOC) != 0 {
            self.unsettled = true;
            return;
        }
        if extent.flags & (DATA_INLINE | UNWRITTEN) != 0 || extent.length == 0 {
            return;
        }
        let blocks = BlockRange::covering(&(extent.physical..extent.physical.saturating_add(extent.length)));
        match self.runs.last_mut().filter(|(start, count)| start + count == blocks.start) {
            Some((_, count)) => *count += blocks.count(),
            None => self.runs.push((blocks.start, blocks.count())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn extent(logical: u64, physical: u64, count: u64, flags: u32) -> Extent {
        let (logical, physical, length) = (logical * BLOCK, physical * BLOCK, count * BLOCK);
        Extent { logical, physical, length, flags, ..Extent::default() }
    }

    /// Reads from a kernel that has these extents, and returns `at_once` of them at a time.
    fn read(extents: &[Extent], at_once: usize) -> Extents {
        read_all(|start, buffer| {
            let rest: Vec<_> = extents
                .iter()
                .filter(|extent| extent.logical + extent.length > start)
                .take(at_once)
                .collect();
            rest.iter().zip(buffer.iter_mut()).for_each(|(extent, place)| *place = **extent);
            Ok(rest.len())
        })
        .unwrap()
    }

    #[test]
    fn extents_become_runs_however_many_come_at_once() {
        let extents = [
            extent(0, 100, 4, 0),
            extent(4, 104, 2, 0),
            extent(10, 50, 1, 0),
            extent(11, 51, 7, UNWRITTEN),
            extent(40, 58, 3, LAST),
        ];
        for at_once in 1..=5 {
            let found = read(&extents, at_once);
            assert_eq!(found, Extents { runs: vec![(100, 6), (50, 1), (58, 3)], unsettled: false });
        }
    }

    #[test]
    fn leaves_out_data_without_blocks_and_reports_unplaced_data() {
        assert_eq!(read(&[], 9), Extents::default());
        assert_eq!(read(&[extent(0, 33, 1, DATA_INLINE | LAST)], 9), Extents::default());
        let found = read(&[extent(0, 7, 1, 0), extent(1, 0, 5, DELALLOC | UNKNOWN | LAST)], 9);
        assert_eq!(found, Extents { runs: vec![(7, 1)], unsettled: true });
    }

    #[test]
    fn a_changing_file_does_not_keep_the_scan_busy() {
        let found = read_all(|_, buffer| {
            buffer[0] = extent(0, 7, 1, 0);
            Ok(1)
        });
        assert!(found.unwrap().unsettled);
    }
}
