//! What an opening makes of what it finds on the device: what is a fork, and what is damage.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "no test uses all of the bench")]

mod bench;

use bench::{Bench, close, get, put, run, write};
use holdall_core::device::Durability;
use holdall_core::journal::JournalError;
use holdall_core::units::Lsn;
use holdall_core::volume::OpenError;

#[test]
fn a_take_over_and_a_crash_before_its_first_commit_are_no_fork() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
    });
    run(async {
        let second = bench.open(1).await.unwrap();
        put(&second, 1, 2).await;
    });
    bench.devices[1].power_cut();
    run(async {
        let second = bench.open(1).await.unwrap();
        assert_eq!(get(&second, 1).await, 2, "what was flushed is still there");
        close(second).await;
        let first = bench.open(0).await.unwrap();
        assert_eq!(get(&first, 1).await, 2, "and is what everyone sees");
    });
}

#[test]
fn what_others_have_overtaken_is_a_fork_and_is_left_as_it_is() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 1, 1).await;
        put(&first, 2, 1).await;
    });
    bench.devices[0].power_cut();
    run(async {
        let store = &bench.store;
        let head = holdall_core::drive::heads(store, &bench.sealer).await.unwrap().remove(0);
        let held = bench.open(1).await;
        assert!(matches!(held, Err(OpenError::Held { epoch, .. }) if epoch == head.epoch));
        let second = bench.take(1).await.unwrap();
        put(&second, 1, 2).await;
        close(second).await;
        for _ in 0..2 {
            let forked = bench.open(0).await;
            assert!(matches!(forked, Err(OpenError::Forked { unsent: 2 })), "it says so each time");
        }
    });
}

/// Sixty flushed blocks that the store does not have, in several files; then the power goes, and the cache with it.
fn full_journal() -> Bench {
    let mut bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        for block in 0..60 {
            put(&volume, block, 7).await;
        }
    });
    bench.devices[0].power_cut();
    bench.devices[0].lose_cache();
    assert!(bench.devices[0].journal_files().len() > 2, "{:?}", bench.devices[0].journal_files());
    bench
}

#[test]
fn a_gap_at_the_journals_front_is_damage() {
    let bench = full_journal();
    let (first, name) = bench.devices[0].journal_files().remove(0);
    assert_eq!(first, 1);
    // Its header rots, so that the file is none of the journal's any more.
    bench.devices[0].flip_journal_bit(&name, 25);
    run(async {
        let opened = bench.open(0).await;
        let Err(OpenError::Journal(JournalError::Damaged { lsn, durable })) = opened else {
            panic!("sixty flushed blocks are not all there, and it opens: {:?}", opened.err())
        };
        assert_eq!((lsn, durable), (Lsn(1), Lsn(60)));
    });
}

#[test]
fn a_gap_in_the_journals_middle_is_damage() {
    let bench = full_journal();
    let (_, name) = bench.devices[0].journal_files().remove(1);
    bench.devices[0].flip_journal_bit(&name, 25);
    run(async {
        let opened = bench.open(0).await;
        assert!(
            matches!(opened, Err(OpenError::Journal(JournalError::Damaged { .. }))),
            "{:?}",
            opened.err()
        );
    });
}

#[test]
fn damage_that_only_a_later_file_proves_is_damage() {
    let mut bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        // More than a file's worth, durable only by what follows in the next one.
        for block in 30..60 {
            write(&volume, block, 7, Durability::Ordered).await;
        }
        put(&volume, 20, 7).await;
        put(&volume, 21, 7).await;
    });
    bench.devices[0].power_cut();
    bench.devices[0].lose_cache();
    let files = bench.devices[0].journal_files();
    assert!(files.len() > 1, "{files:?}");
    // In the data of the fifth record.
    bench.devices[0].flip_journal_bit(&files[0].1, 4096 + 4 * 4160 + 1000);
    run(async {
        let opened = bench.open(0).await;
        let Err(OpenError::Journal(JournalError::Damaged { lsn, durable })) = opened else {
            panic!("a flushed block is damaged, and it opens: {:?}", opened.err())
        };
        assert!(lsn == Lsn(5) && durable >= Lsn(31), "{lsn} {durable}");
    });
}
