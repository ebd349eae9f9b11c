//! What the leecher hears, and what it has done.

use super::super::message::*;
use super::super::phase::Phase;
use super::super::session::Record;
use bytes::Bytes;

/// What happens to the leecher.
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
    /// The person wants the drive.
    Accept(Answer),
    /// The person does not.
    Decline,
    /// The person cancels.
    Cancel,
    /// The person takes the drive although nobody knows whether it was released.
    Force,
    /// The answer to [`Action::Sync`]: everything before this is durable.
    Synced(Position),
    /// The answer to [`Action::Reserve`].
    Reserved {
        /// The attempt.
        attempt: u32,
        /// Blocks that fit.
        delta_blocks: u64,
    },
    /// The answer to [`Action::Finish`]: the whole delta is durable and has this hash.
    Finished {
        /// The attempt.
        attempt: u32,
        /// Hash of the delta as it is here.
        delta_hash: [u8; 32],
    },
    /// What [`Action::Look`] or [`Action::Swap`] found.
    Head(HeadSeen),
    /// The drive is open and may be written.
    Opened {
        /// Its epoch.
        epoch: u64,
    },
    /// Programs can use it.
    Attached,
    /// An action failed.
    Failed(Step, Reason),
}

/// HEAD, as it concerns this session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadSeen {
    /// It is the grant, or a later version of this device that contains it.
    Grant,
    /// Neither, and it is not the seeder's: this device has the drive.
    Other(String),
    /// It is the seeder's.
    Seeder,
    /// The store did not say.
    Unknown(String),
}

/// An action that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Action::Record`].
    Record,
    /// [`Action::Begin`].
    Begin,
    /// [`Action::Append`].
    Append,
    /// [`Action::Sync`].
    Sync,
    /// [`Action::Reserve`].
    Reserve,
    /// [`Action::Finish`].
    Finish,
    /// [`Action::Open`].
    Open,
    /// [`Action::Attach`].
    Attach,
}

/// What the daemon does for the leecher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Shows the offer to the person.
    Ask,
    /// Makes the record durable.
    Record(Box<Record>),
    /// Sends a message.
    Send(Message),
    /// Begins to collect the delta of this attempt; what an earlier one collected is deleted.
    Begin {
        /// The attempt.
        attempt: u32,
    },
    /// Adds a part to the delta.
    Append(Part),
    /// Makes what was added durable. Tells [`Event::Synced`] with this position.
    Sync(Position),
    /// Takes space for a delta of this size, and fetches the version that it belongs to. Tells [`Event::Reserved`].
    Reserve(Prepare),
    /// Makes the whole delta durable. Tells [`Event::Finished`].
    Finish(Box<Final>),
    /// Deletes what was collected.
    Drop,
    /// Looks at HEAD. Tells [`Event::Head`].
    Look,
    /// Swaps HEAD for this one. Tells [`Event::Head`].
    Swap {
        /// The HEAD to be.
        head: Bytes,
    },
    /// Opens the drive with the delta as its journal. Tells [`Event::Opened`].
    Open(Box<Final>),
    /// Attaches and mounts it. Tells [`Event::Attached`].
    Attach,
    /// Nothing more happens.
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
    /// Blocks that came.
    pub received_blocks: u64,
    /// What the seeder measured.
    pub rate: Rate,
    /// Whether nobody knows who has the drive.
    pub is_undecided: bool,
    /// Whether the other device is connected.
    pub is_linked: bool,
    /// What failed last, and is tried again.
    pub trouble: Option<Reason>,
}
