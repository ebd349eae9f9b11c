//! One bit for each block of a drive, read and changed without locks, in pages. A page takes memory only once its bits have
//! differed, and a part of the page table only once it was written to. So the capacity can exceed the drive, to let it
//! grow, at no cost.

use crate::units::BlockRange;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// As many as fit into a page of the bitmap on disk.
const WORDS: usize = 510;
/// Blocks whose bits are in one page.
pub const PAGE_BLOCKS: u64 = WORDS as u64 * 64;

type Page = Box<[AtomicU64; WORDS]>;

/// Pages in one part of the table, which covers 32 GiB of a drive.
const GROUP: usize = 256;

/// Bits by block index.
pub struct Bitmap {
    pages: u64,
    /// The table of pages; a part that was never written to does not exist.
    groups: Box<[OnceLock<Box<[Slot; GROUP]>>]>,
}

/// Stands for any page of a part that does not exist; it is only read.
static NOTHING: Slot = Slot { state: AtomicU8::new(EMPTY), bits: OnceLock::new() };

/// A page. Once it has bits it keeps them, even if they are all alike again.
#[derive(Default)]
struct Slot {
    /// `EMPTY`, `FULL` or `BITS`.
    state: AtomicU8,
    bits: OnceLock<Page>,
}

const EMPTY: u8 = 0;
const FULL: u8 = 1;
/// The bits exist, or the thread that set this is making them.
const BITS: u8 = 2;

enum View<'a> {
    Empty,
    Full,
    Bits(&'a Page),
}

impl Slot {
    fn view(&self) -> View<'_> {
        if let Some(page) = self.bits.get() {
            return View::Bits(page);
        }
        match self.state.load(Ordering::Acquire) {
            EMPTY => View::Empty,
            FULL => View::Full,
            _ => View::Bits(self.bits.wait()),
        }
    }

    /// The bits, created with the value that the whole page had.
    fn bits(&self) -> &Page {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state == BITS {
                return self.bits.wait();
            }
            if self.become_state(state, BITS) {
                let word = if state == FULL { u64::MAX } else { 0 };
                return self.bits.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(word))));
            }
        }
    }

    fn become_state(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn fill(&self, set: bool) {
        let (from, to, word) = if set { (EMPTY, FULL, u64::MAX) } else { (FULL, EMPTY, 0) };
        loop {
            match (self.view(), set) {
                (View::Empty, false) | (View::Full, true) => return,
                (View::Bits(page), _) => {
                    return page.iter().for_each(|bits| bits.store(word, Ordering::Release));
                }
                (View::Empty, true) | (View::Full, false) => {
                    if self.become_state(from, to) {
                        return;
                    }
                }
            }
        }
    }

    fn word(&self, block: u64) -> u64 {
        match self.view() {
            View::Empty => 0,
            View::Full => u64::MAX,
            View::Bits(page) => word(page, block).load(Ordering::Acquire),
        }
    }
}

impl Bitmap {
    /// All bits clear, for blocks below `capacity`.
    pub fn new(capacity: u64) -> Self {
        let pages = capacity.div_ceil(PAGE_BLOCKS);
        Self { pages, groups: (0..pages.div_ceil(GROUP as u64)).map(|_| OnceLock::new()).collect() }
    }

    /// Number of blocks that have a bit.
    pub fn capacity(&self) -> u64 {
        self.pages * PAGE_BLOCKS
    }

    /// The bit of one block.
    pub fn get(&self, block: u64) -> bool {
        self.slot(block / PAGE_BLOCKS).word(block) & (1 << (block % 64)) != 0
    }

    /// A page, for reading.
    fn slot(&self, page: u64) -> &Slot {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        let group = self.groups[page as usize / GROUP].get();
        group.map_or(&NOTHING, |group| &group[page as usize % GROUP])
    }

