//! A step as a record of the log (`core/FORMAT.md`, "Changes"). Pure.

use super::parts::{PARTS_MAX, Part};
use crate::log::{Body, Encoded, Header, Limits, LogFile, Record, Records};
use crate::units::Lsn;
use std::sync::Arc;

/// Bytes of one file: a few thousand changes, or 512 that were each made durable alone. Zero-filled in a moment.
pub(super) const FILE_BYTES: u64 = 2 << 20;

/// Bytes of one record's data. It fits into a file, whatever it holds.
pub(super) const STEP_BYTES_MAX: u64 = 1 << 20;

/// The local disk is the limit: what is not uploaded has to be known.
pub(super) const LIMITS: Limits = Limits { file_bytes: FILE_BYTES, files: 1 << 20, reserve_files: 0 };

/// The kinds of these records. Journals have others.
const STEP: u8 = 16;
const COMPACTED: u8 = 17;
const PART: u8 = 18;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepRecord {
    /// Its data is a step.
    Step {
        /// Bytes of the step.
        len: u64,
    },
    /// Its data is a part of a step that is longer than a record.
    Part {
        /// Bytes of the part.
        len: u64,
        /// Which part.
        part: Part,
    },
    /// The records from this one on name every inode that is known: those before it are not needed.
    Compacted {
        /// The first of them.
        from: Lsn,
    },
}

impl Body for StepRecord {
    fn encode(&self) -> Encoded {
        match *self {
            StepRecord::Step { len } => Encoded { kind: STEP, first: len, second: 0 },
            StepRecord::Part { len, part: Part { index, count } } => {
                Encoded { kind: PART, first: len, second: (u64::from(index) << 32) | u64::from(count) }
            }
            StepRecord::Compacted { from } => Encoded { kind: COMPACTED, first: from.0, second: 0 },
        }
    }

    fn decode(encoded: Encoded) -> Option<Self> {
        match encoded {
            Encoded { kind: STEP, first: len, second: 0 } if (1..=STEP_BYTES_MAX).contains(&len) => {
                Some(StepRecord::Step { len })
            }
            Encoded { kind: PART, first: len, second } if (1..=STEP_BYTES_MAX).contains(&len) => {
                let part = Part { index: (second >> 32) as u32, count: second as u32 };
                let is_one = part.index < part.count && (2..=PARTS_MAX).contains(&part.count);
                is_one.then_some(StepRecord::Part { len, part })
            }
            Encoded { kind: COMPACTED, first, second: 0 } => Some(StepRecord::Compacted { from: Lsn(first) }),
            _ => None,
        }
    }

    fn data_len(&self) -> u64 {
        match self {
            StepRecord::Step { len } | StepRecord::Part { len, .. } => *len,
            StepRecord::Compacted { .. } => 0,
        }
    }
}

/// The ledger as the user of its log. It keeps what records mean in its tree, and never looks for one again.
pub(super) struct Steps;

impl Records for Steps {
    const SURVIVES_A_FULL_DISK: bool = true;

    type Body = StepRecord;
    type Pending = ();

    fn appended(&self, (): &mut (), _: Record<StepRecord>) {}

    fn moved(&self, (): &mut (), _: &Arc<LogFile>, _: &[(Header<StepRecord>, u64)]) {}
}
