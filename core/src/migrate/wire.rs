//! The bytes of the messages. A frame is its length (u32, of all that follows it), the kind (u8), a number (u64) that rises by one with each frame of
//! a connection, and the body. A longer frame than its kind may have, or one of an unknown kind, ends the connection, and no memory is taken
//! before that is checked. Kinds below 16 belong to the connection itself.

use super::PART_BLOCKS;
use super::message::*;
use super::phase::{Phase, Role};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX};
use bytes::Bytes;
use uuid::Uuid;

/// Length, kind and number.
pub const HEADER_BYTES: usize = 13;
/// Kind and number, which the length counts.
const COUNTED: u32 = 9;
/// Longest body of an offer with all its lists, and of FINAL with a version.
const LARGE_BYTES_MAX: u32 = (1 << 20) + (48 << 10);
/// Longest body of a part: its data, and its runs.
const PART_BYTES_MAX: u32 = (1 << 20) + (48 << 10);
/// Longest body of every other message: a HEAD and fixed fields, or a reason.
const SMALL_BYTES_MAX: u32 = 8 << 10;

/// The beginning of a frame, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of message.
    pub kind: u8,
    /// The frame's number.
    pub number: u64,
    /// Bytes of the body.
    pub len: usize,
}

impl Header {
    /// Checks kind and length.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FormatError> {
        let mut r = Reader::new(bytes);
        let (len, kind, number) = (r.u32()?, r.u8()?, r.u64()?);
        let most = longest(kind).ok_or(FormatError::Unknown)?;
        let len = len.checked_sub(COUNTED).ok_or(FormatError::Truncated)?;
        if len > most {
            return Err(FormatError::Invalid("a message is longer than its kind may be"));
        }
        Ok(Self { kind, number, len: len as usize })
    }
}

fn longest(kind: u8) -> Option<u32> {
    match kind {
        18 | 26 => Some(LARGE_BYTES_MAX),
        21 => Some(PART_BYTES_MAX),
        16..=33 => Some(SMALL_BYTES_MAX),
        _ => None,
    }
}

/// The frame of a message.
pub fn encode(number: u64, message: &Message) -> Vec<u8> {
    let mut w = Writer::new();
    body(&mut w, message);
    let body = w.finish();
    let mut w = Writer::new();
    w.u32(COUNTED + body.len() as u32).u8(kind(message)).u64(number).raw(&body);
    w.finish()
}

fn kind(message: &Message) -> u8 {
    match message {
        Message::Hello(_) => 16,
        Message::Welcome(_) => 17,
        Message::Offer(_) => 18,
        Message::Accept(_) => 19,
        Message::Decline(_) => 20,
        Message::Round(_) => 21,
        Message::RoundAck(_) => 22,
        Message::Rate(_) => 23,
        Message::Prepare(_) => 24,
        Message::Prepared { .. } => 25,
        Message::Final(_) => 26,
        Message::FinalAck { .. } => 27,
        Message::Grant { .. } => 28,
        Message::Owned { .. } => 29,
        Message::Resumed { .. } => 30,
        Message::Cancel(_) => 31,
        Message::Cancelled(_) => 32,
        Message::Ping => 33,
    }
}