    /// A page, for writing.
    fn slot_mut(&self, page: u64) -> &Slot {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        let group = self.groups[page as usize / GROUP]
            .get_or_init(|| Box::new(std::array::from_fn(|_| Slot::default())));
        &group[page as usize % GROUP]
    }

    /// Sets the bits of a range.
    pub fn set(&self, range: BlockRange) {
        for (page, part) in parts(range) {
            let slot = self.slot_mut(page);
            match slot.view() {
                View::Full => {}
                View::Empty | View::Bits(_) if part.count() == PAGE_BLOCKS => slot.fill(true),
                View::Empty | View::Bits(_) => {
                    for (block, mask) in words(part) {
                        word(slot.bits(), block).fetch_or(mask, Ordering::AcqRel);
                    }
                }
            }
        }
    }

    /// Clears the bits of a range.
    pub fn clear(&self, range: BlockRange) {
        for (slot, part) in self.parts(range) {
            match slot.view() {
                View::Empty => {}
                View::Full | View::Bits(_) if part.count() == PAGE_BLOCKS => slot.fill(false),
                View::Full | View::Bits(_) => {
                    for (block, mask) in words(part) {
                        word(slot.bits(), block).fetch_and(!mask, Ordering::AcqRel);
                    }
                }
            }
        }
    }

    /// Clears every bit.
    pub fn clear_all(&self) {
        let groups = self.groups.iter().filter_map(OnceLock::get);
        groups.flat_map(|group| group.iter()).for_each(|slot| slot.fill(false));
    }

    /// Whether every bit of a range is set.
    pub fn all(&self, range: BlockRange) -> bool {
        self.parts(range).all(|(slot, part)| match slot.view() {
            View::Empty => false,
            View::Full => true,
            View::Bits(page) => {
                words(part).all(|(block, mask)| word(page, block).load(Ordering::Acquire) & mask == mask)
            }
        })
    }

    /// Whether any bit of a range is set.
    pub fn any(&self, range: BlockRange) -> bool {
        self.parts(range).any(|(slot, part)| match slot.view() {
            View::Empty => false,
            View::Full => true,
            View::Bits(page) => {
                words(part).any(|(block, mask)| word(page, block).load(Ordering::Acquire) & mask != 0)
            }
        })
    }

    /// Number of bits set in a range.
    pub fn count(&self, range: BlockRange) -> u64 {
        let in_part = |(slot, part): (&Slot, BlockRange)| -> u64 {
            match slot.view() {
                View::Empty => 0,
                View::Full => part.count(),
                View::Bits(page) => {
                    let ones = |(block, mask): (u64, u64)| {
                        (word(page, block).load(Ordering::Acquire) & mask).count_ones()
                    };
                    words(part).map(|piece| u64::from(ones(piece))).sum()
                }
            }
        };
        self.parts(range).map(in_part).sum()
    }

    /// Number of bits set.
    pub fn count_all(&self) -> u64 {
        self.count(BlockRange { start: 0, end: self.capacity() })
    }

    /// The first run of like bits in `range`, which must not be empty: its value and its blocks.
    pub fn run(&self, range: BlockRange) -> (bool, BlockRange) {
        let value = self.get(range.start);
        let mut end = range.end;
        for (slot, part) in self.parts(range) {
            let found = match slot.view() {
                View::Empty => value.then_some(part.start),
                View::Full => (!value).then_some(part.start),
                View::Bits(page) => words(part).find_map(|(block, mask)| {
                    let bits = word(page, block).load(Ordering::Acquire);
                    let unlike = if value { !bits } else { bits } & mask;
                    (unlike != 0).then(|| block / 64 * 64 + u64::from(unlike.trailing_zeros()))
                }),
            };
            if let Some(found) = found {
                end = found;
                break;
            }
        }
        // The first bit may have changed meanwhile, but a run is never empty.
        (value, BlockRange { start: range.start, end: end.max(range.start + 1) })
    }

