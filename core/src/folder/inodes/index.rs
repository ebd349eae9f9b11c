//! The part of the table of numbers that is in memory: for each number that has a name, where its record lies and a hash of the name.
//! Names themselves stay in the file.

use super::record::ALIGN;
use crate::folder::node::Ino;
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// Numbers whose slots lie together. Numbers are given one after the other, so that most slots of a page are used; a page that has none
/// left in use is freed.
const PAGE_SLOTS: u32 = 64;

/// Numbers with a name: 8 bytes each, and 6 to 12 in the hash table.
#[derive(Default)]
pub(super) struct Index {
    pages: Pages,
    by_name: HashTable<u32>,
}

/// Where the record of a number lies.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The record's offset in the file, in units of [`ALIGN`] bytes; 0: the number has no name.
    record: u32,
    /// The hash of parent and name.
    hash: u32,
}

impl Index {
    /// The largest offset that a slot can hold.
    pub const OFFSET_MAX: u64 = u32::MAX as u64 * ALIGN;

    /// How many numbers have a name.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Where the record of `ino` lies; `None` if it has no name.
    pub fn offset(&self, ino: Ino) -> Option<u64> {
        Some(u64::from(slot(&self.pages, ino.0)?.record) * ALIGN)
    }

    /// The numbers whose names may have this hash, and where their records lie.
    pub fn candidates(&self, hash: u32) -> impl Iterator<Item = (Ino, u64)> {
        self.by_name.iter_hash(spread(hash)).filter_map(move |ino| {
            let slot = slot(&self.pages, *ino).filter(|slot| slot.hash == hash)?;
            Some((Ino(*ino), u64::from(slot.record) * ALIGN))
        })
    }

    /// Remembers a number that is not here: its record lies at `offset`, and its name has the hash.
    pub fn insert(&mut self, ino: Ino, offset: u64, hash: u32) {
        assert!(
            offset.is_multiple_of(ALIGN) && (1..=Self::OFFSET_MAX).contains(&offset),
            "a record lies where slots can point"
        );
        let page = self
            .pages
            .entry(ino.0 / PAGE_SLOTS)
            .or_insert_with(|| Box::new([Slot::default(); PAGE_SLOTS as usize]));
        let slot = &mut page[(ino.0 % PAGE_SLOTS) as usize];
        assert!(slot.record == 0, "a number has one name");
        *slot = Slot { record: (offset / ALIGN) as u32, hash };
        let pages = &self.pages;
        self.by_name.insert_unique(spread(hash), ino.0, |ino| spread(hash_of(pages, *ino)));
    }

    /// Forgets the name of a number. Whether it had one.
    pub fn remove(&mut self, ino: Ino) -> bool {
        let Some(Slot { hash, .. }) = slot(&self.pages, ino.0) else { return false };
        let entry = self.by_name.find_entry(spread(hash), |other| *other == ino.0);
        entry.expect("a number with a name is in the table").remove();
        let number = ino.0 / PAGE_SLOTS;
        let page = self.pages.get_mut(&number).expect("the slot was just read");
        page[(ino.0 % PAGE_SLOTS) as usize] = Slot::default();
        if page.iter().all(|slot| slot.record == 0) {
            self.pages.remove(&number);
        }
        true
    }

    /// The record of a number that is here lies elsewhere. Does nothing if it has no name.
    pub fn relocate(&mut self, ino: Ino, offset: u64) {
        let page = self.pages.get_mut(&(ino.0 / PAGE_SLOTS));
        let slot = page.map(|page| &mut page[(ino.0 % PAGE_SLOTS) as usize]).filter(|slot| slot.record != 0);
        if let Some(slot) = slot {
            slot.record = (offset / ALIGN) as u32;
        }
    }

    /// All numbers with a name, and where their records lie, in the order of the file.
    pub fn in_file_order(&self) -> Vec<(Ino, u64)> {
        let mut all = Vec::with_capacity(self.len());
        for (page, slots) in &self.pages {
            let numbers = page * PAGE_SLOTS..;
            let used = numbers.zip(slots.iter()).filter(|(_, slot)| slot.record != 0);
            all.extend(used.map(|(ino, slot)| (Ino(ino), u64::from(slot.record) * ALIGN)));
        }
        all.sort_unstable_by_key(|(_, offset)| *offset);
        all
    }

    /// Gives back memory that growing and shrinking has left over.
    pub fn shrink(&mut self) {
        let pages = &self.pages;
        self.by_name.shrink_to_fit(|ino| spread(hash_of(pages, *ino)));
    }

    /// Bytes of memory it takes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        // A node of a B-tree has space for 11 entries, is at least half full, and holds a few pointers beside them.
        let page = size_of::<[Slot; PAGE_SLOTS as usize]>() + 2 * (size_of::<(u32, Box<()>)>() + 4);
        self.pages.len() * page + self.by_name.allocation_size()
    }
}

type Pages = BTreeMap<u32, Box<[Slot; PAGE_SLOTS as usize]>>;

fn slot(pages: &Pages, ino: u32) -> Option<Slot> {
    let slot = pages.get(&(ino / PAGE_SLOTS))?[(ino % PAGE_SLOTS) as usize];
    (slot.record != 0).then_some(slot)
}

fn hash_of(pages: &Pages, ino: u32) -> u32 {
    slot(pages, ino).expect("a number in the table has a slot").hash
}

/// The table takes its place from the low bits and a tag from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
