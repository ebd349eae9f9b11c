//! A drive moves from one device to another while it is in use: the *seeder* has it, the *leecher* gets it.
//!
//! Everything in here decides and nothing performs. [`seeder::Seeder`] and [`leecher::Leecher`] take events and the time, and return
//! actions, which the daemon performs in order: an action begins only when the one before it has succeeded. If one fails, the rest of the list is
//! dropped and the engine hears of it. `docs/MIGRATION.md` documents the messages and what is durable before each.
//!
//! Three rules keep every acknowledged write, whatever is lost, repeated or cut off:
//!
//! 1. HEAD is the grant. The seeder writes nothing more from the moment on when its record says [`phase::Phase::Released`], and that record is durable
//!    before anybody may swap HEAD. The HEAD that is swapped in is fixed by then, so either side may send it, and a repetition changes nothing.
//! 2. The leecher acknowledges the last delta only when all of it is durable on its disk. So there is never a moment when the only copy of a write is
//!    on a device that may not use it.
//! 3. Before `Released` nothing has happened that cannot be undone: either side cancels, and the seeder goes on.

pub mod leecher;
pub mod link;
pub mod message;
pub mod phase;
pub mod receive;
pub mod rounds;
pub mod seeder;
pub mod send;
pub mod session;
pub mod volatility;
pub mod wire;

use crate::units::{BlockRange, coalesce};
use std::time::Duration;

/// The time, as an event brings it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Time since any fixed moment of this run; it never goes back.
    pub at: Duration,
    /// The wall clock, Unix time in ms. It is shown and recorded, and decides nothing.
    pub unix_ms: u64,
}

/// What became of a swap of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// HEAD is the grant, whoever put it.
    Applied,
    /// HEAD is neither the grant nor what it was before: this device, by its name, has the drive.
    Overtaken(String),
    /// Nobody knows: the store did not answer, or answered with an error. The same swap is tried again.
    Unknown(String),
}

/// How many silent seconds pass before a message is sent again.
pub const REPEAT_AFTER: Duration = Duration::from_secs(5);

/// Blocks of one part of a round: 1 MiB, the most that a frame carries.
pub const PART_BLOCKS: u64 = 256;

/// Groups `ranges` into parts of at most [`PART_BLOCKS`] blocks, in the given order.
pub(crate) fn parts(ranges: &[BlockRange]) -> Vec<Vec<BlockRange>> {
    let mut parts: Vec<Vec<BlockRange>> = Vec::new();
    let mut free = 0;
    for range in ranges {
        let mut rest = *range;
        while !rest.is_empty() {
            if free == 0 {
                parts.push(Vec::new());
                free = PART_BLOCKS;
            }
            let piece = BlockRange { start: rest.start, end: rest.end.min(rest.start + free) };
            free -= piece.count();
            rest.start = piece.end;
            parts.last_mut().expect("one was just pushed").push(piece);
        }
    }
    parts.into_iter().map(|part| coalesce(part, 1)).collect()
}
