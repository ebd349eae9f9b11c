//! Hostile and damaged imports.

use super::session::{HEADROOM, Model, Session, send_all};
use super::written;
use crate::bench::{Bench, device, run};
use holdall_core::disk::Disk;
use holdall_core::journal::import::ImportError;
use holdall_core::units::BlockRange;
use holdall_core::volume::{Arrival, ReceiveError};

#[test]
fn refuses_blocks_that_cannot_be() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let refused = session.try_receive(&hand_over, 1 << 40).await.err();
        assert!(matches!(refused, Some(ReceiveError::Import(ImportError::TooLarge { .. }))), "{refused:?}");
        let mut receiving = session.receive(&hand_over).await;
        let import = receiving.import_mut();
        let run = |start, end| BlockRange { start, end };
        for bad in [run(0, 257), run(256, 257), run(5, 5), run(u64::MAX - 1, u64::MAX), run(9, 3)] {
            assert!(matches!(import.zero(bad), Err(ImportError::Invalid(_))), "{bad:?}");
        }
        for (first, bytes) in [(0, 0), (0, 100), (256, 4096), (u64::MAX, 4096), (255, 8192)] {
            let refused = import.data(first, &vec![1; bytes]);
            assert!(matches!(refused, Err(ImportError::Invalid(_))), "{first} {bytes}");
        }
        // Zeros cost no disk, and have a limit all the same.
        let mut taken = 0;
        while import.zero(run(taken % 200, taken % 200 + 1)).is_ok() {
            taken += 1;
            assert!(taken <= HEADROOM / 64, "there is no limit");
        }
        assert!(import.bytes() <= HEADROOM);
        assert!(matches!(import.data(0, &[1; 4096]), Err(ImportError::TooLarge { limit_bytes: HEADROOM })));
    });
}

#[test]
fn refuses_a_grant_for_other_blocks() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        hand_over.hold().await.unwrap();
        hand_over.quiesce(super::LIMIT).await.unwrap();
        send_all(&hand_over, &mut receiving).await;
        let sealed = hand_over.seal().await.unwrap();
        let good = Arrival { head: sealed.head, root: sealed.root, lineage: sealed.lineage };
        let for_another = holdall_core::format::head::Head { device: device(2).id, ..good.head.clone() };
        let others = [
            Arrival { head: for_another, ..good.clone() },
            Arrival { lineage: Vec::new(), ..good.clone() },
            Arrival {
                head: holdall_core::format::head::Head { nonce: good.head.nonce ^ 1, ..good.head.clone() },
                ..good.clone()
            },
        ];
        for other in &others {
            assert!(matches!(receiving.finish(other).await, Err(ReceiveError::OtherGrant)), "{other:?}");
        }
        // Bytes that are cut or changed anywhere are refused, too.
        let bytes = good.encode(&bench.sealer);
        for len in 0..bytes.len() {
            assert!(Arrival::decode(&bench.sealer, &bytes[..len]).is_err(), "{len} bytes");
        }
        receiving.import_mut().data(3, &[99; 4096]).unwrap();
        assert!(matches!(receiving.finish(&good).await, Err(ReceiveError::OtherGrant)), "a changed block");
    });
}

#[test]
fn a_damaged_import_is_never_taken_for_a_shorter_one() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        send_all(&hand_over, &mut receiving).await;
        drop(receiving);
        let journal = bench.devices[1].journal.directory("journal");
        let name = journal.list().unwrap().into_iter().find(|name| name.starts_with("import-")).unwrap();
        journal.flip_bit(&name, (4096 + 64 + 100) * 8);
        let found = session.received().await.err();
        assert!(matches!(found, Some(ReceiveError::Import(ImportError::Damaged))), "{found:?}");
        // It begins again.
        let mut receiving = session.receive(&hand_over).await;
        assert_eq!(receiving.import().rounds(), 0);
        receiving.import_mut().zero(BlockRange { start: 0, end: 1 }).unwrap();
    });
}
