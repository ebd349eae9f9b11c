//! How a file is cut into parts. Pure.

use std::ops::Range;

const MIB: u64 = 1 << 20;
/// Files from this length on are sent in parts, so that a broken connection costs one part.
pub(super) const IN_PARTS_FROM: u64 = 16 * MIB;
/// Amazon's limit.
pub(super) const PARTS_MAX: u64 = 10_000;
/// Large enough for one stream to reach its speed, small enough to lose.
const PART_BYTES_MIN: u64 = 8 * MIB;
/// A part is in memory while it is sent.
const PART_BYTES_MAX: u64 = 64 * MIB;
/// The longest file that can be sent so: 625 GiB.
pub(super) const LEN_MAX: u64 = PARTS_MAX * PART_BYTES_MAX;
/// Memory of all parts on their way.
const IN_FLIGHT_BYTES: u64 = 32 * MIB;
/// Amazon copies no shorter part except the last.
const COPIED_BYTES_MIN: u64 = 5 * MIB;
/// The longest object that one request copies, and the longest part.
pub(super) const COPY_BYTES_MAX: u64 = 5 << 30;
/// A long object is copied in parts of this length: the server answers each soon, and copies several at once.
const COPIED_PART_BYTES: u64 = 512 * MIB;

/// The parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub len: u64,
    pub part: u64,
}

impl Cut {
    /// Of a file that is sent.
    pub(super) fn to_send(len: u64) -> Self {
        Self { len, part: at_least(len, PART_BYTES_MIN) }
    }

    /// Of an object that the server copies.
    pub(super) fn to_copy(len: u64) -> Self {
        Self { len, part: at_least(len, COPIED_PART_BYTES) }
    }

    pub(super) fn count(&self) -> u64 {
        self.len.div_ceil(self.part).max(1)
    }

    /// The bytes of part `number`, which begins at 1.
    pub(super) fn range(&self, number: u64) -> Range<u64> {
        let start = (number - 1) * self.part;
        start..(start + self.part).min(self.len)
    }

    /// How many parts are sent at once.
    pub(super) fn at_once(&self) -> usize {
        (IN_FLIGHT_BYTES / self.part).max(1) as usize
    }
}

/// The length of a part of which there are not too many: whole MiB.
fn at_least(len: u64, least: u64) -> u64 {
    len.div_ceil(PARTS_MAX).next_multiple_of(MIB).max(least)
}

/// Whether the server can copy a part instead of getting it.
pub(super) fn is_copied(range: &Range<u64>, base_len: u64, unchanged: &[Range<u64>]) -> bool {
    let is_within = |same: &Range<u64>| same.start <= range.start && range.end <= same.end;
    range.end - range.start >= COPIED_BYTES_MIN && range.end <= base_len && unchanged.iter().any(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_few_and_cover_the_file() {
        for len in [IN_PARTS_FROM, IN_PARTS_FROM + 1, 78 << 30, 80 << 30, LEN_MAX] {
            let cut = Cut::to_send(len);
            assert!(
                (PART_BYTES_MIN..=PART_BYTES_MAX).contains(&cut.part) && cut.count() <= PARTS_MAX,
                "{cut:?}"
            );
            assert_eq!(cut.range(1).start, 0);
            assert_eq!(cut.range(cut.count()).end, len);
            assert!(cut.range(cut.count()).start < len);
            assert!(cut.at_once() as u64 * cut.part <= IN_FLIGHT_BYTES.max(cut.part));
        }
        assert!(Cut::to_copy(5 << 40).count() <= PARTS_MAX);
    }

    #[test]
    fn only_what_lies_within_unchanged_bytes_is_copied() {
        let same = [0..10 * MIB, 20 * MIB..40 * MIB];
        for (range, base_len, expected) in [
            (0..8 * MIB, 40 * MIB, true),
            (8 * MIB..16 * MIB, 40 * MIB, false),
            (24 * MIB..32 * MIB, 40 * MIB, true),
            (24 * MIB..32 * MIB, 31 * MIB, false),
            (32 * MIB..36 * MIB, 40 * MIB, false),
        ] {
            assert_eq!(is_copied(&range, base_len, &same), expected, "{range:?}");
        }
    }
}
