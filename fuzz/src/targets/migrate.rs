//! What the other device of a migration sends, and the records of sessions.

use bytes::Bytes;
use holdall_core::migrate::message::{Final, Greeting, Message, Offer, Part, Position, Reason, ReasonKind};
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::session::Record;
use holdall_core::migrate::wire::{self, HEADER_BYTES, Header};
use holdall_core::units::BlockRange;
use uuid::Uuid;

/// Bytes of a record before its checksum, which is corrected.
pub fn record(input: &[u8]) {
    let crc = crc32c::crc32c(input).to_le_bytes();
    let bytes = [input, &crc].concat();
    if let Ok(record) = Record::decode(&bytes) {
        assert_eq!(record.encode(), bytes, "a record has one form");
    }
}

/// Records, without their checksums.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let mut seeder = Record::new(Role::Seeder, [1; 32], "laptop".to_owned(), offer(), 5);
    let mut leecher = Record::new(Role::Leecher, [2; 32], "desk".to_owned(), offer(), 6);
    (seeder.phase, seeder.end) = (Phase::Released, Some(end()));
    (leecher.phase, leecher.reason) = (Phase::Cancelled, Some(Reason::new(ReasonKind::Disk, "it is full")));
    let bytes = [seeder, leecher].map(|record| record.encode());
    bytes.iter().map(|bytes| bytes[..bytes.len() - 4].to_vec()).collect()
}

/// A frame: its head, and what follows it.
pub fn message(input: &[u8]) {
    let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = Header::decode(head) else { return };
    let Some(body) = rest.get(..header.len) else { return };
    if let Ok(message) = wire::decode(header.kind, &Bytes::copy_from_slice(body)) {
        let frame = wire::encode(header.number, &message);
        assert_eq!(frame, input[..HEADER_BYTES + header.len], "a message has one form");
    }
}

/// One frame of most kinds.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let greeting = Greeting {
        oldest: 1,
        newest: 1,
        device: Uuid::from_u128(1),
        name: "laptop".to_owned(),
        session: Uuid::from_u128(2),
        role: Role::Seeder,
        phase: Some(Phase::Copying),
        position: Position::start(1),
    };
    let blocks = vec![BlockRange::new(3, 1), BlockRange::new(9, 2)];
    let zeros = vec![BlockRange::new(12, 7)];
    let data = Bytes::from(vec![1; 50]);
    let part = Part { at: Position::start(1), last: true, blocks, zeros, compressed: true, data };
    let messages = [
        Message::Hello(greeting),
        Message::Offer(Box::new(offer())),
        Message::Round(part),
        Message::RoundAck(Position::start(2)),
        Message::Prepared { attempt: 1, delta_blocks: 9 },
        Message::Final(end()),
        Message::FinalAck { attempt: 1, delta_hash: [3; 32] },
        Message::Cancel(Reason::new(ReasonKind::Person, "no")),
        Message::Ping,
    ];
    (0..).zip(&messages).map(|(number, message)| wire::encode(number, message)).collect()
}

fn offer() -> Offer {
    Offer {
        session: Uuid::from_u128(1),
        drive: Uuid::from_u128(2),
        name: "work".to_owned(),
        size_blocks: 1000,
        family: Bytes::from_static(b"{}"),
        stores: vec!["s3://bucket".to_owned()],
        head: Bytes::from_static(b"HEAD"),
        journal: Uuid::from_u128(3),
        dirty_bytes: 5,
        pins: vec!["/music".to_owned()],
        key: Bytes::from_static(b"key"),
        downtime_limit_ms: 300,
    }
}

fn end() -> Final {
    Final {
        attempt: 1,
        rounds: 2,
        delta_hash: [7; 32],
        cut: 99,
        cut_crc: 1,
        size_blocks: 1000,
        head: Bytes::from_static(b"HEAD to be"),
        arrival: Bytes::from_static(b"version"),
    }
}