fn body(w: &mut Writer, message: &Message) {
    match message {
        Message::Hello(greeting) | Message::Welcome(greeting) => {
            w.u32(u32::from(greeting.oldest) | u32::from(greeting.newest) << 16);
            w.raw(greeting.device.as_bytes()).str(&greeting.name).raw(greeting.session.as_bytes());
            w.u8(role_number(greeting.role)).u8(greeting.phase.map_or(0, |phase| phase as u8));
            write_position(w, &greeting.position);
        }
        Message::Offer(offer) => write_offer(w, offer),
        Message::Accept(answer) => {
            w.raw(&answer.base).varint(answer.free_bytes).u8(answer.store_reachable.into());
        }
        Message::Decline(reason) | Message::Cancel(reason) | Message::Cancelled(reason) => {
            write_reason(w, reason);
        }
        Message::Round(part) => {
            write_position(w, &part.at);
            w.u8(u8::from(part.last) | u8::from(part.compressed) << 1);
            write_runs(w, &part.blocks);
            write_runs(w, &part.zeros);
            write_bytes(w, &part.data);
        }
        Message::RoundAck(position) => write_position(w, position),
        Message::Rate(rate) => {
            w.varint(rate.bytes_per_s).varint(rate.dirt_per_s).varint(rate.downtime_ms);
        }
        Message::Prepare(prepare) => {
            w.u32(prepare.attempt).varint(prepare.delta_blocks);
            write_bytes(w, &prepare.head);
        }
        Message::Prepared { attempt, delta_blocks } => {
            w.u32(*attempt).varint(*delta_blocks);
        }
        Message::Final(end) => write_final(w, end),
        Message::FinalAck { attempt, delta_hash } => {
            w.u32(*attempt).raw(delta_hash);
        }
        Message::Grant { head } => write_bytes(w, head),
        Message::Owned { epoch } => {
            w.varint(*epoch);
        }
        Message::Resumed { at_ms } => {
            w.varint(*at_ms);
        }
        Message::Ping => {}
    }
}

/// The message of a frame with this kind and body.
pub fn decode(kind: u8, body: &Bytes) -> Result<Message, FormatError> {
    let mut r = Reader::new(body);
    let message = match kind {
        16 => Message::Hello(read_greeting(&mut r)?),
        17 => Message::Welcome(read_greeting(&mut r)?),
        18 => Message::Offer(Box::new(read_offer(&mut r)?)),
        19 => Message::Accept(Answer {
            base: r.array()?,
            free_bytes: r.varint()?,
            store_reachable: read_flag(&mut r)?,
        }),
        20 => Message::Decline(read_reason(&mut r)?),
        21 => Message::Round(read_part(&mut r, body)?),
        22 => Message::RoundAck(read_position(&mut r)?),
        23 => Message::Rate(Rate {
            bytes_per_s: r.varint()?,
            dirt_per_s: r.varint()?,
            downtime_ms: r.varint()?,
        }),
        24 => Message::Prepare(Prepare {
            attempt: r.u32()?,
            delta_blocks: read_blocks(&mut r)?,
            head: read_bytes(&mut r, HEAD_BYTES_MAX)?,
        }),
        25 => Message::Prepared { attempt: r.u32()?, delta_blocks: read_blocks(&mut r)? },
        26 => Message::Final(read_final(&mut r)?),
        27 => Message::FinalAck { attempt: r.u32()?, delta_hash: r.array()? },
        28 => Message::Grant { head: read_bytes(&mut r, HEAD_BYTES_MAX)? },
        29 => Message::Owned { epoch: r.varint()? },
        30 => Message::Resumed { at_ms: r.varint()? },
        31 => Message::Cancel(read_reason(&mut r)?),
        32 => Message::Cancelled(read_reason(&mut r)?),
        33 => Message::Ping,
        _ => return Err(FormatError::Unknown),
    };
    r.end()?;
    Ok(message)
}

pub(super) fn write_bytes(w: &mut Writer, bytes: &[u8]) {
    w.varint(bytes.len() as u64).raw(bytes);
}

pub(super) fn read_bytes(r: &mut Reader<'_>, most: usize) -> Result<Bytes, FormatError> {
    let len = r.count(1)?;
    if len > most {
        return Err(FormatError::Invalid("a field is longer than it may be"));
    }
    Ok(Bytes::copy_from_slice(r.raw(len)?))
}

pub(super) fn read_text(r: &mut Reader<'_>, most: usize) -> Result<String, FormatError> {
    let len = r.count(1)?;
    if len > most {
        return Err(FormatError::Invalid("a text is longer than it may be"));
    }
    let text = std::str::from_utf8(r.raw(len)?).map_err(|_| FormatError::Invalid("a text is not UTF-8"))?;
    Ok(text.to_owned())
}

