//! Messages survive the wire, and nothing is believed that a peer could not mean.

use crate::world::offer;
use bytes::Bytes;
use holdall_core::format::FormatError;
use holdall_core::migrate::message::*;
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::wire::{self, HEADER_BYTES, Header};
use holdall_core::units::BlockRange;
use uuid::Uuid;

/// One of each kind.
pub fn samples() -> Vec<Message> {
    let greeting = Greeting {
        oldest: 1,
        newest: 2,
        device: Uuid::from_u128(7),
        name: "laptop".to_owned(),
        session: Uuid::from_u128(8),
        role: Role::Leecher,
        phase: Some(Phase::Receiving),
        position: Position { attempt: 1, round: 2, part: 0 },
    };
    let reason = Reason::new(ReasonKind::NoSpace, "the disk is full");
    let head = Bytes::from_static(b"HEAD");
    let end = Final {
        attempt: 1,
        rounds: 2,
        delta_hash: [3; 32],
        cut: 99,
        cut_crc: 5,
        size_blocks: 1000,
        head: head.clone(),
        arrival: Bytes::from_static(b"version"),
    };
    vec![
        Message::Hello(Greeting { role: Role::Seeder, phase: None, ..greeting.clone() }),
        Message::Welcome(greeting),
        Message::Offer(Box::new(offer(head.clone()))),
        Message::Accept(Answer { base: [1; 32], free_bytes: 1 << 40, store_reachable: true }),
        Message::Decline(reason.clone()),
        Message::Round(part(vec![BlockRange::new(5, 1), BlockRange::new(9, 1)], 2 * 4096, false)),
        Message::Round(part(vec![BlockRange::new(0, 256)], 100, true)),
        Message::RoundAck(Position::start(1)),
        Message::Rate(Rate { bytes_per_s: 1, dirt_per_s: 2, downtime_ms: 3 }),
        Message::Prepare(Prepare { attempt: 1, delta_blocks: 77, head: head.clone() }),
        Message::Prepared { attempt: 1, delta_blocks: 77 },
        Message::Final(end),
        Message::FinalAck { attempt: 1, delta_hash: [4; 32] },
        Message::Grant { head },
        Message::Owned { epoch: 12 },
        Message::Resumed { at_ms: 1_700_000_000_000 },
        Message::Cancel(reason.clone()),
        Message::Cancelled(reason),
        Message::Ping,
    ]
}

fn part(blocks: Vec<BlockRange>, len: usize, compressed: bool) -> Part {
    let zeros = Vec::new();
    Part { at: Position::start(1), last: true, blocks, zeros, compressed, data: Bytes::from(vec![7; len]) }
}

fn read(frame: &[u8]) -> Result<(Header, Message), FormatError> {
    let header = Header::decode(frame[..HEADER_BYTES].try_into().unwrap())?;
    let body = Bytes::copy_from_slice(&frame[HEADER_BYTES..]);
    Ok((header, wire::decode(header.kind, &body)?))
}

#[test]
fn every_message_survives_the_wire() {
    for (number, message) in (0..).zip(samples()) {
        let frame = wire::encode(number, &message);
        let (header, read) = read(&frame).unwrap();
        assert_eq!((header.number, header.len), (number, frame.len() - HEADER_BYTES));
        assert_eq!(read, message);
    }
}

#[test]
fn refuses_long_frames_before_reading_them() {
    let frame = |len: u32, kind: u8| {
        let mut frame = [0; HEADER_BYTES];
        frame[..4].copy_from_slice(&len.to_le_bytes());
        frame[4] = kind;
        Header::decode(&frame)
    };
    assert!(frame(u32::MAX, 21).is_err());
    assert!(frame((1 << 20) + (64 << 10) + 1, 21).is_err());
    assert!(frame(1 << 20, 33).is_err(), "a ping is never long");
    assert!(frame(8, 33).is_err(), "it is shorter than its own head");
    assert_eq!(frame(9, 34), Err(FormatError::Unknown));
    assert_eq!(frame(9, 15), Err(FormatError::Unknown));
}

#[test]
fn refuses_cut_messages_and_what_follows_them() {
    for message in samples() {
        let frame = wire::encode(0, &message);
        let mut longer = frame.clone();
        longer.push(0);
        assert!(read(&longer).is_err(), "{message:?}");
        if frame.len() > HEADER_BYTES {
            assert!(read(&frame[..frame.len() - 1]).is_err(), "{message:?}");
        }
    }
}

#[test]
fn refuses_parts_that_no_round_has() {
    let refused = |part: Part| read(&wire::encode(0, &Message::Round(part))).is_err();
    assert!(refused(part(vec![], 0, false)), "no blocks");
    assert!(refused(part(vec![BlockRange::new(0, 257)], 257 * 4096, false)), "more than 1 MiB");
    assert!(refused(part(vec![BlockRange::new(0, 1), BlockRange::new(1, 1)], 2 * 4096, false)), "not joined");
    assert!(refused(part(vec![BlockRange::new(1 << 32, 1)], 4096, false)), "beyond the largest drive");
    assert!(refused(part(vec![BlockRange::new(0, 2)], 4096, false)), "too few bytes");
    assert!(refused(part(vec![BlockRange::new(0, 1)], 4096, true)), "compressed without gain");
    let with_zeros = |zeros| Part { zeros, ..part(vec![BlockRange::new(4, 1)], 4096, false) };
    assert!(!refused(with_zeros(vec![BlockRange::new(9, 255)])));
    assert!(refused(with_zeros(vec![BlockRange::new(9, 256)])), "more than 1 MiB with its zeros");
    assert!(refused(with_zeros(vec![BlockRange::new(0, 9)])), "data and zero at once");
}

#[test]
fn refuses_lists_and_texts_beyond_their_limits() {
    let refused = |change: fn(&mut Offer)| {
        let mut offer = offer(Bytes::from_static(b"HEAD"));
        change(&mut offer);
        read(&wire::encode(0, &Message::Offer(Box::new(offer)))).is_err()
    };
    assert!(!refused(|_| {}));
    assert!(refused(|offer| offer.stores = vec![String::new(); ADDRESSES_MAX + 1]));
    assert!(refused(|offer| offer.pins = vec![String::new(); PINS_MAX + 1]));
    assert!(refused(|offer| offer.name = "x".repeat(NAME_BYTES_MAX + 1)));
    assert!(refused(|offer| offer.head = Bytes::from(vec![0; HEAD_BYTES_MAX + 1])));
    assert!(refused(|offer| offer.size_blocks = u64::MAX));
}

#[test]
fn a_reason_is_cut_at_a_letter() {
    let reason = Reason::new(ReasonKind::Disk, "ä".repeat(TEXT_BYTES_MAX));
    assert_eq!(reason.text.len(), TEXT_BYTES_MAX);
    assert!(read(&wire::encode(0, &Message::Cancel(reason))).is_ok());
}
