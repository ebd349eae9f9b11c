//! Records of sessions, kept as bytes under `core/tests/data`: every later version reads them. `just fixtures` writes those that are missing.

use crate::world::offer;
use bytes::Bytes;
use holdall_core::format::FormatError;
use holdall_core::migrate::message::{Final, Reason, ReasonKind};
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::session::Record;
use std::path::{Path, PathBuf};

fn records() -> [(&'static str, Record); 2] {
    let offer = offer(Bytes::from_static(b"HEAD before"));
    let end = Final {
        attempt: 3,
        rounds: 7,
        delta_hash: [9; 32],
        cut: 1234,
        cut_crc: 0xabcd_ef01,
        size_blocks: 700,
        head: Bytes::from_static(b"HEAD to be"),
        arrival: Bytes::new(),
    };
    let mut seeder =
        Record::new(Role::Seeder, [1; 32], "work laptop".to_owned(), offer.clone(), 1_700_000_000_000);
    (seeder.phase, seeder.attempt, seeder.end, seeder.frozen_ms) =
        (Phase::Released, 3, Some(end), 1_700_000_060_000);
    let mut leecher = Record::new(Role::Leecher, [2; 32], "desk".to_owned(), offer, 1_700_000_000_100);
    (leecher.phase, leecher.ended_ms) = (Phase::Cancelled, 1_700_000_070_000);
    leecher.reason = Some(Reason::new(ReasonKind::NoSpace, "the disk is full"));
    [("seeder", seeder), ("leecher", leecher)]
}

fn at(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1/migration").join(name)
}

#[test]
fn records_of_every_format_are_read() {
    for (name, record) in records() {
        let bytes = std::fs::read(at(name)).unwrap();
        assert_eq!(Record::decode(&bytes).unwrap(), record, "{name}");
        assert_eq!(record.encode(), bytes, "{name}");
    }
}

#[test]
fn refuses_damaged_and_newer_records() {
    for (_, record) in records() {
        let bytes = record.encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Record::decode(&damaged).is_err(), "byte {at}");
            assert!(Record::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let mut newer = bytes;
        newer[7] += 1;
        assert_eq!(Record::decode(&newer), Err(FormatError::Newer { found: 2, known: 1 }));
    }
}

#[test]
#[ignore = "writes the fixtures that are missing: just fixtures"]
fn write_fixtures() {
    for (name, record) in records() {
        std::fs::create_dir_all(at("")).unwrap();
        if !at(name).exists() {
            std::fs::write(at(name), record.encode()).unwrap();
        }
    }
}
