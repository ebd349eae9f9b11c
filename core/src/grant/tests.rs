use super::*;
use crate::format::head::HeadState;
use crate::format::id::ObjectId;

fn before() -> Head {
    Head {
        drive: Uuid::from_u128(1),
        epoch: Epoch(6),
        nonce: 3,
        device: Uuid::from_u128(4),
        device_name: "desk".into(),
        state: HeadState::Held,
        written_ms: 5,
        root: ObjectId { drive: Uuid::from_u128(1), epoch: Epoch(6), seq: 6, unique: 7 },
        root_hash: [8; 32],
        parent: ObjectId::NONE,
        moved_to: Vec::new(),
    }
}

fn grant() -> Grant {
    let to = Device { id: Uuid::from_u128(9), name: "lap".into() };
    Grant { session: Uuid::from_u128(10), to, written_ms: 11 }
}

#[test]
fn both_devices_make_the_same_head() {
    let head = grant().head(&before(), &[12; 32]).unwrap();
    assert_eq!(head, grant().head(&before(), &[12; 32]).unwrap());
    assert_eq!((head.epoch, head.device, head.root), (Epoch(7), Uuid::from_u128(9), before().root));
    assert_eq!(format!("{:032x}", head.nonce), NONCE, "other computers have to find the same number");
    assert!(is_grant_of(&head, Uuid::from_u128(10), &[12; 32]));
    assert!(!is_grant_of(&head, Uuid::from_u128(10), &[13; 32]), "another delta");
    assert!(!is_grant_of(&head, Uuid::from_u128(11), &[12; 32]), "another session");
    for other in [
        Head { epoch: Epoch(8), ..head.clone() },
        Head { device: Uuid::nil(), ..head.clone() },
        Head { state: HeadState::Released, ..head.clone() },
        Head { root_hash: [9; 32], ..head.clone() },
    ] {
        assert!(!is_grant_of(&other, Uuid::from_u128(10), &[12; 32]), "{other:?}");
    }
}

const NONCE: &str = "0";

#[test]
fn a_delta_is_its_content_and_not_its_history() {
    let block = |byte: u8| [byte; BLOCK_BYTES as usize];
    let run = |start, end| BlockRange { start, end };
    let mut one = Delta::default();
    one.data(1, &block(1));
    one.data(2, &block(2));
    one.zero(run(2, 8));
    one.data(4, &block(4));
    let mut other = Delta::default();
    other.zero(run(5, 8));
    other.data(4, &block(3));
    other.zero(run(2, 4));
    other.data(4, &block(4));
    other.data(1, &block(1));
    assert_eq!(one.hash(9, &[]), other.hash(9, &[]));
    assert_eq!((one.data_blocks(), one.zero_runs()), (2, 2));
    assert_ne!(one.hash(9, &[]), one.hash(10, &[]), "another size");
    let lineage = Lineage { epoch: Epoch(1), journal: Uuid::nil(), cut: Lsn(1), crc: 1 };
    assert_ne!(one.hash(9, &[]), one.hash(9, &[lineage]), "another history");
    other.data(1, &block(9));
    assert_ne!(one.hash(9, &[]), other.hash(9, &[]));
}
