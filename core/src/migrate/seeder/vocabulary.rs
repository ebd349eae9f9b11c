//! What the seeder hears, and what it has done.

use super::super::Swap;
use super::super::message::*;
use super::super::phase::Phase;
use super::super::session::Record;
use crate::units::BlockRange;
use bytes::Bytes;
use std::time::Duration;

/// What happens to the seeder.
#[derive(Clone, Debug)]
pub enum Event {
    /// There is a connection.
    Linked,
    /// There is none any longer.
    Unlinked,
    /// A message came.
    Received(Message),
    /// Time passes; at least twice a second.
    Tick,
    /// The answer to [`Action::Watch`]: all blocks that HEAD's version lacks.
    Watching {
        /// The attempt.
        attempt: u32,
        /// The blocks.
        delta: Vec<BlockRange>,
        /// The current HEAD.
        head: Bytes,
    },
    /// Blocks that were written since the last such event, about once a second.
    Wrote(Vec<BlockRange>),
    /// The commit under way is made, and programs wait from now on.
    Stopping,
    /// Programs wait, and nothing they wrote is under way.
    Stopped,
    /// The answer to [`Action::Seal`].
    Sealed {
        /// Blocks written since the last [`Event::Wrote`].
        rest: Vec<BlockRange>,
        /// The end of the delta; its attempt and rounds are filled in here.
        end: Final,
    },
    /// What became of [`Action::Swap`].
    Swapped(Swap),
    /// Another device took the drive while it was copied.
    Fenced(String),
    /// The person cancels.
    Cancel,
    /// The person accepts a longer stop.
    StopNow,
    /// The drive was taken back: HEAD names this device again.
    TakenBack,
    /// An action failed.
    Failed(Step, Reason),
}

/// An action that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Action::Record`].
    Record,
    /// [`Action::Watch`].
    Watch,
    /// [`Action::SendPart`]: its blocks could not be read.
    Read,
    /// [`Action::Stop`].
    Stop,
    /// [`Action::Seal`].
    Seal,
    /// [`Action::MarkHanded`].
    Mark,
    /// [`Action::Continue`].
    Continue,
}

/// What the daemon does for the seeder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes the record durable.
    Record(Box<Record>),
    /// Sends a message.
    Send(Message),
    /// Begins to note writes, then tells the delta by [`Event::Watching`].
    Watch {
        /// The attempt.
        attempt: u32,
    },
    /// Reads these blocks as they are now and sends them.
    SendPart {
        /// Where they belong.
        at: Position,
        /// Whether the round ends with them.
        last: bool,
        /// The blocks.
        blocks: Vec<BlockRange>,
    },
    /// Has nothing committed any longer, tells [`Event::Stopping`], then lets programs wait: freezes the file system, and shuts the gate. Tells
    /// [`Event::Stopped`].
    Stop,
    /// Fixes the end of the delta, and tells [`Event::Sealed`]. These blocks were held back and are part of what is sent now.
    Seal {
        /// The blocks.
        held: Vec<BlockRange>,
    },
    /// Makes durable that the journal was handed over, with this end. It is neither replayed nor pushed from now on.
    MarkHanded(Box<Final>),
    /// From now on the death of the daemon shuts the file system down instead of thawing it.
    HoldForGood,
    /// Swaps HEAD for this one. Tells [`Event::Swapped`].
    Swap {
        /// The HEAD to be.
        head: Bytes,
    },
    /// Takes everything back that stopped programs: the mark, the gate, the freeze.
    Continue,
    /// Shuts the old mount down and detaches it.
    ShutDown,
    /// Closes the drive's session: nothing more happens.
    End,
}

/// How it goes, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// The attempt.
    pub attempt: u32,
    /// The round, from 1.
    pub round: u32,
    /// Blocks that the leecher has.
    pub sent_blocks: u64,
    /// Blocks that it lacks.
    pub left_blocks: u64,
    /// Bytes per second that arrive.
    pub bytes_per_s: u64,
    /// Bytes per second that programs write.
    pub dirt_per_s: u64,
    /// How long programs would stop now.
    pub stop: Duration,
    /// Programs would stop for this long, longer than wanted: continue?
    pub asking: Option<Duration>,
    /// Whether the store has not said whether the drive was handed over.
    pub is_undecided: bool,
    /// Whether the other device is connected.
    pub is_linked: bool,
    /// The longest time that programs had to wait.
    pub longest_stall: Duration,
    /// What failed last, and is tried again.
    pub trouble: Option<Reason>,
}