    /// The runs of set bits in `range`, in order.
    pub fn runs(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end {
                let (set, run) = self.run(BlockRange { start: at, end: range.end });
                at = run.end;
                if set {
                    return Some(run);
                }
            }
            None
        })
    }

    /// The first blocks of the words that differ from those of `other`, which has the same capacity.
    pub fn differing_words(&self, other: &Bitmap) -> Vec<u64> {
        let mut differing = Vec::new();
        for page in 0..self.pages {
            let (ours, theirs) = (self.slot(page), other.slot(page));
            if let (View::Empty, View::Empty) | (View::Full, View::Full) = (ours.view(), theirs.view()) {
                continue;
            }
            let first = page * PAGE_BLOCKS;
            let blocks = (first..first + PAGE_BLOCKS).step_by(64);
            differing.extend(blocks.filter(|block| ours.word(*block) != theirs.word(*block)));
        }
        differing
    }

    /// Replaces the 64 bits from `block` (a multiple of 64) on.
    pub fn set_word(&self, block: u64, bits: u64) {
        let page = block / PAGE_BLOCKS;
        if page < self.pages && self.slot(page).word(block) != bits {
            word(self.slot_mut(page).bits(), block).store(bits, Ordering::Release);
        }
    }

    /// Replaces the bits of the page `index`.
    pub fn set_page(&self, index: u64, words: &[u64; WORDS]) {
        let first = index * PAGE_BLOCKS;
        match words[0] {
            u64::MAX if *words == [u64::MAX; WORDS] => self.set(BlockRange::new(first, PAGE_BLOCKS)),
            _ => {
                words.iter().zip((first..).step_by(64)).for_each(|(bits, block)| self.set_word(block, *bits))
            }
        }
    }

    /// Copies the 64 bits from `block` (a multiple of 64) on.
    pub fn word(&self, block: u64) -> u64 {
        let page = block / PAGE_BLOCKS;
        if page < self.pages { self.slot(page).word(block) } else { 0 }
    }

    /// The pages of a range, for reading, with the part of it in each.
    fn parts(&self, range: BlockRange) -> impl Iterator<Item = (&Slot, BlockRange)> {
        parts(range).map(|(page, part)| (self.slot(page), part))
    }
}

/// The pages of a range, with the part of it in each.
fn parts(range: BlockRange) -> impl Iterator<Item = (u64, BlockRange)> {
    let first = range.start / PAGE_BLOCKS;
    let pages = if range.is_empty() { first..first } else { first..(range.end - 1) / PAGE_BLOCKS + 1 };
    pages.map(move |page| (page, range.intersect(&BlockRange::new(page * PAGE_BLOCKS, PAGE_BLOCKS))))
}

fn word(page: &Page, block: u64) -> &AtomicU64 {
    &page[(block % PAGE_BLOCKS / 64) as usize]
}

