//! What the two devices say to each other. `wire` has the bytes.

use super::phase::{Phase, Role};
use crate::units::BlockRange;
use bytes::Bytes;
use uuid::Uuid;

/// The versions of the protocol that this program speaks.
pub const PROTOCOL: std::ops::RangeInclusive<u16> = 1..=1;
/// Longest name of a device, a drive or a pin, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;
/// Longest reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Longest address of a store, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 2048;
/// Most addresses of stores: one store and its replicas.
pub const ADDRESSES_MAX: usize = 16;
/// Most pins that go along. More than any person makes; the rest is reported.
pub const PINS_MAX: usize = 256;
/// Longest `family.json`.
pub const FAMILY_BYTES_MAX: usize = 64 << 10;
/// Longest HEAD.
pub const HEAD_BYTES_MAX: usize = crate::format::head::HEAD_BYTES_MAX;
/// Longest version with its HEAD: the root of a drive of 16 TiB.
pub const ARRIVAL_BYTES_MAX: usize = 1 << 20;
/// Longest sealed data key.
pub const KEY_BYTES_MAX: usize = 4096;

/// Something that one device sends to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message of the side that dialled.
    Hello(Greeting),
    /// The answer to it.
    Welcome(Greeting),
    /// Seeder: take this drive.
    Offer(Box<Offer>),
    /// Leecher: yes.
    Accept(Answer),
    /// Leecher: no.
    Decline(Reason),
    /// Seeder: part of a round.
    Round(Part),
    /// Leecher: everything before this position is durable here.
    RoundAck(Position),
    /// Seeder: how it goes, for people.
    Rate(Rate),
    /// Seeder: get ready for a delta of this size and for this version.
    Prepare(Prepare),
    /// Leecher: ready for that many blocks.
    Prepared {
        /// The attempt.
        attempt: u32,
        /// Blocks that fit.
        delta_blocks: u64,
    },
    /// Seeder: that was all.
    Final(Final),
    /// Leecher: all of it is durable here.
    FinalAck {
        /// The attempt.
        attempt: u32,
        /// Hash of the whole delta, computed here.
        delta_hash: [u8; 32],
    },
    /// Seeder: it is yours.
    Grant {
        /// The HEAD to be.
        head: Bytes,
    },
    /// Leecher: HEAD names it.
    Owned {
        /// The epoch of that HEAD.
        epoch: u64,
    },
    /// Leecher: programs write here.
    Resumed {
        /// When, Unix time in ms.
        at_ms: u64,
    },
    /// Leecher that has acknowledged FINAL: may this be cancelled?
    Cancel(Reason),
    /// It is cancelled, durably.
    Cancelled(Reason),
    /// Sent in silence, so that a broken connection is noticed.
    Ping,
}

/// Who speaks, and where it is in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The lowest version of the protocol that it speaks.
    pub oldest: u16,
    /// The highest.
    pub newest: u16,
    /// The device.
    pub device: Uuid,
    /// Its name, for people.
    pub name: String,
    /// The session that the connection is for.
    pub session: Uuid,
    /// The side that the sender is on.
    pub role: Role,
    /// Its phase; `None` if it does not know the session.
    pub phase: Option<Phase>,
    /// Leecher: what it has durably. Seeder: its attempt.
    pub position: Position,
}

/// What is offered. The seeder's record has it too, so that it is the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The session.
    pub session: Uuid,
    /// The drive.
    pub drive: Uuid,
    /// Its name on the seeder.
    pub name: String,
    /// Its size in blocks.
    pub size_blocks: u64,
    /// `family.json`.
    pub family: Bytes,
    /// The store's address, then those of its replicas; never with credentials.
    pub stores: Vec<String>,
    /// The current HEAD.
    pub head: Bytes,
    /// The seeder's journal.
    pub journal: Uuid,
    /// Bytes that the store does not have yet, for people.
    pub dirty_bytes: u64,
    /// Paths that are pinned.
    pub pins: Vec<String>,
    /// The data key, sealed to the leecher; empty for a drive without encryption.
    pub key: Bytes,
    /// How long programs may stop, in ms.
    pub downtime_limit_ms: u64,
}

