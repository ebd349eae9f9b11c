//! Files in memory.

use crate::bench::{Bench, pattern};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// A mapped file.
struct Map {
    at: *mut u8,
    len: usize,
}

impl Map {
    fn new(file: &File, len: usize, protection: ProtFlags) -> Self {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }.unwrap();
        Self { at: at.cast(), len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this long, and nobody else in this program changes the file meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    fn sync(&self) {
        // SAFETY: the mapping is this long.
        unsafe { msync(self.at.cast(), self.len, MsyncFlags::SYNC) }.unwrap();
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it any more.
        unsafe { munmap(self.at.cast(), self.len) }.unwrap();
    }
}

#[test]
fn a_mapped_file_shows_its_bytes() {
    for bench in [Bench::new(), Bench::served()] {
        let bytes = pattern(5, 200_000);
        std::fs::write(bench.at("file"), &bytes).unwrap();
        let file = File::open(bench.at("file")).unwrap();
        let mut map = Map::new(&file, bytes.len(), ProtFlags::READ);
        drop(file);
        assert!(map.bytes() == &bytes[..]);
    }
}

#[test]
fn writes_to_memory_reach_the_file() {
    for bench in [Bench::new(), Bench::served()] {
        std::fs::write(bench.at("file"), pattern(6, 100_000)).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(bench.at("file")).unwrap();
        let mut map = Map::new(&file, 100_000, ProtFlags::READ | ProtFlags::WRITE);
        drop(file);
        map.bytes()[50_000..50_005].copy_from_slice(b"mmap!");
        map.sync();
        let mut seen = [0; 5];
        File::open(bench.at("file")).unwrap().read_exact_at(&mut seen, 50_000).unwrap();
        assert_eq!(&seen, b"mmap!");
        map.bytes()[..4].copy_from_slice(b"last");
        drop(map);
        assert_eq!(std::fs::read(bench.at("file")).unwrap()[..4], *b"last");
    }
}
