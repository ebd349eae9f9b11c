//! Coarse marks of where the records of a file end. They give the number of bytes after a record without reading the file.
//! Pure.

use crate::units::Lsn;

/// Most bytes between two marks, unless a single record is longer: 128 KiB of memory for a file of 256 MiB.
const STEP_BYTES: u64 = 64 << 10;

/// A record, and where it ends.
pub(super) type Mark = (Lsn, u64);

/// Marks of one file, in order.
#[derive(Default)]
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    /// A record was appended.
    pub fn note(&mut self, (lsn, end): Mark) {
        match &mut self.0[..] {
            // The last mark moves along while it is near the one before it. So a large record after small ones begins at a
            // mark.
            [.., (_, before), last] if end.saturating_sub(*before) < STEP_BYTES => *last = (lsn, end),
            _ => self.0.push((lsn, end)),
        }
    }

    /// Bytes of the records after `lsn`. Between two marks, the share of the records is close enough for a progress bar.
    pub fn bytes_after(&self, lsn: Lsn, begin: Mark, end: Mark) -> u64 {
        let lsn = lsn.max(begin.0);
        // A new file has no records.
        if lsn >= end.0 {
            return 0;
        }
        let at = self.0.partition_point(|(mark, _)| *mark <= lsn);
        let below = if at == 0 { begin } else { self.0[at - 1] };
        let above = self.0.get(at).copied().filter(|(mark, _)| *mark <= end.0).unwrap_or(end);
        let (records, behind) = (above.0.0 - below.0.0, above.0.0 - lsn.0);
        let part = above.1.saturating_sub(below.1) * behind / records.max(1);
        end.1.saturating_sub(above.1) + part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn counts_the_bytes_after_a_record_among_mixed_sizes() {
        let (mut marks, mut end) = (Marks::default(), 4 * KIB);
        let begin = (Lsn(10), end);
        let mut ends = vec![end];
        // Many small records, then few large ones.
        for number in 1..=1100 {
            end += if number <= 1000 { 4 * KIB } else { 512 * KIB };
            marks.note((Lsn(10 + number), end));
            ends.push(end);
        }
        let last = (Lsn(1110), end);
        for (number, at) in ends.iter().enumerate() {
            let told = marks.bytes_after(Lsn(10 + number as u64), begin, last);
            assert!(told.abs_diff(end - at) <= STEP_BYTES, "{number}: {told} beside {}", end - at);
        }
        assert_eq!(marks.bytes_after(Lsn(0), begin, last), end - begin.1, "those before are elsewhere");
        assert_eq!(marks.bytes_after(Lsn(2000), begin, last), 0);
        assert_eq!(
            Marks::default().bytes_after(Lsn(15), (Lsn(10), 0), (Lsn(20), 100)),
            50,
            "nothing is known"
        );
    }
}