/// What the leecher has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// BLAKE3 of the root that its cache belongs to, or zeros.
    pub base: [u8; 32],
    /// Free bytes where the journal is.
    pub free_bytes: u64,
    /// Whether the drive's store answers there.
    pub store_reachable: bool,
}

/// A place in the sequence of parts: everything before it, and not the part itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The attempt: a seeder that restarts sends the delta again.
    pub attempt: u32,
    /// The round, from 1.
    pub round: u32,
    /// The part of the round, from 0.
    pub part: u32,
}

/// Part of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it belongs.
    pub at: Position,
    /// Whether the round ends with it.
    pub last: bool,
    /// Its blocks with data, in order.
    pub blocks: Vec<BlockRange>,
    /// Its blocks that are zero, in order.
    pub zeros: Vec<BlockRange>,
    /// Whether `data` is compressed (zstd). It then unpacks to exactly the blocks.
    pub compressed: bool,
    /// Their bytes.
    pub data: Bytes,
}

/// How it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second that arrive.
    pub bytes_per_s: u64,
    /// Bytes per second that programs write.
    pub dirt_per_s: u64,
    /// How long programs would stop now, in ms.
    pub downtime_ms: u64,
}

/// What the leecher should be ready for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The attempt.
    pub attempt: u32,
    /// Blocks of the delta so far.
    pub delta_blocks: u64,
    /// The current HEAD; its root can be fetched now.
    pub head: Bytes,
}

/// The end of the delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// The attempt.
    pub attempt: u32,
    /// Rounds of the attempt.
    pub rounds: u32,
    /// Hash of the whole delta.
    pub delta_hash: [u8; 32],
    /// The last record of the seeder's journal that the delta contains.
    pub cut: u64,
    /// That record's CRC.
    pub cut_crc: u32,
    /// The drive's size in blocks.
    pub size_blocks: u64,
    /// The HEAD to be.
    pub head: Bytes,
    /// That HEAD, the version that it names and what the delta contains, sealed. A record leaves it out.
    pub arrival: Bytes,
}

/// Why something ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind.
    pub kind: ReasonKind,
    /// Details for people, from that device.
    pub text: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReasonKind {
    /// A person wanted it.
    Person = 1,
    /// A disk is full.
    NoSpace = 2,
    /// A disk failed.
    Disk = 3,
    /// The store refused, or cannot be reached.
    Store = 4,
    /// What arrived is not what was sent.
    Corrupt = 5,
    /// It took too long.
    TooSlow = 6,
    /// Another device took the drive.
    Fenced = 7,
    /// One side no longer knows the session.
    Forgotten = 8,
    /// The programs speak different protocols.
    Version = 9,
    /// The drive cannot be stopped or opened.
    Drive = 10,
}

impl ReasonKind {
    /// Every kind.
    pub const ALL: [ReasonKind; 10] = [
        ReasonKind::Person,
        ReasonKind::NoSpace,
        ReasonKind::Disk,
        ReasonKind::Store,
        ReasonKind::Corrupt,
        ReasonKind::TooSlow,
        ReasonKind::Fenced,
        ReasonKind::Forgotten,
        ReasonKind::Version,
        ReasonKind::Drive,
    ];
}

impl Reason {
    /// A reason with its details, which are cut to what a message carries.
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { kind, text }
    }
}

impl Greeting {
    /// Whether both sides speak a common version.
    pub fn fits(&self) -> bool {
        self.oldest <= *PROTOCOL.end() && self.newest >= *PROTOCOL.start()
    }
}

impl Position {
    /// The beginning of an attempt.
    pub fn start(attempt: u32) -> Self {
        Self { attempt, round: 1, part: 0 }
    }
}