fn read_texts(r: &mut Reader<'_>, most: usize, longest: usize) -> Result<Vec<String>, FormatError> {
    let count = r.count(1)?;
    if count > most {
        return Err(FormatError::Invalid("a list is longer than it may be"));
    }
    (0..count).map(|_| read_text(r, longest)).collect()
}

fn read_flag(r: &mut Reader<'_>) -> Result<bool, FormatError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(FormatError::Unknown),
    }
}

/// A number of blocks that a drive can have.
pub(super) fn read_blocks(r: &mut Reader<'_>) -> Result<u64, FormatError> {
    let blocks = r.varint()?;
    match blocks <= DRIVE_BYTES_MAX / BLOCK_BYTES {
        true => Ok(blocks),
        false => Err(FormatError::Invalid("it is larger than a drive can be")),
    }
}

pub(super) fn role_number(role: Role) -> u8 {
    match role {
        Role::Seeder => 1,
        Role::Leecher => 2,
    }
}

pub(super) fn read_role(r: &mut Reader<'_>) -> Result<Role, FormatError> {
    match r.u8()? {
        1 => Ok(Role::Seeder),
        2 => Ok(Role::Leecher),
        _ => Err(FormatError::Unknown),
    }
}

fn read_greeting(r: &mut Reader<'_>) -> Result<Greeting, FormatError> {
    let versions = r.u32()?;
    let (oldest, newest) = (versions as u16, (versions >> 16) as u16);
    let device = Uuid::from_bytes(r.array()?);
    let name = read_text(r, NAME_BYTES_MAX)?;
    let session = Uuid::from_bytes(r.array()?);
    let role = read_role(r)?;
    let phase = match r.u8()? {
        0 => None,
        number => Some(read_phase(number, role)?),
    };
    Ok(Greeting { oldest, newest, device, name, session, role, phase, position: read_position(r)? })
}

/// A phase that this side can be in.
pub(super) fn read_phase(number: u8, role: Role) -> Result<Phase, FormatError> {
    Phase::from_number(number).filter(|phase| role.has(*phase)).ok_or(FormatError::Unknown)
}

pub(super) fn write_position(w: &mut Writer, position: &Position) {
    w.u32(position.attempt).u32(position.round).u32(position.part);
}

pub(super) fn read_position(r: &mut Reader<'_>) -> Result<Position, FormatError> {
    Ok(Position { attempt: r.u32()?, round: r.u32()?, part: r.u32()? })
}

pub(super) fn write_reason(w: &mut Writer, reason: &Reason) {
    w.u8(reason.kind as u8).str(&reason.text);
}

pub(super) fn read_reason(r: &mut Reader<'_>) -> Result<Reason, FormatError> {
    let number = r.u8()?;
    let kind = ReasonKind::ALL.into_iter().find(|kind| *kind as u8 == number).ok_or(FormatError::Unknown)?;
    Ok(Reason { kind, text: read_text(r, TEXT_BYTES_MAX)? })
}

pub(super) fn write_offer(w: &mut Writer, offer: &Offer) {
    w.raw(offer.session.as_bytes()).raw(offer.drive.as_bytes()).str(&offer.name).varint(offer.size_blocks);
    write_bytes(w, &offer.family);
    for texts in [&offer.stores, &offer.pins] {
        w.varint(texts.len() as u64);
        for text in texts {
            w.str(text);
        }
    }
    write_bytes(w, &offer.head);
    w.raw(offer.journal.as_bytes()).varint(offer.dirty_bytes);
    write_bytes(w, &offer.key);
    w.varint(offer.downtime_limit_ms);
}

