//! Openings that survive the daemon: the kernel knows each by its number, and goes on using it when another daemon takes the mount over.
//!
//! The file `opens` has a slot of 24 bytes for each opening. Slots are written plainly, so that a killed daemon leaves them; a power cut ends
//! all programs, and the file counts no longer.
//!
//! ```text
//! 0    8   number of the opening; 0: free
//! 8    4   inode
//! 12   1   flags: 1 it writes, 2 it passes through, 4 the inode has no name any longer
//! 13   3   0
//! 16   4   the kernel's number of the registered local file; 0: none
//! 20   4   CRC-32C of bytes 0..20
//! ```

use crate::disk::{Disk, DiskFile};
use crate::folder::api::Handle;
use crate::folder::modes::Mode;
use crate::folder::node::Ino;
use std::io;
use std::sync::Arc;

const NAME: &str = "opens";
const SLOT: usize = 24;
/// More openings than this are not remembered: they end with the daemon.
const SLOTS_MAX: usize = 1 << 20;

/// An opening as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub handle: Handle,
    pub ino: Ino,
    pub writes: bool,
    pub mode: Mode,
    pub is_unlinked: bool,
    pub registered: u32,
}

impl Slot {
    fn encode(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[0..8].copy_from_slice(&self.handle.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.ino.0.to_le_bytes());
        let passes = self.mode == Mode::Passed;
        bytes[12] = u8::from(self.writes) | u8::from(passes) << 1 | u8::from(self.is_unlinked) << 2;
        bytes[16..20].copy_from_slice(&self.registered.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SLOT]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let handle = u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32;
        let flags = bytes[12];
        let is_whole = crc32c::crc32c(&bytes[..20]) == u32_at(20) && flags < 8 && bytes[13..16] == [0; 3];
        (is_whole && handle != 0).then(|| Self {
            handle: Handle(handle),
            ino: Ino(u32_at(8)),
            writes: flags & 1 != 0,
            mode: if flags & 2 != 0 { Mode::Passed } else { Mode::Served },
            is_unlinked: flags & 4 != 0,
            registered: u32_at(16),
        })
    }
}

/// The file of openings.
pub(super) struct Slots {
    file: Arc<dyn DiskFile>,
    free: Vec<usize>,
    count: usize,
}

impl Slots {
    /// Opens the file. Returns what it remembers, with its places; a damaged slot is free. If nothing `counts`, it begins anew.
    pub fn open(disk: &dyn Disk, counts: bool) -> io::Result<(Self, Vec<(usize, Slot)>)> {
        let file = disk.open(NAME, true)?;
        if !counts {
            file.set_len(0)?;
        }
        let count = (file.len()? / SLOT as u64).min(SLOTS_MAX as u64) as usize;
        let (mut found, mut free) = (Vec::new(), Vec::new());
        for at in 0..count {
            let mut bytes = [0; SLOT];
            file.read_at(&mut bytes, (at * SLOT) as u64)?;
            match Slot::decode(&bytes) {
                Some(slot) => found.push((at, slot)),
                None => free.push(at),
            }
        }
        Ok((Self { file, free, count }, found))
    }

    /// Remembers an opening. Returns its place, if there is one.
    pub fn add(&mut self, slot: &Slot) -> io::Result<Option<usize>> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.count < SLOTS_MAX => {
                self.count += 1;
                self.count - 1
            }
            None => return Ok(None),
        };
        match self.change(at, slot) {
            Ok(()) => Ok(Some(at)),
            Err(error) => {
                self.free.push(at);
                Err(error)
            }
        }
    }

    /// Remembers it as it is now.
    pub fn change(&self, at: usize, slot: &Slot) -> io::Result<()> {
        self.file.write_at(&slot.encode(), (at * SLOT) as u64)
    }

    /// Forgets it.
    pub fn remove(&mut self, at: usize) -> io::Result<()> {
        self.free.push(at);
        self.file.write_at(&[0; SLOT], (at * SLOT) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::disk::{DiskFaults, SimDisk};

    fn slot(handle: u64, writes: bool, mode: Mode) -> Slot {
        Slot { handle: Handle(handle), ino: Ino(7), writes, mode, is_unlinked: writes, registered: 3 }
    }

    #[test]
    fn openings_are_remembered_until_they_end() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let (mut slots, found) = Slots::open(&disk, true).unwrap();
        assert_eq!(found, []);
        let (one, two) = (slot(1 << 40, true, Mode::Passed), slot(2, false, Mode::Served));
        let first = slots.add(&one).unwrap().unwrap();
        let second = slots.add(&two).unwrap().unwrap();
        disk.kill();
        let (mut slots, found) = Slots::open(&disk, true).unwrap();
        assert_eq!(found, [(first, one), (second, two)]);
        slots.remove(first).unwrap();
        let changed = Slot { is_unlinked: true, ..two };
        slots.change(second, &changed).unwrap();
        let (mut slots, found) = Slots::open(&disk, true).unwrap();
        assert_eq!(found, [(second, changed)]);
        assert_eq!(slots.add(&one).unwrap(), Some(first), "a free slot is used again");
        assert_eq!(Slots::open(&disk, false).unwrap().1, []);
        assert_eq!(Slots::open(&disk, true).unwrap().1, []);
    }

    #[test]
    fn a_damaged_slot_is_no_opening() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let (mut slots, _) = Slots::open(&disk, true).unwrap();
        slots.add(&slot(5, false, Mode::Served)).unwrap();
        for bit in 0..24 * 8 {
            disk.flip_bit(NAME, bit);
            assert_eq!(Slots::open(&disk, true).unwrap().1, [], "bit {bit}");
            disk.flip_bit(NAME, bit);
        }
        assert_eq!(Slots::open(&disk, true).unwrap().1.len(), 1);
    }
}
