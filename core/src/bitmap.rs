//! One bit for each block of a drive, read and changed without locks, in pages that exist only once a bit in them
//! was set. A 1 TiB drive that nothing was read from costs 128 KiB.

use crate::units::BlockRange;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 512;
const PAGE_BLOCKS: u64 = WORDS as u64 * 64;

type Page = Box<[AtomicU64; WORDS]>;

/// Bits by block index.
pub struct Bitmap {
    pages: Box<[OnceLock<Page>]>,
}

impl Bitmap {
    /// All bits clear, for blocks below `capacity`.
    pub fn new(capacity: u64) -> Self {
        Self { pages: (0..capacity.div_ceil(PAGE_BLOCKS)).map(|_| OnceLock::new()).collect() }
    }

    /// Blocks that there are bits for.
    pub fn capacity(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BLOCKS
    }

    /// The bit of one block.
    pub fn get(&self, block: u64) -> bool {
        let page = self.pages[(block / PAGE_BLOCKS) as usize].get();
        page.is_some_and(|page| word(page, block).load(Ordering::Acquire) & (1 << (block % 64)) != 0)
    }

    /// Sets the bits of a range.
    pub fn set(&self, range: BlockRange) {
        for (page, block, mask) in words(range) {
            word(self.page(page), block).fetch_or(mask, Ordering::AcqRel);
        }
    }

    /// Clears the bits of a range.
    pub fn clear(&self, range: BlockRange) {
        for (page, part) in self.present(range) {
            for (_, block, mask) in words(part) {
                word(page, block).fetch_and(!mask, Ordering::AcqRel);
            }
        }
    }

    /// Clears every bit.
    pub fn clear_all(&self) {
        for page in self.pages.iter().filter_map(OnceLock::get) {
            page.iter().for_each(|word| word.store(0, Ordering::Release));
        }
    }

    /// Whether every bit of a range is set.
    pub fn all(&self, range: BlockRange) -> bool {
        words(range).all(|(page, block, mask)| {
            self.pages[page]
                .get()
                .is_some_and(|page| word(page, block).load(Ordering::Acquire) & mask == mask)
        })
    }

    /// Whether any bit of a range is set.
    pub fn any(&self, range: BlockRange) -> bool {
        self.present(range).any(|(page, part)| {
            words(part).any(|(_, block, mask)| word(page, block).load(Ordering::Acquire) & mask != 0)
        })
    }

    /// Number of bits set in a range.
    pub fn count(&self, range: BlockRange) -> u64 {
        let in_page = |(page, part): (&Page, BlockRange)| -> u64 {
            let ones = |(_, block, mask): (usize, u64, u64)| {
                (word(page, block).load(Ordering::Acquire) & mask).count_ones()
            };
            words(part).map(|piece| u64::from(ones(piece))).sum()
        };
        self.present(range).map(in_page).sum()
    }

    /// Number of bits set.
    pub fn count_all(&self) -> u64 {
        let ones = |page: &Page| {
            page.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum::<u64>()
        };
        self.pages.iter().filter_map(OnceLock::get).map(ones).sum()
    }

    /// The first run of like bits in `range`, which must not be empty: its value and its blocks.
    pub fn run(&self, range: BlockRange) -> (bool, BlockRange) {
        let value = self.get(range.start);
        let mut end = range.end;
        for (page, part) in by_page(range) {
            let found = match self.pages[page].get() {
                // Of a page that is not there all bits are clear.
                None => value.then_some(part.start),
                Some(page) => words(part).find_map(|(_, block, mask)| {
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
        // The first bit may have changed meanwhile; a run is never empty.
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

    /// Sets every bit that is set in `other`, which has the same capacity.
    pub fn union(&self, other: &Bitmap) {
        for (index, theirs) in other.pages.iter().enumerate() {
            let Some(theirs) = theirs.get() else { continue };
            let ours = self.page(index);
            for (ours, theirs) in ours.iter().zip(theirs.iter()) {
                ours.fetch_or(theirs.load(Ordering::Acquire), Ordering::AcqRel);
            }
        }
    }

    /// The first blocks of the words that differ from those of `other`, which has the same capacity.
    pub fn differing_words(&self, other: &Bitmap) -> Vec<u64> {
        let mut differing = Vec::new();
        for (index, (ours, theirs)) in self.pages.iter().zip(&other.pages).enumerate() {
            if ours.get().is_none() && theirs.get().is_none() {
                continue;
            }
            let first = index as u64 * PAGE_BLOCKS;
            let blocks = (first..first + PAGE_BLOCKS).step_by(64);
            differing.extend(blocks.filter(|block| self.word(*block) != other.word(*block)));
        }
        differing
    }

    /// Replaces the 64 bits from `block` (a multiple of 64) on.
    pub fn set_word(&self, block: u64, bits: u64) {
        let index = (block / PAGE_BLOCKS) as usize;
        if bits != 0 || self.pages.get(index).is_some_and(|page| page.get().is_some()) {
            word(self.page(index), block).store(bits, Ordering::Release);
        }
    }

    /// The pages that are there, with the part of `range` in each.
    fn present(&self, range: BlockRange) -> impl Iterator<Item = (&Page, BlockRange)> {
        by_page(range).filter_map(|(page, part)| Some((self.pages[page].get()?, part)))
    }

    fn page(&self, index: usize) -> &Page {
        self.pages[index].get_or_init(|| Box::new([const { AtomicU64::new(0) }; WORDS]))
    }

    /// Copies the 64 bits from `block` (a multiple of 64) on.
    pub fn word(&self, block: u64) -> u64 {
        match self.pages.get((block / PAGE_BLOCKS) as usize).and_then(OnceLock::get) {
            Some(page) => word(page, block).load(Ordering::Acquire),
            None => 0,
        }
    }
}

fn word(page: &Page, block: u64) -> &AtomicU64 {
    &page[(block % PAGE_BLOCKS / 64) as usize]
}

/// A range cut at the borders of pages.
fn by_page(range: BlockRange) -> impl Iterator<Item = (usize, BlockRange)> {
    let first = range.start / PAGE_BLOCKS;
    let pages = if range.is_empty() { first..first } else { first..(range.end - 1) / PAGE_BLOCKS + 1 };
    pages.map(move |page| (page as usize, range.intersect(&BlockRange::new(page * PAGE_BLOCKS, PAGE_BLOCKS))))
}

/// A range as masks of words: page, a block of the word, bits.
fn words(range: BlockRange) -> impl Iterator<Item = (usize, u64, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let (block, bit) = (at, at % 64);
            let count = (64 - bit).min(range.end - at);
            at += count;
            let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            ((block / PAGE_BLOCKS) as usize, block, ones << bit)
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
                let longest = 1 << rng.random_range(0..17);
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
        }
    }
}