pub(super) fn read_offer(r: &mut Reader<'_>) -> Result<Offer, FormatError> {
    let session = Uuid::from_bytes(r.array()?);
    let drive = Uuid::from_bytes(r.array()?);
    let name = read_text(r, NAME_BYTES_MAX)?;
    let size_blocks = read_blocks(r)?;
    let family = read_bytes(r, FAMILY_BYTES_MAX)?;
    let stores = read_texts(r, ADDRESSES_MAX, ADDRESS_BYTES_MAX)?;
    let pins = read_texts(r, PINS_MAX, NAME_BYTES_MAX)?;
    let head = read_bytes(r, HEAD_BYTES_MAX)?;
    let journal = Uuid::from_bytes(r.array()?);
    let dirty_bytes = r.varint()?;
    let key = read_bytes(r, KEY_BYTES_MAX)?;
    let downtime_limit_ms = r.varint()?;
    Ok(Offer {
        session,
        drive,
        name,
        size_blocks,
        family,
        stores,
        head,
        journal,
        dirty_bytes,
        pins,
        key,
        downtime_limit_ms,
    })
}

pub(super) fn write_final(w: &mut Writer, end: &Final) {
    w.u32(end.attempt).u32(end.rounds).raw(&end.delta_hash).varint(end.cut).u32(end.cut_crc);
    w.varint(end.size_blocks);
    write_bytes(w, &end.head);
    write_bytes(w, &end.arrival);
}

pub(super) fn read_final(r: &mut Reader<'_>) -> Result<Final, FormatError> {
    Ok(Final {
        attempt: r.u32()?,
        rounds: r.u32()?,
        delta_hash: r.array()?,
        cut: r.varint()?,
        cut_crc: r.u32()?,
        size_blocks: read_blocks(r)?,
        head: read_bytes(r, HEAD_BYTES_MAX)?,
        arrival: read_bytes(r, ARRIVAL_BYTES_MAX)?,
    })
}

fn write_runs(w: &mut Writer, runs: &[BlockRange]) {
    w.varint(runs.len() as u64);
    let mut at = 0;
    for run in runs {
        w.varint(run.start - at).varint(run.count());
        at = run.end;
    }
}

/// Runs in order and joined, and their blocks.
fn read_runs(r: &mut Reader<'_>) -> Result<(Vec<BlockRange>, u64), FormatError> {
    let count = r.count(2)?;
    if count as u64 > PART_BLOCKS {
        return Err(FormatError::Invalid("a part has too many runs"));
    }
    let mut runs = Vec::with_capacity(count);
    let (mut end, mut total) = (0u64, 0);
    for index in 0..count {
        let (gap, len) = (read_blocks(r)?, read_blocks(r)?);
        if len == 0 || (index > 0 && gap == 0) {
            return Err(FormatError::Invalid("the runs of a part are empty or not joined"));
        }
        let start = end + gap;
        end = start + len;
        total += len;
        if end > DRIVE_BYTES_MAX / BLOCK_BYTES || total > PART_BLOCKS {
            return Err(FormatError::Invalid("the runs of a part are longer than they may be"));
        }
        runs.push(BlockRange { start, end });
    }
    Ok((runs, total))
}

fn read_part(r: &mut Reader<'_>, body: &Bytes) -> Result<Part, FormatError> {
    let at = read_position(r)?;
    let flags = r.u8()?;
    if flags > 3 {
        return Err(FormatError::Unknown);
    }
    let (blocks, total) = read_runs(r)?;
    let (zeros, zero_total) = read_runs(r)?;
    if total + zero_total > PART_BLOCKS {
        return Err(FormatError::Invalid("the runs of a part are longer than they may be"));
    }
    if blocks.is_empty() && zeros.is_empty() {
        return Err(FormatError::Invalid("a part has no blocks"));
    }
    let both = |run: &BlockRange| zeros.iter().any(|zero| zero.overlaps(run));
    if blocks.iter().any(both) {
        return Err(FormatError::Invalid("a block of a part is data and zero"));
    }
    let len = r.count(1)?;
    let compressed = flags & 2 != 0;
    // Compressing has to pay, and the data of a part is never longer than its blocks.
    let fits = match compressed {
        true => (len as u64) < total * BLOCK_BYTES,
        false => len as u64 == total * BLOCK_BYTES,
    };
    if !fits {
        return Err(FormatError::Invalid("the data of a part does not fit its blocks"));
    }
    let data = body.slice_ref(r.raw(len)?);
    Ok(Part { at, last: flags & 1 != 0, blocks, zeros, compressed, data })
}
