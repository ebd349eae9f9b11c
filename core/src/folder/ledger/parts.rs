//! A step that is too long for one record is several records, each a step itself, that count only together. Pure.
//!
//! They are appended under one lock, so nothing comes between them. If the disk fills up or the computer stops before the last of them, the
//! others mean nothing: another step follows them, or the end of the log. A log that begins between them needs none of them, since it was
//! compacted after them.

use super::record::STEP_BYTES_MAX;
use crate::folder::step::{STATES_MAX, Step};

/// Records of one step: 64 MiB, which is a directory of some hundred thousand files that is moved file by file. Longer steps would take too
/// much memory, and hold up everybody else for seconds.
pub(super) const PARTS_MAX: u32 = 64;

/// A step does not fit into [`PARTS_MAX`] records, or one state not into one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The largest records that a step is divided into.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// States of one record.
    pub states: usize,
    /// Bytes of one record.
    pub bytes: usize,
}

impl Sizes {
    /// Those that can be read again.
    pub const OF_RECORDS: Sizes = Sizes { states: STATES_MAX, bytes: STEP_BYTES_MAX as usize };
}

/// The data of the records that a step becomes.
pub(super) fn divided(step: &Step, sizes: Sizes) -> Result<Vec<Vec<u8>>, TooLong> {
    let (mut parts, mut rest, mut states) = (Vec::new(), step.states.as_slice(), sizes.states);
    loop {
        let (first, others) = rest.split_at(states.min(rest.len()));
        let data = Step::encode_states(step.request, step.made, first);
        if data.len() > sizes.bytes {
            if first.len() <= 1 {
                return Err(TooLong);
            }
            states = first.len().div_ceil(2);
            continue;
        }
        if parts.len() == PARTS_MAX as usize {
            return Err(TooLong);
        }
        parts.push(data);
        rest = others;
        if rest.is_empty() {
            return Ok(parts);
        }
    }
}

/// Where a record stands among those of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Parts before it.
    pub index: u32,
    /// All parts.
    pub count: u32,
}

/// A part that follows none that it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfOrder;

/// Puts steps together again, from the records of a log in their order.
#[derive(Default)]
pub(super) struct Assembly {
    parts: Vec<Step>,
    /// Parts of the step; 0: none has begun.
    count: u32,
    /// The beginning of a step was seen: parts that follow belong to one.
    has_begun: bool,
}

impl Assembly {
    /// Takes the next record: a part, or a whole step. Returns the step that it completes.
    pub fn take(&mut self, step: Step, part: Option<Part>) -> Result<Option<Step>, OutOfOrder> {
        let Some(Part { index, count }) = part else {
            *self = Self { has_begun: true, ..Self::default() };
            return Ok(Some(step));
        };
        if index == 0 {
            *self = Self { parts: Vec::new(), count, has_begun: true };
        }
        if !self.has_begun {
            return Ok(None);
        }
        if (self.parts.len(), self.count) != (index as usize, count) {
            return Err(OutOfOrder);
        }
        self.parts.push(step);
        if index + 1 < count {
            return Ok(None);
        }
        let parts = std::mem::take(self).parts;
        self.has_begun = true;
        let (request, made) = parts.first().map_or((0, None), |part| (part.request, part.made));
        Ok(Some(Step { request, made, states: parts.into_iter().flat_map(|part| part.states).collect() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::node::Ino;

    fn step(inos: std::ops::Range<u32>) -> Step {
        Step { request: 7, made: None, states: inos.map(|ino| (Ino(ino), None)).collect() }
    }

    fn part(index: u32, count: u32) -> Option<Part> {
        Some(Part { index, count })
    }

    #[test]
    fn divides_by_states_and_by_bytes() {
        for sizes in [Sizes { states: 3, bytes: 1000 }, Sizes { states: 1000, bytes: 26 }] {
            for len in 0..30 {
                let (step, mut assembly) = (step(0..len), Assembly::default());
                let parts = divided(&step, sizes).unwrap();
                assert!(len < 4 || parts.len() > 1);
                let count = parts.len() as u32;
                for (index, data) in parts.iter().enumerate() {
                    let one = Step::decode(data).unwrap();
                    assert!(data.len() <= sizes.bytes && one.states.len() <= sizes.states);
                    let whole = assembly.take(one, part(index as u32, count)).unwrap();
                    assert_eq!(whole, (index + 1 == parts.len()).then(|| step.clone()));
                }
            }
        }
    }

    #[test]
    fn refuses_what_no_records_can_hold() {
        let one_each = Sizes { states: 1, bytes: 1000 };
        assert_eq!(divided(&step(0..PARTS_MAX), one_each).unwrap().len(), PARTS_MAX as usize);
        assert_eq!(divided(&step(0..PARTS_MAX + 1), one_each), Err(TooLong));
        assert_eq!(divided(&step(0..2), Sizes { states: 9, bytes: 12 }), Err(TooLong));
    }

    #[test]
    fn parts_without_all_others_mean_nothing() {
        let mut assembly = Assembly::default();
        // The log begins between the parts of a step.
        assert_eq!(assembly.take(step(0..1), part(1, 3)), Ok(None));
        assert_eq!(assembly.take(step(1..2), part(2, 3)), Ok(None));
        // The disk was full before the last part.
        assert_eq!(assembly.take(step(2..3), part(0, 2)), Ok(None));
        assert_eq!(assembly.take(step(3..4), None), Ok(Some(step(3..4))));
        // The computer stopped before the last part.
        assert_eq!(assembly.take(step(4..5), part(0, 2)), Ok(None));
        assert_eq!(assembly.take(step(5..6), part(0, 2)), Ok(None));
        assert_eq!(assembly.take(step(6..7), part(1, 2)), Ok(Some(step(5..7))));
        assert_eq!(assembly.take(step(7..8), part(1, 2)), Err(OutOfOrder));
    }
}