/// A range as masks of words: a block of each word, and the mask.
fn words(range: BlockRange) -> impl Iterator<Item = (u64, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let (block, bit) = (at, at % 64);
            let count = (64 - bit).min(range.end - at);
            at += count;
            let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            (block, ones << bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn random_operations_agree_with_a_plain_array() {
        const N: u64 = PAGE_BLOCKS * 3;
        for seed in 0..30 {
            let mut rng = StdRng::seed_from_u64(seed);
            let bitmap = Bitmap::new(N);
            let mut model = vec![false; N as usize];
            for _ in 0..40 {
                let start = rng.random_range(0..N);
                let longest = 1 << rng.random_range(0..18);
                let len = rng.random_range(0..=longest.min(N - start));
                let range = BlockRange::new(start, len);
                let slice = &mut model[range.start as usize..range.end as usize];
                if rng.random() {
                    bitmap.set(range);
                    slice.fill(true);
                } else {
                    bitmap.clear(range);
                    slice.fill(false);
                }
                let at = rng.random_range(0..N - 1);
                let asked = BlockRange { start: at, end: rng.random_range(at + 1..N) };
                let bits = &model[asked.start as usize..asked.end as usize];
                assert_eq!(
                    bitmap.count(asked),
                    bits.iter().filter(|bit| **bit).count() as u64,
                    "seed {seed}"
                );
                assert_eq!(bitmap.all(asked), bits.iter().all(|bit| *bit), "seed {seed}");
                assert_eq!(bitmap.any(asked), bits.iter().any(|bit| *bit), "seed {seed}");
                let (value, run) = bitmap.run(asked);
                let len = bits.iter().take_while(|bit| **bit == bits[0]).count() as u64;
                assert_eq!((value, run), (bits[0], BlockRange::new(asked.start, len)), "seed {seed}");
            }
            let all = BlockRange { start: 0, end: N };
            let set: u64 = bitmap.runs(all).map(|run| run.count()).sum();
            assert_eq!((set, bitmap.count_all()), (bitmap.count(all), set), "seed {seed}");
            let copy = Bitmap::new(N);
            bitmap.runs(all).for_each(|run| copy.set(run));
            assert_eq!(copy.differing_words(&bitmap), Vec::<u64>::new(), "seed {seed}");
            copy.set_word(64, !bitmap.word(64));
            assert_eq!(copy.differing_words(&bitmap), [64], "seed {seed}");
        }
    }

    #[test]
    fn spare_capacity_costs_nothing_until_it_is_used() {
        let bitmap = Bitmap::new(1 << 32);
        let tables = || bitmap.groups.iter().filter(|group| group.get().is_some()).count();
        let (last, all) =
            (BlockRange::new((1 << 32) - 70, 70), BlockRange { start: 0, end: bitmap.capacity() });
        assert!(!bitmap.any(all) && bitmap.count_all() == 0 && !bitmap.all(last));
        bitmap.clear(all);
        bitmap.clear_all();
        assert_eq!((bitmap.run(all), tables()), ((false, all), 0));
        bitmap.set(last);
        bitmap.set_word(0, 6);
        assert_eq!(tables(), 2);
        assert_eq!(bitmap.runs(all).collect::<Vec<_>>(), [BlockRange::new(1, 2), last]);
        assert_eq!(bitmap.differing_words(&Bitmap::new(1 << 32)).len(), 3);
    }

    #[test]
    fn pages_that_are_all_alike_take_no_memory() {
        let bitmap = Bitmap::new(10_000 * PAGE_BLOCKS);
        let all = BlockRange { start: 0, end: bitmap.capacity() };
        bitmap.set(all);
        assert_eq!(bitmap.count(all), all.end);
        let with_bits = || (0..bitmap.pages).filter(|page| bitmap.slot(*page).bits.get().is_some()).count();
        assert_eq!(with_bits(), 0);
        bitmap.clear(BlockRange::new(70_000, 1));
        assert_eq!(bitmap.count_all(), all.end - 1);
        assert_eq!(with_bits(), 1);
        bitmap.clear_all();
        assert_eq!(bitmap.count_all(), 0);
    }

    #[test]
    fn threads_on_their_own_blocks_do_not_disturb_each_other() {
        for _ in 0..200 {
            let bitmap = Bitmap::new(PAGE_BLOCKS);
            let whole = BlockRange::new(0, PAGE_BLOCKS);
            std::thread::scope(|scope| {
                scope.spawn(|| bitmap.set(whole));
                for own in 0..3 {
                    let bitmap = &bitmap;
                    scope.spawn(move || bitmap.clear(BlockRange::new(own * 64 + 1, 1)));
                }
            });
            // A block that a thread clears is clear, or was set after; all others are set.
            assert!(bitmap.count_all() >= PAGE_BLOCKS - 3);
            (0..3).for_each(|own| assert!(bitmap.get(own * 64) && bitmap.get(own * 64 + 2)));
        }
    }
}
