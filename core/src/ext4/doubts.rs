//! Blocks whose content is not trusted.

use std::collections::BTreeSet;

/// The most blocks to remember.
const BLOCKS_MAX: usize = 4096;

/// The blocks whose content was not trusted when they were last read.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    blocks: BTreeSet<u64>,
    /// There were more than can be remembered. Which of them became sound later is not known, so this stays.
    has_overflowed: bool,
}

impl Doubts {
    /// A block was read again.
    pub(super) fn note(&mut self, block: u64, is_doubted: bool) {
        match is_doubted {
            false => drop(self.blocks.remove(&block)),
            true if self.blocks.len() < BLOCKS_MAX => drop(self.blocks.insert(block)),
            true => self.has_overflowed |= !self.blocks.contains(&block),
        }
    }

    /// How many blocks are doubted of those that `still_counts`; never zero after there were too many to remember.
    pub(super) fn count(&self, still_counts: impl Fn(u64) -> bool) -> usize {
        match self.has_overflowed {
            true => BLOCKS_MAX,
            false => self.blocks.iter().filter(|block| still_counts(**block)).count(),
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_doubts_never_seem_to_be_resolved() {
        let mut doubts = Doubts::default();
        let most = BLOCKS_MAX as u64;
        (0..most).for_each(|block| doubts.note(block, true));
        doubts.note(0, true);
        (0..most).for_each(|block| doubts.note(block, false));
        assert_eq!(doubts.count(|_| true), 0, "as many as can be remembered");
        (0..=most).for_each(|block| doubts.note(block, true));
        (0..most).for_each(|block| doubts.note(block, false));
        assert!(doubts.count(|_| true) > 0, "one more, which is still doubted");
        doubts.clear();
        assert_eq!(doubts.count(|_| true), 0);
    }
}
